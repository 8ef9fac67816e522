"""Many payloads in one message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

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
from speed.wire.names import check_topic

_SIZE = 4
_PROTOBUF = f"{PROTOBUF_TYPE};type_url="
"""Before the type URL of a protobuf message."""
_MAX_KIND_BYTES = 256


class Part(NamedTuple):
    """One payload of a batch: its content type, the type URL of a protobuf message, and its bytes."""

    content_type: str
    type_url: str
    data: memoryview


def encode_batch(payloads: Iterable[Any]) -> Content:
    """The payloads as one; each as it would travel alone."""
    parts: list[Any] = []
    count = 0
    for payload in payloads:
        content = encode_content(payload)
        plain = content_type_text(content.number, content.custom or "")
        kind = (_PROTOBUF + content.type_url if content.type_url else plain).encode()
        if len(kind) > _MAX_KIND_BYTES:
            raise BatchError(f"a content type of {len(kind)} bytes is too long for a batch: send that payload alone")
        parts += (_u32(len(kind)), kind, _u32(len(content.data)), content.data)
        count += 1
    if count > MAX_BATCH_PAYLOADS:
        raise BatchError(f"{count} payloads are too many for one batch; at most {MAX_BATCH_PAYLOADS}")
    return Content(CUSTOM, BATCH_TYPE, None, b"".join((_u32(count), *parts)))


def encode_batches(pairs: Iterable[tuple[str, Any]]) -> dict[str, Content]:
    """One batch for each topic among ``(topic, payload)``, in the order of their first payloads.

    Raises what ``encode_batch`` and ``check_topic`` do, and BatchError for what is no such pair.
    """
    payloads: dict[str, list[Any]] = {}
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise BatchError("a batch for several topics is a list of pairs: [(topic, payload), …]")
        topic, payload = pair
        payloads.setdefault(check_topic(topic), []).append(payload)
    return {topic: encode_batch(its) for topic, its in payloads.items()}


def decode_batch(data: memoryview) -> list[Any]:
    """The payloads' values; BatchError if number, lengths and end do not agree."""
    return [decode_content(part.content_type, part.type_url, part.data) for part in split_batch(data)]


def split_batch(data: memoryview) -> Iterator[Part]:
    """The payloads of a batch; BatchError as soon as number, lengths and end do not agree."""
    count, place = _read(data, 0)
    if count > MAX_BATCH_PAYLOADS or count * 2 * _SIZE > len(data) - _SIZE:
        raise BatchError(f"a batch of {len(data)} bytes says that it holds {count} payloads")
    for _ in range(count):
        size, place = _read(data, place)
        kind, type_url = _kind(data, place, size)
        size, place = _read(data, place + size)
        if place + size > len(data):
            raise BatchError("a payload of the batch reaches past its end")
        yield Part(kind, type_url, data[place : place + size])
        place += size
    if place != len(data):
        raise BatchError("the batch goes on behind its last payload")


def _kind(data: memoryview, place: int, size: int) -> tuple[str, str]:
    """Content type and type URL of a payload."""
    if not 0 < size <= _MAX_KIND_BYTES or place + size > len(data):
        raise BatchError("a content type of the batch has a length that cannot be")
    try:
        text = str(data[place : place + size], "utf-8")
    except UnicodeDecodeError:
        raise BatchError("a content type of the batch is not UTF-8") from None
    if text.startswith(_PROTOBUF) and len(text) > len(_PROTOBUF):
        return PROTOBUF_TYPE, text[len(_PROTOBUF) :]
    if text in (BATCH_TYPE, PROTOBUF_TYPE, _PROTOBUF):
        raise BatchError(f"a batch holds no {text}")
    return text, ""


def _read(data: memoryview, place: int) -> tuple[int, int]:
    if place + _SIZE > len(data):
        raise BatchError("the batch is truncated")
    return int.from_bytes(data[place : place + _SIZE], "big"), place + _SIZE


def _u32(number: int) -> bytes:
    return number.to_bytes(_SIZE, "big")
