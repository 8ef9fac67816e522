"""A subscription of Pulsar as one host deals it out: its consumer there, and what came of it (D-23).

A thread takes in what Pulsar sends, as long as there is room; who asks the host gets it from here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from speed.core.log import logger
from speed.errors import StorageError
from speed.topics.backend import Group, StoredMessage, steady_ms, unix_ms
from speed.topics.cluster.broker import Broker, MessagePosition, received
from speed.topics.subscription import SubscriptionError, SubscriptionState, Terms
from speed.wire.limits import MAX_TOPIC_UNACKNOWLEDGED
from speed.wire.topic import decode_head

if TYPE_CHECKING:
    import pulsar


# A subscription as one host of several deals it out: its messages come from Pulsar, in any order. Pure.

REMEMBERED = 2 * MAX_TOPIC_UNACKNOWLEDGED
"""Acknowledged offsets that are known to be: Pulsar may send again what it was told of a moment ago."""


class Recent:
    """What was acknowledged last. What comes from Pulsar is not acknowledged there, however low it is."""

    pairs: list[tuple[int, int]] = []  # noqa: RUF012 - never changed

    def __init__(self, low: int) -> None:
        self.low = low
        self._offsets: dict[int, None] = {}

    def add(self, start: int, end: int) -> None:
        """One offset; it is the latest now."""
        assert end == start + 1
        self._offsets.pop(start, None)
        self._offsets[start] = None
        if len(self._offsets) > REMEMBERED:
            del self._offsets[next(iter(self._offsets))]

    def __contains__(self, offset: int) -> bool:
        return offset in self._offsets


class FeedState(SubscriptionState):
    """Not thread-safe. ``attempts`` are those of its messages when it was opened before."""

    def __init__(self, terms: Terms, cursor: int, end: int, attempts: Mapping[int, int]) -> None:
        """``end`` is where the topic ends: what is before it may have been delivered."""
        super().__init__(terms, cursor, (), attempts)
        self.next = end

    def _settled(self, cursor: int, ranges: Iterable[tuple[int, int]]) -> Recent:
        return Recent(cursor)

    def is_settled(self, offset: int) -> bool:
        """Whether it was acknowledged a while ago."""
        return offset in self._acknowledged

    def deal(self, offset: int, key: int, due_ms: int, attempts: int) -> None:
        """A message that came; ``attempts`` is how often Pulsar says that it was sent before.

        One that may be delivered only so often is delivered at least once: a host may have had it and not given it.
        """
        limit = self.terms.max_deliveries - 1 if self.terms.max_deliveries else attempts
        self._before[offset] = max(self._before.get(offset, 0), min(attempts, limit))
        self.next = max(self.next, offset + 1)
        self._admit(offset, key, due_ms)


log = logger("speed.topics")

QUEUE = 100
"""Messages that Pulsar sends ahead."""
HELD_BYTES = 64 << 20
"""Of messages of one subscription: at more, nothing is taken in until something is acknowledged."""
LOOK_SECONDS = 0.5
LINGER_SECONDS = 5.0
"""How long a feed without consumers stays, which was opened for an acknowledgement."""
TYPES = {"exclusive": "Exclusive", "failover": "Failover", "shared": "Shared", "key-shared": "KeyShared"}


class _Held(NamedTuple):
    stored: StoredMessage
    id: pulsar.MessageId


class Feed(Group):
    """Its topic holds ``changed`` around each method but ``close``, which waits."""

    machine: FeedState

    def __init__(self, broker: Broker, topic: str, name: str, machine: FeedState, changed: threading.Condition) -> None:
        """Raises StorageError, SubscriptionError."""
        super().__init__(name, machine)
        self._broker, self._topic, self._changed = broker, topic, changed
        self._held: dict[int, _Held] = {}
        self._bytes = 0
        self._ends = time.monotonic() + LINGER_SECONDS
        self._is_closing = self.is_dead = False
        self.trouble: SubscriptionError | None = None
        """A message that cannot be taken in: nothing behind it comes."""
        with broker.guarded():
            self._native = self._opened()
        self._thread = threading.Thread(target=self._take_in, name=f"topics-{topic}-{name}", daemon=True)

    def _opened(self) -> pulsar.Consumer:
        import pulsar

        return self._broker.client.subscribe(
            self._broker.topic(self._topic),
            self.name,
            consumer_type=getattr(pulsar.ConsumerType, TYPES[self.machine.terms.type]),
            receiver_queue_size=QUEUE,
        )

    def start(self, notify: Callable[[], None]) -> None:
        """Take in what comes; ``notify`` is called, with the lock, when something has."""
        self._notify = notify
        self._thread.start()

    # --- what comes ---

    def _take_in(self) -> None:
        while room := self._room():
            try:
                messages = self._some(min(room, QUEUE))
            except Exception as error:  # Pulsar took the subscription away: who receives joins again
                log.warning("subscription %s of topic %s is opened again: %s", self.name, self._topic, error)
                self.is_dead = True
                return
            if messages:
                with self._changed:
                    for message in messages:
                        self._take(message)
                    self._notify()

    def _some(self, limit: int) -> list[pulsar.Message]:
        """What is at hand, after waiting for the first a little; maybe nothing."""
        import pulsar

        found: list[pulsar.Message] = []
        try:
            while len(found) < limit:
                found.append(self._native.receive(0 if found else int(LOOK_SECONDS * 1000)))
        except pulsar.exceptions.Timeout:
            pass
        except pulsar.exceptions.PulsarException:
            if not found:
                raise
        return found

    def _room(self) -> int:
        """For how many messages; waits for some. 0 at the end."""
        with self._changed:
            while not self._is_closing:
                if self.machine.consumers and self.machine.room and self._bytes < HELD_BYTES and self.trouble is None:
                    return self.machine.room
                self._changed.wait(LOOK_SECONDS)
            return 0

    def _take(self, message: pulsar.Message) -> None:
        if self.trouble is not None:
            return
        try:
            stored = received(message).stored
        except Exception as error:  # whatever another program published must not end this thread
            unfit = SubscriptionError("UNSUPPORTED", f"a message cannot be read: {error}")
            self.trouble = error if isinstance(error, SubscriptionError) else unfit
            log.error("subscription %s of topic %s stands still: %s", self.name, self._topic, self.trouble)
            return
        if self.machine.is_settled(stored.offset):
            self._native.acknowledge(message)
        elif stored.offset not in self._held and not self._is_closing:
            self._deal(stored, message)

    def _deal(self, stored: StoredMessage, message: pulsar.Message) -> None:
        head = decode_head(stored.data)
        due = head.due_ms and head.due_ms + steady_ms() - unix_ms()
        self._held[stored.offset] = _Held(stored, message.message_id())
        self._bytes += len(stored.data)
        self.machine.deal(stored.offset, head.key_hash, due, message.redelivery_count())

    # --- what becomes of it ---

    def one(self, offset: int) -> StoredMessage | None:
        """A message that is held."""
        held = self._held.get(offset)
        return held.stored if held else None

    def settle(self, offsets: Iterable[int]) -> int:
        """Acknowledge in Pulsar too; returns how many were not before. Raises StorageError, SubscriptionError."""
        wanted = set(offsets)
        settled = self.machine.acknowledge(wanted)
        for offset in wanted:
            self._tell(self._native.acknowledge, offset)
        self._forget(wanted)
        return settled

    def settle_until(self, offset: int) -> int:
        """Likewise, all up to this one."""
        settled = self.machine.acknowledge_until(offset)
        self._tell(self._native.acknowledge_cumulative, offset)
        self._forget([one for one in self._held if one <= offset])
        return settled

    def _tell(self, acknowledge: Callable[[pulsar.MessageId], object], offset: int) -> None:
        """Its client takes an acknowledgement at any time, and sends it a moment later: not without a connection."""
        if not self._native.is_connected():
            raise StorageError("Pulsar does not answer; try again")
        if (id_ := self._id(offset)) is not None:
            acknowledge(id_)

    def _id(self, offset: int) -> pulsar.MessageId | None:
        """None of one in a batch that is not held: Pulsar would take it for the whole batch."""
        import pulsar

        if offset in self._held:
            return self._held[offset].id
        place = MessagePosition.of(offset)
        return pulsar.MessageId(-1, place.ledger, place.entry, -1) if place.batch < 0 else None

    def _forget(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            held = self._held.pop(offset, None)
            self._bytes -= len(held.stored.data) if held else 0

    # --- its end ---

    @property
    def is_idle(self) -> bool:
        """Whether nobody needs it any more."""
        return not self.machine.consumers and time.monotonic() >= self._ends

    def attempts(self) -> Mapping[int, int]:
        """Of what is not acknowledged: Pulsar does not count them for each type."""
        return {offset: count for offset, count in self.machine.attempts.items() if offset in self._held}

    def end(self) -> None:
        """Take in no more."""
        self._is_closing = True

    def close(self) -> None:
        """Give back to Pulsar what is not acknowledged. The lock is not held."""
        try:
            self._native.close()
        except Exception as error:
            log.warning("subscription %s of topic %s was not closed: %s", self.name, self._topic, error)
        if self._thread.ident is not None:
            self._thread.join()
