"""Who may write into a node's inbox: grants and denials, receiver-owned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

from speed.wire import names

_CACHE_LIMIT = 4096


def granted(allow: Iterable[str], name: str) -> bool:
    """True when one of the published grant patterns covers ``name`` (the sender's check)."""
    return any(names.matches(pattern, name) for pattern in allow)


class _Rules:
    """One immutable state of a policy, with its own decision cache."""

    __slots__ = ("allow", "cache", "table")

    def __init__(self, table: Mapping[str, bool]) -> None:
        self.table = MappingProxyType(dict(table))
        self.allow = tuple(sorted(pattern for pattern, grant in table.items() if grant))
        self.cache: dict[str, bool] = {}

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
        """Grant: a node name, or ``<name>.*`` for a family. Raises InvalidNameError, then grants none."""
        for pattern in patterns:
            names.check_grant(pattern)
        if patterns:
            self._rules = _Rules({**self._rules.table, **dict.fromkeys(patterns, True)})

    def deny(self, *patterns: str) -> None:
        """Take grants back; an exact name stays denied under a granted family. Raises InvalidNameError."""
        for pattern in patterns:
            names.check_grant(pattern)
        table = dict(self._rules.table)
        for pattern in patterns:
            for covered in [rule for rule in table if _covers(pattern, rule)]:
                del table[covered]
            table[pattern] = False
        self._rules = _Rules(table)

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

    def publishes(self, name: str) -> bool:
        """True when a published grant covers ``name``, even if a denial excepts it."""
        return self.allows(name) or granted(self._rules.allow, name)

    def allowed(self) -> tuple[str, ...]:
        """The grant patterns in force, sorted, as published in the registry entry."""
        return self._rules.allow


def _covers(pattern: str, rule: str) -> bool:
    """True when every name that ``rule`` covers is covered by ``pattern`` too."""
    return pattern == rule or (pattern.endswith(".*") and rule.startswith(pattern[:-1]))
