"""All that lies in a backend now, in the order of each topic, read without a group: nothing is acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from speed.backends.backend import (
    BackendAwayError,
    BackendRefusedError,
    Delivered,
    may_hold_in_kafka,
    nats_filter,
    s3_parts,
)
from speed.wire.names import matches

if TYPE_CHECKING:
    from speed.backends.backend import Backend


PAGE = 1000
_ANSWER_SECONDS = 30.0
Pages = Iterator[list[Delivered]]


def scan(backend: Backend, pattern: str, since_ms: int = 0) -> Pages:
    """Pages of what the topics of a pattern hold at the time of asking.

    What was stored before ``since_ms`` (Unix milliseconds) may be left out; it is where that saves reading it.

    BackendRefusedError for channels of Redis and queues of SQS, and what all that asks a backend raises.
    """
    name = type(backend).__name__.removesuffix("Backend").lower()
    if name not in _SCANS or not backend.has_groups:
        raise BackendRefusedError("what lies in channels of Redis and queues of SQS is seen by taking it only")
    return _SCANS[name](backend, pattern, since_ms)


def count(backend: Backend, pattern: str) -> int | None:
    """About how many messages there are, for who waits; None where to count is to read."""
    name = type(backend).__name__.removesuffix("Backend").lower()
    return _COUNTS[name](backend, pattern) if name in _COUNTS and backend.has_groups else None


def _of_redis(backend: Any, pattern: str, since_ms: int) -> Pages:
    from speed.backends.redis import asking, delivered_of, streams_of

    with asking():
        client = backend.client()
        for stream in streams_of(client, pattern):
            last, first = client.xrevrange(stream, count=1), str(since_ms)
            while entries := client.xrange(stream, first, last[0][0], count=PAGE) if last else []:
                yield [delivered_of(stream.encode(), entry) for entry in entries]
                first = f"({entries[-1][0].decode()}"


def _count_redis(backend: Any, pattern: str) -> int:
    from speed.backends.redis import asking, streams_of

    with asking():
        client = backend.client()
        return sum(client.xlen(stream) for stream in streams_of(client, pattern))


def _of_kafka(backend: Any, pattern: str, since_ms: int) -> Pages:
    with _reading_kafka(backend) as reader:
        for place, end in _partitions(reader, pattern):
            _skip(reader, place, since_ms)
            if 0 <= place.offset < end:
                reader.assign([place])
                yield from _of_partition(reader, place, end)


def _count_kafka(backend: Any, pattern: str) -> int:
    with _reading_kafka(backend) as reader:
        return sum(end - place.offset for place, end in _partitions(reader, pattern))


@contextmanager
def _reading_kafka(backend: Any) -> Iterator[Any]:
    from confluent_kafka import Consumer, KafkaException

    from speed.backends.kafka_records import error_of

    own = {
        "group.id": "speed-scan",  # it joins no group
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    reader = Consumer({**backend.settings(lambda _: None), **own})
    try:
        yield reader
    except KafkaException as error:
        raise error_of(error.args[0]) from None
    finally:
        reader.close()


def _partitions(reader: Any, pattern: str) -> Iterator[tuple[Any, int]]:
    """Those that hold something, each from its beginning, and where it ends."""
    from confluent_kafka import TopicPartition

    for name, topic in reader.list_topics(timeout=_ANSWER_SECONDS).topics.items():
        if not may_hold_in_kafka(pattern, name):
            continue
        for number in topic.partitions:
            low, end = reader.get_watermark_offsets(TopicPartition(name, number), _ANSWER_SECONDS)
            if low < end:
                yield TopicPartition(name, number, low), end


def _skip(reader: Any, place: Any, since_ms: int) -> None:
    """Begin with the first record of that time; below 0 if there is none."""
    from confluent_kafka import TopicPartition

    if since_ms:
        wanted = [TopicPartition(place.topic, place.partition, since_ms)]
        place.offset = reader.offsets_for_times(wanted, _ANSWER_SECONDS)[0].offset


def _of_partition(reader: Any, place: Any, end: int) -> Pages:
    """Up to an offset. What is left by transactions holds no record, so the end is told by itself as well."""
    from speed.backends.kafka_records import delivered_of_kafka

    until, reached = monotonic() + _ANSWER_SECONDS, place.offset
    while reached < end:
        found = [one for one in reader.consume(PAGE, 0.5) if one.partition() == place.partition]
        page = [delivered_of_kafka(one) for one in found if one.error() is None and one.offset() < end]
        reached = max([reached, *(one.offset() + (one.error() is None) for one in found)])
        if page:
            until = monotonic() + _ANSWER_SECONDS
            yield page
        elif monotonic() > until:
            raise BackendAwayError("Kafka does not answer: try again")


def _of_nats(backend: Any, pattern: str, _: int) -> Pages:
    reading = _ReadingNats(backend, pattern)
    for stream in backend.run(reading.streams(), _ANSWER_SECONDS):
        while page := backend.run(reading.page(stream), _ANSWER_SECONDS):
            yield page


def _count_nats(backend: Any, pattern: str) -> int:
    reading = _ReadingNats(backend, pattern)
    streams = backend.run(reading.streams(), _ANSWER_SECONDS)
    return sum(backend.run(reading.count(stream), _ANSWER_SECONDS) for stream in streams)


class _ReadingNats:
    """Streams from their beginning to where they ended; consumers of JetStream that end with the connection."""

    def __init__(self, backend: Any, pattern: str) -> None:
        self._backend, self._subjects = backend, nats_filter(pattern)
        self._reader: Any = None
        self._left = 0

    async def streams(self) -> list[str]:
        """Those that hold subjects of the pattern."""
        await self._backend.connected()
        names: list[str] = await self._backend.streams_of(self._subjects)
        return names

    async def count(self, stream: str) -> int:
        """Messages of all subjects of a stream."""
        return int((await self._backend.context.stream_info(stream)).state.messages)

    async def page(self, stream: str) -> list[Delivered]:
        """The next messages; none at the end."""
        from nats.errors import Error

        from speed.backends.nats import error_of
        from speed.backends.records import delivered_of_nats

        try:
            if self._reader is None:
                await self._begin(stream)
            found = [await self._reader.next_msg(_ANSWER_SECONDS / 2) for _ in range(min(self._left, PAGE))]
            self._left -= len(found)
            if not found:
                await self._reader.unsubscribe()
                self._reader = None
        except (Error, OSError) as error:
            raise error_of(error) from None
        return [delivered_of_nats(one) for one in found]

    async def _begin(self, stream: str) -> None:
        subjects = self._subjects
        self._reader = await self._backend.context.subscribe(subjects, stream=stream, ordered_consumer=True)
        info = await self._reader.consumer_info()
        self._left = info.num_pending + info.delivered.consumer_seq


def _of_postgres(backend: Any, pattern: str, _: int) -> Pages:
    after = 0
    while page := backend.page(pattern, after, PAGE):
        yield page
        after = page[-1].sequence


def _count_postgres(backend: Any, pattern: str) -> int:
    return int(backend.count(pattern))


def _of_s3(backend: Any, pattern: str, _: int) -> Pages:
    from speed.backends.s3 import asking

    with asking():
        client = backend.client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=backend.bucket, Prefix="events/"):
            found = []
            for key in (one["Key"] for one in page.get("Contents", ())):
                parts = s3_parts(key)
                if parts is not None and matches(pattern, parts[0]):
                    answer = client.get_object(Bucket=backend.bucket, Key=key)
                    found.append(Delivered(parts[0], None, answer["Body"].read(), key))
            yield found


_SCANS: dict[str, Callable[[Any, str, int], Pages]] = {
    "kafka": _of_kafka,
    "nats": _of_nats,
    "redis": _of_redis,
    "postgres": _of_postgres,
    "s3": _of_s3,
}

_COUNTS: dict[str, Callable[[Any, str], int]] = {
    "kafka": _count_kafka,
    "nats": _count_nats,
    "redis": _count_redis,
    "postgres": _count_postgres,
}

__all__ = ["count", "scan"]
