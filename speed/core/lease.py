"""Who holds a name: the verdict over another node's entry, and the owner's own lease (rules R-8 to R-12).

All times are milliseconds. ``monotonic`` times are CLOCK_MONOTONIC of one boot: immune to wall clock jumps, and
comparable only between processes that share a boot id.
"""

from __future__ import annotations

import enum
from typing import Protocol

from speed.errors import ConfigurationError, LeaseLostError


class Verdict(enum.Enum):
    """What an observer knows about a tenure."""

    LIVE = "live"
    STALE = "stale"
    WATCH = "watch"
    """Undecidable by clock or process: stale only when it stays unchanged for a whole lease (rule R-10)."""


class Tenure(Protocol):
    """The part of an entry, or of a claim, that says until when it holds."""

    @property
    def boot_id(self) -> str: ...
    @property
    def lease(self) -> int: ...
    @property
    def heartbeat_monotonic_ms(self) -> int: ...


def judge(
    tenure: Tenure, observer_boot_id: str, monotonic_ms: int, process_alive: bool | None, unchanged_ms: int
) -> Verdict:
    """Decide whether ``tenure`` still holds (rules R-8 to R-10).

    ``monotonic_ms`` must have been read *before* the tenure was read from disk: an owner that renewed in time is
    then always seen. ``process_alive``: None when the process cannot be seen from here (other boot or pid
    namespace). ``unchanged_ms``: how long the observer itself has seen exactly this tenure (0 at first sight).

    | boot   | process | heartbeat age      | verdict                              |
    |--------|---------|--------------------|--------------------------------------|
    | same   | gone    | any                | STALE                                |
    | same   | any     | more than a lease  | STALE                                |
    | same   | any     | 0 to a lease       | LIVE                                 |
    | same   | any     | in the future      | WATCH, STALE after an unchanged lease |
    | other  | unknown | not comparable     | WATCH, STALE after an unchanged lease |
    """
    if tenure.boot_id and tenure.boot_id == observer_boot_id:
        if process_alive is False:
            return Verdict.STALE
        age = monotonic_ms - tenure.heartbeat_monotonic_ms
        if age >= 0:
            return Verdict.STALE if age > tenure.lease else Verdict.LIVE
    return Verdict.STALE if unchanged_ms > tenure.lease else Verdict.WATCH


def check_lease(lease_ms: int, heartbeat_ms: int, late_ms: int = 0) -> None:
    """Raise ConfigurationError unless the lease exceeds three heartbeats (rule R-7).

    ``late_ms``: how long after a heartbeat another host may see it; it comes on top (R-21).
    """
    if heartbeat_ms <= 0:
        raise ConfigurationError(f"the heartbeat interval must be positive, not {heartbeat_ms} ms")
    if lease_ms <= 3 * heartbeat_ms:
        raise ConfigurationError(
            f"the lease ({lease_ms} ms) must exceed three heartbeats (3 x {heartbeat_ms} ms): "
            "one late heartbeat must not cost the name; raise lease_seconds or lower heartbeat_seconds"
        )
    if lease_ms <= 3 * heartbeat_ms + late_ms:
        raise ConfigurationError(
            f"the lease ({lease_ms} ms) must exceed three heartbeats (3 x {heartbeat_ms} ms) and the {late_ms} ms "
            "after which other hosts may see them on this mount; raise lease_seconds, or mount with a smaller actimeo"
        )


class LeaseState(enum.Enum):
    """HELD until the owner loses its lease; LOST is final."""

    HELD = "held"
    LOST = "lost"


class OwnLease:
    """The owner's view of its lease: it stops at the very moment from which others may reclaim (rule R-12)."""

    __slots__ = ("_lease_ms", "_renewed_ms", "_state")

    def __init__(self, lease_ms: int, heartbeat_ms: int, renewed_ms: int) -> None:
        """``renewed_ms``: monotonic time written into the installed entry."""
        check_lease(lease_ms, heartbeat_ms)
        self._lease_ms = lease_ms
        self._renewed_ms = renewed_ms
        self._state = LeaseState.HELD

    @property
    def state(self) -> LeaseState:
        """HELD or LOST, as of the last call of a method."""
        return self._state

    @property
    def expires_ms(self) -> int:
        """The last monotonic millisecond at which the name is still held without a renewal; -1 once it is lost."""
        return -1 if self._state is LeaseState.LOST else self._renewed_ms + self._lease_ms

    def must_stop(self, monotonic_ms: int) -> bool:
        """True when the lease is lost or has run out; running out is final (the state becomes LOST)."""
        if monotonic_ms > self.expires_ms:
            self._state = LeaseState.LOST
        return self._state is LeaseState.LOST

    def renewed(self, written_ms: int, finished_ms: int) -> None:
        """Record a heartbeat: ``written_ms`` is the time inside it, ``finished_ms`` was read after the write.

        Raises LeaseLostError when the write ended after the old lease: an observer may have reclaimed meanwhile.
        """
        if self.must_stop(finished_ms):
            raise LeaseLostError(
                f"the lease of {self._lease_ms} ms ran out before it was renewed; "
                "another process may hold the name now: close this node and make a new one"
            )
        self._renewed_ms = max(self._renewed_ms, written_ms)

    def lose(self) -> None:
        """Mark the lease as lost (another process holds a higher generation)."""
        self._state = LeaseState.LOST
