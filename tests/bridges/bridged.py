"""A speedd whose topics are bridged to a backend and back, for tests."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import speed
from tests.system.topics import PATIENCE, TopicSite

Answer = TypeVar("Answer")
OUT, BACK = "out", "back"
"""Durable topics: what is published, and what came back over the backend."""
_CONFIG = """
[node]
root = "root"
key = "speed.key"
allow = ["test", "cli.*"]
lease_seconds = 20.0
heartbeat_seconds = 2.0
[topics]
publish = ["test"]
consume = ["test"]
manage = ["test"]
[[topic]]
name = "{out}"
[[topic]]
name = "{back}"
"""
_BRIDGE = """
[[bridge]]
name = "{name}"
source = "{source}"
target = "{target}"
topics = "{topics}"
rename = "{rename}"
start = "earliest"
"""


def bridge(name: str, source: str, target: str, topics: str, rename: str = "", **settings: str) -> str:
    """The table of one bridge; ``settings`` are written as they are."""
    table = _BRIDGE.format(name=name, source=source, target=target, topics=topics, rename=rename or topics)
    return table + "".join(f"{key} = {value}\n" for key, value in settings.items())


class BridgedSite:
    """A speedd with a bridge from the topic OUT to ``place`` there, and one from there to the topic BACK."""

    def __init__(
        self, path: Path, address: str, place: str, *, back: str = "", name: str = "b", **incoming: str
    ) -> None:
        """``back`` is the address of the way back, where that is another; ``incoming`` are its settings."""
        self.name = name
        bridges = bridge(f"{name}-out", "topics", address, OUT, place)
        bridges += bridge(f"{name}-in", back or address, "topics", place, BACK, **incoming)
        self.site = TopicSite(path, _CONFIG.format(out=OUT, back=BACK) + bridges)
        self._node: speed.Node | None = None

    @property
    def node(self) -> speed.Node:
        """One that may do everything with the topics."""
        if self._node is None:
            self._node = self.site.node()
        return self._node

    def start(self) -> None:
        self.site.start()

    def restart(self) -> None:
        """The speedd is killed; another one goes on."""
        self.site.kill()
        self.site.start()
        self.node.wait_for("speedd.topics", timeout=PATIENCE)

    def publish(self, numbers: Iterable[int]) -> None:
        """Each under its sequence, and the key of its last digit; again until it is kept."""
        values = list(numbers)
        keys = [f"k{value % 10}" for value in values]
        topic = self.node.topic(OUT)
        self._asked(lambda: topic.publish_batch(values, keys=keys, producer="shop", sequence=values[0]))

    def _asked(self, ask: Callable[[], Answer]) -> Answer:
        """What the speedd answers, perhaps the heir of the one that was asked first."""
        ends = time.monotonic() + 2 * PATIENCE
        while True:
            try:
                return ask()
            except (speed.CallError, speed.DeliveryError):
                if time.monotonic() > ends:
                    raise
            self.node.wait_for("speedd.topics", timeout=PATIENCE)

    def end(self, topic: str = BACK) -> int:
        """How many messages were recorded in a topic so far."""
        return int(self._asked(self.node.topic(topic).describe)["end"])

    def kept(self, topic: str = BACK, start: int = 0) -> list[speed.TopicMessage]:
        """All that is in a topic, from an offset on."""
        return self._asked(lambda: self._read(topic, start))

    def _read(self, topic: str, start: int) -> list[speed.TopicMessage]:
        reader = self.node.topic(topic).reader(start, prefetch=1000)
        found = [reader.receive(timeout=20) for _ in range(start, self.end(topic))]
        return [one for one in found if one is not None]

    def came(self, numbers: Iterable[int], start: int = 0) -> list[speed.TopicMessage]:
        """All that came back, from an offset on, once each of these did; however long that takes while some come."""
        wanted, seen, ends = set(numbers), start, time.monotonic() + PATIENCE
        while True:
            end = self.end()
            if end > seen:
                seen, ends = end, time.monotonic() + PATIENCE
                found = self.kept(BACK, start) if end - start >= len(wanted) else []
                if wanted <= {one.payload for one in found}:
                    return found
            assert time.monotonic() < ends, f"{seen - start} messages came, and then none for {PATIENCE} s"
            time.sleep(0.01)

    def rows(self) -> dict[str, dict[str, Any]]:
        """What the bridges tell, by the end of their names."""
        rows = self._asked(lambda: self.node.call("speedd", "bridges.list"))
        return {row["bridge"].removeprefix(f"{self.name}-"): row for row in rows}

    def close(self) -> None:
        if self._node is not None:
            self._node.close()
        self.site.close()


def twice(messages: Sequence[speed.TopicMessage]) -> list[Any]:
    """Payloads that are there more than once."""
    return sorted(payload for payload, times in Counter(one.payload for one in messages).items() if times > 1)


def disordered(messages: Sequence[speed.TopicMessage]) -> list[str | None]:
    """Keys whose messages came first in another order than that in which they were published."""
    firsts: dict[str | None, list[int]] = defaultdict(list)
    seen: set[int] = set()
    for one in messages:
        if one.payload not in seen:
            seen.add(one.payload)
            firsts[one.key].append(one.payload)
    return [key for key, payloads in firsts.items() if payloads != sorted(payloads)]
