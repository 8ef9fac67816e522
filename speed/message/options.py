"""What a program says of one message beside its payload, and many payloads in one (M-24).

It imports little: many who send say only a priority.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from speed.errors import ConfigurationError
from speed.message.algorithms import MAX_BATCH_PAYLOADS
from speed.message.errors import BatchError
from speed.wire.names import check_topic
from speed.wire.records import ContentType
from speed.wire.value import (
    BATCH_TYPE,
    PROTOBUF_TYPE,
    Content,
    content_type_text,
    decode_content,
    encode_content,
)

if TYPE_CHECKING:
    from speed.message.keys import MessageKey

METADATA = (
    *("topic", "correlation_id", "causality_parent", "priority", "ttl_seconds", "traceparent", "parent_span_id"),
    *("labels", "baggage", "extensions"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """Options of ``send`` and ``publish``. None leaves to the node what it does by default.

    Attributes:
        topic: of a message that is sent to one node.
        correlation_id, causality_parent: what it belongs to, and the id of the message that led to it.
        priority: from 0, the least urgent, to 10; 5 if nothing is said.
        ttl_seconds: after so many seconds it is not handled any more.
        traceparent, trace_context: the trace it belongs to, as W3C text, or as a span, span context or context of
            OpenTelemetry; without them the active span is continued, or the trace of what is being handled.
        parent_span_id: the span above that of ``traceparent``, as 16 hexadecimal digits.
        labels, baggage, extensions: further values by name; those of extensions are bytes.
        content_type: of bytes or text that is in a format of its own.
        schema: name, or name and version, of a schema in the node's SchemaRegistry. The payload must fit it.
        encrypt_to, sign_with: keys, or names of key sets in the node's KeyStore.
        compression: ``gzip``, ``zstd``, ``lz4`` or ``snappy``.
        classification: ``public``, ``internal``, ``confidential`` or ``restricted``.
        contains_pii: whether there is personal data in it; always true if its schema marks some.
        direct: encrypt the payload itself by RSA, instead of a data key; for short payloads and one recipient.
        aad: bytes that the encryption covers, and that the reader must know.
    """

    topic: str | None = None
    correlation_id: str | None = None
    causality_parent: str | None = None
    priority: int | None = None
    ttl_seconds: int | None = None
    traceparent: str | None = None
    trace_context: Any = None
    parent_span_id: str | None = None
    labels: Mapping[str, str] | None = None
    baggage: Mapping[str, str] | None = None
    extensions: Mapping[str, bytes] | None = None
    content_type: str | None = None
    schema: str | tuple[str, str] | None = None
    encrypt_to: str | MessageKey | tuple[str | MessageKey, ...] | None = None
    sign_with: str | MessageKey | None = None
    compression: str | None = None
    classification: str | None = None
    contains_pii: bool | None = None
    direct: bool = False
    aad: bytes = b""

    def metadata(self) -> dict[str, Any]:
        """The metadata that is set, as ``encode_message`` takes it."""
        return {name: value for name in METADATA if (value := getattr(self, name)) is not None}

    @property
    def is_plain(self) -> bool:
        """Whether nothing but metadata is asked for."""
        settings = (self.content_type, self.schema, self.encrypt_to, self.sign_with, self.compression)
        return not any((*settings, self.classification, self.contains_pii, self.direct, self.aad))


def with_keywords(options: PublishOptions | None, keywords: Mapping[str, Any]) -> PublishOptions | None:
    """``options``, and over them the metadata that came as keywords of their own, as they may until the next release.

    Raises ConfigurationError for a keyword that is none of these.
    """
    if not keywords:
        return options
    unknown = keywords.keys() - {*METADATA, "trace_context"}
    if unknown:
        raise ConfigurationError(f"no such argument: {', '.join(sorted(unknown))}; see PublishOptions")
    given = ", ".join(f"{name}=…" for name in keywords)
    warnings.warn(f"give options=PublishOptions({given})", DeprecationWarning, stacklevel=_levels_to_caller())
    return replace(options or PublishOptions(), **keywords)


def _levels_to_caller() -> int:
    """How far above ``with_keywords`` the program is that the warning is about."""
    levels, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "speed":
        levels, frame = levels + 1, frame.f_back
    return levels


# Many payloads in one message.

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
    return Content(ContentType.CUSTOM, BATCH_TYPE, None, b"".join((_u32(count), *parts)))


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
