"""Where a payload's bytes are read from: memory, or anything that gives any part of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

STEP_BYTES = 1 << 20
"""Bytes that are read and hashed at a time."""


class Source(Protocol):
    """A payload of ``size`` bytes; ``read`` gives those from ``begin`` to before ``end``."""

    @property
    def size(self) -> int: ...
    def read(self, begin: int, end: int) -> bytes | memoryview: ...


class Memory:
    """A payload that lies in memory; parts of it are not copied."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data).cast("B")

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, begin: int, end: int) -> memoryview:
        return self._data[begin:end]


def steps(source: Source, begin: int, end: int) -> Iterator[bytes | memoryview]:
    """The bytes from ``begin`` to before ``end``, in parts of bounded size."""
    for at in range(begin, end, STEP_BYTES):
        yield source.read(at, min(at + STEP_BYTES, end))
