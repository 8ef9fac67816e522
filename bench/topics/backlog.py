"""A topic with many messages that nobody consumed: whether publishing, acknowledging and starting stay as they were."""

from __future__ import annotations

import time
from pathlib import Path

import speed
from bench.topics.rates import AT_ONCE, PAYLOAD_BYTES, rate
from bench.topics.speedd import Speedd

PART = 10
CONSUMED = 100_000
MOST_START_SECONDS = 2


def measure(path: Path, count: int) -> dict[str, float]:
    """``count`` messages; rates at its beginning and end, and how long a speedd that was killed takes to serve it."""
    speedd = Speedd(path)
    with speedd.node("bench.1") as node:
        topic = node.topic("bench")
        topic.create()
        consumer = topic.consumer("slow", start="earliest", prefetch=AT_ONCE)
        rates = [rate(count // PART, lambda: _publish(topic, count // PART)) for _ in range(PART)]
        first = rate(CONSUMED, lambda: _consume(consumer, CONSUMED))
        consumer.close()
        topic.seek("slow", count - 2 * CONSUMED)
    speedd.kill()
    began = time.perf_counter()
    speedd.start()
    with speedd.node("bench.2") as node:
        consumer = node.topic("bench").consumer("slow", prefetch=AT_ONCE)
        message = consumer.receive(timeout=60)
        started = time.perf_counter() - began
        assert message is not None
        assert message.offset == count - 2 * CONSUMED
        last = rate(CONSUMED, lambda: _consume(consumer, CONSUMED))
        consumer.close()
    speedd.close()
    return {
        f"backlog of {count:,}: published first tenth /s": rates[0],
        "published last tenth /s": rates[-1],
        "consumed at its beginning /s": first,
        "consumed at its end /s": last,
        f"start until the first message, s (<= {MOST_START_SECONDS})": round(started, 2),
    }


def _publish(topic: speed.Topic, count: int) -> None:
    topic.publish_batch(bytes(PAYLOAD_BYTES) for _ in range(count))


def _consume(consumer: speed.Consumer, count: int) -> None:
    for number in range(1, count + 1):
        message = consumer.receive(timeout=30)
        assert message is not None
        if number % AT_ONCE == 0:
            consumer.acknowledge_until(message)
