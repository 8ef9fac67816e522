"""What the lane tests share: a root with one lane, real writers and readers, real keys."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from speed.fs.inbox import Inbox
from speed.fs.lane_reader import LaneReader
from speed.fs.lane_writer import LaneWriter
from speed.fs.slots import OpenedEnvelope
from speed.wire import names
from speed.wire.envelope import ENVELOPE_OVERHEAD, EnvelopeType
from speed.wire.seal import Keyring, LinkSealer

KEYRING = Keyring((bytes(range(32)),))
SOURCE, TARGET = "analytics", "billing"
SOURCE_ID, TARGET_ID = names.node_id(SOURCE), names.node_id(TARGET)
LANE_KEY = KEYRING.lane_key(SOURCE_ID, TARGET_ID)


def sealed(
    counter: int, payload: bytes = b"", generation: int = 1, type_: int = EnvelopeType.MESSAGE, flags: int = 0
) -> bytes:
    """One envelope of the link analytics -> billing."""
    sealer = LinkSealer(KEYRING, SOURCE_ID, TARGET_ID, generation)
    return sealer.seal(type_, flags, counter, 1_700_000_000_000, payload, os.urandom(12))


class Lane:
    """The lane analytics -> billing under a root of the test; every part can be opened again, and is closed with it."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._opened = contextlib.ExitStack()
        self.inbox = self.open_inbox(1)
        self.path = Path(names.lane_dir(self.root, TARGET, SOURCE))
        self.quarantine = Path(names.quarantine_dir(self.root, TARGET))
        self.now = 1000.0

    def open_inbox(self, generation: int) -> Inbox:
        inbox = Inbox(self.root, TARGET, generation, KEYRING)
        self._opened.callback(inbox.close)
        inbox.prepare()
        return inbox

    def writer(
        self,
        generation: int = 1,
        *,
        window_bytes: int = 64 << 20,
        file_bytes: int = 8 << 20,
        mode: str = "append",
        durable: bool = False,
    ) -> LaneWriter:
        writer = LaneWriter(
            self.root,
            SOURCE,
            TARGET,
            generation,
            KEYRING.lane_keys(SOURCE_ID, TARGET_ID),
            window_bytes=window_bytes,
            file_bytes=file_bytes,
            mode=mode,
            durable=durable,
        )
        self._opened.callback(writer.close)
        return writer

    def reader(self, generation: int = 1, is_live: Callable[[int], bool] = lambda _: False) -> LaneReader:
        """``is_live`` says whether the sender still lives in a generation."""
        inbox = self.inbox if generation == 1 else self.open_inbox(generation)
        reader = inbox.lane(SOURCE, is_live)
        self._opened.callback(reader.abandon)
        return reader

    def reader_of(self, writer: LaneWriter) -> LaneReader:
        """A reader of a lane that has yet to be written to; the sender lives."""
        writer.room(1)
        return self.reader(is_live=lambda _: True)

    def close(self) -> None:
        """Let go of all that was opened, and leave the files as they are."""
        self._opened.close()

    def raw_segment(self, data: bytes, segment: int = 1, generation: int = 1) -> Path:
        """Write a segment as it is, past the writer."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        path = self.path / names.lane_file_name(generation, segment)
        path.write_bytes(data)
        return path

    def read_all(self, reader: LaneReader, *, finish: bool = True, scan: bool = False) -> list[OpenedEnvelope]:
        """Read until nothing more waits; every read is later than the one before."""
        found: list[OpenedEnvelope] = []
        more = True
        while more:
            self.now += 1.0
            received, more = reader.read(64, 1 << 20, self.now, scan=scan)
            found += received
            for envelope in received:
                if finish:
                    reader.finish(envelope.token)
        return found

    def segments(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("*.lane"))


def counters(received: list[OpenedEnvelope]) -> list[int]:
    return [envelope.header.sequence & ((1 << 40) - 1) for envelope in received]


def envelope_bytes(payload: bytes) -> int:
    return ENVELOPE_OVERHEAD + len(payload)
