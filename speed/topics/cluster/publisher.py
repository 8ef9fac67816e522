"""What publishes to one topic: a producer of Pulsar for each name, and one without (D-23)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any

from speed.topics.cluster.broker import OPERATION_SECONDS, Broker
from speed.topics.cluster.places import Place
from speed.topics.cluster.records import Outgoing
from speed.topics.producers import Producer, Recorded
from speed.topics.subscription import SubscriptionError
from speed.wire.limits import MAX_OWNER_PRODUCERS, MAX_TOPIC_BATCH, MAX_TOPIC_PRODUCERS

if TYPE_CHECKING:
    import pulsar

IDLE_SECONDS = 60.0
"""After which a producer is closed: another host may use its name then."""
MOST_PENDING = 64 * MAX_TOPIC_BATCH
REPEATED = Recorded(-1, is_repeated=True)
"""A message that is there already: the cluster does not say where."""


def native_name(producer: Producer) -> str:
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

    def publish(self, producer: Producer | None, messages: Sequence[Outgoing]) -> list[Recorded]:
        """Returns where they are. Those with a sequence are sent under the name of ``producer``."""
        name = native_name(producer) if producer is not None else ""
        recorded: list[Recorded] = []
        for is_numbered, run in groupby(messages, key=lambda one: bool(name and one.sequence)):
            recorded += self._sent(name if is_numbered else "", list(run))
        return recorded

    def _sent(self, name: str, messages: list[Outgoing]) -> list[Recorded]:
        with self._broker.asked():
            producer = self._opened(name)
            producer.used = time.monotonic()
            try:
                with producer.lock if name else nullcontext():
                    return self._send(producer.native, name, messages)
            except BaseException:
                if name or not producer.native.is_connected():
                    self._drop(name, producer)  # what it knows of its last sequence may be too old
                raise

    def _send(self, native: pulsar.Producer, name: str, messages: list[Outgoing]) -> list[Recorded]:
        """All but repetitions, at once; waits until all are kept."""
        seen = native.last_sequence_id() if name else 0
        sending = _Sending()
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
            max_pending_messages=MOST_PENDING,
            max_pending_messages_across_partitions=MOST_PENDING,
        )

    def _drop(self, name: str, producer: _Producer) -> None:
        with self._lock:
            if self._producers.get(name) is producer:
                del self._producers[name]
        _close(producer)

    def rest(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close what was not used for so long."""
        before = time.monotonic() - idle_seconds
        with self._lock:
            idle = {name: one for name, one in self._producers.items() if one.used <= before and not one.lock.locked()}
            for name in idle:
                del self._producers[name]
        for producer in idle.values():
            with producer.lock:
                _close(producer)


class _Sending:
    """Messages that are under way together."""

    def __init__(self) -> None:
        self.kept: dict[int, Place] = {}
        """By their places among the messages; those that were there already are missing."""
        self._failures: list[str] = []
        self._changed = threading.Condition()
        self._left = 0

    def send(self, native: pulsar.Producer, place: int, message: Outgoing, sequence: int) -> None:
        """Hand one over; what becomes of it is told on a thread of Pulsar's client."""
        with self._changed:
            self._left += 1
        native.send_async(
            message.payload,
            lambda result, kept: self._told(place, result, kept),
            properties=message.properties,
            partition_key=message.key,
            sequence_id=sequence or None,
        )

    def _told(self, place: int, result: Any, kept: Any) -> None:
        with self._changed:
            self._left -= 1
            try:
                if result.name != "Ok":
                    self._failures.append(result.name)
                elif kept.ledger_id() >= 0:
                    self.kept[place] = Place(kept.ledger_id(), kept.entry_id(), kept.batch_index())
            except Exception as error:  # nothing may leave a callback
                self._failures.append(type(error).__name__)
            self._changed.notify_all()

    def failure(self) -> str:
        """The name of the first error, once all is told; empty if there is none."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._left, 2 * OPERATION_SECONDS):
                return "Timeout"
            return self._failures[0] if self._failures else ""


def _close(producer: _Producer) -> None:
    try:
        producer.native.close()
    except Exception:
        pass  # it is gone already, or the cluster is
