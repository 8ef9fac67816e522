"""What a peer may say of itself when it is asked: checked before a program sees it (S-12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from speed.errors import WireError

Check = Callable[[Any], bool]
_NO_COUNT = 1 << 63
"""Nothing counts so far; NaN is below no number."""


def _is_texts(value: Any) -> bool:
    return type(value) is list and all(type(one) is str for one in value)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < _NO_COUNT


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < _NO_COUNT


def _is_time(value: Any) -> bool:
    """A span of wall-clock time, which may have been set back."""
    return type(value) in (int, float) and -_NO_COUNT < value < _NO_COUNT


def _is_counters(value: Any) -> bool:
    return type(value) is dict and all(type(name) is str and _is_whole(one) for name, one in value.items())


_SERVICE: dict[str, Check] = {
    "numRequests": _is_whole,
    "numErrors": _is_whole,
    "lastError": _is_text,
    "processingSeconds": _is_number,
    "averageSeconds": _is_number,
}


def _is_services(value: Any) -> bool:
    return type(value) is dict and all(
        type(name) is str and type(row) is dict and all(check(row.get(key)) for key, check in _SERVICE.items())
        for name, row in value.items()
    )


_ANSWERS: dict[str, dict[str, Check]] = {
    "SERVICES": {"services": _is_texts},
    "INFO": {
        "name": _is_text,
        "nodeId": _is_text,
        "generation": _is_whole,
        "language": _is_text,
        "version": _is_text,
        "pid": _is_whole,
        "host": _is_text,
        "fabrics": _is_texts,
        "startupTimestamp": _is_whole,
        "services": _is_texts,
    },
    "STATS": {
        "name": _is_text,
        "uptimeSeconds": _is_time,
        "pendingCalls": _is_whole,
        "lanes": _is_whole,
        "counters": _is_counters,
        "services": _is_services,
    },
}


def checked_answer(operation: str, result: Any, node: str) -> dict[str, Any]:
    """The result of a DISCOVERY question; WireError BAD_PAYLOAD names ``node`` and the field that is missing or odd."""
    if type(result) is not dict:
        raise WireError("BAD_PAYLOAD", f"the answer of {node} to {operation} is no map")
    for name, check in _ANSWERS.get(operation, {}).items():
        if not check(result.get(name)):
            raise WireError("BAD_PAYLOAD", f"the answer of {node} to {operation} has no {name} of the right kind")
    return result
