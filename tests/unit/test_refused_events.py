"""How often a publisher is told that its events are refused (J-9)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from speed.engine.python import batches
from speed.engine.python.batches import Arrival, RefusedEvents
from speed.errors import JournalFullError, JournalRefusedError, StorageError


class Publisher:
    """What one node was told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[tuple[str, str]] = []

    def arrival(self, *, is_event: bool = True, wants_ack: bool = False) -> Arrival:
        def refuse(code: str, text: str) -> None:
            self.told.append((code, text))

        lane: Any = SimpleNamespace(source=self.name)
        answer = (lambda waiting: None, refuse)
        return Arrival(
            lane,
            None,  # type: ignore[arg-type]
            is_event=is_event,
            redelivered=False,
            run=lambda arrival, work: None,
            answer=answer,
            wants_ack=wants_ack,
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(batches, "monotonic", lambda: now[0])
    return now


def test_a_publisher_is_told_once_a_second_with_what_was_left_out(clock: list[float]) -> None:
    reports, one, other = RefusedEvents(), Publisher("one"), Publisher("other")
    for _ in range(5):
        reports.report(one.arrival(), JournalFullError("topic a: full"))
    reports.report(other.arrival(), JournalRefusedError("topic b is refused"))
    assert one.told == [("JOURNAL_FULL", "topic a: full")]
    assert other.told == [("JOURNAL_REFUSED", "topic b is refused")]
    clock[0] += 1.0
    reports.report(one.arrival(), JournalFullError("topic c: full"))
    assert one.told[1:] == [("JOURNAL_FULL", "topic c: full; 4 more of its events were refused since the last report")]


def test_only_events_that_nobody_asked_to_acknowledge_are_reported(clock: list[float]) -> None:
    """S-11."""
    reports, publisher = RefusedEvents(), Publisher("one")
    error = JournalFullError("full")
    reports.report(publisher.arrival(is_event=False), error)
    reports.report(publisher.arrival(wants_ack=True), error)
    clock[0] += 1.0
    reports.report(publisher.arrival(), StorageError("no room"))
    assert publisher.told == []


def test_what_is_remembered_of_publishers_is_bounded(clock: list[float]) -> None:
    reports = RefusedEvents()
    for number in range(5000):
        clock[0] += 0.0001
        reports.report(Publisher(f"n{number}").arrival(), JournalFullError("full"))
    assert len(reports._last_reports) <= 1024
