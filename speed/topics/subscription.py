"""One subscription as a machine: what is acknowledged, in flight, waiting, dead (D-8 to D-13).

It has no clock, no files and no messages: times are passed in (milliseconds of a clock that never jumps), and offsets
stand for messages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from types import MappingProxyType
from typing import NamedTuple, Protocol

from speed.wire.limits import (
    MAX_TOPIC_CONSUMERS,
    MAX_TOPIC_DELAYED,
    MAX_TOPIC_UNACKNOWLEDGED,
    RETRY_FIRST_SECONDS,
    RETRY_MOST_SECONDS,
)

# Messages that wait for their time (D-10): found by it, whatever their number, and known by their keys.


class Delayed:
    """A set of offsets, each with a time in milliseconds and the hash of its key, 0 for none. Not thread-safe."""

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._keys: dict[int, int] = {}
        self._by_time: list[tuple[int, int]] = []
        """A heap of time and offset; what was removed is passed when its time comes."""
        self._of_key: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, offset: int, due_ms: int, key: int) -> None:
        """One that is not in it."""
        self._due[offset] = due_ms
        heappush(self._by_time, (due_ms, offset))
        if key:
            self._keys[offset] = key
            insort(self._of_key.setdefault(key, []), offset)

    def remove(self, offset: int) -> bool:
        """Whether it was in it."""
        if self._due.pop(offset, None) is None:
            return False
        if key := self._keys.pop(offset, 0):
            of_key = self._of_key[key]
            del of_key[bisect_left(of_key, offset)]
            if not of_key:
                del self._of_key[key]
        return True

    def due(self, now_ms: int) -> list[int]:
        """Take out those whose time has come."""
        found = []
        while (first := self.first_ms()) is not None and first <= now_ms:
            _, offset = heappop(self._by_time)
            self.remove(offset)
            found.append(offset)
        return found

    def first_ms(self) -> int | None:
        """When the next one is due; None if there is none."""
        while self._by_time and self._due.get(self._by_time[0][1]) != self._by_time[0][0]:
            heappop(self._by_time)
        return self._by_time[0][0] if self._by_time else None

    def is_before(self, key: int, offset: int) -> bool:
        """Whether one of this key is in it that comes before ``offset``."""
        of_key = self._of_key.get(key)
        return of_key is not None and of_key[0] < offset


# What of a topic is acknowledged: everything below an offset, and ranges above it (D-7).


class Ranges:
    """A set of offsets that contains all below ``low``. Not thread-safe."""

    def __init__(self, low: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """``ranges`` are pairs of first offset and end, in any order."""
        self.low = low
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add ``start <= offset < end``."""
        start = max(start, self.low)
        if start >= end:
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]
        if start <= self.low:
            self.low = self._ends.pop(0)
            self._starts.pop(0)

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._starts, offset) - 1
        return offset < self.low or (place >= 0 and offset < self._ends[place])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Those above ``low``, in order; they neither overlap nor touch."""
        return list(zip(self._starts, self._ends, strict=True))


TYPES = ("exclusive", "failover", "shared", "key-shared")
ORDERED = ("exclusive", "failover")


class Acknowledged(Protocol):
    """What is known to be acknowledged."""

    low: int
    """All below it is."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """What is, above ``low``."""

    def add(self, start: int, end: int) -> None:
        """Add ``start <= offset < end``."""

    def __contains__(self, offset: int) -> bool: ...


class SubscriptionError(Exception):
    """What cannot be done; ``code`` is one of D-18, or INVALID_ARGUMENTS."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def wrong(text: str) -> SubscriptionError:
    """What was asked cannot be, whatever there is."""
    return SubscriptionError("INVALID_ARGUMENTS", text)


