"""What a reader does with bytes that are no envelope (L-11, L-12, L-16, L-17, L-20)."""

from __future__ import annotations

import json

import pytest

from speed.wire import names
from tests.fs.lanes import SOURCE, SOURCE_ID, TARGET, TARGET_ID, Lane, counters, sealed


def reasons(lane: Lane) -> list[str]:
    return [json.loads(path.read_text())["reason"] for path in sorted(lane.quarantine.glob("*.reason"))]


FIELDS = {
    "version": 0,
    "type": 1,
    "size": 31,
    "source": 35,
    "target": 50,
    "key id": 66,
    "nonce": 80,
    "tag": -1,
}


@pytest.mark.parametrize("at", FIELDS.values(), ids=list(FIELDS))
@pytest.mark.parametrize("victim", [0, 1, 2], ids=["first", "middle", "last"])
def test_one_damaged_envelope_costs_only_itself(lane: Lane, at: int, victim: int) -> None:
    """L-16: the next valid envelope still arrives, whichever field was hit."""
    envelopes = [bytearray(sealed(counter, bytes(300))) for counter in (1, 2, 3)]
    envelopes[victim][at] ^= 1
    lane.raw_segment(b"".join(envelopes))
    lane.raw_segment(sealed(4), segment=2)
    reader = lane.reader()
    received = lane.read_all(reader, scan=True)
    assert counters(received) == [c for c in (1, 2, 3, 4) if c != victim + 1]
    assert [key for key in reader.counts if key.startswith("damaged_") or key == "torn_tails"]


def test_damaged_bytes_are_kept_with_their_reason(lane: Lane) -> None:
    """L-20."""
    damaged = bytearray(sealed(2, b"payload"))
    damaged[-1] ^= 1
    lane.raw_segment(sealed(1) + damaged + sealed(3))
    assert counters(lane.read_all(lane.reader())) == [1, 3]
    assert reasons(lane) == ["BAD_TAG"]
    assert (lane.quarantine / "00000001").read_bytes() == bytes(damaged)


def test_a_large_envelope_with_a_wrong_tag_gives_nothing_and_its_bytes_are_kept(lane: Lane) -> None:
    """L-16, L-20: they are as they came, as many as are kept of one."""
    damaged = bytearray(sealed(2, bytes(range(256)) * 8192))
    damaged[-1] ^= 1
    lane.raw_segment(sealed(1) + damaged + sealed(3))
    assert counters(lane.read_all(lane.reader())) == [1, 3]
    assert reasons(lane)[0] == "BAD_TAG"
    assert (lane.quarantine / "00000001").read_bytes() == damaged[: 1 << 20]


@pytest.mark.parametrize("size", [100, 70_000, 3_000_000])
def test_garbage_between_envelopes_is_skipped(lane: Lane, size: int) -> None:
    """L-16: whatever its length."""
    lane.raw_segment(sealed(1) + b"\xa5" * size + sealed(2, bytes(100_000)) + sealed(3))
    assert counters(lane.read_all(lane.reader())) == [1, 2, 3]


def test_a_lying_length_holds_up_the_lane_only_until_the_next_scan(lane: Lane) -> None:
    """L-16: the damaged envelope claims bytes that are not there."""
    liar = bytearray(sealed(2))
    liar[29] = 1
    lane.raw_segment(sealed(1) + liar + sealed(3))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    assert counters(lane.read_all(reader, scan=True)) == [3]
    assert reader.counts["gaps"] == 1


def test_a_large_envelope_that_is_still_being_written_is_no_liar(lane: Lane) -> None:
    """L-16: an incomplete envelope waits, however often the lane is scanned."""
    envelope = sealed(1, bytes(500_000))
    path = lane.raw_segment(envelope[:300_000])
    reader = lane.reader()
    for _ in range(3):
        assert lane.read_all(reader, scan=True) == []
    with path.open("ab") as file:
        file.write(envelope[300_000:])
    assert counters(lane.read_all(reader)) == [1]
    assert reader.counts == {}


