"""Lanes as both sides see them: order, segments, flow control, generations (registry_spec/lanes.md)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from speed.errors import StorageError
from speed.fs.committed import fence_lanes
from speed.wire import names
from speed.wire.limits import MAX_IN_HAND
from tests.fs.lanes import KEYRING, SOURCE, Lane, counters, envelope_bytes, sealed


def test_envelopes_arrive_in_the_order_they_were_appended(lane: Lane) -> None:
    """L-4, L-11."""
    writer = lane.writer()
    for counter in range(1, 201):
        writer.append(sealed(counter, b"%d" % counter))
    received = lane.read_all(lane.reader())
    assert counters(received) == list(range(1, 201))
    assert [envelope.payload for envelope in received] == [b"%d" % counter for counter in range(1, 201)]
    assert not any(envelope.redelivered for envelope in received)


def test_an_envelope_appended_after_the_reader_looked_is_found_at_the_next_read(lane: Lane) -> None:
    writer = lane.writer()
    writer.append(sealed(1))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    writer.append(sealed(2))
    assert counters(lane.read_all(reader)) == [2]


def test_files_of_a_lane_are_private_to_their_owner(lane: Lane) -> None:
    """L-2."""
    lane.writer().append(sealed(1))
    assert stat.S_IMODE(lane.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((lane.path / "000001-00000001.lane").stat().st_mode) == 0o600


def test_a_batch_of_more_parts_than_one_writev_takes_arrives_whole(lane: Lane) -> None:
    writer = lane.writer()
    writer.append([sealed(counter) for counter in range(1, 1501)])
    assert counters(lane.read_all(lane.reader())) == list(range(1, 1501))


def test_a_full_segment_is_followed_by_the_next_and_removed_once_read(lane: Lane) -> None:
    """L-4, L-17."""
    writer = lane.writer(file_bytes=1000)
    reader_lane: list[int] = []
    writer.append(sealed(1))
    reader = lane.reader()
    for counter in range(2, 101):
        writer.append(sealed(counter, bytes(100)))
        reader_lane += counters(lane.read_all(reader))
    assert reader_lane == list(range(1, 101))
    assert len(lane.segments()) <= 1
    assert reader.counts == {}


def test_a_segment_is_kept_while_an_envelope_in_it_is_unfinished(lane: Lane) -> None:
    """L-17."""
    writer = lane.writer(file_bytes=100)
    for counter in range(1, 6):
        writer.append(sealed(counter))
    reader = lane.reader()
    received = lane.read_all(reader, finish=False)
    for envelope in received[1:]:
        reader.finish(envelope.token)
    assert lane.segments()[0] == "000001-00000001.lane"
    assert "000001-00000003.lane" not in lane.segments()
    reader.finish(received[0].token)
    assert "000001-00000001.lane" not in lane.segments()


def test_large_envelopes_pass_through_a_small_window_of_memory(lane: Lane) -> None:
    writer = lane.writer()
    sizes = [1, 65_432, 65_433, 70_000, 3_000_000, 5, 9_000_000, 7]
    for counter, size in enumerate(sizes, 1):
        writer.append(sealed(counter, bytes(size)))
    received = lane.read_all(lane.reader())
    assert [len(envelope.payload) for envelope in received] == sizes


def test_a_read_is_bounded_in_envelopes_and_bytes(lane: Lane) -> None:
    """L-19: no lane starves the others."""
    writer = lane.writer()
    for counter in range(1, 101):
        writer.append(sealed(counter, bytes(1000)))
    reader = lane.reader()
    received, more = reader.read(10, 1 << 20, 1.0)
    assert len(received) == 10
    assert more
    received, more = reader.read(1000, 3000, 2.0)
    assert len(received) < 70
    assert more


def test_a_lane_with_too_much_in_hand_is_full_until_some_of_it_finishes(lane: Lane) -> None:
    """L-19."""
    lane.writer().append([sealed(counter) for counter in range(1, MAX_IN_HAND + 1)])
    reader = lane.reader()
    assert not reader.is_full
    received = lane.read_all(reader, finish=False)
    assert reader.is_full
    reader.finish(received[9].token)
    assert not reader.is_full


def test_a_sender_waits_when_the_window_is_full_and_goes_on_when_the_receiver_committed(lane: Lane) -> None:
    """L-6."""
    payload = bytes(1000)
    writer = lane.writer(window_bytes=3 * envelope_bytes(payload))
    for counter in range(1, 4):
        assert writer.room(envelope_bytes(payload))
        writer.append(sealed(counter, payload))
    assert not writer.room(1)
    reader = lane.reader()
    assert not writer.room(1)
    lane.read_all(reader)
    assert writer.room(3 * envelope_bytes(payload))
    assert writer.outstanding_bytes == 0


def test_an_empty_lane_takes_an_envelope_larger_than_the_window(lane: Lane) -> None:
    """L-6."""
    writer = lane.writer(window_bytes=10)
    assert writer.room(1 << 20)
    writer.append(sealed(1, bytes(1 << 20)))
    assert not writer.room(1)


def test_what_an_earlier_generation_left_counts_until_it_is_read(lane: Lane) -> None:
    """L-6: a restarted sender neither overruns the lane nor waits for ever."""
    old = lane.writer(1)
    old.append(sealed(1, bytes(5000)))
    old.close()
    new = lane.writer(2, window_bytes=6000)
    assert not new.room(2000)
    lane.read_all(lane.reader())
    assert new.room(2000)


def test_a_restarted_sender_continues_with_its_generation_and_nothing_is_lost(lane: Lane) -> None:
    """L-13: what the former generation wrote by right arrives first."""
    lane.writer(1).append([sealed(1), sealed(2)])
    fence_lanes(lane.root, SOURCE, 2, KEYRING)
    lane.writer(2).append(sealed(1, generation=2))
    received = lane.read_all(lane.reader())
    assert [envelope.header.sequence >> 40 for envelope in received] == [1, 1, 2]
    assert lane.segments() == ["000002-00000001.lane"]


def test_a_writer_opened_again_in_the_same_generation_begins_a_new_segment(lane: Lane) -> None:
    """L-2."""
    writer = lane.writer()
    writer.append(sealed(1))
    writer.close()
    writer.append(sealed(2))
    assert lane.segments() == ["000001-00000001.lane", "000001-00000002.lane"]
    assert counters(lane.read_all(lane.reader())) == [1, 2]


def test_without_an_inbox_nothing_is_made_and_the_error_says_so(tmp_path: Path) -> None:
    """L-2: only the receiver makes its inbox."""
    lane = Lane(tmp_path)
    os.makedirs(names.registry_dir(lane.root), exist_ok=True)
    os.rmdir(names.inbox_dir(lane.root, "billing"))
    with pytest.raises(StorageError, match=r"billing.*ENOENT.*no inbox"):
        lane.writer().append(sealed(1))


def test_where_the_root_is_gone_the_error_says_so(tmp_path: Path) -> None:
    """R-20."""
    lane = Lane(tmp_path)
    os.rename(lane.root, f"{lane.root}.gone")
    with pytest.raises(StorageError, match=r"the registry of .* is gone"):
        lane.writer().append(sealed(1))


def test_a_lane_that_was_put_aside_is_made_again_by_its_sender(lane: Lane) -> None:
    """L-2: the writer notices by itself that its directory is another one."""
    ticks = iter(range(1000))
    writer = lane.writer()
    writer._clock = lambda: float(next(ticks))
    writer.append(sealed(1))
    lane.path.rename(lane.path.with_name(".tmp-aside"))
    assert not lane.path.exists()
    writer.append(sealed(2))
    assert lane.segments() == ["000001-00000002.lane"]
    assert counters(lane.read_all(lane.reader())) == [2]


def test_in_rename_mode_each_batch_is_a_complete_segment(lane: Lane) -> None:
    """L-23."""
    writer = lane.writer(mode="rename", durable=True)
    writer.append([sealed(1), sealed(2)])
    writer.append(sealed(3))
    writer.flush()()
    assert lane.segments() == ["000001-00000001.lane", "000001-00000002.lane"]
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1, 2, 3]
    writer.append(sealed(4))
    assert counters(lane.read_all(reader)) == [4]
    assert lane.segments() == ["000001-00000003.lane"]


def test_a_segment_that_is_left_because_the_writer_is_closed_is_flushed(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-7: a sender's thread may not have flushed yet what it appended."""
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", flushed.append)
    writer = lane.writer(durable=True)
    writer.append(sealed(1))
    writer.close()
    assert len(flushed) == 1


def test_a_durable_writer_flushes_file_and_directory(lane: Lane) -> None:
    """L-7: the calls succeed on a real filesystem; what they promise needs a power cut to show."""
    writer = lane.writer(durable=True, file_bytes=300)
    for counter in range(1, 10):
        writer.append(sealed(counter))
        writer.flush()()
    assert counters(lane.read_all(lane.reader())) == list(range(1, 10))
