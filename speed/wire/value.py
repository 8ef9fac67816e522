"""Values as msgpack, by the type table of ``registry_spec/wire.md`` (W-15 to W-17)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgpack

from speed.errors import UnserialisableError, WireError
from speed.wire.limits import MAX_VALUE_DEPTH

_SCALARS = (type(None), bool, int, float, str, bytes, bytearray, memoryview)


def pack(value: Any, what: str = "value") -> bytes:
    """The bytes of ``value``; UnserialisableError names the path to what has no representation."""
    try:
        packed: bytes = msgpack.packb(value, datetime=True)
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError):
        find_unserialisable(value, what)
        raise UnserialisableError(f"{what} cannot be serialised") from None
    return packed


def find_unserialisable(value: Any, path: str, depth: int = 0) -> None:
    """Raise for the first part of ``value`` that the type table does not know."""
    if depth > MAX_VALUE_DEPTH:
        raise UnserialisableError(f"{path} is nested deeper than {MAX_VALUE_DEPTH}")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str | int):
                raise UnserialisableError(f"{path} has a key of type {type(key).__name__}: use str or int")
            find_unserialisable(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            find_unserialisable(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise UnserialisableError(f"{path} is an integer beyond 64 bits")
    elif isinstance(value, datetime) and value.tzinfo is None:
        raise UnserialisableError(f"{path} is a datetime without a time zone")
    elif isinstance(value, str):
        _check_text(value, path)
    elif not isinstance(value, _SCALARS) and not isinstance(value, datetime):
        raise UnserialisableError(f"{path} is of type {type(value).__name__}, which has no representation")


def _check_text(value: str, path: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnserialisableError(f"{path} is text with a lone surrogate") from None


def unpack(data: bytes | memoryview, what: str = "payload") -> Any:
    """The value in ``data``; WireError BAD_PAYLOAD for anything but one value within the limits."""
    try:
        value = msgpack.unpackb(data, strict_map_key=False, timestamp=3, ext_hook=_refuse_ext)
    except WireError:
        raise
    except Exception as error:
        raise WireError("BAD_PAYLOAD", f"{what} is not one msgpack value: {type(error).__name__}") from None
    return value


def _refuse_ext(code: int, _: bytes) -> Any:
    raise WireError("BAD_PAYLOAD", f"unknown extension type {code}")


def unpack_map(data: bytes | memoryview, what: str) -> dict[str, Any]:
    value = unpack(data, what)
    if type(value) is not dict:
        raise WireError("BAD_PAYLOAD", f"{what} is no map")
    return value
