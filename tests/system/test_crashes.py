"""Killed, paused and forked processes (registry_spec/lanes.md, registry.md); kills in a row: test_kill_loops.py."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import speed

Make = Callable[..., speed.Node]
Start = Callable[..., Any]

SERVER = """
import sys, speed, time
node = speed.Node("server", root=sys.argv[1], allow=["client"])
node.register("hang", lambda: (print("hanging"), time.sleep(60)))
print("up"); sys.stdin.read()
"""

SELDOM = SERVER.replace("allow=", "lease_seconds=4000, heartbeat_seconds=1000, allow=")

OWNER = """
import sys, speed
node = speed.Node("owner", root=sys.argv[1], lease_seconds=0.7, heartbeat_seconds=0.2)
print("up")
number = 0
try:
    while True:
        node.send("receiver", ("old", number)); number += 1
except speed.SpeedError as error:
    print(type(error).__name__)
"""


def test_a_killed_server_fails_its_calls_quickly(root: str, node: Make, child: Start) -> None:
    server = child(SERVER, root)
    assert server.line() == "up"
    future = node("client").submit("server", "hang", timeout=60)
    assert server.line() == "hanging"
    server.kill()
    with pytest.raises(speed.NodeLeftError):
        future.result(15)


def test_a_killed_server_is_noticed_however_seldom_it_renews_its_lease(root: str, node: Make, child: Start) -> None:
    """S-7, L-9: its process is gone and nobody hears its bell; neither heartbeat nor lease is waited for."""
    server = child(SELDOM, root)
    assert server.line() == "up"
    future = node("client", engine="python").submit("server", "hang", timeout=60)
    assert server.line() == "hanging"
    server.kill()
    with pytest.raises(speed.NodeLeftError):
        future.result(50)


def test_a_killed_node_is_not_listed_and_not_waited_for_however_young_its_heartbeat_is(
    root: str, node: Make, child: Start
) -> None:
    """R-8."""
    server = child(SELDOM, root)
    assert server.line() == "up"
    client = node("client")
    assert client.wait_for("server").name == "server"
    server.kill()
    assert [entry.name for entry in client.nodes()] == ["client"]
    with pytest.raises(speed.UnknownNodeError, match="is not live"):
        client.wait_for("server", timeout=0)


@pytest.mark.parametrize("has_called", [False, True])
def test_a_call_to_a_killed_server_fails_although_its_lease_has_not_ended(
    root: str, node: Make, child: Start, has_called: bool
) -> None:
    """S-7, L-9: the ring finds no reader."""
    server = child(SELDOM, root)
    assert server.line() == "up"
    client = node("client", engine="python")
    if has_called:
        client.ping("server")
    server.kill()
    with pytest.raises((speed.NodeLeftError, speed.UnknownNodeError)):
        client.call("server", "hang", timeout=50)
    with pytest.raises(speed.UnknownNodeError):  # and what is known to be dead is not written to
        client.call("server", "hang", timeout=50)


def test_the_name_of_a_killed_process_is_free_at_once(root: str, node: Make, child: Start) -> None:
    """R-8: no lease has to pass."""
    server = child(SERVER, root)
    assert server.line() == "up"
    with pytest.raises(speed.NameTakenError, match="process"):
        node("server")
    server.kill()
    assert node("server").generation == 2


def test_a_paused_and_replaced_owner_gets_nothing_accepted(root: str, node: Make, child: Start) -> None:
    """L-18, R-12."""
    receiver = node("receiver", allow=["owner"])
    owner = child(OWNER, root)
    assert owner.line() == "up"
    assert receiver.receive(timeout=10) is not None
    owner.signal(signal.SIGSTOP)
    while True:  # until its lease is over
        try:
            heir = node("owner")
        except speed.NameTakenError:
            time.sleep(0.05)
        else:
            break
    accepted = 0
    while receiver.receive(timeout=0.5) is not None:
        accepted += 1
    owner.signal(signal.SIGCONT)
    assert owner.line() == "LeaseLostError"
    assert receiver.receive(timeout=1.5) is None
    heir.send("receiver", "new", ack=True)
    message = receiver.receive(timeout=10)
    assert message is not None
    assert message.payload == "new"


def descriptors_in(root: str) -> set[tuple[str, str]]:
    """What this process holds open below ``root``, or waits with: numbers and paths."""
    return {(fd, path) for fd in os.listdir("/proc/self/fd") if (path := _link(fd)).startswith((root, "anon_inode:"))}


def _link(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return ""  # that of the listing


def test_a_closed_node_and_a_forked_child_leave_no_descriptor_open(root: str) -> None:
    """R-23."""
    before = descriptors_in(root)
    with (
        speed.Node("one", root=root, allow=["other"], engine="python") as one,
        speed.Node("other", root=root, engine="python") as other,
    ):
        other.send("one", 1)
        assert one.receive(10) is not None
        # A thread may be looking at a file at the very moment of one fork, but not of all.
        assert min(added_in_child(root, before) for _ in range(3)) == 0
    assert descriptors_in(root) <= before  # a node of an earlier test may end meanwhile


def added_in_child(root: str, before: set[tuple[str, str]]) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(len(descriptors_in(root) - before))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_cannot_use_its_parents_node(root: str, node: Make) -> None:
    one = node("parent", allow=["other"])
    one.register("echo", lambda x: x)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            one.ping("other")
        except speed.ForkedNodeError:
            one.close()
            with speed.Node("child", root=root, allow=["other"]):
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert node("other").call("parent", "echo", {"x": 1}) == 1


def forked(in_child: Callable[[], object]) -> int:
    """The exit status of a child that does this, and then returns as its parent does."""
    pid = os.fork()
    if pid == 0:
        in_child()
        return -1
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fail() -> None:
    raise ValueError("in the child")


@pytest.mark.parametrize("in_child", [lambda: None, fail], ids=["returns", "raises"])
def test_a_child_that_a_service_forked_ends_where_it_leaves_it_and_answers_nothing(
    make: Make, in_child: Callable[[], object]
) -> None:
    """R-23: the parent answers once its child has ended, which would have been first."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    async def awaited() -> int:
        return forked(in_child)

    billing.register("plain", lambda: forked(in_child))
    billing.register("awaited", awaited)
    for service in ("plain", "awaited", "plain", "awaited"):
        assert analytics.call("billing", service, timeout=30) == 1


