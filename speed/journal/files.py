"""A journal's files (J-1), what they give, and the blocks of one volume: whole ones, and damage (J-6, J-7)."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

from speed.errors import WireError
from speed.fs.open import names_in, open_directory, open_for_writing, open_regular, owners_of, read_small
from speed.message.view import MessageView
from speed.wire import names
from speed.wire.journal import (
    BLOCK_HEADER_BYTES,
    END_BYTES,
    FLAG_REDELIVERED,
    MAX_DESCRIPTION_BYTES,
    MAX_REMOVED_BYTES,
    RECORD_BYTES,
    BlockHeader,
    Description,
    open_description,
    open_end,
    open_removed,
    parse_block_header,
    record_offsets,
    record_sizes,
    record_time,
    unpack_records,
    without_gap,
)
from speed.wire.limits import JOURNAL_SEGMENT_BYTES, MAX_JOURNAL_BLOCK_BYTES
from speed.wire.seal import Keyring
from speed.wire.value import pack, unpack

# What a journal gives: records of messages, and rows of the call log.


class Record:
    """One recorded message.

    Attributes:
        offset: its place in its lane, from 0.
        recorded_at_ms: when it was recorded, in Unix milliseconds.
        source: name of the node that sent it.
        sequence: number of its envelope.
        message: its bytes as they were received; ``view`` reads them.
    """

    __slots__ = ("_view", "flags", "message", "offset", "recorded_at_ms", "sequence", "source")

    def __init__(
        self, offset: int, recorded_at_ms: int, source: str, sequence: int, flags: int, message: bytes
    ) -> None:
        self.offset = offset
        self.recorded_at_ms = recorded_at_ms
        self.source = source
        self.sequence = sequence
        self.flags = flags
        self.message = message
        self._view: MessageView | None = None

    @property
    def view(self) -> MessageView:
        """The message's fields, parsed when they are asked for: ``record.view.payload``."""
        if self._view is None:
            self._view = MessageView(self.message)
        return self._view

    @property
    def redelivered(self) -> bool:
        """Whether it came marked as perhaps handled before; what is recorded is not recorded again."""
        return bool(self.flags & FLAG_REDELIVERED)

    def __repr__(self) -> str:
        return f"<Record {self.offset} from {self.source} sequence={self.sequence:#x} {len(self.message)} bytes>"


class Block(NamedTuple):
    """Records of a lane that follow each other, undecoded: 24 bytes of ``table`` for each, and the messages.

    For programs that read very many records; ``records`` decodes them. ``left_out`` is how many of the offsets from
    ``offset`` to ``end`` have no record any more.
    """

    offset: int
    table: bytes
    messages: bytes
    left_out: int = 0

    @property
    def rows(self) -> int:
        """How many records."""
        return len(self.table) // RECORD_BYTES

    @property
    def end(self) -> int:
        """The offset behind the last one that it covers."""
        return self.offset + self.rows + self.left_out

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each record."""
        return record_offsets(self.offset, self.table) if self.left_out else range(self.offset, self.end)

    def records(self, source: str) -> Iterator[Record]:
        """One after the other."""
        unpacked = unpack_records(self.table, self.messages)
        for offset, (sequence, ms, flags, message) in zip(self.offsets, unpacked, strict=True):
            yield Record(offset, ms, source, sequence, flags, message)

    def between(self, start: int, end: int) -> Block:
        """Those of ``start <= offset < end``."""
        start, end = max(start, self.offset), min(end, self.end)
        if (start, end) == (self.offset, self.end):
            return self
        offsets = self.offsets
        first, last = bisect_left(offsets, start), bisect_left(offsets, max(start, end))
        sizes = record_sizes(self.table)
        begin = sum(sizes[:first])
        messages = self.messages[begin : begin + sum(sizes[first:last])]
        table = self.table[first * RECORD_BYTES : last * RECORD_BYTES]
        if self.left_out and first < last:
            passed = offsets[first - 1] + 1 if first else self.offset
            table = without_gap(table, start - passed)
        return Block(start, table, messages, max(start, end) - start - (last - first))

    def until(self, unix_ms: int) -> Block:
        """Those recorded up to a time; times do not decrease in a lane."""
        if not self.rows or record_time(self.table, self.rows - 1) <= unix_ms:
            return self
        count = bisect_right(range(self.rows), unix_ms, key=lambda number: record_time(self.table, number))
        return self.between(self.offset, self.offsets[count])


class Call(NamedTuple):
    """One answered call: when (Unix ms), of whom, how long, ``OK`` or an `spc` code, its trace; never what was said."""

    answered_at_ms: int
    service: str
    caller: str
    microseconds: int
    outcome: str
    traceparent: str = ""
    """Empty for a call that carried none."""


def call_bytes(caller: str, microseconds: int, outcome: str, traceparent: str = "") -> bytes:
    """The record of a call; its time is that of the record, its service the lane's."""
    traced = {"traceparent": traceparent} if traceparent else {}
    return pack({"caller": caller, "microseconds": microseconds, "outcome": outcome, **traced})


