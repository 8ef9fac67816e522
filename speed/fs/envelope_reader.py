"""From bytes in private memory to opened envelopes of one lane (L-10, L-11)."""

from __future__ import annotations

import os
from typing import NamedTuple

from speed.core.lane import LaneDecoder, Opened
from speed.core.progress import Token
from speed.wire.envelope import Header
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.seal import Keyring, LinkOpener

CHUNK_BYTES = 64 << 10
"""What is read of a segment at a time, unless an envelope is larger."""


class Received(NamedTuple):
    """One authentic envelope; ``token`` finishes it.

    ``redelivered``: an earlier process may have begun it. ``unsure``: not even of a request that it committed before
    it began can be told whether it did (S-8).
    """

    header: Header
    payload: bytes
    redelivered: bool
    token: Token
    unsure: bool = False


class EnvelopeReader:
    """The decoder of a lane, and reading of single envelopes. Not thread-safe: the lane's reader guards it."""

    __slots__ = ("decoder",)

    def __init__(self, source_id: bytes, target_id: bytes, keyring: Keyring, target_life: int = 0) -> None:
        opener = LinkOpener(keyring, source_id, target_id, target_life)
        self.decoder = LaneDecoder(source_id, target_id, MAX_PAYLOAD_BYTES, opener.open)

    def at(self, fd: int, generation: int, offset: int) -> Opened | None:
        """The authentic envelope that begins at a place of a segment, however large it is."""
        needed = CHUNK_BYTES
        while True:
            scanned = self.decoder.scan(read_at(fd, offset, needed), offset, generation, limit=1)
            if scanned.items or scanned.needed <= needed:
                break
            needed = scanned.needed
        return next((item for item in scanned.items if isinstance(item, Opened)), None)  # at most one was asked for


def read_at(fd: int, offset: int, want: int) -> bytes:
    """A private copy of ``want`` bytes of a file, fewer at its end; nothing about them is believed before."""
    data = os.pread(fd, want, offset)
    while data and len(data) < want:
        more = os.pread(fd, want - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
