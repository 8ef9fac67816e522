"""A node whose lease ended, and that has not noticed yet, because its heartbeat hangs (R-12)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import speed
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
PATIENCE = 20.0
LEASE_SECONDS = 0.6


def parts_of(node: speed.Node) -> Any:
    return node._engine._parts  # type: ignore[attr-defined]


def test_a_node_whose_lease_ended_handles_nothing_more(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor may read the same lane already."""
    handled: list[Any] = []
    billing = node("billing", engine="python", allow=["analytics"], lease_seconds=LEASE_SECONDS, heartbeat_seconds=0.1)
    billing.on_message(lambda message: handled.append(message.payload))
    analytics = node("analytics", engine="python")
    analytics.send("billing", 1, ack=True, timeout=PATIENCE)
    disk_answers = threading.Event()
    parts, links = parts_of(billing), parts_of(analytics).links
    monkeypatch.setattr(parts.context.registration, "heartbeat", lambda: disk_answers.wait(PATIENCE))
    link = links.granted("billing")
    monkeypatch.setattr(links, "granted", lambda *_, **__: link)  # as if it had been looked at just before
    while not parts.context.registration.is_over:
        os.sched_yield()
    analytics.send("billing", 2, timeout=PATIENCE)
    turns: Queue[None] = Queue()
    expire = parts.dispatch.expire
    monkeypatch.setattr(parts.dispatch, "expire", lambda now: (expire(now), turns.put(None)))
    for _ in range(3):
        parts.protocol.look_again()
        turns.get(timeout=PATIENCE)
    assert parts.pool.drain(PATIENCE)
    assert handled == [1]
    disk_answers.set()


def test_an_unexpected_failure_beside_the_lease_costs_no_lease(
    node: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R-10: the thread that renews it goes on, whatever else it does fails."""
    from speed.engine.python.registrar import Sweeper

    failed = threading.Event()

    def turn(_: Sweeper) -> None:
        failed.set()
        raise KeyError("a defect")

    monkeypatch.setattr(Sweeper, "turn", turn)
    billing = node("billing", engine="python", allow=["analytics"], lease_seconds=2, heartbeat_seconds=0.2)
    analytics = node("analytics", engine="python")
    assert failed.wait(PATIENCE)
    before = analytics.wait_for("billing", timeout=PATIENCE).last_heartbeat
    until = time.monotonic() + PATIENCE
    while analytics.wait_for("billing", timeout=PATIENCE).last_heartbeat == before and time.monotonic() < until:
        time.sleep(0.02)
    assert analytics.wait_for("billing", timeout=PATIENCE).last_heartbeat > before
    assert billing.stats()["counters"]["registry_failures"] > 0
    assert "sweeping failed" in caplog.text


SENDS = """
import sys, speed
node = speed.Node("analytics", root=sys.argv[1], engine=sys.argv[2], lease_seconds=1, heartbeat_seconds=0.2)
payload = bytes(60 << 20)
print("up", flush=True)
for _ in sys.stdin:
    try:
        node.send("billing", payload, timeout=20)
        print("sent", flush=True)
    except speed.LeaseLostError as error:
        print("lost", "may not have been delivered" in str(error), flush=True)
"""
ATTEMPTS = 20


def is_stopped_inside_a_payload(sender: Child, billing: speed.Node, lane: Path) -> bool:
    """Stop a sender while it writes a slot; False if it was quicker, and goes on."""

    def written() -> set[bytes]:
        """What lies behind the first MiB of each slot: the receiver was told of the payload before."""
        found = set()
        for slot in lane.glob("*.slot"):
            with slot.open("rb") as file:
                found.add(os.pread(file.fileno(), 32, 1 << 20))
        return found - {b"", bytes(32)}

    before = written()
    sender.tell("go")
    while written() <= before:
        os.sched_yield()
    sender.signal(signal.SIGSTOP)
    until = time.monotonic() + PATIENCE
    while not billing.stats()["counters"].get("torn_slots") and time.monotonic() < until:
        if billing.receive(0.02) is not None:
            sender.signal(signal.SIGCONT)
            assert sender.line() == "sent"
            return False
    return True


@pytest.mark.parametrize("engine", ["python", "native"])
def test_a_sender_that_was_stopped_inside_a_payload_says_that_it_may_not_have_arrived(
    node: Make, root: str, child: Callable[..., Child], engine: str
) -> None:
    """L-29: its receiver gave the payload up, since the lease of the sender had passed."""
    billing = node("billing", allow=["analytics"])
    sender = child(SENDS, root, engine)
    assert sender.line() == "up"
    lane = Path(root, "billing/inbox/analytics")
    assert any(is_stopped_inside_a_payload(sender, billing, lane) for _ in range(ATTEMPTS))
    assert billing.stats()["counters"]["torn_slots"] == 1
    sender.signal(signal.SIGCONT)
    assert sender.line() in ("lost True", "lost False")


def test_a_request_that_was_written_when_the_lease_ended_may_have_run(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    node("billing", allow=["analytics"])
    analytics = node("analytics", engine="python")
    parts = parts_of(analytics)
    link = parts.links.granted("billing")
    real = link._write

    def late(*arguments: Any) -> None:
        real(*arguments)
        monkeypatch.setattr(parts.context.registration._lease, "_renewed_ms", 0)

    monkeypatch.setattr(link, "_write", late)
    with pytest.raises(speed.LeaseLostError, match="may not have been delivered") as caught:
        analytics.call("billing", "echo", timeout=PATIENCE)
    assert caught.value.execution is speed.Execution.MAY_HAVE_RUN
