"""Ids of messages as clients see them: Base64 of Pulsar's ``MessageIdData``. Pure.

The ledger stands for the topic (its lane), the entry is the offset.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import NamedTuple

MAX_TEXT = 512
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}


class MessageId(NamedTuple):
    """A place in a topic."""

    ledger: int
    entry: int

    def text(self) -> str:
        """As clients get it."""
        data = b"\x08" + _written(self.ledger) + b"\x10" + _written(self.entry)
        return b64encode(data).decode()


REPEATED = MessageId((1 << 64) - 1, (1 << 64) - 1)
"""Of a message that was kept before."""


def ledger_of(lane: str) -> int:
    """The number of a topic: half of its lane's id, which changes when the topic is made anew."""
    return int(lane[:16], 16) >> 1


def read(text: str) -> MessageId:
    """ValueError for what is no id."""
    if len(text) > MAX_TEXT:
        raise ValueError("longer than any id")
    try:
        data = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("not Base64") from None
    found = _fields(data)
    if 1 not in found or 2 not in found:
        raise ValueError("without ledger or entry")
    return MessageId(found[1], found[2])


def _fields(data: bytes) -> dict[int, int]:
    """The numbers of a message of protobuf; all else is passed over."""
    found: dict[int, int] = {}
    place = 0
    while place < len(data):
        tag, place = _number(data, place)
        kind = tag & 7
        if kind == _VARINT:
            found[tag >> 3], place = _number(data, place)
        elif kind == _BYTES:
            size, place = _number(data, place)
            place += size
        elif kind in _SIZES:
            place += _SIZES[kind]
        else:
            raise ValueError("no protobuf")
    if place != len(data):
        raise ValueError("cut")
    return found


def _number(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("cut")
        number |= (data[place] & 0x7F) << shift
        place += 1
        if data[place - 1] < 0x80:
            return number, place
    raise ValueError("a number that is too long")


def _written(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)
