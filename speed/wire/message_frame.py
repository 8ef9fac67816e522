"""The payload record as writers frame it (M-2): what stands before its bytes."""

from __future__ import annotations

from speed.wire.records import varint

PAYLOAD_TAG = b"\x9a\x06"
_URL_TAG, _VALUE_TAG = b"\x0a", b"\x12"


def frame_of(size: int, type_url: str = "") -> bytes:
    """What stands before a payload of ``size`` bytes."""
    fields = _VALUE_TAG + varint(size)
    if type_url:
        url = type_url.encode()
        fields = _URL_TAG + varint(len(url)) + url + fields
    return PAYLOAD_TAG + varint(len(fields) + size) + fields
