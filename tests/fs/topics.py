"""Topics on disk for the tests: a directory with a key, and one catalogue at a time."""

from __future__ import annotations

import secrets
from pathlib import Path

from speed.fs.keyfile import write_key_file
from speed.topics.catalogue import Catalogue
from speed.topics.subscription import Terms
from speed.topics.topic import Topic
from speed.wire.topic import Head, encode
from speed.wire.value import pack


class Place:
    """A directory with a key and topics; one catalogue at a time."""

    def __init__(self, path: Path) -> None:
        self.key, self.directory = path / "speed.key", path / "topics"
        write_key_file(str(self.key), (secrets.token_bytes(32),))
        self.current: Catalogue | None = None

    def catalogue(self, **options: object) -> Catalogue:
        """Anew, after a crash of the one before: nothing of it is saved."""
        if self.current is not None:
            self.current._writer.close()
            for topic in self.current.topics.values():
                topic._state.close()
        self.current = Catalogue(str(self.directory), str(self.key), "speedd.topics", **options)  # type: ignore[arg-type]
        return self.current

    def close(self) -> None:
        if self.current is not None:
            self.current.close()

    def topic(self, name: str = "orders", **options: object) -> Topic:
        with (made := self.catalogue(**options)).lock:
            return made.make(name)


def record(number: int, size: int = 0, sequence: int = 0) -> tuple[int, bytes]:
    return sequence, encode(
        Head(sequence=sequence), {"publisher": "p", "producer": "shop"}, pack([number, bytes(size)])
    )


def publish(topic: Topic, *numbers: int, size: int = 0) -> list[int]:
    with topic.changed:
        return topic.publish("", [record(number, size) for number in numbers])


def publish_as(producer: str, topic: Topic, *sequences: int) -> list[int]:
    with topic.changed:
        return topic.publish(producer, [record(0, sequence=sequence) for sequence in sequences])


def receive(topic: Topic, subscription: str = "billing", most: int = 100) -> list[tuple[int, int]]:
    """Offset and attempts."""
    with topic.changed:
        group = topic.subscribe(subscription, "c", Terms("shared"), "earliest")
        number = group.answers.get("c", (0, []))[0]
        return [(offset, attempts) for offset, attempts, *_ in topic.receive(group, "c", most, number)[1]]


def acknowledge(topic: Topic, *offsets: int, subscription: str = "billing") -> int:
    with topic.changed:
        return topic.acknowledge(topic.group(subscription), topic.log.lane, offsets, None)
