"""Types: hints compiled into checks of values (S-9, V-1, V-2), and into schemas that say what is checked (S-26).

A form is read only where a type hint asks for it; it is written by the value's own type.

A hint that cannot be checked is an error when the program starts, never a promise that nobody keeps.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import enum
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from speed.core.readers import ANYTHING, Hint, Misfit, RecordMember, Schema, built, items_reader, record_reader
from speed.errors import ConfigurationError, InvalidNameError
from speed.wire import lazily
from speed.wire.column import Column
from speed.wire.limits import CALL_TIMEOUT_SECONDS
from speed.wire.text import MAX_SPAN_SECONDS, describe, type_name
from speed.wire.value import ARRAY_TYPES, FORMS, Form, member_form, read_array

_LISTS = frozenset({list, tuple})
_MAPS = frozenset({dict})
_SIMPLE: dict[Any, tuple[frozenset[type], Schema]] = {
    int: (frozenset({int}), {"type": "integer"}),
    float: (frozenset({float, int}), {"type": "number"}),
    str: (frozenset({str}), {"type": "string"}),
    bool: (frozenset({bool}), {"type": "boolean"}),
    bytes: (frozenset({bytes}), {"type": "string", "contentEncoding": "base64"}),
    list: (_LISTS, {"type": "array"}),
    dict: (_MAPS, {"type": "object"}),
    type(None): (frozenset({type(None)}), {"type": "null"}),
    dt.datetime: (frozenset({dt.datetime}), {"type": "string", "format": "date-time"}),
    Column: (frozenset({Column}), {"type": "array", "format": "column"}),
    collections.abc.Sequence: (_LISTS, {"type": "array"}),
    collections.abc.Iterable: (_LISTS, {"type": "array"}),
    collections.abc.Collection: (_LISTS, {"type": "array"}),
    collections.abc.Mapping: (_MAPS, {"type": "object"}),
}
_COLLECTIONS: dict[Any, Callable[[Any], Any]] = {
    tuple: tuple,
    typing.Tuple: tuple,  # noqa: UP006 - that is what a program wrote
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
}
"""What is made of a list, where a hint asks for another collection."""
_POSSIBLE = (
    "bool, int, float, str, bytes, memoryview, datetime, date, time, timedelta, Decimal, UUID, Path, an Enum, "
    "a dataclass, a NamedTuple, a TypedDict, a Struct of msgspec, a model of pydantic, None, list[…], tuple[…], "
    "set[…], dict[str, …], Literal[…], numpy.ndarray, pyarrow.Table, pyarrow.RecordBatch, "
    "a union of these, speed.Column, or Any"
)
_MAX_CHOICES = 8
"""Members of an enumeration that an error names."""


Types = Mapping[Any, frozenset[type]]


class Known:
    """What is compiled already of one signature: records may hold others of their kind."""

    def __init__(self, also: Types = types.MappingProxyType({})) -> None:
        """``also`` are types that fit beside those of the wire."""
        self.also = also
        self.records: dict[Any, Hint] = {}
        self.definitions: dict[str, Schema] = {}
        """The schemas of records by their names."""

    def name_of(self, kind: Any) -> str:
        """The name of a record in schemas: another one may have the same."""
        name: str = kind.__name__
        number = 2
        while name in self.definitions:
            name, number = f"{kind.__name__}{number}", number + 1
        self.definitions[name] = {}
        return name


def compile_hint(hint: Any, what: str, also: Types = types.MappingProxyType({}), known: Known | None = None) -> Hint:
    """The check of ``hint``; ``also`` are types that fit beside those of the wire.

    Raises ConfigurationError for one that cannot be checked; ``what`` says there whose hint it is.
    """
    known = Known(also) if known is None else known
    if hint is Any or hint is object:
        return ANYTHING
    simple = _simple(hint, known.also)
    if simple is not None:
        return simple
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        named = _class(hint, what, known)
        if named is not None:
            return named
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return compile_hint(arguments[0], what, known=known)
    if origin is typing.Union or origin is types.UnionType:
        return _union(describe(hint), [compile_hint(part, what, known=known) for part in arguments])
    if origin is typing.Literal and all(type(value) in (str, int, bool, bytes, type(None)) for value in arguments):
        return _literal(arguments)
    if hint == tuple[()]:
        return _tuple(describe(hint), [])
    if origin is not None and origin in known.also:  # what ``also`` has in its brackets is not looked at
        return Hint(describe(hint), known.also[origin])
    made = _parametrised(hint, origin, arguments, what, known) if arguments else None
    if made is not None:
        return made
    raise ConfigurationError(f"{what} has the type hint {describe(hint)}, which cannot be checked: use {_POSSIBLE}")


def _simple(hint: Any, also: Types) -> Hint | None:
    """The hint of a type that needs no look inside, or that has a form."""
    form = _find(FORMS, hint)
    if form is not None:
        ready = also.get(hint, frozenset()) | ({hint} if hint is memoryview else set())
        return _formed(hint.__name__, form, ready)
    if _find(also, hint) is not None:
        return Hint(describe(hint), also[hint])
    known = _find(_SIMPLE, hint) or _find(_SIMPLE, typing.get_origin(hint) if not typing.get_args(hint) else None)
    if known is not None:
        return Hint(describe(hint), known[0], None, known[1])
    made = _find(_COLLECTIONS, hint)
    return None if made is None else _collection(describe(hint), ANYTHING, made)


def _class(hint: Any, what: str, known: Known) -> Hint | None:
    """The hint of a class; None for one that nothing is made of."""
    if hint in known.records:
        return known.records[hint]
    if issubclass(hint, enum.Enum):
        return _member(hint)
    if issubclass(hint, PurePath):
        return Hint(hint.__name__, frozenset({str}), hint, {"type": "string", "format": "path"})
    if is_dataclass(hint) or typing.is_typeddict(hint) or hasattr(hint, "__struct_config__"):
        return _record(hint, known)
    if issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return _named_tuple(hint, known)
    if hasattr(hint, "__pydantic_fields__"):
        return _model(hint, what, known)
    return _array(None) if _is_array(hint) else _table(hint)


def _parametrised(hint: Any, origin: Any, arguments: tuple[Any, ...], what: str, known: Known) -> Hint | None:
    if _is_array(origin):
        return _array_of(arguments)
    kinds = (_find(_SIMPLE, origin) or (None,))[0]
    if kinds is _MAPS:
        return _map(describe(hint), *(compile_hint(part, what, known=known) for part in arguments))
    if origin is tuple and arguments[-1] is not ...:
        return _tuple(describe(hint), [compile_hint(part, what, known=known) for part in arguments])
    made = _find(_COLLECTIONS, origin)
    if kinds is _LISTS or made is not None:
        return _collection(describe(hint), compile_hint(arguments[0], what, known=known), made)
    return None


_Found = typing.TypeVar("_Found")


def _find(known: Mapping[Any, _Found], hint: Any) -> _Found | None:
    try:
        return known.get(hint)
    except TypeError:  # an unhashable annotation
        return None


def _formed(label: str, form: Form, ready: frozenset[type]) -> Hint:
    """A value in the form in which it travels; one of a type that is ``ready`` is taken as it is."""

    def read(value: Any) -> Any:
        if type(value) in ready:
            return value
        try:
            return form.read(value)
        except ValueError:
            raise Misfit("", label, f"another {type_name(value)}") from None

    return Hint(label, ready | {form.kind}, read, form.schema)


def _member(kind: type[enum.Enum]) -> Hint:
    """One of an enumeration, by its value; by its name, as languages write it that have names alone."""
    members = {form: member for member in kind if type(form := member_form(member)) in (str, int)}
    named = {name: member for name, member in kind.__members__.items() if name not in members}
    listed = ", ".join(map(repr, list(members)[:_MAX_CHOICES])) + (", …" if len(members) > _MAX_CHOICES else "")
    label = f"one of {listed}"

    def read(value: Any) -> Any:
        if value in members or value in named:
            return members[value] if value in members else named[value]
        if issubclass(kind, enum.Flag) and type(value) is int:
            try:
                return kind(value)  # flags together
            except ValueError:
                pass
        raise Misfit("", label, f"another {type_name(value)}")

    kinds = frozenset({str, *map(type, members)})
    return Hint(label, kinds, read, {"enum": list(members)})


def _is_array(hint: Any) -> bool:
    numpy = sys.modules.get("numpy")  # where a hint names it, it has been imported
    return numpy is not None and hint is numpy.ndarray


def _array_of(arguments: tuple[Any, ...]) -> Hint | None:
    """``NDArray[float64]``: the second argument is ``dtype[float64]``."""
    item = next(iter(typing.get_args(arguments[-1])), Any)
    name = None if item is Any else getattr(item, "__name__", "").removesuffix("_")
    return _array(name) if name is None or name in ARRAY_TYPES else None


def _array(dtype: str | None) -> Hint:
    label = "ndarray" if dtype is None else f"ndarray of {dtype}"

    def read(value: Any) -> Any:
        try:
            return read_array(value, dtype)
        except ValueError:
            raise Misfit("", label, "another map") from None

    return Hint(label, _MAPS, read, {"type": "object", "format": label})


def _table(hint: Any) -> Hint | None:
    """A table or a batch of Arrow, of a map of columns, over the bytes where they are."""
    arrow = sys.modules.get("pyarrow")
    if arrow is None or hint not in (arrow.Table, arrow.RecordBatch):
        return None

    def read(value: Any) -> Any:
        is_table = all(type(name) is str and type(one) is Column for name, one in value.items())
        if not is_table or len({one.rows for one in value.values()}) > 1:
            raise Misfit("", hint.__name__, "a map of something else than columns of equally many rows")
        arrays = map(lazily.load("speed.columns").to_arrow, value.values())
        return hint.from_arrays(list(arrays), names=list(value))

    return Hint(hint.__name__, _MAPS, read, {"type": "object", "format": "table"})


class _Member(NamedTuple):
    """A field of a record: its name in a program and on the wire, its hint as it was written, whether it must be."""

    name: str
    key: str
    hint: Any
    is_required: bool


def _record(kind: Any, known: Known) -> Hint:
    """A dataclass, a TypedDict or a Struct, of a map."""
    name = known.name_of(kind)
    schema = {"$ref": "#/$defs/" + name}
    made: list[Callable[[Any], Any]] = []

    def later(value: Any) -> Any:
        return made[0](value)

    known.records[kind] = Hint(kind.__name__, _MAPS, later, schema)  # for one that holds its own kind
    members = [
        RecordMember(
            one.name, one.key, compile_hint(one.hint, f"{kind.__name__}.{one.name}", known=known), one.is_required
        )
        for one in _members_of(kind)
    ]
    made.append(record_reader(kind.__name__, None if typing.is_typeddict(kind) else kind, members))
    properties = {one.key: one.hint.schema for one in members}
    required = [one.key for one in members if one.is_required]
    known.definitions[name] = {"type": "object", "properties": properties, "required": required}
    known.records[kind] = Hint(kind.__name__, _MAPS, made[0], schema)
    return known.records[kind]


def _members_of(kind: Any) -> list[_Member]:
    written = _hints_of(kind)
    if typing.is_typeddict(kind):
        return [_Member(name, name, hint, name in kind.__required_keys__) for name, hint in written.items()]
    if is_dataclass(kind):
        return [_Member(one.name, one.name, written[one.name], _is_required(one)) for one in fields(kind) if one.init]
    if kind.__struct_config__.array_like or kind.__struct_config__.tag is not None:
        raise ConfigurationError(f"{kind.__name__} is array_like or tagged: use a plain Struct, whose form is a map")
    described = sys.modules["msgspec"].structs.fields(kind)
    return [_Member(one.name, one.encode_name, written[one.name], one.required) for one in described]


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _hints_of(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception as error:  # annotations run the user's code: any exception may come out of it
        raise ConfigurationError(f"the type hints of {kind.__name__} cannot be read ({error})") from None


def _named_tuple(kind: Any, known: Known) -> Hint:
    """Of a list, as tuples are; fields at its end may be missing where they have defaults."""
    written = _hints_of(kind)
    known.records[kind] = ANYTHING  # one that holds its own kind is not looked into there
    items = [compile_hint(written.get(name, Any), f"{kind.__name__}.{name}", known=known) for name in kind._fields]
    least = len(items) - len(kind._field_defaults)
    whole = _tuple(kind.__name__, items, least)

    def read(value: Any) -> Any:
        values = whole.take(value)
        return built(kind.__name__, lambda: kind(*values))

    known.records[kind] = whole._replace(read=read)
    return known.records[kind]


def _model(kind: Any, what: str, known: Known) -> Hint:
    """A model of pydantic, which reads and checks the map by itself."""
    try:
        schema = kind.model_json_schema()
    except Exception:  # it holds what JSON has no schema for
        schema = {"type": "object"}
    if '"duration"' in repr(schema).replace("'", '"'):
        raise ConfigurationError(
            f"{what} has the type hint {kind.__name__}, which holds a timedelta: pydantic reads its form, "
            "microseconds, as seconds: declare an int, or use a dataclass"
        )

    def read(value: Any) -> Any:
        try:
            return kind.model_validate(value)
        except Exception as error:
            raise _misfit_of_model(kind, error) from None

    name = known.name_of(kind)
    for inner, definition in schema.pop("$defs", {}).items():  # references in it are to the root of a schema
        known.definitions.setdefault(inner, definition)
    known.definitions[name] = schema
    known.records[kind] = Hint(kind.__name__, _MAPS, read, {"$ref": "#/$defs/" + name})
    return known.records[kind]


def _misfit_of_model(kind: Any, error: Exception) -> Misfit:
    """The first error of pydantic, without what was given: that may be a secret."""
    try:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]  # type: ignore[attr-defined]
    except Exception:  # a validator raised what pydantic does not know
        return Misfit("", kind.__name__, type(error).__name__, refused=True)
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    return Misfit(where, kind.__name__, first["type"], refused=True)


def _union(label: str, parts: list[Hint]) -> Hint:
    """The first part that a value fits says what becomes of it."""
    if parts[0] == ANYTHING or (ANYTHING in parts and all(part.read is None for part in parts)):
        return ANYTHING
    schema = {"anyOf": [part.schema for part in parts]}
    kinds = None if ANYTHING in parts else frozenset[type]().union(*(part.kinds or () for part in parts))
    if kinds is not None and all(part.read is None for part in parts):
        return Hint(label, kinds, None, schema)

    def read(value: Any) -> Any:
        misfits = []
        for part in parts:
            if part.kinds is None or type(value) in part.kinds:
                try:
                    return part.take(value)
                except Misfit as misfit:
                    misfits.append(misfit)
        raise misfits[0] if len(misfits) == 1 else Misfit("", label, type_name(value))

    return Hint(label, kinds, read, schema)


def _literal(values: tuple[Any, ...]) -> Hint:
    label = " or ".join(map(repr, values))
    chosen = frozenset((type(value), value) for value in values)

    def read(value: Any) -> Any:
        if (type(value), value) in chosen:
            return value
        raise Misfit("", label, f"another {type_name(value)}")

    choices = [value for value in values if type(value) is not bytes]
    return Hint(label, frozenset(map(type, values)), read, {"enum": choices})


def _collection(label: str, item: Hint, make: Callable[[Any], Any] | None) -> Hint:
    """A list, or what ``make`` makes of one."""
    is_set = make is not None and make is not tuple
    schema: dict[str, Any] = {"type": "array"} if item == ANYTHING else {"type": "array", "items": item.schema}
    if item == ANYTHING and make is None:
        return Hint(label, _LISTS, None, schema)
    read_items = items_reader(item)
    if make is None:
        return Hint(label, _LISTS, read_items, schema)

    def read(value: Any) -> Any:
        items = read_items(value)
        if not is_set:
            return make(items)
        try:
            made = make(items)
        except TypeError:  # of lists or maps
            raise Misfit("", label, "a list of what no set holds") from None
        if len(made) != len(items):
            raise Misfit("", label, "a list with an item that stands in it twice")
        return made

    return Hint(label, _LISTS, read, {**schema, "uniqueItems": True} if is_set else schema)


def _map(label: str, key: Hint, item: Hint) -> Hint:
    """A key may be a secret, as a value may: neither is named."""
    if key == item == ANYTHING:
        return Hint(label, _MAPS, None, {"type": "object"})

    def read(value: Any) -> Any:
        made = {}
        for name, one in value.items():
            try:
                taken = item.take(one)
            except Misfit as misfit:
                raise misfit.below("[…]") from None
            try:
                made[key.take(name)] = taken
            except Misfit:
                raise Misfit("", label, f"a dict with a key of {type_name(name)}") from None
        return made

    return Hint(label, _MAPS, read, {"type": "object", "additionalProperties": item.schema})


def _tuple(label: str, items: list[Hint], least: int | None = None) -> Hint:
    """A tuple of so many values, each with a hint of its own; those behind ``least`` may be missing."""
    fewest = len(items) if least is None else least

    def read(value: Any) -> Any:
        if not fewest <= len(value) <= len(items):
            raise Misfit("", label, f"{len(value)} values")
        taken = []
        for place, (item, one) in enumerate(zip(items, value, strict=False)):
            try:
                taken.append(item.take(one))
            except Misfit as misfit:
                raise misfit.below(f"[{place}]") from None
        return tuple(taken)

    parts = [item.schema for item in items]
    return Hint(
        label, _LISTS, read, {"type": "array", "prefixItems": parts, "minItems": fewest, "maxItems": len(items)}
    )


def is_type(given: Any) -> bool:
    """A class, or a form such as ``list[int]`` or ``int | None``, of which some can be called."""
    return isinstance(given, type) or typing.get_origin(given) is not None


def text(what: str, name: Any) -> str:
    """``name`` if it is text; InvalidNameError for anything else."""
    if isinstance(name, str):
        return name
    raise InvalidNameError(f"the name of a {what} must be a str, not {type_name(name)}")


def texts(what: str, values: Any) -> tuple[str, ...]:
    """Several names or labels as a tuple; ConfigurationError for one str alone, or for anything else."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        listed = tuple(values)
        if all(isinstance(value, str) for value in listed):
            return listed
    given = f"one str: write {what}=[{values!r}]" if isinstance(values, str) else type_name(values)
    raise ConfigurationError(f"{what} must be a list or set of str, not {given}")


