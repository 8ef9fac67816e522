"""The next key of a set begins after the newest, and the older ones end (M-26)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speed.message.errors import KeyRefusedError
from speed.message.keys import MAX_SET_KEYS, generate_key
from speed.message.keystore import is_due, rotated

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
FIRST = generate_key("orders.1", "aes-256-gcm", topics=("orders.*",), not_before_ms=DAY_MS)


def test_a_set_is_due_once_its_newest_key_is_as_old_as_the_period() -> None:
    assert not is_due([FIRST], 2 * DAY_MS - 1, DAY_MS)
    assert is_due([FIRST], 2 * DAY_MS, DAY_MS)


def test_the_next_key_has_the_bounds_of_the_newest_and_the_older_one_ends_after_the_overlap() -> None:
    older, fresh = rotated([FIRST], 3 * DAY_MS, HOUR_MS, ahead_ms=HOUR_MS)
    assert fresh.id == "orders.19700104T010000000"
    assert (fresh.topics, fresh.not_before_ms) == (("orders.*",), 3 * DAY_MS + HOUR_MS)
    assert (older.id, older.not_after_ms) == (FIRST.id, 3 * DAY_MS + 2 * HOUR_MS)


def test_an_end_that_comes_sooner_stays_and_keys_that_have_ended_are_dropped() -> None:
    ended, ends = replace(FIRST, not_after_ms=2 * DAY_MS), replace(FIRST, not_after_ms=3 * DAY_MS + 1)
    kept, _ = rotated([ended, ends], 3 * DAY_MS, HOUR_MS)
    assert kept.not_after_ms == 3 * DAY_MS + 1


def test_two_rotations_at_one_moment_give_two_keys() -> None:
    twice = rotated(rotated([FIRST], 3 * DAY_MS, HOUR_MS), 3 * DAY_MS, HOUR_MS)
    assert len({key.id for key in twice}) == 3


def test_a_set_without_keys_or_without_room_is_refused() -> None:
    with pytest.raises(KeyRefusedError, match="make its first key"):
        rotated([], 0, 0)
    with pytest.raises(KeyRefusedError, match="no more are read"):
        rotated([FIRST] * MAX_SET_KEYS, 3 * DAY_MS, HOUR_MS)
