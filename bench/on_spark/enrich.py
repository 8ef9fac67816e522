"""``Speed.enrich`` beside the same function in the worker itself, Arrow Flight, one call a row, and gRPC row by row."""

from __future__ import annotations

import functools
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from on_spark import flight_jvm, session
from on_spark.distance import PLACES, ask_grpc, exchanged, in_process, places_of, with_miles
from speed.spark import NodeSettings, Speed
from speed.spark.nodes import worker_node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 5_000_000
ROWS_ONE_BY_ONE = 40_000
ROUNDS, QUICK_ROUNDS = 7, 3
SERVICES = (("C++", "cpp", "geo"), ("Python", "python", "geo.python"))
WAYS = (("", "", "python"), (", from the JVM", "_jvm", "jvm"))
"""Names of services and of ways to call them, in the tables and in the figures; nodes and paths."""
SIZES = ("flights", "many", "places", "parquet")
"""Of the frames, in the figures. The cache hands out places as columns, and what has text in it as rows."""
JAVA_FLIGHT = "Arrow Flight, from the JVM"
Contender = Callable[["DataFrame"], "DataFrame"]


def contenders(spark: SparkSession, work: Path) -> tuple[dict[str, Contender], dict[str, Contender]]:
    """By name: those that take all rows, and those that take one row a call."""
    sp = Speed(spark, root=work / "root", key=work / "speed.key")

    def enriched(node: str, path: str) -> Contender:
        how = {"node": node, "service": "distance", "columns": PLACES, "returns": "miles double", "path": path}
        return lambda frame: sp.enrich(frame, **how)

    exchange = functools.partial(exchanged, f"grpc+unix://{work}/flight")
    whole = {
        "in process": lambda frame: frame.mapInArrow(in_process, _schema(frame)),
        "Arrow Flight": lambda frame: frame.mapInArrow(exchange, _schema(frame)),
        **{f"{language} service{way}": enriched(node, path) for language, _, node in SERVICES for way, _, path in WAYS},
    }
    if str(flight_jvm.NODE) in spark.conf.get("spark.driver.extraClassPath", ""):
        whole[JAVA_FLIGHT] = lambda frame: flight_jvm.enriched(frame, (work / "flight.address").read_text())
    one_by_one = {"SPEED, one call a row": _called(work), "gRPC, one call a row": _asked(f"unix:{work}/grpc")}
    return whole, one_by_one


def _called(work: Path) -> Contender:
    """``node.call`` for each row, by the worker's own node."""
    settings = NodeSettings(root=str(work / "root"), key=str(work / "speed.key"), prefix="etl", application="rows")

    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        node = worker_node(settings)
        for rows in batches:
            yield with_miles(rows, pa.array([node.call("geo", "distance", place) for place in places_of(rows)]))

    return lambda frame: frame.mapInArrow(call, _schema(frame))


def _asked(address: str) -> Contender:
    """A pandas UDF that asks for each row."""
    import pandas as pd
    from pyspark.sql.functions import coalesce, lit, pandas_udf

    def ask(lat1: pd.Series, lon1: pd.Series, lat2: pd.Series, lon2: pd.Series) -> pd.Series:
        return pd.Series([ask_grpc(address, place) for place in zip(lat1, lon1, lat2, lon2, strict=True)])

    ask.__annotations__ = dict.fromkeys([*PLACES, "return"], pd.Series)
    asking = pandas_udf(ask, "double")
    return lambda frame: frame.withColumn("miles", asking(*(coalesce(name, lit(90.0)) for name in PLACES)))


def _schema(frame: DataFrame) -> str:
    return ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in frame.schema) + ", miles double"


