"""Keccak-256 as it was before SHA-3 changed its padding (G-3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

HASH_BYTES = 32


class Keccak(Protocol):
    """An incremental hash."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> Keccak: ...


def new_keccak(data: bytes = b"") -> Keccak:
    """An incremental hash that begins with ``data``."""
    from sha3 import keccak_256

    begun: Keccak = keccak_256(data)
    return begun


def keccak256(*parts: bytes | memoryview) -> bytes:
    """The 32-byte hash of ``parts``, one behind the other."""
    return hash_all(parts)


def hash_all(parts: Iterable[bytes | memoryview]) -> bytes:
    """As ``keccak256``, of a stream of any size."""
    state = new_keccak()
    for part in parts:
        state.update(part)
    return state.digest()
