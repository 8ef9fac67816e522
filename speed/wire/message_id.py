"""Ids of messages (rule M-13)."""

from __future__ import annotations

from speed.errors import WireError


def new_message_id(unix_ms: int, random16: bytes) -> str:
    """A UUIDv7 (RFC 9562, 5.7) of a time in Unix ms and 16 random bytes, of which the last 10 are used."""
    if len(random16) != 16 or not 0 <= unix_ms < 1 << 48:
        raise WireError("BAD_MESSAGE", "message_id: needs 16 random bytes and a time of 48 bits")
    bits = unix_ms << 80 | int.from_bytes(random16[6:], "big")
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
