"""A closed node holds nothing any more: no descriptor, and nothing that the program gave it."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import speed
from speed.wire import names

Make = Callable[..., speed.Node]
PATIENCE = 20.0
NODES = 20
"""In pure Python the collector sees all there is."""


class Program:
    """What a program gives to a node, and what refers to that node in turn."""

    def __init__(self, node: speed.Node) -> None:
        self.node = node

    def name(self) -> str:
        return self.node.name

    def take(self, _: Any) -> None:
        self.node.stats()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The collector does not run: only what nobody refers to goes."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def serve(node: speed.Node) -> weakref.ref[Program]:
    """Give ``node`` one of everything that it calls."""
    program = Program(node)
    node.register("name", program.name)
    node.on_message(program.take)
    node.subscribe("orders.*", program.take)
    for listen in (node.on_join, node.on_leave, node.on_lost):
        listen(program.take)
    return weakref.ref(program)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)
    return holds()


@pytest.mark.usefixtures("no_collector")
def test_closed_nodes_give_every_descriptor_back_without_the_collector(make: Make) -> None:
    def live(first: int) -> list[speed.Node]:
        nodes = [make(f"billing.{first + number}", allow=["billing.*"]) for number in range(NODES)]
        for node in nodes:
            serve(node)
        assert nodes[0].call(nodes[1].name, "name", timeout=PATIENCE) == nodes[1].name
        nodes[1].send(nodes[2].name, "one", ack=True, timeout=PATIENCE)
        for node in nodes:
            node.close()
        return nodes

    live(0)  # what the first nodes of a process open for good
    before = descriptors()
    kept = live(NODES)
    assert descriptors() <= before
    assert all(node.closed for node in kept)


@pytest.mark.usefixtures("no_collector")
def test_a_closed_native_node_lets_go_of_what_it_called_without_the_collector(node: Make) -> None:
    billing = node("billing", engine="native", allow=["analytics"])
    program = serve(billing)
    node("analytics", engine="native").call("billing", "name", timeout=PATIENCE)
    assert program() is not None
    billing.close()
    assert eventually(lambda: program() is None)
    assert billing.closed


@pytest.mark.usefixtures("no_collector")
def test_a_closed_native_node_lets_go_of_its_handler_of_batches(node: Make) -> None:
    billing = node("billing", engine="native")
    program = Program(billing)
    billing.on_batch(program.take)
    gone = weakref.ref(program)
    del program
    billing.close()
    assert eventually(lambda: gone() is None)


def test_the_collector_ends_a_native_node_that_nothing_else_holds(root: str) -> None:
    """Open nodes are held, as their threads run on; without that the collector sees services and all."""
    from speed.engine import native

    def make_and_drop() -> weakref.ref[Program]:
        node = speed.Node("billing", root=root, engine="native")
        program = serve(node)
        native._open.discard(node._engine)
        return program

    program = make_and_drop()
    assert program() is not None
    with pytest.warns(ResourceWarning, match="dropped"):
        gc.collect()
    gc.collect()  # the warning itself held the node
    assert program() is None
    assert not os.path.exists(names.entry_path(root, "billing"))


def test_a_hook_of_a_cancellation_that_refers_to_its_request_is_collected(node: Make) -> None:
    billing, analytics = node("billing", engine="native", allow=["analytics"]), node("analytics", engine="native")
    gone: list[weakref.ref[Any]] = []

    class Hook:
        def __init__(self, request: speed.Request) -> None:
            self.request = request

        def run(self) -> None:
            """Never called."""

    class Hooked(speed.Service):
        def invoke(self, request: speed.Request) -> Any:
            hook = Hook(request)
            gone.append(weakref.ref(hook))
            request.cancellation.call_when_set(hook.run)  # type: ignore[attr-defined]

    billing.register("hooked", Hooked())
    analytics.call("billing", "hooked", timeout=PATIENCE)
    assert eventually(lambda: bool(gc.collect()) or gone[0]() is None)
    gc.collect()
    assert gone[0]() is None


def test_a_closed_node_that_refers_to_itself_is_collected(root: str, kind: str) -> None:
    node = speed.Node("billing", root=root, engine=kind)
    serve(node)
    gone = weakref.ref(node)
    node.close()
    del node
    gc.collect()
    assert gone() is None


def test_an_open_node_that_only_its_own_service_refers_to_runs_on(root: str, make: Make, kind: str) -> None:
    def start() -> weakref.ref[Program]:
        return serve(speed.Node("billing", root=root, engine=kind, allow=["analytics"]))

    program = start()
    gc.collect()
    assert make("analytics").call("billing", "name", timeout=PATIENCE) == "billing"
    held = program()
    assert held is not None
    held.node.close()


def test_a_service_that_outlasts_the_closing_keeps_what_it_needs_until_it_ends(node: Make) -> None:
    billing, analytics = node("billing", engine="native", allow=["analytics"]), node("analytics", engine="native")
    began, go, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        def run(self) -> None:
            began.set()
            go.wait(PATIENCE)
            self.end()

        def end(self) -> None:
            ended.set()

    slow = Slow()
    billing.register("slow", slow.run)
    gone = weakref.ref(slow)
    del slow
    analytics.submit("billing", "slow", timeout=PATIENCE)
    assert began.wait(PATIENCE)
    billing.close(drain_seconds=0.1)
    assert gone() is not None
    go.set()
    assert ended.wait(PATIENCE)
    assert eventually(lambda: gone() is None)


def test_an_event_whose_first_handler_closes_the_node_reaches_the_second(make: Make) -> None:
    """The message counts as handled (T-12), so nobody would hand it over again."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    reached = threading.Event()
    billing.subscribe("orders.*", lambda message: billing.close(drain_seconds=0.1))
    billing.subscribe("orders.*", lambda message: reached.set())
    analytics.wait_for("billing", timeout=PATIENCE)
    analytics.publish("orders.created", 1)
    assert reached.wait(PATIENCE)


def test_a_node_that_lost_its_lease_gives_every_descriptor_back_when_it_is_closed(make: Make) -> None:
    def lose(name: str) -> speed.Node:
        node = make(name, lease_seconds=0.6, heartbeat_seconds=0.1)
        lost = threading.Event()
        node.on_lost(lambda error: lost.set())
        os.close(os.open(names.claim_path(node.root, name, node.generation + 1), os.O_CREAT | os.O_WRONLY))
        os.unlink(names.entry_path(node.root, name))
        assert lost.wait(PATIENCE)
        node.close()
        return node

    kept = [lose("billing.0")]
    before = descriptors()
    kept += [lose(f"billing.{number}") for number in range(1, 4)]
    assert eventually(lambda: descriptors() <= before)
