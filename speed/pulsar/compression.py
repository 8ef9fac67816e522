"""The compressions of Pulsar: LZ4 as one raw block, ZLIB, ZSTD, SNAPPY as raw block."""

from __future__ import annotations

import zlib

from speed.errors import ConfigurationError
from speed.message import compression
from speed.message.errors import CompressionError

NONE = "NONE"
_CODECS = {"LZ4": "lz4", "ZSTD": "zstd", "SNAPPY": "snappy"}
KINDS = frozenset({NONE, "ZLIB", *_CODECS})


def check_kind(kind: str) -> str:
    """``kind`` if Pulsar knows it; ConfigurationError otherwise."""
    if kind not in KINDS:
        raise ConfigurationError(f"compression is {kind!r}: use one of {', '.join(sorted(KINDS))}")
    return kind


def compress(kind: str, payload: bytes) -> bytes:
    """``payload`` compressed, or as it is with ``NONE``."""
    if kind == NONE:
        return payload
    return zlib.compress(payload) if kind == "ZLIB" else compression.compress(_CODECS[kind], payload)


def uncompress(kind: str, payload: bytes, size: int, most: int) -> bytes:
    """The ``size`` bytes in ``payload``. CompressionError for anything else, and above ``most`` bytes."""
    if kind == NONE:
        size = len(payload)
    if not 0 <= size <= most:
        raise CompressionError(f"the message says that it has {size} bytes; {most} are allowed: see max_payload_bytes")
    if kind == NONE:
        return payload
    if kind not in KINDS:
        raise CompressionError(f"the message is compressed with {kind[:64]!r}, which cannot be read here")
    if size == 0:
        return b""
    return _inflate(payload, size) if kind == "ZLIB" else bytes(compression.decompress(_CODECS[kind], payload, size))


def _inflate(payload: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(payload, size + 1)
    except zlib.error:
        raise CompressionError("the payload is not ZLIB") from None
    if len(plain) != size or inflater.unused_data:  # Pulsar's Java client flushes its streams and does not end them
        raise CompressionError(f"the payload does not uncompress to the {size} bytes that it says")
    return plain
