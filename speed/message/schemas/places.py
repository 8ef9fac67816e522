"""The places of a value as a schema marks them: which are personal, which deprecated (M-28, M-29).

Each format says what one of its nodes marks and what lies below it; the walk is the same for all, and a schema that
contains itself is a place that lies below itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

PII, DEPRECATED = "pii", "deprecated"
MASK: Final = "***"


@dataclass(eq=False, slots=True)
class Place:
    """What a schema says of one place of a value."""

    marks: set[str] = field(default_factory=set)
    same: list[Place] = field(default_factory=list)
    """What else is said of the same value: branches, references."""
    named: dict[str, Place] = field(default_factory=dict)
    matching: list[tuple[Callable[[str], Any], Place]] = field(default_factory=list)
    others: list[Place] = field(default_factory=list)
    """Under all names that are neither ``named`` nor ``matching``: of maps, all."""
    first: list[Place] = field(default_factory=list)
    """The items that begin a list; ``rest`` are those behind them, ``each`` is any."""
    rest: list[Place] = field(default_factory=list)
    each: list[Place] = field(default_factory=list)

    def below(self, step: str | int) -> list[Place]:
        """What is said of a member of a map, or of an item of a list."""
        if isinstance(step, int):
            return self.each + (self.first[step : step + 1] or self.rest)
        found = [self.named[step]] if step in self.named else []
        found += [place for matches, place in self.matching if matches(step)]
        return found or self.others

    def neighbours(self) -> Iterator[Place]:
        yield from (*self.same, *self.named.values(), *self.others, *self.first, *self.rest, *self.each)
        yield from (place for _, place in self.matching)


Reach = Callable[[Any], Place]
"""The place of another node of the same schema."""


def read_places(root: Any, fill: Callable[[Any, Place, Reach], None], key: Callable[[Any], Any] = id) -> Place:
    """The place of ``root``: ``fill`` says of each node what it marks, and reaches those below it.

    ``key`` tells nodes apart; they live as long as the schema.
    """
    known: dict[Any, Place] = {}
    waiting: list[tuple[Any, Place]] = []

    def reach(node: Any) -> Place:
        name = key(node)
        if name not in known:
            known[name] = Place()
            waiting.append((node, known[name]))
        return known[name]

    top = reach(root)
    while waiting:
        fill(*waiting.pop(), reach)
    return top


def is_marked(top: Place, mark: str) -> bool:
    """Whether any place has the mark."""
    return any(mark in place.marks for place in _all([top], Place.neighbours))


def masked(value: Any, top: Place | None) -> Any:
    """``value`` with what is personal hidden; all of it if no schema is known."""
    return MASK if top is None else _masked(value, [top])


def marked_names(value: Any, top: Place, mark: str) -> list[str]:
    """Dotted names of the marked places that ``value`` has, sorted; lists are left out, ``*`` is any name of a map."""
    return sorted(set(_marked(value, [top], mark, ())))


def _all(places: Iterable[Place], near: Callable[[Place], Iterable[Place]]) -> list[Place]:
    """The places, and all that ``near`` leads to, once each."""
    found = list(dict.fromkeys(places))
    seen = set(found)
    for place in found:  # which grows
        fresh = [one for one in dict.fromkeys(near(place)) if one not in seen]
        seen.update(fresh)
        found += fresh
    return found


def _said(places: Iterable[Place]) -> list[Place]:
    """All that is said of the value at ``places``."""
    return _all(places, lambda place: place.same)


def _below(places: Iterable[Place], step: str | int) -> list[Place]:
    return [below for place in places for below in place.below(step)]


def _masked(value: Any, places: list[Place]) -> Any:
    said = _said(places)
    if any(PII in place.marks for place in said):
        return MASK
    if isinstance(value, dict):
        return {name: _masked(item, _below(said, str(name))) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, _below(said, number)) for number, item in enumerate(value)]
    return value


def _marked(value: Any, places: list[Place], mark: str, path: tuple[str, ...]) -> Iterator[str]:
    said = _said(places)
    if path and value is not None and any(mark in place.marks for place in said):
        yield ".".join(path)
    if isinstance(value, dict):
        for name, item in value.items():
            step = name if any(name in place.named for place in said) else "*"
            yield from _marked(item, _below(said, str(name)), mark, (*path, step))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _marked(item, _below(said, number), mark, path)
