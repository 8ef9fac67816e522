"""Who holds files open: whoever was used longest ago goes to rest first (L-26)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from speed.core.lane import Awake


def test_whoever_was_used_longest_ago_rests_first() -> None:
    awake: Awake[str] = Awake(2)
    assert awake.use("a") == awake.use("b") == awake.use("a") == []
    assert awake.use("c") == ["b"]
    assert list(awake) == ["a", "c"]
    assert "b" not in awake


def test_one_that_rests_by_itself_makes_room() -> None:
    awake: Awake[str] = Awake(2)
    awake.use("a")
    awake.use("b")
    awake.rest("a")
    awake.rest("a")
    assert awake.use("c") == []


@given(st.lists(st.sampled_from("abcdefgh")), st.integers(1, 4))
def test_no_more_are_awake_than_may_be_and_the_last_ones_used_are(used: list[str], most: int) -> None:
    awake: Awake[str] = Awake(most)
    for one in used:
        awake.use(one)
    assert sorted(awake) == sorted(list(dict.fromkeys(reversed(used)))[:most])
