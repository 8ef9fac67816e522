"""What someone who can write into the root does to a lane: reads its segments, appends to them, rings the bell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from speed.wire import names
from speed.wire.envelope import ENVELOPE_OVERHEAD, parse_header

Segment = tuple[int, int]


class LaneFiles:
    """The files of the lane ``source`` -> ``target``, seen from outside of both nodes."""

    def __init__(self, root: str, source: str, target: str) -> None:
        self.root, self.source, self.target = root, source, target
        self.path = Path(names.lane_dir(root, target, source))

    def segments(self) -> list[Segment]:
        """(generation, segment), oldest first."""
        if not self.path.exists():
            return []
        found = (names.parse_lane_file(name) for name in os.listdir(self.path))
        return sorted(segment for segment in found if segment)

    def segment_path(self, segment: Segment) -> Path:
        return self.path / names.lane_file_name(*segment)

    def data(self) -> bytes:
        """All bytes that lie in the lane."""
        return b"".join(self.segment_path(segment).read_bytes() for segment in self.segments())

    def append(self, data: bytes) -> None:
        """At the end of the newest segment, as the sender itself would; then ring."""
        newest = self.segments()[-1]
        with self.segment_path(newest).open("ab", buffering=0) as file:
            file.write(data)
        self.ring()

    def add_segment(self, segment: Segment, data: bytes) -> None:
        """A segment that the sender did not make."""
        for place in (self.path.parent.parent, self.path.parent, self.path):  # nothing is left of an ephemeral node
            place.mkdir(mode=0o700, exist_ok=True)
        path = self.segment_path(segment)
        path.touch(0o600)
        path.write_bytes(data)
        self.ring()

    def put_slot(self, data: bytes) -> None:
        """The first slot of the first generation, as if its sender had written it."""
        path = self.path / names.slot_name(1, 1)
        path.touch(0o600)
        path.write_bytes(data)

    def slots(self) -> dict[Path, bytes]:
        """What each slot holds."""
        return {path: path.read_bytes() for path in self.path.glob("*.slot")}

    def put_back(self, slots: dict[Path, bytes]) -> None:
        """What slots held before, where they are still there; they keep their length."""
        for path, data in slots.items():
            with contextlib.suppress(FileNotFoundError), path.open("r+b", buffering=0) as file:
                file.write(data)

    def ring(self) -> None:
        """As a sender does; nobody may be there."""
        try:
            fd = os.open(names.bell_path(self.root, self.target), os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return
        try:
            os.write(fd, names.node_id(self.source))
        except BlockingIOError:
            pass  # full: it will scan
        finally:
            os.close(fd)


def envelopes_in(data: bytes) -> Iterator[bytes]:
    """The whole envelopes that ``data`` begins with."""
    start = 0
    while start + ENVELOPE_OVERHEAD <= len(data):
        end = start + parse_header(data, start).payload_bytes + ENVELOPE_OVERHEAD
        if end > len(data):
            return
        yield data[start:end]
        start = end
