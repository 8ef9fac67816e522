"""Payloads compressed and decompressed, with a bound that holds before anything is allocated (M-23).

gzip is the standard library's; zstd, lz4 and snappy are those of ``cramjam``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from speed.message.errors import CompressionError, NotAvailableError
from speed.message.zstd_frame import is_one_frame
from speed.wire import lazily
from speed.wire.limits import MAX_PAYLOAD_BYTES

_GZIP = 16 + zlib.MAX_WBITS


def compress(encoding: str, data: bytes | bytearray | memoryview) -> bytes:
    """``data`` in ``encoding``. Raises NotAvailableError, CompressionError for an encoding that does not exist."""
    if len(data) > MAX_PAYLOAD_BYTES:
        raise CompressionError(
            f"payload: {len(data)} bytes are above the bound of {MAX_PAYLOAD_BYTES}: send it in parts"
        )
    return _codec(encoding).compress(data)


def decompress(encoding: str, data: bytes | bytearray | memoryview, size: int) -> bytes | bytearray:
    """The ``size`` bytes that ``data`` holds; CompressionError for anything else."""
    if not 0 < size <= MAX_PAYLOAD_BYTES:
        raise CompressionError(f"uncompressed_bytes: is {size}, allowed are 1 to {MAX_PAYLOAD_BYTES}")
    return _codec(encoding).decompress(data, size)


class _Codec(NamedTuple):
    compress: Callable[[Any], bytes]
    decompress: Callable[[Any, int], bytes | bytearray]


def is_read(encoding: str) -> bool:
    """Whether payloads of this encoding are decompressed here; others are handed out as they are (M-9)."""
    return encoding in _CODECS


def _codec(encoding: str) -> _Codec:
    codec = _CODECS.get(encoding)
    if codec is None:
        raise CompressionError(
            f"content_encoding: {encoding[:64]!r} cannot be read here; there are {', '.join(_CODECS)}"
        )
    return codec


def _gunzip(data: Any, size: int) -> bytes:
    inflater = zlib.decompressobj(_GZIP)
    try:
        plain = inflater.decompress(data, size + 1)
    except zlib.error:
        raise CompressionError("payload: is not gzip") from None
    if len(plain) != size or not inflater.eof or inflater.unused_data:
        raise CompressionError(f"payload: does not decompress to the {size} bytes that it says")
    return plain


def _gzip(data: Any) -> bytes:
    deflater = zlib.compressobj(wbits=_GZIP)
    return deflater.compress(data) + deflater.flush()


def _cramjam(module: str) -> Any:
    try:
        return getattr(lazily.load("cramjam"), module)
    except ImportError:
        raise NotAvailableError(f"{module} needs cramjam: install speed-ipc[messages]") from None


def _filled(decompress_into: Callable[[Any, Any], int], data: Any, size: int, name: str) -> bytearray:
    """A buffer of exactly ``size`` bytes, filled to its end by one block or frame."""
    plain = bytearray(size)
    try:
        written = decompress_into(data, plain)
    except lazily.load("cramjam").DecompressionError:
        raise CompressionError(f"payload: is not {name} of {size} bytes") from None
    if written != size:
        raise CompressionError(f"payload: does not decompress to the {size} bytes that it says")
    return plain


def _unzstd(data: Any, size: int) -> bytearray:
    if not is_one_frame(data, size):
        raise CompressionError("payload: is not one frame of zstd of the bytes that it says")
    return _filled(_cramjam("zstd").decompress_into, data, size, "zstd")


def _unlz4(data: Any, size: int) -> bytearray:
    decompress = _cramjam("lz4").decompress_block_into
    return _filled(lambda source, plain: decompress(source, plain, output_len=size), data, size, "lz4")


_CODECS = {
    "gzip": _Codec(_gzip, _gunzip),
    "zstd": _Codec(
        lambda data: bytes(_cramjam("zstd").compress(data)),
        _unzstd,
    ),
    "lz4": _Codec(
        lambda data: bytes(_cramjam("lz4").compress_block(data, store_size=False)),
        _unlz4,
    ),
    "snappy": _Codec(
        lambda data: bytes(_cramjam("snappy").compress_raw(data)),
        lambda data, size: _filled(_cramjam("snappy").decompress_raw_into, data, size, "snappy"),
    ),
}