def read_call(record: Record, service: str) -> Call:
    """The call in a record of a lane of kind ``calls``; WireError if it is none."""
    value: Any = unpack(record.message, "call")
    try:
        traceparent = value.get("traceparent", "")
        return Call(
            record.recorded_at_ms, service, value["caller"], value["microseconds"], value["outcome"], traceparent
        )
    except (AttributeError, KeyError, TypeError):
        raise WireError("BAD_JOURNAL", "the record is no call") from None


# A journal's files: each lane's description, end and volumes, and the removed lanes, opened as L-10 says (J-1).

MAX_FILES = 1 << 20
"""Entries of one directory that are looked at."""
END_LOOKS = 20
"""So often an end is read that is not whole: it may just be written over."""


class JournalLane:
    """A lane directory, held open; close it when done."""

    def __init__(self, directory: str, lane_id: str) -> None:
        """OSError if there is no such directory, or a link in its place."""
        self.id = lane_id
        self.raw_id = bytes.fromhex(lane_id)
        self.fd = open_directory(names.child_path(directory, lane_id))
        self._owners = owners_of(self.fd)

    def description(self, keyring: Keyring) -> Description:
        """What the lane says of itself; OSError or WireError if that cannot be read."""
        data = read_small(names.JOURNAL_DESCRIPTION, self.fd, self._owners, MAX_DESCRIPTION_BYTES + 1)
        return open_description(data, self.raw_id, keyring)

    def end(self, keyring: Keyring) -> int:
        """The offset that comes next, as its writer noted it; WireError if that cannot be read."""
        for _ in range(END_LOOKS - 1):
            with suppress(WireError):
                return self._end(keyring)
        return self._end(keyring)

    def _end(self, keyring: Keyring) -> int:
        try:
            data = read_small(names.JOURNAL_END, self.fd, self._owners, END_BYTES + 1)
        except OSError as error:
            raise WireError("BAD_JOURNAL", f"its end cannot be read: {error.strerror}") from None
        return open_end(data, self.raw_id, keyring)

    def open_end(self) -> int:
        """A descriptor for writing over the end; OSError for anything that is no file of ours."""
        return open_for_writing(names.JOURNAL_END, self.fd, self._owners)

    def volumes(self) -> list[int]:
        """First offsets of the volumes, in order; what is no regular file is left out."""
        found = []
        for entry in names_in(self.fd, MAX_FILES):
            first = names.parse_volume(entry.name)
            if first is not None and entry.is_file(follow_symlinks=False):
                found.append(first)
        return sorted(found)

    def unfinished(self) -> list[str]:
        """Names of what was being written beside, and is not in place."""
        found = [entry.name for entry in names_in(self.fd, MAX_FILES)]
        return [name for name in found if name.startswith(names.TEMPORARY_PREFIX)]

    def unfinished_volumes(self) -> list[str]:
        """Those of them that were to be volumes."""
        begin = len(names.TEMPORARY_PREFIX)
        return [name for name in self.unfinished() if names.parse_volume(name[begin:]) is not None]

    def has(self, name: str) -> bool:
        """Whether anything has this name; OSError if that cannot be found out."""
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def size(self, first: int) -> int:
        """Bytes of a volume, 0 if there is none."""
        try:
            status = os.stat(names.volume_name(first), dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def open(self, first: int) -> int:
        """A descriptor for reading one volume; OSError for anything that is no file of ours."""
        return open_regular(names.volume_name(first), self.fd, self._owners)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> JournalLane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lanes_in(directory: str, limit: int) -> list[str]:
    """Ids of the lane directories in a journal, sorted, at most ``limit``; foreign files are ignored (J-1)."""
    fd = open_directory(directory)
    try:
        found = [
            entry.name
            for entry in names_in(fd, MAX_FILES)
            if names.is_journal_lane(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    finally:
        os.close(fd)
    return sorted(found)[:limit]


def removed_lanes(directory: str, keyring: Keyring) -> dict[bytes, int]:
    """Ids of lanes that retention removed, and the offset that came next in each; none are known if that is damaged."""
    fd = open_directory(directory)
    try:
        data = read_small(names.JOURNAL_REMOVED, fd, owners_of(fd), MAX_REMOVED_BYTES + 1)
    except FileNotFoundError:
        return {}
    finally:
        os.close(fd)
    try:
        return open_removed(data, keyring)
    except WireError:
        return {}


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

    def continues_after(self, header: BlockHeader) -> bool:
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