def test_a_child_that_a_handler_or_callback_forked_ends_where_it_leaves_it(make: Make) -> None:
    """R-23."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    ended: Queue[int] = Queue()

    def fork(_: object) -> None:
        ended.put(forked(lambda: None))

    billing.on_message(fork)
    billing.subscribe("paid.*", fork)
    billing.on_join(fork)
    billing.register("slow", lambda: analytics.wait_for("third", timeout=30) and None)
    analytics.send("billing", 1, ack=True, timeout=30)
    analytics.wait_for("billing", timeout=30)
    assert analytics.publish("paid.today", 1).delivered == ("billing",)
    future = analytics.submit("billing", "slow", timeout=30)
    future.add_done_callback(fork)
    make("third", allow=["analytics"])
    assert [ended.get(timeout=30) for _ in range(4)] == [1] * 4
    assert future.result(30) is None


def test_a_child_that_a_callback_forked_behind_one_that_blocks_ends_where_it_leaves_it(node: Make) -> None:
    """R-23: the native engine has a helping thread run it."""
    billing = node("billing", engine="native", allow=["analytics"])
    analytics = node("analytics", engine="native")
    answer, go_on = threading.Event(), threading.Event()
    billing.register("slow", lambda: answer.wait(30) and None)
    ended: Queue[int] = Queue()
    blocks, forks = (analytics.submit("billing", "slow", timeout=30) for _ in range(2))
    blocks.add_done_callback(lambda _: go_on.wait(30))
    forks.add_done_callback(lambda _: ended.put(forked(lambda: None)))
    answer.set()
    assert ended.get(timeout=30) == 1
    go_on.set()


def test_a_forked_child_finishes_no_message_of_its_parent(root: str, make: Make) -> None:
    """R-23, L-15."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    analytics.send("billing", "kept")
    message = billing.receive(30)
    assert message is not None
    before = contents(f"{root}/billing/inbox")
    pid = os.fork()
    if pid == 0:
        try:
            message.done()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert contents(f"{root}/billing/inbox") == before
    message.done()
    assert contents(f"{root}/billing/inbox") != before


def contents(directory: str) -> dict[str, bytes]:
    paths = [path for path in Path(directory).rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in paths}


def test_a_program_may_import_and_fork_before_any_node(root: str, child: Start) -> None:
    script = """
import os, sys, speed
if os.fork() == 0:
    with speed.Node("child", root=sys.argv[1]) as node:
        print(node.name)
    os._exit(0)
os.wait()
with speed.Node("parent", root=sys.argv[1]) as node:
    print(node.name)
"""
    assert child(script, root).rest() == ["child", "parent"]


AEAD = "cryptography.hazmat.primitives.ciphers.aead"
SLOW_IMPORT = """
import importlib.abc, os, signal, sys, threading, speed.node.node
begun, go_on = threading.Event(), threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[2]:
            begun.set()
            go_on.wait()

sys.meta_path.insert(0, Slow())
"""
"""The import of the module that is the second argument begins, and goes on when it is told to."""


@pytest.mark.parametrize("module", ["speed.message.message_pb2", AEAD])
def test_a_fork_waits_for_what_another_thread_imports_at_first_use(root: str, child: Start, module: str) -> None:
    """R-23: the lock of a module that is being imported would stay locked in the child."""
    script = """
node = speed.Node("parent", root=sys.argv[1], allow=["parent"], engine="python")
os.register_at_fork(before=go_on.set)
sender = threading.Thread(target=node.send, args=("parent", 1))
sender.start()
begun.wait()
if os.fork() == 0:
    signal.alarm(20)
    with speed.Node("child", root=sys.argv[1], allow=["child"], engine="python") as own:
        own.send("child", 2)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
sender.join()
"""
    assert child(SLOW_IMPORT + script, root, module).rest() == ["0"]


def test_a_fork_waits_for_what_the_first_thread_of_the_first_node_imports(root: str, child: Start) -> None:
    """R-23: it may read what waits for the node, and import for it, before the constructor has returned."""
    with speed.Node("parent", root=root, allow=["sender"]), speed.Node("sender", root=root) as sender:
        sender.send("parent", 1)
    script = """
track = speed.node.node.threads.track
speed.node.node.threads.track = lambda node: begun.wait(20) and track(node)
node = speed.Node("parent", root=sys.argv[1], allow=["sender"], engine="python")
os.register_at_fork(before=go_on.set)
if os.fork() == 0:
    signal.alarm(20)
    with speed.Node("child", root=sys.argv[1], allow=["child"], engine="python") as own:
        own.send("child", 2)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert child(SLOW_IMPORT + script, root, AEAD).rest() == ["0"]
