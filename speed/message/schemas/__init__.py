"""Schemas of payloads: JSON Schema, Avro and protobuf behind one face (M-29). Parsed texts and values only, no I/O.

Each format says what one of its nodes marks and what lies below it; the walk is the same for all, and a schema that
contains itself is a place that lies below itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Protocol

from speed.message.errors import SchemaError
from speed.wire import lazily

# The places of a value as a schema marks them: which are personal, which deprecated (M-28, M-29).

PII, DEPRECATED = "pii", "deprecated"
MASK: Final = "***"


@dataclass(eq=False, slots=True)
class FieldRules:
    """What a schema says of one place of a value."""

    marks: set[str] = field(default_factory=set)
    same: list[FieldRules] = field(default_factory=list)
    """What else is said of the same value: branches, references."""
    named: dict[str, FieldRules] = field(default_factory=dict)
    matching: list[tuple[Callable[[str], Any], FieldRules]] = field(default_factory=list)
    others: list[FieldRules] = field(default_factory=list)
    """Under all names that are neither ``named`` nor ``matching``: of maps, all."""
    first: list[FieldRules] = field(default_factory=list)
    """The items that begin a list; ``rest`` are those behind them, ``each`` is any."""
    rest: list[FieldRules] = field(default_factory=list)
    each: list[FieldRules] = field(default_factory=list)

    def below(self, step: str | int) -> list[FieldRules]:
        """What is said of a member of a map, or of an item of a list."""
        if isinstance(step, int):
            return self.each + (self.first[step : step + 1] or self.rest)
        found = [self.named[step]] if step in self.named else []
        found += [place for matches, place in self.matching if matches(step)]
        return found or self.others

    def neighbours(self) -> Iterator[FieldRules]:
        yield from (*self.same, *self.named.values(), *self.others, *self.first, *self.rest, *self.each)
        yield from (place for _, place in self.matching)


Reach = Callable[[Any], FieldRules]
"""The place of another node of the same schema."""


def read_places(
    root: Any, fill: Callable[[Any, FieldRules, Reach], None], key: Callable[[Any], Any] = id
) -> FieldRules:
    """The place of ``root``: ``fill`` says of each node what it marks, and reaches those below it.

    ``key`` tells nodes apart; they live as long as the schema.
    """
    known: dict[Any, FieldRules] = {}
    waiting: list[tuple[Any, FieldRules]] = []

    def reach(node: Any) -> FieldRules:
        name = key(node)
        if name not in known:
            known[name] = FieldRules()
            waiting.append((node, known[name]))
        return known[name]

    top = reach(root)
    while waiting:
        fill(*waiting.pop(), reach)
    return top


def is_marked(top: FieldRules, mark: str) -> bool:
    """Whether any place has the mark."""
    return any(mark in place.marks for place in _all([top], FieldRules.neighbours))


def masked(value: Any, top: FieldRules | None) -> Any:
    """``value`` with what is personal hidden; all of it if no schema is known."""
    return MASK if top is None else _masked(value, [top])


def marked_names(value: Any, top: FieldRules, mark: str) -> list[str]:
    """Dotted names of the marked places that ``value`` has, sorted; lists are left out, ``*`` is any name of a map."""
    return sorted(set(_marked(value, [top], mark, ())))


def _all(places: Iterable[FieldRules], near: Callable[[FieldRules], Iterable[FieldRules]]) -> list[FieldRules]:
    """The places, and all that ``near`` leads to, once each."""
    found = list(dict.fromkeys(places))
    seen = set(found)
    for place in found:  # which grows
        fresh = [one for one in dict.fromkeys(near(place)) if one not in seen]
        seen.update(fresh)
        found += fresh
    return found


def _rules_at(places: Iterable[FieldRules]) -> list[FieldRules]:
    """All rules of the value at ``places``."""
    return _all(places, lambda place: place.same)


def _below(places: Iterable[FieldRules], step: str | int) -> list[FieldRules]:
    return [below for place in places for below in place.below(step)]


def _masked(value: Any, places: list[FieldRules]) -> Any:
    rules = _rules_at(places)
    if any(PII in place.marks for place in rules):
        return MASK
    if isinstance(value, dict):
        return {name: _masked(item, _below(rules, str(name))) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, _below(rules, number)) for number, item in enumerate(value)]
    return value


def _marked(value: Any, places: list[FieldRules], mark: str, path: tuple[str, ...]) -> Iterator[str]:
    rules = _rules_at(places)
    if path and value is not None and any(mark in place.marks for place in rules):
        yield ".".join(path)
    if isinstance(value, dict):
        for name, item in value.items():
            step = name if any(name in place.named for place in rules) else "*"
            yield from _marked(item, _below(rules, str(name)), mark, (*path, step))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _marked(item, _below(rules, number), mark, path)


MAX_SCHEMA_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 32
FORMATS: Final = {
    "json-schema": "speed.message.schemas.json_schema",
    "avro": "speed.message.schemas.avro",
    "protobuf": "speed.message.schemas.protobuf",
}
MODES: Final = ("backward", "forward", "full", "none")


class Schema(Protocol):
    """A parsed schema; ``places`` is what it says of the payload."""

    places: FieldRules

    def check(self, content_type: str, data: bytes | memoryview, value: Any) -> Any:
        """The value as the schema sees it; SchemaError if the payload does not fit."""

    def breaks(self, writer: Any) -> list[str]:
        """Why this schema cannot read all that ``writer``, one of the same format, writes; empty if it can."""


def parse_schema(format_: str, data: bytes, name: str = "") -> Schema:
    """The schema in ``data``; ``name`` chooses the message of a protobuf file. SchemaError for one that is none."""
    if format_ not in FORMATS:
        raise SchemaError(f"schema_format: {format_[:32]!r} is not known; there are {', '.join(FORMATS)}")
    if len(data) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"a schema of {len(data)} bytes is too large; at most {MAX_SCHEMA_BYTES}")
    schema: Schema = lazily.load(FORMATS[format_]).parse(data, name)
    return schema


def schema_hash(data: bytes) -> str:
    """What ``schema_hash`` says of a schema file."""
    return "sha256:" + sha256(data).hexdigest()


def incompatibilities(old: Schema, new: Schema, mode: str) -> list[str]:
    """What speaks against ``new`` in the place of ``old`` under a compatibility mode; empty if nothing does."""
    if type(old) is not type(new):
        return ["the formats differ"] if mode != "none" else []
    found = []
    if mode in ("backward", "full"):
        found += [f"backward: {problem}" for problem in new.breaks(old)]
    if mode in ("forward", "full"):
        found += [f"forward: {problem}" for problem in old.breaks(new)]
    return found
