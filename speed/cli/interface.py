"""What the services of a node are, read from its descriptions (S-26): methods, their types, and records.

What is described comes from another program. It is read to a bounded depth and size;
what cannot be read may be anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from speed.core.signatures import Description

MAX_DEPTH = 24
"""Of schemas within each other: what lies deeper may be anything."""
MAX_SCHEMAS = 50_000
"""Looked at for one node: behind them, all may be anything."""
MAX_FIELDS = 100
"""Of a record, and parameters of a service: one with more is a map."""
MAX_NAME_CHARACTERS = 60
_MAX_TUPLES = 8
_FORMATS = frozenset(
    {"decimal", "date", "time", "uuid", "path", "date-time", "local-date-time", "microseconds", "duration", "binary"}
)
_SIMPLE = {"null", "boolean", "integer", "number", "string", "array", "object"}
_WORDS = re.compile(r"[A-Za-z0-9]+")
_REFERENCE = "#/$defs/"


class Type(NamedTuple):
    """A type of values.

    ``kind`` is a type or a format of JSON Schema, or one of ``any``, ``bytes``, ``column``, ``ndarray``, ``list``,
    ``set``, ``tuple``, ``map``, ``record``, ``choice`` and ``union``.
    """

    kind: str
    parts: tuple[Type, ...] = ()
    """Of items, of values of a map, of the parts of a union."""
    name: str = ""
    """Of a record, as the interface names it; of the items of an array of numbers."""
    choices: tuple[str | int | bool, ...] = ()

    @property
    def is_optional(self) -> bool:
        """Whether it may be null, and something else."""
        return self.kind == "union" and NULL in self.parts

    @property
    def present(self) -> Type:
        """Without null."""
        return union(part for part in self.parts if part != NULL) if self.is_optional else self


ANY, NULL = Type("any"), Type("null")


def union(parts: Iterable[Type]) -> Type:
    """Each part once; the part itself where there is one."""
    flat = [inner for part in parts for inner in (part.parts if part.kind == "union" else (part,))]
    found = tuple(dict.fromkeys(flat))
    if not found or ANY in found:
        return ANY
    return found[0] if len(found) == 1 else Type("union", found)


class TypedMember(NamedTuple):
    """A parameter, or a field of a record; ``key`` is its name on the wire."""

    key: str
    type: Type
    is_required: bool


@dataclass
class RecordType:
    """A map with known fields."""

    name: str
    fields: tuple[TypedMember, ...] = ()


@dataclass(frozen=True)
class Operation:
    """One service."""

    service: str
    summary: str
    parameters: tuple[TypedMember, ...] | None
    """None: it does not say."""
    others: Type | None
    """What further arguments are; None: there are none."""
    result: Type
    """Of one that gives items, of an item."""
    gives: bool = False
    takes: bool | None = False
    """Items of the caller; None: it does not say."""

    @property
    def streams(self) -> bool:
        return self.gives or self.takes is not False


@dataclass
class Interface:
    """All services of one node."""

    node: str
    methods: list[Operation] = field(default_factory=list)
    records: dict[str, RecordType] = field(default_factory=dict)
    """By name, in the order in which they were met."""


def words(text: str) -> list[str]:
    """What a name is made of, in ASCII."""
    return _WORDS.findall(text[:MAX_NAME_CHARACTERS])


def type_name(text: str, otherwise: str) -> str:
    """A name for a type: ``px.fast-1`` is ``PxFast1``."""
    found = "".join(word[0].upper() + word[1:] for word in words(text))
    return found if found and not found[0].isdigit() else otherwise + found


class Names:
    """Names that a text of a program may have, each once: no word of the language, and none that is taken."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def take(self, wanted: str, otherwise: str) -> str:
        """The wanted one where that is possible, else one like it."""
        plain = re.sub(r"[^A-Za-z0-9_]", "_", wanted[:MAX_NAME_CHARACTERS]).lstrip("_")
        plain = re.sub(r"__+", "_", plain)  # two of them are C++'s own
        plain = plain if plain and not plain[0].isdigit() else otherwise + ("_" + plain if plain else "")
        made, number = plain, 2
        if made in self._taken:
            made = f"{plain.rstrip('_')}_"
        while made in self._taken:
            made, number = f"{plain.rstrip('_')}_{number}", number + 1
        self._taken.add(made)
        return made


