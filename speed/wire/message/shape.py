"""How a message lies: messages of one publisher mostly differ in id, time and payload alone (M-2)."""

from __future__ import annotations

from typing import NamedTuple

from speed.wire.records import LENGTH_DELIMITED, VARINT, walk

_METADATA, _PAYLOAD, _MESSAGE_ID, _PUBLISHED_AT = 1, 99, 1, 4
_PAYLOAD_TAG = b"\x9a\x06"
_MAX_HEAD_BYTES = 1024
_MAX_TIME_BYTES = 9
"""So that a time fits into 63 bits."""


class Shape(NamedTuple):
    """``before`` id ``between`` time ``after``; then come the payload's two lengths.

    ``after`` ends with the payload's tag, which ends at ``end``.
    """

    before: bytes
    id_start: int
    id_end: int
    between: bytes
    time_start: int
    time_end: int
    after: bytes
    end: int


def shape_of(message: bytes) -> Shape | None:
    """How a message lies if writers write it so: parts once, the payload last. WireError for broken records."""
    records = _places(message, 0, len(message))
    parts = _places(message, *records[_METADATA][2:]) if _METADATA in records else {}
    if not {_MESSAGE_ID, _PUBLISHED_AT} <= parts.keys() or _PAYLOAD not in records:
        return None
    id_kind, _, id_start, id_end = parts[_MESSAGE_ID]
    time_kind, _, time_start, time_end = parts[_PUBLISHED_AT]
    tag = records[_PAYLOAD][1]
    end = tag + len(_PAYLOAD_TAG)
    is_usual = (id_kind, time_kind, message[tag:end]) == (LENGTH_DELIMITED, VARINT, _PAYLOAD_TAG)
    is_last = records[_PAYLOAD][3] == len(message)
    if not (is_usual and is_last and id_end < time_start < tag):
        return None
    if end > _MAX_HEAD_BYTES or time_end - time_start > _MAX_TIME_BYTES:
        return None
    before, between, after = message[:id_start], message[id_end:time_start], message[time_end:end]
    return Shape(before, id_start, id_end, between, time_start, time_end, after, end)


def _places(message: bytes, begin: int, end: int) -> dict[int, tuple[int, int, int, int]]:
    """(wire type, start, start of the value, end) of each record by its field; nothing if one comes twice."""
    found: dict[int, tuple[int, int, int, int]] = {}
    for field, kind, start, value, stop in walk(message[begin:end]):
        if field in found:
            return {}
        found[field] = kind, begin + start, begin + value, begin + stop
    return found
