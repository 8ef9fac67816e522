"""What ``durability="disk"`` promises on a root that lies on a disk (L-7); in memory it is refused (test_bad_input)."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.fs.keyfile import write_key_file
from speed.fs.root import filesystem_of

Start = Callable[..., Any]

SENDER = """
import os, sys, speed
sys.stdin.readline()
node = speed.Node("sender", root=sys.argv[1], durability="disk")
number = 0
while number < int(sys.argv[2]):
    node.send("receiver", number)
    os.write(1, b"%d returned\\n" % number)
    number += 1
"""

RECEIVER = """
import sys, speed
node = speed.Node("receiver", root=sys.argv[1], allow=["sender"])
print("up"); sys.stdin.readline()
"""

# What strace would print, where it is not installed: of the Python engine only.
TELLING = """
import os, sys
os.environ["SPEED_ENGINE"] = "python"
def told(name):
    real = getattr(os, name)
    def call(fd, *rest):
        print(f"{name}({fd}<{os.readlink(f'/proc/self/fd/{fd}')}>, {rest})", file=sys.stderr)
        return real(fd, *rest)
    return call
for name in ("write", "writev", "fdatasync", "fsync"):
    setattr(os, name, told(name))
"""

_CALL = r"write\(1<.*?(\d+ returned)|(writev?|fdatasync|fsync)\(\d+<({root}(?:/receiver(?:/inbox[^>]*)?)?)>"


@pytest.fixture
def disk_root(tmp_path: Path) -> Iterator[str]:
    """A root that does not lie in memory."""
    places = [str(tmp_path), os.getcwd(), "/var/tmp"]
    on_disk = [place for place in places if not filesystem_of(place).is_memory]
    assert on_disk, f"none of {places} lies on a disk"
    with tempfile.TemporaryDirectory(dir=on_disk[0]) as path:
        write_key_file(f"{path}/speed.key", (os.urandom(32),))
        yield path


def calls_of_sender(root: str, trace: Path) -> list[str]:
    """What a process that sends twice asks of the kernel: calls with their path below the root, and its own words."""
    strace = shutil.which("strace")
    watched = ["-f", "-y", "-qq", "-e", "trace=write,writev,fdatasync,fsync", "-o", str(trace), sys.executable]
    command = [strace, *watched, "-c", SENDER] if strace else [sys.executable, "-c", TELLING + SENDER]
    done = subprocess.run([*command, root, "2"], input="\n", text=True, check=True, capture_output=True)
    lines = trace.read_text() if strace else done.stderr
    real = os.path.realpath(root)
    found = re.findall(_CALL.format(root=re.escape(real)), lines)
    return [said or f"{call.rstrip('v')} {path.removeprefix(real) or '/'}" for said, call, path in found]


@pytest.mark.linux
def test_each_send_is_flushed_before_it_returns(disk_root: str, tmp_path: Path) -> None:
    """L-7."""
    lane = "/receiver/inbox/sender"
    append, flush = (f"{call} {lane}/000001-00000001.lane" for call in ("write", "fdatasync"))
    claimed = ["fsync /"]
    made = [f"fsync {lane}", "fsync /receiver/inbox", "fsync /receiver", "fsync /"]
    with speed.Node("receiver", root=disk_root, allow=["sender"]):
        calls = calls_of_sender(disk_root, tmp_path / "trace")
    until_it_ends = calls[: calls.index("1 returned") + 1]
    assert until_it_ends == [*claimed, append, flush, *made, "0 returned", append, flush, "1 returned"]


def test_what_was_sent_to_disk_survives_both_processes(disk_root: str, child: Start) -> None:
    """L-7: nobody had read any of it."""
    receiver, sender = child(RECEIVER, disk_root), child(SENDER, disk_root, "1000000")
    assert receiver.line() == "up"
    sender.tell("begin")
    lines = [sender.line() for _ in range(20)]
    sender.kill()
    receiver.kill()
    sent = [int(line.split()[0]) for line in lines + sender.rest()]
    with speed.Node("receiver", root=disk_root, allow=["sender"]) as heir:
        for number in sent:
            message = heir.receive(timeout=20)
            assert message is not None
            assert message.payload == number


THREADS = 16
MESSAGE_BYTES = 10_000
"""So many that headers of all threads' envelopes do not add up to one."""


class Flushes:
    """``os.fdatasync`` of this process: counted, held until told, failing when told."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.count = 0
        self.failing = False

    def __call__(self, fd: int) -> None:
        self.count += 1
        self.begun.release()
        assert self.go_on.acquire(timeout=20)
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        REAL_FDATASYNC(fd)


REAL_FDATASYNC = os.fdatasync


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> Flushes:
    held = Flushes()
    monkeypatch.setattr(os, "fdatasync", held)
    return held


def appended(root: str) -> int:
    """Envelopes in the one segment of sender -> receiver, all of one size."""
    segment = Path(root, "receiver", "inbox", "sender", "000001-00000001.lane")
    size = segment.stat().st_size if segment.exists() else 0
    return size // MESSAGE_BYTES


def send_from_threads(sender: speed.Node, flushes: Flushes) -> tuple[list[threading.Thread], list[object]]:
    """As many sends as there are threads, all but one while the first flushes; what each ended with."""
    ended: list[object] = []

    def send() -> None:
        try:
            ended.append(sender.send("receiver", b"x" * MESSAGE_BYTES))
        except speed.StorageError as error:
            ended.append(error)

    threads = [threading.Thread(target=send) for _ in range(THREADS)]
    threads[0].start()
    assert flushes.begun.acquire(timeout=20)
    for thread in threads[1:]:
        thread.start()
    return threads, ended


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_threads_that_send_at_once_share_a_flush(disk_root: str, flushes: Flushes) -> None:
    """L-7: they append while a flush runs, and the next one is for all of them."""
    with (
        speed.Node("receiver", root=disk_root, allow=["sender"], engine="python"),
        speed.Node("sender", root=disk_root, durability="disk", engine="python") as sender,
    ):
        threads, ended = send_from_threads(sender, flushes)
        wait_until(lambda: appended(disk_root) >= THREADS)
        assert not ended
        flushes.go_on.release(THREADS)
        for thread in threads:
            thread.join(20)
        assert len(ended) == THREADS
        assert flushes.count == 2


def test_a_flush_that_fails_is_told_to_all_whose_envelopes_it_was_for(disk_root: str, flushes: Flushes) -> None:
    """L-7: a device reports a loss once; a later flush that succeeds proves nothing."""
    with (
        speed.Node("receiver", root=disk_root, allow=["sender"], engine="python"),
        speed.Node("sender", root=disk_root, durability="disk", engine="python") as sender,
    ):
        flushes.failing = True
        threads, ended = send_from_threads(sender, flushes)
        wait_until(lambda: appended(disk_root) >= THREADS)
        flushes.go_on.release()
        assert flushes.begun.acquire(timeout=20)
        flushes.failing = False
        flushes.go_on.release(THREADS)
        for thread in threads:
            thread.join(20)
        assert [type(one) for one in ended] == [speed.StorageError] * THREADS
        assert isinstance(sender.send("receiver", b"later"), str)
