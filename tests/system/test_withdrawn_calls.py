"""Calls that nobody waits for any longer: what waits never runs, what runs is told (S-16)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import speed
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 20.0


class Server:
    """``billing`` with the service ``hold``, which notes its calls and ends when it is let go or withdrawn."""

    def __init__(self, make: Make, workers: int = 2) -> None:
        self.node = make("billing", allow=["analytics", "other"], workers=workers)
        self.begun: list[int] = []
        self.cancelled: list[int] = []
        self.full = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.go = threading.Event()
        self.node.register("hold", self.hold)
        self.node.register("echo", lambda x: x)

    def hold(self, number: int, request: speed.Request) -> int:
        self.begun.append(number)
        self.full.release()
        while not self.go.is_set() and not request.cancelled:
            request.cancellation.wait(0.05)
        if request.cancelled:
            self.cancelled.append(number)
        self.ended.release()
        return number


@pytest.fixture
def server(make: Make) -> Server:
    return Server(make)


def test_what_waits_never_runs_and_its_future_says_so(make: Make, server: Server) -> None:
    analytics = make("analytics")
    futures = [analytics.submit("billing", "hold", {"number": number}, timeout=PATIENCE) for number in range(40)]
    for _ in range(2):
        assert server.full.acquire(timeout=PATIENCE)
    for future in futures[2:]:
        assert not future.cancel()
    for future in futures[2:]:
        with pytest.raises(speed.CallWithdrawnError) as caught:
            future.result(PATIENCE)
        assert caught.value.details["phase"] == "queued"
        assert caught.value.execution is speed.Execution.NOT_BEGUN
    server.go.set()
    assert [future.result(PATIENCE) for future in futures[:2]] == [0, 1]
    assert sorted(server.begun) == [0, 1]


def test_a_running_service_sees_that_its_call_was_withdrawn(make: Make, server: Server) -> None:
    future = make("analytics").submit("billing", "hold", {"number": 7}, timeout=PATIENCE)
    assert server.full.acquire(timeout=PATIENCE)
    assert not future.cancel()
    assert future.result(PATIENCE) == 7
    assert server.cancelled == [7]


def test_a_service_that_ends_by_its_withdrawal_answers_so(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    begun = threading.Event()

    def hold(request: speed.Request) -> None:
        begun.set()
        request.cancellation.wait(PATIENCE)
        raise speed.CallWithdrawnError("nobody waits")

    billing.register("hold", hold)
    future = analytics.submit("billing", "hold", timeout=PATIENCE)
    assert begun.wait(PATIENCE)
    future.cancel()
    with pytest.raises(speed.CallWithdrawnError) as caught:
        future.result(PATIENCE)
    assert caught.value.details["phase"] == "running"
    assert caught.value.execution is speed.Execution.MAY_HAVE_RUN


def test_awaited_calls_that_are_cancelled_do_not_run(make: Make, server: Server) -> None:
    analytics = make("analytics")

    async def cancel_all() -> None:
        tasks = [asyncio.ensure_future(analytics.aio.call("billing", "hold", {"number": n})) for n in range(100)]
        await asyncio.to_thread(server.full.acquire, timeout=PATIENCE)
        await asyncio.to_thread(server.full.acquire, timeout=PATIENCE)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*tasks, return_exceptions=True)
        )

    asyncio.run(cancel_all())
    assert analytics.call("billing", "echo", {"x": 7}, timeout=PATIENCE) == 7  # begun after all that were to begin
    for _ in server.begun:
        assert server.ended.acquire(timeout=PATIENCE)
    assert len(server.begun) < 10
    assert sorted(server.cancelled) == sorted(server.begun)


def test_awaited_calls_that_are_cancelled_while_they_wait_never_run(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"], workers=1), make("analytics")
    begun, go = threading.Event(), threading.Event()
    ran: list[int] = []
    billing.register("block", lambda: (begun.set(), go.wait(5 * PATIENCE))[1])
    billing.register("note", lambda number: ran.append(number))
    blocking = analytics.submit("billing", "block", timeout=5 * PATIENCE)
    assert begun.wait(PATIENCE)

    def wait_until_open(enough: Callable[[int], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not enough(analytics.stats()["pendingCalls"]) and time.monotonic() < until:
            time.sleep(0.01)

    async def cancel_all() -> None:
        calls = [analytics.aio.call("billing", "note", {"number": n}, timeout=5 * PATIENCE) for n in range(400)]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.to_thread(wait_until_open, lambda number: number == 401)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(wait_until_open, lambda number: number == 1)

    asyncio.run(cancel_all())
    analytics.ping("billing", timeout=PATIENCE)
    go.set()
    assert blocking.result(PATIENCE) is True
    assert analytics.call("billing", "note", {"number": -1}, timeout=PATIENCE) is None
    assert ran == [-1]


def test_a_passed_deadline_tells_a_running_service(make: Make, server: Server) -> None:
    analytics, seconds = make("analytics"), 0.3
    while not server.begun:  # on a busy machine a deadline may pass before the service begins
        with pytest.raises(speed.CallTimeoutError):
            analytics.call("billing", "hold", {"number": 1}, timeout=seconds)
        seconds *= 2
    assert server.ended.acquire(timeout=PATIENCE)
    assert 1 in server.cancelled


CALLER = """
import sys, speed
node = speed.Node("other", root=sys.argv[1], engine=sys.argv[2])
for number in range(20):
    node.submit("billing", "hold", {"number": number}, timeout=60)
