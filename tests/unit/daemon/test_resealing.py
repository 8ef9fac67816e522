"""When speedd seals anew, how often, and what it says of it (J-16)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speed.daemon.hosting import MAX_REPORTED, Resealing
from speed.errors import StorageError
from speed.fs.keyfile import KeySource, write_key_file
from speed.journal.reseal import Resealed

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


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "speed.key")
    write_key_file(path, (ONE,))
    return path


@pytest.fixture
def keys(file: str) -> KeySource:
    return KeySource(file)


def look(resealing: Resealing) -> None:
    """And wait for what it began."""
    resealing.look()
    if resealing._thread is not None:
        resealing._thread.join()


def test_it_runs_once_for_the_keys_that_there_are_and_again_when_they_change(
    log: Log, file: str, keys: KeySource
) -> None:
    source = Source(Resealed("a", 10), Resealed("b", 5, "half"))
    resealing = Resealing([source, source], keys, log)
    for _ in range(3):
        look(resealing)
    assert source.runs == 2
    assert log.said[-1] == ("sealed_anew", {"files": 4, "bytes": 30, "troubles": 2})
    write_key_file(file, (OTHER, ONE), replace=True)
    keys.look()
    look(resealing)
    assert source.runs == 4


def test_keys_that_change_meanwhile_make_it_run_again_before_it_says_that_it_is_done(
    log: Log, file: str, keys: KeySource
) -> None:
    runs = []

    def source() -> Iterator[Resealed]:
        if not runs:
            write_key_file(file, (OTHER, ONE), replace=True)
        runs.append(1)
        yield Resealed("a", 10)

    look(Resealing([source], keys, log))
    assert len(runs) == 2
    assert log.said == [("sealed_anew", {"files": 2, "bytes": 20, "troubles": 0})]


def test_nothing_is_said_where_nothing_was_to_do(log: Log, keys: KeySource) -> None:
    look(Resealing([Source()], keys, log))
    nothing = Resealing([], keys, log)
    look(nothing)
    nothing.close()
    assert log.said == []


def test_a_failure_is_said_once_for_each_reason_and_tried_again(log: Log, keys: KeySource) -> None:
    source = Source(Resealed("a", 10))
    resealing = Resealing([source], keys, log)
    for reason in ("full", "full", "broken", "", ""):
        source.failing = reason
        look(resealing)
    assert [event for event, _ in log.said] == ["sealing_anew_failed", "sealing_anew_failed", "sealed_anew"]
    assert source.runs == 4


def test_only_so_many_files_are_named_and_the_others_counted(log: Log, keys: KeySource) -> None:
    look(Resealing([Source(*[Resealed("a", 0, "damaged")] * 100)], keys, log))
    assert len(log.said) == MAX_REPORTED + 1
    assert log.said[-1] == ("sealed_anew", {"files": 0, "bytes": 0, "troubles": 100})


def test_closing_ends_a_run_and_a_second_one_is_not_begun_beside_it(log: Log, file: str, keys: KeySource) -> None:
    runs, begun, going_on = [], threading.Event(), threading.Event()

    def endless() -> Iterator[Resealed]:
        runs.append(1)
        while True:
            begun.set()
            assert going_on.wait(30)
            yield Resealed("a", 1)

    resealing = Resealing([endless], keys, log)
    resealing.look()
    assert begun.wait(30)
    write_key_file(file, (OTHER, ONE), replace=True)
    keys.look()
    resealing.look()
    closing = threading.Thread(target=resealing.close)
    closing.start()
    going_on.set()
    closing.join(30)
    assert not closing.is_alive()
    assert (runs, log.said) == ([1], [])
