"""The flights of 2013 through the C++ service of distances and the Java service of compensations, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.flights import data
from examples.flights.services import geo, rules
from speed.spark import Speed
from tests.interop.hosted import Hosted

pytestmark = [pytest.mark.system, pytest.mark.spark]

FLIGHTS = 336_776
PLACES = {"origin_lat": "lat1", "origin_lon": "lon1", "dest_lat": "lat2", "dest_lon": "lon2"}
OUTCOME = ["delay_minutes", "distance_miles", "cancelled"]


@pytest.fixture(scope="module")
def hosted() -> Iterator[Hosted]:
    """speedd with geo in C++ and rules in Java."""
    hosted = Hosted("speedd.toml")
    try:
        assert hosted.wait() == {"geo": "c++", "rules": "java"}
        yield hosted
    finally:
        hosted.close()


@pytest.fixture(scope="module")
def sp_of_flights(spark: Any, hosted: Hosted, path: str) -> Iterator[Speed]:
    batch = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(batch)
    spark.conf.set(batch, "10000")
    sp = Speed(spark, root=hosted.root, path=path)
    yield sp
    sp.close()
    spark.conf.set(batch, before)


@pytest.fixture(scope="module")
def flights(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One row a flight with its two places; four airports have none."""
    tables = data.read(spark, Path(tmp_path_factory.mktemp("flights")))
    places = {
        end: tables.airports.selectExpr(f"faa AS {end}", f"lat AS {end}_lat", f"lon AS {end}_lon")
        for end in ("origin", "dest")
    }
    joined = tables.flights.join(places["origin"], "origin", "left").join(places["dest"], "dest", "left")
    outcome = ["COALESCE(arr_delay, 0) AS delay_minutes", "distance AS distance_miles", "dep_time IS NULL AS cancelled"]
    renamed = [f"{name} AS {argument}" for name, argument in PLACES.items()]
    return joined.selectExpr("origin", "dest", *outcome, *renamed).cache()


def test_all_flights_get_their_distance_from_cpp(sp_of_flights: Speed, flights: Any) -> None:
    """C-6: those of each route are what the function in Python says; where an airport has no place there is none."""
    enriched = sp_of_flights.enrich(
        flights, node="geo", service="distance", columns=list(PLACES.values()), returns="miles double"
    )
    routes = enriched.groupBy("origin", "dest", *PLACES.values()).agg({"*": "count", "miles": "min"}).collect()
    assert sum(row["count(1)"] for row in routes) == FLIGHTS
    for row in routes:
        place = [row[name] for name in PLACES.values()]
        if None in place:
            assert row["min(miles)"] is None
        else:
            assert row["min(miles)"] == pytest.approx(geo.distance(*place), rel=1e-9)


def test_all_flights_get_their_compensation_from_java(sp_of_flights: Speed, flights: Any) -> None:
    """C-6: two columns in one answer."""
    enriched = sp_of_flights.enrich(
        flights, node="rules", service="compensation", columns=OUTCOME, returns="category string, amount long"
    )
    counted = enriched.groupBy("category", "amount").count().collect()
    distinct = flights.groupBy(*OUTCOME).count().collect()
    expected: dict[tuple[Any, Any], int] = {}
    for row in distinct:
        answer = rules.compensation(*(row[name] for name in OUTCOME))
        kind = (answer["category"], answer["amount"])
        expected[kind] = expected.get(kind, 0) + row["count"]
    assert {(row.category, row.amount): row["count"] for row in counted} == expected


@pytest.mark.parametrize(
    ("node", "service", "changed", "says"),
    [
        ("geo", "distance", "lat1", r"ExecutionFailedError: geo\.distance, batch 2 .*row 21234: .*latitude 91"),
        (
            "rules",
            "compensation",
            "distance_miles",
            r"rules\.compensation, batch 2 .*row 21234: .*must be positive, not -1",
        ),
    ],
)
def test_a_row_that_makes_a_service_fail_is_named(
    spark: Any, sp_of_flights: Speed, node: str, service: str, changed: str, says: str
) -> None:
    """C-7: in C++ and in Java as in Python."""
    wrong = {"lat1": "91D", "distance_miles": "-1D"}
    right = {"lat1": "1D", "lon1": "2D", "lat2": "3D", "lon2": "4D"}
    right |= {"delay_minutes": "5D", "distance_miles": "100D", "cancelled": "false"}
    names = list(PLACES.values()) if node == "geo" else OUTCOME
    right[changed] = f"IF(id = 21234, {wrong[changed]}, {right[changed]})"
    values = [f"{right[name]} AS {name}" for name in names]
    frame = spark.range(30_000).coalesce(1).selectExpr(*values)
    returns = "miles double" if node == "geo" else "category string, amount long"
    with pytest.raises(Exception, match=says):
        sp_of_flights.enrich(frame, node=node, service=service, columns=names, returns=returns).collect()


@pytest.mark.parametrize(
    ("node", "service", "names", "says"),
    [
        ("geo", "distance", ["lat1", "lon1", "lat2"], r"InvalidArgumentsError: geo\.distance.*missing argument 'lon2'"),
        ("rules", "compensation", ["delay_minutes", "distance_miles"], r"rules\.compensation.*'cancelled'"),
    ],
)
def test_an_argument_that_is_missing_is_named(
    spark: Any, sp_of_flights: Speed, node: str, service: str, names: list[str], says: str
) -> None:
    """S-9: in C++ and in Java."""
    frame = spark.range(3).selectExpr(*(f"1D AS {name}" for name in names))
    returns = "miles double" if node == "geo" else "category string, amount long"
    with pytest.raises(Exception, match=says):
        sp_of_flights.enrich(frame, node=node, service=service, columns=names, returns=returns).collect()