@dataclass(frozen=True)
class Terms:
    """How a subscription delivers; fixed when it is made. 0 is no bound, and no time-out."""

    type: str = "exclusive"
    max_deliveries: int = 0
    ack_timeout_ms: int = 0
    dead_letter: str = ""
    durable: bool = True
    """Whether it outlives its consumers, and its host."""

    def check_fits(self, name: str, terms: Terms) -> None:
        """Raises SubscriptionError TAKEN for who would join subscription ``name`` as another one than it is."""
        if terms.type != self.type:
            raise SubscriptionError(
                "TAKEN", f"subscription {name!r} is of type {self.type!r}: use that, or another name"
            )
        if terms.durable != self.durable:
            text = f"subscription {name!r} is {'' if self.durable else 'not '}durable: join it so, or use another name"
            raise SubscriptionError("TAKEN", text)


class TakenMessage(NamedTuple):
    """A message to be delivered; ``attempts`` counts this time."""

    offset: int
    attempts: int


class _Waiting(NamedTuple):
    due_ms: int
    attempts: int
    key: int


class _InFlight(NamedTuple):
    consumer: str
    attempts: int
    key: int
    late_ms: int
    """When its acknowledgement is late; 0 for never."""
    is_begun: bool
    """Whether the program has it, or may have it: only then this delivery counts."""

    @property
    def counted(self) -> int:
        """The deliveries that count."""
        return self.attempts if self.is_begun else self.attempts - 1


class _Holder:
    """Who has what is in flight of a key, and how many."""

    __slots__ = ("consumer", "count")

    def __init__(self, consumer: str) -> None:
        self.consumer, self.count = consumer, 0


