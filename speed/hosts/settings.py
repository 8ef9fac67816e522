"""What speedd is told of other hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class HostsSettings:
    """``[hosts]``: nodes of this root and of other hosts reach each other as ``node@host``, through a NATS server."""

    name: str
    """What other hosts call this one."""
    address: str = field(repr=False)
    """The NATS server that all hosts reach: ``nats://host:4222``, with the options of backends."""
    allow: tuple[str, ...] = ()
    """Names or families that may ask which hosts there are, as `speed hosts` does. Who may call may also ask."""
    max_calls: int = 64
    """Calls and messages under way at once, out of this host and into it; what is beyond is refused."""


@dataclass(frozen=True)
class HostSettings:
    """``[[host]]``: another host."""

    name: str
    """Its name, as its own speedd says it."""
    key: Path
    """The key file of the two hosts: the same file on both, known to no other. Its keys are followed."""


@dataclass(frozen=True)
class HostGrantSettings:
    """``[[host_grant]]``: who may reach what across hosts. Both hosts need the grant; the same text does for both."""

    callers: tuple[str, ...]
    """Who: ``analytics@hosta``, a family ``etl.*@hosta``, or, for another host, all of its nodes ``*@hosta``."""
    nodes: tuple[str, ...]
    """Whom: ``billing@hostb``, ``etl.*@hostb`` or ``*@hostb``."""
    services: tuple[str, ...] | None = None
    """Only calls of these services; without it all calls, messages and questions."""
