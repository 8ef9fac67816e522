"""Who may publish, consume and manage which topic (D-17)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from speed.core.access import AccessPolicy
from speed.topics.subscription import SubscriptionError

RIGHTS = ("publish", "consume", "manage")


@dataclass(frozen=True)
class Grants:
    """Names or families for each right; None: those for all topics hold."""

    publish: tuple[str, ...] | None = None
    consume: tuple[str, ...] | None = None
    manage: tuple[str, ...] | None = None


class Access:
    """The grants of all topics; nobody may do anything without one."""

    def __init__(self, general: Grants, narrowed: Mapping[str, Grants]) -> None:
        """``narrowed`` are those of single topics. Raises InvalidNameError."""
        self._general = {right: AccessPolicy(getattr(general, right) or ()) for right in RIGHTS}
        self._narrowed: dict[tuple[str, str], AccessPolicy] = {}
        for topic, grants in narrowed.items():
            for right in RIGHTS:
                patterns: tuple[str, ...] | None = getattr(grants, right)
                if patterns is not None:
                    self._narrowed[topic, right] = AccessPolicy(patterns)

    def allows(self, caller: str, right: str, topic: str) -> bool:
        """Whether ``caller`` has ``right`` in ``topic``."""
        return self._narrowed.get((topic, right), self._general[right]).allows(caller)

    def check(self, caller: str, right: str, topic: str) -> None:
        """Raises SubscriptionError DENIED."""
        if not self.allows(caller, right, topic):
            raise SubscriptionError("DENIED", f"node {caller!r} may not {right} topic {topic!r}")

    def sees(self, caller: str, topic: str) -> bool:
        """Whether ``caller`` may do anything with ``topic``."""
        return any(self.allows(caller, right, topic) for right in RIGHTS)


def everybody(grants: Iterable[Grants]) -> tuple[str, ...]:
    """All that are named anywhere: who may write to the host."""
    named = {pattern for one in grants for right in RIGHTS for pattern in getattr(one, right) or ()}
    return tuple(sorted(named))