node.ping("billing", timeout=20)
print("asked", flush=True)
sys.stdin.readline()
node.close()
print("closed", flush=True)
"""


@pytest.mark.parametrize("end", ["killed", "closed"])
def test_what_a_caller_that_is_gone_asked_for_does_not_run(
    root: str, make: Make, kind: str, server: Server, child: Start, end: str
) -> None:
    """T-8: its running calls are told, its waiting ones are forgotten."""
    caller = child(CALLER, root, kind)
    assert caller.line() == "asked"
    for _ in range(2):
        assert server.full.acquire(timeout=PATIENCE)
    if end == "killed":
        caller.kill()
    else:
        caller.tell("end")
    for _ in range(2):
        assert server.ended.acquire(timeout=PATIENCE)
    assert make("analytics").call("billing", "echo", {"x": 1}, timeout=PATIENCE) == 1
    assert len(server.begun) == 2


def test_a_wait_that_a_signal_handler_ends_withdraws_the_call(root: str, make: Make, kind: str, child: Start) -> None:
    server = Server(make)
    script = """
import signal, sys, speed
def stop(*_):
    raise TimeoutError("stopped")
signal.signal(signal.SIGUSR1, stop)
node = speed.Node("other", root=sys.argv[1], engine=sys.argv[2])
print("up", flush=True)
try:
    node.call("billing", "hold", {"number": 3}, timeout=60)
except TimeoutError as error:
    print(error, flush=True)
sys.stdin.readline()
"""
    caller = child(script, root, kind)
    assert caller.line() == "up"
    assert server.full.acquire(timeout=PATIENCE)
    caller.signal(signal.SIGUSR1)
    assert caller.line() == "stopped"
    assert server.ended.acquire(timeout=PATIENCE)
    assert server.cancelled == [3]


def test_nobody_withdraws_the_calls_of_another(make: Make, server: Server) -> None:
    """The ids of two callers may be the same: only one's own are meant."""
    analytics, other = make("analytics"), make("other")
    mine = analytics.submit("billing", "hold", {"number": 1}, timeout=PATIENCE)
    theirs = other.submit("billing", "hold", {"number": 2}, timeout=PATIENCE)
    for _ in range(2):
        assert server.full.acquire(timeout=PATIENCE)
    theirs.cancel()
    assert theirs.result(PATIENCE) == 2
    assert server.cancelled == [2]
    server.go.set()
    assert mine.result(PATIENCE) == 1


