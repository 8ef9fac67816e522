"""One reused buffer for all lanes of a node: a read into fresh memory would page-fault each time (L-10)."""

from __future__ import annotations

import os

CHUNK_BYTES = 64 << 10
_KEPT_BYTES = 4 << 20


class ReadBuffer:
    """Private memory that lane bytes are copied into before anything about them is believed.

    Used by the one thread that holds the protocol role.
    """

    __slots__ = ("_chunk", "data")

    def __init__(self) -> None:
        self.data = bytearray(CHUNK_BYTES)
        self._chunk = memoryview(self.data)

    def fill(self, fd: int, offset: int, want: int = CHUNK_BYTES) -> int:
        """Read ``want`` bytes of a file at ``offset``, fewer at its end; returns how many."""
        if want == CHUNK_BYTES == len(self.data):
            return os.preadv(fd, [self._chunk], offset)
        if want > len(self.data):
            self._resize(want)
        done = 0
        with memoryview(self.data) as view:
            while done < want:
                count = os.preadv(fd, [view[done:want]], offset + done)
                if not count:
                    break
                done += count
        return done

    def trim(self) -> None:
        """Give the memory of a rare giant back."""
        if len(self.data) > _KEPT_BYTES:
            self._resize(CHUNK_BYTES)

    def _resize(self, size: int) -> None:
        self._chunk.release()
        self.data = bytearray(size)
        self._chunk = memoryview(self.data)
