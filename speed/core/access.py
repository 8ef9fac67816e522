"""Who may write to a node and look at it, who holds a name, and who came and went (rules A-n, R-8 to R-12, R-20).

All times are milliseconds. ``monotonic`` times are CLOCK_MONOTONIC of one boot: immune to wall clock jumps, and
comparable only between processes that share a boot id.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeAlias

from speed.errors import ConfigurationError, InvalidNameError, LeaseLostError
from speed.wire import names
from speed.wire.entry import Entry
from speed.wire.limits import MAX_OBSERVERS, MAX_OBSERVERS_BYTES

_CACHE_LIMIT = 4096


def granted(entry: Entry, name: str, fingerprint: str | None = None) -> bool:
    """True when the most specific published pattern that covers ``name`` is a grant (the sender's check).

    ``fingerprint``: of its identity, empty without one; grants of the name that are of identities decide before all
    others (I-8). None asks for the name alone: whoever writes is judged again.
    """
    of_name = [one for one in entry.identities if one.rpartition("@")[0] == name]
    if of_name:
        return fingerprint is None or f"{name}@{fingerprint}" in of_name
    return _specificity(entry.allow, name) > _specificity(entry.deny, name)


def observed(entry: Entry, name: str) -> bool:
    """True when ``name`` may ping a node and ask for its figures without a grant, by what it publishes (A-7)."""
    denied = any(names.matches(one, name) for one in entry.deny)
    of_name = any(one.rpartition("@")[0] == name for one in entry.identities)
    return not denied and not of_name and any(names.matches(one, name) for one in entry.observers)


def may_look(entry: Entry, name: str, fingerprint: str | None = None) -> bool:
    """True when ``name`` may ping a node and ask for its figures: by a grant, or as an observer."""
    return granted(entry, name, fingerprint) or observed(entry, name)


def parse_observers(data: bytes) -> tuple[str, ...]:
    """The names and families in the text of an observers file, sorted; ConfigurationError says what is wrong."""
    if len(data) > MAX_OBSERVERS_BYTES:
        raise ConfigurationError(f"more than {MAX_OBSERVERS_BYTES} bytes: name families such as 'cli.*'")
    found: list[str] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        pattern = line.partition(b"#")[0].strip(b" \t\r")
        if pattern:
            try:
                found.append(names.check_grant(pattern.decode("ascii")))
            except (InvalidNameError, UnicodeDecodeError):
                raise ConfigurationError(f"line {number} is neither a node name nor a family such as 'cli.*'") from None
    if len(found) > MAX_OBSERVERS:
        raise ConfigurationError(f"more than {MAX_OBSERVERS} names: name families such as 'cli.*'")
    return tuple(sorted(set(found)))


def _specificity(patterns: Iterable[str], name: str) -> int:
    """How closely one of them names ``name``: 0 not at all, then by the length of the family, most as a whole."""
    return max((len(one) + (one == name) for one in patterns if names.matches(one, name)), default=0)


class _Rules:
    """One immutable state of a policy, with its own decision cache."""

    __slots__ = ("allow", "cache", "deny", "identities", "observers", "table")

    def __init__(
        self, table: Mapping[str, bool], identities: frozenset[str] = frozenset(), observers: tuple[str, ...] = ()
    ) -> None:
        self.identities, self.observers = identities, observers
        of_identities = {one.rpartition("@")[0] for one in identities}
        self.table = MappingProxyType(dict(table))
        self.allow = tuple(sorted(one for one, grant in table.items() if grant and one not in of_identities))
        denied = sorted(pattern for pattern, grant in table.items() if not grant)
        self.deny = tuple(one for one in denied if self._publishes_denial(one))
        self.cache: dict[str, bool] = {}

    def _publishes_denial(self, denial: str) -> bool:
        """Whether it excepts somebody from what is published."""
        observers = self.observers
        return any(_covers(grant, denial) for grant in (*self.allow, *observers)) or any(
            _covers(denial, one) for one in observers
        )

    def decide(self, name: str) -> bool:
        """The most specific rule that covers ``name`` decides; none: denied."""
        exact = self.table.get(name)
        if exact is not None:
            return exact
        # "etl.eu.1" is looked up as "etl.eu.*", then "etl.*": the longest family first.
        end = name.rfind(".")
        while end > 0:
            family = self.table.get(name[:end] + ".*")
            if family is not None:
                return family
            end = name.rfind(".", 0, end)
        return False


class AccessPolicy:
    """The grants of one node (or one service); denies everyone at first.

    Threads: readers take no lock, each change replaces one immutable state. Changes themselves are serialised by
    the caller (the node's lock): two concurrent changes may lose one.
    """

    __slots__ = ("_rules",)

    def __init__(self, allow: Iterable[str] = ()) -> None:
        """``allow``: grant patterns. Raises InvalidNameError."""
        self._rules = _Rules({})
        self.allow(*allow)

    def allow(self, *patterns: str) -> None:
        """Grant: a node name, ``<name>.*`` for a family, or ``<name>@<fingerprint>`` for one identity (I-8).

        Raises InvalidNameError, then grants none.
        """
        plain = [one.rpartition("@")[0] if names.names_identity(one) else one for one in patterns]
        for pattern, name in zip(patterns, plain, strict=True):
            names.check_grant(name)
            if name != pattern:
                names.check_node_name(name)
        if patterns:
            identities = self._rules.identities.union(one for one in patterns if names.names_identity(one))
            self._rules = _Rules({**self._rules.table, **dict.fromkeys(plain, True)}, identities, self._rules.observers)

    def deny(self, *patterns: str) -> None:
        """Take grants back; an exact name stays denied under a granted family. Raises InvalidNameError."""
        for pattern in patterns:
            names.check_grant(pattern)
        table = dict(self._rules.table)
        for pattern in patterns:
            for covered in [rule for rule in table if _covers(pattern, rule)]:
                del table[covered]
            table[pattern] = False
        kept = (one for one in self._rules.identities if table.get(one.rpartition("@")[0], False))
        self._rules = _Rules(table, frozenset(kept), self._rules.observers)

    def observe(self, patterns: Iterable[str]) -> None:
        """Let these names and families look at the node without a grant, and nobody else (A-7)."""
        self._rules = _Rules(self._rules.table, self._rules.identities, tuple(patterns))

    def undo(self) -> Callable[[], None]:
        """What takes back all changes made after this call."""
        return partial(setattr, self, "_rules", self._rules)

    def allows(self, name: str) -> bool:
        """True when ``name`` may write here. Decided once per name and state."""
        rules = self._rules
        decision = rules.cache.get(name)
        if decision is None:
            decision = rules.decide(name)
            if len(rules.cache) >= _CACHE_LIMIT:  # names come from others: never let them grow our memory
                rules.cache.clear()
            rules.cache[name] = decision
        return decision

    def observes(self, name: str) -> bool:
        """True when ``name`` is an observer: it may look at the node, whatever it is granted (A-7)."""
        rules = self._rules
        if not any(names.matches(one, name) for one in rules.observers):
            return False
        denied = any(not grant and names.matches(pattern, name) for pattern, grant in rules.table.items())
        return not denied and not self.fingerprints(name)

    def observers(self) -> tuple[str, ...]:
        """Who may look at the node without a grant, as published in the registry entry."""
        return self._rules.observers

    def identities(self) -> tuple[str, ...]:
        """The grants that are of one identity, sorted, as published in the registry entry."""
        return tuple(sorted(self._rules.identities))

    def fingerprints(self, name: str) -> tuple[str, ...]:
        """Of the identities that grants of this name are of; empty where any will do."""
        return tuple(one.rpartition("@")[2] for one in self._rules.identities if one.rpartition("@")[0] == name)

    def publishes(self, name: str) -> bool:
        """True when a published grant or observer covers ``name``, even if a denial excepts it."""
        rules = self._rules
        return self.allows(name) or any(names.matches(pattern, name) for pattern in (*rules.allow, *rules.observers))

    def allowed(self) -> tuple[str, ...]:
        """The grant patterns in force, sorted, as published in the registry entry."""
        return self._rules.allow

    def denied(self) -> tuple[str, ...]:
        """What is excepted from the grants in force, sorted, as published in the registry entry."""
        return self._rules.deny


def _covers(pattern: str, rule: str) -> bool:
    """True when every name that ``rule`` covers is covered by ``pattern`` too."""
    return pattern == rule or (pattern.endswith(".*") and rule.startswith(pattern[:-1]))


# Who holds a name: the verdict over another node's entry, and the owner's own lease (rules ).


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
            "one late heartbeat must not cost the name; make the lease longer, or the heartbeat shorter"
        )
    if lease_ms <= 3 * heartbeat_ms + late_ms:
        raise ConfigurationError(
            f"the lease ({lease_ms} ms) must exceed three heartbeats (3 x {heartbeat_ms} ms) and the {late_ms} ms "
            "after which other hosts may see them on this mount; make the lease longer, or mount with a smaller actimeo"
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


@dataclasses.dataclass(frozen=True, slots=True)
class Joined:
    """A node appeared, or came back under a new generation."""

    entry: Entry


@dataclasses.dataclass(frozen=True, slots=True)
class Left:
    """A node is gone: it left, its lease ran out, or a new generation replaced it. ``entry`` is the last one seen."""

    entry: Entry


@dataclasses.dataclass(frozen=True, slots=True)
class Changed:
    """A node published other grants, subscriptions, fabrics or another status."""

    before: Entry
    after: Entry


Event: TypeAlias = Joined | Left | Changed


def diff(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> tuple[Event, ...]:
    """Events that lead from ``before`` to ``after`` (by name): departures first, each kind in order of names."""
    left: list[Event] = []
    joined: list[Event] = []
    changed: list[Event] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and old.generation == new.generation:
            if _published(old) != _published(new):
                changed.append(Changed(old, new))
            continue
        if old is not None:
            left.append(Left(old))
        if new is not None:
            joined.append(Joined(new))
    return (*left, *joined, *changed)


def _published(entry: Entry) -> tuple[object, ...]:
    """What a node says about itself, without its heartbeat."""
    return entry.status, entry.fabrics, entry.allow, entry.deny, entry.subscriptions


class RegistryView:
    """The last reading of the live entries. Not locked: one thread (the watcher) owns it."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Live entries by name as of the last update."""
        return self._entries

    def update(self, live: Iterable[Entry]) -> tuple[Event, ...]:
        """Take a new reading and return what happened since the one before; who is starting has yet to join."""
        after = {entry.name: entry for entry in live if entry.status != "starting"}
        events = diff(self._entries, after)
        self._entries = after
        return events
