"""A call ends once, and with what is true (registry_spec/spc.md, S-4, S-7, S-8)."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from queue import Queue
from typing import Any

import pytest

import speed
from tests.interop.harness import pause
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
PATIENCE = 20.0


@pytest.fixture(name="make")
def python_nodes(node: Make) -> Make:
    return partial(node, engine="python")


class HeldArguments(dict[str, Any]):
    """Arguments whose names can be read only when they are let go."""

    def __init__(self) -> None:
        super().__init__(x=1)
        self.read, self.let_go = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.read.set()
        assert self.let_go.wait(PATIENCE)
        return super().__iter__()


@pytest.mark.parametrize("verb", ["call", "submit"])
def test_a_call_that_had_begun_when_the_node_closed_ends_and_is_not_written(make: Make, verb: str) -> None:
    """S-7."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    ran: list[int] = []
    billing.register("note", lambda x: ran.append(x))
    arguments, ended = HeldArguments(), Queue[Any]()

    def call() -> None:
        try:
            answer = getattr(analytics, verb)("billing", "note", arguments, timeout=PATIENCE)
            ended.put(answer.result() if verb == "submit" else answer)
        except speed.SpeedError as error:
            ended.put(error)

    threading.Thread(target=call, daemon=True).start()
    assert arguments.read.wait(PATIENCE)
    analytics.close(drain_seconds=0)
    arguments.let_go.set()
    assert isinstance(ended.get(timeout=PATIENCE), speed.NodeClosedError)
    assert make("analytics").call("billing", "note", {"x": 2}, timeout=PATIENCE) is None
    assert ran == [2]


def test_a_request_that_runs_is_never_said_to_have_been_queued_only(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-4, S-8: its deadline is noticed between the steps of the worker that begins it."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    ran = threading.Event()
    billing.register("run", ran.set)
    parts = billing._engine._parts  # type: ignore[attr-defined]
    find = parts.serving.services.find

    def find_late(*wanted: str) -> Any:
        parts.serving.time_out(parts.pool.expire(math.inf).running, "running")
        return find(*wanted)

    monkeypatch.setattr(type(parts.serving.services), "find", lambda _, *wanted: find_late(*wanted))
    with pytest.raises(speed.CallTimeoutError) as caught:
        analytics.call("billing", "run", timeout=PATIENCE)
    assert ran.wait(PATIENCE)
    assert caught.value.details["phase"] == "running"


CALLER = """
import sys, speed
node = speed.Node("analytics", root=sys.argv[1], engine="python")
calls = [node.submit("billing", "large", {"number": number}, timeout=60) for number in range(20)]
print("asked")
for number, call in enumerate(calls):
    try:
        print(len(call.result(60)))
    except speed.SpeedError as error:
        print(type(error).__name__, number)
"""


def test_what_a_node_answered_before_it_left_is_read_however_much_it_is(
    make: Make, child: Callable[..., Child], root: str
) -> None:
    """S-7, L-19: 20 MiB, of which one look at a lane takes a part."""
    billing = make("billing", allow=["analytics"], workers=20)
    started, go = threading.Semaphore(0), threading.Event()

    def large(number: int) -> bytes:
        started.release()
        assert go.wait(PATIENCE)
        return bytes(1 << 20)

    billing.register("large", large)
    caller = child(CALLER, root)
    assert caller.line() == "asked"
    for _ in range(20):
        assert started.acquire(timeout=PATIENCE)
    pause(caller.process.pid)
    go.set()
    billing.close(drain_seconds=PATIENCE)
    caller.signal(signal.SIGCONT)
    assert caller.rest() == [str(1 << 20)] * 20


def test_callers_of_a_node_that_left_are_told_though_its_lane_is_full_of_what_it_sent(make: Make, root: str) -> None:
    """S-7: more than one look takes, and nothing of it is an answer."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics", allow=["billing"])
    started, release = threading.Event(), threading.Event()
    billing.register("hang", lambda: (started.set(), release.wait(2 * PATIENCE))[1])
    future = analytics.submit("billing", "hang", timeout=10 * PATIENCE)
    assert started.wait(PATIENCE)
    billing.send_all("analytics", range(1000), timeout=PATIENCE)
    billing.close(drain_seconds=0)
    with pytest.raises(speed.NodeLeftError):
        future.result(PATIENCE)
    release.set()


def test_a_call_to_a_successor_does_not_end_because_its_predecessor_left(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-7: the successor starts, and is called, right after the last look at the predecessor's entry."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    started, release = threading.Event(), threading.Event()
    billing.register("hang", lambda: (started.set(), release.wait(2 * PATIENCE))[1])
    to_predecessor = analytics.submit("billing", "hang", timeout=10 * PATIENCE)
    assert started.wait(PATIENCE)
    to_successor = Queue[Future[Any]]()
    dispatch = analytics._engine._parts.dispatch
    tell = dispatch.node_died

    def looked_at_and_gone(name: str, *waiting: Any) -> None:
        if to_successor.empty():
            make("billing", allow=["analytics"]).register("double", lambda x: 2 * x)
            to_successor.put(analytics.submit("billing", "double", {"x": 21}, timeout=PATIENCE))
        tell(name, *waiting)

    monkeypatch.setattr(dispatch, "node_died", looked_at_and_gone)
    billing.close(drain_seconds=0)
    with pytest.raises(speed.NodeLeftError):
        to_predecessor.result(PATIENCE)
    assert to_successor.get(timeout=PATIENCE).result(PATIENCE) == 42
    release.set()
