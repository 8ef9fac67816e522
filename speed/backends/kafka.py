"""Apache Kafka: a message is a record, its key the record's key, its envelope the value (B-1).

librdkafka connects, retries and keeps order by itself; it works on threads of its own, which end with ``close``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import lru_cache, partial
from time import monotonic
from typing import Any

import confluent_kafka as kafka
from confluent_kafka.admin import AdminClient

from speed.backends.address import Address
from speed.backends.backend import (
    EVERY,
    MAX_AT_ONCE,
    REFRESH_SECONDS,
    BackendAwayError,
    BackendError,
    Checkpoint,
    Delivered,
    Namespaces,
    Outgoing,
    TakesAll,
    kafka_filter,
    kafka_topic,
)
from speed.backends.kafka_records import (
    AUTHENTICATION,
    AWAY,
    CODES,
    LOST,
    NOT_THERE,
    Marks,
    delivered_of_kafka,
    error_of,
    hops_of,
    value_and_headers,
)

RECORD_ROOM = 4096
"""Of key and headers, and what frames a record."""
SEND_SECONDS = 30.0
"""How long librdkafka tries to send a message that nobody waits for any more."""
QUEUE_KILOBYTES = 65_536
FETCH_KILOBYTES = 16_384
TEND_SECONDS = 0.5
"""How often the group is attended to while a program works on a message: it stays a member however long that takes."""
_POLL_SECONDS = 0.1
_BEGIN_SECONDS = 1.0
_ANSWER_SECONDS = 10.0


_topic_of = lru_cache(1024)(kafka_topic)


class KafkaBackend(TakesAll):
    """One cluster. With ``transactional_id`` in the address each ``publish`` is a transaction."""

    has_groups = True
    max_at_once = MAX_AT_ONCE
    takes_ahead = True

    def __init__(self, address: Address, max_message_bytes: int) -> None:
        self._address, self._max_bytes = address, max_message_bytes
        self._lock = threading.Lock()
        self._producer: Any = None
        self._is_transacting = False
        """Whether the producer's transactions have begun."""
        self._is_certain = False
        """Whether it is known what became of the transactions before."""
        self._is_quiet = False
        """Whether it tells of failures only."""
        self._refused: Any = None
        """The last refusal of credentials: librdkafka tries again for ever."""
        self._transaction = str(address.options["transactional_id"])
        self._placing: Any = None
        """A consumer that consumes nothing: the group in which places are kept."""

    def settings(self, on_error: Callable[[Any], None]) -> dict[str, Any]:
        """The settings that producers and consumers share; ``on_error`` gets errors of the connection."""
        address = self._address
        own = {
            "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in address.hosts),
            "client.id": "speed",
            "error_cb": on_error,
            "log_level": 0,
            "socket.timeout.ms": int(_ANSWER_SECONDS * 1000),
            "reconnect.backoff.max.ms": 1000,
            "topic.metadata.refresh.interval.ms": int(REFRESH_SECONDS * 500),
        }
        if address.tls and address.options["trusted"]:
            own["ssl.ca.location"] = address.options["trusted"]
        if address.user:
            own |= {"sasl.mechanism": "PLAIN", "sasl.username": address.user, "sasl.password": address.password()}
        secure = ("SASL_" if address.user else "") + ("SSL" if address.tls else "PLAINTEXT")
        return {**own, "security.protocol": secure}

    # --- publishing ---

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        """Positions are ``partition:offset``."""
        deadline = monotonic() + timeout
        if not self._transaction:
            return self._send(self._opened(), messages, deadline)
        with self._lock:  # a producer has one transaction at a time
            self._begin_transacting(deadline)
            return self._send_in_transaction(messages, (), deadline)

    @property
    def keeps_places(self) -> bool:
        """In transactions."""
        return bool(self._transaction)

    def publish_at(self, messages: Sequence[Outgoing], places: Sequence[Checkpoint], timeout: float) -> dict[str, int]:
        """One transaction. A place is an offset of the group, and its metadata say of which lane."""
        deadline = monotonic() + timeout
        if not self._transaction:
            self._send_quietly(self._opened(quiet=True), messages, deadline)
            return {}
        with self._lock:
            self._begin_transacting(deadline)
            if not self._is_certain:
                there = {place.lane: self._next_of(place, max(0.1, deadline - monotonic())) for place in places}
                self._is_certain = True
                if any(there[place.lane] != place.before for place in places):
                    return there
            self._send_in_transaction(messages, places, deadline)
        return {}

    def next_of(self, place: Checkpoint, timeout: float) -> int:
        """Ask for the offset of its group. Of lanes that have one topic only the last is known.

        It is told once the transaction of a producer before this one has ended, which this one sees to.
        """
        deadline = monotonic() + timeout
        with self._lock:
            self._begin_transacting(deadline)
            return self._next_of(place, max(0.1, deadline - monotonic()))

    def _next_of(self, place: Checkpoint, timeout: float) -> int:
        """``_lock`` is held."""
        partitions = [kafka.TopicPartition(kafka_topic(place.topic), 0)]
        try:
            (found,) = self._group_of(place.bridge).committed(partitions, timeout=timeout)
        except kafka.KafkaException as error:
            raise error_of(error.args[0]) from None
        if found.error is not None and found.error.code() not in NOT_THERE:
            raise error_of(found.error)
        return int(found.offset) if found.offset > 0 and found.metadata == place.lane else 0

    def _group_of(self, bridge: str) -> Any:
        """``_lock`` is held."""
        if self._placing is None:
            named = {"group.id": f"speed-bridge.{bridge}", "enable.auto.commit": False}
            self._placing = kafka.Consumer({**self.settings(self._note), **named})
        return self._placing

    def _opened(self, *, quiet: bool = False) -> Any:
        with self._lock:
            if self._producer is None or self._is_quiet is not quiet:
                self._producer, self._is_quiet = kafka.Producer(self._producing(quiet=quiet)), quiet
            return self._producer

    def _producing(self, *, quiet: bool) -> dict[str, Any]:
        named = {"transactional.id": self._transaction} if self._transaction else {}
        return {
            **self.settings(self._note),
            **named,
            "delivery.report.only.error": quiet,
            "enable.idempotence": True,
            "linger.ms": 1,
            "topic.metadata.propagation.max.ms": int(_ANSWER_SECONDS * 500),
            "message.timeout.ms": int(SEND_SECONDS * 1000),
            "message.max.bytes": self._max_bytes + RECORD_ROOM,
            "queue.buffering.max.kbytes": QUEUE_KILOBYTES,
        }

    def _note(self, error: Any) -> None:
        if error.code() in AUTHENTICATION:
            self._refused = error

    def _send(self, producer: Any, messages: Sequence[Outgoing], deadline: float) -> list[str]:
        """Hand over all, and wait until the last is confirmed."""
        sending = _KafkaSending(len(messages))
        for place, message in enumerate(messages):
            self._produce(producer, message, partial(sending.confirm, place), deadline)
            if not place % 256:
                producer.poll(0)
        while sending.missing and self._goes_on(producer, deadline):
            producer.flush(min(_POLL_SECONDS, max(0.0, deadline - monotonic())))  # sends at once what lingers
        if sending.failure is not None:
            self._drop_if_fatal(producer, sending.failure)
            raise error_of(sending.failure)
        if sending.missing:
            raise BackendAwayError(f"Kafka did not confirm {sending.missing} of {len(messages)} messages in time")
        return sending.positions

    def _send_quietly(self, producer: Any, messages: Sequence[Outgoing], deadline: float) -> None:
        """Send without asking for positions: the producer reports failures only."""
        sending = _KafkaSending(0)
        confirm = partial(sending.confirm, 0)
        for message in messages:
            self._produce(producer, message, confirm, deadline)
        while len(producer) and self._goes_on(producer, deadline):
            producer.flush(min(_POLL_SECONDS, max(0.0, deadline - monotonic())))
        if sending.failure is not None:
            self._drop_if_fatal(producer, sending.failure)
            raise error_of(sending.failure)
        if len(producer):
            self._drop(producer)  # its answers would be taken for those of the next
            raise BackendAwayError(f"Kafka did not confirm {len(messages)} messages in time")

    def _produce(self, producer: Any, message: Outgoing, confirm: Any, deadline: float) -> None:
        key = None if message.key is None else message.key.encode()
        topic, (value, headers) = _topic_of(message.topic), value_and_headers(message)
        while True:
            try:
                producer.produce(topic, value, key, headers=headers, on_delivery=confirm)
            except BufferError:
                if not self._goes_on(producer, deadline):
                    raise BackendAwayError("Kafka does not take what waits to be sent: try again") from None
                producer.poll(_POLL_SECONDS)
            except kafka.KafkaException as error:
                self._drop_if_fatal(producer, error.args[0])
                raise error_of(error.args[0]) from None
            else:
                return

    def _goes_on(self, producer: Any, deadline: float) -> bool:
        """Whether to wait on; a refusal of the credentials ends the producer, so that the next one tries new ones."""
        refused, self._refused = self._refused, None
        if refused is not None:
            self._drop(producer)
            raise error_of(refused)
        return monotonic() < deadline

    def _drop_if_fatal(self, producer: Any, error: Any) -> None:
        if error.fatal():
            self._drop(producer)

    def _drop(self, producer: Any) -> None:
        producer.purge(blocking=False)
        if self._producer is producer:
            self._forget_producer()

    def _forget_producer(self) -> Any:
        """The one there was."""
        producer, self._producer = self._producer, None
        self._is_transacting = self._is_certain = False
        return producer

    def _send_in_transaction(
        self, messages: Sequence[Outgoing], places: Sequence[Checkpoint], deadline: float
    ) -> list[str]:
        """All or none; ``_lock`` is held."""
        producer = self._producer
        try:
            producer.begin_transaction()
            positions = self._send(producer, messages, deadline)
            for place in places:
                at = kafka.TopicPartition(kafka_topic(place.topic), 0, place.next, place.lane)
                group = self._group_of(place.bridge).consumer_group_metadata()
                self._send_offset(producer, at, group)
            producer.commit_transaction(max(0.1, deadline - monotonic()))
        except kafka.KafkaException as error:
            self._abort()
            raise error_of(error.args[0]) from None
        except BaseException:
            self._abort()
            raise
        return positions

    def _begin_transacting(self, deadline: float) -> None:
        """End the transaction of a producer before this one, which may take Kafka longer than one attempt."""
        if self._is_transacting:
            return
        if self._producer is None:
            self._producer = kafka.Producer(self._producing(quiet=False))
        while True:
            try:
                self._producer.init_transactions(_BEGIN_SECONDS)  # it goes on from call to call
            except kafka.KafkaException as error:
                self._producer.poll(0)  # tells of refused credentials, which a next producer reads again
                if not error.args[0].retriable():
                    self._drop(self._producer)
                    raise error_of(error.args[0]) from None
                if not self._goes_on(self._producer, deadline):
                    raise error_of(error.args[0]) from None
            else:
                break
        self._is_transacting = True

    def _send_offset(self, producer: Any, at: Any, group: Any) -> None:
        """librdkafka may wait for a lost coordinator for ever, whatever time it is given: then its producer is left."""
        done: Future[None] = Future()

        def send() -> None:
            try:
                producer.send_offsets_to_transaction([at], group, _ANSWER_SECONDS)
            except Exception as error:  # it is raised by who waits
                done.set_exception(error)
            else:
                done.set_result(None)

        threading.Thread(target=send, name="speed-kafka-offset", daemon=True).start()
        try:
            done.result(_ANSWER_SECONDS)
        except FutureTimeout:
            self._forget_producer()  # the next one of its transactional_id ends this transaction
            raise BackendAwayError("Kafka did not take the position in time: try again") from None

    def _abort(self) -> None:
        """Give the transaction up: a producer that begins anew ends what is left of it."""
        producer = self._forget_producer()
        if producer is not None:
            try:
                producer.abort_transaction(1.0)
            except kafka.KafkaException:
                pass  # it was fenced, or the cluster is away
            producer.purge(blocking=False)

    # --- the rest ---

    def subscribe(
        self, pattern: str, group: str, start: str, *, alone: bool = False, namespaces: Namespaces = EVERY
    ) -> KafkaSubscription:
        """Join when first asked for messages."""
        lease = float(self._address.options["lease_seconds"])
        return KafkaSubscription(self, pattern, namespaces.group(group), start, lease, alone=alone)

    def topic_ids(self, name: str) -> str:
        """The id of a topic of Kafka. It differs from that of a removed topic of the same name."""
        asker = AdminClient(self.settings(self._note))
        try:
            (description,) = asker.describe_topics(
                kafka.TopicCollection([name]), request_timeout=_ANSWER_SECONDS
            ).values()
            return str(description.result(_ANSWER_SECONDS).topic_id)
        except kafka.KafkaException as error:
            raise error_of(error.args[0]) from None

    def ping(self, timeout: float) -> None:
        """Ask for the metadata of the cluster."""
        found: list[Any] = []
        asker = kafka.Producer(self.settings(found.append))
        deadline = monotonic() + timeout
        while True:
            try:
                asker.list_topics(timeout=max(0.05, min(0.5, deadline - monotonic())))
            except kafka.KafkaException as error:
                asker.poll(0)
                refused = [one for one in found if one.code() in AUTHENTICATION]
                if refused or monotonic() >= deadline:
                    raise error_of(next(iter(refused), error.args[0])) from None
            else:
                return

    def close(self) -> None:
        """Forget what is not confirmed."""
        with self._lock:
            producer = self._forget_producer()
            placing, self._placing = self._placing, None
        if producer is not None:
            producer.purge(blocking=False)
            producer.flush(1.0)
        if placing is not None:
            placing.close()


