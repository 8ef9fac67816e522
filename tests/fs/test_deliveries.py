"""How often messages that came again were begun, on disk (L-25)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from speed.fs import committed
from speed.wire import names
from tests.fs.lanes import Lane, sealed


def begun(lane: Lane, generation: int) -> list[int]:
    """A process reads the lane, begins what came again, and dies over it."""
    reader = lane.reader(generation)
    received, _ = reader.read(64, 1 << 20, lane.now)
    counts = [reader.begin_again(one.token) for one in received if one.redelivered]
    reader.abandon()
    return counts


def test_each_life_counts_the_message_that_ended_it_once_more(lane: Lane) -> None:
    lane.writer().append(sealed(1))
    assert [begun(lane, generation) for generation in (1, 2, 3, 4)] == [[], [2], [3], [4]]
    assert list(files(lane)) == [names.deliveries_name(4)]


def files(lane: Lane) -> list[str]:
    return sorted(name for name in os.listdir(lane.path) if names.parse_deliveries(name))


def test_a_message_that_is_finished_is_not_counted_any_longer(lane: Lane) -> None:
    lane.writer().append(sealed(1))
    begun(lane, 1)
    reader = lane.reader(2)
    ((one,), _) = reader.read(64, 1 << 20, lane.now)
    assert reader.begin_again(one.token) == 2
    reader.finish(one.token)
    assert files(lane) == []


def test_a_damaged_file_is_counted_and_counts_as_absent(lane: Lane) -> None:
    lane.writer().append(sealed(1))
    begun(lane, 1)
    begun(lane, 2)
    path = Path(lane.path, names.deliveries_name(2))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    reader = lane.reader(3)
    assert reader.counts["deliveries_damaged"] == 1
    ((one,), _) = reader.read(64, 1 << 20, lane.now)
    assert reader.begin_again(one.token) == 2


def test_a_file_of_deliveries_is_no_foreign_file(lane: Lane) -> None:
    lane.writer().append(sealed(1))
    begun(lane, 1)
    begun(lane, 2)
    reader = lane.reader(3)
    lane.read_all(reader, scan=True)
    assert "foreign_files" not in reader.counts


def test_a_file_of_deliveries_has_one_spelling() -> None:
    assert names.parse_deliveries("deliveries.000007") == 7
    for other in ("deliveries.7", "deliveries.0000007", "deliveries.000000", "delivery.000007"):
        assert names.parse_deliveries(other) is None


def test_a_note_that_cannot_be_written_is_counted(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """One death more is needed before the message is given up; it is never lost for that."""

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    lane.writer().append(sealed(1))
    assert [begun(lane, generation) for generation in (1, 2)] == [[], [2]]
    monkeypatch.setattr(committed, "replace_file", refuse)
    monkeypatch.setattr(committed, "unlink_quietly", refuse)
    reader = lane.reader(3)
    ((one,), _) = reader.read(64, 1 << 20, lane.now)
    assert reader.begin_again(one.token) == 2
    reader.finish(one.token)
    assert reader.counts["deliveries_failed"] == 2


def test_what_was_committed_when_it_began_is_finished_already(lane: Lane) -> None:
    """S-8."""
    lane.writer().append(sealed(1))
    reader = lane.reader()
    ((one,), _) = reader.read(64, 1 << 20, lane.now)
    reader.finish(one.token)
    before = (lane.path / names.cursor_name(1)).read_bytes()
    reader.finish(one.token)
    assert (lane.path / names.cursor_name(1)).read_bytes() == before
