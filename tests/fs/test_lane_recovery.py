"""What survives restarts, crashes and replaced owners (L-14, L-15, L-18)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from speed.errors import LeaseLostError
from speed.fs.committed import fence_lanes
from speed.wire.cursor import decode_cursor
from speed.wire.envelope import FLAG_SEGMENT, EnvelopeType
from tests.fs.lanes import KEYRING, LANE_KEY, SOURCE, Lane, counters, sealed


def test_a_cleanly_closed_reader_is_continued_without_marks(lane: Lane) -> None:
    """L-15."""
    writer = lane.writer()
    writer.append([sealed(1), sealed(2)])
    reader = lane.reader(1)
    lane.read_all(reader)
    reader.close(clean=True)
    writer.append(sealed(3))
    received = lane.read_all(lane.reader(2))
    assert counters(received) == [3]
    assert not received[0].redelivered
    assert [path.name for path in lane.path.glob("cursor.*")] == ["cursor.000002"]


def test_what_a_dead_reader_had_begun_comes_again_marked_redelivered(lane: Lane) -> None:
    """L-15: finished envelopes after an unfinished one do not come again."""
    lane.writer().append([sealed(counter, b"%d" % counter) for counter in range(1, 7)])
    reader = lane.reader(1)
    received = lane.read_all(reader, finish=False)
    for envelope in (received[0], received[2], received[4]):
        reader.finish(envelope.token)
    reader.abandon()
    again = lane.read_all(lane.reader(2))
    assert counters(again) == [2, 4, 6]
    assert [envelope.payload for envelope in again] == [b"2", b"4", b"6"]
    assert [envelope.redelivered for envelope in again] == [True, True, True]


def test_a_lane_that_failed_and_is_opened_again_marks_all_that_may_be_in_hand(lane: Lane) -> None:
    """L-15: the same process has read them; how many of them its program holds nobody knows."""
    lane.writer().append([sealed(counter) for counter in range(1, 5)])
    reader = lane.reader(1)
    lane.read_all(reader, finish=False)
    reader.abandon()
    again = lane.read_all(lane.reader(1))
    assert counters(again) == [1, 2, 3, 4]
    assert [envelope.redelivered for envelope in again] == [True, True, True, True]


def test_messages_behind_the_one_in_hand_are_not_marked(lane: Lane) -> None:
    """L-15: a node handles messages of one sender one at a time."""
    lane.writer().append([sealed(counter) for counter in range(1, 5)])
    reader = lane.reader(1)
    lane.read_all(reader, finish=False)
    reader.abandon()
    again = lane.read_all(lane.reader(2))
    assert [envelope.redelivered for envelope in again] == [True, False, False, False]


def test_segments_and_the_first_message_that_may_have_passed_them_are_marked(lane: Lane) -> None:
    """L-15, G-14: while a payload is put together, a message behind it may be handled."""
    lane.writer().append([sealed(counter, flags=FLAG_SEGMENT if counter < 3 else 0) for counter in range(1, 5)])
    reader = lane.reader(1)
    lane.read_all(reader, finish=False)
    reader.abandon()
    again = lane.read_all(lane.reader(2))
    assert [envelope.redelivered for envelope in again] == [True, True, True, False]


def test_requests_that_may_have_run_side_by_side_are_all_marked(lane: Lane) -> None:
    """L-15."""
    lane.writer().append([sealed(counter, type_=EnvelopeType.SPC_REQUEST) for counter in range(1, 5)])
    lane.reader(1).abandon()
    again = lane.read_all(lane.reader(2))
    assert all(envelope.redelivered for envelope in again)


def test_what_was_sent_after_a_crash_is_new(lane: Lane) -> None:
    """L-15: only bytes that existed when the new reader opened the lane can have been handled."""
    writer = lane.writer()
    writer.append(sealed(1))
    reader = lane.reader(1)
    lane.read_all(reader)
    reader.abandon()
    second = lane.reader(2)
    writer.append(sealed(2))
    received = lane.read_all(second)
    assert counters(received) == [2]
    assert not received[0].redelivered


def test_with_more_than_64_unfinished_the_position_stays_at_the_65th(lane: Lane) -> None:
    """L-15."""
    lane.writer().append([sealed(counter, type_=EnvelopeType.SPC_REQUEST) for counter in range(1, 101)])
    reader = lane.reader(1)
    received = lane.read_all(reader, finish=False)
    reader.finish(received[99].token)
    cursor = decode_cursor((lane.path / "cursor.000001").read_bytes(), (LANE_KEY,))
    assert len(cursor.unfinished) == 64
    assert cursor.last_sequence & 0xFFFF == 64
    reader.abandon()
    again = lane.read_all(lane.reader(2))
    assert counters(again) == list(range(1, 101))
    assert all(envelope.redelivered for envelope in again)


def test_lazily_finished_envelopes_are_committed_by_the_next_scan(lane: Lane) -> None:
    """L-15."""
    lane.writer().append([sealed(1), sealed(2)])
    reader = lane.reader()
    for envelope in lane.read_all(reader, finish=False):
        reader.finish(envelope.token, lazy=True)

    def last() -> int:
        data = (lane.path / "cursor.000001").read_bytes()
        return decode_cursor(data, (LANE_KEY,)).last_sequence & 0xFFFF

    assert last() == 0
    lane.read_all(reader, scan=True)
    assert last() == 2


def test_a_damaged_cursor_falls_back_to_its_predecessor(lane: Lane) -> None:
    """L-14."""
    writer = lane.writer()
    writer.append([sealed(1), sealed(2)])
    reader = lane.reader(1)
    first, second = lane.read_all(reader, finish=False)
    reader.finish(first.token)
    older = (lane.path / "cursor.000001").read_bytes()
    reader.finish(second.token)
    reader.close(clean=True)
    lane.reader(2).close(clean=True)
    (lane.path / "cursor.000001").write_bytes(older)
    data = bytearray((lane.path / "cursor.000002").read_bytes())
    data[30] ^= 1
    (lane.path / "cursor.000002").write_bytes(data)
    third = lane.reader(3)
    received = lane.read_all(third)
    assert counters(received) == [2]
    assert received[0].redelivered
    assert third.counts["cursors_damaged"] == 1


def test_a_replaced_receiver_does_not_open_the_lane_again(lane: Lane) -> None:
    """L-14: nor can it move its successor's cursor, which is another file."""
    lane.writer().append(sealed(1))
    old = lane.reader(1)
    received = lane.read_all(old, finish=False)
    new = lane.reader(2)
    old.finish(received[0].token)
    assert counters(lane.read_all(new)) == [1]
    with pytest.raises(LeaseLostError):
        lane.reader(1)


