"""The floor of generations (R-24): below it lives were forgotten, above it every new claim begins."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from struct import Struct

from speed.errors import WireError

_HEAD = Struct(">4sB3x")
_NUMBERS = Struct(">256I")
_MAC_BYTES = 16
_MAGIC = b"SPDR"
_VERSION = 1
FLOOR_BYTES = _HEAD.size + _NUMBERS.size + _MAC_BYTES
NO_FLOOR = (0,) * 256


def encode_floors(floors: Sequence[int], registry_key: bytes) -> bytes:
    """The bytes of the floor file; ``floors`` are 256 generations, by the first byte of a node id."""
    data = _HEAD.pack(_MAGIC, _VERSION) + _NUMBERS.pack(*floors)
    return data + _mac(registry_key, data)


def decode_floors(data: bytes, registry_keys: Sequence[bytes]) -> tuple[int, ...]:
    """The 256 generations in ``data``; WireError BAD_FLOOR if no accepted key made it, or it is no floor file."""
    body, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
    if len(data) != FLOOR_BYTES or _HEAD.unpack_from(data) != (_MAGIC, _VERSION) or body[5:8] != bytes(3):
        raise WireError("BAD_FLOOR", "no floor file")
    if not any(hmac.compare_digest(mac, _mac(key, body)) for key in registry_keys):
        raise WireError("BAD_FLOOR", "the MAC does not fit: altered, or of another key")
    return _NUMBERS.unpack_from(data, _HEAD.size)


def _mac(registry_key: bytes, data: bytes) -> bytes:
    return hmac.digest(registry_key, data, "sha256")[:_MAC_BYTES]
