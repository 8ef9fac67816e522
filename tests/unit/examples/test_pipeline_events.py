"""The events of the pipeline example: their order, their number, the last one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from examples.flights.data import package_folder
from examples.pipeline import events

ALL_FLIGHTS = 336_776


@pytest.fixture(scope="module")
def flights() -> Any:
    return events.table(package_folder())


def test_each_flight_is_one_event(flights: Any) -> None:
    assert flights.num_rows == ALL_FLIGHTS
    assert ", ".join(flights.column_names) == ", ".join(part.split()[0] for part in events.SCHEMA.split(", "))


def test_events_come_out_of_order_but_never_later_than_said(flights: Any) -> None:
    times = flights["event_time"].to_numpy().astype("M8[m]")
    behind = (np.maximum.accumulate(times) - times).max().astype(int)
    assert 0 < behind <= events.DISORDER_MINUTES


def test_a_sample_is_the_first_flights_and_the_same_each_time() -> None:
    few, again = (events.table(package_folder(), 1000) for _ in range(2))
    assert few.equals(again)
    more = events.table(package_folder(), 2000)
    assert max(few["event_time"].to_pylist()) <= max(more["event_time"].to_pylist())


def test_the_last_event_is_of_no_flight_and_a_day_behind_all(flights: Any) -> None:
    last = events.closing(flights)
    newest = flights["event_time"].to_numpy().max()
    assert np.datetime64(last["event_time"].replace(tzinfo=None)) - newest == np.timedelta64(1, "D")
    assert {value for name, value in last.items() if name != "event_time"} == {None}


def test_a_cancelled_flight_has_no_delay_and_its_scheduled_time(flights: Any) -> None:
    cancelled = flights.filter(flights["cancelled"])
    assert cancelled.num_rows == 8255
    assert cancelled["departure_delay"].null_count == cancelled.num_rows
