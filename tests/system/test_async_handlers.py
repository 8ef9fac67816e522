"""Handlers and services that are ``async``: awaited on one loop of the node, in order, acknowledged afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import speed
from tests.interop.harness import pause
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
PATIENCE = 20.0


def test_an_async_handler_runs_before_its_message_is_acknowledged(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled: list[Any] = []

    @billing.on_message
    async def handle(message: speed.Message) -> None:
        await asyncio.sleep(0.01)
        handled.append((message.payload, threading.current_thread().name))

    analytics.send("billing", 7, ack=True, timeout=PATIENCE)
    assert handled == [(7, "speed-billing-loop")]


def test_messages_of_one_sender_are_awaited_one_after_the_other(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    steps: list[Any] = []

    async def handle(message: speed.Message) -> None:
        steps.append(("begins", message.payload))
        await asyncio.sleep(0.001)
        steps.append(("ends", message.payload))

    billing.on_message(handle)
    for number in range(20):
        analytics.send("billing", number)
    analytics.send("billing", 20, ack=True, timeout=PATIENCE)
    assert steps == [(step, number) for number in range(21) for step in ("begins", "ends")]


def test_an_async_handler_that_raises_follows_the_policy(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"], on_error="drop"), make("analytics")

    @billing.on_message
    async def handle(message: speed.Message) -> None:
        raise ValueError("no such account")

    with pytest.raises(speed.ExecutionFailedError, match="no such account"):
        analytics.send("billing", 1, ack=True, timeout=PATIENCE)


def test_an_async_subscription_gets_its_events_also_as_objects_of_a_type(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled: Queue[Any] = Queue()

    @billing.subscribe("orders.*", dict)
    async def handle(message: speed.Message) -> None:
        await asyncio.sleep(0)
        handled.put(message.payload)

    assert analytics.publish("orders.created", {"number": 7}, timeout=PATIENCE) == 1
    assert handled.get(timeout=PATIENCE) == {"number": 7}


def test_an_async_service_answers_and_its_arguments_are_checked(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    @billing.service("double")
    async def double(x: int) -> int:
        await asyncio.sleep(0.001)
        return 2 * x

    assert analytics.call("billing", "double", {"x": 21}, timeout=PATIENCE) == 42
    with pytest.raises(speed.InvalidArgumentsError, match="must be int"):
        analytics.call("billing", "double", {"x": "21"}, timeout=PATIENCE)


def test_an_object_with_an_async_invoke_is_awaited(make: Make) -> None:
    class Doubling:
        async def invoke(self, request: speed.Request) -> int:
            await asyncio.sleep(0)
            return 2 * int(request.get("x", int))

    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    billing.register("double", Doubling())
    assert analytics.call("billing", "double", {"x": 21}, timeout=PATIENCE) == 42


def test_a_withdrawn_call_cancels_what_an_async_service_awaits(make: Make) -> None:
    """S-16."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    begun, cancelled = threading.Event(), threading.Event()

    @billing.service("hold")
    async def hold() -> None:
        begun.set()
        try:
            await asyncio.sleep(10 * PATIENCE)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    future = analytics.submit("billing", "hold", timeout=PATIENCE)
    assert begun.wait(PATIENCE)
    future.cancel()
    with pytest.raises(speed.CallWithdrawnError) as caught:
        future.result(PATIENCE)
    assert caught.value.details["phase"] == "running"
    assert cancelled.is_set()


def test_async_services_may_await_calls_in_chains(make: Make) -> None:
    """T-3: what awaits another node gives its place up."""
    nodes = {name: make(name, workers=1, allow=["one", "two", "start"]) for name in ("one", "two")}

    def serve(name: str, other: str) -> None:
        async def count(left: int) -> int:
            return 0 if not left else 1 + await nodes[name].aio.call(other, "count", {"left": left - 1})

        nodes[name].register("count", count)

    serve("one", "two")
    serve("two", "one")
    assert make("start").call("one", "count", {"left": 6}, timeout=PATIENCE) == 6


