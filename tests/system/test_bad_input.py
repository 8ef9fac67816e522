"""What users, disks and foreign files do wrong: a clear error, nothing lost, valid traffic goes on."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import speed
from speed.fs.keyfile import write_key_file
from speed.wire.limits import FULL_SCAN_SECONDS, MAX_UNFINISHED_BYTES
from tests.interop.harness import pause

Make = Callable[..., speed.Node]


Start = Callable[..., Any]


DOCTOR_ON_FIFOS = "warning polling: this filesystem has no FIFOs"


WITHOUT_FIFOS = """
import errno, logging, os, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
def refuse(*arguments, **options):
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))
os.mkfifo = refuse
import speed
from speed.observe.root import examine
from speed.cli.options import Settings

root = sys.argv[1]
with (
    speed.Node("billing", root=root, allow=["analytics"], engine="python") as billing,
    speed.Node("analytics", root=root, engine="python") as analytics,
):
    billing.register("double", lambda x: 2 * x)
    print(analytics.call("billing", "double", {"x": 21}))
    for finding in examine(root, f"{root}/speed.key"):
        if finding.check == "wake-up":
            print(finding.state, finding.found)
"""


def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    """Wait for something another thread or process does; bounded."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def reports(root: str, check: str, says: str) -> list[dict[str, str]]:
    """The findings of ``speed root doctor`` of one kind in which ``says`` occurs."""
    command = [sys.executable, "-m", "speed.cli", "root", "doctor", "--json", "--root", root]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [
        finding
        for finding in json.loads(done.stdout)["findings"]
        if finding["check"] == check and says in finding["found"] + finding["todo"]
    ]


def test_nodes_with_another_key_do_not_see_each_other(root: str, node: Make) -> None:
    node("billing", allow=["analytics"])
    write_key_file(f"{root}/other.key", (os.urandom(32),))
    analytics = node("analytics", key=f"{root}/other.key")
    with pytest.raises(speed.UnknownNodeError, match="use the key of"):
        analytics.call("billing", "any")
    assert reports(root, "keys", "which this key file does not have")


def test_a_full_inbox_is_an_error_and_loses_nothing(node: Make) -> None:
    """L-6."""
    billing = node("billing", allow=["analytics"])
    analytics = node("analytics", max_lane_bytes=64 << 10)
    sent = 0
    with pytest.raises(speed.InboxFullError, match="full"):
        for _ in range(100):
            analytics.send("billing", bytes(4096), timeout=0.3)
            sent += 1
    assert 10 <= sent < 40
    for _ in range(sent):
        assert billing.receive(timeout=10) is not None
    billing.receive(timeout=0)
    analytics.send("billing", b"again", timeout=10)
    message = billing.receive(timeout=10)
    assert message is not None
    assert message.payload == b"again"


def test_what_a_program_does_not_take_fills_a_bounded_part_of_its_memory(node: Make) -> None:
    """L-19: whatever a sender makes of L-6; the others are served meanwhile, and nothing is lost."""
    billing = node("billing", allow=["analytics", "reports"])
    analytics, reports = node("analytics", max_lane_bytes=1 << 30), node("reports")
    for number in range(300):
        analytics.send("billing", number.to_bytes(2, "big") + bytes(1 << 20))

    def held() -> int:
        return int(billing.stats()["counters"].get("messages_received", 0)) << 20

    until = time.monotonic() + 30
    while held() < MAX_UNFINISHED_BYTES and time.monotonic() < until:
        reports.ping("billing")
    until = time.monotonic() + 2 * FULL_SCAN_SECONDS
    while time.monotonic() < until:
        reports.ping("billing")
    assert MAX_UNFINISHED_BYTES <= held() <= MAX_UNFINISHED_BYTES + (8 << 20)
    taken = [billing.receive(timeout=30) for _ in range(300)]
    assert [int.from_bytes(message.payload[:2], "big") for message in taken if message] == list(range(300))