def test_a_paused_and_replaced_sender_cannot_slip_anything_in(lane: Lane) -> None:
    """L-18: it still holds its segment open and goes on appending."""
    old = lane.writer(1)
    old.append([sealed(1), sealed(2)])
    fence_lanes(lane.root, SOURCE, 2, KEYRING)
    old.append(sealed(3))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1, 2]
    lane.writer(2).append(sealed(1, generation=2))
    old.append(sealed(4))
    received = lane.read_all(reader)
    assert [(e.header.sequence >> 40, c) for e, c in zip(received, counters(received), strict=True)] == [(2, 1)]
    assert reader.counts["rejected_behind_fence"] == 1
    lane.read_all(reader, scan=True)
    assert list(lane.path.glob("*.fence")) == []


def test_a_fence_stays_while_a_crash_can_lead_back_before_it(lane: Lane) -> None:
    """L-18: the reader is behind the fence long before the cursor is."""
    old = lane.writer(1)
    old.append(sealed(1))
    fence_lanes(lane.root, SOURCE, 2, KEYRING)
    lane.writer(2).append(sealed(1, generation=2))
    died = lane.reader(1)
    assert counters(lane.read_all(died, finish=False)) == [1, 1]
    lane.read_all(died, finish=False, scan=True)
    died.abandon()
    old.append(sealed(2))  # resumes in the middle of a send
    successor = lane.reader(2)
    received = lane.read_all(successor)
    assert [envelope.header.sequence >> 40 for envelope in received] == [1, 2]
    assert successor.counts["rejected_behind_fence"] == 1
    lane.read_all(successor, scan=True)
    assert list(lane.path.glob("*.fence")) == []


def test_a_fence_that_appears_while_a_lane_is_read_is_seen_before_bytes_are_accepted(lane: Lane) -> None:
    """L-18: no time passes between the reads of this test, only the directory changes."""
    old = lane.writer(1)
    old.append(sealed(1))
    reader = lane.reader()
    assert len(reader.read(64, 1 << 20, 5.0)[0]) == 1
    fence_lanes(lane.root, SOURCE, 2, KEYRING)
    old.append(sealed(2))
    assert reader.read(64, 1 << 20, 5.0)[0] == []


