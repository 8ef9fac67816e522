"""The cursor and fence files of a lane: fixed layouts with a check value (rules W-40 to W-43).

::

    cursor   0 "SPDC" | 4 version u8 | 5 flags u8 (1 = closed cleanly) | 6 count u16 | 8 receiver gen. u32
            12 zero u32 | 16 sender generation u32 | 20 segment u32 | 24 offset u64 | 32 last sequence u64
            40 zero, 24 bytes | 64 count x (sequence u64, segment u32, sender gen. u32, offset u64) | check 16
    fence    0 "SPDF" | 4 version u8 | 5 zero, 3 bytes | 8 new generation u32 | 12 old generation u32
            16 segment u32 | 20 zero u32 | 24 size u64 | 32 check 16
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from speed.errors import WireError
from speed.wire.limits import MAX_UNFINISHED

CHECK_BYTES = 16
MAX_CURSOR_BYTES = 64 + 24 * MAX_UNFINISHED + CHECK_BYTES
FENCE_BYTES = 48

_FLAG_CLEAN = 1
_CURSOR = Struct(">4sBBHI4xIIQQ24x")
_UNFINISHED = Struct(">QIIQ")
_FENCE = Struct(">4sB3xIII4xQ")
_pack_cursor = _CURSOR.pack
_pack_unfinished = _UNFINISHED.pack
_digest = hmac.digest


class Unfinished(NamedTuple):
    """An envelope that was dispatched and not finished; ``offset`` in bytes within its segment."""

    sequence: int
    generation: int
    segment: int
    offset: int


@dataclass(slots=True)
class Cursor:
    """How far a receiver's generation came in a lane.

    Every envelope before (sender_generation, segment, offset) was dispatched; all of those are finished
    except ``unfinished``. ``last_sequence`` is that of the last envelope before the position, 0 for none.
    ``clean`` says that the receiver closed in order, so nothing beyond the position was dispatched.
    """

    receiver_generation: int
    sender_generation: int = 0
    segment: int = 0
    offset: int = 0
    last_sequence: int = 0
    unfinished: tuple[tuple[int, int, int, int], ...] = ()
    clean: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """What a restarted sender disowns.

    Bytes of generations below ``new_generation`` beyond (old_generation, segment, size) are never accepted.
    """

    new_generation: int
    old_generation: int
    segment: int
    size: int


def encode_cursor(cursor: Cursor, lane_key: bytes) -> bytes:
    """Return the cursor file's bytes; called once per finished message, so it stays lean (rule W-40)."""
    unfinished = cursor.unfinished
    body = _pack_cursor(
        b"SPDC", 1, cursor.clean, len(unfinished), cursor.receiver_generation, cursor.sender_generation,
        cursor.segment, cursor.offset, cursor.last_sequence,
    )  # fmt: skip
    if unfinished:
        if len(unfinished) > MAX_UNFINISHED:
            raise ValueError(f"{len(unfinished)} unfinished envelopes, at most {MAX_UNFINISHED}")
        body += b"".join(
            [_pack_unfinished(sequence, seg, gen, at) for sequence, gen, seg, at in sorted(unfinished)]
        )
    return body + _digest(lane_key, body, "sha256")[:CHECK_BYTES]


def decode_cursor(data: bytes, lane_keys: Iterable[bytes]) -> Cursor:
    """Parse a cursor file; bytes after the check value are what an earlier, longer cursor left (rule W-41).

    Raises:
        WireError: BAD_CURSOR.
    """
    if len(data) < _CURSOR.size + CHECK_BYTES:
        raise WireError("BAD_CURSOR", f"{len(data)} bytes are too few")
    magic, version, flags, count, receiver, sender, segment, offset, last = _CURSOR.unpack_from(data)
    end = _CURSOR.size + count * _UNFINISHED.size
    if magic != b"SPDC" or version != 1 or flags > _FLAG_CLEAN or count > MAX_UNFINISHED:
        raise WireError("BAD_CURSOR", "not a cursor of version 1")
    if len(data) < end + CHECK_BYTES:
        raise WireError("BAD_CURSOR", f"cut short: {len(data)} bytes for {count} unfinished envelopes")
    if any(data[12:16]) or any(data[40:64]):
        raise WireError("BAD_CURSOR", "reserved bytes are not zero")
    _verify("BAD_CURSOR", data, end, lane_keys)
    unfinished = tuple(
        Unfinished(sequence, gen, seg, at)
        for sequence, seg, gen, at in _UNFINISHED.iter_unpack(data[_CURSOR.size : end])
    )
    if any(later.sequence <= earlier.sequence for earlier, later in pairwise(unfinished)):
        raise WireError("BAD_CURSOR", "unfinished envelopes are not in order of sequence")
    return Cursor(receiver, sender, segment, offset, last, unfinished, bool(flags & _FLAG_CLEAN))


def encode_fence(fence: Fence, lane_key: bytes) -> bytes:
    """Return the fence file's bytes (rule W-42)."""
    body = _FENCE.pack(b"SPDF", 1, fence.new_generation, fence.old_generation, fence.segment, fence.size)
    return body + _digest(lane_key, body, "sha256")[:CHECK_BYTES]


def decode_fence(data: bytes, lane_keys: Iterable[bytes]) -> Fence:
    """Parse a fence file, exactly FENCE_BYTES long (rule W-43).

    Raises:
        WireError: BAD_FENCE.
    """
    if len(data) != FENCE_BYTES:
        raise WireError("BAD_FENCE", f"{len(data)} bytes instead of {FENCE_BYTES}")
    magic, version, new, old, segment, size = _FENCE.unpack_from(data)
    if magic != b"SPDF" or version != 1 or any(data[5:8]) or any(data[20:24]):
        raise WireError("BAD_FENCE", "not a fence of version 1")
    _verify("BAD_FENCE", data, _FENCE.size, lane_keys)
    if old >= new:
        raise WireError("BAD_FENCE", f"generation {old} is not older than {new}")
    return Fence(new, old, segment, size)


def _verify(reason: str, data: bytes, end: int, lane_keys: Iterable[bytes]) -> None:
    body, check = data[:end], data[end : end + CHECK_BYTES]
    for key in lane_keys:
        if hmac.compare_digest(_digest(key, body, "sha256")[:CHECK_BYTES], check):
            return
    raise WireError(reason, "the check value is wrong")
