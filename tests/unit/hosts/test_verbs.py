"""The verbs of a node for nodes of another host, and hosts that are away or begin anew."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from speed.errors import (
    CallWithdrawnError,
    Execution,
    ExecutionFailedError,
    HostAwayError,
    InvalidNameError,
    NotAcknowledgedError,
    PayloadTooLargeError,
    UnknownNodeError,
    WireError,
)
from speed.hosts import link, services
from speed.hosts.link import LIFE_BYTES, Acquaintance
from speed.message.errors import NotAvailableError
from speed.wire.envelope import EnvelopeType, parse_header
from speed.wire.value import pack
from tests.bridges.joined import eventually
from tests.unit.hosts.two import WAIT_SECONDS, Two, held, withdrawable


def test_each_verb_that_names_a_node_can_name_one_of_another_host(two: Two) -> None:
    billing, analytics = "billing@hostb", two.analytics
    assert analytics.call(billing, "charge", {"amount": 1}) == 1
    assert analytics.submit(billing, "charge", {"amount": 2}).result(WAIT_SECONDS) == 2
    assert analytics.ping(billing) > 0
    assert analytics.services(billing) == ["charge"]
    assert analytics.info(billing)["name"] == analytics.stats(billing)["name"] == "billing"
    analytics.send(billing, 1)
    analytics.send_all(billing, range(2, 100))
    analytics.forward(billing, [])
    analytics.send_all(billing, [])
    got = [two.billing.receive(WAIT_SECONDS) for _ in range(99)]
    assert [one.payload for one in got if one is not None] == list(range(1, 100))


def test_many_large_messages_cross_in_parts_that_fit(two: Two) -> None:
    payloads = [bytes([number]) * 30_000 for number in range(40)]
    two.analytics.send_all("billing@hostb", payloads)
    got = [two.billing.receive(WAIT_SECONDS) for _ in payloads]
    assert [one.payload for one in got if one is not None] == payloads


def test_what_does_not_cross_says_so(two: Two, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x")
    with open(large, "rb") as file, pytest.raises(NotAvailableError, match="in parts"):
        two.analytics.send("billing@hostb", file)
    with pytest.raises(NotAvailableError, match="bridge"):
        two.analytics.forward("billing@hostb", [], event=True)
    with pytest.raises(NotAvailableError, match="segments"):
        two.analytics.segment("billing@hostb", 1024)
    with pytest.raises(InvalidNameError):
        two.analytics.send("billing@host b", 1)


def test_a_root_without_a_gateway_says_what_to_do(two: Two) -> None:
    two.a.joining.close()
    for start in (two.analytics.call, two.analytics.submit):
        with pytest.raises(UnknownNodeError, match=r"add \[hosts\]") as caught:
            start("billing@hostb", "charge", {"amount": 1})
        assert (caught.value.node, caught.value.service) == ("billing@hostb", "charge")
        assert caught.value.execution is Execution.NOT_BEGUN


def test_a_gateway_that_does_not_answer_has_acknowledged_nothing(two: Two) -> None:
    two.a.gateway._outbound._links["hostb"].ask = _hanging  # type: ignore[method-assign]
    with pytest.raises(NotAcknowledgedError, match="billing@hostb"):
        two.analytics.send("billing@hostb", 1, timeout=0.3)


def _hanging(*_: Any, **__: Any) -> bytes:
    threading.Event().wait(2.0)
    raise HostAwayError("late")


def test_what_the_server_does_not_take_is_refused_on_both_ways(two: Two) -> None:
    """H-10."""
    two.billing.register("make", lambda size: bytes(size))
    with pytest.raises(PayloadTooLargeError, match="65536"):
        two.analytics.send("billing@hostb", bytes(70_000))
    with pytest.raises(ExecutionFailedError, match="65536"):
        two.analytics.call("billing@hostb", "make", {"size": 70_000}, timeout=WAIT_SECONDS)


def test_a_withdrawn_call_is_withdrawn_there(two: Two) -> None:
    """H-7."""
    future, gone = withdrawable(two)
    future.cancel()
    assert gone.wait(WAIT_SECONDS)
    with pytest.raises(CallWithdrawnError):
        future.result(WAIT_SECONDS)


def test_a_withdrawal_that_cannot_be_sent_ends_the_call_all_the_same(two: Two) -> None:
    future, go_on = held(two)
    two.broker.close()
    eventually(lambda: bool(two.a.gateway._broker.trouble))
    future.cancel()
    with pytest.raises((CallWithdrawnError, HostAwayError)):
        future.result(WAIT_SECONDS)
    go_on.set()


def test_a_gateway_that_is_closed_withdraws_what_is_under_way(two: Two) -> None:
    _, gone = withdrawable(two)
    two.b.joining.close()
    assert gone.wait(WAIT_SECONDS)


def test_only_so_many_answers_are_remembered(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-7."""
    monkeypatch.setattr(services, "REMEMBERED", 2)
    for n in range(4):
        two.analytics.send("billing@hostb", n, timeout=WAIT_SECONDS)
    assert len(two.b.gateway._inbound._delivered["hosta"]) == 2


# --- hosts that are away, and begin anew ---