class SubscriptionState:
    """Not thread-safe: its topic holds one lock around each method."""

    def __init__(
        self,
        terms: Terms,
        cursor: int,
        ranges: Iterable[tuple[int, int]] = (),
        attempts: Mapping[int, int] | None = None,
        *,
        room: int = MAX_TOPIC_UNACKNOWLEDGED,
    ) -> None:
        """As it was left: nothing is in flight, and the log is read again from ``cursor`` on (``offer``)."""
        self.terms = terms
        self._limit = room
        self._begin(cursor, ranges, attempts or {})
        self._consumers: dict[str, set[int]] = {}

    def _begin(
        self, cursor: int, ranges: Iterable[tuple[int, int]] = (), attempts: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        self._acknowledged = self._settled(cursor, ranges)
        self._before = dict(attempts)
        """Attempts of what was not offered again yet."""
        self._waiting: dict[int, _Waiting] = {}
        self._order: list[int] = []
        """What waits and may be delivered; where order counts all that waits."""
        self._delayed = Delayed()
        """What else waits: it is no more in the way than what is not read yet."""
        self._in_flight: dict[int, _InFlight] = {}
        self._holders: dict[int, _Holder] = {}
        self.next = self._acknowledged.low
        """The offset that is to be offered next."""

    def _settled(self, cursor: int, ranges: Iterable[tuple[int, int]]) -> Acknowledged:
        return Ranges(cursor, ranges)

    # --- what there is ---

    @property
    def cursor(self) -> int:
        """The lowest offset that is not acknowledged."""
        return self._acknowledged.low

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """What is acknowledged above the cursor."""
        return self._acknowledged.pairs

    @property
    def attempts(self) -> dict[int, int]:
        """How often each unacknowledged message was delivered, where it was."""
        known = {offset: one.counted for offset, one in self._in_flight.items() if one.counted}
        known.update((offset, one.attempts) for offset, one in self._waiting.items() if one.attempts)
        return {**self._before, **known}

    @property
    def unacknowledged(self) -> int:
        """How many messages are in flight or wait."""
        return len(self._in_flight) + len(self._waiting)

    @property
    def in_flight(self) -> int:
        """How many messages consumers have."""
        return len(self._in_flight)

    @property
    def delayed(self) -> int:
        """How many messages wait for their time; they take no room."""
        return len(self._delayed)

    @property
    def consumers(self) -> tuple[str, ...]:
        """Who reads, in the order of joining."""
        return tuple(self._consumers)

    @property
    def room(self) -> int:
        """How many more messages may be offered: at 0 nothing new is delivered until something is acknowledged."""
        is_crowded = len(self._delayed) >= MAX_TOPIC_DELAYED
        return 0 if is_crowded else max(0, self._limit - len(self._in_flight) - len(self._order))

    def holder(self, offset: int) -> str:
        """The consumer that has a message in flight."""
        return self._in_flight[offset].consumer

    def next_event_ms(self, now_ms: int) -> int | None:
        """When something that waits will be due, or an acknowledgement late; None if there is nothing of the kind."""
        times = [due for offset in self._order if (due := self._waiting[offset].due_ms) > now_ms]
        times += [] if (first := self._delayed.first_ms()) is None else [first]
        times += [one.late_ms for one in self._in_flight.values() if one.late_ms]
        return min(times, default=None)

    # --- consumers ---

    def join(self, consumer: str) -> None:
        """Raises SubscriptionError TAKEN, FULL. To join again changes nothing."""
        if consumer in self._consumers:
            return
        if self.terms.type == "exclusive" and self._consumers:
            raise SubscriptionError("TAKEN", f"consumer {self.consumers[0]!r} has it alone: close that one")
        if len(self._consumers) >= MAX_TOPIC_CONSUMERS:
            raise SubscriptionError("FULL", f"it has {MAX_TOPIC_CONSUMERS} consumers: close some")
        self._consumers[consumer] = set()

    def leave(self, consumer: str, now_ms: int) -> None:
        """What it had waits, to come again after the back-off."""
        for offset in sorted(self._consumers.get(consumer, ())):
            self._again(offset, now_ms)
        self._consumers.pop(consumer, None)

    # --- messages ---

    def offer(self, offset: int, key: int, due_ms: int) -> None:
        """The next message of the log; ``key`` is its hash or 0. Numbers that were left out count as acknowledged."""
        if offset < self.next:
            raise ValueError(f"offset {offset} was offered before")
        self._acknowledged.add(self.next, offset)
        self.next = offset + 1
        if offset in self._acknowledged:
            return
        self._admit(offset, key, due_ms)

    def _admit(self, offset: int, key: int, due_ms: int) -> None:
        due = 0 if self.terms.type in ORDERED else due_ms
        self._wait(offset, _Waiting(due, self._before.pop(offset, 0), key))

    def pass_settled(self, end: int) -> bool:
        """Go on at ``end`` if all before it is acknowledged; whether it is."""
        if not all(offset in self._acknowledged for offset in range(self.next, end)):
            return False
        self.next = max(self.next, end)
        return True

    def skip(self, end: int) -> None:
        """Everything before ``end`` is not there any more."""
        self.acknowledge([offset for offset in (*self._in_flight, *self._waiting) if offset < end])
        self._acknowledged.add(0, end)
        self._before = {offset: count for offset, count in self._before.items() if offset >= end}
        self.next = max(self.next, end)

    def take(self, consumer: str, limit: int, now_ms: int, begun: int | None = None) -> list[TakenMessage]:
        """Messages that ``consumer`` gets now: the first ``begun`` of them, or all, for its program at once.

        Raises SubscriptionError NOT_JOINED.
        """
        self._check_joined(consumer)
        self._ripen(now_ms)
        if self.terms.type == "failover" and consumer != next(iter(self._consumers)):
            return []
        chosen = self._chosen(consumer, limit, now_ms)
        if chosen:
            left = {offset for offset, _ in chosen}
            self._order = [offset for offset in self._order if offset not in left]
        late_ms = now_ms + self.terms.ack_timeout_ms if self.terms.ack_timeout_ms else 0
        for place, (offset, waiting) in enumerate(chosen):
            is_begun = begun is None or place < begun
            self._in_flight[offset] = _InFlight(consumer, waiting.attempts + 1, waiting.key, late_ms, is_begun)
            del self._waiting[offset]
            self._hold(consumer, offset, waiting.key)
        return [TakenMessage(offset, waiting.attempts + 1) for offset, waiting in chosen]

    def _check_joined(self, consumer: str) -> None:
        if consumer not in self._consumers:
            raise SubscriptionError("NOT_JOINED", f"consumer {consumer!r} is not here: subscribe again")

    def _ripen(self, now_ms: int) -> None:
        """What was delayed until now waits with the others."""
        ripe = self._delayed.due(now_ms)
        if ripe:
            self._order = sorted([*self._order, *ripe])

    def begin(self, consumer: str, offsets: Iterable[int], now_ms: int) -> list[int]:
        """The program gets these now. Returns those that ``consumer`` still has.

        Raises SubscriptionError NOT_JOINED.
        """
        self._check_joined(consumer)
        self.look(now_ms)
        begun = sorted(self._consumers[consumer].intersection(offsets))
        late_ms = now_ms + self.terms.ack_timeout_ms if self.terms.ack_timeout_ms else 0
        for offset in begun:
            if not self._in_flight[offset].is_begun:
                self._in_flight[offset] = self._in_flight[offset]._replace(is_begun=True, late_ms=late_ms)
        return begun

    def _chosen(self, consumer: str, limit: int, now_ms: int) -> list[tuple[int, _Waiting]]:
        """What to deliver: due, by offset; a last attempt alone (D-11)."""
        chosen: list[tuple[int, _Waiting]] = []
        held: set[int] = set()
        if self._has_last(consumer):
            return []
        for offset in self._order:
            if len(chosen) >= limit:
                break
            waiting = self._waiting[offset]
            if waiting.due_ms > now_ms or self._is_dead(waiting) or self._is_held(consumer, offset, held):
                if self.terms.type in ORDERED:
                    break
                held.add(waiting.key)
            elif self._is_last(waiting.attempts + 1):
                return chosen if chosen or self._consumers[consumer] else [(offset, waiting)]
            else:
                chosen.append((offset, waiting))
        return chosen

    def _is_held(self, consumer: str, offset: int, held: set[int]) -> bool:
        """Whether an earlier message of its key must go first, or another consumer has some of it."""
        key = self._waiting[offset].key
        if self.terms.type != "key-shared" or not key:
            return False
        holder = self._holders.get(key)
        is_elsewhere = holder is not None and holder.consumer != consumer
        return key in held or is_elsewhere or self._delayed.is_before(key, offset)

    def _is_last(self, attempts: int) -> bool:
        return attempts == self.terms.max_deliveries

    def _has_last(self, consumer: str) -> bool:
        return bool(self.terms.max_deliveries) and any(
            self._is_last(self._in_flight[offset].attempts) for offset in self._consumers[consumer]
        )

    def _is_dead(self, waiting: _Waiting) -> bool:
        return 0 < self.terms.max_deliveries <= waiting.attempts

    def dead(self) -> list[TakenMessage]:
        """What was delivered as often as it may be; its topic puts it aside and acknowledges it."""
        if not self.terms.max_deliveries:
            return []
        waiting = ((offset, self._waiting[offset]) for offset in self._order)
        return [TakenMessage(offset, one.attempts) for offset, one in waiting if self._is_dead(one)]

    # --- settling ---

    def acknowledge(self, offsets: Iterable[int]) -> int:
        """Returns how many were not acknowledged before.

        Raises SubscriptionError INVALID_ARGUMENTS for one that was never delivered; then none is.
        """
        wanted = set(offsets)
        self._check_delivered(wanted)
        fresh = [offset for offset in wanted if offset not in self._acknowledged]
        for offset in fresh:
            self._drop(offset)
            self._acknowledged.add(offset, offset + 1)
        self._forget_order(fresh)
        return len(fresh)

    def acknowledge_until(self, offset: int) -> int:
        """All up to ``offset``, this one included. Only where one consumer gets all, in order."""
        if self.terms.type not in ORDERED:
            text = f"a subscription of type {self.terms.type!r} acknowledges one by one"
            raise SubscriptionError("INVALID_ARGUMENTS", text)
        self._check_delivered([offset])
        delivered = (*self._in_flight, *self._waiting, *self._before)
        return self.acknowledge([one for one in delivered if one <= offset])

    def _check_delivered(self, offsets: Iterable[int]) -> None:
        """Now, or in a life of the host before this one."""
        for offset in offsets:
            if not 0 <= offset < self.next and offset not in self._before and offset not in self._acknowledged:
                raise SubscriptionError("INVALID_ARGUMENTS", f"offset {offset} was not delivered yet")

    def reject(self, consumer: str, offsets: Iterable[int], now_ms: int, delay_ms: int | None = None) -> int:
        """What ``consumer`` has of them comes again, after ``delay_ms`` or the back-off. Returns how many."""
        rejected = sorted(self._consumers.get(consumer, set()).intersection(offsets))
        for offset in rejected:
            self._in_flight[offset] = self._in_flight[offset]._replace(is_begun=True)
            self._again(offset, now_ms, delay_ms)
        return len(rejected)

    def put_back(self, consumer: str, offsets: Iterable[int]) -> None:
        """An answer was lost: this delivery does not count."""
        for offset in sorted(self._consumers.get(consumer, set()).intersection(offsets)):
            was = self._drop(offset)
            assert was is not None
            self._wait(offset, _Waiting(0, was.attempts - 1, was.key))

    def look(self, now_ms: int) -> None:
        """What was not acknowledged in time waits again."""
        late = [offset for offset, one in self._in_flight.items() if 0 < one.late_ms <= now_ms]
        for offset in sorted(late):
            self._again(offset, now_ms)

    def seek(self, offset: int) -> None:
        """Begin anew at an offset; consumers stay."""
        self._begin(offset)
        self._consumers = {consumer: set() for consumer in self._consumers}

    # --- steps ---

    def _again(self, offset: int, now_ms: int, delay_ms: int | None = None) -> None:
        was = self._drop(offset)
        assert was is not None
        delay = back_off_ms(was.attempts) if delay_ms is None else delay_ms
        due = now_ms + delay if was.is_begun and delay else 0
        self._wait(offset, _Waiting(due, was.counted, was.key))

    def _wait(self, offset: int, waiting: _Waiting) -> None:
        self._waiting[offset] = waiting
        if waiting.due_ms and self.terms.type not in ORDERED and not self._is_dead(waiting):
            self._delayed.add(offset, waiting.due_ms, waiting.key)
        else:
            insort(self._order, offset)

    def _hold(self, consumer: str, offset: int, key: int) -> None:
        self._consumers[consumer].add(offset)
        if key:
            self._holders.setdefault(key, _Holder(consumer)).count += 1

    def _drop(self, offset: int) -> _InFlight | None:
        """No longer in flight."""
        self._before.pop(offset, None)
        was = self._in_flight.pop(offset, None)
        if was is None:
            return None
        self._consumers.get(was.consumer, set()).discard(offset)
        holder = self._holders.get(was.key)
        if holder is not None:
            holder.count -= 1
            if not holder.count:
                del self._holders[was.key]
        return was

    def _forget_order(self, offsets: Iterable[int]) -> None:
        """No longer waiting."""
        gone = {offset for offset in offsets if self._waiting.pop(offset, None) is not None}
        in_order = {offset for offset in gone if not self._delayed.remove(offset)}
        if in_order:
            self._order = [offset for offset in self._order if offset not in in_order]


def back_off_ms(attempts: int) -> int:
    """How long a message waits that was delivered so often."""
    return int(1000 * min(RETRY_MOST_SECONDS, RETRY_FIRST_SECONDS * 2.0 ** (min(attempts, 32) - 1)))
