"""What a failing filesystem or a hostile neighbour does to a lane costs nothing else (L-5, L-7, L-10, L-14 to L-18).

No disk fails to order: a call that must fail is replaced for as long; what others put there is really there.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speed.errors import StorageError
from speed.fs import lane_reader
from speed.fs.committed import fence_lanes, newest_cursor
from speed.fs.lane_files import LaneFiles, LaneReplacedError
from speed.fs.open import open_directory
from speed.fs.slots import CHUNK_BYTES
from speed.wire import names
from speed.wire.cursor import MAX_CURSOR_BYTES
from tests.fs.lanes import KEYRING, LANE_KEY, SOURCE, TARGET, Lane, counters, sealed


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


def failing(number: int) -> Callable[..., Any]:
    return raising(OSError(number, os.strerror(number)))


# --- the sender ---


def test_a_short_write_is_continued(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-5: a signal may end a large write early."""
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, parts: real(fd, [b"".join(parts)[:150]]))
    lane.writer().append([sealed(1, bytes(100)), sealed(2, bytes(100))])
    assert counters(lane.read_all(lane.reader())) == [1, 2]


def test_a_batch_that_fails_half_way_tells_how_many_envelopes_are_in_the_lane(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-5: whole envelopes, and none of those that were torn."""
    batch = [sealed(counter, bytes(100)) for counter in range(1, 11)]
    room = sum(map(len, batch[:3])) + 50
    real = os.writev

    def fill(fd: int, parts: list[bytes]) -> int:
        return real(fd, [b"".join(parts)[:room]])

    writer = lane.writer()
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", fill)
        patch.setattr(os, "write", raising(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(StorageError) as caught:
            writer.append(batch)
    assert caught.value.envelopes_written == 3
    assert counters(lane.read_all(lane.reader())) == [1, 2, 3]


@pytest.mark.parametrize("raised", [KeyboardInterrupt, TimeoutError])
def test_what_a_signal_tore_does_not_lie_before_whole_envelopes(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    """L-5: a signal handler may raise in the middle of a send, an OSError as well."""
    real = os.writev

    def interrupted(fd: int, parts: list[bytes]) -> int:
        real(fd, [parts[0][:50]])
        raise raised

    writer = lane.writer()
    with monkeypatch.context() as patch, pytest.raises(raised):
        patch.setattr(os, "writev", interrupted)
        writer.append(sealed(1))
    writer.append(sealed(1))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    assert reader.counts["torn_tails"] == 1


def test_a_segment_that_is_there_is_passed(lane: Lane) -> None:
    """L-2."""
    writer = lane.writer()
    assert writer.room(1)
    lane.raw_segment(b"")
    writer.append(sealed(1))
    assert lane.segments() == ["000001-00000001.lane", "000001-00000002.lane"]


def test_a_lane_that_is_gone_is_made_again_at_once_by_its_sender(lane: Lane) -> None:
    """L-2."""
    writer = lane.writer()
    assert writer.room(1)
    lane.path.rmdir()
    writer.append(sealed(1))
    assert counters(lane.read_all(lane.reader())) == [1]


def test_a_reader_says_that_its_lane_was_removed_and_the_next_one_goes_on(lane: Lane) -> None:
    """L-2."""
    writer = lane.writer()
    writer.append(sealed(1))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    shutil.rmtree(lane.path)
    writer.append(sealed(2))
    with pytest.raises(LaneReplacedError, match="was removed or replaced"):
        lane.read_all(reader)
    assert counters(lane.read_all(lane.reader())) == [2]


@pytest.mark.parametrize("durable", [False, True])
def test_a_batch_that_cannot_be_renamed_leaves_nothing(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """L-23."""
    writer = lane.writer(mode="rename", durable=durable)
    with monkeypatch.context() as patch, pytest.raises(StorageError):
        patch.setattr(os, "rename", failing(errno.EIO))
        writer.append(sealed(1))
    assert list(lane.path.iterdir()) == []
    writer.append(sealed(1))
    assert counters(lane.read_all(lane.reader())) == [1]


def test_a_flush_that_fails_is_told_and_the_next_one_flushes_the_directories_again(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-7."""
    writer = lane.writer(durable=True)
    writer.append(sealed(1))
    for error, told in ((OSError(errno.EIO, "broken"), StorageError), (KeyboardInterrupt(), KeyboardInterrupt)):
        with monkeypatch.context() as patch, pytest.raises(told):
            patch.setattr(os, "fdatasync", raising(error))
            writer.flush()()
    assert writer.flush_failures == 2
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    writer.flush()()
    assert len(flushed) == 4  # lane, inbox, node and root


def test_a_segment_that_is_left_unflushed_is_counted(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-7: whoever appended to it is told by the next flush."""
    writer = lane.writer(durable=True)
    writer.append(sealed(1))
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    writer.close()
    assert writer.flush_failures == 1


def test_a_flush_of_nothing_does_nothing(lane: Lane) -> None:
    """L-7."""
    writer = lane.writer(durable=True)
    writer.flush()()
    assert writer.flush_failures == 0


def test_a_lane_directory_of_another_user_is_not_written_to(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-10."""
    lane.path.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StorageError, match="belongs to user"):
        lane.writer().append(sealed(1))


def test_what_is_no_segment_does_not_count_for_the_window(lane: Lane) -> None:
    """L-6: a directory under the name of one holds no bytes of the lane."""
    lane.path.mkdir(mode=0o700)
    (lane.path / names.lane_file_name(1, 7)).mkdir()
    writer = lane.writer(window_bytes=10)
    assert writer.room(1000)
    assert writer.outstanding_bytes == 0


def test_a_segment_that_is_consumed_while_it_is_counted_counts_nothing(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-6."""
    lane.raw_segment(sealed(1))
    writer = lane.writer()
    monkeypatch.setattr(os, "stat", failing(errno.ENOENT))
    assert writer.room(1)
    assert writer.outstanding_bytes == 0


def test_committed_segments_free_the_window(lane: Lane) -> None:
    """L-6: those before the cursor wholly, its own up to the offset."""
    writer = lane.writer(window_bytes=400, file_bytes=150)
    reader = None
    for counter in range(1, 20):
        assert writer.room(len(sealed(counter)))
        writer.append(sealed(counter))
        reader = reader or lane.reader()
        assert counters(lane.read_all(reader)) == [counter]
    assert writer.outstanding_bytes <= 400


@pytest.mark.parametrize("content", [b"", bytes(MAX_CURSOR_BYTES)], ids=["empty", "no cursor"])
def test_a_sender_passes_by_a_damaged_cursor(lane: Lane, content: bytes) -> None:
    """L-6: the newest that is valid counts; a link or a directory is none."""
    lane.writer().append(sealed(1))
    reader = lane.reader()
    lane.read_all(reader)
    (lane.path / names.cursor_name(2)).write_bytes(content)
    (lane.path / names.cursor_name(3)).mkdir()
    directory = open_directory(str(lane.path))
    cursor = newest_cursor(directory, (LANE_KEY,))
    assert cursor is not None
    assert cursor.receiver_generation == 1
    (lane.path / names.cursor_name(1)).unlink()
    assert newest_cursor(directory, (LANE_KEY,)) is None
    os.close(directory)


# --- fences ---


def test_a_fence_is_written_where_a_lane_is_and_nowhere_else(lane: Lane) -> None:
    """L-18: other names in the root are no nodes, and other nodes have no lane of this sender."""
    lane.writer().append(sealed(1))
    (Path(lane.root) / "no node!").mkdir()
    (Path(lane.root) / "other").mkdir()
    assert fence_lanes(lane.root, SOURCE, 2, KEYRING) == 1
    assert (lane.path / names.fence_name(2)).exists()


def test_a_lane_that_cannot_be_fenced_is_an_error_and_not_passed_over(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-18."""
    monkeypatch.setattr(os, "open", failing(errno.EMFILE))
    with pytest.raises(OSError, match="open files"):
        fence_lanes(lane.root, SOURCE, 2, KEYRING)


# --- the receiver ---


def test_what_was_unfinished_and_is_gone_is_counted(lane: Lane) -> None:
    """L-15: a cursor may list what is there no more, or other bytes than were there."""
    writer = lane.writer()
    writer.append([sealed(counter) for counter in (1, 2, 3, 4)])
    died = lane.reader(1)
    received = lane.read_all(died, finish=False)
    died.finish(received[3].token)
    died.abandon()
    path = lane.path / names.lane_file_name(1, 1)
    data, size = bytearray(path.read_bytes()), len(sealed(1))
    data[size : 2 * size] = data[:size]
    data[2 * size + 90] ^= 1
    path.write_bytes(data)
    successor = lane.reader(2)
    assert counters(lane.read_all(successor, finish=False, scan=True)) == [1]
    assert successor.counts["redeliveries_lost"] == 2
    successor.abandon()
    path.unlink()
    last = lane.reader(3)
    assert lane.read_all(last) == []
    assert last.counts["redeliveries_lost"] == 1


def test_a_large_envelope_is_redelivered_whole(lane: Lane) -> None:
    """L-15."""
    size = 2 * CHUNK_BYTES
    lane.writer().append([sealed(1, bytes(size)), sealed(2)])
    died = lane.reader(1)
    died.finish(lane.read_all(died, finish=False)[1].token)
    died.abandon()
    (again,) = lane.read_all(lane.reader(2))
    assert (len(again.payload), again.redelivered) == (size, True)


def test_who_reads_other_lanes_too_stops_before_a_large_envelope(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """T-11."""
    monkeypatch.setattr(lane_reader, "LARGE_BYTES", 2 * CHUNK_BYTES)
    lane.writer().append([sealed(1), sealed(2, bytes(3 * CHUNK_BYTES)), sealed(3)])
    reader = lane.reader(1)
    assert not reader.holds_large
    before, more = reader.read(10, 1 << 20, 0.0, large=False)
    assert ([one.header.sequence & 0xFF for one in before], more, reader.holds_large) == ([1], True, True)
    assert reader.read(10, 1 << 20, 0.0, large=False) == ([], True)
    large, _ = reader.read(1, 1, 0.0)
    assert [len(one.payload) for one in large] == [3 * CHUNK_BYTES]
    behind, more = reader.read(10, 1 << 20, 0.0, large=False)
    assert ([one.header.sequence & 0xFF for one in behind], more, reader.holds_large) == ([3], False, False)


def test_a_large_envelope_that_is_still_written_is_not_waited_for(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_reader, "LARGE_BYTES", 2 * CHUNK_BYTES)
    lane.raw_segment(sealed(1, bytes(3 * CHUNK_BYTES))[:-1])
    reader = lane.reader(1)
    assert reader.read(10, 1 << 20, 0.0, large=False) == ([], False)
    assert not reader.holds_large


def test_a_lane_without_segments_begins_where_its_cursor_stands(lane: Lane) -> None:
    """L-15: a dead reader's segments may all be gone."""
    writer = lane.writer()
    writer.append(sealed(1))
    died = lane.reader(1)
    lane.read_all(died)
    died.abandon()
    (lane.path / names.lane_file_name(1, 1)).unlink()
    successor = lane.reader(2)
    assert lane.read_all(successor) == []
    writer.close()
    writer.append(sealed(2))
    assert counters(lane.read_all(successor, scan=True)) == [2]


def test_a_successor_that_is_taken_away_is_waited_for(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-17: the reader had seen it, and reads this segment to its end."""
    lane.raw_segment(sealed(1), segment=1)
    successor = lane.raw_segment(b"", segment=2)
    reader, fill = lane.reader(), lane_reader.read_at

    def remove_first(*place: int) -> bytes:
        successor.unlink(missing_ok=True)
        return fill(*place)

    monkeypatch.setattr(lane_reader, "read_at", remove_first)
    assert counters(lane.read_all(reader)) == [1]
    lane.raw_segment(sealed(2), segment=3)
    assert counters(lane.read_all(reader, scan=True)) == [2]


def test_an_envelope_that_never_completes_is_not_read_again_before_it_grows(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-11, L-16: it is looked through once, and once more when bytes came."""
    whole = sealed(1, bytes(1 << 20))
    path = lane.raw_segment(whole[: 1 << 19])
    reader = lane.reader()
    lane.read_all(reader)
    lane.read_all(reader, scan=True)
    taken = _bytes_read(monkeypatch)
    for _ in range(20):
        lane.read_all(reader, scan=True)
        lane.read_all(reader)
    assert sum(taken) < 1 << 16
    with path.open("ab") as file:
        file.write(whole[1 << 19 : -1])
    for _ in range(20):
        lane.read_all(reader, scan=True)
    assert sum(taken) < 2 << 20
    with path.open("ab") as file:
        file.write(whole[-1:])
    assert counters(lane.read_all(reader)) == [1]


def _bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each read at a place of a file brings from now on."""
    taken: list[int] = []
    pread, preadv = os.pread, os.preadv

    def noted(*place: Any) -> bytes:
        data = pread(*place)
        taken.append(len(data))
        return data

    def noted_parts(*place: Any) -> int:
        taken.append(preadv(*place))
        return taken[-1]

    monkeypatch.setattr(os, "pread", noted)
    monkeypatch.setattr(os, "preadv", noted_parts)
    return taken


def test_a_segment_that_is_taken_away_before_it_is_opened_is_passed(lane: Lane) -> None:
    """L-10."""
    lane.raw_segment(sealed(1), segment=1)
    reader = lane.reader()
    (lane.path / names.lane_file_name(1, 1)).unlink()
    assert reader.read(64, 1 << 20, 0.0) == ([], False)
    lane.raw_segment(sealed(2), segment=2)
    assert counters(lane.read_all(reader)) == [2]


def test_finished_lazily_an_envelope_is_committed_after_a_mebibyte(lane: Lane) -> None:
    """L-14."""
    writer = lane.writer()
    writer.append([sealed(1, bytes(1 << 20)), sealed(2)])
    died = lane.reader(1)
    received = lane.read_all(died, finish=False)
    for one in received:
        died.finish(one.token, lazy=True)
    died.abandon()
    assert counters(lane.read_all(lane.reader(2))) == [2]


# --- who only looks ---


def test_who_only_looks_at_a_lane_moves_nothing(lane: Lane) -> None:
    """L-20: a listing sorts what is there; a temporary file is somebody's who writes just now."""
    lane.raw_segment(sealed(1))
    (lane.path / "foreign").write_bytes(b"")
    (lane.path / names.temporary_name(names.cursor_name(1))).write_bytes(b"")
    files = LaneFiles(names.lane_dir(lane.root, TARGET, SOURCE), (LANE_KEY,))
    assert files.list().foreign == ["foreign"]
    files.put_aside("foreign", "NO_LANE_FILE")
    assert (lane.path / "foreign").exists()
    assert files.file_bytes(1, 1) == len(sealed(1))
    assert files.file_bytes(1, 2) == 0
    files.close()
    files.close()
