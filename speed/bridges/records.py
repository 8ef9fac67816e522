"""Records of durable topics as messages, and messages as records (B-13). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from speed.errors import WireError
from speed.message.errors import NotAvailableError
from speed.wire.content import BYTES_TYPE, CONTENT_TYPES, CUSTOM, JSON, MSGPACK_TYPE, TEXT_TYPE, Content
from speed.wire.message import MessageView, encode_message
from speed.wire.message.writing import encode_head, frame_of
from speed.wire.records import varint
from speed.wire.topic import TOMBSTONE, Kept, parts, read_about
from speed.wire.value import pack, unpack

PROPERTY = "bridge."
ID, PUBLISHER, HOPS, MESSAGE = "bridge.id", "bridge.publisher", "bridge.hops", "bridge.message"
TOMBSTONE_EXTENSION = "tombstone"
_NIL = b"\xc0"
_LANE_BITS = 40
_TIME_MASK = (1 << 48) - 1
_FORM_ID = "00000000-0000-0000-0000-000000000000"
_FORM_MS = (1 << 41) - 1
_TIME_BYTES = 6
"""Its varint is no text, so it is found in a head; most times have one of this length."""
_MAX_FORMS = 1024


class Messages:
    """Makes messages of the records of one topic. For one thread.

    Args:
        lane: id of the topic's lane.
        topic: what the messages say.
        host: the node that hosts the topic: what it published itself, a bridge did.
    """

    def __init__(self, lane: str, topic: str, namespace: str, host: str) -> None:
        self._topic, self._namespace, self._host = topic, namespace, host
        self._lane = sha256(bytes.fromhex(lane)).hexdigest()[: _LANE_BITS // 4]
        self._time = -1, ""
        """The time of the last id, and how it begins."""
        self._forms: dict[tuple[str, str], _Form] = {}
        self._read: dict[bytes, dict[str, Any]] = {}
        """What was said of messages before: it is mostly the same again."""

    def kept(self, data: bytes) -> Kept:
        """A record. WireError."""
        head, packed, payload = parts(data)
        about = self._read.get(packed)
        if about is None:
            if len(self._read) >= _MAX_FORMS:
                self._read.clear()
            about = self._read[packed] = read_about(packed)
        return Kept(head, about, payload)

    def message_id(self, offset: int, recorded_ms: int) -> str:
        """The same again for the same record; greater than those of records before it."""
        if recorded_ms != self._time[0]:
            time = f"{recorded_ms & _TIME_MASK:012x}"
            self._time = recorded_ms, f"{time[:8]}-{time[8:]}-7"
        high, low = offset >> 22 & 0xFFF, offset & 0x3FFFFF
        return f"{self._time[1]}{high:03x}-{0x8000 | low >> 8:04x}-{low & 0xFF:02x}{self._lane}"

    def whole(self, kept: Kept) -> bytes | None:
        """The message that a bridge's record holds, if it is a whole one; WireError."""
        if MESSAGE not in kept.about.get("properties", {}):
            return None
        held = unpack(kept.payload)
        if not isinstance(held, bytes):
            raise WireError("BAD_MESSAGE", "the record holds no message")
        return held

    def hops(self, kept: Kept) -> str:
        """What a bridge wrote beside its record."""
        return str(kept.about.get("properties", {}).get(HOPS, ""))

    def is_own(self, kept: Kept) -> bool:
        """Whether a bridge recorded it."""
        return bool(kept.about.get("publisher", "") == self._host)

    def message(self, kept: Kept, offset: int, recorded_ms: int) -> tuple[str, bytes]:
        """Id and bytes of a record's message. WireError."""
        about = kept.about
        custom, payload = _content(kept)
        publisher = str(about.get("publisher", ""))
        properties: Mapping[str, str] = about.get("properties", {})
        if not properties and kept.head.type != TOMBSTONE:  # most have none
            message_id = self.message_id(offset, recorded_ms)
            return message_id, self._form(custom, publisher).message(message_id, recorded_ms, payload)
        own = properties if self.is_own(kept) else {}
        message_id = own.get(ID) or self.message_id(offset, recorded_ms)
        return message_id, encode_message(
            Content(CUSTOM, custom, None, payload),
            topic=self._topic,
            namespace=self._namespace,
            message_id=message_id,
            published_at_ms=recorded_ms,
            publisher_id=own.get(PUBLISHER) or publisher or None,
            labels={name: text for name, text in properties.items() if not name.startswith(PROPERTY)},
            extensions={TOMBSTONE_EXTENSION: b""} if kept.head.type == TOMBSTONE else None,
        )

    def _form(self, custom: str, publisher: str) -> _Form:
        form = self._forms.get((custom, publisher))
        if form is None:
            if len(self._forms) >= _MAX_FORMS:
                self._forms.clear()
            form = self._forms[custom, publisher] = _Form(custom, self._topic, self._namespace, publisher)
        return form


