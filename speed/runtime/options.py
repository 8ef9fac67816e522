"""What a program asks of a node, before anything is checked: the same for every engine."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speed.errors import ConfigurationError
from speed.wire.limits import CALL_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from speed.segment.reassembly import Limits

MAX_WORKERS = 256
MAX_OPEN_FILES = 8192
"""For lanes and links, if the program does not say: no more than this, and than half of what the process may have."""
MAX_TIMEOUT_SECONDS = 1e9
MAX_LEASE_SECONDS = 10_000_000
WRITE_MESSAGES = 64
"""Messages that share a write and a ring at most."""
SPIN_SECONDS = 200e-6
"""How long lanes are polled after activity before the reader sleeps: waking a sleeping core costs more (0008)."""
MAX_DELIVERIES_ASKED = 1_000_000
ON_ERROR = ("dead-letter", "retry", "drop")
ON_FULL = ("wait", "drop")
MESSAGE_OPTIONS = frozenset(
    {
        "topic",
        "priority",
        "ttl_seconds",
        "correlation_id",
        "causality_parent",
        "traceparent",
        "labels",
        "baggage",
        "extensions",
    }
)
"""Keyword arguments of ``send`` and ``publish`` (messages.md)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of ``Node``, as given."""

    name: str
    root: str | os.PathLike[str] | None
    key: str | os.PathLike[str] | None
    fabrics: tuple[str, ...]
    lease_seconds: float
    heartbeat_seconds: float
    workers: int
    durability: str
    allow: tuple[str, ...]
    namespace: str
    bell: str
    max_lane_bytes: int
    max_open_files: int | None
    spin_seconds: float | None
    segment_limits: Limits | None = None
    on_error: str = "dead-letter"
    max_deliveries: int = 5
    ephemeral: bool = False


def open_files(asked: int | None) -> int:
    """Descriptors for lanes and links: ``asked``, or the default for None."""
    if asked is None:
        return min(MAX_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    if type(asked) is not int or asked < 1:
        raise ConfigurationError(f"max_open_files is {asked!r}; use a positive number")
    return asked


def in_seconds(timeout: float | None) -> float:
    """``timeout``, or the default for None. One that is over already is right: nothing is waited for."""
    if timeout is None:
        return CALL_TIMEOUT_SECONDS
    if not isinstance(timeout, int | float) or not -MAX_TIMEOUT_SECONDS < timeout < MAX_TIMEOUT_SECONDS:
        raise ConfigurationError(f"timeout is {timeout!r}; use a number of seconds below {MAX_TIMEOUT_SECONDS:.0f}")
    return timeout
