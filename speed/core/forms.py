"""Types that the wire has no kind for, in the form in which they travel (``registry_spec/values.md``).

A form is read only where a type hint asks for it; it is written by the value's own type.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from speed.errors import UnserialisableError
from speed.wire.column import Column
from speed.wire.limits import MAX_VALUE_DEPTH

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
