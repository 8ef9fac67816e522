"""What is acknowledged, as ranges (D-7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from speed.topics.subscription import Ranges

RUNS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)), max_size=30)


@given(low=st.integers(0, 20), runs=RUNS)
def test_ranges_are_the_set_of_what_was_added(low: int, runs: list[tuple[int, int]]) -> None:
    ranges, model = Ranges(low), set(range(low))
    for start, length in runs:
        ranges.add(start, start + length)
        model |= set(range(start, start + length))
    assert [offset for offset in range(80) if offset in ranges] == sorted(model)
    assert ranges.low == next(offset for offset in range(80) if offset not in model)


@given(runs=RUNS)
def test_ranges_neither_overlap_nor_touch_and_can_be_made_again(runs: list[tuple[int, int]]) -> None:
    ranges = Ranges(0, [(start, start + length) for start, length in runs])
    ends = [ranges.low]
    for start, end in ranges.pairs:
        assert ends[-1] < start < end
        ends.append(end)
    again = Ranges(ranges.low, ranges.pairs)
    assert (again.low, again.pairs) == (ranges.low, ranges.pairs)
