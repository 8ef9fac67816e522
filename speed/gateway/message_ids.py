"""Ids of messages as clients see them: Base64 of Pulsar's ``MessageIdData``. Pure.

The ledger stands for the topic (its lane), the entry is the offset.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import NamedTuple

from speed.errors import WireError
from speed.wire.records import VARINT, read_varint, varint, walk

MAX_TEXT = 512
MAX_NUMBER_BYTES = 10


class MessageId(NamedTuple):
    """A place in a topic."""

    ledger: int
    entry: int

    def text(self) -> str:
        """As clients get it."""
        data = b"\x08" + varint(self.ledger) + b"\x10" + varint(self.entry)
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
    found = _numbers(data)
    if 1 not in found or 2 not in found:
        raise ValueError("without ledger or entry")
    return MessageId(found[1], found[2])


def _numbers(data: bytes) -> dict[int, int]:
    """The numbers of a message of protobuf by field; all else is passed over."""
    try:
        return {
            field: read_varint(data, begin, MAX_NUMBER_BYTES)[0]
            for field, kind, _, begin, _ in walk(data)
            if kind == VARINT
        }
    except WireError as error:
        raise ValueError(str(error)) from None
