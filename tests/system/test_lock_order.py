"""Locks are taken in the order that ``speed.engine.python`` states, whatever the nodes do."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable

import pytest

import speed
import speed.engine.python
from speed.engine import threads as locks
from tests import locks as watched

Make = Callable[..., speed.Node]
PATIENCE = 20.0


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was taken against the order, by nodes that are made from now on."""
    monkeypatch.setattr(watched.Watched, "broken", found := [])
    monkeypatch.setattr(locks, "lock", watched.lock)
    monkeypatch.setattr(locks, "reentrant", watched.reentrant)
    return found


def test_the_order_that_is_watched_is_the_one_that_is_written() -> None:
    lines = re.findall(r"^\d+\.\s+(``.*?``)(?:\s{2,}.*)?$", speed.engine.python.__doc__ or "", re.MULTILINE)
    written = tuple(tuple(re.findall(r"``(\w+)``", line)) for line in lines)
    assert written == watched.ORDER


def test_a_lock_that_is_taken_against_the_order_is_found(broken: list[str]) -> None:
    with locks.lock("lane"), locks.lock("link"):
        pass
    assert broken == ["link was taken under lane"]


def counting(own: speed.Node, other: str) -> Callable[[int], int]:
    """A service that asks the same of the other node, so often."""

    def count(left: int) -> int:
        return 0 if not left else 1 + own.call(other, "count", {"left": left - 1}, timeout=PATIENCE)

    return count


def test_nodes_that_call_send_withdraw_and_leave_take_locks_in_order(node: Make, broken: list[str]) -> None:
    names = ("one", "two")
    nodes = {name: node(name, allow=names, engine="python", workers=2, max_lane_bytes=40_000) for name in names}
    one, two = nodes["one"], nodes["two"]
    for own, other in ((one, "two"), (two, "one")):
        own.register("count", counting(own, other))
        own.subscribe("all.*", lambda message: None)
    one.on_message(lambda message: None)
    two.on_message(lambda message: 1 / 0)

    def work(own: speed.Node, other: str) -> None:
        for number in range(10):
            own.submit(other, "count", {"left": 3}, timeout=PATIENCE).cancel()
            assert own.call(other, "count", {"left": 3}, timeout=PATIENCE) == 3
            own.send(other, bytes(1000 * number), timeout=PATIENCE)
            own.publish("all.things", number, timeout=PATIENCE)
            own.info(other, timeout=PATIENCE)

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in ((one, "two"), (two, "one"))] * 1
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
        assert not thread.is_alive()
    one.segment("two", 2000)
    one.send("two", bytes(9000), timeout=PATIENCE)
    assert asyncio.run(one.aio.call("two", "count", {"left": 2}, timeout=PATIENCE)) == 2
    two.close()
    one.close()
    assert broken == []
