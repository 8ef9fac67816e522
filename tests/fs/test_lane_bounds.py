"""Lanes of very many segments, and senders without room or descriptors (L-5, L-6, L-7, L-17, L-18)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speed.errors import StorageError
from speed.fs import committed, lane_files, lane_writer
from speed.fs.committed import fence_lanes
from speed.wire import names
from tests.fs.lanes import KEYRING, SOURCE, Lane, counters, sealed
from tests.fs.limits import no_descriptors, no_file_beyond


@pytest.fixture
def cut_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory has no order: here the newest names come first, and a listing ends after eight."""
    real = lane_files.names_in

    def newest_first(directory: int, _: int) -> Iterator[Any]:
        yield from sorted(real(directory, 1 << 20), key=lambda entry: entry.name, reverse=True)[:8]

    monkeypatch.setattr(lane_files, "names_in", newest_first)


@pytest.mark.usefixtures("cut_listing")
def test_a_listing_that_was_cut_makes_a_lane_begin_no_later(lane: Lane) -> None:
    """L-17: a polling sender makes a segment of each batch."""
    for number in range(1, 31):
        lane.raw_segment(sealed(number), segment=number)
    assert counters(lane.read_all(lane.reader(), scan=True)) == list(range(1, 31))


@pytest.mark.usefixtures("cut_listing")
def test_a_listing_that_was_cut_does_not_carry_a_successor_past_its_position(lane: Lane) -> None:
    """L-17: the cursor stands at the beginning of a segment that the listing lacks."""
    lane.raw_segment(sealed(1), segment=1)
    lane.raw_segment(b"", segment=2)
    former = lane.reader(1)
    assert counters(lane.read_all(former)) == [1]
    former.close(clean=True)
    for number in range(2, 31):
        lane.raw_segment(sealed(number), segment=number)
    successor = lane.reader(2)
    assert counters(lane.read_all(successor, scan=True)) == list(range(2, 31))
    assert successor.counts == {}


@pytest.mark.usefixtures("cut_listing")
def test_a_listing_that_was_cut_hides_no_beginning_of_the_next_generation(lane: Lane) -> None:
    """L-17."""
    lane.raw_segment(sealed(1), segment=1)
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    for number in range(1, 31):
        lane.raw_segment(sealed(number, generation=2), segment=number, generation=2)
    assert counters(lane.read_all(reader, scan=True)) == list(range(1, 31))


@pytest.mark.parametrize("mode", ["append", "rename"])
def test_a_sender_with_too_many_segments_has_no_room_until_some_are_read(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """L-6: however few bytes they hold."""
    monkeypatch.setattr(lane_writer, "MAX_LANE_SEGMENTS", 5)
    writer = lane.writer(mode=mode, file_bytes=1)
    for counter in range(1, 6):
        assert writer.room(len(sealed(counter)))
        writer.append(sealed(counter))
    assert not writer.room(1)
    assert len(lane.segments()) == 5
    assert counters(lane.read_all(lane.reader())) == [1, 2, 3, 4, 5]
    assert writer.room(1)
    writer.append(sealed(6))


def test_an_open_segment_takes_more_although_no_other_may_begin(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-6."""
    monkeypatch.setattr(lane_writer, "MAX_LANE_SEGMENTS", 1)
    writer = lane.writer()
    for counter in range(1, 4):
        assert writer.room(len(sealed(counter)))
        writer.append(sealed(counter))
    writer.close()
    assert not writer.room(1)


def test_a_sender_without_room_begins_the_segment_that_frees_a_torn_rest(lane: Lane) -> None:
    """L-5: only a successor lets the receiver pass it, and the sender would wait for that for ever."""
    size = len(sealed(1))
    writer = lane.writer(window_bytes=4 * size)
    writer.append(sealed(1))
    with no_file_beyond(size + size // 2), pytest.raises(StorageError):
        writer.append(sealed(2))
    reader = lane.reader()
    assert counters(lane.read_all(reader, scan=True)) == [1]
    assert not writer.room(4 * size)
    lane.read_all(reader, scan=True)
    assert reader.counts["torn_tails"] == 1
    assert writer.room(4 * size)
    writer.append(sealed(2))
    assert counters(lane.read_all(reader, scan=True)) == [2]


def test_a_sender_out_of_descriptors_is_told_so_when_it_looks_for_room(lane: Lane) -> None:
    """L-5."""
    writer = lane.writer(window_bytes=150)
    writer.append(sealed(1))
    with no_descriptors(), pytest.raises(StorageError, match="too many open files"):
        writer.room(150)
    lane.read_all(lane.reader())
    assert writer.room(150)


def test_a_flush_that_cannot_begin_counts_as_one_that_failed(lane: Lane) -> None:
    """L-7: who appended meanwhile must find out."""
    writer = lane.writer(durable=True)
    writer.append(sealed(1))
    with no_descriptors(), pytest.raises(StorageError, match="too many open files"):
        writer.flush()
    assert writer.flush_failures == 1
    writer.flush()()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_other_users_directories_keep_nobody_from_starting_and_ones_own_do(tmp_path: Path) -> None:
    """L-18: a root that a group shares."""
    root = tmp_path / "shared"
    root.mkdir()
    root.chmod(0o777)
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    Path(names.inbox_dir(str(root), "theirs")).mkdir(parents=True, mode=0o700)
    Path(names.node_dir(str(root), "theirs")).chmod(0o700)
    child = os.fork()
    if child == 0:
        status = 9
        try:
            os.setgid(65534)
            os.setuid(65534)
            status = fence_lanes(str(root), SOURCE, 2, KEYRING)
            own = Path(names.node_dir(str(root), "own"))
            own.mkdir(mode=0)
            try:
                fence_lanes(str(root), SOURCE, 2, KEYRING)
            except PermissionError:
                status += 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_directory_of_ones_own_that_cannot_be_entered_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-18: old envelopes of this node may lie behind it."""

    def refuse(path: str) -> int:
        raise PermissionError(errno.EACCES, "refused", path)

    Path(names.inbox_dir(str(tmp_path), "own")).mkdir(parents=True)
    monkeypatch.setattr(committed, "open_directory", refuse)
    with pytest.raises(PermissionError):
        fence_lanes(str(tmp_path), SOURCE, 2, KEYRING)
