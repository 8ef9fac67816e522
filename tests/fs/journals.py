"""Journals for the tests: one lane with known records, written by the real writer."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from speed.fs.keyfile import load_key_file, write_key_file
from speed.journal import Journal
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.message.writing import encode_message
from speed.wire.journal import Subject, seal_end

SUBJECT = Subject("topic", "flights.ua", "producer")
FIRST = 1 << 40 | 1


def message(number: int, size: int = 0) -> bytes:
    return encode_message(
        {"number": number, "filler": b"x" * size},
        topic="flights.ua",
        namespace="default",
        message_id=f"id-{number}",
        published_at_ms=1_700_000_000_000 + number,
    )


def incoming(numbers: Iterable[int], *, size: int = 0, redelivered: bool = False) -> list[Incoming]:
    return [Incoming(FIRST + number, redelivered, message(number, size)) for number in numbers]


class Place:
    """A directory with a key and a journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key = path / "speed.key"
        self.directory = path / "journal"
        write_key_file(str(self.key), (secrets.token_bytes(32),))

    def writer(self, **options: object) -> JournalWriter:
        return JournalWriter(self.directory, self.key, **options)  # type: ignore[arg-type]

    def write(self, *batches: Iterable[int], **options: object) -> None:
        """One block for each batch, by a writer of its own."""
        with self.writer(**options) as writer:
            for batch in batches:
                writer.record(SUBJECT, incoming(batch))

    @property
    def reader(self) -> Journal:
        return Journal(self.directory, self.key)

    @property
    def lane(self) -> str:
        (info,) = self.reader.lanes()
        return info.id

    def note_end(self, offset: int) -> None:
        """As a writer leaves it that ended before it noted what it wrote last."""
        end = self.directory / self.lane / "end"
        end.write_bytes(seal_end(offset, bytes.fromhex(self.lane), load_key_file(str(self.key))))

    def segments(self) -> list[Path]:
        return sorted((self.directory / self.lane).glob("*.segment"))

    def numbers(self, start: int = 0, end: int = 1 << 40, *, skip_damaged: bool = False) -> list[int]:
        """What the records from ``start`` on say."""
        records = self.reader.read(self.lane, start, end, skip_damaged=skip_damaged)
        return [record.view.payload["number"] for record in records]
