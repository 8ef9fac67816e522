"""Messages of one publisher mostly differ in id, time and payload alone: what they have in common is read once.

To see that a message is like one before it takes a tenth of the time that reading it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from speed.errors import WireError
from speed.message.view import MessageView
from speed.wire.limits import MAX_MESSAGE_ID_BYTES
from speed.wire.records import (
    LENGTH_DELIMITED,
    VARINT,
    MessageEnvelope,
    MessageMetadata,
    ProtobufAny,
    begins_value,
    read_varint,
    tag_of,
    walk,
)
from speed.wire.text import harmless

# How a message lies: messages of one publisher mostly differ in id, time and payload alone (M-2).

_METADATA, _PAYLOAD = MessageEnvelope.METADATA, MessageEnvelope.PAYLOAD
_MESSAGE_ID, _PUBLISHED_AT = MessageMetadata.MESSAGE_ID, MessageMetadata.PUBLISHED_AT_MS
_PAYLOAD_TAG = tag_of(_PAYLOAD)
_MAX_HEAD_BYTES = 1024
_MAX_TIME_BYTES = 9
"""So that a time fits into 63 bits."""


class MessageShape(NamedTuple):
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


def shape_of(message: bytes) -> MessageShape | None:
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
    return MessageShape(before, id_start, id_end, between, time_start, time_end, after, end)


def _places(message: bytes, begin: int, end: int) -> dict[int, tuple[int, int, int, int]]:
    """(wire type, start, start of the value, end) of each record by its field; nothing if one comes twice."""
    found: dict[int, tuple[int, int, int, int]] = {}
    for field, kind, start, value, stop in walk(message[begin:end]):
        if field in found:
            return {}
        found[field] = kind, begin + start, begin + value, begin + stop
    return found


# Messages of one publisher mostly differ in id, time and payload alone: what they have in common is read once.

MAX_KINDS = 8
"""Known at once, each of which a message is compared with; others are read whole."""
_MAX_LENGTH_BYTES = 5


class MessageReader:
    """Reads messages, those that are like others before them at a fraction of the price. Thread-safe."""

    def __init__(self) -> None:
        self._kinds: tuple[_MessageKind, ...] = ()
        """The latest first."""

    def read(self, data: bytes) -> MessageView:
        """A message that is valid. Raises WireError(BAD_MESSAGE)."""
        return self.compare(data)[0]

    def compare(self, data: bytes) -> tuple[MessageView, MessageView | None]:
        """A message, and the first one that says the same beside id, time and payload; None if no other is likely to.

        Raises WireError(BAD_MESSAGE).
        """
        for kind in self._kinds:
            view = kind.view(data)
            if view is not None:
                return view, kind.first
        view = MessageView(data).validate()
        return view, view if _is_common(view) and self._learn(view, data) else None

    def _learn(self, view: MessageView, data: bytes) -> bool:
        shape = shape_of(data)
        kind = _MessageKind(view, shape) if shape else None
        if kind is None or kind.view(data) is None:  # it would not know it, as one of more than 16 KiB
            return False
        self._kinds = (kind, *self._kinds[: MAX_KINDS - 1])
        return True


def _is_common(view: MessageView) -> bool:
    """Whether others are likely to say the same."""
    is_alone = view.correlation_id is None and view.causality_parent is None and view.traceparent is None
    return is_alone and view.has_publisher_only


class _MessageKind:
    """Messages that differ in id, time and payload alone."""

    __slots__ = ("_shape", "_time", "first")

    def __init__(self, first: MessageView, shape: MessageShape) -> None:
        self.first, self._shape = first, shape
        self._time = b"", 0
        """Of the last message, as it was written and read: it is often that of the next one."""

    def view(self, data: bytes) -> MessageView | None:
        """The message if it is one of these; None for one that has to be looked into."""
        before, id_start, id_end, between, time_start, time_end, after, end = self._shape
        if data[:id_start] != before or data[id_end:time_start] != between or data[time_end:end] != after:
            return None
        message_id, ms, payload = data[id_start:id_end], self._read(data[time_start:time_end]), _payload(data, end)
        if not message_id.isascii() or not ms or payload is None:
            return None
        return self.first.alike(data, payload, message_id.decode(), ms)

    def _read(self, time: bytes) -> int:
        """The number that these bytes are; 0 if they are not one."""
        written, ms = self._time
        if time != written:
            ms, end = read_varint(time, 0, len(time)) if time[-1] < 0x80 else (0, 0)
            if end != len(time):
                return 0
            self._time = time, ms
        return ms


def _payload(data: bytes, start: int) -> memoryview | None:
    """The payload if its record ends the message, and holds nothing else."""
    try:
        length, start = read_varint(data, start, _MAX_LENGTH_BYTES)
    except WireError:
        return None
    record = memoryview(data)[start:]
    value = begins_value(record, ProtobufAny.VALUE) if length == len(record) else 0
    return record[value:] if value else None


_PARTS = {number: name.lower() for name, number in vars(MessageEnvelope).items() if not name.startswith("_")}
_MAX_RECORDS = 64
"""Who writes more is not to be paid for with time."""


def outline(data: bytes | memoryview) -> str:
    """The size of each part in bytes, how many others there are, and the message's id; no other value of it.

    ``outline(b"\\x0a\\x00")`` is ``2 bytes: metadata 0, no security, …, no payload; no message_id``.
    """
    sizes: dict[int, int] = {}
    others, message_id, end, more = 0, "", 0, ""
    try:
        for number, (field, kind, _, value, stop) in enumerate(walk(data)):
            if number == _MAX_RECORDS:
                more = f", more from byte {end}"
                break
            end = stop
            if kind != LENGTH_DELIMITED or field not in _PARTS:
                others += 1
                continue
            sizes[field] = sizes.get(field, 0) + end - value
            if field == _METADATA:
                message_id = _message_id(data[value:end]) or message_id
    except WireError:
        more = f", nothing to be read from byte {end}"
    unknown = f", {others} unknown" if others else ""
    named = f"message_id '{message_id}'" if message_id else "no message_id"
    return f"{len(data)} bytes: {_shown(sizes)}{unknown}{more}; {named}"


def _shown(sizes: Mapping[int, int]) -> str:
    return ", ".join(f"{name} {sizes[field]}" if field in sizes else f"no {name}" for field, name in _PARTS.items())


def _message_id(metadata: bytes | memoryview) -> str:
    """What can be read of it, as a log may have it."""
    found = ""
    try:
        for field, kind, _, value, end in islice(walk(metadata), _MAX_RECORDS):
            if field == _MESSAGE_ID and kind == LENGTH_DELIMITED:
                found = str(metadata[value : min(end, value + MAX_MESSAGE_ID_BYTES)], "utf-8", "replace")
    except WireError:
        pass
    return harmless(found)
