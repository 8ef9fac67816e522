"""A thread that polls looks for a core of its own (registry_spec/decisions/0033)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from speed.runtime.own_core import PATIENCE, REST_SECONDS, TURN_SECONDS, OwnCore, leave_this_core


def in_a_thread(do: Callable[[], object]) -> object:
    """What it returns in a thread of its own, whose affinity ends with it."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(do()))
    thread.start()
    thread.join(20)
    return answers[0]


def test_a_thread_leaves_its_core_and_may_use_as_many_as_before() -> None:
    def leave() -> object:
        allowed = os.sched_getaffinity(0)
        return leave_this_core() == (len(allowed) > 1) and os.sched_getaffinity(0) == allowed

    assert in_a_thread(leave) is True


def test_a_thread_bound_to_one_core_stays() -> None:
    def leave() -> object:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        return leave_this_core()

    assert in_a_thread(leave) is False


class Turns:
    """Polls that bring something, by turns with another or not, at times of a clock of its own."""

    def __init__(self, process_id: int = 0) -> None:
        self.core = OwnCore(process_id)
        self.now = 1000.0

    def poll(self, times: int, *, by_turns: bool) -> int:
        """How many moves that led to."""
        moves = 0
        for _ in range(times):
            self.core.took(2 * TURN_SECONDS if by_turns else TURN_SECONDS / 4)
            moves += self.core.hit(self.now)
        return moves


def test_only_turns_in_a_row_lead_to_a_move() -> None:
    turns = Turns()
    for _ in range(10):
        assert turns.poll(PATIENCE - 1, by_turns=True) == 0
        assert turns.poll(1, by_turns=False) == 0
    assert turns.poll(PATIENCE, by_turns=True) == 1


def test_between_two_moves_is_a_rest() -> None:
    turns = Turns()
    for _ in range(10):
        assert turns.poll(PATIENCE, by_turns=True) == 1
        turns.now += 0.9 * REST_SECONDS
        assert turns.poll(PATIENCE, by_turns=True) == 0
        turns.now += 0.2 * REST_SECONDS


def test_two_that_left_at_once_do_not_meet_for_ever() -> None:
    one, other = Turns(0), Turns(1)
    moves_together = 0
    for _ in range(100):
        moves = one.poll(PATIENCE, by_turns=True) + other.poll(PATIENCE, by_turns=True)
        moves_together += moves == 2
        one.now = other.now = one.now + REST_SECONDS / 10
    assert moves_together == 1
