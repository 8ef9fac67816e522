"""How long a message is on its way to a reader of Kafka at one rate: published there, or to a topic with a bridge."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from scripts.servers import Server

TICK_SECONDS = 0.01
PAYLOAD_BYTES = 200
_TIME_BYTES = 8
_WARM = 0.5
"""Of the messages: the first ones wait for the topic, connections and groups."""


def payload() -> bytes:
    """One that says when it was made."""
    return time.time_ns().to_bytes(_TIME_BYTES, "big") + bytes(PAYLOAD_BYTES - _TIME_BYTES)


def delays(server: Server, topic: str, rate: int, seconds: float, publish: Callable[[list[bytes]], Any]) -> list[float]:
    """In seconds, sorted. ``publish`` is called a hundred times a second."""
    from confluent_kafka import Consumer

    count, found = int(rate * seconds), []
    reader = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{server.port}", "group.id": topic, "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    writing = threading.Thread(target=_write, args=(rate, count, publish), name="writer")
    writing.start()
    ends = time.monotonic() + seconds + 60
    while len(found) < count and time.monotonic() < ends:
        for record in reader.consume(1000, 0.05):
            if record.error() is None:
                sent = int.from_bytes(record.value()[-PAYLOAD_BYTES:][:_TIME_BYTES], "big")
                found.append((time.time_ns() - sent) / 1e9)
    writing.join()
    reader.close()
    return sorted(found[int(_WARM * len(found)) :])


def _write(rate: int, count: int, publish: Callable[[list[bytes]], Any]) -> None:
    each, began, sent = max(1, int(rate * TICK_SECONDS)), time.monotonic(), 0
    pausing = threading.Event()
    while sent < count:
        publish([payload() for _ in range(each)])
        sent += each
        pausing.wait(max(0.0, began + sent / rate - time.monotonic()))


def share(ordered: list[float], part: float) -> float:
    """The delay within which that part of all messages came, in milliseconds."""
    return round(1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))], 2)
