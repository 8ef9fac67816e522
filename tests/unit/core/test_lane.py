"""Decoding a lane from bytes that arrive in any pieces, damaged anywhere (L-11, L-16)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from speed.core.lane import ByteWindow, Damage, LaneDecoder, Opened, Scan
from speed.wire import names
from speed.wire.envelope import ENVELOPE_OVERHEAD, FLAG_SLOTTED, Header
from speed.wire.seal import Keyring, LinkOpener, LinkSealer

KEYRING = Keyring((bytes(32),))
SOURCE, TARGET = names.node_id("analytics"), names.node_id("billing")
OPENER = LinkOpener(KEYRING, SOURCE, TARGET)
SEALER = LinkSealer(KEYRING, SOURCE, TARGET, 1)
SIZES = (0, 1, 40, 300, 90, 0, 700)
ENVELOPES = tuple(
    SEALER.seal(1, 0, counter, 1, bytes([counter]) * size, counter.to_bytes(12, "big"))
    for counter, size in enumerate(SIZES, 1)
)
LANE = b"".join(ENVELOPES)
STARTS = tuple(sum(map(len, ENVELOPES[:index])) for index in range(len(ENVELOPES)))


def decoder(max_payload: int = 1000) -> LaneDecoder:
    return LaneDecoder(SOURCE, TARGET, max_payload, OPENER.open)


def scan(data: bytes, *, final: bool = True, suspicious: bool = False) -> Scan:
    return decoder().scan(ByteWindow(data, 0, 1, final, suspicious))


def test_nothing_behind_a_payload_in_a_slot_is_decoded_unless_it_is_asked_for() -> None:
    lane = SEALER.seal(1, FLAG_SLOTTED, 100, 1, b"", bytes(12)) + LANE
    scanned = scan(lane)
    assert (len(scanned.items), scanned.consumed, scanned.more) == (1, ENVELOPE_OVERHEAD, True)
    assert len(decoder().scan(ByteWindow(lane, 0, 1, True, past_slots=True)).items) == 1 + len(ENVELOPES)


def payloads(scanned: Scan) -> list[bytes]:
    return [item.payload for item in scanned.items if isinstance(item, Opened)]


def decode_in_pieces(data: bytes, ends: list[int]) -> tuple[list[Opened], set[int]]:
    """Scan ever longer prefixes, each from what is settled, as a reader does; also the damaged offsets."""
    at = 0
    opened: list[Opened] = []
    damaged: set[int] = set()
    for end in [*sorted(ends), len(data)]:
        more = True
        while more:
            scanned = decoder().scan(ByteWindow(data[at:end], at, 1, final=end == len(data)))
            for item in scanned.items:
                if isinstance(item, Opened):
                    opened.append(item)
                else:
                    damaged.update(range(item.start, item.end))
            at += scanned.consumed
            more = scanned.more
    assert at == len(data)
    return opened, damaged


@given(st.lists(st.integers(0, len(LANE)), max_size=12))
def test_any_split_of_a_lane_decodes_equally(ends: list[int]) -> None:
    opened, damaged = decode_in_pieces(LANE, ends)
    assert opened == scan(LANE).items
    assert damaged == set()


@given(
    st.lists(st.integers(0, len(LANE)), max_size=8),
    st.lists(st.tuples(st.integers(0, len(LANE) - 1), st.integers(1, 255)), min_size=1, max_size=4),
)
@settings(deadline=None)
def test_damage_is_found_equally_in_any_split_and_costs_only_what_it_hit(
    ends: list[int], flips: list[tuple[int, int]]
) -> None:
    lane = bytearray(LANE)
    for at, flip in flips:
        lane[at] ^= flip
    whole = {
        index
        for index, (start, envelope) in enumerate(zip(STARTS, ENVELOPES, strict=True))
        if lane[start : start + len(envelope)] == envelope
    }
    opened, damaged = decode_in_pieces(bytes(lane), ends)
    assert [item.start for item in opened] == [STARTS[index] for index in sorted(whole)]
    kept = {offset for item in opened for offset in range(item.start, item.end)}
    assert damaged == set(range(len(lane))) - kept


@given(st.integers(0, len(LANE)))
def test_a_cut_lane_gives_all_whole_envelopes_and_at_most_one_torn_tail(end: int) -> None:
    scanned = scan(LANE[:end])
    whole = [b"x" for start, envelope in zip(STARTS, ENVELOPES, strict=True) if start + len(envelope) <= end]
    assert len(payloads(scanned)) == len(whole)
    tails = [item for item in scanned.items if isinstance(item, Damage)]
    assert [tail.reason for tail in tails] in ([], ["TRUNCATED"])
    assert scanned.consumed == end


def test_an_incomplete_envelope_says_how_much_it_needs() -> None:
    scanned = scan(LANE[: len(ENVELOPES[0]) + 100], final=False)
    assert scanned.consumed == len(ENVELOPES[0])
    assert scanned.needed == ENVELOPE_OVERHEAD + SIZES[1]


def test_at_most_the_asked_number_of_items_is_returned() -> None:
    scanned = decoder().scan(ByteWindow(LANE, 0, 1), limit=2)
    assert len(scanned.items) == 2
    assert scanned.more


def test_an_envelope_above_the_limit_is_damage_before_it_is_opened() -> None:
    scanned = decoder(max_payload=500).scan(ByteWindow(LANE, 0, 1, final=True))
    assert len(payloads(scanned)) == len(SIZES) - 1
    assert scanned.items[-1] == Damage("TOO_LARGE", STARTS[-1], len(LANE))


def test_one_scan_of_a_lane_full_of_forged_headers_is_bounded() -> None:
    """L-16: the rest follows in further scans, and the valid envelope is still found."""
    forged = bytearray(ENVELOPES[2])
    forged[-1] ^= 1
    lane = bytes(forged) * 1000 + ENVELOPES[0]
    calls = 0

    def count(header: Header, envelope: memoryview) -> bytes:
        nonlocal calls
        calls += 1
        return OPENER.open(header, envelope)

    scanned = LaneDecoder(SOURCE, TARGET, 1000, count).scan(ByteWindow(lane, 0, 1, final=True))
    assert scanned.more
    assert calls < 100
    opened, _ = decode_in_pieces(lane, [])
    assert [item.end for item in opened] == [len(lane)]


def test_an_envelope_of_another_generation_than_its_segment_is_damage() -> None:
    scanned = decoder().scan(ByteWindow(LANE, 0, 2, final=True))
    assert scanned.items == [Damage("BAD_SEQUENCE", 0, len(LANE))]


def test_a_lying_length_is_found_out_only_by_a_suspicious_scan() -> None:
    liar = bytearray(ENVELOPES[1])
    liar[30] = 3
    data = bytes(liar) + ENVELOPES[2]
    assert scan(data, final=False).consumed == 0
    suspicious = scan(data, final=False, suspicious=True)
    assert payloads(suspicious) == [bytes([3]) * SIZES[2]]


def test_a_suspicious_scan_waits_for_an_envelope_that_is_only_incomplete() -> None:
    """L-16: nothing behind it says that its length lies."""
    cut = len(ENVELOPES[0]) + 100
    scanned = decoder().scan(ByteWindow(LANE[:cut], 0, 1, suspicious=True))
    assert (len(scanned.items), scanned.consumed) == (1, len(ENVELOPES[0]))
    assert scanned.needed == ENVELOPE_OVERHEAD + SIZES[1]