class _SchemaReader:
    """Reads the schemas of one node."""

    def __init__(self, interface: Interface, names: Names) -> None:
        self._interface, self._names = interface, names
        self._known: dict[str, str] = {}
        self._left = MAX_SCHEMAS
        self._definitions: Mapping[str, Any] = {}
        self._within: set[str] = set()

    def result(self, schema: Mapping[str, Any], what: str) -> Type:
        """The type of a whole schema, which has its own definitions; ``what`` names records that have no name."""
        self._begin(schema)
        return self._type(schema, what, MAX_DEPTH)

    def parameters(self, schema: Mapping[str, Any], what: str) -> tuple[tuple[TypedMember, ...] | None, Type | None]:
        """The parameters of a service, and what others are."""
        self._begin(schema)
        if not _is_bounded(schema):
            return None, ANY
        more = schema.get("additionalProperties", True)
        others = None if more is False else self._type(more, what, MAX_DEPTH)
        return self._fields(schema, what, MAX_DEPTH), others

    def _begin(self, schema: Mapping[str, Any]) -> None:
        definitions = schema.get("$defs")
        self._definitions = definitions if isinstance(definitions, dict) else {}

    def _fields(self, schema: Mapping[str, Any], what: str, depth: int) -> tuple[TypedMember, ...]:
        properties, required = schema.get("properties"), schema.get("required")
        known = properties if isinstance(properties, dict) else {}
        must = {one for one in required if isinstance(one, str)} if isinstance(required, list) else set()
        found = [
            TypedMember(key, self._type(inner, f"{what} {key}", depth - 1), key in must)
            for key, inner in known.items()
            if isinstance(key, str)
        ]
        return tuple(sorted(found, key=lambda one: not one.is_required))

    def _type(self, schema: Any, what: str, depth: int) -> Type:
        self._left -= 1
        if not isinstance(schema, dict) or depth <= 0 or self._left < 0:
            return ANY
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._referred(reference, what, depth)
        parts = schema.get("anyOf", schema.get("oneOf"))
        if isinstance(parts, list):
            return union([self._type(part, what, depth - 1) for part in parts])
        whole = schema.get("allOf")
        if isinstance(whole, list) and len(whole) == 1:
            return self._type(whole[0], what, depth - 1)
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list):
            return _choice(choices)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return union([self._type({**schema, "type": kind}, what, depth - 1) for kind in kinds])
        return self._plain(kinds, schema, what, depth) if isinstance(kinds, str) and kinds in _SIMPLE else ANY

    def _plain(self, kind: str, schema: Mapping[str, Any], what: str, depth: int) -> Type:
        form = schema.get("format")
        if not isinstance(form, str):
            form = ""
        if kind == "array":
            return Type("column") if form == "column" else self._list(schema, what, depth)
        if kind == "object":
            return self._object(schema, form, what, depth)
        if kind == "string" and (schema.get("contentEncoding") == "base64" or form == "binary"):
            return Type("bytes")
        is_number = form == "microseconds"
        fits = form in _FORMATS and (kind == "integer" if is_number else kind == "string" and form != "duration")
        return Type(form if fits else kind)

    def _list(self, schema: Mapping[str, Any], what: str, depth: int) -> Type:
        places = schema.get("prefixItems")
        if isinstance(places, list):
            parts = tuple(self._type(part, what, depth - 1) for part in places)
            least = schema.get("minItems")
            fewest = least if type(least) is int and 0 <= least <= len(parts) else len(parts)
            if len(parts) - fewest >= _MAX_TUPLES:
                return Type("list", (ANY,))
            return union(Type("tuple", parts[:count]) for count in range(fewest, len(parts) + 1))
        kind = "set" if schema.get("uniqueItems") is True else "list"
        return Type(kind, (self._type(schema.get("items"), what, depth - 1),))

    def _object(self, schema: Mapping[str, Any], form: str, what: str, depth: int) -> Type:
        if form.startswith("ndarray"):
            return Type("ndarray", (), form.removeprefix("ndarray").removeprefix(" of "))
        if form == "table":
            return Type("table")
        if not isinstance(schema.get("properties"), dict) or not _is_bounded(schema):
            return Type("map", (self._type(schema.get("additionalProperties"), what, depth - 1),))
        return self._record(json.dumps(schema, default=repr), schema, what, depth)

    def _referred(self, reference: str, what: str, depth: int) -> Type:
        name = reference.removeprefix(_REFERENCE)
        schema = self._definitions.get(name) if reference.startswith(_REFERENCE) else None
        if not isinstance(schema, dict):
            return ANY
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and _is_bounded(schema):
            return self._record(self._closure(name), schema, name, depth)
        if name in self._within:  # one that is no record and holds itself
            return ANY
        self._within.add(name)
        found = self._type(schema, name, depth - 1)
        self._within.discard(name)
        return found

    def _record(self, key: str, schema: Mapping[str, Any], what: str, depth: int) -> Type:
        """``key`` is all that the record is: services share records that are the same."""
        if key not in self._known:
            name = self._known[key] = self._names.take(type_name(what, "Record"), "Record")
            record = self._interface.records[name] = RecordType(name)
            record.fields = self._fields(schema, name, depth)
        return Type("record", (), self._known[key])

    def _closure(self, name: str) -> str:
        """A definition with all that it refers to."""
        found: dict[str, str] = {}
        ahead = [name]
        while ahead:
            one = ahead.pop()
            if one not in found:
                text = found[one] = json.dumps(self._definitions.get(one), default=repr)
                ahead += [inner for inner in re.findall(r'"#/\$defs/([^"\\]*)"', text) if inner in self._definitions]
        self._left -= len(found)
        return json.dumps([name, sorted(found.items())])


