"""Ids of messages (rule M-13)."""

from __future__ import annotations

from hashlib import sha256

from speed.errors import WireError
from speed.wire.records import varint

_MAX_ROW = 1 << 48


def new_message_id(unix_ms: int, random16: bytes) -> str:
    """A UUIDv7 (RFC 9562, 5.7) of a time in Unix ms and 16 random bytes, of which the last 10 are used."""
    if len(random16) != 16 or not 0 <= unix_ms < 1 << 48:
        raise WireError("BAD_MESSAGE", "message_id: needs 16 random bytes and a time of 48 bits")
    bits = unix_ms << 80 | int.from_bytes(random16[6:], "big")
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


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