class _KafkaSending:
    """Messages that were handed over and are not confirmed."""

    def __init__(self, count: int) -> None:
        self.missing = count
        self.positions = [""] * count
        self.failure: Any = None

    def confirm(self, place: int, error: Any, record: Any) -> None:
        """Called by ``poll``."""
        self.missing -= 1
        if error is not None:
            self.failure = self.failure or error
        else:
            self.positions[place] = f"{record.partition()}:{record.offset()}"


class KafkaSubscription:
    """A member of a consumer group of Kafka."""

    def __init__(
        self, backend: KafkaBackend, pattern: str, group: str, start: str, lease_seconds: float, *, alone: bool
    ) -> None:
        self._backend, self._pattern, self._group = backend, pattern, group
        self._is_alone = alone
        self._lanes: dict[str, str] = {}
        """Of one that is alone: its topics, and what tells each from one of its name before."""
        self._ends: dict[tuple[str, int], int] = {}
        self._lease_ms = int(lease_seconds * 1000)
        self._consumer: Any = None
        self._refused: Any = None
        self._marks: dict[tuple[str, int], Marks] = {}
        self._has_begun = start == "earliest"
        """Whether topics that are new to the group are read from their beginning."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._tending: threading.Thread | None = None
        self._received = 0.0
        self._is_paused = False
        self._early: list[Any] = []
        """What came while the program worked."""

    def _opened(self) -> Any:
        if self._consumer is None:
            consumer = kafka.Consumer(
                {
                    **self._backend.settings(self._note),
                    "group.id": self._group,
                    **({"group.instance.id": self._group} if self._is_alone else {}),
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "allow.auto.create.topics": True,
                    "session.timeout.ms": self._lease_ms,
                    "heartbeat.interval.ms": max(100, self._lease_ms // 10),
                    "max.poll.interval.ms": max(300_000, self._lease_ms),
                    "queued.max.messages.kbytes": FETCH_KILOBYTES,
                    "fetch.wait.max.ms": 100,
                    "partition.assignment.strategy": "cooperative-sticky",
                }
            )
            consumer.subscribe(
                [kafka_filter(self._pattern)], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
            self._consumer = consumer
        if self._tending is None:
            self._tending = threading.Thread(target=self._tend, name="speed-kafka-member", daemon=True)
            self._tending.start()
        return self._consumer

    def _tend(self) -> None:
        """While nobody receives, let the group change: it waits for all its members."""
        while not self._ended.wait(TEND_SECONDS):
            if self._lock.acquire(blocking=False):
                try:
                    if self._consumer is not None and monotonic() - self._received > TEND_SECONDS:
                        self._consumer.pause(self._consumer.assignment())
                        self._is_paused = True
                        record = self._consumer.poll(0)
                        self._early += [] if record is None or record.error() else [record]
                except (kafka.KafkaException, RuntimeError):
                    pass  # who receives next is told
                finally:
                    self._lock.release()

    def _note(self, error: Any) -> None:
        if error.code() in AUTHENTICATION:
            self._refused = error

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """A group that is new begins at the ends, and keeps them: nothing is missed when this member dies."""
        if not self._has_begun:
            self._has_begun = True
            found = consumer.committed(list(partitions), timeout=_ANSWER_SECONDS)
            new = [one for one in found if one.offset < 0]
            for one in new:
                one.offset = consumer.get_watermark_offsets(one, timeout=_ANSWER_SECONDS)[1]
            if new:
                consumer.commit(offsets=new, asynchronous=False)
        consumer.incremental_assign(partitions)

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        """Say where these stand, before another member gets them."""
        try:
            self._commit([(one.topic, one.partition) for one in partitions])
        except BackendError:
            pass  # what is acknowledged comes again
        self._lost(consumer, partitions)

    def _lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        for one in partitions:
            self._marks.pop((one.topic, one.partition), None)

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """The first waits, the others are those that are there."""
        with self._lock:
            consumer = self._opened()
            if self._is_paused:
                consumer.resume(consumer.assignment())
                self._is_paused = False
            try:
                return self._consumed(consumer, limit, monotonic() + timeout)
            finally:
                self._received = monotonic()

    def _consumed(self, consumer: Any, limit: int, deadline: float) -> list[Delivered]:
        while True:
            left = max(0.0, deadline - monotonic())
            records, self._early = self._early, []
            try:
                records = records or consumer.consume(1, min(left, 1.0))
                records += consumer.consume(limit - 1, 0) if records and limit > 1 else []
            except kafka.KafkaException as error:  # of what is asked when partitions come
                raise error_of(error.args[0]) from None
            refused, self._refused = self._refused, None
            if refused is not None:
                self._consumer = None
                consumer.close()
                raise error_of(refused)
            if self._is_alone:
                self._look_at_topics(records)
            delivered = [one for one in map(self._delivered, records) if one is not None]
            if delivered or monotonic() >= deadline:
                return delivered

    def _look_at_topics(self, records: Sequence[Any]) -> None:
        """Offsets that begin anew may be those of a topic that was made anew. What cannot be told comes again."""
        for record in records:
            if record.error() is None:
                place = record.topic(), record.partition()
                if record.offset() < self._ends.get(place, 0) or place[0] not in self._lanes:
                    try:
                        self._lanes[place[0]] = self._backend.topic_ids(place[0])
                    except BackendError:
                        self._drop()
                        raise
                self._ends[place] = record.offset() + 1

    def _drop(self) -> None:
        """Join anew: what was given out and not acknowledged comes again."""
        consumer, self._consumer = self._consumer, None
        self._ends.clear()
        self._marks.clear()
        if consumer is not None:
            consumer.close()

    def _delivered(self, record: Any) -> Delivered | None:
        error = record.error()
        if error is not None:
            if error.code() in (CODES._PARTITION_EOF, CODES.UNKNOWN_TOPIC_OR_PART) or error.code() in AWAY:
                return None  # librdkafka goes on by itself; a topic may be made later
            raise error_of(error)
        place = record.topic(), record.partition()
        self._marks.setdefault(place, Marks()).deliver(record.offset())
        lane = f"{place[0]}/{self._lanes[place[0]]}/{place[1]}" if place[0] in self._lanes else ""
        return delivered_of_kafka(record, lane, hops_of(record) if self._is_alone else "")

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """Commits how far each partition is done."""
        places = set()
        with self._lock:
            for one in delivered:
                topic, partition, offset = one.handle
                marks = self._marks.get((topic, partition))
                if marks is not None:
                    marks.acknowledge(offset)
                    places.add((topic, partition))
            self._commit(sorted(places))

    def _commit(self, places: Sequence[tuple[str, int]]) -> None:
        offsets = [
            kafka.TopicPartition(topic, partition, self._marks[topic, partition].mark())
            for topic, partition in places
            if (topic, partition) in self._marks
        ]
        if not offsets or self._consumer is None:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except kafka.KafkaException as error:
            if error.args[0].code() not in LOST:
                raise error_of(error.args[0]) from None

    def positions(self) -> dict[str, str]:
        """The next offset of each partition that this member has."""
        return {f"{topic}/{partition}": str(marks.mark()) for (topic, partition), marks in self._marks.items()}

    def close(self) -> None:
        """Leave the group."""
        self._ended.set()
        if self._tending is not None:
            self._tending.join(_ANSWER_SECONDS)
        with self._lock:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()
            self._marks.clear()


__all__ = ["KafkaBackend"]
