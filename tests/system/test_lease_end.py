"""A node whose lease ended, and that has not noticed yet, because its heartbeat hangs (R-12)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import speed

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
    from speed.runtime.sweeper import Sweeper

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
