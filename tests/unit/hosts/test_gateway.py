"""Two gateways in this process, with real roots and nodes: what is lost, late, repeated, malformed or too much."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

import speed
from speed.core.services import Request
from speed.errors import (
    AccessDeniedError,
    ApplicationError,
    CallTimeoutError,
    CallWithdrawnError,
    Execution,
    HostAwayError,
    InboxFullError,
    InternalError,
    InvalidArgumentsError,
    InvalidNameError,
    NodeLeftError,
    NotAcknowledgedError,
    ServiceNotFoundError,
    UnknownNodeError,
)
from speed.hosts import link
from speed.hosts.services import PendingQuestion, ProxyNodes, details_of
from speed.node.remote import GatewayAnswer
from speed.wire import spc
from speed.wire.envelope import EnvelopeType
from speed.wire.names import GATEWAY
from speed.wire.value import pack
from tests.bridges.joined import eventually
from tests.unit.hosts.two import WAIT_SECONDS, Two, held

# --- what is lost, late or repeated ---


def test_a_message_whose_answer_is_lost_is_asked_for_again_and_delivered_once(two: Two) -> None:
    """H-7."""
    two.drop(EnvelopeType.SPC_RESPONSE, 1)
    two.analytics.send("billing@hostb", "once", timeout=WAIT_SECONDS)
    message = two.billing.receive(WAIT_SECONDS)
    assert message is not None and message.payload == "once"
    assert two.billing.receive(0.1) is None
    assert two.b.counter("hosts_repeated") == 1


def test_a_message_that_is_lost_is_sent_again(two: Two) -> None:
    """H-7."""
    lost = two.drop(EnvelopeType.SPC_REQUEST, 1)
    two.analytics.send("billing@hostb", "again", timeout=WAIT_SECONDS)
    assert len(lost) == 1
    message = two.billing.receive(WAIT_SECONDS)
    assert message is not None and message.payload == "again"


def test_a_message_that_is_being_handled_is_not_taken_again(two: Two) -> None:
    """H-7."""
    handled: list[Any] = []
    go_on = threading.Event()

    def handle(message: speed.Message) -> None:
        handled.append(message.payload)
        go_on.wait(WAIT_SECONDS)

    two.billing.on_message(handle)
    sending = threading.Thread(
        target=two.analytics.send, args=("billing@hostb", 1), kwargs={"ack": True, "timeout": WAIT_SECONDS}
    )
    sending.start()
    eventually(lambda: two.b.counter("hosts_repeated") >= 1)
    go_on.set()
    sending.join(WAIT_SECONDS)
    assert handled == [1]


def test_a_message_that_nobody_answers_for_is_not_acknowledged(two: Two) -> None:
    two.drop(EnvelopeType.SPC_REQUEST, 1000)
    with pytest.raises(NotAcknowledgedError, match="billing@hostb"):
        two.analytics.send("billing@hostb", 1, timeout=1.5)


def test_a_call_is_asked_once_and_not_run_when_it_comes_too_late(two: Two) -> None:
    """H-6."""
    lost = two.drop(EnvelopeType.SPC_REQUEST, 1)
    with pytest.raises(CallTimeoutError) as caught:
        two.analytics.call("billing@hostb", "charge", {"amount": 1}, timeout=1.2)
    assert caught.value.details["phase"] in ("unanswered", "running")  # whichever node looks at its clock first
    withdrawn = two.b.counter("hosts_refused_replayed")
    assert len(lost) == 1
    two.broker.deliver(*lost[0])  # behind its withdrawal, if that was sent
    failed = lambda: two.b.counter("hosts_failed") + two.b.counter("hosts_refused_replayed") - withdrawn  # noqa: E731
    eventually(lambda: failed() >= 1)
    assert two.calls == []


def test_a_late_question_is_answered_with_the_deadline_that_was_over(two: Two) -> None:
    """H-6."""
    question = {
        "requestId": "late",
        "deadline": 1,
        "operation": "call",
        "caller": "analytics",
        "node": "billing",
        "service": "charge",
        "arguments": {"amount": 1},
    }
    two.a.link.publish(EnvelopeType.SPC_REQUEST, pack(question))
    eventually(lambda: two.b.counter("hosts_failed") == 1)
    eventually(lambda: two.a.counter("hosts_answers_unexpected") == 1)
    assert two.calls == []


def test_an_answer_that_cannot_be_sent_is_counted(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    future, go_on = held(two)
    two.broker.close()
    eventually(lambda: bool(two.b.gateway._broker.trouble))
    go_on.set()
    eventually(lambda: two.b.counter("hosts_answers_undelivered") == 1)
    monkeypatch.setattr(link, "AWAY_SECONDS", 0.5)
    with pytest.raises(HostAwayError):
        future.result(WAIT_SECONDS)


# --- what is too much ---


def test_what_is_beyond_the_calls_under_way_is_refused(busy: Two) -> None:
    """H-10."""
    first, go_on = held(busy)
    question = {
        "requestId": "second",
        "deadline": 1 << 50,
        "operation": "ping",
        "caller": "analytics",
        "node": "billing",
    }
    busy.a.link.publish(EnvelopeType.SPC_REQUEST, pack(question))
    eventually(lambda: busy.b.counter("hosts_busy") == 1)
    go_on.set()
    assert first.result(WAIT_SECONDS) is None


class _Made:
    """A node that was made for a stand-in."""

    def __init__(self, name: str) -> None:
        self.name, self.closed = name, False

    def close(self, *, drain_seconds: float) -> None:
        self.closed = True


def test_the_stand_in_that_was_used_longest_ago_makes_room(two: Two) -> None:
    """H-10."""
    made: list[Any] = []

    def make(name: str) -> Any:
        made.append(_Made(name))
        return made[-1]

    stand_ins = ProxyNodes(make, limit=2)
    first, second = stand_ins.take("a", "hosta"), stand_ins.take("b", "hosta")
    with pytest.raises(InboxFullError):
        stand_ins.take("c", "hosta")
    stand_ins.give_back(second)
    third = stand_ins.take("c", "hosta")
    assert [one.closed for one in made] == [False, True, False]
    assert stand_ins.take("a", "hosta") is first
    assert stand_ins.take_quick("nobody", "hosta") is None
    assert stand_ins.take_quick("c", "hosta") is None
    third.is_answered = True
    assert stand_ins.take_quick("c", "hosta") is third
    third.node.close(drain_seconds=0.0)  # its lease was lost
    assert stand_ins.take("c", "hosta") is not third
    made[0].close(drain_seconds=0.0)
    stand_ins.close()
    assert all(one.closed for one in made)
    with pytest.raises(InboxFullError, match="closed"):
        stand_ins.take("d", "hosta")


# --- what is malformed ---

GOOD = {"requestId": "1", "deadline": 1 << 50, "operation": "ping", "caller": "analytics", "node": "billing"}


@pytest.mark.parametrize(
    "changes",
    [
        {"requestId": None},
        {"requestId": ""},
        {"requestId": "x" * 65},
        {"caller": "a@b"},
        {"caller": None},
        {"node": "bell"},
        {"deadline": "soon"},
        {"operation": "eval"},
        {"operation": None},
        {"traceparent": 5},
        {"operation": "call", "service": "no name!", "arguments": {}},
        {"operation": "call", "service": "charge", "arguments": []},
        {"operation": "send", "messages": b"", "ack": True},
    ],
)
def test_a_question_that_no_gateway_writes_is_refused(two: Two, changes: dict[str, Any]) -> None:
    """H-7."""
    question = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    two.a.link.publish(EnvelopeType.SPC_REQUEST, pack(question))
    eventually(lambda: two.b.counter("hosts_refused") == 1)
    assert two.analytics.call("billing@hostb", "charge", {"amount": 5}, timeout=WAIT_SECONDS) == 5


def test_an_envelope_of_another_type_or_for_another_host_is_refused(two: Two) -> None:
    """H-4."""
    two.a.link.publish(EnvelopeType.EVENT, b"x")
    eventually(lambda: two.b.counter("hosts_refused") == 1)
    subject, data = next(one for one in reversed(two.broker.seen) if one[0] == "speed.hosts.hostb")
    two.broker.deliver("speed.hosts.hosta", data)
    two.broker.deliver(subject, data[:60])
    eventually(lambda: two.a.counter("hosts_refused") == 1 and two.b.counter("hosts_refused") == 2)


def test_a_withdrawal_of_what_is_not_under_way_does_nothing(two: Two) -> None:
    two.a.link.publish(EnvelopeType.SPC_REQUEST, pack({"requestId": "gone", "operation": "withdraw"}))
    assert two.analytics.call("billing@hostb", "charge", {"amount": 5}, timeout=WAIT_SECONDS) == 5
    assert two.b.counter("hosts_refused") == 0


def test_a_call_that_was_withdrawn_before_it_began_never_begins(two: Two) -> None:
    serving = PendingQuestion(two.b.link, "1", GOOD)
    assert serving.seconds_left() > 0
    serving.withdraw()
    with pytest.raises(CallWithdrawnError):
        serving.seconds_left()
    future: Future[Any] = Future()
    serving.began(future)
    assert future.cancelled()


def test_a_defect_of_the_gateway_is_an_error_of_that_question_alone(two: Two) -> None:
    made = two.b.gateway._stand_ins._make

    def failing(name: str) -> speed.Node:
        two.b.gateway._stand_ins._make = made
        raise RuntimeError("a defect")

    two.b.gateway._stand_ins._make = failing
    with pytest.raises(InternalError, match="RuntimeError"):
        two.analytics.call("billing@hostb", "charge", {"amount": 5}, timeout=WAIT_SECONDS)
    assert two.analytics.call("billing@hostb", "charge", {"amount": 5}, timeout=WAIT_SECONDS) == 5


def test_a_defect_in_hearing_does_not_end_hearing(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        monkeypatch.undo()
        raise RuntimeError("a defect")

    monkeypatch.setattr(two.b.link, "opened", failing)
    two.a.link.publish(EnvelopeType.SPC_REQUEST, b"x")
    assert two.analytics.call("billing@hostb", "charge", {"amount": 5}, timeout=WAIT_SECONDS) == 5


# --- the services of the gateway, as other languages call them ---


def test_the_gateway_answers_with_a_map(two: Two) -> None:
    """H-3."""
    asked: dict[str, Any] = {"node": "billing@hostb", "service": "charge", "arguments": {"amount": 3}}
    assert two.analytics.call(GATEWAY, "call", asked) == {"status": "SUCCESS", "result": 3}
    for change, code in [
        ({"node": "billing"}, "INVALID_NAME"),
        ({"node": "billing@nowhere"}, "UNKNOWN_NODE"),
        ({"service": 5}, "INVALID_ARGUMENTS"),
        ({"service": "nothing"}, "SERVICE_NOT_FOUND"),
    ]:
        answer = two.analytics.call(GATEWAY, "call", {**asked, **change})
        assert (answer["status"], answer["errorCode"]) == ("ERROR", code)
    wrong = {"node": "billing@hostb", "messages": ["text"]}
    assert two.analytics.call(GATEWAY, "send", wrong)["errorCode"] == "INVALID_ARGUMENTS"
    traced = two.analytics.call(GATEWAY, "call", asked, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    assert traced["result"] == 3


def test_a_request_that_cannot_be_withdrawn_is_carried_all_the_same(two: Two) -> None:
    import time

    deadline = int((time.time() + WAIT_SECONDS) * 1000)
    arguments = {"node": "billing@hostb", "service": "charge", "arguments": {"amount": 3}}
    answer = two.a.gateway._outbound.invoke(Request("call", arguments, "analytics", "1", deadline))
    assert answer["result"] == 3


def test_who_is_not_granted_cannot_reach_the_gateway(two: Two) -> None:
    """H-8."""
    stranger = two.a.node("stranger")
    with pytest.raises(AccessDeniedError) as caught:
        stranger.call("billing@hostb", "charge", {"amount": 1})
    assert caught.value.node == "billing@hostb"
    future_of: Callable[..., Future[Any]] = stranger.submit
    with pytest.raises(AccessDeniedError):
        future_of("billing@hostb", "charge", {"amount": 1})


# --- what the caller is told ---


def told(answer: Any) -> Any:
    return GatewayAnswer("billing@hostb", "charge")(answer)


def failed(code: str, **details: Any) -> Any:
    return told({"status": "ERROR", "errorCode": code, "errorMessage": "billing: why", "details": details})


def test_each_code_is_raised_as_its_class() -> None:
    """H-3."""
    for code, kind in [
        ("UNKNOWN_NODE", UnknownNodeError),
        ("HOST_AWAY", HostAwayError),
        ("INBOX_FULL", InboxFullError),
        ("INVALID_NAME", InvalidNameError),
        ("INVALID_ARGUMENTS", InvalidArgumentsError),
        ("ACCESS_DENIED", AccessDeniedError),
        ("NOBODY_KNOWS", InternalError),
    ]:
        error = failed(code)
        assert type(error) is kind
        assert str(error) == "billing@hostb: why"
    own = failed("app/SOLD_OUT", left=0)
    assert (type(own), own.code, own.details) == (ApplicationError, "SOLD_OUT", {"left": 0})
    assert failed("HOST_AWAY", execution="may have run").execution is Execution.MAY_HAVE_RUN
    assert failed("HOST_AWAY", execution="perhaps").execution is None


def test_whether_a_call_was_begun_passes_through_where_its_code_does_not_say_it() -> None:
    """H-3, S-21: as of a call that was sent again after its server had begun it."""
    left = NodeLeftError("gone")
    left.execution = Execution.NOT_BEGUN
    assert details_of(left) == {"execution": "not begun"}
    again = ServiceNotFoundError("none")
    again.execution = Execution.MAY_HAVE_RUN
    assert details_of(again) == {"execution": "may have run"}
    assert failed("SERVICE_NOT_FOUND", execution="may have run").execution is Execution.MAY_HAVE_RUN
    again.execution = Execution.NOT_BEGUN
    assert details_of(again) == {}
    assert failed("NODE_STARTING", execution="not begun").execution is Execution.NOT_BEGUN


@pytest.mark.parametrize("answer", [None, 5, {}, {"status": "OK"}, {"result": 5}])
def test_what_no_gateway_answers_is_an_internal_error(answer: Any) -> None:
    assert isinstance(told(answer), InternalError)


def test_details_that_are_none_are_left_out() -> None:
    assert told({"status": "ERROR", "errorCode": "TIMEOUT", "errorMessage": "x", "details": 5}).details == {}


def test_what_is_no_response_is_no_answer(two: Two) -> None:
    with pytest.raises(Exception, match="BAD_PAYLOAD"):
        spc.decode_response(b"\xc1")
    two.b.link.publish(EnvelopeType.SPC_RESPONSE, b"\xc1")
    eventually(lambda: two.a.counter("hosts_answers_unexpected") == 1)
