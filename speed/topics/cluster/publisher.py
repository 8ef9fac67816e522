"""What publishes to one topic (D-23), and what reads it without a subscription (D-14)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any

from speed.topics.backend import ProducerIdentity, Recorded, StoredMessage
from speed.topics.cluster.broker import (
    OPERATION_SECONDS,
    Broker,
    MessagePosition,
    PulsarRecord,
    ReceivedRecord,
    received,
)
from speed.topics.subscription import SubscriptionError
from speed.wire.limits import MAX_OWNER_PRODUCERS, MAX_TOPIC_ANSWER_BYTES, MAX_TOPIC_BATCH, MAX_TOPIC_PRODUCERS

if TYPE_CHECKING:
    import pulsar


IDLE_SECONDS = 60.0
"""After which a producer is closed: another host may use its name then."""
MAX_PENDING = 64 * MAX_TOPIC_BATCH
REPEATED = Recorded(-1, is_repeated=True)
"""A message that is there already: the cluster does not say where."""


def native_name(producer: ProducerIdentity) -> str:
    """Under which Pulsar knows it: nobody has the sequences of another owner (D-23)."""
    return f"{producer.owner}/{producer.name}"


class _Producer:
    """One of Pulsar's; ``lock`` is held while one with a name sends."""

    def __init__(self, native: pulsar.Producer) -> None:
        self.native = native
        self.lock = threading.Lock()
        self.used = time.monotonic()


class Publisher:
    """Thread-safe. Raises SubscriptionError, StorageError."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self._lock = threading.Lock()
        self._producers: dict[str, _Producer] = {}

    def publish(self, producer: ProducerIdentity | None, messages: Sequence[PulsarRecord]) -> list[Recorded]:
        """Returns where they are. Those with a sequence are sent under the name of ``producer``."""
        name = native_name(producer) if producer is not None else ""
        recorded: list[Recorded] = []
        for is_numbered, run in groupby(messages, key=lambda one: bool(name and one.sequence)):
            recorded += self._sent(name if is_numbered else "", list(run))
        return recorded

    def _sent(self, name: str, messages: list[PulsarRecord]) -> list[Recorded]:
        with self._broker.guarded():
            producer = self._opened(name)
            producer.used = time.monotonic()
            try:
                with producer.lock if name else nullcontext():
                    return self._send(producer.native, name, messages)
            except BaseException:
                if name or not producer.native.is_connected():
                    self._drop(name, producer)  # what it knows of its last sequence may be too old
                raise

    def _send(self, native: pulsar.Producer, name: str, messages: list[PulsarRecord]) -> list[Recorded]:
        """All but repetitions, at once; waits until all are kept."""
        seen = native.last_sequence_id() if name else 0
        sending = _PublishBatch()
        for place, message in enumerate(messages):
            if name and message.sequence <= seen:
                continue
            seen = max(seen, message.sequence)
            sending.send(native, place, message, message.sequence if name else 0)
        failure = sending.failure()
        if failure:
            raise self._broker.refusal(failure)
        kept = sending.kept
        return [Recorded(kept[place].offset) if place in kept else REPEATED for place in range(len(messages))]

    def _opened(self, name: str) -> _Producer:
        with self._lock:
            found = self._producers.get(name)
            if found is None:
                self._check_room(name)
                found = self._producers[name] = _Producer(self._native(name))
            return found

    def _check_room(self, name: str) -> None:
        """Each owner has a bound of its own, so that none takes the names of others."""
        owner = name.partition("/")[0]
        own = sum(1 for one in self._producers if one.partition("/")[0] == owner)
        if own >= MAX_OWNER_PRODUCERS or len(self._producers) >= MAX_TOPIC_PRODUCERS:
            text = f"{own} producers of {owner or 'the topic'} published to the topic lately: use fewer names"
            raise SubscriptionError("FULL", text)

    def _native(self, name: str) -> pulsar.Producer:
        return self._broker.client.create_producer(
            self._broker.topic(self._topic),
            producer_name=name or None,
            send_timeout_millis=OPERATION_SECONDS * 1000,
            max_pending_messages=MAX_PENDING,
            max_pending_messages_across_partitions=MAX_PENDING,
        )

    def _drop(self, name: str, producer: _Producer) -> None:
        with self._lock:
            if self._producers.get(name) is producer:
                del self._producers[name]
        _close_producer(producer)

    def rest(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close what was not used for so long."""
        before = time.monotonic() - idle_seconds
        with self._lock:
            idle = {name: one for name, one in self._producers.items() if one.used <= before and not one.lock.locked()}
            for name in idle:
                del self._producers[name]
        for producer in idle.values():
            with producer.lock:
                _close_producer(producer)


