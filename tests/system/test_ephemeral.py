"""Nodes whose names do not come back leave nothing behind, and cost nobody anything (R-25 to R-27, L-27)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import speed
from speed.fs.keyfile import load_key_file
from speed.fs.registry import Registry
from speed.fs.sweep import sweep
from tests.interop.harness import pause, until
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 20.0

WORKER = """
import sys, speed
node = speed.Node(sys.argv[3], root=sys.argv[1], engine=sys.argv[2], ephemeral=True)
print(node.call("billing", "double", {"x": 21}, timeout=20), flush=True)
sys.stdin.readline()
"""

RECEIVER = """
import sys, speed
lease = {"lease_seconds": 1.0, "heartbeat_seconds": 0.3}
node = speed.Node("billing", root=sys.argv[1], engine=sys.argv[2], allow=["etl.*"], **lease)
print("up", flush=True)
sys.stdin.readline()
"""


def left_of(root: str, family: str) -> list[str]:
    """What in a root bears a name of a family."""
    found = []
    for directory, folders, files in os.walk(root):
        found += [os.path.join(directory, one) for one in (*folders, *files) if one.startswith(family)]
    return found


def serve(node: Make, kind: str) -> speed.Node:
    billing = node("billing", engine=kind, lease_seconds=1.0, heartbeat_seconds=0.3)
    billing.register("double", lambda x: 2 * x)
    billing.allow("etl.*")
    return billing


def test_of_senders_that_leave_nothing_is_left(root: str, kind: str, node: Make) -> None:
    serve(node, kind)
    for number in range(60):
        with speed.Node(f"etl.{number}", root=root, engine=kind, ephemeral=True) as sender:
            assert sender.call("billing", "double", {"x": number}, timeout=PATIENCE) == 2 * number
    assert until(lambda: left_of(root, "etl.") == [], PATIENCE)


def test_of_senders_that_are_killed_nothing_is_left(root: str, kind: str, node: Make, child: Start) -> None:
    serve(node, kind)
    workers = [child(WORKER, root, kind, f"etl.{number}") for number in range(6)]
    for worker in workers:
        assert worker.line() == "42"
        os.kill(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
    assert until(lambda: left_of(root, "etl.") == [], PATIENCE)


def held_of(family: str) -> list[str]:
    """The files of a family of names that this process holds open."""
    held = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            held.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [one for one in held if f"/{family}" in one]


def test_who_answered_a_sender_that_was_killed_lets_go_of_its_files(
    root: str, kind: str, node: Make, child: Start
) -> None:
    serve(node, kind)
    worker = child(WORKER, root, kind, "etl.killed")
    assert worker.line() == "42"
    assert held_of("etl.killed")
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    assert until(lambda: held_of("etl.killed") == [], PATIENCE)


def test_a_link_is_forgotten_only_when_the_cursors_of_its_receiver_are_gone(
    root: str, node: Make, child: Start
) -> None:
    """Else what is sent to the next life of the name, counted from 1, would be taken for a repetition."""
    billing = serve(node, "python")
    worker = child(WORKER, root, "python", "etl.killed")
    assert worker.line() == "42"
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    links = billing._engine._parts.links  # type: ignore[attr-defined]
    kept, until_gone = [], time.monotonic() + PATIENCE
    while os.path.exists(os.path.join(root, "etl.killed")) and time.monotonic() < until_gone:
        links.close_gone_links()
        kept.append(links.known("etl.killed"))
    assert kept[:-1] == [True] * (len(kept) - 1)
    assert until(lambda: not links.known("etl.killed"), PATIENCE)


def test_a_name_that_comes_back_all_the_same_is_served_each_time(root: str, kind: str, node: Make) -> None:
    serve(node, kind)
    generations = []
    for number in range(30):
        with speed.Node("etl.again", root=root, engine=kind, ephemeral=True) as sender:
            assert sender.call("billing", "double", {"x": number}, timeout=PATIENCE) == 2 * number
            generations += [entry.generation for entry in sender.nodes() if entry.name == "etl.again"]
    assert len(generations) == 30
    assert generations == sorted(set(generations))


def test_what_a_forgotten_name_sent_is_not_taken_again(root: str, kind: str, node: Make, tmp_path: Path) -> None:
    """Recorded segments, put back where the lane was."""
    billing = serve(node, kind)
    lane = Path(root, "billing", "inbox", "etl.once")
    with speed.Node("etl.once", root=root, engine=kind, ephemeral=True) as sender:
        sender.send("billing", {"n": 1}, ack=True)
        shutil.copytree(lane, tmp_path / "lane", ignore=shutil.ignore_patterns("cursor.*"))
    assert billing.receive(timeout=PATIENCE) is not None
    assert billing.receive(timeout=0.1) is None  # which finishes the one before
    assert until(lambda: left_of(root, "etl.") == [], PATIENCE)
    shutil.copytree(tmp_path / "lane", lane)
    assert billing.receive(timeout=2.0) is None
    with speed.Node("etl.once", root=root, engine=kind, ephemeral=True) as successor:
        successor.send("billing", {"n": 2}, ack=True)
    message = billing.receive(timeout=PATIENCE)
    assert message is not None
    assert message.payload == {"n": 2}
    assert billing.receive(timeout=0.5) is None


def test_what_was_accepted_from_a_sender_that_is_gone_waits_for_a_receiver_that_is_down(
    root: str, kind: str, node: Make, child: Start
) -> None:
    """Others sweep meanwhile."""
    receiver = child(RECEIVER, root, kind)
    assert receiver.line() == "up"
    pause(receiver.process.pid)
    with speed.Node("etl.once", root=root, engine=kind, ephemeral=True) as sender:
        sender.send("billing", {"n": 1})
    os.kill(receiver.process.pid, signal.SIGKILL)
    receiver.process.wait()
    registry = Registry(root, load_key_file(f"{root}/speed.key"))
    assert not sweep(registry, "etl.once")
    assert not Path(root, "etl.once").exists()
    billing = serve(node, kind)
    message = billing.receive(timeout=PATIENCE)
    assert message is not None
    assert message.payload == {"n": 1}
    assert billing.receive(timeout=0.1) is None
    assert until(lambda: left_of(root, "etl.") == [], PATIENCE)


def test_an_ephemeral_receiver_takes_its_directory_along(root: str, kind: str, node: Make) -> None:
    sender = node("sender", engine=kind)
    with speed.Node("etl.receiver", root=root, engine=kind, ephemeral=True, allow=["sender"]) as receiver:
        sender.send("etl.receiver", {"n": 1}, ack=True)
        assert receiver.receive(timeout=PATIENCE) is not None
    assert not Path(root, "etl.receiver").exists()
    assert until(lambda: left_of(root, "etl.") == [], PATIENCE)
