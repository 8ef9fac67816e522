"""Decisions about a lane: what its bytes are, in which order, what is finished, what stays open (L-11 to L-29).

The position is the end of the last finished envelope, with the unfinished ones before it listed: one slow
request neither holds back the lane nor makes a crash repeat what was finished after it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from speed.core import counters
from speed.errors import WireError
from speed.wire.cursor import Cursor, Unfinished
from speed.wire.envelope import (
    ENVELOPE_OVERHEAD,
    FLAG_SEGMENT,
    FLAG_SLOTTED,
    EnvelopeType,
    Header,
    counter_of,
    generation_of,
    parse_header,
)
from speed.wire.limits import AAD_BYTES, COUNTER_BITS, MAX_IN_HAND, MAX_SLOTS, MAX_UNFINISHED, MAX_UNFINISHED_BYTES

_IDS_OFFSET = 32
_HEADER_TAIL = 63
"""So many last bytes may begin a header whose ids are not yet visible."""
_MAX_CANDIDATES = 16
_MAX_SEARCHES = 4
"""Candidates per search and searches per scan: bound the work that a hostile lane can cause (L-16)."""

Opener = Callable[[Header, memoryview], bytes]


class Opened(NamedTuple):
    """An authenticated envelope at ``start..end`` (bytes from the start of the lane file)."""

    header: Header
    payload: bytes
    start: int
    end: int


class Damage(NamedTuple):
    """Bytes that are no valid envelope; ``reason`` is a `wire` code, TRUNCATED for a torn tail."""

    reason: str
    start: int
    end: int


class Scan(NamedTuple):
    """Result of one scan. ``consumed`` bytes are settled; ``needed`` is the total that the next
    envelope claims to need from ``consumed`` on (0: unknown); ``more`` means that a limit ended the scan."""

    items: list[Opened | Damage]
    consumed: int
    needed: int
    more: bool


class ByteWindow(NamedTuple):
    """A run of bytes of one lane file, and what is known of them."""

    data: bytes
    base: int
    """Where they lie in the file."""
    generation: int
    final: bool = False
    """Whether no byte will follow."""
    suspicious: bool = False
    """Whether an incomplete envelope is checked for a lying length (L-16)."""
    past_slots: bool = False
    """Whether what lies behind an envelope is decoded before its payload, in a slot, is there (L-30)."""


class LaneDecoder:
    """Decodes any window of a lane: it keeps no bytes, so every split of a lane decodes equally.

    ``opener(header, envelope)`` authenticates and returns the payload or raises ``WireError``.
    """

    __slots__ = ("_max_payload", "_opener", "_pattern", "_source", "_target")

    def __init__(self, source_id: bytes, target_id: bytes, max_payload: int, opener: Opener) -> None:
        self._source = source_id
        self._target = target_id
        self._pattern = source_id + target_id
        self._max_payload = max_payload
        self._opener = opener

    def scan(self, window: ByteWindow, limit: int = 64) -> Scan:
        """Decode what lies in ``window``; at most ``limit`` items are returned."""
        items: list[Opened | Damage] = []
        at = searches = 0
        while at < len(window.data):
            if len(items) >= limit or searches >= _MAX_SEARCHES:
                return Scan(items, at, 0, True)
            found = self._look(window, at)
            if isinstance(found, Opened):
                items.append(found)
                at = found.end - window.base
                if found.header.flags & FLAG_SLOTTED and not window.past_slots:
                    return Scan(items, at, 0, True)
                continue
            if isinstance(found, int) and not window.final and not window.suspicious:
                return Scan(items, at, found, False)
            searches += 1
            end = self._end_of_damage(window, at)
            if isinstance(found, int) and not window.final and not isinstance(self._look(window, end), Opened):
                return Scan(items, at, found, False)
            reason = "TRUNCATED" if isinstance(found, int) else found
            _add_damage(items, Damage(reason, window.base + at, window.base + end))
            at = end
        return Scan(items, at, 0, False)

    def _look(self, window: ByteWindow, at: int) -> Opened | int | str:
        """The envelope at ``at``; else the bytes it needs in all; else why it is none."""
        left = len(window.data) - at
        if left < AAD_BYTES:
            return ENVELOPE_OVERHEAD
        try:
            header = parse_header(window.data, at)
            if (
                header.source != self._source
                or header.target != self._target
                or header.payload_bytes > self._max_payload
                or header.sequence >> COUNTER_BITS != window.generation
            ):
                return self._misplaced(header)
            total = ENVELOPE_OVERHEAD + header.payload_bytes
            if left < total:
                return total
            payload = self._opener(header, memoryview(window.data)[at : at + total])
        except WireError as error:
            return error.reason
        start = window.base + at
        return Opened(header, payload, start, start + total)

    def _misplaced(self, header: Header) -> str:
        """Why an envelope does not belong into this file."""
        if header.source != self._source:
            return "WRONG_SOURCE"
        if header.target != self._target:
            return "WRONG_TARGET"
        if header.payload_bytes > self._max_payload:
            return "TOO_LARGE"
        return "BAD_SEQUENCE"

    def _end_of_damage(self, window: ByteWindow, at: int) -> int:
        """The next place behind damage that may hold an envelope (L-16).

        A complete candidate must authenticate. An incomplete one ends the damage as well: it is judged when its bytes
        are there. Without any, all bytes that cannot begin a header are damage.
        """
        length = len(window.data)
        place = at + 1
        for _ in range(_MAX_CANDIDATES):
            index = window.data.find(self._pattern, place + _IDS_OFFSET)
            if index < 0:
                return length if window.final else max(at, length - _HEADER_TAIL)
            place = index - _IDS_OFFSET
            if not isinstance(self._look(window, place), str):
                return place
            place += 1
        return place


def _add_damage(items: list[Opened | Damage], damage: Damage) -> None:
    """Join neighbouring damage, so that one accident counts once however the bytes arrived."""
    last = items[-1] if items else None
    if isinstance(last, Damage) and last.end == damage.start:
        items[-1] = Damage(last.reason, last.start, damage.end)
    else:
        items.append(damage)


# Sequence rules of one link on the receiving side: replay, gaps, generations (L-12, L-13).


class SequenceVerdict(IntEnum):
    """What becomes of an authenticated envelope; the first two are accepted."""

    NEXT = 0
    GAP = 1
    DUPLICATE = 2
    OLD_GENERATION = 3


COUNTED_AS = {
    SequenceVerdict.GAP: counters.GAPS,
    SequenceVerdict.DUPLICATE: counters.DUPLICATES,
    SequenceVerdict.OLD_GENERATION: counters.REJECTED_OLD_GENERATION,
}
"""The counter of each verdict but the usual one."""


class LinkReceiver:
    """Remembers the last accepted sequence of one link and judges the next one.

    ``last_sequence`` is 0 as long as nothing was accepted. Not thread-safe: the lane's lock guards it.
    """

    __slots__ = ("last_sequence",)

    def __init__(self, last_sequence: int = 0) -> None:
        self.last_sequence = last_sequence

    def judge(self, sequence: int) -> SequenceVerdict:
        """Say what a sequence means after the ones before it, and remember it if it is accepted.

        L-12: not above the last one is a duplicate; a gap is counted and accepted. L-13: an older
        generation than the newest known is rejected.
        """
        last = self.last_sequence
        if sequence == last + 1:
            self.last_sequence = sequence
            return SequenceVerdict.NEXT
        if sequence <= last:
            older = generation_of(sequence) < generation_of(last)
            return SequenceVerdict.OLD_GENERATION if older else SequenceVerdict.DUPLICATE
        self.last_sequence = sequence
        # Each generation starts at 1; what an older one wrote last cannot be known.
        begins = generation_of(sequence) > generation_of(last) and counter_of(sequence) == 1
        return SequenceVerdict.NEXT if begins else SequenceVerdict.GAP


# Which envelopes of a lane are dispatched and which finished, as the cursor records it (L-14, L-15).

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


class LaneProgress:
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


# Which envelopes a process that died may have handled already, as far as its successor can tell (L-15).

_IN_ORDER = frozenset((EnvelopeType.MESSAGE, EnvelopeType.EVENT))


class Repeats:
    """Judges the envelopes of one lane, each once, in order. ``until`` is where the lane ended at the start."""

    __slots__ = ("_all", "_seen", "_until")

    def __init__(self, until: Position, *, all_types: bool) -> None:
        self._until = until
        self._all = all_types
        self._seen: set[int] = set()

    def are_over(self, token: Token) -> bool:
        """Whether this envelope and all after it were written since the process died."""
        return (token.generation, token.file, token.start) >= self._until

    def may_include(self, header: Header) -> bool:
        """Whether the dead process, which handled messages and events one at a time, may have handled the next.

        So only the first of each of these types can be repeated, unless ``all_types`` says that more was lost. A
        payload in segments may have let messages behind it pass while it was put together: segments do not count.
        """
        if self._all or header.type not in _IN_ORDER or header.flags & FLAG_SEGMENT:
            return True
        first = header.type not in self._seen
        self._seen.add(header.type)
        return first


# Which slot a large payload goes into, and which ones are given back for it (L-29).

MAX_TIMES = 2
"""A slot is used as it is for a payload that needs at least one in so many of its bytes."""


class SlotChoice(NamedTuple):
    """The slot to take, how long it has to be then, and the free ones to remove before."""

    number: int
    file_bytes: int
    removed: tuple[int, ...]


def choose_slot(free: Mapping[int, int], used: Iterable[int], needed: int, room: int) -> SlotChoice | None:
    """The slot for a payload that needs ``needed`` bytes; None if all are in use.

    ``free`` has the file sizes of the slots that are free by their numbers, ``used`` the numbers that cannot be taken.
    ``room`` is what the window leaves for all free slots together, with the one that is taken.
    """
    number, size = _best(free, set(used), needed)
    if not number:
        return None
    others = {other: length for other, length in free.items() if other != number}
    removed = excess(others, room - size)
    left = room - sum(length for other, length in others.items() if other not in removed)
    return SlotChoice(number, size if size <= left else needed, removed)


def _best(free: Mapping[int, int], used: set[int], needed: int) -> tuple[int, int]:
    """Its number and how long it is to be; 0 for none."""
    fitting = [(size, number) for number, size in free.items() if needed <= size <= MAX_TIMES * needed]
    if fitting:
        size, number = min(fitting)
        return number, size
    short = [(-size, number) for number, size in free.items() if size < needed]
    if short:
        return min(short)[1], needed
    for number in range(1, MAX_SLOTS + 1):
        if number not in free and number not in used:
            return number, needed
    long = [(size, number) for number, size in free.items()]
    return (min(long)[1], needed) if long else (0, 0)


def excess(free: Mapping[int, int], room: int) -> tuple[int, ...]:
    """The free slots to remove until the others take no more than ``room`` bytes: the longest first."""
    removed: list[int] = []
    total = sum(free.values())
    for size, number in sorted(((size, number) for number, size in free.items()), key=lambda one: (-one[0], one[1])):
        if total <= room:
            break
        removed.append(number)
        total -= size
    return tuple(removed)


Key = TypeVar("Key", bound=Hashable)


class Awake(Generic[Key]):
    """Those that hold files open, in the order of their last use. Not locked."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys: OrderedDict[Key, None] = OrderedDict()

    def __contains__(self, key: Key) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._keys))

    def use(self, key: Key) -> list[Key]:
        """``key`` is used now: returns those that were used longest ago, to be put to rest for it."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        return [self._keys.popitem(last=False)[0] for _ in range(len(self._keys) - self._limit)]

    def rest(self, key: Key) -> None:
        """``key`` holds nothing open any more."""
        self._keys.pop(key, None)
