"""A server between hosts, and what is closed after a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hosts.broker import MemoryBroker
from tests.unit.hosts.two import Two


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    one = MemoryBroker()
    yield one
    one.close()


@pytest.fixture(autouse=True)
def engine_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage sees no threads of the native engine; tests/bridges has both."""
    monkeypatch.setenv("SPEED_ENGINE", "python")


@pytest.fixture
def two(tmp_path: Path, broker: MemoryBroker) -> Iterator[Two]:
    both = Two(tmp_path, broker)
    yield both
    both.close()


@pytest.fixture
def busy(tmp_path: Path, broker: MemoryBroker) -> Iterator[Two]:
    """They take one call at a time."""
    both = Two(tmp_path, broker, most=1)
    yield both
    both.close()
