"""For tests of programs that use SPEED: real nodes in a root of their own. In ``conftest.py``:

    pytest_plugins = ["speed.testing"]

and in a test:

    def test_billing_answers(speed_node):
        billing = speed_node("billing", allow=["shop"])
        billing.register("double", lambda x: 2 * x)
        assert speed_node("shop").call("billing", "double", {"x": 21}) == 42
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import speed

_DRAIN_SECONDS = 1.0


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
