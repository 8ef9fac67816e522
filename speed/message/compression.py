"""Payloads compressed, with a bound that holds before anything is allocated (M-23).

Its decoders read several frames for one and pass over some, and not all of them look at reserved bits and at the size
that a frame states. So what is a frame is decided here, and is the same in every language.

gzip is the standard library's; zstd, lz4 and snappy are those of ``cramjam``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from speed.message.errors import CompressionError, NotAvailableError
from speed.wire import lazily
from speed.wire.limits import MAX_PAYLOAD_BYTES, MAX_ZSTD_WINDOW_BYTES

# What a frame of Zstandard must be beside decodable (M-23; RFC 8878, section 3.1.1).

_MAGIC = b"\x28\xb5\x2f\xfd"
_SIZE_BYTES = (0, 2, 4, 8)
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_MAX_BLOCK_BYTES = 1 << 17
_RUN, _COMPRESSED = 1, 2
_REFUSED_IN_DESCRIPTOR = 0b1011
"""The reserved bit, and those that name a dictionary."""
_SINGLE_SEGMENT = 0b100000
"""Its window is as large as what it holds."""
_RESERVED_IN_MODES = 0b11


class _Literals(NamedTuple):
    """The head of the literals of one block: its bytes, where the size lies in them, and how many bits that has."""

    head_bytes: int
    shift: int
    bits: int


_PLAIN = (_Literals(1, 3, 5), _Literals(2, 4, 12), _Literals(1, 3, 5), _Literals(3, 4, 20))
_PACKED = (_Literals(3, 14, 10), _Literals(3, 14, 10), _Literals(4, 18, 14), _Literals(5, 22, 18))
"""By size format; packed ones state what they hold first, which is passed over."""


def is_one_frame(data: bytes | bytearray | memoryview, size: int) -> bool:
    """Whether ``data`` is one whole frame and nothing more, that states no other ``size``, names no dictionary, sets no
    reserved bit and keeps the bounds of window and blocks. Else what its blocks hold is not looked at.
    """
    if bytes(data[:4]) != _MAGIC or len(data) < 6:
        return False
    descriptor = data[4]
    at, size_bytes = _header(descriptor)
    if descriptor & _REFUSED_IN_DESCRIPTOR or not _states(data[at - size_bytes : at], size):
        return False
    if descriptor & _SINGLE_SEGMENT:  # what it holds is bounded as any payload
        return _ends_well(data, at, min(size, _MAX_BLOCK_BYTES))
    window = _window(data[5])
    return window <= MAX_ZSTD_WINDOW_BYTES and _ends_well(data, at, min(window, _MAX_BLOCK_BYTES))


def _ends_well(data: bytes | bytearray | memoryview, at: int, limit: int) -> bool:
    """Whether blocks of at most ``limit`` bytes begin there, and the frame ends with ``data``."""
    while at + _BLOCK_HEADER_BYTES <= len(data):
        header = _number(data[at : at + _BLOCK_HEADER_BYTES])
        at += _BLOCK_HEADER_BYTES
        kind, end = header >> 1 & 3, at + (header >> 3)
        if header >> 3 > limit:
            return False
        if kind == _COMPRESSED and _has_reserved_mode(data[at:end]):
            return False
        at = at + 1 if kind == _RUN else end
        if header & 1:
            return at + (data[4] >> 2 & 1) * _CHECKSUM_BYTES == len(data)
    return False


def _header(descriptor: int) -> tuple[int, int]:
    """Bytes before the first block, and how many of them, the last ones, state the size."""
    is_single = descriptor >> 5 & 1
    size_bytes = _SIZE_BYTES[descriptor >> 6] or is_single
    return 5 + (1 - is_single) + size_bytes, size_bytes


def _window(field: int) -> int:
    """Its upper five bits are the exponent, the lower ones eighths."""
    base = 1 << 10 + (field >> 3)
    return base + (base >> 3) * (field & 7)


def _states(field: bytes | bytearray | memoryview, size: int) -> bool:
    """Two bytes begin at 256."""
    return len(field) == 0 or _number(field) + 256 * (len(field) == 2) == size


def _has_reserved_mode(block: bytes | bytearray | memoryview) -> bool:
    """In the modes of its sequences. A block that ends before them is left to the decoder."""
    at = _sequences_at(block) if len(block) else 0
    if at >= len(block) or block[at] == 0:
        return False
    at += 1 if block[at] < 128 else 2 if block[at] < 255 else 3
    return at < len(block) and block[at] & _RESERVED_IN_MODES != 0


def _sequences_at(block: bytes | bytearray | memoryview) -> int:
    """Behind the literals."""
    kind, form = block[0] & 3, block[0] >> 2 & 3
    head = (_PACKED if kind >= _COMPRESSED else _PLAIN)[form]
    size = _number(block[: head.head_bytes]) >> head.shift & (1 << head.bits) - 1
    return head.head_bytes + (1 if kind == _RUN else size)


def _number(field: bytes | bytearray | memoryview) -> int:
    return int.from_bytes(field, "little")


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
