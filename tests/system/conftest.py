"""Real nodes in a private root; other processes run small scripts and are always ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import speed
from speed.fs.keyfile import write_key_file
from speed.spark import Speed, register
from tests.system.commands import Command
from tests.system.journals_for_spark import Recorded
from tests.system.segments import Outsider
from tests.system.spark_sessions import Sessions

LINE_SECONDS = 30.0


def make_root() -> Iterator[str]:
    """An empty communication directory with a key, removed afterwards."""
    path = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    write_key_file(f"{path}/speed.key", (os.urandom(32),))
    yield path
    shutil.rmtree(path, ignore_errors=True)


root = pytest.fixture(make_root, name="root")
module_root = pytest.fixture(make_root, name="module_root", scope="module")


@pytest.fixture(scope="session")
def spark_sessions() -> Iterator[Sessions]:
    """The Spark session of this process, kept from module to module: it takes seconds to start."""
    sessions = Sessions()
    yield sessions
    sessions.stop()


@pytest.fixture(scope="module")
def spark(spark_sessions: Sessions) -> Any:
    """A session on two cores. Modules that use it are called ``test_spark…``: see ``tests/conftest.py``."""
    return spark_sessions.get()


@pytest.fixture(scope="module", params=["python", "jvm"])
def path(request: pytest.FixtureRequest) -> str:
    """Each way in which Spark's executors call services."""
    return str(request.param)


@pytest.fixture(scope="module")
def sp(spark: Any, module_root: str, path: str) -> Iterator[Speed]:
    """Services for DataFrames, on a root that the module's nodes share."""
    yield (speed_of_spark := Speed(spark, root=module_root, path=path))
    speed_of_spark.close()


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    """A session that knows the format ``speed``."""
    register(spark)
    return spark


@pytest.fixture
def recorded(root: str) -> Iterator[Recorded]:
    """A journal in ``root``, to be filled by the test."""
    journal = Recorded(root)
    yield journal
    journal.close()


@pytest.fixture
def node(root: str) -> Iterator[Callable[..., speed.Node]]:
    """Makes nodes in ``root`` and closes them."""
    made: list[speed.Node] = []

    def make(name: str, **options: object) -> speed.Node:
        made.append(speed.Node(name, root=root, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in reversed(made):
        one.close(drain_seconds=1)


ENGINES = ("python", "native")


@pytest.fixture(params=ENGINES)
def kind(request: pytest.FixtureRequest) -> str:
    """Each engine in turn."""
    return str(request.param)


@pytest.fixture
def make(node: Callable[..., speed.Node], kind: str) -> Callable[..., speed.Node]:
    """As ``node``, on each engine in turn."""
    return partial(node, engine=kind)


@pytest.fixture
def outsider(make: Callable[..., speed.Node], node: Callable[..., speed.Node]) -> Outsider:
    """A sender of segments to a node of each engine in turn."""
    return Outsider(node("analytics", allow=["billing"], engine="python"))


@pytest.fixture
def run(tmp_path: Path) -> Command:
    """The command line, on a root of its own."""
    command = Command(tmp_path / "root")
    speed.init_root(command.root)  # as `speed root init` does, without a process
    return command


class Child:
    """Another process; its output is read line by line with a bounded wait."""

    def __init__(self, script: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: Queue[str] = Queue()
        threading.Thread(target=self._read, name="child-output", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put("<end>")

    def line(self) -> str:
        return self.lines.get(timeout=LINE_SECONDS)

    def rest(self) -> list[str]:
        """All further lines until the process ends."""
        found: list[str] = []
        while (line := self.line()) != "<end>":
            found.append(line)
        self.process.wait(LINE_SECONDS)  # its output ends a moment before it
        return found

    def tell(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LINE_SECONDS)


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    """Starts other processes and kills them at the end."""
    started: list[Child] = []

    def start(script: str, *arguments: str) -> Child:
        started.append(Child(script, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.kill()
