"""Type hints compiled into checks of values that came over the wire, and into the values that they ask for.

A hint that cannot be checked is an error when the program starts, never a promise that nobody keeps.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import enum
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, NamedTuple

from speed.core.forms import FORMS, Form
from speed.errors import ConfigurationError
from speed.wire.column import Column

_LISTS = frozenset({list, tuple})
_MAPS = frozenset({dict})
_SIMPLE: dict[Any, frozenset[type]] = {
    int: frozenset({int}),
    float: frozenset({float, int}),
    str: frozenset({str}),
    bool: frozenset({bool}),
    bytes: frozenset({bytes}),
    list: _LISTS,
    tuple: _LISTS,
    dict: _MAPS,
    type(None): frozenset({type(None)}),
    dt.datetime: frozenset({dt.datetime}),
    Column: frozenset({Column}),
    collections.abc.Sequence: _LISTS,
    collections.abc.Iterable: _LISTS,
    collections.abc.Collection: _LISTS,
    collections.abc.Mapping: _MAPS,
}
_POSSIBLE = (
    "bool, int, float, str, bytes, memoryview, datetime, date, time, timedelta, Decimal, UUID, an Enum, a dataclass, "
    "None, list[…], tuple[…], dict[str, …], Literal[…], a union of these, speed.Column, or Any"
)


_MODULES = re.compile(r"(?<!['<\w.])(?:\w+\.)+(?=\w)")
"""What stands before names in the text of a hint, but for the texts in it."""


class Misfit(NamedTuple):
    """Why a value does not fit: where inside it (``[3]``), what was expected there, and what came."""

    where: str
    expected: str
    given: str


class Hint(NamedTuple):
    """The check of one hint: the exact types that fit (None: any), and a look inside the value if that is not all.

    ``make`` gives what is asked for, of a value that fits; None where that is the value itself. A dataclass may refuse
    what fits with an exception of its own.
    """

    label: str
    kinds: frozenset[type] | None
    inside: Callable[[Any], Misfit | None] | None = None
    make: Callable[[Any], Any] | None = None

    def misfit(self, value: Any) -> Misfit | None:
        """Why ``value`` does not fit; None if it does."""
        if self.kinds is not None and type(value) not in self.kinds:
            return Misfit("", self.label, type_name(value))
        return None if self.inside is None else self.inside(value)


ANYTHING = Hint("Any", None)


Types = Mapping[Any, frozenset[type]]


def compile_hint(
    hint: Any, what: str, also: Types = types.MappingProxyType({}), begun: dict[Any, Hint] | None = None
) -> Hint:
    """The check of ``hint``; ``also`` are types that fit beside those of the wire.

    Raises ConfigurationError for one that cannot be checked; ``what`` says there whose hint it is. ``begun`` are
    dataclasses that are being compiled: one may hold others of its kind.
    """
    begun = {} if begun is None else begun
    if hint is Any or hint is object:
        return ANYTHING
    form = _find(FORMS, hint)
    if form is not None:
        return _formed(hint, form, also.get(hint, frozenset()) | ({hint} if hint is memoryview else set()))
    simple = _find({**_SIMPLE, **also}, hint)
    if simple is not None:
        return Hint(describe(hint), simple)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _named(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return begun.get(hint) or _object(hint, also, begun)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or origin is types.UnionType:
        return _union(describe(hint), [compile_hint(part, what, also, begun) for part in arguments])
    if origin is typing.Literal and all(type(value) in (str, int, bool, bytes, type(None)) for value in arguments):
        return _literal(arguments)
    kinds = None if origin is None else _find({**_SIMPLE, **also}, origin)
    if kinds is not None and (not arguments or origin in also):  # what ``also`` has in its brackets is not looked at
        return Hint(describe(hint), kinds)
    if kinds is _MAPS:
        return _map(describe(hint), *(compile_hint(part, what, also, begun) for part in arguments))
    if origin is tuple and arguments[-1] is not ...:
        return _tuple(describe(hint), [compile_hint(part, what, also, begun) for part in arguments])
    if kinds is _LISTS:
        return _list(describe(hint), compile_hint(arguments[0], what, also, begun))
    raise ConfigurationError(f"{what} has the type hint {describe(hint)}, which cannot be checked: use {_POSSIBLE}")


_Found = typing.TypeVar("_Found")


def _find(known: Mapping[Any, _Found], hint: Any) -> _Found | None:
    try:
        return known.get(hint)
    except TypeError:  # an unhashable annotation
        return None


def _formed(hint: type, form: Form, ready: frozenset[type]) -> Hint:
    """A value of ``hint`` in the form in which it travels; one of a type that is ``ready`` is taken as it is."""
    label = hint.__name__

    def inside(value: Any) -> Misfit | None:
        if type(value) in ready:
            return None
        try:
            form.read(value)
        except ValueError:
            return Misfit("", label, f"another {type_name(value)}")
        return None

    def make(value: Any) -> Any:
        return value if type(value) in ready else form.read(value)

    return Hint(label, ready | {form.kind}, inside, make)


def _named(kind: type[enum.Enum]) -> Hint:
    """One of an enumeration, by its name."""
    members = kind.__members__

    def inside(value: Any) -> Misfit | None:
        return None if value in members else Misfit("", f"the name of a {kind.__name__}", "another str")

    return Hint(f"the name of a {kind.__name__}", frozenset({str}), inside, members.__getitem__)


def _object(kind: Any, also: Types, begun: dict[Any, Hint]) -> Hint:
    """A dataclass, of a map. Members that it has no field for are ignored, like unknown fields of a message."""
    hints: dict[str, Hint] = {}
    wanted = [one for one in fields(kind) if one.init]
    required = [one.name for one in wanted if _is_required(one)]

    def inside(value: Any) -> Misfit | None:
        for name in required:
            if name not in value:
                return Misfit("", f"a map with {name!r}", "one without it")
        for name, hint in hints.items():
            misfit = hint.misfit(value[name]) if name in value else None
            if misfit is not None:
                return misfit._replace(where=f".{name}{misfit.where}")
        return None

    def make(value: Any) -> Any:
        return kind(**{name: _made(hint, value[name]) for name, hint in hints.items() if name in value})

    begun[kind] = Hint(kind.__name__, _MAPS, inside, make)
    written = _hints_of(kind)
    hints.update(
        {one.name: compile_hint(written[one.name], f"{kind.__name__}.{one.name}", also, begun) for one in wanted}
    )
    return begun[kind]


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _hints_of(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except Exception as error:  # annotations run the user's code: any exception may come out of it
        raise ConfigurationError(f"the type hints of {kind.__name__} cannot be read ({error})") from None


def _made(hint: Hint, value: Any) -> Any:
    return value if hint.make is None else hint.make(value)


def _union(label: str, parts: list[Hint]) -> Hint:
    """The first part that a value fits says what becomes of it."""
    if parts[0] == ANYTHING or (ANYTHING in parts and all(part.make is None for part in parts)):
        return ANYTHING
    kinds = None if ANYTHING in parts else frozenset[type]().union(*(part.kinds or () for part in parts))
    if kinds is not None and all(part.inside is None for part in parts):
        return Hint(label, kinds)

    def inside(value: Any) -> Misfit | None:
        misfits = [part.misfit(value) for part in parts if part.kinds is None or type(value) in part.kinds]
        if None in misfits:
            return None
        return misfits[0] if len(misfits) == 1 else Misfit("", label, type_name(value))

    def make(value: Any) -> Any:
        return _made(next(part for part in parts if part.misfit(value) is None), value)

    return Hint(label, kinds, inside, None if all(part.make is None for part in parts) else make)


def _literal(values: tuple[Any, ...]) -> Hint:
    label = " or ".join(map(repr, values))
    chosen = frozenset((type(value), value) for value in values)

    def inside(value: Any) -> Misfit | None:
        return None if (type(value), value) in chosen else Misfit("", label, f"another {type_name(value)}")

    return Hint(label, frozenset(map(type, values)), inside)


def _list(label: str, item: Hint) -> Hint:
    if item == ANYTHING:
        return Hint(label, _LISTS)

    def inside(value: Any) -> Misfit | None:
        for place, one in enumerate(value):
            misfit = item.misfit(one)
            if misfit is not None:
                return misfit._replace(where=f"[{place}]{misfit.where}")
        return None

    make = item.make
    return Hint(label, _LISTS, inside, None if make is None else lambda value: list(map(make, value)))


def _map(label: str, key: Hint, item: Hint) -> Hint:
    """A key may be a secret, as a value may: neither is named."""
    if key == item == ANYTHING:
        return Hint(label, _MAPS)

    def inside(value: Any) -> Misfit | None:
        for name, one in value.items():
            misfit = item.misfit(one)
            if misfit is not None:
                return misfit._replace(where=f"[…]{misfit.where}")
            if key.misfit(name) is not None:
                return Misfit("", label, f"a dict with a key of {type_name(name)}")
        return None

    def make(value: Any) -> Any:
        return {_made(key, name): _made(item, one) for name, one in value.items()}

    return Hint(label, _MAPS, inside, None if key.make is None and item.make is None else make)


def _tuple(label: str, items: list[Hint]) -> Hint:
    """A tuple of so many values, each with a hint of its own."""

    def inside(value: Any) -> Misfit | None:
        if len(value) != len(items):
            return Misfit("", label, f"{len(value)} values")
        for place, (item, one) in enumerate(zip(items, value, strict=True)):
            misfit = item.misfit(one)
            if misfit is not None:
                return misfit._replace(where=f"[{place}]{misfit.where}")
        return None

    def make(value: Any) -> Any:
        return tuple(map(_made, items, value))

    return Hint(label, _LISTS, inside, None if all(item.make is None for item in items) else make)


def describe(hint: Any) -> str:
    """A type for people: ``int``, ``list[int]``, ``int or None``."""
    if isinstance(hint, tuple):
        return " or ".join(describe(part) for part in hint)
    if hint is None or hint is type(None):
        return "None"
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(describe(part) for part in typing.get_args(hint))
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__name__
    return _MODULES.sub("", str(hint))


def is_type(given: Any) -> bool:
    """A class, or a form such as ``list[int]`` or ``int | None``, of which some can be called."""
    return isinstance(given, type) or typing.get_origin(given) is not None


def type_name(value: object) -> str:
    """The type of a value for people, never its content."""
    return "None" if value is None else type(value).__name__
