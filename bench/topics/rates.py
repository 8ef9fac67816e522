"""How rates and latencies are taken, the same way of every contender."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

PAYLOAD_BYTES = 100
LONE = 2_000
"""Messages that are published one at a time."""
AT_ONCE = 1_000
"""Messages that are published, or acknowledged, at once."""
LATENCY_RATE = 5_000
"""Messages a second while latencies are taken."""
LATENCY_SECONDS = 5
PUBLISHERS = 4
PATIENCE_SECONDS = 60


class Contender(Protocol):
    """A topic of one kind, with its publishers and consumers."""

    name: str
    websocket: str
    """Where its WebSocket service is: ws://HOST:PORT/ws/v2"""

    def publish(self, publisher: int, payload: bytes) -> None:
        """Returns when it is kept. Each publisher is used by one thread."""

    def publish_all(self, count: int) -> None:
        """Many, as quick as it goes; returns when all are kept."""

    def consume_all(self, count: int) -> None:
        """Receive and acknowledge so many from the topic's beginning."""

    def arriving(self, take: Callable[[bytes], None]) -> AbstractContextManager[object]:
        """Meanwhile ``take`` is called with each payload that comes; then it is acknowledged."""

    def close(self) -> None:
        """End all of it."""


def measure(one: Contender, count: int) -> dict[str, float]:
    """Messages a second, and milliseconds from before a message is published until a consumer has it."""
    found = {
        "publish, waiting for each /s": rate(LONE, lambda: [one.publish(0, bytes(PAYLOAD_BYTES)) for _ in range(LONE)]),
        "publish, batched /s": rate(count, lambda: one.publish_all(count)),
        "consume /s": rate(count, lambda: one.consume_all(count)),
    }
    took, published = latencies(one)
    found["published while latencies are taken /s"] = published
    found["latency p50, ms"] = percentile(took, 50)
    found["latency p99, ms"] = percentile(took, 99)
    return found


def rate(count: int, work: Callable[[], object]) -> float:
    """How many a second."""
    began = time.perf_counter()
    work()
    return round(count / (time.perf_counter() - began))


def percentile(seconds: list[float], part: int) -> float:
    """In milliseconds, of a sorted list."""
    return round(seconds[(len(seconds) - 1) * part // 100] * 1000, 2)


def latencies(one: Contender) -> tuple[list[float], float]:
    """Sorted seconds of messages that several publishers send at a steady rate, and the rate that was kept."""
    took: list[float] = []
    count = LATENCY_RATE * LATENCY_SECONDS
    all_came = threading.Event()

    def take(payload: bytes) -> None:
        took.append(time.perf_counter() - float(payload))
        if len(took) == count:
            all_came.set()

    publishers = [
        threading.Thread(target=_paced, args=(one, number, count // PUBLISHERS)) for number in range(PUBLISHERS)
    ]
    with one.arriving(take):
        published = rate(count, lambda: _run_all(publishers))
        assert all_came.wait(PATIENCE_SECONDS)
    return sorted(took), published


def _run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _paced(one: Contender, publisher: int, count: int) -> None:
    """One message at its time; one that is late goes at once."""
    pause = PUBLISHERS / LATENCY_RATE
    due = time.perf_counter() + pause * publisher / PUBLISHERS
    for _ in range(count):
        time.sleep(max(0.0, due - time.perf_counter()))
        one.publish(publisher, str(time.perf_counter()).encode().ljust(PAYLOAD_BYTES))
        due += pause


def quiet(call: Callable[[], Any]) -> None:
    """Close something whose other side may be gone already: what was measured stands."""
    try:
        call()
    except Exception as error:
        print(f"closing: {error}")
