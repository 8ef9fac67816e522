"""The small binary files of a lane: cursor, deliveries, fence (L-14, L-18, L-25), slots (L-28); the floor (R-24).

Cursor: every envelope before the position was dispatched, and all of those are finished but the listed.
Fence: what lies beyond it in lanes of older generations was written by an owner that had lost its name.

The envelope in the lane holds the slot head; the slot holds the payload in pieces, each sealed for itself under a key
that is used for this payload only. So a piece of an earlier payload never passes for one of this.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from struct import Struct
from typing import Any, NamedTuple

from speed.errors import WireError
from speed.wire.limits import (
    KEY_BYTES,
    MAX_DELIVERIES_LISTED,
    MAX_LANES,
    MAX_PAYLOAD_BYTES,
    MAX_SLOTS,
    MAX_UNFINISHED,
    SLOT_HEAD_BYTES,
    SLOT_PIECE_BYTES,
    TAG_BYTES,
)
from speed.wire.seal import Aead

_CURSOR = Struct(">4sBBHIIIIQQ24x")
_UNFINISHED = Struct(">QIIQ")
_FENCE = Struct(">4sB3xIIIIQ")
_DELIVERIES = Struct(">4sBxH")
_DELIVERED = Struct(">QI")
_MAC_BYTES = 16
_CLEAN, _SEALED = 1, 2
_BEGUN = 1 << 63
MAX_CURSOR_BYTES = _CURSOR.size + MAX_UNFINISHED * _UNFINISHED.size + _MAC_BYTES
FENCE_BYTES = _FENCE.size + _MAC_BYTES
MAX_DELIVERIES_BYTES = _DELIVERIES.size + MAX_DELIVERIES_LISTED * _DELIVERED.size + _MAC_BYTES
assert _CURSOR.size == 64


class Unfinished(NamedTuple):
    """One dispatched but unfinished envelope: its sequence and where it begins.

    ``begun``: a request of an idempotent service, which runs or ran.
    """

    sequence: int
    file: int
    generation: int
    offset: int
    begun: bool = False


class Cursor(NamedTuple):
    """A receiver's committed position in one lane.

    ``clean``: it was closed in order. ``sealed``: no earlier generation begins more than this one read (L-31).
    """

    receiver_generation: int
    sender_generation: int
    file: int
    offset: int
    last_sequence: int
    unfinished: tuple[Unfinished, ...] = ()
    clean: bool = False
    sealed: bool = False


class Fence(NamedTuple):
    """The end of all that older generations of a sender wrote by right."""

    new_generation: int
    old_generation: int
    file: int
    size: int


@lru_cache(maxsize=MAX_LANES)
def _keyed(lane_key: bytes) -> tuple[Any, Any]:
    """SHA-256 after the inner and the outer pad of HMAC: copying them is half the price of ``hmac.digest``."""
    padded = lane_key.ljust(sha256().block_size, b"\0")
    return sha256(bytes(byte ^ 0x36 for byte in padded)), sha256(bytes(byte ^ 0x5C for byte in padded))


def _mac(lane_key: bytes, data: bytes) -> bytes:
    inner, outer = _keyed(lane_key)
    inner, outer = inner.copy(), outer.copy()
    inner.update(data)
    outer.update(inner.digest())
    mac: bytes = outer.digest()[:_MAC_BYTES]
    return mac


def _authentic(data: bytes, lane_keys: Sequence[bytes], reason: str) -> bytes:
    body, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
    if not any(hmac.compare_digest(mac, _mac(key, body)) for key in lane_keys):
        raise WireError(reason, "the MAC does not fit")
    return body


def encode_cursor(cursor: Cursor, lane_key: bytes) -> bytes:
    """The bytes of a cursor file; their length is 80 + 24 for each unfinished envelope."""
    body = _CURSOR.pack(
        b"SPDC",
        1,
        _CLEAN * cursor.clean | _SEALED * cursor.sealed,
        len(cursor.unfinished),
        cursor.receiver_generation,
        0,
        cursor.sender_generation,
        cursor.file,
        cursor.offset,
        cursor.last_sequence,
    )
    if cursor.unfinished:
        body += b"".join([_packed(entry) for entry in cursor.unfinished])
    return body + _mac(lane_key, body)


def decode_cursor(data: bytes, lane_keys: Sequence[bytes]) -> Cursor:
    """The cursor in ``data`` (what follows its end is ignored); WireError BAD_CURSOR otherwise."""
    if len(data) < _CURSOR.size + _MAC_BYTES:
        raise WireError("BAD_CURSOR", "too short")
    magic, version, flags, count, receiver, _, sender, file, offset, last = _CURSOR.unpack_from(data)
    length = _CURSOR.size + count * _UNFINISHED.size + _MAC_BYTES
    if magic != b"SPDC" or version != 1 or count > MAX_UNFINISHED or len(data) < length:
        raise WireError("BAD_CURSOR", "no cursor of version 1")
    body = _authentic(bytes(data[:length]), lane_keys, "BAD_CURSOR")
    unfinished = tuple(_unfinished(body, _CURSOR.size + index * _UNFINISHED.size) for index in range(count))
    return Cursor(receiver, sender, file, offset, last, unfinished, bool(flags & _CLEAN), bool(flags & _SEALED))


def _packed(entry: Unfinished) -> bytes:
    sequence, file, generation, offset, begun = entry
    return _UNFINISHED.pack(sequence, file, generation, offset | _BEGUN if begun else offset)


def _unfinished(body: bytes, at: int) -> Unfinished:
    sequence, file, generation, offset = _UNFINISHED.unpack_from(body, at)
    return Unfinished(sequence, file, generation, offset & ~_BEGUN, bool(offset & _BEGUN))


def encode_fence(fence: Fence, lane_key: bytes) -> bytes:
    """The 48 bytes of a fence file."""
    body = _FENCE.pack(b"SPDF", 1, fence.new_generation, fence.old_generation, fence.file, 0, fence.size)
    return body + _mac(lane_key, body)


def decode_fence(data: bytes, lane_keys: Sequence[bytes]) -> Fence:
    """The fence in ``data``; WireError BAD_FENCE if it is not authentic."""
    if len(data) != FENCE_BYTES:
        raise WireError("BAD_FENCE", "wrong length")
    magic, version, new, old, file, _, size = _FENCE.unpack_from(data)
    if magic != b"SPDF" or version != 1:
        raise WireError("BAD_FENCE", "no fence of version 1")
    _authentic(bytes(data), lane_keys, "BAD_FENCE")
    return Fence(new, old, file, size)


def encode_deliveries(deliveries: Mapping[int, int], lane_key: bytes) -> bytes:
    """The bytes of a file of deliveries: how often each message, by its sequence, has been begun."""
    body = _DELIVERIES.pack(b"SPDD", 1, len(deliveries))
    body += b"".join(_DELIVERED.pack(*one) for one in sorted(deliveries.items()))
    return body + _mac(lane_key, body)


def decode_deliveries(data: bytes, lane_keys: Sequence[bytes]) -> dict[int, int]:
    """How often each message has been begun; WireError BAD_CURSOR if the file is not authentic."""
    if len(data) < _DELIVERIES.size + _MAC_BYTES:
        raise WireError("BAD_CURSOR", "too short")
    magic, version, count = _DELIVERIES.unpack_from(data)
    length = _DELIVERIES.size + count * _DELIVERED.size + _MAC_BYTES
    if magic != b"SPDD" or version != 1 or count > MAX_DELIVERIES_LISTED or len(data) != length:
        raise WireError("BAD_CURSOR", "no deliveries of version 1")
    body = _authentic(bytes(data), lane_keys, "BAD_CURSOR")
    return dict(_DELIVERED.iter_unpack(body[_DELIVERIES.size :]))


# The floor of generations: below it lives were forgotten, above it every new claim begins.

_FLOOR_HEAD = Struct(">4sB3x")
_NUMBERS = Struct(">256I")
_MAGIC = b"SPDR"
_VERSION = 1
FLOOR_BYTES = _FLOOR_HEAD.size + _NUMBERS.size + _MAC_BYTES
NO_FLOOR = (0,) * 256


def encode_floors(floors: Sequence[int], registry_key: bytes) -> bytes:
    """The bytes of the floor file; ``floors`` are 256 generations, by the first byte of a node id."""
    data = _FLOOR_HEAD.pack(_MAGIC, _VERSION) + _NUMBERS.pack(*floors)
    return data + _floor_mac(registry_key, data)


def decode_floors(data: bytes, registry_keys: Sequence[bytes]) -> tuple[int, ...]:
    """The 256 generations in ``data``; WireError BAD_FLOOR if no accepted key made it, or it is no floor file."""
    body, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
    if len(data) != FLOOR_BYTES or _FLOOR_HEAD.unpack_from(data) != (_MAGIC, _VERSION) or body[5:8] != bytes(3):
        raise WireError("BAD_FLOOR", "no floor file")
    if not any(hmac.compare_digest(mac, _floor_mac(key, body)) for key in registry_keys):
        raise WireError("BAD_FLOOR", "the MAC does not fit: altered, or of another key")
    return _NUMBERS.unpack_from(data, _FLOOR_HEAD.size)


def _floor_mac(registry_key: bytes, data: bytes) -> bytes:
    return hmac.digest(registry_key, data, "sha256")[:_MAC_BYTES]


_SLOT_HEAD = Struct(">IIQ32s")
assert _SLOT_HEAD.size == SLOT_HEAD_BYTES
_STRIDE = SLOT_PIECE_BYTES + TAG_BYTES


class SlotHead(NamedTuple):
    """Which slot a payload lies in, how long it is, and what opens it."""

    number: int
    payload_bytes: int
    key: bytes

    def encode(self) -> bytes:
        return _SLOT_HEAD.pack(self.number, 0, self.payload_bytes, self.key)

    @classmethod
    def decode(cls, data: bytes) -> SlotHead:
        """WireError BAD_SLOT for anything that L-28 does not allow."""
        if len(data) != SLOT_HEAD_BYTES:
            raise WireError("BAD_SLOT", f"a slot head of {len(data)} bytes")
        number, zero, size, key = _SLOT_HEAD.unpack(data)
        if zero or not 0 < number <= MAX_SLOTS or not 0 < size <= MAX_PAYLOAD_BYTES:
            raise WireError("BAD_SLOT", f"a slot head of slot {number} with {size} bytes")
        return cls(number, size, key)

    def __repr__(self) -> str:
        return f"<SlotHead {self.number}: {self.payload_bytes} bytes>"


class SlotPieces:
    """The pieces of one payload: where each lies in the slot, and how it is sealed."""

    def __init__(self, key: bytes, payload_bytes: int) -> None:
        assert len(key) == KEY_BYTES
        self._aead = Aead(key)
        self._payload_bytes = payload_bytes
        self.count = -(-payload_bytes // SLOT_PIECE_BYTES)
        self.slot_bytes = payload_bytes + self.count * TAG_BYTES
        """How long the slot is at least."""

    def place(self, index: int) -> tuple[int, int]:
        """Where sealed piece ``index`` lies in the slot: its offset and its size with the tag, in bytes."""
        size = min(SLOT_PIECE_BYTES, self._payload_bytes - index * SLOT_PIECE_BYTES)
        return index * _STRIDE, size + TAG_BYTES

    def seal(self, index: int, payload: bytes | memoryview) -> bytes:
        """Sealed piece ``index`` of the whole ``payload``."""
        begin = index * SLOT_PIECE_BYTES
        return self._aead.encrypt(_nonce(index), memoryview(payload)[begin : begin + SLOT_PIECE_BYTES], b"")

    def open(self, index: int, sealed: bytes | memoryview, payload: memoryview) -> bool:
        """Put what was sealed as piece ``index`` in its place of ``payload``; False if these bytes are not that."""
        begin = index * SLOT_PIECE_BYTES
        try:
            self._aead.decrypt_into(_nonce(index), sealed, b"", payload[begin : begin + SLOT_PIECE_BYTES])
        except ValueError:
            return False
        return True


def _nonce(index: int) -> bytes:
    return bytes(4) + index.to_bytes(8, "big")
