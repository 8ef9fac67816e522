"""Nobody starves, nobody waits for himself (registry_spec/scheduling.md, T-3 to T-6, T-12)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import speed
from speed.core.scheduler import Scheduler

Make = Callable[..., speed.Node]
PATIENCE = 20.0


def test_a_sender_with_many_queued_calls_costs_another_one_turn(make: Make) -> None:
    """T-4."""
    billing = make("billing", allow=["busy", "other"], workers=1)
    order: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def work(request: speed.Request) -> None:
        begun.set()
        assert go.wait(PATIENCE)
        order.append(request.caller)

    billing.register("work", work)
    busy, other = make("busy"), make("other")
    futures = [busy.submit("billing", "work", timeout=60) for _ in range(300)]
    assert begun.wait(PATIENCE)
    busy.ping("billing", timeout=PATIENCE)
    mine = other.submit("billing", "work", timeout=60)
    other.ping("billing", timeout=PATIENCE)
    go.set()
    mine.result(PATIENCE)
    assert order.index("other") <= 3
    for future in futures:
        future.result(PATIENCE)


def test_a_sender_with_many_queued_calls_holds_up_no_message_of_another(make: Make) -> None:
    """T-4, T-6: it is handled when a few of the calls have run, and the others wait."""
    billing = make("billing", allow=["busy", "other"], workers=1)
    begun, handled, permits = threading.Event(), threading.Event(), threading.Semaphore(0)

    def work() -> None:
        begun.set()
        assert permits.acquire(timeout=PATIENCE)

    billing.register("work", work)
    billing.on_message(lambda message: handled.set())
    busy, other = make("busy"), make("other")
    futures = [busy.submit("billing", "work", timeout=60) for _ in range(300)]
    assert begun.wait(PATIENCE)
    busy.ping("billing", timeout=PATIENCE)
    other.send("billing", 1, options=speed.PublishOptions(priority=10))
    other.ping("billing", timeout=PATIENCE)
    permits.release(3)
    assert handled.wait(PATIENCE)
    permits.release(len(futures))
    for future in futures:
        future.result(PATIENCE)


def test_services_that_hold_every_place_leave_a_worker_to_handlers(make: Make) -> None:
    """T-3."""
    billing = make("billing", allow=["analytics"], workers=4)
    full, go = threading.Semaphore(0), threading.Event()
    billing.register("hold", lambda: (full.release(), go.wait(PATIENCE))[1])
    billing.on_message(lambda message: None)
    analytics = make("analytics")
    futures = [analytics.submit("billing", "hold", timeout=60) for _ in range(8)]
    for _ in range(4):
        assert full.acquire(timeout=PATIENCE)
    analytics.send("billing", 1, ack=True, timeout=PATIENCE)
    go.set()
    for future in futures:
        future.result(PATIENCE)


def test_handlers_that_hold_every_place_leave_a_worker_to_services(make: Make) -> None:
    """T-3: one worker, one handler that waits."""
    billing = make("billing", allow=["analytics"], workers=1)
    held, go = threading.Event(), threading.Event()
    billing.register("echo", lambda x: x)
    billing.on_message(lambda message: (held.set(), go.wait(PATIENCE)))
    analytics = make("analytics")
    analytics.send("billing", 1)
    assert held.wait(PATIENCE)
    assert analytics.call("billing", "echo", {"x": 7}, timeout=PATIENCE) == 7
    go.set()


@pytest.mark.parametrize("depth", [4, 9])
def test_a_chain_of_calls_between_two_nodes_gives_its_answer_however_deep(make: Make, depth: int) -> None:
    """T-3: a worker that waits for the other node gives its place up."""
    nodes = {name: make(name, workers=2, allow=["one", "two", "start"]) for name in ("one", "two")}

    def serve(name: str, other: str) -> None:
        def count(left: int) -> int:
            return 0 if not left else 1 + nodes[name].call(other, "count", {"left": left - 1}, timeout=PATIENCE)

        nodes[name].register("count", count)

    serve("one", "two")
    serve("two", "one")
    start = make("start")
    chains = [start.submit("one", "count", {"left": depth}, timeout=PATIENCE) for _ in range(3)]
    assert [chain.result(PATIENCE) for chain in chains] == [depth] * 3


def test_a_service_may_call_its_own_node(make: Make) -> None:
    """A-1, T-12: with one worker."""
    billing = make("billing", workers=1, allow=["billing", "analytics"])
    billing.register("inner", lambda x: x + 1)
    billing.register("outer", lambda x: billing.call("billing", "inner", {"x": x}, timeout=PATIENCE) + 1)
    assert make("analytics").call("billing", "outer", {"x": 1}, timeout=PATIENCE) == 3


def test_a_handler_may_wait_for_a_future_an_acknowledgement_and_a_ping(make: Make) -> None:
    """T-3: each of them is a wait for another node."""
    billing = make("billing", workers=1, allow=["billing", "analytics"])
    billing.register("echo", lambda x: x)
    found: Queue[Any] = Queue()

    def handle(message: speed.Message) -> None:
        if message.payload == "outer":
            found.put(billing.submit("billing", "echo", {"x": 7}, timeout=PATIENCE).result(PATIENCE))
            found.put(billing.ping("billing", timeout=PATIENCE) >= 0)
            billing.send("billing", "inner", ack=True, timeout=PATIENCE)
            found.put("acknowledged")

    billing.on_message(handle)
    make("analytics").send("billing", "outer", timeout=PATIENCE)
    assert [found.get(timeout=PATIENCE) for _ in range(3)] == [7, True, "acknowledged"]


def test_the_more_urgent_message_is_handled_before_others_that_wait(make: Make) -> None:
    """T-5: of different senders."""
    billing = make("billing", workers=1, allow=["first", "low", "high"])
    order: Queue[Any] = Queue()
    held, go = threading.Event(), threading.Event()

    def handle(message: speed.Message) -> None:
        if message.source == "first":
            held.set()
            assert go.wait(PATIENCE)
        order.put(message.source)

    billing.on_message(handle)
    first, low, high = make("first"), make("low"), make("high")
    first.send("billing", 1)
    assert held.wait(PATIENCE)
    low.send("billing", 1)
    low.ping("billing", timeout=PATIENCE)
    high.send("billing", 1, options=speed.PublishOptions(priority=10))
    high.ping("billing", timeout=PATIENCE)
    go.set()
    assert [order.get(timeout=PATIENCE) for _ in range(3)] == ["first", "high", "low"]


def test_a_call_wakes_one_worker_and_no_other(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """T-3: a look for work that finds it, and one that finds no more."""
    looks: list[float] = []
    take = Scheduler.take

    def counted(scheduler: Scheduler, now: float) -> Any:
        looks.append(now)
        return take(scheduler, now)

    monkeypatch.setattr(Scheduler, "take", counted)
    billing, asker = node("billing", allow=["asker"], engine="python"), node("asker", engine="python")
    billing.register("echo", lambda x: x)
    for number in range(200):
        assert asker.call("billing", "echo", {"x": number}, timeout=PATIENCE) == number
    assert 200 <= len(looks) <= 2 * 200 + 10
