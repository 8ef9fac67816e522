"""What a journal gives: records of messages, and rows of the call log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from speed.errors import WireError
from speed.wire.journal import (
    FLAG_REDELIVERED,
    RECORD_BYTES,
    record_offsets,
    record_sizes,
    record_time,
    unpack_records,
    without_gap,
)
from speed.wire.message import MessageView
from speed.wire.value import pack, unpack


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
    """One answered call: when (Unix ms), of whom, how long, and ``OK`` or an `spc` code; never what was said."""

    answered_at_ms: int
    service: str
    caller: str
    microseconds: int
    outcome: str


def call_bytes(caller: str, microseconds: int, outcome: str) -> bytes:
    """The record of a call; its time is that of the record, its service the lane's."""
    return pack({"caller": caller, "microseconds": microseconds, "outcome": outcome})


def read_call(record: Record, service: str) -> Call:
    """The call in a record of a lane of kind ``calls``; WireError if it is none."""
    value: Any = unpack(record.message, "call")
    try:
        return Call(record.recorded_at_ms, service, value["caller"], value["microseconds"], value["outcome"])
    except (KeyError, TypeError):
        raise WireError("BAD_JOURNAL", "the record is no call") from None
