"""Topics on disk for the tests: a directory with a key, and one catalogue at a time."""

from __future__ import annotations

import secrets
from pathlib import Path

from speed.fs.keyfile import write_key_file
from speed.topics.backend import ProducerIdentity, Recorded
from speed.topics.catalogue import Catalogue
from speed.topics.subscription import Terms
from speed.topics.topic import HostedTopic
from speed.wire.topic import RecordHead, encode
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

    def topic(self, name: str = "orders", **options: object) -> HostedTopic:
        with (made := self.catalogue(**options)).lock:
            return made.make(name)


def record(number: int, size: int = 0, sequence: int = 0, owner: str = "p", name: str = "shop") -> tuple[int, bytes]:
    about = {"publisher": owner, "producer": name}
    return sequence, encode(RecordHead(sequence=sequence), about, pack([number, bytes(size)]))


def publish(topic: HostedTopic, *numbers: int, size: int = 0) -> list[int]:
    with topic.changed:
        return [one.offset for one in topic.publish(None, [record(number, size) for number in numbers])]


def publish_as(name: str, topic: HostedTopic, *sequences: int, owner: str = "p") -> list[Recorded]:
    with topic.changed:
        records = [record(0, sequence=sequence, owner=owner, name=name) for sequence in sequences]
        return topic.publish(ProducerIdentity(owner, name), records)


def receive(topic: HostedTopic, subscription: str = "billing", most: int = 100) -> list[tuple[int, int]]:
    """Offset and attempts."""
    with topic.changed:
        group = topic.subscribe(subscription, "c", Terms("shared"), "earliest")
        number = group.answers.get("c", (0, []))[0]
        return [(offset, attempts) for offset, attempts, *_ in topic.receive(group, "c", most, number)[1]]


def acknowledge(topic: HostedTopic, *offsets: int, subscription: str = "billing") -> int:
    with topic.changed:
        return topic.acknowledge(topic.group(subscription), topic.log.lane, offsets, None)
