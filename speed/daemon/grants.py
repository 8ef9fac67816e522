"""Changing the grants of a running node to those of a reloaded configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from speed.wire.names import matches


class _Granting(Protocol):
    def allow(self, *patterns: str) -> None: ...

    def deny(self, *patterns: str) -> None: ...


def change_grants(node: _Granting, old: Iterable[str], new: Iterable[str]) -> None:
    """Make ``new`` the grants of ``node`` where ``old`` were. Grants that stay are never missing in between."""
    wanted = tuple(new)
    # A name that a new family covers is not denied: an exact denial would outlive the family's grant.
    gone = [one for one in old if one not in wanted and not any(matches(grant, one) for grant in wanted)]
    if gone:
        node.deny(*gone)
    if wanted:
        node.allow(*wanted)