class _PublishBatch:
    """Messages that are under way together."""

    def __init__(self) -> None:
        self.kept: dict[int, MessagePosition] = {}
        """By their places among the messages; those that were there already are missing."""
        self._failures: list[str] = []
        self._changed = threading.Condition()
        self._left = 0

    def send(self, native: pulsar.Producer, place: int, message: PulsarRecord, sequence: int) -> None:
        """Hand one over; what becomes of it is told on a thread of Pulsar's client."""
        with self._changed:
            self._left += 1
        native.send_async(
            message.payload,
            lambda result, kept: self._completed(place, result, kept),
            properties=message.properties,
            partition_key=message.key,
            sequence_id=sequence or None,
        )

    def _completed(self, place: int, result: Any, kept: Any) -> None:
        with self._changed:
            self._left -= 1
            try:
                if result.name != "Ok":
                    self._failures.append(result.name)
                elif kept.ledger_id() >= 0:
                    self.kept[place] = MessagePosition(kept.ledger_id(), kept.entry_id(), kept.batch_index())
            except Exception as error:  # nothing may leave a callback
                self._failures.append(type(error).__name__)
            self._changed.notify_all()

    def failure(self) -> str:
        """The name of the first error, once all is told; empty if there is none."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._left, 2 * OPERATION_SECONDS):
                return "Timeout"
            return self._failures[0] if self._failures else ""


def _close_producer(producer: _Producer) -> None:
    try:
        producer.native.close()
    except Exception:
        pass  # it is gone already, or the cluster is


QUEUE = 200
"""Messages that a reader has at hand."""
MAX_KEPT = 64
"""Readers of a topic that wait for who reads on."""


class _Reading:
    """One reader; the next message that it gives is at ``start`` or behind. One thread uses it at a time."""

    def __init__(self, native: pulsar.Reader, start: int, silence: type[Exception]) -> None:
        self.native, self.next = native, start
        self._silence = silence
        self._held: ReceivedRecord | None = None
        self._is_at_end = False
        self.used = time.monotonic()

    def some(self, limit: int) -> list[StoredMessage]:
        """Messages that are there, as many as an answer holds."""
        found: list[StoredMessage] = []
        size = 0
        while len(found) < limit and (one := self._held or self._one()) is not None:
            self._held = one
            size += len(one.stored.data)
            if found and size > MAX_TOPIC_ANSWER_BYTES:
                break
            self._held = None
            found.append(one.stored)
            self.next = one.place.next_entry.offset if one.place.batch < 0 else one.stored.offset + 1
        self.used = time.monotonic()
        return found

    def _one(self) -> ReceivedRecord | None:
        while (message := self._message()) is not None:
            one = received(message)
            if one.stored.offset >= self.next:
                return one
        return None

    def _message(self) -> pulsar.Message | None:
        """What came; until it once had all that is there, it is waited for."""
        try:
            return self.native.read_next(0 if self._is_at_end else 1)
        except self._silence:
            pass
        if self._is_at_end:
            return None
        if self.native.has_message_available():
            return self.native.read_next(OPERATION_SECONDS * 1000)
        self._is_at_end = True
        return None


class Readings:
    """The readers of one topic. Thread-safe. Raises SubscriptionError, StorageError."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self._lock = threading.Lock()
        self._kept: list[_Reading] = []

    def is_at(self, offset: int) -> bool:
        """Whether a reader stands there: then it is a place in the topic."""
        with self._lock:
            return any(one.next == offset for one in self._kept)

    def read(self, start: int, limit: int) -> tuple[int, list[StoredMessage]]:
        """Messages from an offset on, and the offset behind them."""
        with self._broker.guarded():
            reading = self._taken(start) or self._opened(start)
            try:
                found = reading.some(limit)
            except BaseException:
                _close_reading(reading)
                raise
        self._keep(reading)
        return reading.next, found

    def _taken(self, start: int) -> _Reading | None:
        with self._lock:
            for reading in self._kept:
                if reading.next == start:
                    self._kept.remove(reading)
                    return reading
        return None

    def _opened(self, start: int) -> _Reading:
        import pulsar

        place = MessagePosition.of(start)
        before = pulsar.MessageId(-1, place.ledger, place.entry - 1, -1)
        native = self._broker.client.create_reader(self._broker.topic(self._topic), before, receiver_queue_size=QUEUE)
        return _Reading(native, start, pulsar.exceptions.Timeout)

    def _keep(self, reading: _Reading) -> None:
        with self._lock:
            self._kept.append(reading)
            gone = [self._kept.pop(0)] if len(self._kept) > MAX_KEPT else []
        for one in gone:
            _close_reading(one)

    def rest(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close what nobody read on with for so long."""
        before = time.monotonic() - idle_seconds
        with self._lock:
            gone = [one for one in self._kept if one.used <= before]
            self._kept = [one for one in self._kept if one.used > before]
        for one in gone:
            _close_reading(one)


def _close_reading(reading: _Reading) -> None:
    try:
        reading.native.close()
    except Exception:
        pass  # it is gone already, or the cluster is
