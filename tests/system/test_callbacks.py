"""Callbacks of calls run where they may call and wait, each once (registry_spec/spc.md, Threads and S-7)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Queue
from typing import Any

import pytest

import speed

Make = Callable[..., speed.Node]
PATIENCE = 20.0


@pytest.fixture(name="make")
def nodes_of_each_kind(node: Make, kind: str) -> Make:
    return partial(node, engine=kind)


@pytest.fixture
def begun() -> threading.Event:
    """Set once the service ``held`` runs."""
    return threading.Event()


@pytest.fixture
def go(make: Make, begun: threading.Event) -> threading.Event:
    """What the service ``held`` of ``billing`` waits for; ``echo`` answers at once."""
    event = threading.Event()
    billing = make("billing", allow=["analytics"])
    billing.register("held", lambda: (begun.set(), event.wait(PATIENCE))[1])
    billing.register("echo", lambda x: x)
    return event


def test_a_callback_may_call_and_wait_for_the_answer(make: Make, go: threading.Event) -> None:
    """Threads: nothing of the program runs while its thread holds the protocol role."""
    analytics = make("analytics")
    found: Queue[Any] = Queue()
    future = analytics.submit("billing", "held")
    future.add_done_callback(lambda _: found.put(analytics.call("billing", "echo", {"x": 7}, timeout=PATIENCE)))
    go.set()
    assert found.get(timeout=PATIENCE) == 7
    assert future.result(PATIENCE) is True


def test_a_callback_may_call_while_another_thread_reads_its_own_answer(make: Make, go: threading.Event) -> None:
    analytics = make("analytics")
    told = threading.Event()
    others = make("others", allow=["analytics"])
    others.register("untilTold", lambda: (go.set(), told.wait(PATIENCE))[1])

    def call_again(_: Future[Any]) -> None:
        analytics.call("billing", "echo", {"x": 7}, timeout=PATIENCE)
        told.set()

    analytics.submit("billing", "held", timeout=PATIENCE).add_done_callback(call_again)
    answers: Queue[Any] = Queue()
    reading = threading.Thread(target=lambda: answers.put(analytics.call("others", "untilTold", timeout=2 * PATIENCE)))
    reading.daemon = True
    reading.start()
    assert answers.get(timeout=PATIENCE) is True


def test_callbacks_run_in_their_order_on_one_worker(make: Make, go: threading.Event) -> None:
    analytics = make("analytics")
    ran: Queue[tuple[int, int]] = Queue()
    future = analytics.submit("billing", "held")
    for number in range(5):
        future.add_done_callback(lambda _, number=number: ran.put((number, threading.get_ident())))
    go.set()
    found = [ran.get(timeout=PATIENCE) for _ in range(5)]
    assert [number for number, _ in found] == [0, 1, 2, 3, 4]
    assert len({thread for _, thread in found}) == 1


def test_a_callback_of_a_call_that_has_ended_runs_in_the_thread_that_adds_it(make: Make, go: threading.Event) -> None:
    future = make("analytics").submit("billing", "echo", {"x": 7})
    assert future.result(PATIENCE) == 7
    ran: list[int] = []
    future.add_done_callback(lambda _: ran.append(threading.get_ident()))
    assert ran == [threading.get_ident()]


def test_the_callback_of_a_cancelled_call_runs_once_when_the_other_side_has_spoken(
    make: Make, go: threading.Event, begun: threading.Event
) -> None:
    """S-16: the call runs already, and its result counts."""
    analytics = make("analytics")
    future = analytics.submit("billing", "held")
    found: Queue[Any] = Queue()
    future.add_done_callback(lambda done: found.put(done.result()))
    assert begun.wait(PATIENCE)
    assert not future.cancel()
    go.set()
    assert found.get(timeout=PATIENCE) is True
    assert analytics.call("billing", "echo", {"x": 7}, timeout=PATIENCE) == 7
    assert found.empty()


def test_a_callback_that_waits_for_a_worker_when_the_node_closes_is_run(make: Make, go: threading.Event) -> None:
    """S-7: the only worker is busy when the answer comes."""
    analytics = make("analytics", allow=["billing"], workers=1)
    started, release = threading.Event(), threading.Event()
    analytics.register("busy", lambda: (started.set(), release.wait(2 * PATIENCE))[1])
    billing = make("caller", allow=["analytics"])
    analytics.allow("caller")
    billing.submit("analytics", "busy", timeout=2 * PATIENCE)
    assert started.wait(PATIENCE)
    ran: list[Any] = []
    future = analytics.submit("billing", "held", timeout=PATIENCE)
    future.add_done_callback(lambda done: ran.append(done.result()))
    go.set()
    assert future.result(PATIENCE) is True
    analytics.close(drain_seconds=0)
    release.set()
    assert ran == [True]


def test_the_callbacks_of_calls_that_the_end_of_the_node_ends_are_run(make: Make, go: threading.Event) -> None:
    """S-7."""
    analytics = make("analytics")
    ended: Queue[Any] = Queue()
    for _ in range(20):
        analytics.submit("billing", "held").add_done_callback(lambda done: ended.put(done.exception()))
    analytics.close(drain_seconds=0)
    assert [type(ended.get(timeout=PATIENCE)) for _ in range(20)] == [speed.NodeClosedError] * 20
    assert ended.empty()
    go.set()


def test_an_awaited_answer_comes_while_all_workers_wait_for_it(make: Make, go: threading.Event) -> None:
    analytics = make("analytics", allow=["caller"], workers=1)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="loop", daemon=True).start()

    def await_the_answer() -> Any:
        answer = analytics.aio.call("billing", "echo", {"x": 7}, timeout=PATIENCE)
        return asyncio.run_coroutine_threadsafe(answer, loop).result(PATIENCE)

    analytics.register("await", await_the_answer)
    try:
        assert make("caller").call("analytics", "await", timeout=2 * PATIENCE) == 7
    finally:
        loop.call_soon_threadsafe(loop.stop)


def test_calls_end_though_all_workers_wait_for_calls(make: Make, go: threading.Event) -> None:
    """Threads: the end of a call needs no free worker."""
    analytics = make("analytics", allow=["desk"], workers=2)
    both = threading.Barrier(2)

    def ask() -> int:
        both.wait(PATIENCE)
        answer: int = analytics.submit("billing", "echo", {"x": 7}, timeout=2 * PATIENCE).result(PATIENCE)
        return answer

    analytics.register("ask", ask)
    desk = make("desk")
    futures = [desk.submit("analytics", "ask", timeout=2 * PATIENCE) for _ in range(2)]
    assert [future.result(2 * PATIENCE) for future in futures] == [7, 7]


def test_what_was_hung_on_a_call_may_wait_for_the_next_one(make: Make, go: threading.Event) -> None:
    """Threads: both answers come together."""
    analytics = make("analytics")
    found: Queue[Any] = Queue()
    first, second = (analytics.submit("billing", "held", timeout=PATIENCE) for _ in range(2))
    first.add_done_callback(lambda _: found.put(second.result(PATIENCE)))
    go.set()
    assert found.get(timeout=PATIENCE) is True


def test_a_future_ends_with_its_node_though_no_worker_is_free(make: Make, go: threading.Event) -> None:
    """S-7: a service and a handler hold all workers beyond the end."""
    analytics = make("analytics", allow=["caller"], workers=1)
    held = threading.Semaphore(0)
    release = threading.Event()
    hold = lambda *_: (held.release(), release.wait(2 * PATIENCE))[1]  # noqa: E731
    analytics.register("busy", lambda: hold())
    analytics.on_message(hold)
    caller = make("caller", allow=["analytics"])
    caller.submit("analytics", "busy", timeout=2 * PATIENCE)
    caller.send("analytics", 1)
    for _ in range(2):
        assert held.acquire(timeout=PATIENCE)
    future = analytics.submit("billing", "held", timeout=2 * PATIENCE)
    analytics.close(drain_seconds=0)
    assert isinstance(future.exception(PATIENCE), speed.NodeClosedError)
    release.set()
