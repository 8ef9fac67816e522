"""A large envelope is read on a thread of its own: nobody else waits for it (T-11)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import speed
from speed.engine.python.lanes import InboundLane

Node = Callable[..., speed.Node]
PATIENCE = 20.0
LARGE = bytes(8 << 20)


class Gate:
    """Holds whoever reads a large envelope, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        read_large = InboundLane.read_large

        def held(lane: InboundLane, now: float, scan: bool) -> None:
            self.reached.set()
            assert self.opened.wait(PATIENCE)
            read_large(lane, now, scan)

        monkeypatch.setattr(InboundLane, "read_large", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


@pytest.fixture
def billing(node: Node) -> speed.Node:
    return node("billing", allow=["analytics", "other"], engine="python")


def test_others_are_answered_while_a_large_envelope_is_read(node: Node, billing: speed.Node, gate: Gate) -> None:
    analytics, other = node("analytics", engine="python"), node("other", engine="python")
    analytics.send("billing", LARGE, timeout=PATIENCE)
    assert gate.reached.wait(PATIENCE)
    other.ping("billing", timeout=PATIENCE)
    gate.opened.set()
    message = billing.receive(PATIENCE)
    assert message is not None
    assert message.payload == LARGE


def test_what_comes_behind_it_from_the_same_sender_does_not_overtake_it(
    node: Node, billing: speed.Node, gate: Gate
) -> None:
    analytics, other = node("analytics", engine="python"), node("other", engine="python")
    for payload in (b"before", LARGE, b"behind"):
        analytics.send("billing", payload, timeout=PATIENCE)
    assert gate.reached.wait(PATIENCE)
    other.ping("billing", timeout=PATIENCE)
    gate.opened.set()
    sizes = [len(message.payload) for _ in range(3) if (message := billing.receive(PATIENCE)) is not None]
    assert sizes == [6, len(LARGE), 6]


def test_a_node_that_closes_meanwhile_gets_it_at_its_next_start(node: Node, billing: speed.Node, gate: Gate) -> None:
    analytics = node("analytics", engine="python")
    analytics.send("billing", LARGE, timeout=PATIENCE)
    assert gate.reached.wait(PATIENCE)
    billing.close(drain_seconds=0)
    gate.opened.set()
    successor = node("billing", allow=["analytics"], engine="python")
    message = successor.receive(PATIENCE)
    assert message is not None
    assert message.payload == LARGE


def test_a_failure_to_read_it_is_tried_again(node: Node, billing: speed.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    from speed.fs.lane_reader import LaneReader

    failing = [True]
    original = LaneReader.read

    def read(reader: LaneReader, *arguments: object, large: bool = True, **more: object) -> object:
        if large and failing:
            failing.clear()
            raise OSError("the disk does not answer")
        return original(reader, *arguments, large=large, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(LaneReader, "read", read)
    node("analytics", engine="python").send("billing", LARGE, timeout=PATIENCE)
    message = billing.receive(PATIENCE)
    assert message is not None
    assert message.payload == LARGE
    assert not failing
