"""Nodes of two hosts reach each other as ``node@host`` (registry_spec/hosts.md): who may, as speedd is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speed.errors import AccessDeniedError
from speed.wire.names import covers, host_of


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


class HostGrants:
    """The grants of one host, which others are never told."""

    def __init__(self, grants: Sequence[HostGrantSettings]) -> None:
        self._grants = tuple(grants)

    def check(self, caller: tuple[str, str], target: tuple[str, str], service: str | None) -> None:
        """AccessDeniedError unless ``caller`` (node and host) may reach ``target``; None: no service is called."""
        for one in self._grants:
            is_service = one.services is None or (service is not None and service in one.services)
            if is_service and covers(one.callers, *caller) and covers(one.nodes, *target):
                return
        who, whom = "@".join(caller), "@".join(target)
        raise AccessDeniedError(f"no [[host_grant]] lets {who} reach {whom}: add one on both hosts")

    def callers_of(self, host: str) -> tuple[str, ...]:
        """Names and families of ``host`` that may call out."""
        found = {pattern.partition("@")[0] for one in self._grants for pattern in _of(one.callers, host)}
        return tuple(sorted(found))


def _of(patterns: Iterable[str], host: str) -> list[str]:
    return [pattern for pattern in patterns if host_of(pattern) == host]
