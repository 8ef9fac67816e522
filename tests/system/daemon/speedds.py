"""A real speedd in a directory of its own, its log read line by line."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speed.cli.keys import holders
from speed.fs.keyfile import load_key_file
from speed.fs.registry import Registry

PATIENCE = 30.0

SERVICES = """
import os, signal, time
def register(node):
    @node.service("pid")
    def pid() -> int:
        return os.getpid()
    @node.service("slow")
    def slow() -> str:
        time.sleep(0.5)
        return "finished"
    print("up:", node.name)
def stubborn(node):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    register(node)
def patient(node):
    while not os.path.exists(__file__ + ".go"):
        time.sleep(0.01)
    register(node)
def crashing(node):
    raise RuntimeError("no luck")
def echo(value: str) -> str:
    return value
"""

HEAD = """
[node]
root = "root"
key = "speed.key"
allow = ["test"]
lease_seconds = 2
heartbeat_seconds = 0.4
[log]
level = "debug"
[python]
path = ["lib"]
[[service]]
name = "echo"
entry = "svc:echo"
"""
ONE = '[[process]]\nname = "one"\nentry = "svc:register"\nallow = ["test"]\n'


class Speedd:
    """A running speedd, its log read line by line."""

    def __init__(
        self,
        directory: Path,
        config: str,
        environment: dict[str, str] | None = None,
        head: str = HEAD,
        options: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.file = directory / "speedd.toml"
        self.file.write_text(head + config)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "speed.daemon", "run", "-c", str(self.file), *options],
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds,
            env={**os.environ, **(environment or {})},
        )
        self.events: list[dict[str, Any]] = []
        # A test that waits for what never comes fails by the end of the log.
        self.limit = threading.Timer(2 * PATIENCE, self.process.kill)
        self.limit.start()

    def until(self, event: str, **fields: Any) -> dict[str, Any]:
        """Read the log up to an event with these fields."""
        assert self.process.stderr is not None
        for text in self.process.stderr:
            line = json.loads(text)
            self.events.append(line)
            if line["event"] == event and fields.items() <= line.items():
                return line
        raise AssertionError(f"speedd ended before {event} {fields}: {self.events}")

    def seen(self, event: str) -> dict[str, Any]:
        """The last line with an event that was read already."""
        return next(line for line in reversed(self.events) if line["event"] == event)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Read the rest of the log and return the exit status."""
        assert self.process.stderr is not None
        self.events.extend(json.loads(text) for text in self.process.stderr)
        return self.process.wait(timeout=PATIENCE)

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def check(self) -> subprocess.CompletedProcess[str]:
        """What ``speedd check`` says of the file as it is now."""
        command = [sys.executable, "-m", "speed.daemon", "check", "-c", str(self.file)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def follow(directory: Path) -> list[str]:
    """Wait until all nodes have the keys of the file; the names of those that have."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ring = load_key_file(str(directory / "speed.key"))
        found = holders(Registry(str(directory / "root"), ring))
        if all(one.state == "current" for one in found):
            return [one.name for one in found]
        time.sleep(0.1)
    raise AssertionError(f"not all have the keys of the file: {found}")


def wait_gone(pidfd: int, seconds: float) -> None:
    """A pidfd becomes readable when its process ends."""
    ends = select.poll()
    ends.register(pidfd, select.POLLIN)
    try:
        assert ends.poll(seconds * 1000), "it still runs"
    finally:
        os.close(pidfd)