def test_a_torn_tail_is_dropped_when_a_successor_exists(lane: Lane) -> None:
    """L-17: it was never acknowledged; the sender used its counter again."""
    torn = sealed(2, bytes(200_000))
    lane.raw_segment(sealed(1) + torn[:150_000])
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    lane.raw_segment(sealed(2, b"again") + sealed(3), segment=2)
    received = lane.read_all(reader)
    assert counters(received) == [2, 3]
    assert received[0].payload == b"again"
    assert reader.counts == {"torn_tails": 1}
    assert lane.segments() == ["000001-00000002.lane"]


def test_bytes_written_before_the_successor_appeared_are_read(lane: Lane) -> None:
    """L-17: the end of a segment is read once more after its successor was seen."""
    path = lane.raw_segment(sealed(1) + sealed(2)[:50])
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    rest = sealed(2, b"x" * 40)
    path.write_bytes(path.read_bytes()[:-50] + rest)
    lane.raw_segment(sealed(3), segment=2)
    assert counters(lane.read_all(reader)) == [2, 3]


def test_a_copied_envelope_is_a_duplicate(lane: Lane) -> None:
    """L-12: replay."""
    first = sealed(1)
    lane.raw_segment(first + sealed(2) + first + sealed(2) + sealed(3))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1, 2, 3]
    assert reader.counts == {"duplicates": 2}


def test_a_gap_is_counted_and_accepted(lane: Lane) -> None:
    """L-12."""
    lane.raw_segment(sealed(1) + sealed(5))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1, 5]
    assert reader.counts == {"gaps": 1}


def test_an_envelope_of_another_generation_than_its_segment_is_damage(lane: Lane) -> None:
    """L-13."""
    lane.raw_segment(sealed(1, generation=2) + sealed(1))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    assert reader.counts["damaged_bad_sequence"] == 1


def test_an_envelope_moved_from_another_inbox_is_damage(lane: Lane) -> None:
    """L-11: source and target are authenticated."""
    moved = sealed(1).replace(SOURCE_ID + TARGET_ID, TARGET_ID + SOURCE_ID)
    lane.raw_segment(moved + sealed(1))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [1]
    assert reader.counts["damaged_wrong_source"] == 1


def test_a_forged_length_beyond_the_limit_takes_no_memory(lane: Lane) -> None:
    """L-10: bounds come before any allocation."""
    forged = bytearray(sealed(1))
    forged[24:32] = (1 << 62).to_bytes(8, "big")
    lane.raw_segment(bytes(forged) + sealed(2))
    reader = lane.reader()
    assert counters(lane.read_all(reader)) == [2]
    assert reader.counts["damaged_too_large"] == 1


def test_many_forged_headers_cost_bounded_work(lane: Lane) -> None:
    """L-16: a lane full of header patterns neither blocks the reader nor hides a valid envelope."""
    forged = bytearray(sealed(1, bytes(60)))
    forged[-1] ^= 1
    lane.raw_segment(bytes(forged) * 5000 + sealed(2))
    assert counters(lane.read_all(lane.reader())) == [2]


def test_the_quarantine_is_bounded(lane: Lane) -> None:
    """L-20."""
    damaged = bytearray(sealed(1))
    damaged[-1] ^= 1
    data = b"".join(bytes(damaged) + sealed(counter) for counter in range(1, 401))
    lane.raw_segment(data)
    assert len(lane.read_all(lane.reader())) == 400
    kept = [path for path in lane.quarantine.iterdir() if path.suffix != ".reason"]
    assert len(kept) == 256
    assert lane.inbox.quarantine_store.dropped == 144


def test_names_of_the_lane_in_use_are_those_of_the_contract() -> None:
    """L-1."""
    assert names.lane_dir("/r", TARGET, SOURCE) == "/r/billing/inbox/analytics"
    assert names.lane_file_name(7, 1) == "000007-00000001.lane"
    assert names.cursor_name(12) == "cursor.000012"
    assert names.fence_name(8) == "000008.fence"
