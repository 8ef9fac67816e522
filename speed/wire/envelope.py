"""The envelope's two headers (W-4 to W-8; RFC 4.2). All integers are big-endian.

 0 version  1 type  2 flags  4 header length = 64  8 sequence  16 timestamp ms  24 payload bytes
32 source id  48 target id  |  64 key id  72 reserved  76 nonce  |  88 ciphertext … tag(16)
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from speed.errors import WireError
from speed.wire.limits import (
    AAD_BYTES,
    COUNTER_BITS,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    PROTOCOL_VERSION,
    SECURITY_HEADER_BYTES,
    TAG_BYTES,
)


class EnvelopeType(IntEnum):
    """What a payload is (RFC 4.4)."""

    MESSAGE = 1
    SPC_REQUEST = 2
    SPC_RESPONSE = 3
    EVENT = 4
    DISCOVERY = 5
    HEARTBEAT = 6
    ERROR = 7
    ACK = 8
    STREAM = 9


FLAG_ACK_REQUESTED: Final = 1
FLAG_SEGMENT: Final = 2
FLAG_REPLY: Final = 4
FLAG_SLOTTED: Final = 8
_FLAGS_OF_TYPE: Final = (0, 11, 10, 14, 11, 4, 4, 4, 4, 4)
"""Which flags each type may carry (W-6): REPLY, which passes without a grant, only on what answers."""
ENVELOPE_OVERHEAD: Final = AAD_BYTES + TAG_BYTES

_HEADERS = Struct(">BBHIQQQ16s16s8sI12s")
_COUNTER_MASK: Final = (1 << COUNTER_BITS) - 1
assert _HEADERS.size == AAD_BYTES == HEADER_BYTES + SECURITY_HEADER_BYTES
_new_header = tuple.__new__
"""A named tuple at the price of a tuple; every envelope is parsed."""


class Header(NamedTuple):
    """Both headers of one envelope; ids are 16 bytes, the timestamp is Unix ms."""

    type: int
    flags: int
    sequence: int
    timestamp_ms: int
    payload_bytes: int
    source: bytes
    target: bytes
    key_id: bytes
    nonce: bytes


def make_sequence(generation: int, counter: int) -> int:
    """Generation in the upper 24 bits, counter (from 1) in the lower 40 (W-8)."""
    return generation << COUNTER_BITS | counter


def generation_of(sequence: int) -> int:
    return sequence >> COUNTER_BITS


def counter_of(sequence: int) -> int:
    return sequence & _COUNTER_MASK


def pack_header(
    type_: int,
    flags: int,
    sequence: int,
    timestamp_ms: int,
    payload_bytes: int,
    source: bytes,
    target: bytes,
    key_id: bytes,
    nonce: bytes,
) -> bytes:
    """The 88 bytes before the ciphertext; they are the AAD."""
    return _HEADERS.pack(
        PROTOCOL_VERSION,
        type_,
        flags,
        HEADER_BYTES,
        sequence,
        timestamp_ms,
        payload_bytes,
        source,
        target,
        key_id,
        0,
        nonce,
    )


def parse_header(buffer: bytes | bytearray | memoryview, offset: int = 0) -> Header:
    """Read and check both headers at ``offset``; WireError names the rule that they break.

    Nothing is authentic before the tag was verified; only the bounds are checked here.
    """
    try:
        version, type_, flags, length, sequence, timestamp, size, source, target, key_id, reserved, nonce = (
            _HEADERS.unpack_from(buffer, offset)
        )
    except Exception:
        raise WireError("TRUNCATED", "fewer than 88 bytes of header") from None
    if (
        version == PROTOCOL_VERSION
        and 1 <= type_ <= 9
        and not flags & ~_FLAGS_OF_TYPE[type_]
        and length == HEADER_BYTES
        and not reserved
        and sequence & _COUNTER_MASK
        and sequence > _COUNTER_MASK
        and size <= MAX_PAYLOAD_BYTES
    ):
        return _new_header(Header, (type_, flags, sequence, timestamp, size, source, target, key_id, nonce))
    raise _header_error(version, type_, flags, length, reserved, sequence, size)


def _header_error(
    version: int, type_: int, flags: int, length: int, reserved: int, sequence: int, size: int
) -> WireError:
    """The first rule that these fields break, in the order of W-4 to W-8."""
    if version != PROTOCOL_VERSION:
        return WireError("BAD_VERSION", f"version {version}, this is {PROTOCOL_VERSION}")
    if not 1 <= type_ <= 9:
        return WireError("BAD_TYPE", f"type {type_}")
    if flags & ~_FLAGS_OF_TYPE[type_]:
        return WireError("BAD_FLAGS", f"flags {flags:#06x} do not belong to type {type_}")
    if length != HEADER_BYTES:
        return WireError("BAD_HEADER_LENGTH", f"header length {length}")
    if reserved:
        return WireError("BAD_RESERVED", "reserved bytes are not zero")
    if not sequence & _COUNTER_MASK or not sequence >> COUNTER_BITS:
        return WireError("BAD_SEQUENCE", "generation and counter start at 1")
    return WireError("TOO_LARGE", f"{size} bytes, the limit is {MAX_PAYLOAD_BYTES}")