def test_polling_nodes_do_everything_without_bells(node: Make) -> None:
    """L-22, L-23."""
    billing, analytics = node("billing", bell="polling", allow=["analytics"]), node("analytics", bell="polling")
    billing.register("echo", lambda x: x)
    assert [analytics.call("billing", "echo", {"x": n}) for n in range(20)] == list(range(20))
    handled: list[Any] = []
    billing.on_message(lambda message: handled.append(message.payload))
    analytics.send("billing", "hello", ack=True)
    assert handled == ["hello"]


def test_where_no_fifo_can_be_made_nodes_poll_and_say_so(root: str, child: Start) -> None:
    """L-22."""
    lines = child(WITHOUT_FIFOS, root).rest()
    assert lines == [*[f"{root} has no FIFOs: lanes are polled, which is slower"] * 2, "42", DOCTOR_ON_FIFOS]
    assert not os.path.exists(f"{root}/billing/bell")


def test_foreign_files_in_an_inbox_are_put_aside_and_traffic_goes_on(root: str, node: Make) -> None:
    """L-10, L-20."""
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    billing.register("echo", lambda x: x)
    assert analytics.call("billing", "echo", {"x": 1}) == 1
    inbox = f"{root}/billing/inbox"
    os.symlink("/etc/passwd", f"{inbox}/link")
    os.mkfifo(f"{inbox}/pipe")
    with open(f"{inbox}/giant", "wb") as file:
        file.truncate(1 << 40)
    with open(f"{inbox}/not-a-lane.txt", "w", encoding="utf-8") as file:
        file.write("hello")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"{inbox}/socket")
    until(lambda: set(os.listdir(inbox)) == {"analytics"})
    assert analytics.call("billing", "echo", {"x": 2}) == 2
    assert os.path.exists("/etc/passwd")
    assert billing.stats()["counters"]["foreign_files"] >= 5
    assert reports(root, "left: quarantined file", "read its .reason file")
    sock.close()


def test_a_flipped_bit_in_a_lane_costs_that_envelope_only(root: str, node: Make, child: Start) -> None:
    """L-16."""
    analytics = node("analytics")
    billing = node("billing", allow=["analytics"])
    analytics.send("billing", "first", ack=True)
    assert billing.receive(timeout=10) is not None
    billing.close()
    heir = """
import sys, speed
node = speed.Node("billing", root=sys.argv[1], allow=["analytics"])
print("up"); sys.stdin.readline()
"""
    stopped = child(heir, root)  # accepts the grant's publication, then is stopped before it reads
    assert stopped.line() == "up"
    pause(stopped.process.pid)  # from here on no file comes or goes
    lane = f"{root}/billing/inbox/analytics"
    sizes = {name: os.path.getsize(f"{lane}/{name}") for name in os.listdir(lane)}
    for text in ("bad", "good"):
        analytics.send("billing", text)
    stopped.kill()
    segment = max(name for name in os.listdir(lane) if name.endswith(".lane"))
    with open(f"{lane}/{segment}", "r+b") as file:
        at = sizes.get(segment, 0) + 120  # in the ciphertext of the first of the two
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    billing = node("billing", allow=["analytics"])
    message = billing.receive(timeout=10)
    assert message is not None
    assert message.payload == "good"
    counters = billing.stats()["counters"]
    assert any(name.startswith("damaged") for name in counters), counters
    assert any(name.endswith(".reason") for name in os.listdir(f"{root}/billing/quarantine"))


def test_noise_in_the_bell_harms_nobody(root: str, node: Make) -> None:
    """L-9."""
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    billing.register("echo", lambda x: x)
    fd = os.open(f"{root}/billing/bell", os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, os.urandom(1001))
    os.close(fd)
    assert analytics.call("billing", "echo", {"x": 1}) == 1


