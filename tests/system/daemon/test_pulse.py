"""A process that serves nobody is ended and started again, though its node holds its lease."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from speed.observe.speedd import ask
from tests.system.daemon.speedds import HEAD, ONE, PATIENCE, Speedd, wait_gone

pytestmark = pytest.mark.system

LONG_LEASE = HEAD.replace("lease_seconds = 2", "lease_seconds = 600").replace("0.4", "20")
"""No lease ends while these tests run."""
IMPATIENT = "ping_timeout_seconds = 1\nstop_timeout_seconds = 1\n"
CONTRACTOR = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", '''
import os, signal, speed
node = speed.Node(os.environ["SPEED_NODE"], allow=os.environ["SPEED_ALLOW"].split(","), lease_seconds=600)
node.register("pid", os.getpid)
signal.pause()
'''])
"""
"""A program whose node is in a process that it started."""
BUSY_STARTER = """
import subprocess, sys
def register(node):
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    node.register("pid", __import__("os").getpid)
"""


def command(script: str, name: str = "one") -> str:
    words = json.dumps([sys.executable, "-c", script])
    return f'[[process]]\nname = "{name}"\ncommand = {words}\nallow = ["test"]\n'


def troubles(directory: Path) -> list[str]:
    return [one["what"] for one in ask(str(directory / "root"), {"do": "status"})["troubles"]]


def until_trouble(directory: Path, words: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not any(words in one for one in troubles(directory)):
        assert time.monotonic() < deadline, troubles(directory)
        time.sleep(0.05)  # the pace of asking


def test_a_process_that_a_signal_stopped_is_killed_and_started_again(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    speedd = start(ONE + "ping_timeout_seconds = 1\n", head=LONG_LEASE)
    speedd.until("ready")
    first = client.call("one", "pid")
    os.kill(first, signal.SIGSTOP)
    assert "stopped by a signal" in speedd.until("process_hangs", process="one", level="warning")["reason"]
    speedd.until("process_ended", process="one", status=-9)
    speedd.until("process_ready", process="one")
    client.wait_for("one", timeout=PATIENCE)
    assert client.call("one", "pid") != first


def test_a_process_whose_node_does_not_answer_is_ended_with_all_that_it_started(
    start: Callable[..., Speedd], client: speed.Node
) -> None:
    speedd = start(command(CONTRACTOR) + IMPATIENT, head=LONG_LEASE)
    speedd.until("process_ready", process="one")
    client.wait_for("one", timeout=PATIENCE)
    first = client.call("one", "pid")
    left = os.pidfd_open(first)
    os.kill(first, signal.SIGSTOP)
    assert "does not answer" in speedd.until("process_hangs", process="one")["reason"]
    speedd.until("process_ended", process="one")
    wait_gone(left, PATIENCE)
    speedd.until("process_ready", process="one")


def test_the_status_names_a_process_that_hangs_before_it_is_ended(
    start: Callable[..., Speedd], client: speed.Node, directory: Path
) -> None:
    speedd = start(ONE + ONE.replace("one", "two"), head=LONG_LEASE)
    speedd.until("ready")
    os.kill(client.call("two", "pid"), signal.SIGSTOP)
    until_trouble(directory, "process two is stopped by a signal")
    assert [line for line in speedd.events if line["event"] == "process_hangs"] == []


def test_a_process_that_goes_on_is_no_trouble_any_more(
    start: Callable[..., Speedd], client: speed.Node, directory: Path
) -> None:
    start(ONE, head=LONG_LEASE).until("ready")
    pid = client.call("one", "pid")
    os.kill(pid, signal.SIGSTOP)
    until_trouble(directory, "process one is stopped by a signal")
    os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + PATIENCE
    while troubles(directory):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # the pace of asking
    assert client.call("one", "pid") == pid


def test_a_process_that_is_not_to_be_pinged_is_named_and_let_be(
    start: Callable[..., Speedd], client: speed.Node, directory: Path
) -> None:
    speedd = start(ONE + "ping_timeout_seconds = 0\n" + ONE.replace("one", "two") + IMPATIENT, head=LONG_LEASE)
    speedd.until("ready")
    quiet, other = client.call("one", "pid"), client.call("two", "pid")
    os.kill(quiet, signal.SIGSTOP)
    until_trouble(directory, "process one is stopped by a signal")
    os.kill(other, signal.SIGSTOP)
    speedd.until("process_hangs", process="two")  # which was stopped later
    os.kill(quiet, signal.SIGCONT)
    assert client.call("one", "pid") == quiet


def test_a_speedd_that_was_stopped_itself_ends_nobody(start: Callable[..., Speedd], client: speed.Node) -> None:
    speedd = start(ONE + IMPATIENT, head=LONG_LEASE)
    speedd.until("ready")
    first = client.call("one", "pid")
    speedd.process.send_signal(signal.SIGSTOP)
    time.sleep(3)  # three times what a process may be silent for
    speedd.process.send_signal(signal.SIGCONT)
    os.kill(first, signal.SIGHUP)
    speedd.until("process_ended", process="one")
    assert [line for line in speedd.events if line["event"] == "process_hangs"] == []


def test_nothing_piles_up_over_restarts(start: Callable[..., Speedd], client: speed.Node, directory: Path) -> None:
    (directory / "lib" / "starter.py").write_text(BUSY_STARTER)
    speedd = start(ONE.replace("svc:", "starter:") + IMPATIENT, head=LONG_LEASE)
    for _ in range(4):
        speedd.until("process_ready", process="one")
        client.wait_for("one", timeout=PATIENCE)
        os.kill(client.call("one", "pid"), signal.SIGSTOP)
        speedd.until("process_hangs", process="one")
        speedd.until("process_ended", process="one")
        assert strays_of(speedd) == 0


def strays_of(speedd: Speedd) -> int:
    """Processes that carry the mark of something that this speedd started, and have ended neither themselves."""
    own = f"SPEED_ROOT={speedd.file.parent / 'root'}".encode()
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            count += own in environment and any(one.startswith(b"SPEED_STARTED_AS=") for one in environment)
        except OSError:
            continue
    return count


def test_many_that_hang_do_not_keep_speedd_from_answering(
    start: Callable[..., Speedd], client: speed.Node, directory: Path
) -> None:
    speedd = start("".join(ONE.replace("one", f"no{number}") for number in range(6)), head=LONG_LEASE)
    speedd.until("ready")
    pids = [client.call(f"no{number}", "pid") for number in range(6)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    until_trouble(directory, "process no5 is stopped by a signal")
    ask(str(directory / "root"), {"do": "status"}, timeout_seconds=2)
    assert speedd.stop() == 0
