"""Many messages that differ in id and payload only, written quickly (M-2, M-13)."""

from __future__ import annotations

from typing import Any

from speed.wire.content import Content
from speed.wire.message.writing import frame_of, head_around
from speed.wire.records import varint


class MessageSeries:
    """Encodes messages of one topic, content type and so on, and of one time.

    What it writes are the bytes that ``encode_message`` writes.
    """

    def __init__(self, content: Content, published_at_ms: int, **metadata: Any) -> None:
        """``content`` tells the content type; ``metadata`` as of ``encode_head``, but for id and time.

        Raises WireError(BAD_MESSAGE) for metadata that breaks a rule.
        """
        self._before, between, after = head_around(content, **metadata)
        self._behind_id = b"".join((between, varint(published_at_ms), after))

    def encode(self, message_id: bytes, data: bytes) -> bytes:
        """One message; ``message_id`` has 36 characters of ASCII."""
        return b"".join((self._before, message_id, self._behind_id, frame_of(len(data)), data))
