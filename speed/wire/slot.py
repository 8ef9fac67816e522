"""A large payload in a slot, a file beside its lane that is written again and again (L-28).

The envelope in the lane holds the slot head; the slot holds the payload in pieces, each sealed for itself under a key
that is used for this payload only. So a piece of an earlier payload never passes for one of this.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from speed.errors import WireError
from speed.wire.limits import KEY_BYTES, MAX_PAYLOAD_BYTES, MAX_SLOTS, SLOT_HEAD_BYTES, SLOT_PIECE_BYTES, TAG_BYTES
from speed.wire.seal import Aead

_HEAD = Struct(">IIQ32s")
assert _HEAD.size == SLOT_HEAD_BYTES
_STRIDE = SLOT_PIECE_BYTES + TAG_BYTES


class SlotHead(NamedTuple):
    """Which slot a payload lies in, how long it is, and what opens it."""

    number: int
    payload_bytes: int
    key: bytes

    def encode(self) -> bytes:
        return _HEAD.pack(self.number, 0, self.payload_bytes, self.key)

    @classmethod
    def decode(cls, data: bytes) -> SlotHead:
        """WireError BAD_SLOT for anything that L-28 does not allow."""
        if len(data) != SLOT_HEAD_BYTES:
            raise WireError("BAD_SLOT", f"a slot head of {len(data)} bytes")
        number, zero, size, key = _HEAD.unpack(data)
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
