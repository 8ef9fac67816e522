"""Sequence rules of a link (L-12, L-13)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from speed.core.lane import LinkReceiver, SequenceVerdict
from speed.wire.envelope import make_sequence


def test_contiguous_counters_are_next() -> None:
    link = LinkReceiver()
    verdicts = [link.judge(make_sequence(3, counter)) for counter in (1, 2, 3)]
    assert verdicts == [SequenceVerdict.NEXT] * 3


def test_a_gap_is_told_and_what_follows_it_is_next() -> None:
    link = LinkReceiver(make_sequence(3, 4))
    assert link.judge(make_sequence(3, 8)) is SequenceVerdict.GAP
    assert link.judge(make_sequence(3, 9)) is SequenceVerdict.NEXT


def test_equal_and_lower_are_duplicates() -> None:
    link = LinkReceiver(make_sequence(3, 4))
    assert link.judge(make_sequence(3, 4)) is SequenceVerdict.DUPLICATE
    assert link.judge(make_sequence(3, 1)) is SequenceVerdict.DUPLICATE


def test_a_new_generation_starts_at_one() -> None:
    link = LinkReceiver(make_sequence(3, 4))
    assert link.judge(make_sequence(5, 1)) is SequenceVerdict.NEXT
    assert link.judge(make_sequence(6, 3)) is SequenceVerdict.GAP


def test_an_older_generation_is_rejected() -> None:
    link = LinkReceiver(make_sequence(3, 4))
    assert link.judge(make_sequence(2, 900)) is SequenceVerdict.OLD_GENERATION


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6)), max_size=40))
def test_what_is_accepted_rises_strictly_whatever_arrives(arrivals: list[tuple[int, int]]) -> None:
    link = LinkReceiver()
    sequences = [make_sequence(*arrival) for arrival in arrivals]
    accepted = [sequence for sequence in sequences if link.judge(sequence) <= SequenceVerdict.GAP]
    assert accepted == sorted(set(accepted))
