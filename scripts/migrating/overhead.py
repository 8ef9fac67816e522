"""What an envelope costs through Kafka: the same payloads, raw and in envelopes, in turn, at the same rate.

Latency is from before a message is made, in the producer, until its payload is there, in a consumer of another process.
Both kinds go through the same client library with the same settings, and each has its own topic and consumer.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

import speed.messages
from scripts.servers import Kafka
from speed.backends import open_backend
from speed.message.writing import encode_message, new_message_id

RAW, ENVELOPE = "overhead.raw", "overhead.envelope"
WARM = 200
WAIT_SECONDS = 60.0
_STAMP = 8


def payload(size: int) -> bytes:
    """The time, and bytes up to ``size``."""
    return time.monotonic_ns().to_bytes(_STAMP, "big") + bytes(size - _STAMP)


def consume_raw(address: str, count: int, ready: Any, found: Any) -> None:
    """With the settings that ``speed.messages`` consumes with."""
    backend = open_backend(address)
    own = {"group.id": "raw", "auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
    consumer = Consumer({**backend.settings(lambda _: None), **own})  # type: ignore[attr-defined]
    consumer.subscribe([RAW])
    latencies = []
    while len(latencies) < count:
        record = consumer.poll(1.0)
        if record is not None and record.error() is None:
            latencies.append(_since(record.value()))
            ready.set()
            consumer.commit(asynchronous=True) if len(latencies) % 100 == 1 else None
    consumer.close()
    found.put((RAW, latencies))


def consume_envelopes(address: str, count: int, ready: Any, found: Any) -> None:
    """With ``speed.messages``."""
    latencies = []
    connection = speed.messages.connect(address)
    with connection, connection.subscribe(ENVELOPE, group="envelopes", start="earliest") as subscription:
        while len(latencies) < count:
            message = subscription.receive(WAIT_SECONDS)
            assert message is not None
            latencies.append(_since(message.payload))
            ready.set()
    found.put((ENVELOPE, latencies))


def _since(data: bytes) -> int:
    return time.monotonic_ns() - int.from_bytes(data[:_STAMP], "big")


def publish_raw(producer: Any, size: int) -> None:
    """Waits for the confirmation, as ``Connection.publish`` does."""
    producer.produce(RAW, payload(size))
    producer.flush(WAIT_SECONDS)


def measure(server: Kafka, count: int, a_second: float, size: int) -> dict[str, list[int]]:
    """Nanoseconds of each message, by kind."""
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    readers = []
    for consume in (consume_raw, consume_envelopes):
        ready = context.Event()
        task = (server.address, count + WARM, ready, found)
        readers.append((context.Process(target=consume, args=task), ready))
        readers[-1][0].start()
    backend = open_backend(server.address)
    producer = Producer(backend._producing(quiet=False))  # type: ignore[attr-defined]
    with speed.messages.connect(server.address, name="shop") as connection:
        kinds = (partial(publish_raw, producer, size), lambda: connection.publish(ENVELOPE, payload(size)))
        began = time.monotonic()
        for number in range(2 * (count + WARM)):
            kinds[number % 2]()
            if number < 2:  # topics are made, and groups join
                readers[number][1].wait(WAIT_SECONDS)
                began = time.monotonic()
            time.sleep(max(0.0, began + number / (2 * a_second) - time.monotonic()))
    latencies = dict(found.get(timeout=WAIT_SECONDS) for _ in readers)
    for reader, _ in readers:
        reader.join(WAIT_SECONDS)
    return {kind: sorted(values[WARM:]) for kind, values in latencies.items()}


def told(latencies: dict[str, list[int]]) -> dict[str, Any]:
    """Microseconds, and by how much the envelope is slower."""
    result: dict[str, Any] = {}
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        raw, envelope = (latencies[kind][int(len(latencies[kind]) * part)] / 1000 for kind in (RAW, ENVELOPE))
        result[name] = {"raw": round(raw), "envelope": round(envelope), "more": f"{(envelope / raw - 1) * 100:+.1f} %"}
    return result


def bare_bytes() -> dict[str, int]:
    """What an envelope adds to its payload: with bare metadata, and with what a program usually says."""
    head = {"topic": "orders.created", "namespace": "default", "published_at_ms": int(time.time() * 1000)}
    own_id = new_message_id(int(time.time() * 1000), bytes(16))
    usual = {"publisher_id": "shop", "correlation_id": own_id, "labels": {"region": "eu"}}
    return {
        "bare": len(encode_message(b"", message_id=own_id, **head)),
        "with publisher, correlation id and a label": len(encode_message(b"", message_id=own_id, **head, **usual)),
    }


def main(arguments: Sequence[str]) -> int:
    """Prints the figures."""
    asked = argparse.ArgumentParser(prog="scripts/migration overhead", description=__doc__)
    asked.add_argument("--count", type=int, default=10_000, help="of each kind")
    asked.add_argument("--a-second", type=float, default=100.0, help="of each kind")
    asked.add_argument("--size", type=int, default=200, help="bytes of a payload")
    how = asked.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="speed-overhead-"))
    server = Kafka(place)
    server.start()
    try:
        latencies = measure(server, how.count, how.a_second, how.size)
    finally:
        server.kill()
        shutil.rmtree(place, ignore_errors=True)
    about = {"each": how.count, "a_second": how.a_second, "payload_bytes": how.size}
    print(json.dumps({**about, "microseconds": told(latencies), "envelope_bytes": bare_bytes()}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
