"""What is kept, of whom, and who loses what when room is short (G-12, G-13, G-15, G-16)."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import speed.segment
from speed.errors import ConfigurationError, WireError
from speed.segment import Assembler, Limits, Segment, Splitter, write_segment
from speed.segment.reassembly import PayloadKey, Reassembly, Reconstruction, SegmentVerdict
from tests.thorough import examples

FLOOD = int(os.environ.get("SEGMENT_FLOOD", "20000"))


def first_of(number: int, size: int = 100) -> Segment:
    """The first segment of a payload that never goes on."""
    return Segment(number.to_bytes(32, "big"), 255, 0, 0, False, bytes(size))


def held(reassembly: Reassembly) -> dict[str, tuple[int, int]]:
    """Sender -> (payloads, bytes)."""
    found: dict[str, tuple[int, int]] = {}
    for one in reassembly._gathering.values():
        payloads, size = found.get(one.key.sender, (0, 0))
        found[one.key.sender] = payloads + 1, size + one.buffered
    return found


def test_a_flood_of_first_segments_costs_its_sender_only() -> None:
    """G-16: whoever has less than an equal share loses nothing."""
    reassembly = Reassembly(Limits(reconstructions=8, sender_reconstructions=8))
    mine = PayloadKey("honest", 1, bytes(32))
    reassembly.admit(mine, first_of(0), 0.0)
    evicted: set[str] = set()
    for number in range(1, FLOOD):
        sender = f"bad{number % 3}"
        key = PayloadKey(sender, 1, number.to_bytes(32, "big"))
        evicted |= {other.sender for other in reassembly.admit(key, first_of(number), float(number) / FLOOD)[1]}
    assert evicted == {"bad0", "bad1", "bad2"}
    assert reassembly.reconstruction(mine) is not None
    assert sum(payloads for payloads, _ in held(reassembly).values()) == 8


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 400), st.integers(0, 5)), max_size=80))
def test_no_limit_is_ever_exceeded(arrivals: list[tuple[str, int, int]]) -> None:
    """G-15, and nobody below an equal share is evicted for another (G-16)."""
    bounds = Limits(reconstructions=6, sender_reconstructions=4, buffered_bytes=1000, sender_buffered_bytes=700)
    reassembly, numbers = Reassembly(bounds), count()
    for sender, size, at in arrivals:
        before = held(reassembly)
        key = PayloadKey(sender, 1, next(numbers).to_bytes(32, "big"))
        try:
            _, evicted = reassembly.admit(key, first_of(1, size), float(at))
        except WireError as error:
            assert error.reason == "SEGMENT_LIMIT"
            continue
        for other in evicted:
            payloads, buffered = before[other.sender]
            others = len(before) + (sender not in before)
            assert other.sender == sender or payloads * others >= 6 or buffered * others >= 1000 - 400
        now = held(reassembly)
        assert sum(payloads for payloads, _ in now.values()) <= 6
        assert sum(buffered for _, buffered in now.values()) <= 1000
        assert all(payloads <= 4 and buffered <= 700 for payloads, buffered in now.values())


def test_what_waits_too_long_is_given_up_and_so_is_what_never_ends() -> None:
    """G-15: idleness and age."""
    reassembly = Reassembly(Limits(idle_seconds=60, total_seconds=100))
    slow, idle = PayloadKey("a", 1, bytes(32)), PayloadKey("a", 1, bytes(31) + b"\1")
    reassembly.admit(slow, first_of(0), 0.0)
    reassembly.admit(idle, first_of(1), 0.0)
    reassembly.admit(slow, Segment(bytes(32), 255, 0, 1, False, bytes(100)), 50.0)
    assert reassembly.expire(59.9) == ([], [])
    assert reassembly.expire(60.0) == ([idle], [])
    reassembly.admit(slow, Segment(bytes(32), 255, 0, 2, False, bytes(100)), 99.0)
    assert reassembly.expire(100.0) == ([slow], [])


def test_completion_flags_are_bounded_and_a_flood_of_them_ousts_its_own() -> None:
    """G-15."""
    reassembly = Reassembly(Limits(completions=10, sender_completions=8))
    mine = PayloadKey("honest", 1, bytes(32))
    reassembly.complete(mine, 0.0)
    for number in range(1000):
        reassembly.complete(PayloadKey(f"bad{number % 2}", 1, number.to_bytes(32, "big")), float(number))
    assert reassembly.is_complete(mine)
    assert len(reassembly._done) == 10


def test_a_sender_with_too_many_completions_loses_its_own() -> None:
    """G-15: before it has more than all together may have."""
    reassembly = Reassembly(Limits(completions=10, sender_completions=2))
    one, two, three = (PayloadKey("a", 1, number.to_bytes(32, "big")) for number in range(3))
    assert [reassembly.complete(key, 0.0) for key in (one, two, three)] == [[], [], [one]]
    assert reassembly.complete(three, 1.0) == []


def test_what_a_store_kept_is_taken_up_in_the_order_of_its_times() -> None:
    """G-15: who waited longest is given up first, and completions count."""
    older, newer, done = (PayloadKey("a", 1, number.to_bytes(32, "big")) for number in range(3))
    kept = [Reconstruction(newer, 255, 0, 2.0, 2.0), Reconstruction(older, 255, 0, 1.0, 1.0)]
    reassembly = Reassembly(Limits(reconstructions=2))
    reassembly.restore(kept, [(done, 3.0)])
    assert reassembly.is_complete(done)
    assert reassembly.admit(PayloadKey("b", 1, bytes(32)), first_of(9), 4.0)[1] == [older]
    assert reassembly.expire(3.0 + reassembly.limits.completion_seconds)[1] == [done]


def test_types_and_senders_are_told_apart() -> None:
    """G-12: a hash says nothing about whose payload it is."""
    data = [write_segment(segment) for segment in Splitter(64, 0).split(bytes(100))]
    assembler = Assembler()
    assert assembler.receive("a", data[0], 0, kind=1).verdict == "kept"
    assert assembler.receive("a", data[1], 0, kind=4).verdict == "kept"
    assert assembler.receive("b", data[1], 0, kind=1).verdict == "kept"
    assert assembler.receive("a", data[1], 0, kind=1).payload == bytes(100)


def test_a_ready_payload_takes_no_more_segments() -> None:
    """G-13."""
    reassembly = Reassembly()
    key = PayloadKey("a", 1, bytes(32))
    assert reassembly.admit(key, Segment(bytes(32), 1, 1, 0, False, b"x"), 0.0)[0] is SegmentVerdict.READY
    assert reassembly.admit(key, Segment(bytes(32), 1, 1, 0, True, bytes(64)), 0.0)[0] is SegmentVerdict.DONE
    reassembly.complete(key, 0.0)
    assert reassembly.admit(key, Segment(bytes(32), 1, 1, 0, True, bytes(64)), 0.0)[0] is SegmentVerdict.DONE


def test_a_size_that_is_claimed_reserves_nothing() -> None:
    """G-12: it is refused by what it claims."""
    with pytest.raises(WireError, match="SEGMENT_LIMIT"):
        Reassembly(Limits(payload_bytes=10_000)).admit(PayloadKey("a", 1, bytes(32)), first_of(0), 0.0)


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="Splitters"):
        _ = speed.segment.Splitters


@pytest.mark.parametrize(
    "bound", [{"reconstructions": -1}, {"reconstructions": 1.5}, {"idle_seconds": "soon"}], ids=str
)
def test_a_bound_that_is_none_is_refused_by_its_name(bound: dict[str, Any]) -> None:
    Limits().check()
    with pytest.raises(ConfigurationError, match=next(iter(bound))):
        Limits(**bound).check()
