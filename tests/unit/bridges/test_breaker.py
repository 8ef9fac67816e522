"""The table of a bridge's trouble."""

from __future__ import annotations

import pytest

from speed.bridges.bridge import (
    CARRYING,
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    TABLE,
    TRYING,
    WAITING,
    Breaker,
    BridgeState,
)


def breaker(chance: float = 0.0) -> Breaker:
    return Breaker(lambda: chance)


def test_the_table_has_a_way_out_of_each_state() -> None:
    """B-18."""
    assert {state for state, _ in TABLE} == set(BridgeState)


def test_what_fails_waits_and_is_then_tried() -> None:
    """B-18."""
    one = breaker()
    assert one.wait(0.0) == 0.0
    assert one.failed(10.0, "away")
    assert (one.state, one.trouble) == (WAITING, "away")
    assert one.wait(10.0) == pytest.approx(FIRST_PAUSE_SECONDS)
    assert one.state is WAITING
    assert one.wait(10.0 + FIRST_PAUSE_SECONDS) == 0.0
    assert one.state is TRYING


def test_what_is_confirmed_ends_trouble() -> None:
    """B-18."""
    one = breaker()
    one.failed(0.0, "away")
    one.wait(1.0)
    assert one.confirmed()
    assert (one.state, one.trouble) == (CARRYING, "")
    assert not one.confirmed()


def test_pauses_double_up_to_a_bound_and_begin_anew() -> None:
    """B-18."""
    one, pauses, now = breaker(), [], 0.0
    for _ in range(10):
        one.failed(now, "away")
        pauses.append(one.wait(now))
        now += pauses[-1]
        assert one.wait(now) == 0.0
    assert pauses[:3] == pytest.approx([0.1, 0.2, 0.4])
    assert pauses[-1] == pytest.approx(MAX_PAUSE_SECONDS)
    one.confirmed()
    one.failed(now, "away")
    assert one.wait(now) == pytest.approx(FIRST_PAUSE_SECONDS)


def test_chance_makes_a_pause_a_quarter_shorter_at_most() -> None:
    """B-18."""
    one = breaker(chance=1.0)
    one.failed(0.0, "away")
    assert one.wait(0.0) == pytest.approx(FIRST_PAUSE_SECONDS * 0.75)


def test_trouble_is_new_once() -> None:
    """B-18."""
    one = breaker()
    assert one.failed(0.0, "away")
    one.wait(1.0)
    assert not one.failed(1.0, "away")
    one.wait(9.0)
    assert one.failed(9.0, "full")