def test_a_message_is_sent_again_when_the_server_is_back(two: Two) -> None:
    """H-7."""
    lost = two.drop(EnvelopeType.SPC_REQUEST, 1)
    sending = threading.Thread(
        target=two.analytics.send, args=("billing@hostb", "kept"), kwargs={"timeout": WAIT_SECONDS}
    )
    sending.start()
    eventually(lambda: bool(lost))
    broken = two.a.gateway._broker.publish
    two.a.gateway._broker.publish = _away  # type: ignore[method-assign]
    sending.join(1.5)
    two.a.gateway._broker.publish = broken  # type: ignore[method-assign]
    message = two.billing.receive(WAIT_SECONDS)
    assert message is not None and message.payload == "kept"
    sending.join(WAIT_SECONDS)


def _away(_: str, __: bytes) -> None:
    raise HostAwayError("the server is away")


def test_a_new_life_of_the_other_host_ends_what_waits_for_the_old_one(two: Two) -> None:
    """H-7."""
    two.drop(EnvelopeType.SPC_REQUEST, 1000)
    future = two.analytics.submit("billing@hostb", "charge", {"amount": 1}, timeout=WAIT_SECONDS)
    eventually(lambda: two.a.link.in_flight == 1)
    known = two.b.link._known
    two.b.link._known = Acquaintance(bytes(LIFE_BYTES))
    with pytest.raises(HostAwayError, match="started again") as caught:
        future.result(WAIT_SECONDS)
    assert caught.value.execution is Execution.MAY_HAVE_RUN
    assert known.own_life != bytes(LIFE_BYTES)


def test_a_host_that_does_not_answer_any_more_ends_what_waits_for_it(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-7."""
    two.drop(EnvelopeType.SPC_REQUEST, 1000)
    future = two.analytics.submit("billing@hostb", "charge", {"amount": 1}, timeout=WAIT_SECONDS)
    eventually(lambda: two.a.link.in_flight == 1)
    two.broker.change = lambda *_: []
    monkeypatch.setattr(link, "AWAY_SECONDS", 0.5)
    with pytest.raises(HostAwayError, match="any more"):
        future.result(WAIT_SECONDS)
    with pytest.raises(HostAwayError) as caught:
        two.analytics.call("billing@hostb", "charge", {"amount": 1}, timeout=WAIT_SECONDS)
    assert caught.value.execution is Execution.NOT_BEGUN


def test_a_call_waits_a_moment_for_a_host_that_is_not_known_yet(two: Two) -> None:
    """H-7."""
    two.a.link._known = Acquaintance(bytes(LIFE_BYTES))
    assert two.analytics.call("billing@hostb", "charge", {"amount": 1}, timeout=WAIT_SECONDS) == 1


def test_nothing_is_believed_of_a_host_that_is_not_known_yet(two: Two) -> None:
    """H-5."""
    two.analytics.call("billing@hostb", "charge", {"amount": 1}, timeout=WAIT_SECONDS)
    envelope = next(data for _, data in two.broker.seen if data[1] == EnvelopeType.SPC_REQUEST)
    two.b.link._known = Acquaintance(two.b.link._known.own_life)
    with pytest.raises(WireError, match="not known yet"):
        two.b.link.opened(parse_header(envelope), envelope)


def test_what_is_replayed_is_refused(two: Two) -> None:
    """H-5."""
    two.analytics.call("billing@hostb", "charge", {"amount": 1}, timeout=WAIT_SECONDS)
    subject, envelope = next(one for one in two.broker.seen if one[1][1] == EnvelopeType.SPC_REQUEST)
    two.broker.deliver(subject, envelope)
    eventually(lambda: two.b.counter("hosts_refused_replayed") == 1)
    assert two.calls == [1]


def test_what_is_for_another_host_or_has_another_length_is_refused(two: Two) -> None:
    """H-4."""
    two.analytics.call("billing@hostb", "charge", {"amount": 1}, timeout=WAIT_SECONDS)
    subject, envelope = next(one for one in two.broker.seen if one[1][1] == EnvelopeType.SPC_REQUEST)
    other = bytearray(envelope)
    other[48] ^= 1
    two.broker.deliver(subject, bytes(other))
    two.broker.deliver(subject, envelope + b"x")
    eventually(lambda: two.b.counter("hosts_refused") == 2)


def test_of_a_flood_of_strange_greetings_few_are_answered(two: Two) -> None:
    """H-5."""
    seal = two.a.link._seal
    two.broker.seen.clear()
    for _ in range(100):
        greeting = Acquaintance(bytes(LIFE_BYTES)).greeting(1.0)
        two.broker.deliver("speed.hosts.hostb", seal.seal_hello(greeting, reply=False))
    assert two.analytics.call("billing@hostb", "charge", {"amount": 1}, timeout=WAIT_SECONDS) == 1
    answered = [data for subject, data in two.broker.seen if subject == "speed.hosts.hosta" and data[1] == 5]
    assert len(answered) < 60


def test_the_other_host_may_say_nothing_that_can_be_read(two: Two) -> None:
    two.a.link.publish(EnvelopeType.SPC_REQUEST, pack([1]))
    eventually(lambda: two.b.counter("hosts_refused") == 1)
    told: Any = two.b.gateway.listed()
    assert told["name"] == "hostb" and told["broker"] == "connected"
