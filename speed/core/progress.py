"""Which envelopes of a lane are dispatched and which finished, as the cursor records it (L-14, L-15).

The position is the end of the last finished envelope, with the unfinished ones before it listed: one slow
request neither holds back the lane nor makes a crash repeat what was finished after it.
"""

from __future__ import annotations

from typing import NamedTuple

from speed.wire.cursor import Cursor, Unfinished
from speed.wire.limits import MAX_IN_HAND, MAX_UNFINISHED, MAX_UNFINISHED_BYTES

ANY_SLOT = -1
"""Which slot it is, if any, is not known yet."""


class Position(NamedTuple):
    """A place in a lane; tuples order as the bytes do."""

    generation: int
    file: int
    offset: int


class Token:
    """One dispatched envelope; given back to ``finish`` once its handler is done."""

    __slots__ = ("begun", "end", "file", "finished", "generation", "held", "previous", "sequence", "slot", "start")

    def __init__(self, sequence: int, generation: int, file: int, start: int, end: int, previous: int) -> None:
        self.sequence = sequence
        self.generation = generation
        self.file = file
        self.start = start
        self.end = end
        self.previous = previous
        self.begun = self.finished = False
        self.held = end - start
        """How many bytes of memory it takes while it is in hand."""
        self.slot = 0
        """The number of the slot that its payload lies in; 0 for none."""


class Progress:
    """Keeps the unfinished envelopes of one lane in order and yields the cursor to commit.

    Sequences must be passed to ``dispatched`` in rising order, those of a predecessor's cursor first.
    Not thread-safe: the lane's lock guards it.
    """

    __slots__ = ("_bytes", "_done", "_tail", "pending")

    def __init__(self, start: Position, last_sequence: int) -> None:
        self.pending: dict[int, Token] = {}
        """Dispatched envelopes that are not finished, by sequence."""
        self._bytes = 0
        self._tail = self._done = _mark(start, last_sequence)

    @property
    def tail_offset(self) -> int:
        """End, in its file, of everything that was dispatched or skipped."""
        return self._tail.end

    @property
    def is_full(self) -> bool:
        """Whether so much is unfinished, by number or by bytes, that nothing more is read (L-19)."""
        return self._bytes > MAX_UNFINISHED_BYTES or len(self.pending) >= MAX_IN_HAND

    def redispatched(self, entry: Unfinished) -> Token:
        """Take over an envelope that the predecessor's cursor lists as unfinished; its end is not known yet (L-15)."""
        token = Token(entry.sequence, entry.generation, entry.file, entry.offset, entry.offset, 0)
        token.slot = ANY_SLOT
        token.begun = entry.begun
        self.pending[entry.sequence] = token
        return token

    def found_again(self, token: Token, end: int) -> None:
        """Note where an envelope that was taken over ends."""
        token.end = end
        token.slot = 0
        token.held = end - token.start
        self._bytes += token.held

    def lies_in_slot(self, token: Token, slot: int, payload_bytes: int) -> None:
        """Note that a slot holds the payload of an envelope: it counts from now on."""
        token.slot = slot
        token.held += payload_bytes
        self._bytes += payload_bytes

    def needs_slot(self, generation: int, number: int) -> bool:
        """Whether an unfinished envelope names a slot, or may: then a crash would lead back to it."""
        slots = (number, ANY_SLOT)
        return any(token.generation == generation and token.slot in slots for token in self.pending.values())

    def dispatched(self, sequence: int, generation: int, file: int, start: int, end: int) -> Token:
        """Note that the envelope at ``start..end`` (bytes) was handed to its handler."""
        token = Token(sequence, generation, file, start, end, self._tail.sequence)
        self.pending[sequence] = self._tail = token
        self._bytes += end - start
        return token

    def skip_to(self, position: Position) -> None:
        """Note that the bytes before ``position`` hold nothing more to dispatch (damage, duplicates)."""
        self._tail = _mark(position, self._tail.sequence)

    def begin(self, token: Token) -> None:
        """Mark a request as begun that stays listed until it is finished: the position passes it (L-14)."""
        token.begun = True
        if token.sequence > self._done.sequence:
            self._done = token

    def finish(self, token: Token) -> bool:
        """Mark one envelope as done; False when it was already."""
        if token.finished:
            return False
        token.finished = True
        self.pending.pop(token.sequence, None)
        self._bytes -= token.held
        if token.sequence > self._done.sequence:
            self._done = token
        return True

    def cursor(self, receiver_generation: int, clean: bool = False, sealed: bool = False) -> Cursor:
        """The cursor to commit: the end of the last finished or begun envelope and what is unfinished before it.

        L-15: at most 64 entries; a 65th moves the position back to its start.
        """
        if not self.pending:
            tail = self._tail
            return Cursor(receiver_generation, tail.generation, tail.file, tail.end, tail.sequence, (), clean, sealed)
        done = self._done
        last, place = done.sequence, (done.generation, done.file, done.end)
        listed: list[Unfinished] = []
        for token in self.pending.values():
            if token.sequence > last:
                break
            if len(listed) == MAX_UNFINISHED:
                place = (token.generation, token.file, token.start)
                last = token.previous
                break
            listed.append(Unfinished(token.sequence, token.file, token.generation, token.start, token.begun))
        return Cursor(receiver_generation, *place, last, tuple(listed), clean, sealed)


def _mark(position: Position, sequence: int) -> Token:
    """A place in the lane that no envelope has to finish."""
    generation, file, offset = position
    return Token(sequence, generation, file, offset, offset, 0)
