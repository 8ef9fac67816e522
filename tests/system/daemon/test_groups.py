"""What a process started ends with it: no descendant is left behind by a stop, a restart or the end of speedd."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.daemon.speedds import HEAD, ONE, PATIENCE, Speedd, wait_gone

pytestmark = pytest.mark.system

FORKING = """
import os, signal, subprocess, sys, time
sleeper = "import signal, time; {ignoring}print('asleep', flush=True); time.sleep(1000)"
child = subprocess.Popen([sys.executable, "-c", sleeper], stdout=subprocess.PIPE, start_new_session={session})
child.stdout.readline()
print("descendant", child.pid, flush=True)
{then}
"""
IGNORING = "signal.signal(signal.SIGTERM, signal.SIG_IGN); "


def process(then: str, ignoring: str = "", restart: str = "always", session: bool = False) -> str:
    """A process with a descendant that sleeps, in a session of its own perhaps, and what it does then itself."""
    command = json.dumps([sys.executable, "-c", FORKING.format(then=then, ignoring=ignoring, session=session)])
    return f'[[process]]\nname = "forks"\nrestart = "{restart}"\nstop_timeout_seconds = 1\ncommand = {command}\n'


def descendant(speedd: Speedd) -> int:
    """A pidfd of what the process started."""
    while True:
        word, _, pid = speedd.until("output", process="forks", stream="stdout")["text"].partition(" ")
        if word == "descendant":
            return os.pidfd_open(int(pid))


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("ignoring", ["", IGNORING])
def test_a_descendant_ends_before_its_dead_process_is_started_again(
    start: Callable[..., Speedd], ignoring: str, session: bool
) -> None:
    speedd = start(process("time.sleep(0.2); os._exit(1)", ignoring, session=session))
    first = descendant(speedd)
    speedd.until("process_started", start=2)
    wait_gone(first, 0)
    second = descendant(speedd)
    speedd.until("process_started", start=3)
    wait_gone(second, 0)
    assert speedd.stop() == 0


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("ignoring", ["", IGNORING])
def test_a_descendant_ends_with_the_stop_of_its_process(
    start: Callable[..., Speedd], ignoring: str, session: bool
) -> None:
    speedd = start(process("time.sleep(1000)", ignoring, session=session))
    left = descendant(speedd)
    assert speedd.stop() == 0
    wait_gone(left, 0)


def test_a_descendant_is_asked_to_end_before_it_is_killed(start: Callable[..., Speedd], directory: Path) -> None:
    said = directory / "said"
    cleaning = f"signal.signal(signal.SIGTERM, lambda *_: (open({str(said)!r}, 'w'), sys.exit(0)))"
    script = f"import signal, sys, time; {cleaning}; print('up', flush=True); time.sleep(1000)"
    then = (
        f"two = subprocess.Popen([sys.executable, '-c', {script!r}], stdout=subprocess.PIPE); two.stdout.readline(); "
        "print('both', flush=True); os._exit(1)"
    )
    speedd = start(process(then, restart="never"))
    speedd.until("process_ended", process="forks")
    assert said.exists()


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("ignoring", ["", IGNORING])
def test_a_descendant_ends_when_speedd_is_killed(start: Callable[..., Speedd], ignoring: str, session: bool) -> None:
    speedd = start(process("time.sleep(1000)", ignoring, session=session))
    left = descendant(speedd)
    speedd.process.kill()
    wait_gone(left, PATIENCE)


def test_what_a_hosted_service_started_ends_when_speedd_is_killed(
    start: Callable[..., Speedd], directory: Path
) -> None:
    (directory / "lib" / "forks.py").write_text(
        "import subprocess\ndef register(node):\n    print('descendant', subprocess.Popen(['sleep', '1000']).pid)\n"
    )
    speedd = start('[[process]]\nname = "forks"\nentry = "forks:register"\n')
    left = descendant(speedd)
    speedd.process.kill()
    wait_gone(left, PATIENCE)


def test_the_guardian_of_the_groups_is_replaced_when_it_was_killed(start: Callable[..., Speedd]) -> None:
    speedd = start(process("time.sleep(1000)"))
    left = descendant(speedd)
    os.kill(speedd.seen("guardian_started")["pid"], signal.SIGKILL)
    speedd.until("guardian_started")
    speedd.process.kill()
    wait_gone(left, PATIENCE)


def test_no_guardian_is_left_behind(start: Callable[..., Speedd]) -> None:
    speedd = start("")
    speedd.until("ready")
    guardian = os.pidfd_open(speedd.seen("guardian_started")["pid"])
    assert speedd.stop() == 0
    wait_gone(guardian, PATIENCE)


def test_a_host_that_does_not_listen_to_reloads_is_started_again(start: Callable[..., Speedd]) -> None:
    """A stopped process must not stop speedd, which tells it of each change through a pipe."""
    many = [", ".join(f'"{letter}-{number:05}"' for number in range(4000)) for letter in "ab"]
    speedd = start(ONE + "stop_timeout_seconds = 1\n")
    pid = speedd.until("process_started", process="one")["pid"]
    speedd.until("ready")
    os.kill(pid, signal.SIGSTOP)
    for allow in many:
        speedd.file.write_text(HEAD + ONE.replace('"test"', allow) + "stop_timeout_seconds = 1\n")
        speedd.reload()
        speedd.until("reloaded")
    speedd.until("process_started", process="one", start=2)
    assert speedd.stop() == 0
