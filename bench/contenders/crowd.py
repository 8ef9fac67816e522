"""Many nodes in one process: ``python -m contenders.crowd WORK``, with a root in WORK.

Senders, subscribers, bystanders. Answers each JSON command with one line, as ``process.py`` does. Its nodes are called
``crowd.0``, ``crowd.1``, …, or as ``prefix`` says; a server that allows ``crowd.*`` takes part, whatever its language.
"""

from __future__ import annotations

import collections
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import speed
from contenders.root import make_root
from speed.fs.keyfile import load_key_file
from speed.fs.registration import register
from speed.fs.registry import Registry

SERVER = "server"
TOPIC = "bench.event"
SEND_SECONDS = 100.0
WAIT_SECONDS = 20.0
BATCH = 64
LONG_LEASE_MS = 3_600_000


class Crowd:
    """The nodes of this process, and what they are told to do; each public method is one command."""

    def __init__(self, work: Path) -> None:
        self._root, self._key = map(str, make_root(work))
        self._nodes: list[speed.Node] = []
        self._handled = 0
        self._senders: collections.Counter[str] = collections.Counter()
        self._all_handled = threading.Condition()

    def open(self, count: int, prefix: str = "crowd", **options: Any) -> dict[str, float]:
        """Start nodes; seconds a node."""
        begin = time.perf_counter()
        for number in range(count):
            places = {"root": self._root, "key": self._key, "engine": "python"}
            options_of_one = {**places, "allow": ["crowd.*"], **options}
            self._nodes.append(speed.Node(f"{prefix}.{number}", **options_of_one))
        return {"seconds": (time.perf_counter() - begin) / count}

    def register(self, count: int) -> dict[str, float]:
        """Entries without nodes behind them: live, and never renewed."""
        registry = Registry(self._root, load_key_file(self._key))
        begin = time.perf_counter()
        for number in range(count):
            register(registry, f"entry.{number}", lease_ms=LONG_LEASE_MS, heartbeat_ms=LONG_LEASE_MS // 4)
        return {"seconds": (time.perf_counter() - begin) / count}

    def list(self, times: int) -> dict[str, float]:
        """Seconds that `nodes` takes, and how many it finds."""
        begin = time.perf_counter()
        for _ in range(times):
            found = self._nodes[0].nodes()
        return {"seconds": (time.perf_counter() - begin) / times, "found": len(found)}

    def wait(self, target: str) -> dict[str, int]:
        """Until all nodes know the target."""
        for node in self._nodes:
            node.wait_for(target, timeout=WAIT_SECONDS)
        return {}

    def fill(self, size: int, count: int, target: str = SERVER) -> dict[str, int]:
        """Messages that nobody handles yet, from all nodes alike."""
        data = os.urandom(size)
        share = count // len(self._nodes)
        for begin in range(0, share, BATCH):
            for node in self._nodes:
                node.send_all(target, [data] * min(BATCH, share - begin), timeout=SEND_SECONDS)
        return {"bytes": size * count}

    def flush(self, target: str = SERVER) -> dict[str, float]:
        """Seconds until all that was sent is handled."""
        begin = time.perf_counter()

        def act(node: speed.Node) -> None:
            node.wait_for(target, timeout=WAIT_SECONDS)
            node.send(target, b"last", ack=True, timeout=SEND_SECONDS)

        _all(threading.Thread(target=act, args=(node,)) for node in self._nodes)
        return {"seconds": time.perf_counter() - begin}

    def tally(self) -> dict[str, int]:
        """The first node counts messages by their sender; what comes before ``least_share`` is asked counts too."""
        self._nodes[0].on_message(self._count_sender)
        return {}

    def _count_sender(self, message: speed.Message) -> None:
        with self._all_handled:
            self._senders[message.source] += 1
            self._handled += 1
            self._all_handled.notify_all()

    def least_share(self, senders: int, messages: int) -> dict[str, float]:
        """Of the first `messages`: how many the sender had of whom least was handled, as a share of the mean."""
        with self._all_handled:
            self._all_handled.wait_for(lambda: self._handled >= messages, timeout=SEND_SECONDS)
            counts = sorted(self._senders.values())
        return {"share": counts[0] * senders / sum(counts) if len(counts) == senders else 0.0}

    def subscribe(self) -> dict[str, int]:
        """Every node of the crowd counts events."""
        for node in self._nodes:
            node.subscribe(TOPIC, self._count)
        return {"subscribers": len(self._nodes)}

    def _count(self, _message: speed.Message) -> None:
        with self._all_handled:
            self._handled += 1
            self._all_handled.notify_all()

    def publish(self, size: int, count: int) -> dict[str, int]:
        """Events from the first node; when it began, and how many it delivered."""
        data, begin = os.urandom(size), time.monotonic_ns()
        delivered = sum(self._nodes[0].publish(TOPIC, data) for _ in range(count))
        return {"began_ns": begin, "delivered": delivered}

    def handled(self, events: int) -> dict[str, int]:
        """Wait until the crowd handled that many events; when it was so, by the same clock as ``publish``."""
        with self._all_handled:
            self._all_handled.wait_for(lambda: self._handled >= events, timeout=SEND_SECONDS)
            return {"ended_ns": time.monotonic_ns(), "handled": self._handled}

    def close(self) -> None:
        _all(threading.Thread(target=node.close) for node in self._nodes)


def _all(threads: Any) -> None:
    """Start and await threads."""
    started = list(threads)
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def main() -> None:
    crowd = Crowd(Path(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        act: Callable[..., dict[str, Any]] = getattr(crowd, command.pop("do"))
        print(json.dumps(act(**command)), flush=True)
    crowd.close()
    os._exit(0)


if __name__ == "__main__":
    main()
