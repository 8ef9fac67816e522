"""Signals and waits: a handler that raises ends the wait, and one may close the node that waits (spc.md S-25)."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

import speed
from speed.wire.names import claim_path

Make = Callable[..., speed.Node]
PATIENCE = 20.0
ALARM_SECONDS = 0.05


class Interruption(BaseException):
    """What the handler of a signal raises."""


def interrupt() -> None:
    raise Interruption


@contextmanager
def alarm(act: Callable[[], object]) -> Iterator[None]:
    """Have ``act`` run as the handler of a signal, once the block waits."""
    before = signal.signal(signal.SIGALRM, lambda *_: act())
    signal.setitimer(signal.ITIMER_REAL, ALARM_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Stage:
    """A node that answers nothing and takes nothing before ``let_go``, and one that waits for it."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.let_go = threading.Event()
        self.busy = make("busy", allow=["waiting"])
        self.busy.on_message(lambda _: self.let_go.wait(PATIENCE))
        self.busy.register("never", lambda: self.let_go.wait(PATIENCE))
        self.waiting = make("waiting", allow=["busy"], max_lane_bytes=20_000)

    def fill(self) -> None:
        with suppress(speed.InboxFullError):
            for _ in range(1000):
                self.waiting.send("busy", bytes(1000), timeout=0)

    def begin_work(self) -> Callable[[], None]:
        """What closes it waits for that."""
        begun = threading.Event()
        self.waiting.register("own", lambda: begun.set() or self.let_go.wait(PATIENCE))
        self.busy.submit("waiting", "own", timeout=PATIENCE)
        assert begun.wait(PATIENCE)
        return partial(self.waiting.close, drain_seconds=PATIENCE)

    def waits(self) -> dict[str, Callable[[], Any]]:
        """What waits while there is room, and then what waits for room."""
        node = self.waiting
        return {
            "call": partial(node.call, "busy", "never", timeout=PATIENCE),
            "acknowledged send": partial(node.send, "busy", 1, ack=True, timeout=PATIENCE),
            "receive": partial(node.receive, PATIENCE),
            "wait_for": partial(node.wait_for, "nobody", timeout=PATIENCE),
        }

    def waits_for_room(self) -> dict[str, Callable[[], Any]]:
        node = self.waiting
        return {
            "send": partial(node.send, "busy", bytes(2000), timeout=PATIENCE),
            "send_all": partial(node.send_all, "busy", [bytes(2000)] * 2, timeout=PATIENCE),
            "call": partial(node.call, "busy", "never", {"x": bytes(2000)}, timeout=PATIENCE),
            "submit": partial(node.submit, "busy", "never", {"x": bytes(2000)}, timeout=PATIENCE),
            "publish": partial(node.publish, "busy.event", bytes(2000), timeout=PATIENCE),
        }


@pytest.fixture
def stage(make: Make) -> Iterator[Stage]:
    one = Stage(make)
    yield one
    one.let_go.set()


def is_interrupted(wait: Callable[[], Any]) -> bool:
    began = time.monotonic()
    try:
        with alarm(interrupt):
            wait()
        return False
    except Interruption:
        return time.monotonic() - began < PATIENCE


def test_a_signal_whose_handler_raises_ends_every_wait(stage: Stage) -> None:
    """S-25: and the node goes on."""
    stage.busy.subscribe("busy.*", lambda _: stage.let_go.wait(PATIENCE))
    stage.waiting.wait_for("busy", timeout=PATIENCE)
    held = [name for name, wait in stage.waits().items() if not is_interrupted(wait)]
    stage.fill()
    held += [f"{name} into a full lane" for name, wait in stage.waits_for_room().items() if not is_interrupted(wait)]
    assert held == []
    stage.let_go.set()
    assert stage.waiting.call("busy", "never", timeout=PATIENCE) is True


def test_a_close_that_is_interrupted_has_ended_the_node(stage: Stage) -> None:
    """S-25."""
    assert is_interrupted(stage.begin_work())
    assert stage.waiting.closed
    assert [entry.name for entry in stage.busy.nodes()] == ["busy"]


@pytest.mark.parametrize("waits", ["call", "acknowledged send", "receive", "wait_for"])
def test_the_handler_of_a_signal_may_close_the_node_that_waits(stage: Stage, waits: str) -> None:
    """S-25."""
    with pytest.raises(speed.SpeedError), alarm(partial(stage.waiting.close, drain_seconds=0)):
        stage.waits()[waits]()
    assert [entry.name for entry in stage.busy.nodes()] == ["busy"]


@pytest.mark.parametrize("waits", ["send", "call", "publish"])
def test_the_handler_of_a_signal_may_close_the_node_that_waits_for_room(stage: Stage, waits: str) -> None:
    """S-25."""
    stage.busy.subscribe("busy.*", lambda _: stage.let_go.wait(PATIENCE))
    stage.fill()
    with suppress(speed.SpeedError), alarm(partial(stage.waiting.close, drain_seconds=0)):
        stage.waits_for_room()[waits]()  # what published says who got nothing
    assert stage.waiting.closed
    assert [entry.name for entry in stage.busy.nodes()] == ["busy"]


def test_the_handler_of_a_signal_may_close_the_node_that_is_being_closed(stage: Stage) -> None:
    """S-25: it has nothing more to do."""
    close = stage.begin_work()
    with alarm(lambda: (stage.waiting.close(drain_seconds=0), stage.let_go.set())):
        close()
    assert [entry.name for entry in stage.busy.nodes()] == ["busy"]


def test_the_handler_of_a_signal_may_call_with_the_node_that_waits(stage: Stage) -> None:
    """S-25: whoever waits meanwhile reads no answers, so the handler does it itself."""
    stage.busy.register("one", lambda: 1)
    answers: list[Any] = []

    def call() -> None:
        answers.append(stage.waiting.call("busy", "one", timeout=PATIENCE))
        stage.let_go.set()

    with alarm(call):
        assert stage.waiting.call("busy", "never", timeout=PATIENCE) is True
    assert answers == [1]


def test_a_start_that_waits_for_its_name_is_interrupted(stage: Stage, root: str) -> None:
    """S-25: the claim of a process that nobody can see holds the name for a lease."""
    with open(claim_path(root, "late", 1), "wb"):
        pass
    assert is_interrupted(lambda: stage.make("late"))
