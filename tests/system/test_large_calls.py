"""Payloads that no envelope holds, in calls and between messages (G-14, G-18, R-2)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import speed
from speed.engine.python import links, outgoing

Make = Callable[..., speed.Node]
PATIENCE = 60.0
LARGE = 66 << 20


def test_arguments_and_results_that_no_envelope_holds_travel_in_segments(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    billing.register("turn", lambda data: data[::-1])
    data = bytes(range(256)) * (LARGE // 256)
    assert analytics.call("billing", "turn", {"data": data}, timeout=PATIENCE) == data[::-1]


def test_a_future_gets_a_large_result(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    billing.register("large", lambda: bytes(LARGE))
    assert len(analytics.submit("billing", "large", timeout=PATIENCE).result(PATIENCE)) == LARGE


def test_what_is_above_the_limit_of_calls_is_refused_on_both_sides(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (outgoing, links):
        monkeypatch.setattr(module, "MAX_CALL_BYTES", 1 << 26)
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    billing.register("large", lambda: bytes(LARGE))
    billing.register("size", lambda data: len(data))
    with pytest.raises(speed.PayloadTooLargeError, match="limit") as caught:
        analytics.call("billing", "size", {"data": bytes(LARGE)}, timeout=PATIENCE)
    assert caught.value.execution is speed.Execution.NOT_BEGUN
    with pytest.raises(speed.ExecutionFailedError, match="limit"):
        analytics.call("billing", "large", timeout=PATIENCE)


@pytest.mark.parametrize("ack", [True, False])
def test_what_a_node_cannot_take_is_refused_at_the_sender(
    node: Make, monkeypatch: pytest.MonkeyPatch, ack: bool
) -> None:
    """R-2: nothing is written, so nothing is lost."""
    from speed.fs import registration

    monkeypatch.setattr(registration, "FEATURES", ())
    billing = node("billing", allow=["analytics"], engine="python")
    monkeypatch.undo()
    analytics = node("analytics", allow=["billing"], engine="python")
    for verb in (
        lambda: analytics.send("billing", bytes(LARGE), ack=ack, timeout=PATIENCE),
        lambda: analytics.call("billing", "any", {"data": bytes(LARGE)}, timeout=PATIENCE),
    ):
        with pytest.raises(speed.PayloadTooLargeError, match="takes no segments"):
            verb()
    analytics.register("large", lambda: bytes(LARGE))
    with pytest.raises(speed.ExecutionFailedError, match="limit"):
        billing.call("analytics", "large", timeout=PATIENCE)


def test_nobody_is_told_of_a_withdrawal_who_does_not_know_that_word(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from speed.fs import registration

    go = threading.Event()
    monkeypatch.setattr(registration, "FEATURES", ())
    billing = node("billing", allow=["analytics"], engine="python")
    monkeypatch.undo()
    billing.register("hold", lambda: go.wait(PATIENCE))
    analytics = node("analytics", engine="python")
    future = analytics.submit("billing", "hold", timeout=PATIENCE)
    assert not future.cancel()
    analytics.ping("billing", timeout=PATIENCE)
    go.set()
    assert future.result(PATIENCE) is True
    assert "requests_withdrawn" not in billing.stats()["counters"]


def test_what_comes_behind_a_payload_in_segments_is_handled_after_it(make: Make) -> None:
    """G-14: large enough that a worker puts it together."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics", allow=["billing"])
    handled: list[Any] = []
    billing.on_message(lambda message: handled.append(message.metadata.size > 1 << 20 or message.payload))
    analytics.send("billing", 1)
    analytics.send("billing", bytes(LARGE), timeout=PATIENCE)
    for number in (2, 3):
        analytics.send("billing", number)
    analytics.send("billing", 4, ack=True, timeout=PATIENCE)
    assert handled == [1, True, 2, 3, 4]


def test_a_payload_that_was_sent_unordered_holds_nothing_up(node: Make) -> None:
    """G-14: what comes behind it may be handled while it is."""
    billing = node("billing", allow=["analytics"], engine="python")
    analytics = node("analytics", allow=["billing"], engine="python")
    small = threading.Event()
    order: list[str] = []

    def handle(message: speed.Message) -> None:
        if message.metadata.size > 1 << 20:
            assert small.wait(PATIENCE)
            order.append("large")
        else:
            order.append("small")
            small.set()

    billing.on_message(handle)
    sending = threading.Thread(
        target=analytics.send,
        args=("billing", bytes(LARGE)),
        kwargs={"ack": True, "timeout": PATIENCE, "unordered": True},
        daemon=True,
    )
    sending.start()
    while not billing.stats()["counters"].get("payloads_from_segments"):
        analytics.ping("billing", timeout=PATIENCE)
    analytics.send("billing", 1)
    sending.join(PATIENCE)
    assert order == ["small", "large"]