def test_a_withdrawal_that_names_no_ids_is_refused(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    parts: Any = analytics._engine._parts  # type: ignore[attr-defined]
    from speed.wire import spc
    from speed.wire.envelope import EnvelopeType

    for ids in ([], [1], "1.1", ["x"] * 65, None):
        payload = spc.encode({"op": "WITHDRAW", "requestIds": ids})
        parts.links.granted("billing").send(EnvelopeType.DISCOVERY, 0, payload, 0.0)
    analytics.ping("billing", timeout=PATIENCE)
    assert billing.stats()["counters"]["rejected_bad_payload"] == 5


@pytest.mark.parametrize("kind", ["python", "native"])
def test_a_call_behind_thousands_that_were_withdrawn_does_not_wait_for_them(node: Make, kind: str) -> None:
    """L-19: all of them are read before they are withdrawn, so none waits for the one before it to run."""
    billing, analytics = node("billing", allow=["analytics"], engine=kind, workers=2), node("analytics", engine=kind)
    began = threading.Semaphore(0)
    ran: list[int] = []

    def slow(number: int, request: speed.Request) -> None:
        ran.append(number)
        began.release()
        request.cancellation.wait(PATIENCE)

    billing.register("slow", slow)
    billing.register("echo", lambda x: x)
    futures = [analytics.submit("billing", "slow", {"number": n}, timeout=10 * PATIENCE) for n in range(9000)]
    for _ in range(2):
        assert began.acquire(timeout=PATIENCE)
    for future in futures:
        future.cancel()
    assert analytics.call("billing", "echo", {"x": 7}, timeout=PATIENCE) == 7
    for future in futures:
        with contextlib.suppress(speed.CallWithdrawnError):
            future.result(PATIENCE)
    assert len(ran) < 2000


def test_withdrawn_calls_are_answered_a_few_at_a_time(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn in between; all are answered in the end."""
    monkeypatch.setattr("speed.engine.python.serving.ANSWERED_AT_ONCE", 2)
    billing = node("billing", engine="python", allow=["analytics"], workers=1)
    parts: Any = billing._engine._parts  # type: ignore[attr-defined]
    analytics = node("analytics", engine="python", allow=["billing"])
    begun, go = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go.wait(PATIENCE)

    billing.register("hold", hold)
    futures = [analytics.submit("billing", "hold", timeout=PATIENCE) for _ in range(7)]
    assert begun.wait(PATIENCE)
    parts.protocol.stop(PATIENCE)
    for future in futures[1:]:
        future.cancel()
    until = time.monotonic() + PATIENCE
    while len(parts.serving._withdrawn) < 6 and time.monotonic() < until:
        parts.protocol._read(None, time.monotonic())
    parts.serving.answer_withdrawn()
    assert len(parts.serving._withdrawn) == 4
    parts.protocol._run()  # it stops, and answers all that are left
    go.set()
    for future in futures[1:]:
        with pytest.raises(speed.CallWithdrawnError):
            future.result(PATIENCE)


def test_a_large_request_that_is_still_put_together_never_runs(make: Make) -> None:
    """G-14: what withdraws it does not overtake it."""
    billing, analytics = make("billing", allow=["analytics"], workers=1), make("analytics")
    begun, go = threading.Event(), threading.Event()
    sizes: list[int] = []

    def hold(_: speed.Message) -> None:
        begun.set()
        go.wait(PATIENCE)

    billing.on_message(hold)  # in the place in which the request would be put together
    billing.register("size", lambda data: sizes.append(len(data)))
    analytics.send("billing", "hold", timeout=PATIENCE)
    assert begun.wait(PATIENCE)
    analytics.segment("billing", 1 << 20)
    future = analytics.submit("billing", "size", {"data": bytes(3 << 20)}, timeout=PATIENCE)
    analytics.ping("billing", timeout=PATIENCE)  # all of it was read
    assert not future.cancel()
    until = time.monotonic() + PATIENCE
    while "calls_withdrawn" not in analytics.stats()["counters"] and time.monotonic() < until:
        time.sleep(0.005)
    analytics.ping("billing", timeout=PATIENCE)  # and that it is withdrawn
    go.set()
    with pytest.raises(speed.CallWithdrawnError) as caught:
        future.result(PATIENCE)
    assert caught.value.execution is speed.Execution.NOT_BEGUN
    assert sizes == []
