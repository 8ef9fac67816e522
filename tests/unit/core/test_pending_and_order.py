"""Waiting callers are completed exactly once (S-7); items of one sender run one after another (S-5)."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.core.order import ByPriority, SenderHeads, SenderOrder
from speed.core.pending import PendingCalls


def test_a_call_is_completed_once():
    """S-7."""
    outcomes: list[Any] = []
    calls = PendingCalls()
    calls.add("a", 10.0, "billing", outcomes.append)
    assert calls.complete("billing", "a", 1)
    assert not calls.complete("billing", "a", 2)
    assert outcomes == [1]


def test_an_answer_nobody_waits_for_is_reported_as_such():
    """S-7: late answers are dropped."""
    assert not PendingCalls().complete("billing", "unknown", 1)


def test_only_the_node_that_was_asked_can_answer():
    """S-6."""
    outcomes: list[Any] = []
    calls = PendingCalls()
    calls.add("a", 10.0, "billing", outcomes.append)
    assert not calls.complete("mallory", "a", 1)
    assert calls.complete("billing", "a", 2)
    assert outcomes == [2]


def test_calls_expire_at_their_deadline_and_not_before():
    """S-7."""
    calls = PendingCalls()
    calls.add("soon", 1.0, "billing", print)
    calls.add("late", 9.0, "billing", print)
    assert calls.next_deadline() == 1.0
    assert calls.expire(0.5) == []
    assert [call.key for call in calls.expire(1.0)] == ["soon"]
    assert calls.next_deadline() == 9.0
    assert [call.key for call in calls.expire(9.0)] == ["late"]
    assert calls.next_deadline() == math.inf


def test_an_answered_call_does_not_expire():
    """S-7."""
    calls = PendingCalls()
    calls.add("a", 1.0, "billing", lambda outcome: None)
    calls.complete("billing", "a", 1)
    assert calls.expire(2.0) == []


def test_when_a_node_leaves_its_callers_fail_and_no_others():
    """S-7."""
    outcomes: list[Any] = []
    calls = PendingCalls()
    calls.add("a", 1.0, "billing", outcomes.append)
    calls.add("b", 1.0, "analytics", outcomes.append)
    error = RuntimeError("left")
    assert calls.fail_target("billing", error) == 1
    assert outcomes == [error]
    assert calls.targets() == {"analytics"}


def test_when_the_node_has_stopped_nobody_can_wait_any_more():
    """S-7."""
    outcomes: list[Any] = []
    calls = PendingCalls()
    calls.add("a", 1.0, "billing", outcomes.append)
    reason = RuntimeError("stopped")
    assert calls.fail_all(reason) == 1
    with pytest.raises(RuntimeError, match="stopped"):
        calls.add("b", 1.0, "billing", outcomes.append)
    assert outcomes == [reason]
    assert len(calls) == 0


def test_each_who_begins_to_wait_while_the_node_stops_is_completed_or_refused_once():
    """S-7: whatever the threads do in between."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            calls = PendingCalls()
            begun = threading.Barrier(4)
            ends: list[int] = []
            threads = [threading.Thread(target=_wait_until_refused, args=(calls, n, begun, ends)) for n in range(3)]
            for thread in threads:
                thread.start()
            begun.wait(20)
            calls.fail_all(RuntimeError("stopped"))
            for thread in threads:
                thread.join(20)
            assert len(calls) == 0
            assert len(ends) == len(set(ends))
    finally:
        sys.setswitchinterval(interval)


def _wait_until_refused(calls: PendingCalls, number: int, begun: threading.Barrier, ends: list[int]) -> None:
    begun.wait(20)
    for key in range(number, 3_000_000, 3):
        try:
            calls.add(key, 1.0, f"billing{key}", lambda _, key=key: ends.append(key))
        except RuntimeError:
            ends.append(key)
            return


@given(st.lists(st.tuples(st.sampled_from(["push", "done"]), st.sampled_from("ab"))))
def test_each_sender_has_one_running_item_and_keeps_its_order(steps: list[tuple[str, str]]):
    """S-5, against a plain list per sender."""
    order: SenderOrder[int] = SenderOrder()
    running: dict[str, int] = {}
    pushed: dict[str, list[int]] = {"a": [], "b": []}
    ran: dict[str, list[int]] = {"a": [], "b": []}
    for number, (step, sender) in enumerate(steps):
        if step == "push":
            pushed[sender].append(number)
            if order.push(sender, number):
                assert sender not in running
                running[sender] = number
                ran[sender].append(number)
        elif sender in running:
            del running[sender]
            following = order.done(sender)
            if following is not None:
                running[sender] = following
                ran[sender].append(following)
    for sender in "ab":
        assert ran[sender] == pushed[sender][: len(ran[sender])]
        assert order.waiting(sender) == len(pushed[sender]) - len(ran[sender])
    assert len(order) == len(running)


def test_dropped_items_do_not_run():
    """A-4: a denied sender's waiting items are given back."""
    order: SenderOrder[str] = SenderOrder()
    assert order.push("a", "one")
    assert not order.push("a", "two")
    assert order.drop("a") == ("two",)
    assert order.done("a") is None
    assert order.push("a", "three")


def test_of_different_senders_the_more_urgent_comes_first_and_each_keeps_its_order() -> None:
    """M-33."""
    waiting: SenderHeads[str] = SenderHeads()
    for sender, priority, item in (("a", 1, "a1"), ("a", 9, "a2"), ("b", 5, "b1"), ("c", 5, "c1"), ("b", 9, "b2")):
        waiting.push(sender, priority, item)
    assert [waiting.pop() for _ in range(5)] == ["b1", "b2", "c1", "a1", "a2"]
    assert not waiting


def test_of_equal_priority_the_first_that_came_is_first() -> None:
    """M-33: items that cannot be compared are never compared."""
    ready: ByPriority[object] = ByPriority()
    first, second, urgent = object(), object(), object()
    for priority, item in ((5, first), (5, second), (6, urgent)):
        ready.push(priority, item)
    assert [ready.pop(), ready.pop(), ready.pop()] == [urgent, first, second]


def test_a_sender_without_waiting_items_has_nothing_to_give_back() -> None:
    """A-4."""
    order: SenderOrder[str] = SenderOrder()
    assert order.drop("a") == ()
    order.push("a", "one")
    assert order.drop("a") == ()
    assert len(order) == 1


def test_a_forgotten_call_is_not_completed() -> None:
    """S-7: its caller has gone."""
    calls = PendingCalls()
    calls.add("a", 1.0, "billing", print)
    assert calls.waiting("billing") == 1
    assert calls.forget("billing", "a")
    assert not calls.forget("billing", "a")
    assert calls.waiting("billing") == len(calls) == 0
    assert not calls.complete("billing", "a", 1)


def test_when_this_node_stops_every_caller_fails() -> None:
    """S-7."""
    outcomes: list[Any] = []
    calls = PendingCalls()
    calls.add("a", 1.0, "billing", outcomes.append)
    calls.add("b", 2.0, "analytics", outcomes.append)
    error = RuntimeError("stops")
    assert calls.fail_all(error) == 2
    assert outcomes == [error, error]
    assert len(calls) == 0


def test_calls_are_not_looked_through_before_one_can_be_late() -> None:
    """S-7: that costs time for each call."""
    calls = PendingCalls()
    calls.add("a", 200.0, "billing", print)
    assert calls.expire(100.0) == []
    assert calls.expire(100.01) == []
    assert [call.key for call in calls.expire(200.0)] == ["a"]
