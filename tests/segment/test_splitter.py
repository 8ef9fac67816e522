"""Cutting, and putting together in memory (G-3 to G-5, G-11)."""

from __future__ import annotations

import random
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speed.errors import ConfigurationError, PayloadTooLargeError, WireError
from speed.segment import Assembler, Splitter, read_segment, write_segment
from speed.segment.form import MAX_HEAD_BYTES
from speed.segment.parity import splitter_for
from speed.segment.reassembly import trials
from speed.wire.envelope import ENVELOPE_OVERHEAD
from speed.wire.limits import MIN_LENGTH_TRIALS
from tests.thorough import examples


def assembled(segments: list[bytes]) -> bytes | None:
    assembler = Assembler()
    payload = None
    for data in segments:
        payload = assembler.receive("a", data, 0).payload or payload
    return payload


@given(size=st.integers(0, 3000), units=st.integers(1, 5), rate=st.sampled_from([0.0, 0.125, 0.5, 1.0]))
def test_the_segments_of_a_payload_take_no_more_room_than_was_said_before(size: int, units: int, rate: float) -> None:
    """L-6: an answer that may not wait for room is written whole or not at all."""
    splitter = Splitter(64 * units, rate)
    envelopes = [len(write_segment(segment)) + ENVELOPE_OVERHEAD for segment in splitter.split(bytes(size))]
    assert sum(envelopes) <= splitter.cut_bytes(size) <= sum(envelopes) + MAX_HEAD_BYTES * len(envelopes)


@settings(max_examples=examples(150), deadline=None)
@given(
    payload=st.binary(max_size=3000),
    zeros=st.integers(0, 400),
    units=st.integers(1, 5),
    rate=st.sampled_from([0.0, 0.125, 0.5, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_any_sufficient_part_gives_the_payload(payload: bytes, zeros: int, units: int, rate: float, seed: int) -> None:
    """G-4, G-5, G-10, G-11."""
    payload += bytes(zeros)
    written = [write_segment(segment) for segment in Splitter(64 * units, rate).split(payload)]
    count = read_segment(written[0]).data_count
    assert assembled(random.Random(seed).sample(written, count)) == (payload or None)


def test_a_segment_costs_at_most_62_bytes_beside_its_payload() -> None:
    """G-1; the source asks for 100."""
    for size, payload in ((1, bytes(255)), (64 * 1000, bytes(64 * 1000 * 220))):
        for segment in Splitter(size, 0.125 if size > 1 else 0).split(payload):
            assert len(write_segment(segment)) - len(segment.payload) <= MAX_HEAD_BYTES


def test_parity_is_an_eighth_unless_said_otherwise() -> None:
    """G-5: a library needs only a segment size."""
    shape = Splitter(64).shape(64 * 100)
    assert (shape.data_count, shape.parity_count) == (100, 13)
    assert Splitter(64, 1.0).shape(1).parity_count == 1


def test_more_than_255_segments_are_refused_before_anything_is_read() -> None:
    """G-4."""
    assert Splitter(64, 0).shape(64 * 255).data_count == 255
    with pytest.raises(PayloadTooLargeError):
        Splitter(64, 0).split(bytes(64 * 255 + 1))


@pytest.mark.parametrize(("rate", "most"), [(0.125, 226), (0.001, 254), (0.5, 170), (1.0, 127)])
def test_parity_is_given_whole_or_the_payload_is_refused(rate: float, most: int) -> None:
    """G-5: never a part of what was asked for."""
    shape = Splitter(64, rate).shape(64 * most)
    assert shape.parity_count == ceil(most * rate)
    assert Splitter(64, rate).most_bytes == 64 * most
    with pytest.raises(PayloadTooLargeError, match=f"with a parity rate of {rate:g}: send less, or use larger ones"):
        Splitter(64, rate).shape(64 * most + 1)


@pytest.mark.parametrize(("size", "rate"), [(0, 0), (-64, 0), (63, 0.125), (64, -0.1), (64, 1.5)])
def test_sizes_and_rates_that_cannot_be_are_refused(size: int, rate: float) -> None:
    """G-4."""
    with pytest.raises(ConfigurationError):
        Splitter(size, rate)


@pytest.mark.parametrize("zeros", [1, 63, 64, 1000, 5000])
def test_a_lost_last_segment_of_trailing_zeros_gets_its_length_back(zeros: int) -> None:
    """G-11: the reference delivers the padding here, or nothing."""
    payload = b"x" * 10_000 + bytes(zeros)
    written = [write_segment(segment) for segment in Splitter(6400).split(payload)]
    count = read_segment(written[0]).data_count
    assert assembled(written[: count - 1] + written[count:]) == payload


def test_a_lost_last_segment_that_ends_in_a_million_zeros_is_recovered() -> None:
    """G-11."""
    size = 1 << 21
    payload = b"x" * size + b"end" + bytes(1_000_000)
    written = [write_segment(segment) for segment in Splitter(size).split(payload)]
    assert assembled([written[0], written[2]]) == payload


def test_the_lengths_that_are_tried_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """G-11: beyond the bound the payload counts as lost, but for the full length."""
    size = 1 << 20
    assert trials(2, size) < MIN_LENGTH_TRIALS + size // 32
    monkeypatch.setattr("speed.segment.reassembly.MIN_LENGTH_TRIALS", 1000)
    lost = b"x" * size + bytes(size // 2)
    kept = b"x" * size + bytes(size)
    for payload, outcome in ((lost, None), (kept, kept)):
        written = [write_segment(segment) for segment in Splitter(size).split(payload)]
        assembler = Assembler()
        assembler.receive("a", written[0], 0)
        if outcome is None:
            with pytest.raises(WireError, match="SEGMENT_HASH"):
                assembler.receive("a", written[2], 0)
        else:
            assert assembler.receive("a", written[2], 0).payload == outcome


@settings(max_examples=examples(200), deadline=None)
@given(data=st.binary(max_size=200))
def test_bytes_that_are_no_segment_give_one_named_error_and_nothing_else(data: bytes) -> None:
    """G-2."""
    try:
        read_segment(data)
    except WireError as error:
        assert error.reason == "BAD_SEGMENT"


def test_what_is_too_large_for_an_envelope_is_cut_in_at_most_240() -> None:
    """G-18."""
    assert splitter_for(65 << 20).shape(65 << 20).data_count == 17
    assert splitter_for(1 << 30).shape(1 << 30).data_count <= 240
