"""When speedd seals anew, how often, and what it says of it (J-16)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from speed.daemon.resealing import MOST_TOLD, Resealing
from speed.errors import StorageError
from speed.journal.reseal import Resealed
from speed.wire.seal import Keyring

ONE, OTHER = bytes(32), bytes([1]) * 32


class Log:
    """What was said: event and fields."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def _say(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))

    info = warning = error = _say


class Source:
    """Gives what is set; counts its runs."""

    def __init__(self, *files: Resealed) -> None:
        self.files, self.runs = files, 0
        self.failing = ""

    def __call__(self) -> Iterator[Resealed]:
        self.runs += 1
        if self.failing:
            raise StorageError(self.failing)
        yield from self.files


@pytest.fixture
def log() -> Log:
    return Log()


def look(resealing: Resealing) -> None:
    """And wait for what it began."""
    resealing.look()
    if resealing._thread is not None:
        resealing._thread.join()


def test_it_runs_once_for_the_keys_that_there_are_and_again_when_they_change(log: Log) -> None:
    source, ring = Source(Resealed("a", 10), Resealed("b", 5, "half")), Keyring((ONE,))
    resealing = Resealing([source, source], ring, log)
    for _ in range(3):
        look(resealing)
    assert source.runs == 2
    assert log.said[-1] == ("sealed_anew", {"files": 4, "bytes": 30, "troubles": 2})
    ring.take((OTHER, ONE))
    look(resealing)
    assert source.runs == 4


def test_nothing_is_said_where_nothing_was_to_do(log: Log) -> None:
    look(Resealing([Source()], Keyring((ONE,)), log))
    nothing = Resealing([], Keyring((ONE,)), log)
    look(nothing)
    nothing.close()
    assert log.said == []


def test_a_failure_is_said_once_for_each_reason_and_tried_again(log: Log) -> None:
    source = Source(Resealed("a", 10))
    resealing = Resealing([source], Keyring((ONE,)), log)
    for reason in ("full", "full", "broken", "", ""):
        source.failing = reason
        look(resealing)
    assert [event for event, _ in log.said] == ["sealing_anew_failed", "sealing_anew_failed", "sealed_anew"]
    assert source.runs == 4


def test_only_so_many_files_are_named_and_the_others_counted(log: Log) -> None:
    look(Resealing([Source(*[Resealed("a", 0, "damaged")] * 100)], Keyring((ONE,)), log))
    assert len(log.said) == MOST_TOLD + 1
    assert log.said[-1] == ("sealed_anew", {"files": 0, "bytes": 0, "troubles": 100})


def test_closing_ends_a_run_and_a_second_one_is_not_begun_beside_it(log: Log) -> None:
    runs, begun, going_on = [], threading.Event(), threading.Event()

    def endless() -> Iterator[Resealed]:
        runs.append(1)
        while True:
            begun.set()
            assert going_on.wait(30)
            yield Resealed("a", 1)

    ring = Keyring((ONE,))
    resealing = Resealing([endless], ring, log)
    resealing.look()
    assert begun.wait(30)
    ring.take((OTHER, ONE))
    resealing.look()
    closing = threading.Thread(target=resealing.close)
    closing.start()
    going_on.set()
    closing.join(30)
    assert not closing.is_alive()
    assert (runs, log.said) == ([1], [])
