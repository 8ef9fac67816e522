"""Many messages that differ in id and payload only, written quickly (M-2, M-13)."""

from __future__ import annotations

from typing import Any

from speed.wire.content import Content
from speed.wire.message.writing import encode_head, frame_of
from speed.wire.records import varint, walk

_METADATA, _MESSAGE_ID, _PUBLISHED_AT = 1, 1, 4
_ID_BYTES = 36
_USUAL_TIME = 1 << 35


class MessageSeries:
    """Encodes messages of one topic, content type and so on, and of one time.

    What it writes are the bytes that ``encode_message`` writes.
    """

    def __init__(self, content: Content, published_at_ms: int, **metadata: Any) -> None:
        """``content`` tells the content type; ``metadata`` as of ``encode_head``, but for id and time.

        Raises WireError(BAD_MESSAGE) for metadata that breaks a rule.
        """
        self._before, between, after = _head_around(content, **metadata)
        self._behind_id = b"".join((between, varint(published_at_ms), after))

    def encode(self, message_id: bytes, data: bytes) -> bytes:
        """One message; ``message_id`` has 36 characters of ASCII."""
        return b"".join((self._before, message_id, self._behind_id, frame_of(len(data)), data))


def _head_around(content: Content, **metadata: Any) -> tuple[bytes, bytes, bytes]:
    """The head's bytes before an id of 36 characters, between it and a time of now, and after that."""
    head = encode_head(content, message_id="0" * _ID_BYTES, published_at_ms=_USUAL_TIME, **metadata)
    start, end = next((value, end) for field, _, _, value, end in walk(head) if field == _METADATA)
    places = {field: (start + value, start + end) for field, _, _, value, end in walk(head[start:end])}
    (id_start, id_end), (time_start, time_end) = places[_MESSAGE_ID], places[_PUBLISHED_AT]
    return head[:id_start], head[id_end:time_start], head[time_end:]
