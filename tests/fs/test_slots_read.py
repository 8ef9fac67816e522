"""Payloads in slots as their receiver finds them: waited for, taken whole, or given up (L-30)."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from speed.fs.lane_reader import LARGE_BYTES
from speed.wire import names
from speed.wire.cursor import Cursor, SlotHead, decode_cursor
from speed.wire.envelope import FLAG_SLOTTED
from speed.wire.limits import MAX_PAYLOAD_BYTES, SLOT_PIECE_BYTES
from tests.fs.lanes import LANE_KEY, Lane, counters, sealed
from tests.fs.slots import KEY, PAYLOAD, STRIDE, fill, head, put_piece, slot_path


def lives(generation: int) -> bool:
    """A sender that lives in its first generation."""
    return generation == 1


def cursor_of(lane: Lane, generation: int = 1) -> Cursor:
    return decode_cursor((lane.path / names.cursor_name(generation)).read_bytes(), (LANE_KEY,))


def put_aside(lane: Lane) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(lane.quarantine.glob("*.reason"))]


# --- waiting ---


def test_a_payload_comes_as_if_it_had_lain_in_its_envelope(lane: Lane) -> None:
    fill(lane)
    lane.raw_segment(head(1) + sealed(2, b"behind"))
    slotted, behind = lane.read_all(lane.reader())
    assert (slotted.payload, slotted.header.payload_bytes) == (PAYLOAD, len(PAYLOAD))
    assert type(slotted.payload) is bytes
    assert behind.payload == b"behind"


def test_a_missing_piece_is_waited_for_until_the_bell_rings_again(lane: Lane) -> None:
    path = fill(lane, written=1)
    lane.raw_segment(head(1))
    reader = lane.reader(is_live=lives)
    assert lane.read_all(reader) == []
    put_piece(path, 1)
    assert lane.read_all(reader) == []
    put_piece(path, 2)
    assert [one.payload for one in lane.read_all(reader)] == [PAYLOAD]
    assert reader.counts == {}


def test_a_piece_that_is_just_being_written_is_waited_for_at_once(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fill(lane, written=2)
    lane.raw_segment(head(1))
    monkeypatch.setattr("speed.fs.slots.os.sched_yield", lambda: put_piece(path, 2))
    monkeypatch.setattr("speed.fs.slots.PATIENCE_SECONDS", 60.0)
    assert [one.payload for one in lane.read_all(lane.reader(is_live=lives))] == [PAYLOAD]


def test_a_sender_that_lives_is_waited_for_by_scans(lane: Lane) -> None:
    path = fill(lane, written=2)
    lane.raw_segment(head(1))
    reader = lane.reader(is_live=lives)
    for _ in range(3):
        assert lane.read_all(reader, scan=True) == []
    assert not reader.is_idle
    put_piece(path, 2)
    assert counters(lane.read_all(reader, scan=True)) == [1]
    assert reader.is_idle


def test_a_payload_that_waits_is_not_passed_by_the_cursor(lane: Lane) -> None:
    fill(lane, written=2)
    first = sealed(1, b"before")
    lane.raw_segment(first + head(2))
    reader = lane.reader(is_live=lives)
    assert counters(lane.read_all(reader)) == [1]
    lane.read_all(reader, scan=True)
    cursor = cursor_of(lane)
    assert (cursor.offset, cursor.unfinished) == (len(first), ())


def test_a_receiver_that_closes_meanwhile_had_nothing_in_hand(lane: Lane) -> None:
    path = fill(lane, written=2)
    lane.raw_segment(head(1))
    reader = lane.reader(is_live=lives)
    lane.read_all(reader)
    reader.close(clean=True)
    assert cursor_of(lane).clean
    put_piece(path, 2)
    (again,) = lane.read_all(lane.reader(2))
    assert (again.payload, again.redelivered) == (PAYLOAD, False)


# --- given up ---


def test_a_sender_that_died_between_pieces_leaves_a_torn_slot(lane: Lane) -> None:
    fill(lane, written=2)
    lane.raw_segment(head(1))
    reader = lane.reader()
    assert lane.read_all(reader) == []
    assert reader.counts == {}, "only a scan asks whether the sender lives"
    assert lane.read_all(reader, scan=True) == []
    assert reader.counts == {"torn_slots": 1}
    assert reader.is_idle
    assert cursor_of(lane).offset == len(head(1))
    assert put_aside(lane) == []


def test_a_sender_that_lives_again_writes_no_piece_of_its_last_life(lane: Lane) -> None:
    fill(lane, written=2)
    lane.raw_segment(head(1))
    reader = lane.reader(is_live=lambda generation: generation == 2)
    lane.read_all(reader, scan=True)
    assert reader.counts == {"torn_slots": 1}


def test_what_was_written_just_before_the_sender_went_is_taken(lane: Lane) -> None:
    """It is asked for before the last look, not after."""
    path = fill(lane, written=2)
    lane.raw_segment(head(1))

    def ends(generation: int) -> bool:
        put_piece(path, 2)
        return False

    assert counters(lane.read_all(lane.reader(is_live=ends), scan=True)) == [1]


def test_something_in_a_later_file_ends_the_wait_as_well(lane: Lane) -> None:
    fill(lane, written=2)
    lane.raw_segment(head(1))
    reader = lane.reader(is_live=lives)
    lane.read_all(reader)
    lane.raw_segment(b"", segment=2)
    assert lane.read_all(reader, scan=True) == []
    assert reader.counts == {}, "an empty file is nothing"
    lane.raw_segment(sealed(2), segment=2)
    assert counters(lane.read_all(reader, scan=True)) == [2]
    assert reader.counts == {"damaged_bad_slot": 1}


def test_of_an_altered_payload_nothing_is_handed_out_and_no_key_is_kept(lane: Lane) -> None:
    path = fill(lane)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    lane.raw_segment(head(1) + sealed(2))
    reader = lane.reader(is_live=lives)
    assert counters(lane.read_all(reader)) == [2]
    assert reader.counts == {"damaged_bad_slot": 1}
    (reason,) = put_aside(lane)
    assert (reason["name"], reason["reason"], reason["offset"]) == (f"analytics {path.name}", "BAD_SLOT", 2 * STRIDE)
    assert (lane.quarantine / "00000001").read_bytes() == data[2 * STRIDE :]


@pytest.mark.parametrize("plaintext", [SlotHead(1, 1, KEY).encode()[:-1], SlotHead(17, 1, KEY).encode()])
def test_an_envelope_that_names_no_slot_is_put_aside_sealed(lane: Lane, plaintext: bytes) -> None:
    damaged = sealed(1, plaintext, flags=FLAG_SLOTTED)
    lane.raw_segment(damaged + sealed(2))
    reader = lane.reader(is_live=lives)
    assert counters(lane.read_all(reader)) == [2]
    (reason,) = put_aside(lane)
    assert (reason["reason"], reason["offset"]) == ("BAD_SLOT", 0)
    kept = (lane.quarantine / "00000001").read_bytes()
    assert kept == damaged
    assert KEY[:16] not in kept


def test_a_slot_that_is_not_there_is_given_up_at_once(lane: Lane) -> None:
    lane.raw_segment(head(1) + sealed(2))
    reader = lane.reader(is_live=lives)
    assert counters(lane.read_all(reader)) == [2]
    assert reader.counts == {"torn_slots": 1}


def test_a_slot_that_is_cut_while_it_is_read_is_torn(lane: Lane) -> None:
    path = fill(lane, written=2)
    lane.raw_segment(head(1))
    reader = lane.reader(is_live=lives)
    assert lane.read_all(reader) == []
    os.truncate(path, STRIDE)
    assert lane.read_all(reader) == []
    assert reader.counts == {"torn_slots": 1}
    assert put_aside(lane) == []


def test_a_size_that_is_a_lie_costs_no_memory(lane: Lane) -> None:
    fill(lane)
    lane.raw_segment(sealed(1, SlotHead(1, MAX_PAYLOAD_BYTES, KEY).encode(), flags=FLAG_SLOTTED))
    reader = lane.reader(is_live=lives)
    tracemalloc.start()
    lane.read_all(reader)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reader.counts == {"torn_slots": 1}
    assert peak < 4 * SLOT_PIECE_BYTES


def link(path: Path) -> None:
    path.rename(path.with_name(".tmp-elsewhere"))
    path.symlink_to(".tmp-elsewhere")


def second_name(path: Path) -> None:
    path.with_name(".tmp-elsewhere").hardlink_to(path)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("replaced", [link, second_name, fifo, directory])
def test_what_is_no_file_of_its_own_is_put_aside_unopened(lane: Lane, replaced: Callable[[Path], None]) -> None:
    path = fill(lane)
    lane.raw_segment(head(1) + sealed(2))
    replaced(path)
    reader = lane.reader(is_live=lives)
    assert counters(lane.read_all(reader)) == [2]
    assert reader.counts == {"slots_refused": 1, "torn_slots": 1}
    assert not os.path.lexists(path)
    assert [(one["name"], one["reason"]) for one in put_aside(lane)] == [(path.name, "UNTRUSTED_FILE")]


# --- after a restart ---


def died_with(lane: Lane, *, finished: int) -> None:
    """A process dies that has the first payload in hand, and finished another message."""
    fill(lane)
    lane.raw_segment(head(1) + sealed(2))
    died = lane.reader()
    received = lane.read_all(died, finish=False)
    died.finish(received[finished].token)
    died.abandon()


def test_a_payload_in_hand_comes_again_after_the_receiver_was_killed(lane: Lane) -> None:
    died_with(lane, finished=1)
    reader = lane.reader(2)
    (again,) = lane.read_all(reader)
    assert (again.payload, again.redelivered) == (PAYLOAD, True)
    assert again.header.payload_bytes == len(PAYLOAD)


def test_what_comes_again_waits_for_its_slot_no_longer_than_the_first_time(lane: Lane) -> None:
    died_with(lane, finished=1)
    slot_path(lane).unlink()
    reader = lane.reader(2)
    assert lane.read_all(reader) == []
    assert reader.counts == {"torn_slots": 1}
    assert cursor_of(lane, 2).unfinished == ()


def test_slots_of_an_earlier_life_stay_as_long_as_one_that_is_unfinished_names_them(lane: Lane) -> None:
    needed, other = fill(lane), fill(lane, number=2)
    lane.raw_segment(head(1))
    lane.raw_segment(sealed(1, generation=2), generation=2)
    reader = lane.reader()
    slotted, later = lane.read_all(reader, finish=False)
    reader.finish(later.token)
    assert (needed.exists(), other.exists()) == (True, False)
    reader.finish(slotted.token)
    assert not needed.exists()
    assert lane.segments() == [names.lane_file_name(2, 1)]


def test_slots_stay_until_it_is_known_which_of_them_comes_again(lane: Lane) -> None:
    died_with(lane, finished=1)
    other = fill(lane, number=2)
    lane.raw_segment(sealed(1, generation=2), generation=2)
    lane.read_all(lane.reader(2), finish=False)
    assert other.exists()


# --- bounds ---


def test_a_finished_payload_frees_its_slot_at_once(lane: Lane) -> None:
    """Its sender may be out of slots; what lies in the lane itself may wait for the next commit."""
    fill(lane)
    lane.raw_segment(head(1))
    reader = lane.reader()
    (slotted,) = lane.read_all(reader, finish=False)
    reader.finish(slotted.token, lazy=True)
    assert cursor_of(lane).offset == len(head(1))


def test_bytes_of_slots_count_as_bytes_in_hand(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speed.core.lane.MAX_UNFINISHED_BYTES", len(PAYLOAD))
    fill(lane)
    lane.raw_segment(head(1))
    reader = lane.reader()
    (slotted,) = lane.read_all(reader, finish=False)
    assert reader.is_full
    reader.finish(slotted.token)
    assert not reader.is_full


def test_a_payload_that_has_begun_is_read_whatever_is_in_hand(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would wait for itself."""
    monkeypatch.setattr("speed.core.lane.MAX_UNFINISHED_BYTES", len(PAYLOAD))
    fill(lane, written=2)
    lane.raw_segment(head(1))
    reader = lane.reader(is_live=lives)
    lane.read_all(reader)
    assert not reader.is_full


def test_a_large_one_is_left_to_another_thread(lane: Lane) -> None:
    payload = bytes(LARGE_BYTES + 1)
    fill(lane, written=1000, payload=payload)
    lane.raw_segment(sealed(1) + head(2, payload))
    reader = lane.reader()
    received, more = reader.read(64, 1 << 20, 1.0, large=False)
    assert (counters(received), more, reader.holds_large) == ([1], True, True)
    assert reader.read(64, 1 << 20, 2.0, large=False) == ([], True)
    received, _ = reader.read(1, 1, 3.0)
    assert [one.payload for one in received] == [payload]
    assert not reader.holds_large
