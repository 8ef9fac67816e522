"""A topic of a real Pulsar 4.0.1 in standalone mode, by its own Python client (``pip install pulsar-client``)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING

from bench.topics.rates import AT_ONCE, PAYLOAD_BYTES, PUBLISHERS, quiet
from scripts.servers.pulsar import Pulsar

if TYPE_CHECKING:
    import pulsar

TOPIC = "persistent://public/default/bench"


class PulsarTopic:
    """The topic ``bench`` of a Pulsar whose files lie in ``path``."""

    name = "Pulsar 4.0.1"

    def __init__(self, path: Path) -> None:
        import pulsar

        self._pulsar, self._server = pulsar, Pulsar(path)
        self._server.start()
        addresses = self._server.addresses
        self.websocket = addresses["websocket"] + "/ws/v2"
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(addresses["broker"], logger=logger)
        self._producers = [self._client.create_producer(TOPIC) for _ in range(PUBLISHERS)]

    def publish(self, publisher: int, payload: bytes) -> None:
        self._producers[publisher].send(payload)

    def publish_all(self, count: int) -> None:
        """In batches of the client, as its documentation advises for rates."""
        producer = self._client.create_producer(
            TOPIC, batching_enabled=True, batching_max_messages=AT_ONCE, block_if_queue_full=True
        )
        failed: list[object] = []
        done = threading.Semaphore(0)

        def kept(result: object, _: object) -> None:
            if result != self._pulsar.Result.Ok:
                failed.append(result)
            done.release()

        for _ in range(count):
            producer.send_async(bytes(PAYLOAD_BYTES), kept)
        producer.flush()
        for _ in range(count):
            done.acquire()
        producer.close()
        assert not failed, failed[0]

    def consume_all(self, count: int) -> None:
        consumer = self._client.subscribe(TOPIC, "all", initial_position=self._pulsar.InitialPosition.Earliest)
        for number in range(1, count + 1):
            message = consumer.receive(30_000)
            if number % AT_ONCE == 0:
                consumer.acknowledge_cumulative(message)
        consumer.close()

    def arriving(self, take: Callable[[bytes], None]) -> AbstractContextManager[object]:
        def taken(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
            take(message.data())
            consumer.acknowledge(message)

        shared = self._pulsar.ConsumerType.Shared
        return closing(self._client.subscribe(TOPIC, "latency", shared, message_listener=taken))

    def close(self) -> None:
        quiet(self._client.close)
        self._server.stop()