def test_a_node_may_be_closed_from_an_async_handler(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    closed = threading.Event()

    @billing.on_message
    async def handle(message: speed.Message) -> None:
        billing.close(drain_seconds=1000)
        closed.set()

    analytics.send("billing", 1)
    assert closed.wait(PATIENCE)


def test_the_loop_ends_with_its_node(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    @billing.service("now")
    async def now() -> int:
        return 1

    assert analytics.call("billing", "now", timeout=PATIENCE) == 1
    assert "speed-billing-loop" in [thread.name for thread in threading.enumerate()]
    billing.close()
    assert "speed-billing-loop" not in [thread.name for thread in threading.enumerate()]


def test_awaiting_a_call_to_a_full_inbox_does_not_stop_the_loop(make: Make) -> None:
    """Nor does it take a thread from the program's own executor."""
    full = make("full", allow=["analytics"])
    analytics = make("analytics", max_lane_bytes=20_000)
    for size in (4000, 10):  # nothing takes them, so they stay in the lane
        with pytest.raises(speed.InboxFullError):
            while True:
                analytics.send("full", bytes(size), timeout=0)

    async def run() -> int:
        calls = [asyncio.ensure_future(analytics.aio.call("full", "any", timeout=0.5)) for _ in range(40)]
        sends = [asyncio.ensure_future(analytics.aio.send("full", 1, timeout=0.5)) for _ in range(10)]
        turns = 0
        while not all(one.done() for one in (*calls, *sends)):
            await asyncio.to_thread(int)
            turns += 1
        ended = await asyncio.gather(*calls, *sends, return_exceptions=True)
        assert all(isinstance(one, speed.SpeedError) for one in ended)
        return turns

    assert asyncio.run(asyncio.wait_for(run(), 3 * PATIENCE)) > 10
    full.close()


PEER = """
import sys, speed
node = speed.Node("full", root=sys.argv[1], allow=["analytics"], engine=sys.argv[2])
node.register("echo", lambda x: x)
node.on_message(lambda message: None)
print("up", flush=True)
sys.stdin.readline()
"""


def test_a_call_that_is_awaited_while_the_lane_is_full_is_made_once_there_is_room(
    root: str, make: Make, kind: str, child: Callable[..., Child]
) -> None:
    """The other process stands still. Meanwhile the loop goes on: here it is what makes room."""
    peer = child(PEER, root, kind)
    assert peer.line() == "up"
    analytics = make("analytics", max_lane_bytes=20_000)
    pause(peer.process.pid)
    for size in (4000, 10):
        with pytest.raises(speed.InboxFullError):
            while True:
                analytics.send("full", bytes(size), timeout=0)

    async def run() -> Any:
        call = asyncio.ensure_future(analytics.aio.call("full", "echo", {"x": bytes(1000)}, timeout=PATIENCE))
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert not call.done()
        peer.signal(signal.SIGCONT)
        return await call

    assert asyncio.run(run()) == bytes(1000)


def test_what_a_program_awaits_uses_no_executor_of_the_loop(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    billing.register("echo", lambda x: x)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.run_in_executor = None  # type: ignore[method-assign, assignment]
        assert await analytics.aio.call("billing", "echo", {"x": 1}) == 1
        await analytics.aio.send("billing", 2, ack=True)
        await analytics.aio.ping("billing")
        assert await analytics.aio.publish("nobody.listens", 1) == 0
        message = await billing.aio.receive(PATIENCE)
        assert message is not None

    asyncio.run(run())


def test_many_tasks_that_wait_for_a_message_hold_up_nothing_else(make: Make) -> None:
    """T-7: they would fill any number of threads."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    billing.register("echo", lambda x: x)

    async def run() -> set[int]:
        waiting = [asyncio.ensure_future(analytics.aio.receive()) for _ in range(200)]
        await asyncio.sleep(0)
        assert await analytics.aio.call("billing", "echo", {"x": 1}, timeout=PATIENCE) == 1
        analytics.allow("billing")
        for number in range(200):
            await billing.aio.send("analytics", number)
        return {message.payload for message in await asyncio.gather(*waiting) if message is not None}

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == set(range(200))


def test_tasks_that_receive_side_by_side_each_finish_what_they_were_given(make: Make) -> None:
    """None comes again in the next life, also not those of a task that has ended."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    async def consume(found: list[int], count: int) -> None:
        for _ in range(count):
            message = await billing.aio.receive(PATIENCE)
            assert message is not None
            found.append(message.payload)

    async def run() -> list[int]:
        found: list[int] = []
        sending = [analytics.aio.send("billing", number) for number in range(31)]
        await asyncio.gather(*sending, *(consume(found, 10) for _ in range(3)))
        await consume(found, 1)
        return found

    assert sorted(asyncio.run(asyncio.wait_for(run(), PATIENCE))) == list(range(31))
    billing.close()
    assert make("billing", allow=["analytics"]).receive(0.3) is None


def test_a_receive_with_no_time_returns_what_is_there(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    async def run() -> None:
        assert await billing.aio.receive(0) is None
        analytics.send("billing", 7, ack=True, timeout=PATIENCE)
        message = await billing.aio.receive(0)
        assert message is not None
        assert message.payload == 7

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_those_who_wait_for_a_message_are_told_that_the_node_was_closed(make: Make) -> None:
    billing = make("billing")

    async def run() -> None:
        waiting = [asyncio.ensure_future(billing.aio.receive()) for _ in range(3)]
        await asyncio.sleep(0.05)
        await asyncio.to_thread(billing.close)
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in ended] == [speed.NodeClosedError] * 3
        with pytest.raises(speed.NodeClosedError):
            await billing.aio.receive()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_many_tasks_that_wait_for_an_acknowledgement_hold_up_no_call(make: Make) -> None:
    slow, quick = make("slow", allow=["analytics"]), make("quick", allow=["analytics"])
    analytics = make("analytics")
    go = threading.Event()
    slow.on_message(lambda message: go.wait(PATIENCE))
    quick.register("echo", lambda x: x)

    async def run() -> None:
        sends = [asyncio.ensure_future(analytics.aio.send("slow", n, ack=True, timeout=PATIENCE)) for n in range(100)]
        await asyncio.sleep(0)
        assert await analytics.aio.call("quick", "echo", {"x": 1}, timeout=PATIENCE) == 1
        assert not any(send.done() for send in sends)
        go.set()
        await asyncio.gather(*sends)

    asyncio.run(asyncio.wait_for(run(), 2 * PATIENCE))


def test_awaiting_the_node_of_a_parent_says_so_in_a_forked_child(make: Make) -> None:
    """R-23: its threads are the parent's, and nobody would ever answer."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics", allow=["billing"])
    billing.register("echo", lambda x: x)

    async def use() -> None:
        assert await analytics.aio.call("billing", "echo", {"x": 1}, timeout=PATIENCE) == 1
        await billing.aio.send("analytics", 2)
        assert await analytics.aio.receive(PATIENCE) is not None

    async def fail() -> None:
        for waiting in (analytics.aio.call("billing", "echo", {"x": 1}), analytics.aio.receive()):
            with pytest.raises(speed.ForkedNodeError):
                await asyncio.wait_for(waiting, PATIENCE)

    asyncio.run(use())
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            asyncio.run(fail())
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    asyncio.run(use())
