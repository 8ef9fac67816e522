"""Values of the type table as msgpack and back (rules W-50 to W-53).

nil, bool, int (64 bits, signed or not), float, str, bytes, list or tuple, dict with str or int keys, and
aware datetimes. A quick check runs over types at C speed; only its refusal starts the walk that names the path.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from types import NoneType
from typing import Any

import msgpack

from speed.errors import UnserialisableError, WireError
from speed.wire.limits import MAX_VALUE_DEPTH

_SCALARS = frozenset({NoneType, bool, int, float, str, bytes})
_KEYS = frozenset({str, int})
_SCALAR_CLASSES = (NoneType, bool, int, float, str, bytes, bytearray, memoryview)


def pack(value: Any, what: str = "value") -> bytes:
    """Return the msgpack bytes of ``value``.

    Args:
        value: anything of the type table.
        what: how error messages call the value.

    Raises:
        UnserialisableError: naming the path to what has no representation, e.g. ``arguments.x[3]``.
    """
    check(value, what)
    return pack_checked(value, {what: value})


def pack_checked(value: Any, parts: dict[str, Any]) -> bytes:
    """Return the msgpack bytes of a value that was checked; ``parts`` are walked when msgpack refuses it."""
    try:
        packed: bytes = msgpack.packb(value, datetime=True)
    except Exception as error:
        for name, part in parts.items():
            _explain(part, name, MAX_VALUE_DEPTH)
        raise UnserialisableError(f"{' or '.join(parts)} cannot be packed: {error}") from error
    return packed


def check(value: Any, what: str, depth: int = MAX_VALUE_DEPTH) -> None:
    """Raise UnserialisableError unless all types of ``value`` are in the table and nest at most ``depth``."""
    if not _sound(value, depth):
        _explain(value, what, depth)


def unpack(data: bytes | bytearray | memoryview) -> Any:
    """Return the value of msgpack bytes: exactly one value, of the type table, within its limits.

    Raises:
        WireError: BAD_PAYLOAD.
    """
    try:
        value = msgpack.unpackb(data, strict_map_key=False, timestamp=3)
    except Exception as error:
        raise WireError("BAD_PAYLOAD", f"not one msgpack value: {type(error).__name__}") from error
    if not _sound(value, MAX_VALUE_DEPTH):
        raise WireError("BAD_PAYLOAD", f"a type outside the table, or nested deeper than {MAX_VALUE_DEPTH}")
    return value


def _sound(value: Any, depth: int) -> bool:
    """Tell quickly whether ``value`` consists of exact types of the table."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    items: Iterable[Any]
    if kind is dict:
        if not _KEYS.issuperset(map(type, value)):
            return False
        items = value.values()
    elif kind is list or kind is tuple:
        items = value
    else:
        return kind is datetime and value.tzinfo is not None
    if depth == 0:
        return False
    return _SCALARS.issuperset(map(type, items)) or all(_sound(item, depth - 1) for item in items)


def _explain(value: Any, path: str, depth: int) -> None:
    """Walk ``value`` and raise for the first part without representation; subclasses pass here."""
    if isinstance(value, _SCALAR_CLASSES):
        _explain_scalar(value, path)
    elif isinstance(value, dict | list | tuple):
        if depth == 0:
            raise UnserialisableError(f"{path} is nested deeper than {MAX_VALUE_DEPTH}")
        if isinstance(value, dict):
            for key, item in value.items():
                if not isinstance(key, str | int) or isinstance(key, bool):
                    raise UnserialisableError(f"{path} has a key of type {_name(key)}; keys are str or int")
                _explain_scalar(key, f"{path} key")
                _explain(item, f"{path}.{key}", depth - 1)
        else:
            for index, item in enumerate(value):
                _explain(item, f"{path}[{index}]", depth - 1)
    elif type(value) is datetime:
        if value.tzinfo is None:
            raise UnserialisableError(f"{path} is a datetime without time zone; add one, e.g. UTC")
    else:
        raise UnserialisableError(f"{path} has type {_name(value)}, which has no representation")


def _explain_scalar(value: Any, path: str) -> None:
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise UnserialisableError(f"{path} is an int beyond 64 bits; send it as str or bytes")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UnserialisableError(f"{path} is a str that is not valid Unicode") from error


def _name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
