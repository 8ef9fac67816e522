"""Segments of any sender in, whole payloads out, in memory: the receiving side for who uses the library alone."""

from __future__ import annotations

from typing import NamedTuple

from speed.errors import WireError
from speed.segment.form import Segment, read_segment
from speed.segment.reassembly import Key, Limits, Reassembly, Verdict
from speed.segment.rebuild import rebuild


class Outcome(NamedTuple):
    """What became of one segment.

    Attributes:
        verdict: ``kept`` for later, ``duplicate`` of one that is there, ``complete`` with the payload, or ``done`` if
            its payload was complete before.
        payload: the whole payload, if it is complete.
    """

    verdict: str
    payload: bytes | None = None


class Assembler:
    """Puts payloads together in memory, within ``limits``. For one thread at a time.

    Example:
        >>> assembler = Assembler()
        >>> assembler.receive("sender", write_segment(next(Splitter(64).split(b"whole"))), now=0.0)
        Outcome(verdict='complete', payload=b'whole')
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._reassembly = Reassembly(limits)
        self._shards: dict[Key, MemoryShards] = {}

    def receive(self, sender: str, data: bytes, now: float, kind: int = 1) -> Outcome:
        """Take one segment.

        Args:
            sender: whose payload it belongs to; senders do not disturb each other.
            data: the segment's bytes.
            now: seconds of a clock that does not jump.
            kind: tells payloads of one sender apart that are equal and yet two.

        Raises WireError with reason BAD_SEGMENT, SEGMENT_CONFLICT, SEGMENT_LIMIT or SEGMENT_HASH.
        """
        self.expire(now)
        segment = read_segment(data)
        key = Key(sender, kind, segment.hash)
        verdict, evicted = self._reassembly.admit(key, segment, now)
        for other in evicted:
            del self._shards[other]
        if verdict is Verdict.DONE:
            return Outcome("done")
        if verdict is Verdict.HELD:
            return self._again(key, segment)
        shards = self._shards.setdefault(key, MemoryShards(segment.data_count, segment.parity_count))
        shards.put(segment)
        if verdict is Verdict.KEPT:
            return Outcome("kept")
        return self._finish(key, now)

    def expire(self, now: float) -> list[Key]:
        """Forget what waited too long; returns the payloads that are lost."""
        late, _ = self._reassembly.expire(now)
        for key in late:
            del self._shards[key]
        return late

    def _again(self, key: Key, segment: Segment) -> Outcome:
        if self._shards[key].parts[segment.slot] != segment.payload:
            raise WireError("SEGMENT_CONFLICT", "has other bytes than the segment that came before")
        return Outcome("duplicate")

    def _finish(self, key: Key, now: float) -> Outcome:
        shards = self._shards.pop(key)
        try:
            size = rebuild(shards, key.hash)
        except BaseException:
            self._reassembly.discard(key)
            raise
        self._reassembly.complete(key, now)
        return Outcome("complete", shards.payload(size))


class MemoryShards:
    """The segments of one payload, in memory."""

    def __init__(self, data_count: int, parity_count: int) -> None:
        self.data_count, self.parity_count, self.segment_size = data_count, parity_count, 0
        self.parts: dict[int, bytes | bytearray] = {}

    def put(self, segment: Segment) -> None:
        self.parts[segment.slot] = bytes(segment.payload)
        if not segment.is_last_data or self.data_count == 1:
            self.segment_size = len(segment.payload)

    def slots(self) -> set[int]:
        return set(self.parts)

    def size_of(self, slot: int) -> int:
        return len(self.parts[slot])

    def read(self, slot: int, begin: int, end: int) -> memoryview:
        return memoryview(self.parts[slot])[begin:end]

    def write(self, slot: int, begin: int, data: memoryview) -> None:
        part = self.parts.setdefault(slot, bytearray(self.segment_size))
        assert isinstance(part, bytearray), "a segment that was received is never overwritten"
        part[begin : begin + len(data)] = data

    def payload(self, size: int) -> bytes:
        return b"".join(self.parts[index] for index in range(self.data_count))[:size]