def _is_bounded(schema: Mapping[str, Any]) -> bool:
    """Whether a language may have so many fields and parameters (Java has 255)."""
    properties = schema.get("properties")
    return not isinstance(properties, dict) or len(properties) <= MAX_FIELDS


def _choice(choices: list[Any]) -> Type:
    kept = tuple(one for one in choices if isinstance(one, str | int))
    if not kept or any(one is not None and not isinstance(one, str | int) for one in choices):
        return ANY
    return union((Type("choice", (), "", kept), *([NULL] if None in choices else [])))


def read(node: str, described: Iterable[Description], names: Names) -> Interface:
    """What may be called at ``node``; ``names`` are those that its records may have."""
    interface = Interface(node)
    reader = _SchemaReader(interface, names)
    for one in described:
        parameters: tuple[TypedMember, ...] | None = None
        others: Type | None = ANY
        if isinstance(one.parameters, dict):
            parameters, others = reader.parameters(one.parameters, one.name)
        result = reader.result(one.result, f"{one.name} result") if isinstance(one.result, dict) else ANY
        interface.methods.append(Operation(one.name, one.summary, parameters, others, result, *_items_of(one)))
    return interface


def _items_of(one: Description) -> tuple[bool, bool | None]:
    """Whether a service gives items, and takes some."""
    if not one.streaming:
        return False, False
    return one.items != "caller", None if one.items is None else one.items != "service"


def placed(interface: Interface) -> tuple[list[RecordType], set[tuple[str, str]]]:
    """Records behind those that they hold; and which of them hold which one only loosely, since it holds them."""
    ordered: list[RecordType] = []
    is_placed: dict[str, bool] = {}
    cut: set[tuple[str, str]] = set()

    def place(record: RecordType) -> None:
        is_placed[record.name] = False
        for held in (name for one in record.fields for name in _held(one.type)):
            if held not in is_placed:
                place(interface.records[held])
            elif not is_placed[held]:
                cut.add((record.name, held))
        is_placed[record.name] = True
        ordered.append(record)

    for record in interface.records.values():
        if record.name not in is_placed:
            place(record)
    return ordered, cut


def _held(type_: Type) -> Iterator[str]:
    """Records that must be whole where this type stands: a vector does without."""
    if type_.kind == "record":
        yield type_.name
    for part in type_.parts if type_.kind not in ("list", "set", "tuple") else ():
        yield from _held(part)


# What writers of all languages share.

WIDTH = 100


def vocabulary(text: str) -> frozenset[str]:
    """The words of a language, which no name may be."""
    return frozenset(text.split())


def written_by(node: str, language: str) -> str:
    return f"The services of {node}, as methods with types. Written by `speed stub {node} --language {language}`."


def wrapped(head: str, listed: list[str], tail: str, inner: str, outer: str | None = None) -> str:
    """In one line, or one for each where it would be long; with ``outer`` the end has a line of its own."""
    line = f"{head}{', '.join(listed)}{tail}"
    if len(line) <= WIDTH or not listed:
        return line
    end = "" if outer is None else f"{'' if listed[-1].startswith('*') else ','}\n{outer}"
    return f"{head}\n{inner}" + f",\n{inner}".join(listed) + f"{end}{tail}"
