"""Pulsar's batches: for each message four bytes of length, its SingleMessageMetadata (protobuf), and its payload."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field

from speed.errors import WireError
from speed.message.errors import BatchError
from speed.wire.records import LENGTH_DELIMITED, VARINT, read_varint, walk

MAX_MESSAGES = 65_536
_PROPERTY, _KEY, _SIZE, _COMPACTED, _TIME, _KEY_IS_BASE64, _NULL = 1, 2, 3, 4, 5, 6, 9
_VARINT_BYTES = 10


@dataclass
class Single:
    """One message of a batch; ``payload`` is None for a null value."""

    key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    event_time_ms: int = 0
    payload: bytes | None = b""
    is_compacted_out: bool = False


def split(data: bytes, count: int) -> list[Single]:
    """The ``count`` messages in ``data``; those that were compacted out are left out. BatchError for anything else."""
    if not 0 < count <= MAX_MESSAGES:
        raise BatchError(f"the batch says that it has {count} messages; 1 to {MAX_MESSAGES} are read")
    position, found = 0, []
    for _ in range(count):
        single, position = _single(data, position)
        if not single.is_compacted_out:
            found.append(single)
    if position != len(data):
        raise BatchError(f"the batch has {len(data) - position} bytes behind its last message")
    return found


def _single(data: bytes, position: int) -> tuple[Single, int]:
    begin = position + 4
    end = begin + int.from_bytes(data[position:begin], "big")
    if begin > len(data) or end > len(data):
        raise BatchError("the batch ends within the head of a message")
    try:
        single, size = _read(data[begin:end])
    except (WireError, ValueError):
        raise BatchError("the head of a message in the batch cannot be read") from None
    if size > len(data) - end:
        raise BatchError("the batch ends within a message")
    if single.payload is not None:
        single.payload = data[end : end + size]
    return single, end + size


def _read(head: bytes) -> tuple[Single, int]:
    texts, numbers, properties = _fields(head)
    single = Single(texts.get(_KEY), properties, numbers.get(_TIME, 0))
    if single.key is not None and numbers.get(_KEY_IS_BASE64):
        single.key = b64decode(single.key).decode("utf-8", "replace")
    if numbers.get(_NULL):
        single.payload = None
    single.is_compacted_out = bool(numbers.get(_COMPACTED))
    return single, numbers.get(_SIZE, 0)


def _fields(head: bytes) -> tuple[dict[int, str], dict[int, int], dict[str, str]]:
    texts: dict[int, str] = {}
    numbers: dict[int, int] = {}
    properties: dict[str, str] = {}
    for number, kind, _, begin, end in walk(head):
        if kind == VARINT:
            numbers[number] = read_varint(head, begin, _VARINT_BYTES)[0]
        elif number == _PROPERTY and kind == LENGTH_DELIMITED:
            pair = dict(_pair(head[begin:end]))
            properties[pair.get(1, "")] = pair.get(2, "")
        elif number == _KEY and kind == LENGTH_DELIMITED:
            texts[number] = head[begin:end].decode()
    return texts, numbers, properties


def _pair(record: bytes) -> Iterator[tuple[int, str]]:
    for number, kind, _, begin, end in walk(record):
        if kind == LENGTH_DELIMITED:
            yield number, record[begin:end].decode()
