"""Walking the blocks of one volume: where each begins, where the whole ones end, what is damaged (J-6, J-7)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from enum import Enum

from speed.errors import WireError
from speed.wire.journal import BLOCK_HEADER_BYTES, BlockHeader, parse_block_header
from speed.wire.limits import JOURNAL_SEGMENT_BYTES, MAX_JOURNAL_BLOCK_BYTES

Opens = Callable[[BlockHeader, bytes], bool]
"""Whether a block is authentic."""
CHUNK_BYTES = 1 << 20
HEADERS_BYTES = 1 << 14
"""What is read at once where only headers are looked at: most blocks are larger."""
MAGIC = b"SPJB"
LARGEST_BYTES = 2 * JOURNAL_SEGMENT_BYTES + MAX_JOURNAL_BLOCK_BYTES
"""No volume grows beyond: what lies behind, such as the hole of a sparse giant, is not looked at (J-6)."""
TRIED_BYTES = 4 * LARGEST_BYTES
"""Bytes of forged blocks that a search behind damage tries to open."""


class End(Enum):
    """Why a walk ended."""

    CLEAN = "clean"
    """At the end of the file."""
    TORN = "torn"
    """At a block whose writing was cut off: it was never acknowledged."""
    DAMAGED = "damaged"
    """At bytes that are no block, with more behind them than a cut-off write explains."""


class Volume:
    """An open volume file, read in chunks. ``first`` is the offset in its name. Not thread-safe."""

    def __init__(self, fd: int, first: int) -> None:
        self._fd = fd
        self.first = first
        self._data = b""
        self._start = 0
        self.position = 0
        self.offset = first
        self.ended = End.CLEAN
        self.damaged_at = -1
        """Where ``sound`` first met damage; -1 if it did not."""

    def size(self) -> int:
        return min(self.whole_size(), LARGEST_BYTES)

    def whole_size(self) -> int:
        """With what lies beyond every bound."""
        return os.fstat(self._fd).st_size

    def seek(self, position: int, offset: int) -> None:
        """Go on at a block's beginning that an earlier walk of this volume gave."""
        self.position, self.offset = position, offset

    def headers(self, *, bodies: bool = False) -> Iterator[tuple[BlockHeader, memoryview]]:
        """Each whole block from ``position`` on, with its bytes (with ``bodies``) or those of its header.

        ``position`` and ``offset`` stand behind the last block given; ``ended`` says why there is no more.
        """
        while True:
            found = self._next(bodies)
            if found is None:
                return
            header = found[0]
            yield found
            self.position += header.whole_bytes
            self.offset = header.end

    def sound(self, opens: Opens, *, bodies: bool = False) -> Iterator[tuple[BlockHeader, memoryview]]:
        """As ``headers``, and on behind damage. Who finds a block damaged that was given sets ``ended``."""
        while True:
            self.ended = End.CLEAN
            for found in self.headers(bodies=bodies):
                yield found
                if self.ended is End.DAMAGED:
                    break
            if self.ended is not End.DAMAGED:
                return
            if self.damaged_at < 0:
                self.damaged_at = self.position
            if not self.search(opens):
                return

    def goes_on_behind(self, header: BlockHeader) -> bool:
        """Whether the next block seems to follow the one at ``position``, whose header this is."""
        following = self._header_at(self.position + header.whole_bytes, self.size())
        return following is not None and following.first == header.end

    def raw(self, position: int, end: int) -> Iterator[bytes]:
        """What lies between two places, whatever it is."""
        for start in range(position, end, CHUNK_BYTES):
            yield _pread(self._fd, min(CHUNK_BYTES, end - start), start)

    def _next(self, bodies: bool) -> tuple[BlockHeader, memoryview] | None:
        head = self._bytes(BLOCK_HEADER_BYTES, CHUNK_BYTES if bodies else HEADERS_BYTES)
        if len(head) < BLOCK_HEADER_BYTES:
            self.ended = End.TORN if len(head) else End.CLEAN
            return None
        try:
            header = parse_block_header(head)
        except WireError:
            self.ended = End.TORN if self._only_zeros() else End.DAMAGED
            return None
        if header.first != self.offset:
            self.ended = End.DAMAGED
            return None
        end = self.position + header.whole_bytes
        if end > self._start + len(self._data) and end > self.size():
            self.ended = End.TORN
            return None
        if not bodies:
            return header, head
        block = self._bytes(header.whole_bytes)
        if len(block) < header.whole_bytes:  # cut while it was read
            self.ended = End.TORN
            return None
        return header, block

    def _bytes(self, wanted: int, chunk: int = CHUNK_BYTES) -> memoryview:
        """At most ``wanted`` bytes at ``position``: fewer at the end of the file."""
        at = self.position - self._start
        if not 0 <= at <= len(self._data) - wanted:
            there = max(0, self.size() - self.position)  # a buffer that is never filled costs more than the read
            self._data = _pread(self._fd, min(there, max(wanted, chunk)), self.position)
            self._start, at = self.position, 0
        return memoryview(self._data)[at : at + wanted]

    def _only_zeros(self) -> bool:
        """Whether nothing but zero bytes follows: what a file system leaves of a write that power cut off."""
        size = self.size()
        for position in range(self.position, size, CHUNK_BYTES):
            chunk = _pread(self._fd, min(CHUNK_BYTES, size - position), position)
            if chunk.count(0) != len(chunk):
                return False
        return True

    def search(self, opens: Opens) -> bool:
        """Pass damage: go to the next place where a block begins that ``opens``; False if there is none."""
        size, tried = self.size(), 0
        for position in self._magics(self.position + 1, size):
            header = self._header_at(position, size)
            if header is None:
                continue
            if opens(header, _pread(self._fd, header.whole_bytes, position)):
                self.seek(position, header.first)
                return True
            tried += header.whole_bytes
            if tried > TRIED_BYTES:
                return False
        return False

    def _magics(self, start: int, size: int) -> Iterator[int]:
        """Where a header may begin."""
        for position in range(start, size, CHUNK_BYTES):
            chunk = _pread(self._fd, min(CHUNK_BYTES + len(MAGIC) - 1, size - position), position)
            found = chunk.find(MAGIC)
            while found >= 0:
                yield position + found
                found = chunk.find(MAGIC, found + 1)

    def _header_at(self, position: int, size: int) -> BlockHeader | None:
        """A header of a later offset whose block is whole."""
        data = _pread(self._fd, BLOCK_HEADER_BYTES, position)
        if len(data) < BLOCK_HEADER_BYTES:
            return None
        try:
            header = parse_block_header(data)
        except WireError:
            return None
        return header if header.first >= self.offset and position + header.whole_bytes <= size else None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _pread(fd: int, count: int, position: int) -> bytes:
    """``count`` bytes, fewer only at the end of the file."""
    data = os.pread(fd, count, position)
    while len(data) < count:
        more = os.pread(fd, count - len(data), position + len(data))
        if not more:
            break
        data += more
    return data
