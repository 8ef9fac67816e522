"""Type hints compiled into checks of values that came over the wire.

A hint that cannot be checked is an error when the program starts, never a promise that nobody keeps.
"""

from __future__ import annotations

import collections.abc
import datetime
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
    datetime.datetime: frozenset({datetime.datetime}),
    Column: frozenset({Column}),
    collections.abc.Sequence: _LISTS,
    collections.abc.Iterable: _LISTS,
    collections.abc.Collection: _LISTS,
    collections.abc.Mapping: _MAPS,
}
_POSSIBLE = (
    "bool, int, float, str, bytes, datetime, None, list[…], tuple[…], dict[str, …], Literal[…], a union of these, "
    "speed.Column, or Any"
)


class Misfit(NamedTuple):
    """Why a value does not fit: where inside it (``[3]``), what was expected there, and what came."""

    where: str
    expected: str
    given: str


class Hint(NamedTuple):
    """The check of one hint: the exact types that fit (None: any), and a look inside the value if that is not all."""

    label: str
    kinds: frozenset[type] | None
    inside: Callable[[Any], Misfit | None] | None = None

    def misfit(self, value: Any) -> Misfit | None:
        """Why ``value`` does not fit; None if it does."""
        if self.kinds is not None and type(value) not in self.kinds:
            return Misfit("", self.label, type_name(value))
        return None if self.inside is None else self.inside(value)


ANYTHING = Hint("Any", None)


def compile_hint(hint: Any, what: str, also: Mapping[Any, frozenset[type]] = types.MappingProxyType({})) -> Hint:
    """The check of ``hint``; ``also`` are types that fit beside those of the wire.

    Raises ConfigurationError for one that cannot be checked; ``what`` says there whose hint it is.
    """
    if hint is Any or hint is object:
        return ANYTHING
    simple = _find({**_SIMPLE, **also}, hint)
    if simple is not None:
        return Hint(describe(hint), simple)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or origin is types.UnionType:
        return _union(describe(hint), [compile_hint(part, what, also) for part in arguments])
    if origin is typing.Literal and all(type(value) in (str, int, bool, bytes, type(None)) for value in arguments):
        return _literal(arguments)
    kinds = None if origin is None else _find({**_SIMPLE, **also}, origin)
    if kinds is not None and (not arguments or origin in also):  # what ``also`` has in its brackets is not looked at
        return Hint(describe(hint), kinds)
    if kinds is _MAPS:
        return _map(describe(hint), *(compile_hint(part, what, also) for part in arguments))
    if origin is tuple and arguments[-1] is not ...:
        return _tuple(describe(hint), [compile_hint(part, what, also) for part in arguments])
    if kinds is _LISTS:
        return _list(describe(hint), compile_hint(arguments[0], what, also))
    raise ConfigurationError(f"{what} has the type hint {describe(hint)}, which cannot be checked: use {_POSSIBLE}")


def _find(simple: Mapping[Any, frozenset[type]], hint: Any) -> frozenset[type] | None:
    try:
        return simple.get(hint)
    except TypeError:  # an unhashable annotation
        return None


def _union(label: str, parts: list[Hint]) -> Hint:
    if any(part.kinds is None and part.inside is None for part in parts):
        return ANYTHING
    kinds: frozenset[type] = frozenset().union(*(part.kinds or () for part in parts))
    if all(part.inside is None for part in parts):
        return Hint(label, kinds)

    def inside(value: Any) -> Misfit | None:
        misfits = [part.misfit(value) for part in parts if part.kinds is None or type(value) in part.kinds]
        if None in misfits:
            return None
        return misfits[0] if len(misfits) == 1 else Misfit("", label, type_name(value))

    return Hint(label, kinds, inside)


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

    return Hint(label, _LISTS, inside)


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

    return Hint(label, _MAPS, inside)


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

    return Hint(label, _LISTS, inside)


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
    return str(hint).replace("typing.", "").replace("collections.abc.", "")


def type_name(value: object) -> str:
    """The type of a value for people, never its content."""
    return "None" if value is None else type(value).__name__
