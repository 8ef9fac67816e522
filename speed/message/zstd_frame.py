"""Where a frame of Zstandard ends (RFC 8878, section 3.1.1): its decoders read several, and pass over some (M-23)."""

from __future__ import annotations

_MAGIC = b"\x28\xb5\x2f\xfd"
_DICTIONARY_BYTES = (0, 1, 2, 4)
_SIZE_BYTES = (0, 2, 4, 8)
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_RUN = 1


def is_one_frame(data: bytes | bytearray | memoryview) -> bool:
    """Whether ``data`` is one frame, whole and nothing beside it; what its blocks hold is not looked at."""
    if bytes(data[:4]) != _MAGIC or len(data) < 5:
        return False
    at, checksum = _header(data[4])
    while at + _BLOCK_HEADER_BYTES <= len(data):
        block = int.from_bytes(data[at : at + _BLOCK_HEADER_BYTES], "little")
        size = 1 if block >> 1 & 3 == _RUN else block >> 3
        at += _BLOCK_HEADER_BYTES + size
        if block & 1:
            return at + checksum == len(data)
    return False


def _header(descriptor: int) -> tuple[int, int]:
    """Bytes before the first block, and behind the last."""
    is_single = descriptor >> 5 & 1
    size = _SIZE_BYTES[descriptor >> 6] or is_single
    return 5 + (1 - is_single) + _DICTIONARY_BYTES[descriptor & 3] + size, (descriptor >> 2 & 1) * _CHECKSUM_BYTES