def measure(spark: SparkSession, work: Path, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of each contender by frame, the ratios, and the rows a second of those that take one row a call."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    flights = session.flights(spark, work)
    many = session.many(flights, ROWS)
    places = many.select(*PLACES)
    frames = {
        f"{flights.count():,} flights": flights,
        f"{ROWS:,} rows": many,
        f"{ROWS:,} places": session.cached(places),
        f"{ROWS:,} places of Parquet": session.of_parquet(places, work),
    }
    few = session.cached(flights.limit(ROWS_ONE_BY_ONE).repartition(4))
    with session.services(work, "cpp", "python", "grpc", "flight"):
        whole, one_by_one = contenders(spark, work)
        check_same(flights, whole)
        check_same(few, one_by_one)
        found = {name: rounds_of(whole, frame, rounds, name, say) for name, frame in frames.items()}
        rows = {name: frame.count() for name, frame in frames.items()}
        singles = rounds_of(one_by_one, few, min(rounds, QUICK_ROUNDS), f"{ROWS_ONE_BY_ONE:,} rows", say)
    spark.catalog.clearCache()
    medians = {frame: {name: one.medians() for name, one in by.items()} for frame, by in found.items()}
    samples = {frame: {name: vars(one) for name, one in by.items()} for frame, by in found.items()}
    figures = _figures(medians, rows, {name: one.medians()[0] for name, one in singles.items()})
    return {"samples": samples, "medians": medians, "figures": figures}


def check_same(frame: DataFrame, contenders: dict[str, Contender]) -> None:
    """All compute the same; an unknown place is null to some and NaN to others. Raises RuntimeError."""
    from pyspark.sql import functions as f

    known = f.col("lat2").isNotNull()
    sums = {
        name: compute(frame).where(known).agg(f.sum("miles")).collect()[0][0] for name, compute in contenders.items()
    }
    if max(sums.values()) - min(sums.values()) > 1e-9 * max(sums.values()):
        raise RuntimeError(f"the contenders do not compute the same: {sums}")


@dataclass
class Times:
    """Of one contender: seconds until it was done, and processor seconds of all processes that took part."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def medians(self) -> tuple[float, float]:
        """Of both."""
        return statistics.median(self.seconds), statistics.median(self.cpu_seconds)


def rounds_of(
    contenders: dict[str, Contender], frame: DataFrame, rounds: int, title: str, say: Callable[[str], None]
) -> dict[str, Times]:
    """Times of each, in rounds of a new order, after one that is not counted."""
    found = {name: Times() for name in contenders}
    for number in range(-1, rounds):
        for name in random.sample(list(contenders), len(contenders)):
            cpu, began = session.cpu_seconds(), time.perf_counter()
            session.compute(contenders[name](frame))
            if number >= 0:
                found[name].seconds.append(time.perf_counter() - began)
                found[name].cpu_seconds.append(session.cpu_seconds() - cpu)
    for name, times in found.items():
        low, high = min(times.seconds), max(times.seconds)
        seconds, cpu = times.medians()
        say(f"{title}: {name}: {seconds:.3f} s ({low:.3f} to {high:.3f}), {cpu:.3f} s of processors")
    return found


def _figures(
    medians: dict[str, dict[str, tuple[float, float]]], rows: dict[str, int], singles: dict[str, float]
) -> dict[str, float]:
    """Ratios of medians; what takes one row a call is compared by the time of a row.

    To the worker itself it is the larger ratio, of time or of processors' time: a busy machine favours many processes.
    """
    figures: dict[str, float] = {}
    for size, (frame, by_name) in zip(SIZES, medians.items(), strict=True):
        base, base_cpu = by_name["in process"]
        flight, flight_cpu = by_name["Arrow Flight"]
        _, java_cpu = by_name.get(JAVA_FLIGHT, (0.0, 0.0))
        for language, service, _ in SERVICES:
            for way, suffix, _ in WAYS:
                seconds, cpu = by_name[f"{language} service{way}"]
                figures[f"{service}{suffix}/{size}"] = max(seconds / base, cpu / base_cpu)
                figures[f"{service}{suffix}/flight/{size}"] = seconds / flight
                figures[f"{service}{suffix}/flight_cpu/{size}"] = cpu / flight_cpu
                if java_cpu:
                    figures[f"{service}{suffix}/java_flight_cpu/{size}"] = cpu / java_cpu
        a_row = by_name["C++ service"][0] / rows[frame]
        for name, key in (("SPEED, one call a row", "call"), ("gRPC, one call a row", "grpc")):
            figures[f"{key}/{size}"] = singles[name] / ROWS_ONE_BY_ONE / a_row
    return figures