def test_junk_in_the_registry_is_ignored_and_reported(root: str, node: Make) -> None:
    """R-1."""
    registry = f"{root}/speed_registry"
    os.symlink("/etc/passwd", f"{registry}/link.node") if os.path.isdir(registry) else None
    billing = node("billing")
    with open(f"{registry}/forged.node", "w", encoding="utf-8") as file:
        file.write('{"name":"forged"}\nAAAA\n')
    os.mkfifo(f"{registry}/pipe.node")
    with open(f"{registry}/notes.txt", "w", encoding="utf-8") as file:
        file.write("hello")
    assert [entry.name for entry in billing.nodes()] == ["billing"]
    found = " ".join(finding["found"] for finding in reports(root, "registry", "remove it if it is not a node's"))
    assert all(name in found for name in ("forged.node", "pipe.node", "notes.txt"))
    analytics = node("analytics", allow=["billing"])
    analytics.register("echo", lambda x: x)
    assert billing.call("analytics", "echo", {"x": 1}) == 1


@pytest.fixture
def small_disk(tmp_path: Any) -> Iterator[str]:
    """A filesystem of 400 KiB."""
    path = tmp_path / "small"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k,mode=700", "tmpfs", str(path)], check=True)
    yield str(path)
    subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small filesystem")
def test_a_full_disk_is_an_error_and_nothing_accepted_is_lost(small_disk: str) -> None:
    """L-5."""
    write_key_file(f"{small_disk}/speed.key", (os.urandom(32),))
    with (
        speed.Node("billing", root=small_disk, allow=["analytics"]) as billing,
        speed.Node("analytics", root=small_disk) as analytics,
    ):
        sent = 0
        with pytest.raises(speed.StorageError, match="full"):
            for number in range(200):
                analytics.send("billing", [number, bytes(8000)])
                sent += 1
        for number in range(sent):
            message = billing.receive(timeout=10)
            assert message is not None
            assert message.payload[0] == number
        billing.receive(timeout=0.1)
        until(lambda: _sends(analytics))
        message = billing.receive(timeout=10)
        assert message is not None
        assert message.payload == "after"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small filesystem")
def test_a_node_cannot_start_on_a_full_disk_and_says_so(small_disk: str) -> None:
    """R-5: and it can as soon as there is room."""
    write_key_file(f"{small_disk}/speed.key", (os.urandom(32),))
    with open(f"{small_disk}/filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="space"):
        while True:
            filler.write(bytes(4096))
    with pytest.raises(speed.StorageError, match=r"No space left.*make room"):
        speed.Node("billing", root=small_disk)
    os.unlink(f"{small_disk}/filler")
    with speed.Node("billing", root=small_disk) as billing:
        assert [entry.name for entry in billing.nodes()] == ["billing"]


def _sends(node: speed.Node) -> bool:
    try:
        node.send("billing", "after")
    except speed.StorageError:
        return False
    return True


@pytest.mark.slow
def test_two_hundred_nodes_find_each_other(root: str, child: Start) -> None:
    """200 nodes in ten processes: all are listed, one event reaches all others."""
    script = """
import sys, threading, speed
root, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
heard = threading.Semaphore(0)
nodes = [speed.Node(f"node.{n}", root=root, allow=["caller"], workers=1) for n in range(first, last)]
for one in nodes:
    one.subscribe("hello.*", lambda message: heard.release())
print("up"); sys.stdin.readline()
for _ in nodes:
    assert heard.acquire(timeout=30)
print(len(nodes)); sys.stdin.readline()
"""
    children = [child(script, root, str(first), str(first + 20)) for first in range(0, 200, 20)]
    for one in children:
        assert one.line() == "up"
    with speed.Node("caller", root=root) as caller:
        assert len(caller.nodes()) == 201
        assert caller.publish("hello.all", 1, timeout=30) == 200
        for one in children:
            one.tell("published")
        assert [one.line() for one in children] == ["20"] * 10
