"""A node that leaves says so at once: who is about to call, lists or waits sees it (R-15, T-13)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import speed

Make = Callable[..., speed.Node]
PATIENCE = 20.0


class Leaving:
    """``billing``, which drains because a service of it is not over yet."""

    def __init__(self, make: Make) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.node = make("billing", allow=["analytics"], workers=1)
        self.node.register("hold", self.hold)
        self.node.register("echo", lambda x: x)
        self.caller = make("analytics")
        self.holding = self.caller.submit("billing", "hold", timeout=3 * PATIENCE)
        assert self.begun.wait(PATIENCE)
        self.waiting = self.caller.submit("billing", "echo", {"x": 7}, timeout=3 * PATIENCE)
        self.caller.ping("billing", timeout=PATIENCE)
        self.closing = threading.Thread(target=self.node.close, kwargs={"drain_seconds": PATIENCE}, daemon=True)

    def hold(self) -> str:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return "held"

    def leave(self) -> None:
        """Begin to leave, and return once the entry says so."""
        self.closing.start()
        registry = self.caller._engine._parts.context.registry if self.caller.engine == "python" else None  # type: ignore[attr-defined]
        while any(entry.name == "billing" for entry in self.caller.nodes()):
            assert registry is None or registry.live("billing") is not None

    def end(self) -> None:
        self.go.set()
        self.closing.join(PATIENCE)
        assert not self.closing.is_alive()


@pytest.fixture
def leaving(make: Make) -> Leaving:
    return Leaving(make)


def test_what_was_accepted_is_worked_off(leaving: Leaving) -> None:
    leaving.leave()
    leaving.end()
    assert leaving.holding.result(PATIENCE) == "held"
    assert leaving.waiting.result(PATIENCE) == 7


def test_it_ends_once_its_last_service_was_withdrawn(make: Make) -> None:
    billing, begun = make("billing", allow=["analytics"], workers=1), threading.Event()

    def hold(request: speed.Request) -> str:
        begun.set()
        assert request.cancellation.wait(3 * PATIENCE)
        return "withdrawn"

    billing.register("hold", hold)
    analytics = make("analytics")
    holding = analytics.submit("billing", "hold", timeout=6 * PATIENCE)
    assert begun.wait(PATIENCE)
    closing = threading.Thread(target=billing.close, kwargs={"drain_seconds": 3 * PATIENCE}, daemon=True)
    closing.start()
    while any(entry.name == "billing" for entry in analytics.nodes()):
        pass
    holding.cancel()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert holding.result(PATIENCE) == "withdrawn"


@pytest.mark.parametrize("verb", ["call", "submit", "send", "ping"])
def test_who_is_about_to_write_to_it_is_told_at_once(leaving: Leaving, verb: str) -> None:
    leaving.leave()
    caller = leaving.caller
    verbs: dict[str, Callable[[], Any]] = {
        "call": lambda: caller.call("billing", "echo", {"x": 1}, timeout=1000),
        "submit": lambda: caller.submit("billing", "echo", {"x": 1}, timeout=1000).result(1000),
        "send": lambda: caller.send("billing", 1, ack=True, timeout=1000),
        "ping": lambda: caller.ping("billing", timeout=1000),
    }
    with pytest.raises(speed.NodeLeftError) as caught:
        verbs[verb]()
    if verb in {"call", "submit"}:
        assert caught.value.execution is speed.Execution.NOT_BEGUN
    leaving.end()


def test_it_is_in_no_listing_and_nobody_waits_for_it(leaving: Leaving) -> None:
    leaving.leave()
    assert [entry.name for entry in leaving.caller.nodes()] == ["analytics"]
    with pytest.raises(speed.UnknownNodeError, match="is leaving"):
        leaving.caller.wait_for("billing", timeout=0.1)
    leaving.end()


def test_it_gets_no_event(make: Make, leaving: Leaving) -> None:
    leaving.node.subscribe("orders.*", lambda message: None)
    leaving.leave()
    published = leaving.caller.publish("orders.created", 1)
    assert (published, published.failed) == (0, {})
    leaving.end()


def test_a_request_that_comes_while_it_leaves_never_begins(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-15: its caller had looked just before."""
    leaving = Leaving(lambda name, **options: node(name, engine="python", **options))
    links: Any = leaving.caller._engine._parts.links  # type: ignore[attr-defined]
    link = links.granted("billing")
    leaving.leave()
    monkeypatch.setattr(links, "granted", lambda *_, **__: link)
    with pytest.raises(speed.NodeLeavingError) as caught:
        leaving.caller.call("billing", "echo", {"x": 1}, timeout=PATIENCE)
    assert caught.value.execution is speed.Execution.NOT_BEGUN
    leaving.end()


def test_what_still_waits_at_the_end_of_the_drain_never_begins(make: Make) -> None:
    leaving = Leaving(make)
    leaving.node.close(drain_seconds=0.2)
    with pytest.raises(speed.NodeLeftError) as caught:
        leaving.waiting.result(PATIENCE)
    assert caught.value.execution is speed.Execution.NOT_BEGUN
    leaving.go.set()


def test_messages_that_come_while_it_leaves_are_handled_by_the_next_one(make: Make) -> None:
    leaving = Leaving(make)
    for number in range(3):
        leaving.caller.send("billing", number)
    leaving.caller.ping("billing", timeout=PATIENCE)
    leaving.leave()
    leaving.end()
    successor = make("billing", allow=["analytics"])
    handled: list[Any] = []
    successor.on_message(lambda message: handled.append(message.payload))
    leaving.caller.wait_for("billing", timeout=PATIENCE)
    leaving.caller.send("billing", 3, ack=True, timeout=PATIENCE)
    assert handled == [0, 1, 2, 3]


def test_what_is_sent_while_its_sender_closes_is_handled_or_refused(root: str, node: Make) -> None:
    """L-18: never accepted behind the fence of the successor, who may start the moment that the name is free."""
    handled: list[Any] = []
    receiver = node("receiver", allow=["sender"], engine="python")
    receiver.on_message(lambda message: handled.append(message.payload))
    accepted: list[int] = []
    numbers = iter(range(1_000_000))

    def send(own: speed.Node) -> None:
        try:
            while True:
                number = next(numbers)
                own.send("receiver", number, timeout=PATIENCE)
                accepted.append(number)
        except speed.SpeedError:
            return

    for _ in range(8):
        own = speed.Node("sender", root=root, engine="python")
        sending = threading.Thread(target=send, args=(own,), daemon=True)
        sending.start()
        already = len(accepted)
        while len(accepted) < already + 20:
            own.ping("receiver", timeout=PATIENCE)
        own.close()
        sending.join(PATIENCE)
    with speed.Node("sender", root=root, engine="python") as last:
        last.send("receiver", "end", ack=True, timeout=PATIENCE)
    assert set(accepted) <= set(handled)
