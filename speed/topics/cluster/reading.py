"""Reading a topic without a subscription: readers of Pulsar, kept for who reads on (D-14)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from speed.topics.cluster.broker import OPERATION_SECONDS, Broker
from speed.topics.cluster.messages import Received, received
from speed.topics.cluster.places import Place
from speed.topics.group import Stored
from speed.wire.limits import MAX_TOPIC_ANSWER_BYTES

if TYPE_CHECKING:
    import pulsar

QUEUE = 200
"""Messages that a reader has at hand."""
MOST_KEPT = 64
"""Readers of a topic that wait for who reads on."""
IDLE_SECONDS = 60.0


class _Reading:
    """One reader; the next message that it gives is at ``start`` or behind. One thread uses it at a time."""

    def __init__(self, native: pulsar.Reader, start: int, silence: type[Exception]) -> None:
        self.native, self.next = native, start
        self._silence = silence
        self._held: Received | None = None
        self._is_at_end = False
        self.used = time.monotonic()

    def some(self, most: int) -> list[Stored]:
        """Messages that are there, as many as an answer holds."""
        found: list[Stored] = []
        size = 0
        while len(found) < most and (one := self._held or self._one()) is not None:
            self._held = one
            size += len(one.stored.data)
            if found and size > MAX_TOPIC_ANSWER_BYTES:
                break
            self._held = None
            found.append(one.stored)
            self.next = one.place.behind.offset if one.place.batch < 0 else one.stored.offset + 1
        self.used = time.monotonic()
        return found

    def _one(self) -> Received | None:
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

    def read(self, start: int, most: int) -> tuple[int, list[Stored]]:
        """Messages from an offset on, and the offset behind them."""
        with self._broker.asked():
            reading = self._taken(start) or self._opened(start)
            try:
                found = reading.some(most)
            except BaseException:
                _close(reading)
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

        place = Place.of(start)
        before = pulsar.MessageId(-1, place.ledger, place.entry - 1, -1)
        native = self._broker.client.create_reader(self._broker.topic(self._topic), before, receiver_queue_size=QUEUE)
        return _Reading(native, start, pulsar.exceptions.Timeout)

    def _keep(self, reading: _Reading) -> None:
        with self._lock:
            self._kept.append(reading)
            gone = [self._kept.pop(0)] if len(self._kept) > MOST_KEPT else []
        for one in gone:
            _close(one)

    def rest(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close what nobody read on with for so long."""
        before = time.monotonic() - idle_seconds
        with self._lock:
            gone = [one for one in self._kept if one.used <= before]
            self._kept = [one for one in self._kept if one.used > before]
        for one in gone:
            _close(one)


def _close(reading: _Reading) -> None:
    try:
        reading.native.close()
    except Exception:
        pass  # it is gone already, or the cluster is
