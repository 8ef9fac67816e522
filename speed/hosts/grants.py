"""Who may reach what across hosts: one list, which both sides judge by (H-8). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from speed.errors import AccessDeniedError
from speed.hosts.settings import HostGrantSettings
from speed.wire.hosts import covers, host_of


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
