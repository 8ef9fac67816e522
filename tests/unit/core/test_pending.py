"""Waiting callers are completed exactly once (S-7)."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import pytest

from speed.core.calls import PendingCalls, RequestState
from speed.wire.limits import MAX_KEPT_REQUEST_BYTES


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
    assert calls.fail(calls.to("billing"), error) == 1
    assert outcomes == [error]
    assert calls.targets() == {"analytics"}


def test_a_call_that_begins_after_its_node_was_found_gone_waits_for_the_successor():
    """S-7."""
    outcomes: list[Any] = []
    calls = PendingCalls()
    calls.add("a", 1.0, "billing", outcomes.append)
    found_gone = calls.to("billing")
    calls.add("b", 1.0, "billing", outcomes.append)
    assert calls.fail(found_gone, RuntimeError("left")) == 1
    assert calls.complete("billing", "b", "answer")
    assert outcomes[1:] == ["answer"]


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


def test_whether_somebody_waits_can_be_asked():
    """S-2."""
    calls = PendingCalls()
    calls.add("a", 1.0, "billing", lambda outcome: None)
    assert calls.waits_for("billing", "a")
    assert not calls.waits_for("analytics", "a")


def asked_of(calls: PendingCalls, key: str, payload: bytes) -> tuple[RequestState, bool]:
    """A call whose request is to be kept, and whether there was room."""
    call = calls.add(key, 10.0, "billing", lambda outcome: None)
    call.request = RequestState(None, 10.0)  # type: ignore[arg-type]
    return call.request, calls.keep(call.request, payload)


def test_a_request_is_kept_until_its_call_ends():
    """S-21."""
    calls = PendingCalls()
    for key in ("answered", "forgotten", "late", "failed"):
        assert asked_of(calls, key, b"12345678") == (calls.to("billing")[-1].request, True)
    assert calls.kept_bytes == 32
    calls.complete("billing", "answered", 1)
    calls.forget("billing", "forgotten")
    assert calls.kept_bytes == 16
    calls.fail([call for call in calls.to("billing") if call.key == "failed"], ValueError())
    calls.expire(10.0)
    assert calls.kept_bytes == 0


def test_no_more_is_kept_than_the_bound():
    """S-21: what finds no room is not sent again."""
    calls = PendingCalls()
    large = bytes(MAX_KEPT_REQUEST_BYTES - 1)
    asked_of(calls, "large", large)
    asked, is_kept = asked_of(calls, "small", b"12")
    assert (is_kept, asked.payload) == (False, None)
    calls.complete("billing", "large", 1)
    assert calls.keep(asked, b"12")


def test_a_call_that_its_program_withdrew_is_known():
    """S-21: it is not sent again."""
    calls = PendingCalls()
    asked, _ = asked_of(calls, "a", b"1")
    calls.withdrawn("billing", "a")
    calls.withdrawn("billing", "unknown")
    assert asked.is_withdrawn
