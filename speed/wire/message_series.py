"""Many messages that differ in id and payload only, written quickly (M-2, M-13)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from speed.errors import WireError
from speed.wire.content import Content
from speed.wire.message_frame import frame_of
from speed.wire.message_head import head_around
from speed.wire.records import varint

_ID_BYTES = 36
_MAX_ROW = 1 << 48


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


class MessageIds:
    """The ids of the messages that one part of a repeatable work makes: the same again when it is done again (M-13).

    They are UUIDv8: a hash of the work's names, and the number of the message in the last 48 bits.
    """

    def __init__(self, *names: str) -> None:
        digest = bytearray(sha256(b"".join(varint(len(name.encode())) + name.encode() for name in names)).digest()[:10])
        digest[6] = digest[6] & 0x0F | 0x80
        digest[8] = digest[8] & 0x3F | 0x80
        text = digest.hex()
        self._prefix = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-"

    def take(self, first: int, count: int) -> list[bytes]:
        """The ids of the messages from number ``first``."""
        if first + count > _MAX_ROW:
            raise WireError("BAD_MESSAGE", "message_id: one part of a work makes at most 2^48 messages")
        form = (self._prefix + "%012x").encode()
        return [form % number for number in range(first, first + count)]
