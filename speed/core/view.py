"""Joins, departures and changes as differences between two readings of the registry (rule R-20)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from speed.wire.entry import Entry


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
    return entry.status, entry.fabrics, entry.allow, entry.subscriptions


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
