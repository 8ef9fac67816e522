"""A journal on disk for Spark to read, with as many lanes and messages as a test wants."""

from __future__ import annotations

from typing import Any

from speed.journal import Journal
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.message.writing import MessageIds, encode_message
from speed.wire.journal import Subject

PUBLISHED_MS = 1_700_000_000_000


class Recorded:
    """What speedd would have recorded under ``root``; messages of a lane are numbered from 0."""

    def __init__(self, root: str, **retention: Any) -> None:
        self.root, self.key = root, f"{root}/speed.key"
        self._writer = JournalWriter(f"{root}/journal", self.key, **retention)
        self._counts: dict[Subject, int] = {}

    @property
    def journal(self) -> Journal:
        return Journal(f"{self.root}/journal", self.key)

    def topic(self, topic: str, source: str, count: int, **said: Any) -> None:
        """Record events ``{"n": 0}``, ``{"n": 1}`` …, or ``said["payload"]``, going on where the last call ended."""
        self._record(Subject("topic", topic, source), topic, count, said)

    def skip(self, topic: str, source: str, count: int) -> None:
        """Let the next events of a topic have higher numbers: they are others than those of before."""
        subject = Subject("topic", topic, source)
        self._counts[subject] = self._counts.get(subject, 0) + count

    def inbox(self, inbox: str, source: str, count: int, **said: Any) -> None:
        """Record messages to a node."""
        self._record(Subject("inbox", inbox, source), said.pop("topic", "message"), count, said)

    def raw(self, subject: Subject, message: bytes) -> None:
        """Record bytes that may be no message."""
        self._writer.record(subject, [Incoming(0, False, message)])

    def _record(self, subject: Subject, topic: str, count: int, said: dict[str, Any]) -> None:
        begin = self._counts.get(subject, 0)
        self._counts[subject] = begin + count
        ids = MessageIds(*subject).take(begin, count)
        messages = [
            encode_message(
                said.get("payload", {"n": number}),
                topic=topic,
                namespace="default",
                message_id=message_id.decode(),
                published_at_ms=PUBLISHED_MS + number,
                publisher_id=subject.source,
                **{name: value for name, value in said.items() if name != "payload"},
            )
            for number, message_id in enumerate(ids, begin)
        ]
        self._writer.record(subject, [Incoming(begin + at + 1, False, one) for at, one in enumerate(messages)])

    def reseal(self) -> None:
        """Seal anew with the first key what others sealed."""
        for _ in self._writer.reseal():
            pass

    def close(self) -> None:
        self._writer.close()
