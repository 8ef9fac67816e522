"""Rates and latencies of durable topics: ``python -m scripts.bench.topics [--json] [--messages N]``.

A speedd of its own hosts them; this process publishes and consumes, as two nodes. Files lie in memory, so that the
figures are of the code and not of a disk.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import speed
from speed.fs.keyfile import write_key_file

CONFIG = """
[node]
root = "root"
key = "speed.key"
[topics]
publish = ["bench.*"]
consume = ["bench.*"]
[[topic]]
name = "bench"
"""
LONE = 2_000
ACKNOWLEDGED_AT_ONCE = 1_000
PAUSE_SECONDS = 0.001


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--messages", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as directory:
        found = hosted(Path(directory), asked.messages)
    print(json.dumps(found) if asked.json else "\n".join(f"{name:>28} {value:>12,}" for name, value in found.items()))


def hosted(path: Path, count: int) -> dict[str, float]:
    """What is measured beside a speedd."""
    (path / "speedd.toml").write_text(CONFIG)
    write_key_file(str(path / "speed.key"), (secrets.token_bytes(32),))
    daemon = subprocess.Popen(
        [sys.executable, "-m", "speed.daemon", "run", "-c", str(path / "speedd.toml")], stderr=subprocess.DEVNULL
    )
    try:
        with node(path, "bench.1") as one, node(path, "bench.2") as other:
            return measure(one.topic("bench"), other.topic("bench"), count)
    finally:
        daemon.terminate()
        daemon.wait()


def node(path: Path, name: str) -> speed.Node:
    made = speed.Node(name, root=path / "root", key=path / "speed.key")
    made.wait_for("speedd.topics", timeout=30)
    return made


def measure(publishing: speed.Topic, consuming: speed.Topic, count: int) -> dict[str, float]:
    """Messages a second, and milliseconds from before a message is published until a consumer has it."""
    waiting = rate(LONE, lambda: [publishing.publish(bytes(100)) for _ in range(LONE)])
    batched = rate(count, lambda: publishing.publish_batch(bytes(100) for _ in range(count)))
    consumed = rate(count, lambda: consume(consuming, count))
    took = latencies(publishing, consuming)
    return {
        "publish, waiting for each /s": waiting,
        "publish, batched /s": batched,
        "consume, batched /s": consumed,
        "latency p50, ms": round(took[len(took) // 2] * 1000, 2),
        "latency p99, ms": round(took[len(took) * 99 // 100] * 1000, 2),
    }


def rate(count: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return round(count / (time.perf_counter() - began))


def consume(topic: speed.Topic, count: int) -> None:
    with topic.consumer("all", start="earliest", prefetch=ACKNOWLEDGED_AT_ONCE) as consumer:
        for number in range(1, count + 1):
            message = consumer.receive(timeout=30)
            assert message is not None
            if number % ACKNOWLEDGED_AT_ONCE == 0:
                consumer.acknowledge_until(message)


def latencies(publishing: speed.Topic, consuming: speed.Topic) -> list[float]:
    """Sorted; one message a millisecond at most, each acknowledged."""
    took: list[float] = []

    def take() -> None:
        for _ in range(LONE):
            message = consumer.receive(timeout=30)
            assert message is not None
            took.append(time.perf_counter() - message.payload)
            consumer.acknowledge(message)

    with consuming.consumer("latency", type="shared") as consumer:
        taking = threading.Thread(target=take)
        taking.start()
        for _ in range(LONE):
            publishing.publish(time.perf_counter())
            time.sleep(PAUSE_SECONDS)
        taking.join()
    return sorted(took)


if __name__ == "__main__":
    main()
