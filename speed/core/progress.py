"""Which envelopes of a lane are dispatched and which finished, as the cursor records it (L-14, L-15).

The position is the end of the last finished envelope, with the unfinished ones before it listed: one slow
request neither holds back the lane nor makes a crash repeat what was finished after it.
"""

from __future__ import annotations

from typing import NamedTuple

from speed.wire.cursor import Cursor, Unfinished
from speed.wire.limits import MAX_UNFINISHED


class Position(NamedTuple):
    """A place in a lane; tuples order as the bytes do."""

    generation: int
    segment: int
    offset: int


class Token:
    """One dispatched envelope; given back to ``finish`` once its handler is done."""

    __slots__ = ("end", "finished", "generation", "previous", "segment", "sequence", "start")

    def __init__(self, sequence: int, generation: int, segment: int, start: int, end: int, previous: int) -> None:
        self.sequence = sequence
        self.generation = generation
        self.segment = segment
        self.start = start
        self.end = end
        self.previous = previous
        self.finished = False


class Progress:
    """Keeps the unfinished envelopes of one lane in order and yields the cursor to commit.

    Sequences must be passed to ``dispatched`` in rising order, those of a predecessor's cursor first.
    Not thread-safe: the lane's lock guards it.
    """

    __slots__ = ("_done_last", "_pending", "_tail", "_tail_sequence")

    def __init__(self, start: Position, last_sequence: int) -> None:
        self._pending: dict[int, Token] = {}
        self._tail = start
        self._tail_sequence = last_sequence
        self._done_last = (last_sequence, start)

    @property
    def unfinished(self) -> int:
        """Number of dispatched envelopes that are not finished."""
        return len(self._pending)

    @property
    def tail(self) -> Position:
        """End of everything that was dispatched or skipped."""
        return self._tail

    def redispatched(self, sequence: int, generation: int, segment: int, start: int, end: int) -> Token:
        """Take over an envelope that the predecessor's cursor lists as unfinished (L-15)."""
        token = Token(sequence, generation, segment, start, end, 0)
        self._pending[sequence] = token
        return token

    def dispatched(self, sequence: int, generation: int, segment: int, start: int, end: int) -> Token:
        """Note that the envelope at ``start..end`` (bytes) was handed to its handler."""
        token = Token(sequence, generation, segment, start, end, self._tail_sequence)
        self._pending[sequence] = token
        self._tail = Position(generation, segment, end)
        self._tail_sequence = sequence
        return token

    def skip_to(self, position: Position) -> None:
        """Note that the bytes before ``position`` hold nothing more to dispatch (damage, duplicates)."""
        self._tail = position

    def finish(self, token: Token) -> bool:
        """Mark one envelope as done; False when it was already."""
        if token.finished:
            return False
        token.finished = True
        self._pending.pop(token.sequence, None)
        if token.sequence > self._done_last[0]:
            self._done_last = (token.sequence, Position(token.generation, token.segment, token.end))
        return True

    def cursor(self, receiver_generation: int, clean: bool = False) -> Cursor:
        """The cursor to commit: the end of the last finished envelope and what is unfinished before it.

        L-15: at most 64 entries; a 65th moves the position back to its start.
        """
        if not self._pending:
            return _cursor(receiver_generation, self._tail, self._tail_sequence, (), clean)
        last, position = self._done_last
        listed: list[Unfinished] = []
        for token in self._pending.values():
            if token.sequence > last:
                break
            if len(listed) == MAX_UNFINISHED:
                position = Position(token.generation, token.segment, token.start)
                last = token.previous
                break
            listed.append(Unfinished(token.sequence, token.segment, token.generation, token.start))
        return _cursor(receiver_generation, position, last, tuple(listed), clean)


def _cursor(
    receiver_generation: int, position: Position, last: int, unfinished: tuple[Unfinished, ...], clean: bool
) -> Cursor:
    generation, segment, offset = position
    return Cursor(receiver_generation, generation, segment, offset, last, unfinished, clean)
