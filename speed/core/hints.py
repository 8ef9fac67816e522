"""Types: hints compiled into checks of values, signatures into checks of arguments (S-9), and types without a kind.

A form is read only where a type hint asks for it; it is written by the value's own type.

A hint that cannot be checked is an error when the program starts, never a promise that nobody keeps.
"""

from __future__ import annotations

import collections.abc
import datetime as dt
import enum
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from speed.errors import ConfigurationError, InvalidNameError, UnserialisableError
from speed.wire.column import Column
from speed.wire.limits import CALL_TIMEOUT_SECONDS, MAX_VALUE_DEPTH
from speed.wire.text import MAX_SPAN_SECONDS

# Types that the wire has no kind for, in the form in which they travel (``registry_spec/values.md``).

_MICROSECOND = timedelta(microseconds=1)


class Form(NamedTuple):
    """How values of one type travel."""

    kind: type
    """What comes over the wire."""
    read: Callable[[Any], Any]
    """Raises ValueError for what is no such value."""
    write: Callable[[Any], Any]


def _matching(pattern: str, make: Callable[[str], Any]) -> Callable[[str], Any]:
    compiled = re.compile(pattern, re.ASCII)

    def read(text: str) -> Any:
        if compiled.fullmatch(text) is None:
            raise ValueError
        return make(text)

    return read


def _time(text: str) -> time:
    whole, _, fraction = text.partition(".")
    return time.fromisoformat(whole).replace(microsecond=int(fraction.ljust(6, "0")))


def _write_time(value: time) -> Any:
    return value if value.tzinfo else value.isoformat()  # with a zone it has no form


def _write_decimal(value: Decimal) -> Any:
    return format(value, "f") if value.is_finite() else value


FORMS: Mapping[Any, Form] = {
    Decimal: Form(str, _matching(r"-?\d+(\.\d+)?", Decimal), _write_decimal),
    date: Form(str, _matching(r"\d{4}-\d\d-\d\d", date.fromisoformat), date.isoformat),
    time: Form(str, _matching(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", _time), _write_time),
    timedelta: Form(int, lambda number: timedelta(microseconds=number), lambda span: span // _MICROSECOND),
    UUID: Form(str, _matching(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", UUID), str),
    memoryview: Form(bytes, memoryview, bytes),
}

_PLAIN = frozenset({type(None), bool, int, float, str, bytes, bytearray, memoryview, datetime, Column})


def written(value: Any, keep: Collection[type] = (), depth: int = MAX_VALUE_DEPTH) -> Any:
    """``value`` with what it holds in the form in which it travels; types in ``keep`` stay as they are.

    Dataclasses become maps, numbers of numpy those of Python. What has no form stays too, and is refused by its name
    when it is serialised. Raises UnserialisableError for what is nested too deep.
    """
    kind = type(value)
    if kind in _PLAIN or kind in keep:
        return value
    if depth < 0:
        raise UnserialisableError(f"the result is nested deeper than {MAX_VALUE_DEPTH}")
    if isinstance(value, list | tuple):
        return value if _are_plain(value) else [written(one, keep, depth - 1) for one in value]
    if isinstance(value, dict):
        if _are_plain(value.values()):
            return value
        return {key: written(one, keep, depth - 1) for key, one in value.items()}
    if is_dataclass(kind):
        return {one.name: written(getattr(value, one.name), keep, depth - 1) for one in fields(kind)}
    return _single(kind, value)


def as_views(value: Any) -> Any:
    """``value`` with memoryviews for the bytes in it, at any depth."""
    if isinstance(value, bytes):
        return memoryview(value)
    if isinstance(value, list):
        return [as_views(one) for one in value]
    if isinstance(value, dict):
        return {key: as_views(one) for key, one in value.items()}
    return value


def _are_plain(values: Collection[Any]) -> bool:
    return _PLAIN.issuperset(map(type, values))


def _single(kind: type, value: Any) -> Any:
    form = FORMS.get(kind)
    if form is not None:
        return form.write(value)
    if isinstance(value, enum.Enum):
        return value if value.name is None else value.name  # flags together have no name
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.number | numpy.bool_):
        number = value.item()
        return number if type(number) in _PLAIN else value
    return value


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
