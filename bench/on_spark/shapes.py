"""Services on text, and on structs and lists, beside Arrow Flight: what columns of other shapes cost.

The frames are rows, as after a join or a filter: nothing lies in columns before it is sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from on_spark import flight_jvm, session
from on_spark.enrich import QUICK_ROUNDS, ROUNDS, rounds_of
from speed.spark import Speed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, QUICK_ROWS, CHECKED_ROWS = 3_000_000, 500_000, 20_000
LATE_MINUTES = 15.0
_PARTITIONS = 4


def label(rows: pa.RecordBatch) -> pa.Array:
    """Two texts and a number in, a text out."""
    is_late = pc.greater(rows.column("delay"), LATE_MINUTES)
    state = pc.if_else(is_late, "late", "on time")
    return pc.binary_join_element_wise(rows.column("carrier"), rows.column("tail"), state, " ")


def route(rows: pa.RecordBatch) -> pa.Array:
    """A struct and a list of numbers in, a struct with a list out."""
    legs = rows.column("legs")
    offsets, miles = legs.offsets.to_numpy(), legs.values.to_numpy()
    until = np.concatenate([[0.0], np.cumsum(miles)])
    total = pa.array(until[offsets[1:]] - until[offsets[:-1]])
    hours = pa.ListArray.from_arrays(legs.offsets, pa.array(miles / 500))
    return pa.StructArray.from_arrays([rows.column("place").field("name"), total, hours], ["name", "total", "hours"])


class Shape(NamedTuple):
    """What goes to a service, and what comes back."""

    name: str
    function: Callable[[pa.RecordBatch], pa.Array]
    sent: dict[str, str]
    """Expressions by column."""
    answer: str
    arrow: pa.DataType


_TEXT = pa.string()
_ROUTE = pa.struct([("name", _TEXT), ("total", pa.float64()), ("hours", pa.list_(pa.float64()))])
SHAPES = {
    "strings": Shape(
        "label",
        label,
        {
            "carrier": "concat('carrier ', id % 16)",
            "tail": "IF(id % 50 = 1, NULL, concat('N', id % 4000, 'AA'))",
            "delay": "CAST(id % 60 AS DOUBLE)",
        },
        "state string",
        _TEXT,
    ),
    "nested": Shape(
        "route",
        route,
        {
            "place": "named_struct('name', concat('place ', id % 300), 'lat', id % 90 / 2D, 'lon', id % 180 / 3D)",
            "legs": "transform(sequence(1, 2 + id % 4), leg -> CAST(leg * 100 + id % 7 AS DOUBLE))",
        },
        "way struct<name:string,total:double,hours:array<double>>",
        _ROUTE,
    ),
}


def exchanged(address: str, shape: Shape, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: by Arrow Flight, one exchange a partition."""
    from pyarrow import flight

    descriptor = flight.FlightDescriptor.for_command(shape.name.encode())
    with flight.connect(address) as client:
        writer, reader = client.do_exchange(descriptor)
        with writer:
            begun = False
            for rows in batches:
                if not begun:
                    writer.begin(rows.schema)
                    begun = True
                writer.write_batch(rows)
                yield _with(shape, rows, reader.read_chunk().data.column(0))
            if begun:
                writer.done_writing()


def in_process(shape: Shape, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: without a service."""
    for rows in batches:
        yield _with(shape, rows, shape.function(rows))


def _with(shape: Shape, rows: pa.RecordBatch, answer: pa.Array) -> pa.RecordBatch:
    name = shape.answer.split()[0]
    return pa.RecordBatch.from_arrays([*rows.columns, answer], names=[*rows.schema.names, name])


def frame_of(spark: SparkSession, shape: Shape, rows: int) -> DataFrame:
    """Rows in memory."""
    made = spark.range(0, rows, 1, _PARTITIONS)
    columns = [f"{expression} AS {name}" for name, expression in shape.sent.items()]
    return session.cached(made.selectExpr(*columns)).where("rand() >= 0")  # rows: a filter has no columns


def contenders(spark: SparkSession, work: Path, shape: Shape) -> dict[str, Callable[[DataFrame], DataFrame]]:
    """By name, as those of ``enrich``."""
    sp = Speed(spark, root=work / "root", key=work / "speed.key")
    exchange = functools.partial(exchanged, f"grpc+unix://{work}/flight", shape)
    call: dict[str, Any] = {"node": "geo.python", "service": shape.name, "columns": [*shape.sent]}
    call["returns"] = shape.answer

    def schema(frame: DataFrame) -> str:
        return ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in frame.schema) + f", {shape.answer}"

    found: dict[str, Callable[[DataFrame], DataFrame]] = {
        "in process": lambda frame: frame.mapInArrow(functools.partial(in_process, shape), schema(frame)),
        "Arrow Flight": lambda frame: frame.mapInArrow(exchange, schema(frame)),
        "Python service": lambda frame: sp.enrich(frame, **call, path="python"),
        "Python service, from the JVM": lambda frame: sp.enrich(frame, **call, path="jvm"),
    }
    if str(flight_jvm.NODE) in spark.conf.get("spark.driver.extraClassPath", ""):
        address = (work / "flight.address").read_text()
        found["Arrow Flight, from the JVM"] = lambda frame: flight_jvm.enriched(
            frame, address, shape.name, [*shape.sent], shape.answer
        )
    return found


def check_same(frame: DataFrame, found: dict[str, Callable[[DataFrame], DataFrame]]) -> None:
    """All answer the same. Raises RuntimeError."""
    sums = {
        name: compute(frame).selectExpr("bit_xor(xxhash64(struct(*))) AS sum").first()[0]
        for name, compute in found.items()
    }
    if len(set(sums.values())) > 1:
        raise RuntimeError(f"the contenders do not compute the same: {sums}")


def measure(spark: SparkSession, work: Path, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of each contender by shape, and the ratios."""
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    medians: dict[str, dict[str, tuple[float, float]]] = {}
    figures: dict[str, float] = {}
    with session.services(work, "python", "flight"):
        for key, shape in SHAPES.items():
            title, found = f"{rows:,} rows of {key}", contenders(spark, work, shape)
            check_same(frame_of(spark, shape, CHECKED_ROWS), found)
            times = rounds_of(found, frame_of(spark, shape, rows), rounds, title, say)
            medians[title] = {name: one.medians() for name, one in times.items()}
            figures |= _figures(key, medians[title])
            spark.catalog.clearCache()
    return {"medians": medians, "figures": figures}


def _figures(key: str, by_name: dict[str, tuple[float, float]]) -> dict[str, float]:
    seconds, cpu = by_name["Python service, from the JVM"]
    flight, flight_cpu = by_name["Arrow Flight"]
    figures = {f"{key}/flight": seconds / flight, f"{key}/flight_cpu": cpu / flight_cpu}
    if "Arrow Flight, from the JVM" in by_name:
        figures[f"{key}/java_flight_cpu"] = cpu / by_name["Arrow Flight, from the JVM"][1]
    return figures
