"""The maps of a message, read record by record (M-4, M-12).

The protobuf runtime of Python drops an entry that holds an unknown field; those of other languages keep it.
"""

from __future__ import annotations

from speed.wire.records import LENGTH_DELIMITED, walk

_KEY, _VALUE = 1, 2
_OBSERVABILITY, _EXTENSIONS = 3, 97
LABELS, BAGGAGE = 6, 5


def text_map(message: bytes | memoryview, field: int) -> dict[str, str]:
    """``LABELS`` or ``BAGGAGE`` of a message that protobuf has parsed: then all text is UTF-8."""
    entries = _entries(message, (_OBSERVABILITY, field))
    return {key: str(value, "utf-8") for key, value in entries.items()}


def extensions(message: bytes | memoryview) -> dict[str, bytes]:
    """All extensions, known or not."""
    return {key: bytes(value) for key, value in _entries(message, (_EXTENSIONS,)).items()}


def _entries(data: bytes | memoryview, path: tuple[int, ...]) -> dict[str, bytes | memoryview]:
    """The map that lies at a path of field numbers, merged from all records of it."""
    field, *inner = path
    found: dict[str, bytes | memoryview] = {}
    for number, kind, _, value, end in walk(data):
        if number != field or kind != LENGTH_DELIMITED:
            continue
        if inner:
            found.update(_entries(data[value:end], tuple(inner)))
        else:
            key, content = _entry(data[value:end])
            found[key] = content
    return found


def _entry(data: bytes | memoryview) -> tuple[str, bytes | memoryview]:
    """Key and value; what is absent is empty, and of repeated ones the last counts."""
    parts: dict[int, bytes | memoryview] = {}
    for number, kind, _, value, end in walk(data):
        if kind == LENGTH_DELIMITED:
            parts[number] = data[value:end]
    return str(parts.get(_KEY, b""), "utf-8"), parts.get(_VALUE, b"")
