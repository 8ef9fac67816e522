"""What a cursor says about dispatched and finished envelopes (L-14, L-15)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from speed.core.lane import LaneProgress, Position
from speed.wire.cursor import Unfinished
from speed.wire.envelope import make_sequence
from speed.wire.limits import MAX_IN_HAND, MAX_UNFINISHED_BYTES

START = Position(1, 1, 0)


def dispatched(count: int) -> tuple[LaneProgress, list]:  # type: ignore[type-arg]
    progress = LaneProgress(START, 0)
    tokens = [
        progress.dispatched(make_sequence(1, counter), 1, 1, counter * 10, counter * 10 + 10)
        for counter in range(1, count + 1)
    ]
    return progress, tokens


def test_nothing_finished_leaves_the_position_where_it_was() -> None:
    progress, _ = dispatched(3)
    cursor = progress.cursor(1)
    assert (cursor.file, cursor.offset, cursor.unfinished) == (1, 0, ())


def test_all_finished_moves_it_to_the_end() -> None:
    progress, tokens = dispatched(3)
    for token in tokens:
        progress.finish(token)
    cursor = progress.cursor(1)
    assert (cursor.offset, cursor.last_sequence) == (40, make_sequence(1, 3))


def test_finishing_twice_is_harmless() -> None:
    progress, tokens = dispatched(1)
    assert progress.finish(tokens[0])
    assert not progress.finish(tokens[0])


def test_skipped_bytes_count_only_when_nothing_is_unfinished() -> None:
    progress, tokens = dispatched(2)
    progress.skip_to(Position(1, 2, 0))
    progress.finish(tokens[0])
    assert progress.cursor(1).offset == 20
    progress.finish(tokens[1])
    cursor = progress.cursor(1)
    assert (cursor.file, cursor.offset) == (2, 0)


def test_an_unfinished_envelope_of_a_predecessor_stays_listed() -> None:
    """L-15: also when this process dies before it is finished."""
    progress = LaneProgress(Position(1, 2, 50), make_sequence(1, 9))
    token = progress.redispatched(Unfinished(make_sequence(1, 4), 1, 1, 30))
    cursor = progress.cursor(2)
    assert [entry.sequence for entry in cursor.unfinished] == [make_sequence(1, 4)]
    assert (cursor.file, cursor.offset) == (2, 50)
    progress.finish(token)
    assert progress.cursor(2).unfinished == ()


def test_a_begun_request_that_is_not_finished_is_listed_and_the_position_passes_it() -> None:
    """L-14: behind the position it would read as not begun."""
    progress, tokens = dispatched(3)
    progress.begin(tokens[1])
    cursor = progress.cursor(1)
    assert [(entry.sequence & 0xFF, entry.begun) for entry in cursor.unfinished] == [(1, False), (2, True)]
    assert (cursor.offset, cursor.last_sequence) == (30, make_sequence(1, 2))
    progress.finish(tokens[1])
    assert [entry.sequence & 0xFF for entry in progress.cursor(1).unfinished] == [1]


@given(st.integers(1, 150), st.data())
def test_a_successor_repeats_exactly_the_unfinished_up_to_64_holes(count: int, data: st.DataObject) -> None:
    """L-15: never is one lost; repeated is only what is unfinished, or lies behind the 65th hole."""
    progress, tokens = dispatched(count)
    finished = data.draw(st.sets(st.integers(1, count)))
    for counter in finished:
        progress.finish(tokens[counter - 1])
    cursor = progress.cursor(1)
    listed = {entry.sequence & 0xFFFF for entry in cursor.unfinished}
    repeated = listed | {counter for counter in range(1, count + 1) if counter * 10 >= cursor.offset}
    unfinished = set(range(1, count + 1)) - finished
    assert unfinished <= repeated
    assert len(listed) <= 64
    if len(unfinished) <= 64:
        assert repeated == unfinished
    assert cursor.last_sequence & 0xFFFF == max((c for c in range(1, count + 1) if c * 10 < cursor.offset), default=0)


def test_the_last_of_too_many_unfinished_envelopes_stops_the_lane_and_any_that_finishes_moves_it() -> None:
    """L-19."""
    progress, tokens = dispatched(MAX_IN_HAND - 1)
    assert not progress.is_full
    progress.dispatched(make_sequence(1, MAX_IN_HAND), 1, 2, 0, 10)
    assert progress.is_full
    progress.finish(tokens[7])
    progress.finish(tokens[7])
    assert not progress.is_full


def test_a_lane_stands_still_while_its_unfinished_envelopes_hold_too_many_bytes() -> None:
    """L-19: one is always taken; a repeat counts from when it was found again."""
    progress = LaneProgress(START, 0)
    again = progress.redispatched(Unfinished(make_sequence(1, 1), 1, 1, 30))
    assert not progress.is_full
    progress.found_again(again, 30 + MAX_UNFINISHED_BYTES)
    assert not progress.is_full
    little = progress.dispatched(make_sequence(1, 2), 1, 2, 0, 1)
    assert progress.is_full
    progress.finish(again)
    assert not progress.is_full
    progress.finish(little)
    assert progress.cursor(1).unfinished == ()


def test_the_tail_is_the_end_of_what_was_dispatched_or_skipped() -> None:
    """L-14."""
    progress, _ = dispatched(3)
    assert progress.tail_offset == 40
    progress.skip_to(Position(1, 2, 7))
    assert progress.tail_offset == 7
