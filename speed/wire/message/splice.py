"""Security records of a message, taken apart and put together as raw bytes (rules M-16, M-27).

Nothing here parses a record and writes it again: what is kept is kept byte for byte.
"""

from __future__ import annotations

from typing import NamedTuple

from speed.wire.records import LENGTH_DELIMITED, varint, walk

_METADATA, _SECURITY = 1, 2
_AUTH_TOKEN, _SIGNATURE = 3, 4


class SignedParts(NamedTuple):
    """What a signature covers, and the signatures found (M-16 allows one). Nothing outside ``security`` is copied."""

    spans: list[tuple[int, int]]
    """Where the records outside the security context lie."""
    security: bytes
    signatures: tuple[bytes, ...]
    has_token: bool


def signed_parts(data: bytes | memoryview) -> SignedParts:
    """Split a message; raises WireError(BAD_MESSAGE) for what breaks M-4."""
    spans, values = _split(data)
    kept: list[bytes] = []
    signatures: list[bytes] = []
    has_token = False
    for field, wire_type, start, value, end in walk(values):
        if wire_type == LENGTH_DELIMITED and field == _SIGNATURE:
            signatures.append(values[value:end])
        elif wire_type == LENGTH_DELIMITED and field == _AUTH_TOKEN:
            has_token = True
        else:
            kept.append(values[start:end])
    return SignedParts(spans, b"".join(kept), tuple(signatures), has_token)


def with_signature(data: bytes, signature: bytes) -> bytes:
    """The message with ``signature`` as the last record of its security context, which replaces any other."""
    spans, values = _split(data)
    return _put(data, spans, _without(values, _SIGNATURE) + _record(_SIGNATURE, signature))


def with_security(data: bytes, more: bytes) -> bytes:
    """The message with the records of ``more`` added to its security context; of equal fields the later counts."""
    spans, values = _split(data)
    return _put(data, spans, values + more)


def without_token(data: bytes) -> bytes:
    """The message without any ``auth_token``; without a copy if there is none."""
    spans, values = _split(data)
    kept = _without(values, _AUTH_TOKEN)
    return data if kept == values else _put(data, spans, kept)


def has_token(data: bytes | memoryview) -> bool:
    """Whether an ``auth_token`` is in the security context; WireError(BAD_MESSAGE) for what cannot be read."""
    return any(
        field == _SECURITY and wire_type == LENGTH_DELIMITED and _holds_token(data[value:end])
        for field, wire_type, _, value, end in walk(data)
    )


def _holds_token(context: bytes | memoryview) -> bool:
    return any(field == _AUTH_TOKEN and wire_type == LENGTH_DELIMITED for field, wire_type, *_ in walk(context))


def _split(data: bytes | memoryview) -> tuple[list[tuple[int, int]], bytes]:
    """Spans of the records outside the security context, neighbours joined, and that context's records."""
    spans: list[tuple[int, int]] = []
    values: list[bytes] = []
    for field, wire_type, start, value, end in walk(data):
        if field == _SECURITY and wire_type == LENGTH_DELIMITED:
            values.append(bytes(data[value:end]))
        elif spans and spans[-1][1] == start:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    return spans, b"".join(values)


def _put(data: bytes, spans: list[tuple[int, int]], security: bytes) -> bytes:
    """The records in ``spans`` with one security record after the metadata, where a writer has it (M-2)."""
    record = _record(_SECURITY, security) if security else b""
    start, stop = spans[0] if spans else (0, 0)
    first = next(walk(data[start:stop]), None)
    place = start + first[4] if first is not None and first[0] == _METADATA else start
    parts = [data[start:place], record, data[place:stop]]
    return b"".join(parts + [data[begin:finish] for begin, finish in spans[1:]])


def _without(values: bytes, unwanted: int) -> bytes:
    return b"".join(
        [
            values[start:end]
            for field, wire_type, start, _, end in walk(values)
            if field != unwanted or wire_type != LENGTH_DELIMITED
        ]
    )


def _record(field: int, value: bytes) -> bytes:
    return varint(field << 3 | LENGTH_DELIMITED) + varint(len(value)) + value