def each(verb: str, patterns: tuple[Any, ...]) -> tuple[str, ...]:
    """Names that are passed one by one; ConfigurationError for a list of them."""
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise ConfigurationError(
                f"{verb} takes names one by one, {verb}('billing', 'etl.*') or {verb}(*names), not {type_name(pattern)}"
            )
    return patterns


def several(what: str, values: Any) -> Any:
    """What is gone through; ConfigurationError for what cannot be."""
    if isinstance(values, Iterable):
        return values
    raise ConfigurationError(f"{what} must be a list, or something else that is gone through, not {type_name(values)}")


def by_name(arguments: Any) -> dict[str, Any]:
    """The arguments of a call; ConfigurationError unless they are a dict, or None for none."""
    if arguments is None:
        return {}
    if isinstance(arguments, dict):
        return arguments
    raise ConfigurationError(
        f"the arguments of a call must be a dict such as {{'amount': 5}}, not {type_name(arguments)}: they have names"
    )


def function(what: str, given: Any) -> Callable[..., Any]:
    """What is to be called; ConfigurationError for what cannot be."""
    if callable(given):
        return given  # type: ignore[no-any-return]
    raise ConfigurationError(f"{what} must be a function, not {type_name(given)}")


def number(what: str, value: Any) -> Any:
    """A number; ConfigurationError for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ConfigurationError(f"{what} must be a number, not {type_name(value)}")


def checked_seconds(what: str, seconds: Any) -> float:
    """``seconds`` of the parameter ``what``; below 0 they are over already.

    Raises ConfigurationError for what is no number, for NaN, infinity, and a span of 10^9 seconds or more.
    """
    if not isinstance(seconds, int | float) or not -MAX_SPAN_SECONDS < seconds < MAX_SPAN_SECONDS:
        raise ConfigurationError(f"{what} is {seconds!r}; use a number of seconds below {MAX_SPAN_SECONDS:.0f}")
    return seconds


def milliseconds(what: str, seconds: Any) -> int:
    """Likewise, whole milliseconds as they travel, 0 at least."""
    return max(0, round(checked_seconds(what, seconds) * 1000))


def in_seconds(timeout: float | None) -> float:
    """``timeout``, or the default for None. One that is over already is right: nothing is waited for."""
    if timeout is None:
        return CALL_TIMEOUT_SECONDS
    return checked_seconds("timeout", timeout)
