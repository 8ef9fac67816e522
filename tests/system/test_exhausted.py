"""Nodes of a process that is short of descriptors, threads or room (R-5, R-7, R-20, A-2, L-7, S-7)."""

from __future__ import annotations

import os
import select
import threading
import types
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import speed
from speed.core.access import AccessPolicy
from speed.engine.python import registrar
from speed.engine.python.registrar import Registrar
from speed.wire import names
from tests.fs.limits import no_descriptors

Make = Callable[..., speed.Node]
Start = Callable[..., Any]

SERVER = """
import sys, speed
node = speed.Node("billing", root=sys.argv[1], allow=["analytics"])
node.register("slow", lambda: sys.stdin.readline().strip())
print("up", flush=True)
import threading; threading.Event().wait()
"""


def parts_of(node: speed.Node) -> Any:
    return node._engine._parts  # type: ignore[attr-defined]


@pytest.fixture
def analytics(node: Make) -> speed.Node:
    return node("analytics", engine="python")


def test_no_call_ends_because_its_caller_ran_out_of_descriptors(root: str, analytics: speed.Node, child: Start) -> None:
    """S-7, R-20: the node that was asked is alive, and answers."""
    server = child(SERVER, root)
    assert server.line() == "up"
    future = analytics.submit("billing", "slow", timeout=60)
    analytics.ping("billing", timeout=20)
    left: list[str] = []
    registrar = parts_of(analytics).registrar
    told, registrar._left = registrar._left, left.append
    with no_descriptors():
        registrar._check_others()
    registrar._left = told
    server.tell("done")
    assert left == []
    assert future.result(20) == "done"


def test_an_entry_that_cannot_be_read_for_want_of_descriptors_is_not_called_absent_or_forged(make: Make) -> None:
    """R-20: the cause is told, and nobody is sent to look for another key."""
    analytics = make("analytics")
    make("billing", allow=["analytics"]).register("one", lambda: 1)
    for verb in (
        partial(analytics.call, "billing", "one", timeout=20),
        partial(analytics.ping, "billing", timeout=20),
        partial(analytics.wait_for, "billing", timeout=0),
    ):
        with no_descriptors(), pytest.raises(speed.StorageError, match=r"billing.*Too many open files"):
            verb()
    assert analytics.call("billing", "one", timeout=20) == 1


STANDARD = """
import os, sys, speed
told = os.dup(1)
for fd in range(3):
    os.close(fd)
with (
    speed.Node("billing", root=sys.argv[1], allow=["analytics"], engine=sys.argv[2]) as billing,
    speed.Node("analytics", root=sys.argv[1], engine=sys.argv[2]) as analytics,
):
    billing.register("one", lambda: 1)
    analytics.call("billing", "one", timeout=20)
    analytics.send("billing", bytes(300_000))
    billing.receive(20)
    os.write(told, str([fd for fd in range(3) if os.path.exists(f"/proc/self/fd/{fd}")]).encode())
"""


@pytest.mark.parametrize("engine", ["python", "native"])
def test_no_file_of_a_node_has_a_standard_descriptor(root: str, child: Start, engine: str) -> None:
    """R-32: a program that closed these writes to them all the same: its log would fall into an entry."""
    assert child(STANDARD, root, engine).rest() == ["[]"]


def test_an_event_for_nobody_knows_whom_is_an_error(analytics: speed.Node) -> None:
    """R-20: who subscribes cannot be found out, which is not the same as nobody."""
    assert analytics.publish("flights.ua", 1) == 0
    with no_descriptors(), pytest.raises(speed.StorageError, match="cannot be listed"):
        analytics.publish("flights.ua", 2)
    with no_descriptors(), pytest.raises(speed.StorageError, match="cannot be listed"):
        analytics.nodes()


def test_grants_that_cannot_be_published_are_not_in_force(node: Make) -> None:
    """A-2: and the next ones are published."""
    billing = node("billing", engine="python")
    many = [f"node-{number:0100d}" for number in range(1000)]
    with pytest.raises(speed.ConfigurationError):
        billing.allow(*many)
    assert billing.allowed() == ()
    billing.allow("analytics")
    assert billing.allowed() == ("analytics",)
    (entry,) = billing.nodes()
    assert entry.allow == ("analytics",)


def test_a_policy_goes_back_to_what_it_was() -> None:
    """A-2."""
    policy = AccessPolicy(["analytics"])
    undo = policy.undo()
    policy.allow("etl.*")
    policy.deny("analytics")
    undo()
    assert policy.allowed() == ("analytics",)
    assert policy.allows("analytics")


@pytest.mark.parametrize("what", ["epoll", "first thread", "last thread"])
def test_a_node_that_cannot_begin_leaves_no_entry_no_thread_and_no_descriptor(
    root: str, node: Make, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """R-5: it was registered already."""
    node("warm", engine="python").close()
    before, threads = os.listdir("/proc/self/fd"), threading.active_count()
    start = threading.Thread.start

    def begin(thread: threading.Thread) -> None:
        if thread.name.endswith("protocol" if what == "first thread" else "registry"):
            raise RuntimeError("can't start new thread")
        start(thread)

    def no_poll(*_: Any) -> Any:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch, pytest.raises(speed.ConfigurationError, match="cannot start 'billing'"):
        if what == "epoll":
            patch.setattr(select, "epoll", no_poll)
        else:
            patch.setattr(threading.Thread, "start", begin)
        node("billing", engine="python")
    assert not os.path.exists(names.entry_path(root, "billing"))
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (len(before), threads)
    assert node("billing", engine="python").generation == 2


def test_a_node_that_lost_its_name_holds_no_descriptor_of_its_entry(root: str, node: Make) -> None:
    """R-12: a program may make a new node each time."""
    billing = node("billing", engine="python")
    parts = parts_of(billing)
    parts.abort(speed.LeaseLostError("lost"))
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    open_files = [os.readlink(link) for link in links if os.path.lexists(link)]
    assert not [path for path in open_files if path.startswith(root)]


def test_a_link_that_is_opened_as_the_name_is_lost_says_that_it_is_lost(node: Make) -> None:
    """R-12: the sender had found the node open just before."""
    parts = parts_of(node("billing", engine="python"))
    parts.abort(speed.LeaseLostError("lost"))
    with pytest.raises(speed.LeaseLostError):
        parts.links.open("analytics", 1)


def test_a_lease_is_renewed_when_it_is_due_and_not_a_tick_later(analytics: speed.Node, monkeypatch: Any) -> None:
    """R-7: a heartbeat need not be a whole number of ticks."""
    clock, beats = [100.0], [100.0]

    class Stopping:
        def wait(self, seconds: float) -> bool:
            clock[0] += seconds
            return clock[0] > 120

    context = parts_of(analytics).context
    monkeypatch.setattr(registrar, "monotonic", lambda: clock[0])

    class Sham:
        stopping = Stopping()
        name, pending, registry, keys = context.name, context.pending, context.registry, context.keys
        root, peers = context.root, context.peers

        class registration:  # noqa: N801
            entry = context.registration.entry
            has_new_keys = False
            claims_restored = 0

            @staticmethod
            def heartbeat() -> None:
                beats.append(clock[0])

    idle = types.SimpleNamespace(turn=lambda: None)
    Registrar(Sham, 1.1, print, print, print, list, print, print, idle)._run()  # type: ignore[arg-type]
    pauses = [later - earlier for earlier, later in pairwise(beats)]
    assert len(pauses) >= 17
    assert max(pauses) < 1.2
