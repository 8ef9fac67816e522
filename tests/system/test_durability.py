"""What ``durability="disk"`` promises on a root that lies on a disk (L-7); in memory it is refused (test_bad_input)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.fs.keyfile import write_key_file
from speed.fs.probe import filesystem_of

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

_CALL = re.compile(r"write\(1<.*?(\d+ returned)|(writev?|fdatasync|fsync)\(\d+<([^>]*/inbox[^>]*)>")


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
    found = [match.groups() for match in _CALL.finditer(lines)]
    return [said or f"{call.rstrip('v')} {path.removeprefix(os.path.realpath(root))}" for said, call, path in found]


@pytest.mark.linux
def test_each_send_is_flushed_before_it_returns(disk_root: str, tmp_path: Path) -> None:
    """L-7."""
    lane = "/receiver/inbox/sender"
    append, flush = (f"{call} {lane}/000001-00000001.lane" for call in ("write", "fdatasync"))
    made = [f"fsync {lane}", "fsync /receiver/inbox"]
    with speed.Node("receiver", root=disk_root, allow=["sender"]):
        calls = calls_of_sender(disk_root, tmp_path / "trace")
    until_it_ends = calls[: calls.index("1 returned") + 1]
    assert until_it_ends == [append, flush, *made, "0 returned", append, flush, "1 returned"]


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