def _content(kept: Kept) -> tuple[str, bytes]:
    """Type and bytes: the payload as it is packed, but for text and bytes, which have types of their own (M-10).

    The host has looked at it, so it is one value.
    """
    payload = kept.payload or _NIL
    first = payload[0]
    if 0xA0 <= first <= 0xBF:
        return TEXT_TYPE, payload[1:]
    typed = _HEADS.get(first)
    return (MSGPACK_TYPE, payload) if typed is None else (typed[0], payload[typed[1] :])


_HEADS = {
    **{0xC4 + place: (BYTES_TYPE, size) for place, size in enumerate((2, 3, 5))},
    **{0xD9 + place: (TEXT_TYPE, size) for place, size in enumerate((2, 3, 5))},
}
"""How values of bytes and text begin, and how long that is."""
_frame = lru_cache(4096)(frame_of)


class _Form:
    """Messages of one topic, type and publisher: only id, time and payload differ."""

    def __init__(self, custom: str, topic: str, namespace: str, publisher: str) -> None:
        self._said: dict[str, Any] = {"topic": topic, "namespace": namespace, "publisher_id": publisher or None}
        self._custom = custom
        head = encode_head(
            Content(CUSTOM, custom, None, b""), message_id=_FORM_ID, published_at_ms=_FORM_MS, **self._said
        )
        self._begin, _, rest = head.partition(_FORM_ID.encode())
        self._between, _, self._end = rest.partition(varint(_FORM_MS))
        self._ms, self._rest = -1, b""
        """Of the last message: when it was published, and what stands behind its id."""

    def message(self, message_id: str, published_at_ms: int, data: bytes) -> bytes:
        if published_at_ms != self._ms:
            time = varint(published_at_ms)
            if len(time) != _TIME_BYTES:  # of a clock that is decades off
                content = Content(CUSTOM, self._custom, None, data)
                return encode_message(content, message_id=message_id, published_at_ms=published_at_ms, **self._said)
            self._ms, self._rest = published_at_ms, self._between + time + self._end
        return b"".join((self._begin, message_id.encode(), self._rest, _frame(len(data)), data))


def record_of(view: MessageView, key: str | None, hops: str, *, keep: str) -> dict[str, Any]:
    """A valid message as it is published in a topic (D-5). NotAvailableError, WireError, UnserialisableError."""
    beside, publisher = {ID: view.message_id}, view.publisher_id
    if publisher:
        beside[PUBLISHER] = publisher
    if hops:
        beside[HOPS] = hops
    record: dict[str, Any] = {} if key is None else {"key": key}
    if keep == "message":
        return {**record, "payload": pack(view.to_bytes()), "properties": {**beside, MESSAGE: "1"}}
    labels = view.labels
    if labels:
        beside = {**{name: text for name, text in labels.items() if not name.startswith(PROPERTY)}, **beside}
    record["properties"] = beside
    if key is not None and TOMBSTONE_EXTENSION in view.extensions:
        return {**record, "payload": b"", "tombstone": True}
    return {**record, "payload": _packed(view)}


def _packed(view: MessageView) -> bytes:
    """The value that a message holds, as topics keep it."""
    if not view.says_only_publisher and (view.is_encrypted or view.security.signature):
        raise NotAvailableError("it is signed or encrypted: set keep = 'message' to record it whole")
    if view.content_encoding != "none":
        raise NotAvailableError("it is compressed: set keep = 'message' to record it whole")
    content_type = view.content_type
    if content_type == MSGPACK_TYPE:
        return bytes(view.payload_bytes)
    return pack(view.payload if content_type in _VALUES else bytes(view.payload_bytes))


_VALUES = (TEXT_TYPE, CONTENT_TYPES[JSON])
"""What else is decoded; all other types are recorded as their bytes."""


__all__ = ["Messages", "record_of"]
