"""What lies in a backend, seen and written by its own client library: as programs without SPEED do."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import asyncpg
import nats
import redis
from confluent_kafka import Consumer, Producer, TopicPartition

from scripts.servers import Kafka, Moto, MotoSqs, Nats, Postgres, Redis, Server
from speed.backends.backend import s3_day

SECONDS = 30.0


class Kept(NamedTuple):
    """One message as it lies there."""

    data: bytes
    key: str | None
    said: Mapping[str, str]
    """Headers, columns or metadata."""


class Raw(Protocol):
    """A client of one server."""

    def put(self, topic: str, data: bytes) -> None:
        """Write anything under a topic."""

    def kept(self, topic: str) -> list[Kept]:
        """All that lies there."""


class RawKafka:
    """confluent-kafka."""

    def __init__(self, server: Kafka) -> None:
        self.servers = {"bootstrap.servers": f"127.0.0.1:{server.port}", "log_level": 0}

    def put(self, topic: str, data: bytes) -> None:
        producer = Producer(self.servers)
        producer.produce(topic, data)
        assert producer.flush(SECONDS) == 0

    def kept(self, topic: str) -> list[Kept]:
        consumer = Consumer({**self.servers, "group.id": "raw", "auto.offset.reset": "earliest"})
        found: list[Kept] = []
        for number in consumer.list_topics(topic, SECONDS).topics[topic].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), SECONDS)
            consumer.assign([TopicPartition(topic, number, low)])
            for record in consumer.consume(high - low, SECONDS) if high > low else ():
                headers = {name: value.decode() for name, value in record.headers() or ()}
                found.append(Kept(record.value(), record.key() and record.key().decode(), headers))
        consumer.close()
        return found


class RawNats:
    """nats-py."""

    def __init__(self, server: Nats) -> None:
        self.address = server.address

    def put(self, topic: str, data: bytes) -> None:
        asyncio.run(self._put(topic, data))

    async def _put(self, topic: str, data: bytes) -> None:
        client = await nats.connect(self.address)
        await client.jetstream().publish(topic, data)
        await client.close()

    def kept(self, topic: str) -> list[Kept]:
        return asyncio.run(self._kept(topic))

    async def _kept(self, topic: str) -> list[Kept]:
        client = await nats.connect(self.address)
        context = client.jetstream()
        stream = await context.find_stream_name_by_subject(topic)
        state = (await context.stream_info(stream)).state
        rows = [await context.get_msg(stream, number) for number in range(state.first_seq, state.last_seq + 1)]
        await client.close()
        return [
            Kept(row.data or b"", (row.headers or {}).get("Prism-Key"), row.headers or {})
            for row in rows
            if row.subject == topic
        ]


class RawRedis:
    """redis-py, with streams."""

    def __init__(self, server: Redis) -> None:
        self.client = redis.Redis(port=server.port)

    def put(self, topic: str, data: bytes) -> None:
        self.client.xadd(topic, {"envelope": data})

    def kept(self, topic: str) -> list[Kept]:
        rows: Any = self.client.xrange(topic)
        return [Kept(row[b"envelope"], row[b"key"].decode() if b"key" in row else None, {}) for _, row in rows]


class RawPostgres:
    """asyncpg, with a table of its own for each test."""

    def __init__(self, server: Postgres, table: str) -> None:
        self.address, self.table = server.address, table

    def ask(self, text: str, *values: Any) -> list[Any]:
        return asyncio.run(self._ask(text, *values))

    async def _ask(self, text: str, *values: Any) -> list[Any]:
        connection = await asyncpg.connect(self.address, ssl=False)
        try:
            return list(await connection.fetch(text, *values))
        finally:
            await connection.close()

    def put(self, topic: str, data: bytes) -> None:
        self.ask(f"INSERT INTO {self.table} (topic, envelope, bytes) VALUES ($1, '{{}}', $2)", topic, data)

    def kept(self, topic: str) -> list[Kept]:
        rows = self.ask(f"SELECT bytes, key, envelope::text AS e FROM {self.table} WHERE topic = $1 ORDER BY id", topic)
        return [Kept(row["bytes"], row["key"], {"envelope": row["e"]}) for row in rows]


class RawS3:
    """boto3."""

    def __init__(self, server: Moto, bucket: str) -> None:
        self.bucket = bucket
        self.client = server.client("s3")

    def put(self, topic: str, data: bytes) -> None:
        key = f"{s3_day(int(time.time() * 1000))}{topic}/f{len(data)}-{data[:4].hex()}.bin"  # behind all UUIDs
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def kept(self, topic: str) -> list[Kept]:
        found = []
        for one in self.client.list_objects_v2(Bucket=self.bucket).get("Contents", ()):
            if f"/{topic}/" in one["Key"] and one["Key"].startswith("events/"):
                answer = self.client.get_object(Bucket=self.bucket, Key=one["Key"])
                found.append(Kept(answer["Body"].read(), answer["Metadata"].get("prism-key"), answer["Metadata"]))
        return found


class RawSqs:
    """boto3; what lies in a queue is seen by taking it out for a moment."""

    def __init__(self, server: MotoSqs, queue: str) -> None:
        self.client = server.client("sqs")
        self.url = self.client.get_queue_url(QueueName=f"{queue}.fifo")["QueueUrl"]

    def put(self, topic: str, data: bytes) -> None:
        body = base64.b64encode(data).decode() or "="
        said = {"prism-topic": {"DataType": "String", "StringValue": topic}}
        ordered = {"MessageGroupId": "raw", "MessageDeduplicationId": uuid.uuid4().hex}
        self.client.send_message(QueueUrl=self.url, MessageBody=body, MessageAttributes=said, **ordered)

    def kept(self, topic: str) -> list[Kept]:
        asked = {"QueueUrl": self.url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
        rows = self.client.receive_message(**asked, VisibilityTimeout=0).get("Messages", ())
        found = []
        for row in rows:
            said = {name: one["StringValue"] for name, one in row["MessageAttributes"].items()}
            if said["prism-topic"] == topic:
                found.append(Kept(base64.b64decode(row["Body"]), said.get("prism-key"), said))
        return found


def raw_of(server: Server, place: str) -> Raw:
    """The client of a server; ``place`` is the table, the bucket or the queue of a test."""
    if isinstance(server, Kafka):
        return RawKafka(server)
    if isinstance(server, Nats):
        return RawNats(server)
    if isinstance(server, Redis):
        return RawRedis(server)
    if isinstance(server, Postgres):
        return RawPostgres(server, place)
    if isinstance(server, MotoSqs):
        return RawSqs(server, place)
    assert isinstance(server, Moto)
    return RawS3(server, place)
