"""How speedd is started: the descriptor that hears of readiness, its version, its root."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import speed
from speed.fs.keyfile import load_key_file
from speed.fs.registry import Registry
from tests.interop.harness import until
from tests.system.daemon.speedds import HEAD, ONE, PATIENCE, Speedd

pytestmark = pytest.mark.system

SPEEDD = [sys.executable, "-m", "speed.daemon"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SPEEDD, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_a_starter_that_no_longer_listens_is_told_of_once(start: Callable[..., Speedd], client: speed.Node) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        speedd = start(ONE, options=["--ready-fd", str(writing)], pass_fds=[writing])
    finally:
        os.close(writing)
    assert "nobody reads" in speedd.until("readiness_not_told")["reason"]
    assert client.call("speedd", "echo", {"value": "hi"}) == "hi"
    assert speedd.stop() == 0
    assert [line["event"] for line in speedd.events].count("readiness_not_told") == 1


def test_a_starter_that_does_not_read_is_not_waited_for(start: Callable[..., Speedd], client: speed.Node) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    try:
        speedd = start(ONE, options=["--ready-fd", str(writing)], pass_fds=[writing])
        speedd.until("readiness_not_told")
        assert client.call("speedd", "echo", {"value": "hi"}) == "hi"
    finally:
        os.close(writing)
        os.close(reading)
    assert speedd.stop() == 0


def test_a_speedd_that_is_ended_as_soon_as_its_node_is_seen_ends_in_order(
    start: Callable[..., Speedd], directory: Path
) -> None:
    speedd = start("")
    entry = directory / "root" / "speed_registry" / "speedd.node"
    ends = time.monotonic() + PATIENCE
    while not (entry.exists() and b'"online"' in entry.read_bytes()):
        assert time.monotonic() < ends
    assert speedd.stop() == 0
    assert speedd.seen("stopped")["failed"] is False


def test_a_process_whose_services_are_not_loaded_yet_is_starting_and_its_callers_wait(
    start: Callable[..., Speedd], client: speed.Node, directory: Path
) -> None:
    """R-2: it gave ACCESS_DENIED until then, at each start."""
    speedd = start(ONE.replace("register", "patient"))
    registry = Registry(str(directory / "root"), load_key_file(str(directory / "speed.key")))
    assert until(lambda: (entry := registry.live("one")) is not None and entry.status == "starting", PATIENCE)
    with pytest.raises(speed.NodeStartingError):
        client.call("one", "pid", timeout=0.1)
    answer = client.submit("one", "pid", timeout=PATIENCE)
    (directory / "lib" / "svc.py.go").touch()
    assert answer.result(PATIENCE) > 0
    assert registry.live("one").status == "online"  # type: ignore[union-attr]
    assert speedd.stop() == 0


@pytest.mark.parametrize("number", ["77", "-1", "99999999999999999999"])
def test_a_descriptor_that_is_not_open_is_wrong_usage(directory: Path, number: str) -> None:
    (directory / "speedd.toml").write_text(HEAD)
    done = run("run", "-c", str(directory / "speedd.toml"), "--ready-fd", number)
    assert done.returncode == 2
    assert "--ready-fd" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_descriptor_that_cannot_be_written_to_is_wrong_usage(directory: Path) -> None:
    (directory / "speedd.toml").write_text(HEAD)
    command = [*SPEEDD, "run", "-c", str(directory / "speedd.toml"), "--ready-fd", "0"]
    with open("/dev/null") as reading:
        done = subprocess.run(command, stdin=reading, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 2
    assert "--ready-fd" in done.stderr


def test_a_second_speedd_of_a_root_is_refused_whatever_its_name_until_the_first_is_dead(
    start: Callable[..., Speedd], directory: Path
) -> None:
    first = start("")
    first.until("ready")
    (directory / "second.toml").write_text(HEAD.replace("[node]", '[node]\nname = "second"'))
    refused = run("run", "-c", str(directory / "second.toml"))
    assert refused.returncode == 3
    assert "another speedd serves the root" in refused.stderr
    first.process.kill()
    first.process.wait()
    again = start("", head=HEAD.replace("[node]", '[node]\nname = "second"'))
    again.until("ready")
    assert again.stop() == 0


def test_both_commands_say_the_version_of_the_library() -> None:
    for program in ("speed.daemon", "speed.cli"):
        done = subprocess.run([sys.executable, "-m", program, "--version"], capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert done.stdout.split()[-1] == speed.__version__
