"""Many payloads in one message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from speed.message.algorithms import MAX_BATCH_PAYLOADS
from speed.message.errors import BatchError
from speed.wire.content import (
    BATCH_TYPE,
    CUSTOM,
    PROTOBUF_TYPE,
    Content,
    content_type_text,
    decode_content,
    encode_content,
)

_SIZE = 4


def encode_batch(payloads: Iterable[Any]) -> Content:
    """The payloads as one; each as it would travel alone. Protobuf messages travel alone only."""
    parts: list[Any] = []
    count = 0
    for payload in payloads:
        content = encode_content(payload)
        if content.type_url:
            raise BatchError("a protobuf message has a type URL, for which a batch has no place: send it alone")
        kind = content_type_text(content.number, content.custom or "").encode()
        parts += (_u32(len(kind)), kind, _u32(len(content.data)), content.data)
        count += 1
    if count > MAX_BATCH_PAYLOADS:
        raise BatchError(f"{count} payloads are too many for one batch; at most {MAX_BATCH_PAYLOADS}")
    return Content(CUSTOM, BATCH_TYPE, None, b"".join((_u32(count), *parts)))


def decode_batch(data: memoryview) -> list[Any]:
    """The payloads' values; BatchError if number, lengths and end do not agree."""
    return [decode_content(kind, "", payload) for kind, payload in split_batch(data)]


def split_batch(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Content type and bytes of each payload; BatchError as soon as number, lengths and end do not agree."""
    count, place = _read(data, 0)
    if count > MAX_BATCH_PAYLOADS or count * 2 * _SIZE > len(data) - _SIZE:
        raise BatchError(f"a batch of {len(data)} bytes says that it holds {count} payloads")
    for _ in range(count):
        size, place = _read(data, place)
        kind, place = _text(data, place, size), place + size
        size, place = _read(data, place)
        if place + size > len(data):
            raise BatchError("a payload of the batch reaches past its end")
        yield kind, data[place : place + size]
        place += size
    if place != len(data):
        raise BatchError("the batch goes on behind its last payload")


def _text(data: memoryview, place: int, size: int) -> str:
    if not 0 < size <= 256 or place + size > len(data):
        raise BatchError("a content type of the batch has a length that cannot be")
    try:
        kind = str(data[place : place + size], "utf-8")
    except UnicodeDecodeError:
        raise BatchError("a content type of the batch is not UTF-8") from None
    if kind in (BATCH_TYPE, PROTOBUF_TYPE):
        raise BatchError(f"a batch holds no {kind}")
    return kind


def _read(data: memoryview, place: int) -> tuple[int, int]:
    if place + _SIZE > len(data):
        raise BatchError("the batch is truncated")
    return int.from_bytes(data[place : place + _SIZE], "big"), place + _SIZE


def _u32(number: int) -> bytes:
    return number.to_bytes(_SIZE, "big")
