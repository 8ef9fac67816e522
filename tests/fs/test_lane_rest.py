"""A lane at rest holds no file open, and goes on where it was (L-26)."""

from __future__ import annotations

import errno
import os

import pytest

from speed.fs.lane_files import LaneFiles
from speed.wire import names
from speed.wire.cursor import Cursor
from tests.fs.lanes import LANE_KEY, Lane, counters, sealed


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_lane_at_rest_holds_nothing_open_and_reads_on(lane: Lane) -> None:
    writer = lane.writer()
    writer.append([sealed(1), sealed(2)])
    assert lane.inbox.quarantine_store  # it is open for all lanes
    before = open_files()
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1, 2]
    assert open_files() > before
    reader.rest()
    assert open_files() == before
    writer.append(sealed(3))
    assert counters(lane.read_all(reader)) == [3]
    assert reader.counts == {}


def test_what_is_finished_at_rest_is_committed(lane: Lane) -> None:
    writer = lane.writer()
    writer.append([sealed(1), sealed(2)])
    reader = lane.reader()
    received = lane.read_all(reader, finish=False)
    reader.rest()
    for envelope in received:
        reader.finish(envelope.token)
    reader.rest()
    writer.append(sealed(3))
    again = lane.read_all(lane.reader(generation=2))
    assert [(one.header.sequence & 0xFF, one.redelivered) for one in again] == [(3, True)]


def test_a_lane_is_idle_once_nothing_of_it_is_in_hand(lane: Lane) -> None:
    lane.writer().append(sealed(1))
    reader = lane.reader()
    (received,) = lane.read_all(reader, finish=False)
    assert not reader.is_idle
    reader.finish(received.token)
    assert reader.is_idle


def test_what_was_to_be_committed_later_is_committed_before_the_rest(lane: Lane) -> None:
    """L-15, L-26."""
    writer = lane.writer()
    writer.append(sealed(1))
    reader = lane.reader()
    for envelope in lane.read_all(reader, finish=False):
        reader.finish(envelope.token, lazy=True)
    reader.rest()
    writer.append(sealed(2))
    assert counters(lane.read_all(lane.reader(generation=2))) == [2]


def test_a_commit_at_rest_needs_no_space(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-15: it is written over the last one."""
    lane.writer().append(sealed(1))
    reader = lane.reader()
    received = lane.read_all(reader, finish=False)
    reader.rest()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("speed.fs.lane_files.replace_file", full)
    reader.finish(received[0].token)
    assert reader.counts == {}


def test_how_often_a_message_came_is_counted_at_rest(lane: Lane) -> None:
    """L-25."""
    lane.writer().append(sealed(1))
    reader = lane.reader()
    received = lane.read_all(reader, finish=False)
    reader.rest()
    assert reader.begin_again(received[0].token) == 2
    assert (lane.path / names.deliveries_name(1)).exists()


def test_another_lane_in_the_place_of_one_at_rest_is_not_taken_for_it(lane: Lane) -> None:
    writer = lane.writer()
    writer.append(sealed(1))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    reader.rest()
    lane.path.rename(lane.path.with_name(".tmp-old"))
    lane.raw_segment(sealed(2))
    with pytest.raises(FileNotFoundError, match="was removed or replaced"):
        lane.read_all(reader)
    assert counters(lane.read_all(lane.reader())) == [2]


def test_a_cursor_that_was_replaced_by_something_else_is_not_written_to(lane: Lane) -> None:
    """L-10."""
    lane.writer().append(sealed(1))
    files = LaneFiles(str(lane.path), [LANE_KEY])
    files.write_cursor(Cursor(1, 1, 1, 0, 0, (), clean=False))
    files.rest()
    path = lane.path / names.cursor_name(1)
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        files.write_cursor(Cursor(1, 1, 1, 0, 0, (), clean=False))
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(OSError):  # noqa: PT011 - nobody reads it
        files.write_cursor(Cursor(1, 1, 1, 0, 0, (), clean=False))
    files.close()
