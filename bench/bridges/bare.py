"""What each backend takes from its own client library, as programs without SPEED use it: pipelined, and confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from scripts.servers import Server
from scripts.servers.server import PASSWORD, USER

AT_ONCE = 2000
UPLOADS = 8
SECONDS = 60.0


def _parts(payloads: Sequence[bytes]) -> Iterator[list[bytes]]:
    rest = iter(payloads)
    while part := list(islice(rest, AT_ONCE)):
        yield part


def kafka(server: Server, topic: str, payloads: Sequence[bytes]) -> None:
    """confluent-kafka, idempotent, as bridges use it."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{server.port}", "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
    )
    for part in _parts(payloads):
        for payload in part:
            producer.produce(topic, payload)
        assert producer.flush(SECONDS) == 0


def nats(server: Server, topic: str, payloads: Sequence[bytes]) -> None:
    """nats-py; each publication waits for its own confirmation, many at a time."""
    import nats as client

    async def publish() -> None:
        connection = await client.connect(f"nats://127.0.0.1:{server.port}")
        stream = connection.jetstream(timeout=SECONDS)
        await stream.add_stream(name=f"bare-{topic}", subjects=[topic])
        for part in _parts(payloads):
            await asyncio.gather(*(stream.publish(topic, payload) for payload in part))
        await connection.close()

    asyncio.run(publish())


def redis(server: Server, topic: str, payloads: Sequence[bytes]) -> None:
    """redis-py, by pipelines."""
    import redis as client

    connection = client.Redis(port=server.port)
    for part in _parts(payloads):
        asked = connection.pipeline(transaction=False)
        for payload in part:
            asked.xadd(topic, {"envelope": payload})
        asked.execute()


def postgres(server: Server, topic: str, payloads: Sequence[bytes]) -> None:
    """asyncpg, a transaction for each part."""
    import asyncpg

    async def publish() -> None:
        connection = await asyncpg.connect(server.address, ssl=False)
        await connection.execute("CREATE TABLE IF NOT EXISTS bare (id BIGSERIAL PRIMARY KEY, topic TEXT, bytes BYTEA)")
        for part in _parts(payloads):
            await connection.execute(
                "INSERT INTO bare (topic, bytes) SELECT * FROM unnest($1::text[], $2::bytea[])",
                [topic] * len(part),
                part,
            )
        await connection.close()

    asyncio.run(publish())


def s3(server: Any, topic: str, payloads: Sequence[bytes]) -> None:
    """boto3, several objects at a time."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=USER,
        aws_secret_access_key=PASSWORD,
    )
    with ThreadPoolExecutor(UPLOADS) as pool:
        asked = [
            pool.submit(client.put_object, Bucket="events", Key=f"{topic}/{number}", Body=payload)
            for number, payload in enumerate(payloads)
        ]
        for one in asked:
            one.result()


BARE: dict[str, Callable[[Any, str, Sequence[bytes]], None]] = {
    "kafka": kafka,
    "nats": nats,
    "redis": redis,
    "postgres": postgres,
    "s3": s3,
}
