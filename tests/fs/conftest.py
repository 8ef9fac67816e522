"""A private root, a registry with settable clocks, and contender processes."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from speed.fs.clock import Clock
from speed.fs.registry import Registry
from speed.wire.seal import Keyring

HERE = pathlib.Path(__file__).parent
KEY = bytes(range(32))


class SetClock:
    """Clocks that stand still until they are moved; a pause moves them."""

    def __init__(self, monotonic_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self.monotonic_ms = monotonic_ms
        self.wall_ms = wall_ms
        self.during_pause: Callable[[], None] = lambda: None

    def pass_ms(self, milliseconds: int) -> None:
        self.monotonic_ms += milliseconds
        self.wall_ms += milliseconds

    def _pause(self, seconds: float) -> None:
        self.during_pause()
        self.pass_ms(int(seconds * 1000))

    def clock(self) -> Clock:
        return Clock(lambda: self.wall_ms, lambda: self.monotonic_ms, self._pause)


class Contender:
    """A contender process; `ask` sends a command and returns the answer."""

    def __init__(self, root: pathlib.Path, lease_ms: int, heartbeat_ms: int) -> None:
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
        command = [sys.executable, str(HERE / "contender.py"), str(root), str(lease_ms), str(heartbeat_ms)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command: str) -> str:
        self.tell(command)
        return self.answer()

    def register(self, name: str) -> str:
        return self.ask(f"register {name} 0")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "root"


@pytest.fixture
def keyring() -> Keyring:
    return Keyring((KEY,))


@pytest.fixture
def registry(root: pathlib.Path, keyring: Keyring) -> Registry:
    return Registry(root, keyring)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def contender(root: pathlib.Path) -> Iterator[Callable[..., Contender]]:
    """Starts contender processes and ends them after the test."""
    started: list[Contender] = []

    def start(lease_ms: int = 30_000, heartbeat_ms: int = 5_000, wait: bool = True) -> Contender:
        process = Contender(root, lease_ms, heartbeat_ms)
        started.append(process)
        if wait:
            assert process.answer() == "ready"
        return process

    yield start
    for process in started:
        process.end()
