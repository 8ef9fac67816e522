"""The payload record as writers frame it (M-2): what stands before its bytes, made and recognised."""

from __future__ import annotations

from functools import lru_cache

from speed.wire.records import varint

PAYLOAD_TAG = b"\x9a\x06"
_URL_TAG, _VALUE_TAG = b"\x0a", b"\x12"
_LENGTHS = range(5, 14)
"""Of frames, in bytes: two tags, and two lengths of one to five bytes."""


def frame(size: int, type_url: str = "") -> bytes:
    """What stands before a payload of ``size`` bytes."""
    fields = _VALUE_TAG + varint(size)
    if type_url:
        url = type_url.encode()
        fields = _URL_TAG + varint(len(url)) + url + fields
    return PAYLOAD_TAG + varint(len(fields) + size) + fields


frame_of = lru_cache(maxsize=4096)(frame)
"""The same, remembered: sizes repeat."""


@lru_cache(maxsize=4096)
def frame_within(size: int) -> bytes:
    """The frame that is ``size`` bytes long together with its payload, which has no type URL; empty if none is."""
    for length in _LENGTHS:
        found = frame(max(size - length, 0))
        if len(found) == length <= size:
            return found
    return b""
