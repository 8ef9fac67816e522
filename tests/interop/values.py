"""Values of the type table (W-15) in the JSON lines between a test and an agent.

JSON has no bytes, no 64-bit integers that every library keeps, no NaN, no instants and no integer keys. Those
are objects with one key: ``$bytes`` (Base64), ``$int`` (decimal), ``$float`` (nan, inf, -inf), ``$timestamp``
([seconds, nanoseconds]), ``$map`` ([[key, value], …], in order), ``$column`` (Base64 of its body, C-2).
"""

from __future__ import annotations

import base64
import math
from datetime import datetime, timedelta, timezone
from typing import Any

from speed.wire import column
from speed.wire.column import Column

EXACT_IN_JSON = 2**53
"""Integers up to here survive every JSON library."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_json(value: Any) -> Any:
    """``value`` as JSON can say it."""
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return _map_to_json(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if isinstance(value, datetime):
        return {"$timestamp": _since_epoch(value)}
    if isinstance(value, Column):
        return {"$column": base64.b64encode(column.encode(value)).decode()}
    if isinstance(value, int) and abs(value) > EXACT_IN_JSON:
        return {"$int": str(value)}
    return value


def _map_to_json(value: dict[Any, Any]) -> dict[str, Any]:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: to_json(item) for key, item in value.items()}
    return {"$map": [[to_json(key), to_json(item)] for key, item in value.items()]}


def _since_epoch(value: datetime) -> list[int]:
    passed = value - _EPOCH
    return [passed.days * 86_400 + passed.seconds, passed.microseconds * 1000]


def from_json(value: Any) -> Any:
    """The value that ``to_json`` wrote."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag in _TAGS:
            return _TAGS[tag](content)
    return {key: from_json(item) for key, item in value.items()}


_TAGS: dict[str, Any] = {
    "$bytes": base64.b64decode,
    "$int": int,
    "$float": float,
    "$column": lambda body: column.decode(base64.b64decode(body)),
    "$timestamp": lambda parts: _EPOCH + timedelta(seconds=parts[0], microseconds=parts[1] // 1000),
    "$map": lambda pairs: {from_json(key): from_json(item) for key, item in pairs},
}


def same(left: Any, right: Any) -> bool:
    """Equal and of one kind: 1 is not 1.0, True is not 1, -0.0 is not 0.0, NaN is NaN, maps keep their order."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left), list(right)) and all(map(same, left.values(), right.values()))
    return bool(left == right)
