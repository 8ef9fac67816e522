"""The two headers of an envelope: 88 bytes, big-endian (rules W-10 to W-13).

::

     0 version u8 | 1 type u8 | 2 flags u16 | 4 header length u32 | 8 sequence u64 | 16 timestamp ms u64
    24 payload bytes u64 | 32 source id 16 | 48 target id 16 | 64 key id 8 | 72 reserved u32 | 76 nonce 12
    88 ciphertext ... | 16 tag
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from speed.errors import WireError
from speed.wire.limits import (
    AAD_BYTES,
    COUNTER_BITS,
    GENERATION_BITS,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    PROTOCOL_VERSION,
    TAG_BYTES,
)

Bytes = bytes | bytearray | memoryview
"""What this layer reads; a memoryview must be of single bytes."""
HEADER = AAD_BYTES
"""Bytes of both headers together: what the tag covers besides the ciphertext."""
ENVELOPE_OVERHEAD = AAD_BYTES + TAG_BYTES
"""Bytes of an envelope beyond its payload."""
FLAG_ACK_REQUESTED = 1
FLAG_SEGMENT = 2
FLAG_REPLY = 4

_KNOWN_FLAGS = FLAG_ACK_REQUESTED | FLAG_SEGMENT | FLAG_REPLY
_UNKNOWN_FLAGS = 0xFFFF ^ _KNOWN_FLAGS
_COUNTER_MASK = (1 << COUNTER_BITS) - 1
_MAX_GENERATION = (1 << GENERATION_BITS) - 1
_LAYOUT = Struct(">BBHIQQQ16s16s8sI12s")
_pack = _LAYOUT.pack
_unpack_from = _LAYOUT.unpack_from


class EnvelopeType(IntEnum):
    """What an envelope's payload is (rule W-11)."""

    MESSAGE = 1
    SPC_REQUEST = 2
    SPC_RESPONSE = 3
    EVENT = 4
    DISCOVERY = 5
    HEARTBEAT = 6
    ERROR = 7
    ACK = 8


class Header(NamedTuple):
    """The fields of both headers that vary; ids, key id and nonce are raw bytes."""

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
    """Return the sequence of the ``counter``-th envelope of a sender's generation (rule W-12)."""
    if not 1 <= generation <= _MAX_GENERATION:
        raise ValueError(f"generation {generation} is outside 1..{_MAX_GENERATION}")
    if not 1 <= counter <= _COUNTER_MASK:
        raise ValueError(f"counter {counter} is outside 1..{_COUNTER_MASK}")
    return generation << COUNTER_BITS | counter


def generation_of(sequence: int) -> int:
    """Return the sender's generation of a sequence."""
    return sequence >> COUNTER_BITS


def counter_of(sequence: int) -> int:
    """Return the counter of a sequence."""
    return sequence & _COUNTER_MASK


def pack_header(
    type: int,
    flags: int,
    sequence: int,
    timestamp_ms: int,
    payload_bytes: int,
    source: bytes,
    target: bytes,
    key_id: bytes,
    nonce: bytes,
) -> bytes:
    """Return the 88 header bytes; the caller vouches for the lengths of the byte fields."""
    return _pack(
        PROTOCOL_VERSION, type, flags, HEADER_BYTES, sequence, timestamp_ms, payload_bytes,
        source, target, key_id, 0, nonce,
    )  # fmt: skip


def parse_header(buffer: Bytes, offset: int = 0) -> Header:
    """Parse the 88 header bytes at ``offset``; nothing is authenticated yet (rule W-13).

    Raises:
        WireError: TRUNCATED, BAD_VERSION, BAD_TYPE, BAD_FLAGS, BAD_HEADER_LENGTH, BAD_RESERVED,
            BAD_SEQUENCE or TOO_LARGE, in the order of rule W-13.
    """
    try:
        (
            version, type_, flags, length, sequence, timestamp, payload,
            source, target, key_id, reserved, nonce,
        ) = _unpack_from(buffer, offset)  # fmt: skip
    except Exception as error:
        raise WireError("TRUNCATED", f"fewer than {HEADER} bytes at offset {offset}") from error
    if (
        version != PROTOCOL_VERSION
        or not 0 < type_ < 9
        or flags & _UNKNOWN_FLAGS
        or length != HEADER_BYTES
        or reserved
        or not sequence & _COUNTER_MASK
        or not sequence >> COUNTER_BITS
        or payload > MAX_PAYLOAD_BYTES
    ):
        raise _refusal(version, type_, flags, length, reserved, sequence, payload)
    return Header(type_, flags, sequence, timestamp, payload, source, target, key_id, nonce)


def _refusal(
    version: int, type_: int, flags: int, length: int, reserved: int, sequence: int, payload: int
) -> WireError:
    """Name the first broken rule, in the order in which every implementation checks."""
    if version != PROTOCOL_VERSION:
        return WireError("BAD_VERSION", f"version {version}, this node speaks {PROTOCOL_VERSION}")
    if not 0 < type_ < 9:
        return WireError("BAD_TYPE", f"envelope type {type_}")
    if flags & _UNKNOWN_FLAGS:
        return WireError("BAD_FLAGS", f"flags {flags:#06x}")
    if length != HEADER_BYTES:
        return WireError("BAD_HEADER_LENGTH", f"header length {length}")
    if reserved:
        return WireError("BAD_RESERVED", f"reserved bytes {reserved:#010x}")
    if payload > MAX_PAYLOAD_BYTES:
        return WireError("TOO_LARGE", f"payload of {payload} bytes, at most {MAX_PAYLOAD_BYTES}")
    return WireError("BAD_SEQUENCE", f"sequence {sequence:#018x} has generation or counter 0")
