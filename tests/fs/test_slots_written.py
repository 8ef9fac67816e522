"""Payloads in slots as their sender writes them: reserved, reused, spoiled, removed (L-29)."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from speed.errors import StorageError
from speed.fs.lane_reader import LaneReader
from speed.fs.lane_writer import LaneWriter
from speed.wire.envelope import FLAG_SLOTTED
from speed.wire.limits import MAX_SLOTS
from tests.fs.lanes import Lane, counters, envelope_bytes, sealed
from tests.fs.limits import no_file_beyond
from tests.fs.slots import PAYLOAD, STRIDE, slot_path

HEAD_BYTES = envelope_bytes(bytes(48))


def send(writer: LaneWriter, counter: int, payload: bytes = PAYLOAD) -> int:
    """The number of the slot; whatever fails spoils it."""
    head = writer.begin_slot(len(payload))
    assert head is not None
    try:
        writer.append(sealed(counter, head.encode(), flags=FLAG_SLOTTED))
        writer.fill_slot(payload)
    except BaseException:
        writer.spoil_slot()
        raise
    return head.number


def slots(lane: Lane) -> list[str]:
    return sorted(path.name for path in lane.path.glob("*.slot"))


def exchange(writer: LaneWriter, reader: LaneReader, lane: Lane, counter: int) -> int:
    """Send one and have it finished."""
    number = send(writer, counter)
    assert counters(lane.read_all(reader)) == [counter]
    return number


# --- one payload ---


def test_a_payload_comes_out_as_it_went_in(lane: Lane) -> None:
    writer = lane.writer()
    send(writer, 1)
    writer.append(sealed(2, b"behind"))
    assert [one.payload for one in lane.read_all(lane.reader())] == [PAYLOAD, b"behind"]
    status = slot_path(lane).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_size) == (0o600, len(PAYLOAD) + 3 * 16)


def test_no_two_payloads_have_one_key(lane: Lane) -> None:
    writer = lane.writer()
    heads = [writer.begin_slot(1), writer.begin_slot(1)]
    writer.spoil_slot()
    assert len({head.key for head in heads if head is not None}) == 2


def test_a_slot_is_used_again_once_the_receiver_is_done_with_it_and_not_before(lane: Lane) -> None:
    writer = lane.writer()
    reader = lane.reader_of(writer)
    assert exchange(writer, reader, lane, 1) == 1
    assert exchange(writer, reader, lane, 2) == 1
    assert send(writer, 3) == 1
    assert send(writer, 4) == 2
    received = lane.read_all(reader, finish=False)
    assert send(writer, 5) == 3, "it was read, and may have to be read again"
    reader.finish(received[1].token)
    assert send(writer, 6) == 2, "the first is listed as unfinished"
    reader.finish(received[0].token)
    assert send(writer, 7) == 1
    assert len(slots(lane)) == 3


def test_when_all_are_in_use_there_is_none(lane: Lane) -> None:
    writer = lane.writer()
    assert [send(writer, counter) for counter in range(1, MAX_SLOTS + 1)] == list(range(1, MAX_SLOTS + 1))
    assert writer.begin_slot(len(PAYLOAD)) is None
    lane.read_all(lane.reader())
    assert send(writer, MAX_SLOTS + 1) == 1


def test_payloads_in_slots_fill_the_window_until_they_are_finished(lane: Lane) -> None:
    writer = lane.writer(window_bytes=2 * len(PAYLOAD))
    send(writer, 1)
    assert writer.outstanding_bytes == HEAD_BYTES + slot_path(lane).stat().st_size
    assert not writer.room(len(PAYLOAD))
    lane.read_all(lane.reader())
    assert writer.room(len(PAYLOAD))
    assert writer.outstanding_bytes == 0


def test_durable_payloads_are_flushed_before_the_lane_tells_of_them(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        flushed.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    writer = lane.writer(durable=True)
    send(writer, 1)
    writer.flush()()
    assert flushed == ["000001-01.slot", "000001-00000001.lane"]


# --- how much they take ---


def test_the_files_of_a_link_stay_within_its_window_whatever_sizes_come(lane: Lane) -> None:
    window, sizes = 1 << 20, (150_000, 900_000, 200_000, 400_000, 1_000_000, 131_072, 600_000, 300_000)
    writer = lane.writer(window_bytes=window)
    reader = lane.reader_of(writer)
    most = 0
    for counter, size in enumerate(sizes * 3, 1):
        assert writer.room(size)
        send(writer, counter, bytes(size))
        most = max(most, sum(path.stat().st_size for path in lane.path.iterdir() if path.suffix in (".slot", ".lane")))
        lane.read_all(reader)
    assert most <= window


def test_a_small_payload_leaves_the_window_of_a_large_slot_to_others(lane: Lane) -> None:
    """What a file takes counts, not what lies in it."""
    writer = lane.writer(window_bytes=4 * len(PAYLOAD))
    reader = lane.reader_of(writer)
    send(writer, 1, 3 * PAYLOAD)
    lane.read_all(reader)
    send(writer, 2)
    assert slot_path(lane, 2).stat().st_size == len(PAYLOAD) + 3 * 16
    assert writer.room(len(PAYLOAD))
    send(writer, 3, 2 * PAYLOAD)
    assert slots(lane) == ["000001-01.slot", "000001-02.slot"]
    assert not writer.room(len(PAYLOAD))


def test_free_slots_make_room_for_what_goes_into_the_lane_itself(lane: Lane) -> None:
    writer = lane.writer(window_bytes=2 * len(PAYLOAD))
    exchange(writer, lane.reader_of(writer), lane, 1)
    assert writer.room(len(PAYLOAD))
    writer.append(sealed(2, PAYLOAD))
    assert slots(lane) == []


# --- failures ---


def test_a_full_disk_is_told_before_anything_is_sent(lane: Lane) -> None:
    writer = lane.writer()
    with no_file_beyond(len(PAYLOAD)), pytest.raises(StorageError, match="EFBIG"):
        writer.begin_slot(len(PAYLOAD))
    assert (lane.segments(), slot_path(lane).stat().st_size) == ([], 0)
    assert send(writer, 1) == 1


def test_a_slot_that_cannot_grow_keeps_its_size(lane: Lane) -> None:
    writer = lane.writer()
    exchange(writer, lane.reader_of(writer), lane, 1)
    before = slot_path(lane).stat().st_size
    with no_file_beyond(before), pytest.raises(StorageError):
        writer.begin_slot(2 * len(PAYLOAD))
    assert slot_path(lane).stat().st_size == before


def test_a_payload_that_cannot_be_written_is_lost_and_the_receiver_goes_on(lane: Lane) -> None:
    writer = lane.writer()
    reader = lane.reader_of(writer)
    exchange(writer, reader, lane, 1)
    with no_file_beyond(STRIDE + 1), pytest.raises(StorageError):
        send(writer, 2)
    assert slot_path(lane).stat().st_size == 0
    assert lane.read_all(reader) == []
    assert reader.counts == {"torn_slots": 1}
    assert exchange(writer, reader, lane, 3) == 1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, TimeoutError])
def test_what_a_signal_ended_is_lost_as_well(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, raised: type[BaseException]
) -> None:
    def interrupted(fd: int, data: bytes, offset: int) -> None:
        raise raised

    writer = lane.writer()
    with monkeypatch.context() as patch, pytest.raises(raised):
        patch.setattr("speed.fs.slots.write_all_at", interrupted)
        send(writer, 1)
    assert slot_path(lane).stat().st_size == 0


def test_a_slot_whose_envelope_failed_is_left_alone_until_its_file_is_passed(lane: Lane) -> None:
    """Whether the envelope is in the lane is not known where a signal ended the write."""
    writer = lane.writer(file_bytes=1)
    reader = lane.reader_of(writer)
    head = writer.begin_slot(len(PAYLOAD))
    assert head is not None
    writer.append(sealed(1))
    writer.spoil_slot()
    assert send(writer, 2) == 2
    lane.read_all(reader)
    assert [send(writer, 3), send(writer, 4)] == [2, 1], "the first has no pages left"


def test_a_lane_that_was_put_aside_meanwhile_loses_no_payload_unseen(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speed.fs.lane_writer.LANE_CHECK_SECONDS", 0.0)
    writer = lane.writer()
    head = writer.begin_slot(len(PAYLOAD))
    assert head is not None
    lane.path.rename(lane.path.with_name("elsewhere"))
    writer.append(sealed(1, head.encode(), flags=FLAG_SLOTTED))
    with pytest.raises(StorageError):
        writer.fill_slot(PAYLOAD)
    writer.spoil_slot()
    assert send(writer, 2) == 1, "slots begin anew with the lane"
    assert writer.outstanding_bytes == 2 * HEAD_BYTES + slot_path(lane).stat().st_size


# --- what others do to the files ---


def removed(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/null")


def second_name(path: Path) -> None:
    path.with_name(".tmp-elsewhere").hardlink_to(path)


@pytest.mark.parametrize("replaced", [removed, link, second_name])
def test_a_slot_in_whose_place_is_something_else_is_made_anew(lane: Lane, replaced: Callable[[Path], None]) -> None:
    writer = lane.writer()
    reader = lane.reader_of(writer)
    exchange(writer, reader, lane, 1)
    replaced(slot_path(lane))
    assert exchange(writer, reader, lane, 2) == 1
    assert stat.S_ISREG(slot_path(lane).lstat().st_mode)


def test_a_directory_in_the_place_of_a_slot_is_passed_over(lane: Lane) -> None:
    writer = lane.writer()
    reader = lane.reader_of(writer)
    exchange(writer, reader, lane, 1)
    slot_path(lane).unlink()
    slot_path(lane).mkdir()
    assert exchange(writer, reader, lane, 2) == 2


def test_where_no_slot_can_be_made_there_is_none(lane: Lane) -> None:
    writer = lane.writer()
    assert writer.room(1)
    for number in range(1, MAX_SLOTS + 1):
        slot_path(lane, number).touch()
    assert writer.begin_slot(len(PAYLOAD)) is None


# --- their end ---


def test_slots_that_nobody_used_for_a_lease_are_removed(lane: Lane) -> None:
    writer = lane.writer()
    reader = lane.reader_of(writer)
    send(writer, 1)
    send(writer, 2)
    writer.release_slots(idle=True)
    lane.read_all(reader)
    assert send(writer, 3) == 1
    writer.release_slots(idle=True)
    assert slots(lane) == ["000001-01.slot"]
    writer.release_slots(idle=True)
    assert slots(lane) == ["000001-01.slot"], "the receiver has yet to read it"
    lane.read_all(reader)
    writer.release_slots(idle=True)
    assert slots(lane) == []
    assert exchange(writer, reader, lane, 4) == 1


def test_at_the_end_those_that_are_free_are_removed(lane: Lane) -> None:
    writer = lane.writer()
    reader = lane.reader_of(writer)
    send(writer, 1)
    send(writer, 2)
    received = lane.read_all(reader, finish=False)
    reader.finish(received[1].token)
    writer.close()
    writer.release_slots()
    assert slots(lane) == ["000001-01.slot"]


def test_without_a_lane_or_a_cursor_nothing_is_removed(lane: Lane) -> None:
    writer = lane.writer()
    writer.release_slots()
    send(writer, 1)
    writer.release_slots()
    assert slots(lane) == ["000001-01.slot"]
    shutil.rmtree(lane.path)
    writer.release_slots()


def test_a_lane_at_rest_keeps_its_slots_and_no_file_open(lane: Lane) -> None:
    writer = lane.writer()
    reader = lane.reader_of(writer)
    exchange(writer, reader, lane, 1)
    writer.close()
    assert not [fd for fd in os.listdir("/proc/self/fd") if ".slot" in _target(fd)]
    assert exchange(writer, reader, lane, 2) == 1


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
