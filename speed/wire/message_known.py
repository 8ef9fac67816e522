"""Heads that came before: messages of a sender mostly differ in id, time and payload only.

All else was checked, byte for byte, when the first of its kind came (M-4 to M-9); then only those three are looked at.
What does not lie as writers lay it is not remembered, and read in full each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from speed.wire.content import PROTOBUF
from speed.wire.message_form import Form
from speed.wire.message_frame import PAYLOAD_TAG, frame_within
from speed.wire.records import LENGTH_DELIMITED, VARINT, begins_value, walk

_METADATA, _SECURITY, _PUBLISHER = 1, 2, 1
_ID_BYTES, _TIME_BYTES = 36, 6
_TIME = rb"[\x80-\xff]{5}[\x01-\x7f]"
_is_time = re.compile(_TIME).match
"""Whether there is a varint of six bytes, of a number above zero."""
_VARYING = ("correlation_id", "causality_parent", "uncompressed_bytes")
"""What is unlikely to come again."""
_MAX_KEY_BYTES = 512
_MAX_KNOWN = 256
_OFTEN = 64
"""How many messages like one before are worth a pattern, which takes as long to make as so many to look up."""

Recalled = tuple[Any, int, int, int]
"""The head that a message shares, and where its own id, its time and its payload begin."""
Places = tuple[int, int, int, int]
"""Where the id begins, where it ends and the topic's record begins, where the time begins, and where the head ends."""


class _Known:
    """A head that came before, parsed; nobody alters what is in it."""

    __slots__ = ("count", "end", "head", "matches", "start", "time")

    def __init__(self, head: Any, places: Places) -> None:
        self.head = head
        self.start, _, self.time, self.end = places
        self.count = 0
        """How many like it were looked up."""
        self.matches: Callable[[bytes], object] | None = None
        """Whether a message has this head but for an id and a time of its own."""


_known: dict[bytes, _Known] = {}
"""By their bytes without id and time."""
_usual: _Known | None = None
"""The last of those that come often: compared first."""


def recall(data: bytes) -> Recalled | None:
    """``data`` if its head is known and its id, time and payload record are as writers write them."""
    known = _usual
    if known is None or known.matches is None or not known.matches(data):
        known = _looked_up(data)
    if known is None:
        return None
    frame = frame_within(len(data) - known.end)
    if not frame or not data.startswith(frame, known.end):
        return None
    return known.head, known.start, known.time, known.end + len(frame)


def _looked_up(data: bytes) -> _Known | None:
    global _usual
    try:
        start, names, time, end = places = _places(data)
    except IndexError:
        return None
    known = _known.get(data[:start] + data[names:time] + data[time + _TIME_BYTES : end])
    if known is None or not data[start:names].isascii() or not _is_time(data, time):
        return None
    known.count += 1
    if known.count >= _OFTEN:
        known.matches = known.matches or _pattern(data, places)
        _usual = known
    return known


def _pattern(data: bytes, places: Places) -> Callable[[bytes], object]:
    """The comparison of ``_looked_up``, as one of the library's."""
    start, names, time, end = places
    before, between, after = data[:start], data[names:time], data[time + _TIME_BYTES : end] + PAYLOAD_TAG
    parts = (re.escape(before), rb"[\x00-\x7f]{36}", re.escape(between), _TIME, re.escape(after))
    return re.compile(b"".join(parts)).match


def own_id(data: bytes, place: int) -> str:
    """The id that begins there."""
    return data[place : place + _ID_BYTES].decode()


def own_time(data: bytes, place: int) -> int:
    """The time that begins there, Unix ms."""
    return sum((data[place + index] & 0x7F) << 7 * index for index in range(_TIME_BYTES))


def remember(data: bytes, form: Form, head: Any) -> None:
    """Keep the head of a message that was found valid, if others may be like it."""
    others, payloads = form
    if len(others) > 1 or len(payloads) > 1 or head.metadata.content_type == PROTOBUF:
        return
    if any(map(head.metadata.HasField, _VARYING)):
        return
    try:
        start, names, time, end = places = _places(data)
    except IndexError:
        return
    if others == [(0, end)] and _is_laid_as_usual(data, places):
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[data[:start] + data[names:time] + data[time + _TIME_BYTES : end]] = _Known(head, places)


def _places(data: bytes) -> Places:
    """Where things lie if ``data`` begins with id, topic, namespace and time; IndexError where it is too short."""
    start = 4 if data[1] < 0x80 else 5
    names = start + _ID_BYTES
    topic_end = names + 2 + data[names + 1]
    time = topic_end + 3 + data[topic_end + 1]
    end = data.find(PAYLOAD_TAG, time + _TIME_BYTES, time + _MAX_KEY_BYTES)
    if end < 0:
        raise IndexError
    return start, names, time, end


def _is_laid_as_usual(data: bytes, places: Places) -> bool:
    """Whether id and time stand once, at ``places``, and after the metadata at most the publisher's name."""
    start, names, time, end = places
    (field, kind, _, value, stop), *others = walk(data[:end])
    if (field, kind, value) != (_METADATA, LENGTH_DELIMITED, start - 2):
        return False
    if others and (len(others) > 1 or not _names_publisher(data, *others[0])):
        return False
    fields = [(field, kind, value + begin, value + end) for field, kind, _, begin, end in walk(data[value:stop])]
    if len({field for field, *_ in fields}) < len(fields):
        return False
    return fields[:4] == [
        (1, LENGTH_DELIMITED, start, names),
        (2, LENGTH_DELIMITED, names + 2, names + 2 + data[names + 1]),
        (3, LENGTH_DELIMITED, names + 4 + data[names + 1], time - 1),
        (4, VARINT, time, time + _TIME_BYTES),
    ]


def _names_publisher(data: bytes, field: int, kind: int, _: int, value: int, end: int) -> bool:
    is_security = field == _SECURITY and kind == LENGTH_DELIMITED
    return is_security and begins_value(memoryview(data)[value:end], _PUBLISHER) > 0
