"""Where the parts of a message lie (M-2, M-4): in one look where it has the form that writers give it."""

from __future__ import annotations

from speed.wire.records import LENGTH_DELIMITED, Parts, begins_value, check_nested, plain_records, read_varint, walk

_PAYLOAD_FIELD = 99
_PAYLOAD_TAG = (0x9A, 0x06)
_PARTS: Parts = {1: {}, 2: {6: {9: {}}}, 3: {5: {}, 6: {}}, 4: {}, 97: {}}
"""metadata, security (encryption, its recipients), observability (baggage, labels), schema, extensions."""
_MAX_LENGTH_BYTES = 5
_METADATA_TAG, _SECURITY_TAG = 0x0A, 0x12
_OTHER_TAGS = (0x0A, 0x1A, 0x22)
"""Metadata, observability, schema."""
_PUBLISHER = 1

Span = tuple[int, int]
Form = tuple[list[Span], list[Span]]
"""Byte ranges of all other records, neighbours joined, and of the payload records' values."""


def form_of(data: bytes | memoryview) -> Form:
    """Raises WireError(BAD_MESSAGE) for what breaks M-4, at every depth but the payload's."""
    head, payload = _usual(data)
    if head:
        return [(0, head)], [(payload, len(data))]
    others: list[Span] = []
    payloads: list[Span] = []
    for field, wire_type, start, value, end in walk(data):
        if field == _PAYLOAD_FIELD and wire_type == LENGTH_DELIMITED:
            payloads.append((value, end))
            continue
        if wire_type == LENGTH_DELIMITED and field in _PARTS:
            check_nested(data[value:end], _PARTS[field])
        if others and others[-1][1] == start:
            others[-1] = others[-1][0], end
        else:
            others.append((start, end))
    return others, payloads


def says_only_publisher(data: bytes | memoryview) -> bool:
    """Whether what a message says of security is the name of its publisher; not of a form that writers do not make."""
    return _usual(data, is_for_security=True)[0] > 0


def _usual(data: bytes | memoryview, is_for_security: bool = False) -> Span:
    """Where the payload record begins, and its value, if it is the last one and the others are plain metadata and the
    name of the publisher; else (0, 0). Anything in doubt is left to ``walk``. For security, no other is looked into."""
    position, size = 0, len(data)
    while position + 3 < size:
        tag, length = data[position], data[position + 1]
        if tag == _PAYLOAD_TAG[0]:
            if length != _PAYLOAD_TAG[1]:
                return 0, 0
            length, value = read_varint(data, position + 2, _MAX_LENGTH_BYTES)
            return (position, value) if value + length == size else (0, 0)
        start = position + 2
        if length > 0x7F:
            length, start = length & 0x7F | data[start] << 7, start + 1
            if length >= 1 << 14:
                return 0, 0
        end = start + length
        if end > size:
            return 0, 0
        if tag == _SECURITY_TAG:
            if begins_value(memoryview(data)[start:end], _PUBLISHER) == 0:
                return 0, 0
        elif is_for_security:
            if tag not in _OTHER_TAGS:
                return 0, 0
        elif tag != _METADATA_TAG or plain_records(data[start:end]) != length:
            return 0, 0
        position = end
    return 0, 0