def test_an_old_fence_still_holds_when_a_newer_one_follows(lane: Lane) -> None:
    """L-18: every fence counts, not only the newest."""
    first = lane.writer(1)
    first.append(sealed(1))
    fence_lanes(lane.root, SOURCE, 2, KEYRING)
    lane.writer(2).append(sealed(1, generation=2))
    fence_lanes(lane.root, SOURCE, 3, KEYRING)
    first.append(sealed(2))
    lane.writer(3).append(sealed(1, generation=3))
    received = lane.read_all(lane.reader())
    assert [envelope.header.sequence >> 40 for envelope in received] == [1, 2, 3]


def test_a_segment_that_a_replaced_sender_begins_later_is_never_read(lane: Lane) -> None:
    """L-13, L-18."""
    old = lane.writer(1, file_bytes=10)
    old.append(sealed(1))
    fence_lanes(lane.root, SOURCE, 2, KEYRING)
    new = lane.writer(2)
    new.append(sealed(1, generation=2))
    old.append(sealed(2))
    reader = lane.reader()
    assert len(lane.read_all(reader)) == 2
    old.append(sealed(3))
    new.append(sealed(2, generation=2))
    assert counters(lane.read_all(reader)) == [2]
    assert lane.segments() == ["000002-00000001.lane"]


def test_a_forged_fence_is_ignored_and_counted(lane: Lane) -> None:
    """L-18."""
    lane.writer().append(sealed(1))
    (lane.path / "000002.fence").write_bytes(b"SPDF" + bytes(44))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    assert reader.counts["fences_damaged"] >= 1


WRITER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.fs.lanes import Lane, sealed
writer = Lane(Path(sys.argv[1])).writer(file_bytes=200_000)
counter = 0
while True:
    counter += 1
    writer.append(sealed(counter, counter.to_bytes(8, "big") * (counter % 400)))
    if counter == 300:
        os.write(1, b"going")
"""

READER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.fs.lanes import Lane, counters
lane = Lane(Path(sys.argv[1]))
reader = lane.reader(int(sys.argv[3]))
while True:
    lane.now += 1
    for envelope in reader.read(16, 1 << 20, lane.now)[0]:
        os.write(1, b"%d %d\\n" % (counters([envelope])[0], envelope.redelivered))
        reader.finish(envelope.token)
"""

ROOT = str(Path(__file__).resolve().parents[2])


def test_a_killed_writer_leaves_only_whole_envelopes_to_dispatch(lane: Lane) -> None:
    """L-4, L-17: kill -9 at any moment."""
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", WRITER, lane.root, ROOT], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.read(5) == b"going"
        child.kill()
        child.wait()
        reader = lane.reader()
        received = lane.read_all(reader)
        last = len(received)
        assert counters(received) == list(range(1, last + 1))
        assert all(
            envelope.payload == counter.to_bytes(8, "big") * (counter % 400)
            for counter, envelope in enumerate(received, 1)
        )
        assert not [key for key in reader.counts if key.startswith("damaged")]
        reader.close(clean=True)
        for path in lane.path.iterdir():
            path.unlink()


def test_a_killed_reader_repeats_at_most_the_message_in_hand(lane: Lane) -> None:
    """L-15: kill -9 at any moment loses nothing; one message may come twice, marked."""
    total = 3000
    lane.writer(file_bytes=50_000).append([sealed(counter, bytes(50)) for counter in range(1, total + 1)])
    seen: list[int] = []
    generation = 0
    while total not in seen:
        generation += 1
        command = [sys.executable, "-c", READER, lane.root, ROOT, str(generation)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
        assert child.stdout is not None
        data = b""
        while data.count(b"\n") < 800 and b"\n%d " % total not in data:
            data += os.read(child.stdout.fileno(), 4096)
        child.kill()
        data += child.stdout.read()
        child.wait()
        rows = [tuple(map(int, row.split())) for row in data.decode().splitlines()]
        for counter, redelivered in rows:
            assert counter not in seen or redelivered == 1
            seen.append(counter)
    assert sorted(set(seen)) == list(range(1, total + 1))
    assert len(seen) - total <= generation
