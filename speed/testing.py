"""For tests of programs that use SPEED: real nodes in a root of their own. In ``conftest.py``:

    pytest_plugins = ["speed.testing"]

and in a test:

    def test_billing_answers(speed_node):
        billing = speed_node("billing", allow=["shop"])
        billing.register("double", lambda x: 2 * x)
        assert speed_node("shop").call("billing", "double", {"x": 21}) == 42

``speed_topics`` makes durable topics, and ``speedd`` runs a speedd with a configuration of the test's own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

import speed

_DRAIN_SECONDS = 1.0
START_SECONDS = 60.0
"""How long a speedd may take to be ready."""
STOP_SECONDS = 15.0
KEPT_LINES = 200
TEST_NODE = "test"
"""The node by which a test itself uses the topics of ``speed_topics``."""


@contextmanager
def temporary_root() -> Iterator[str]:
    """A communication directory with a key, in memory where the system has such a place; removed at the end.

    ``$SPEED_ROOT`` and ``$SPEED_KEY`` name it meanwhile, so ``speed.Node("billing")`` finds it, and child processes do.
    """
    path = tempfile.mkdtemp(prefix="speed-test-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)  # noqa: S108
    key = os.path.join(path, "speed.key")
    before = {name: os.environ.get(name) for name in ("SPEED_ROOT", "SPEED_KEY")}
    try:
        speed.init_root(path, key)
        os.environ.update(SPEED_ROOT=path, SPEED_KEY=key)
        yield path
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def speed_root() -> Iterator[str]:
    """The path of a root for one test, with a key; the environment names it until the test ends."""
    with temporary_root() as path:
        yield path


@pytest.fixture
def speed_node(speed_root: str) -> Iterator[Callable[..., speed.Node]]:
    """Makes nodes in ``speed_root``: ``speed_node("billing", workers=1)``. They are closed after the test."""
    made: list[speed.Node] = []

    def make(name: str, **options: object) -> speed.Node:
        made.append(speed.Node(name, root=speed_root, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for node in reversed(made):
        node.close(drain_seconds=_DRAIN_SECONDS)


# Durable topics, and whatever else speedd hosts.


class Speedd:
    """A speedd that runs for one test; the fixture ``speedd`` makes it.

    Attributes:
        process: the operating-system process.
        lines: the last lines of its log.
    """

    def __init__(self, config: str) -> None:
        """Returns once it is ready. ``config`` is the path of its configuration. RuntimeError if it ends or hangs."""
        command = [sys.executable, "-m", "speed.daemon", "run", "-c", config]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._is_ready = False
        self._known = threading.Event()
        self._reader = threading.Thread(target=self._read, name="speedd-log", daemon=True)
        self._reader.start()
        self._known.wait(START_SECONDS)
        if not self._is_ready:
            self.close()
            raise RuntimeError("speedd did not become ready:\n" + "".join(self.lines))

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if not self._is_ready and _event(line) == "ready":
                self._is_ready = True
                self._known.set()
        self._known.set()

    def close(self) -> None:
        """End it as a supervisor would, and kill it if it does not end."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(STOP_SECONDS)
        if self.process.stderr is not None:
            self.process.stderr.close()


def _event(line: str) -> object:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record.get("event") if isinstance(record, dict) else None


@pytest.fixture
def speedd(speed_root: str) -> Iterator[Callable[[str], Speedd]]:
    """Runs a speedd in ``speed_root`` with this configuration, in TOML: ``speedd('[[topic]] …')``.

    Its ``[node]`` with root and key is added. It is ready when this returns, and ended after the test.
    """
    started: list[Speedd] = []

    def start(config: str) -> Speedd:
        path = os.path.join(speed_root, f"speedd-{len(started)}.toml")
        with open(path, "w", encoding="utf-8") as file:
            node = {"root": speed_root, "key": os.environ["SPEED_KEY"]}
            file.write("[node]\n" + "".join(f"{name} = {json.dumps(text)}\n" for name, text in node.items()) + config)
        started.append(Speedd(path))
        return started[-1]

    yield start
    for one in reversed(started):
        one.close()


@pytest.fixture
def speed_topics(
    speedd: Callable[[str], Speedd], speed_node: Callable[..., speed.Node]
) -> Callable[..., list[speed.Topic]]:
    """Makes durable topics, once in a test: ``orders, paid = speed_topics("orders", "paid", allow=["shop"])``.

    The nodes and families in ``allow`` may publish, consume and manage them, and so may the node ``test``, by which the
    topics that are returned are used.
    """

    def make(*topics: str, allow: Sequence[str] = ()) -> list[speed.Topic]:
        granted = json.dumps([TEST_NODE, *allow])
        grants = "".join(f"{right} = {granted}\n" for right in ("publish", "consume", "manage"))
        speedd(f"[topics]\n{grants}" + "".join(f"[[topic]]\nname = {json.dumps(topic)}\n" for topic in topics))
        node = speed_node(TEST_NODE)
        return [node.topic(topic) for topic in topics]

    return make
