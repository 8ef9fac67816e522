"""A private root, a registry, a lane, contender processes; and no test leaves anything open."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from speed.fs.registration import Registration, register
from speed.fs.registry import Registry
from speed.fs.root import prepare_root
from speed.wire.seal import Keyring
from tests.fs.lanes import Lane

HERE = pathlib.Path(__file__).parent
KEY = bytes(range(32))


class OneProcess(Registry):
    """A registry as one process has it: what was registered is let go of when the process ends."""

    def __init__(self, root: pathlib.Path, keyring: Keyring) -> None:
        prepare_root(str(root))
        super().__init__(str(root), keyring, is_prepared=True)
        self._registered: list[Registration] = []

    def register(self, name: str, **options: Any) -> Registration:
        self._registered.append(register(self, name, **options))
        return self._registered[-1]

    def end(self) -> None:
        for registration in self._registered:
            registration.release()


def opened_in(directory: pathlib.Path) -> set[tuple[str, str]]:
    """Number and target of each descriptor that leads there, or watches; others of this process do not count."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # that of the listing itself
        if target.startswith((str(directory), "anon_inode:inotify")):
            found.add((number, target))
    return found


@pytest.fixture(autouse=True)
def nothing_stays_open(tmp_path: pathlib.Path) -> Iterator[None]:
    """Every test closes what it opens: a descriptor that is left was lost by the code under test."""
    before = opened_in(tmp_path)
    yield
    if opened_in(tmp_path) - before:
        gc.collect()  # frames that an exception keeps
        assert opened_in(tmp_path) <= before


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
def registry(root: pathlib.Path, keyring: Keyring) -> Iterator[Registry]:
    process = OneProcess(root, keyring)
    yield process
    process.end()


@pytest.fixture
def reader(registry: Registry, root: pathlib.Path, keyring: Keyring) -> Iterator[Registry]:
    """The same root as another process sees it."""
    process = OneProcess(root, keyring)
    yield process
    process.end()


@pytest.fixture
def in_each_pause(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """What happens while a registration waits, and no time passes. Other threads of this process sleep as ever."""

    def does(action: Callable[[], object]) -> None:
        instead = {**vars(time), "sleep": lambda seconds: action()}
        monkeypatch.setattr("speed.fs.registration.time", types.SimpleNamespace(**instead))

    return does


@pytest.fixture
def lane(tmp_path: pathlib.Path) -> Iterator[Lane]:
    opened = Lane(tmp_path)
    yield opened
    opened.close()


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
