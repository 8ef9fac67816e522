"""What all vectors share: keys, names and times that never change, and two ways to damage bytes."""

from __future__ import annotations

from speed.wire.names import node_id
from speed.wire.seal import Keyring

KEY, OLD, FOREIGN = bytes(range(32)), bytes(range(32, 64)), bytes([0xAA]) * 32
ACCEPTED = [KEY.hex(), OLD.hex()]
SOURCE, TARGET, OTHER = "analytics", "billing", "etl.1"
NONCE = bytes(range(0x40, 0x4C))
TIME = 1_700_000_000_123
RING = Keyring((KEY,))
LANE_KEY = RING.lane_key(node_id(SOURCE), node_id(TARGET))


def patched(envelope: bytes, offset: int, replacement: bytes) -> bytes:
    return envelope[:offset] + replacement + envelope[offset + len(replacement) :]


def flipped(envelope: bytes, offset: int) -> bytes:
    return patched(envelope, offset, bytes([envelope[offset] ^ 1]))
