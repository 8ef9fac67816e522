"""Compaction: of each key of a topic only the last message is kept (D-25).

One pass notes the last message of each key in what was recorded since the pass before, and then rewrites all volumes,
the oldest first: so no older value outlives the tombstone of its key, wherever a crash ends it. It runs beside
publishers and consumers; the lock of the topics is held only where it begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import sleep
from typing import NamedTuple

from speed.errors import WireError
from speed.journal.record import Record
from speed.journal.writer import Closed
from speed.topics.log import Log
from speed.wire.topic import DEAD_LETTER, TOMBSTONE, Kept, decode

MOST_KEYS = 1 << 18
MOST_KEY_BYTES = 1 << 25
"""Of keys that one pass notes; what is recorded behind the volume that brings more is for the next one."""
RECORDS_AT_ONCE = 64
TURN_SECONDS = 0.0001
"""After so many records others have a turn for so long: a pass has time, and who publishes has not."""
Stopped = Callable[[], bool]


class Plan(NamedTuple):
    """What a pass is to do: volumes that may be rewritten, and the offset before which each key is there once."""

    volumes: Sequence[Closed]
    compacted: int
    tombstones_until_ms: int
    """Tombstones that were recorded before go."""

    @property
    def fresh(self) -> list[Closed]:
        """The volumes that no pass has seen."""
        return [volume for volume in self.volumes if volume.end > self.compacted]

    @property
    def is_due(self) -> bool:
        """Whether as much is fresh as was left by the pass before: so each byte is rewritten a few times at most."""
        fresh, whole = (sum(one.size for one in some) for some in (self.fresh, self.volumes))
        return 0 < whole <= 2 * fresh


class LastOffsets:
    """The offset of the last message of each key. Keys are compared, not their hashes."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the next volume is too much."""
        return len(self._last) >= MOST_KEYS or self._bytes >= MOST_KEY_BYTES

    def note(self, record: Record) -> None:
        """A later record than those before."""
        _give_way(record)
        message = _keyed(record)
        if message is not None:
            key = message.about["key"]
            self._bytes += 0 if key in self._last else len(key)
            self._last[key] = record.offset

    def keeps(self, record: Record, tombstones_until_ms: int) -> bool:
        """Whether a record is its key's last one, and no tombstone whose time is over; or has no key."""
        _give_way(record)
        message = _keyed(record)
        if message is None:
            return True
        if self._last.get(message.about["key"], -1) > record.offset:
            return False
        return message.head.type != TOMBSTONE or record.recorded_at_ms >= tombstones_until_ms


def _give_way(record: Record) -> None:
    if not record.offset % RECORDS_AT_ONCE:
        sleep(TURN_SECONDS)


def _keyed(record: Record) -> Kept | None:
    """The message of a record that a later one can take the place of; None for any other."""
    try:
        message = decode(record.message)
    except WireError:
        return None
    is_value = message.head.type != DEAD_LETTER and isinstance(message.about.get("key"), str)
    return message if is_value else None


def compact(log: Log, plan: Plan, stopped: Stopped) -> int:
    """Do what is planned, volume by volume. Returns the offset before which each key is there once.

    It ends where it is stopped, or others changed a volume: no tombstone goes before the values that it ends.
    Raises JournalDamagedError for a topic in which messages are missing, KeyFileError, OSError.
    """
    last, end = LastOffsets(), plan.compacted
    for volume in plan.fresh:
        if last.is_full or stopped():
            break
        for record in log.records(max(volume.first, plan.compacted), volume.end):
            last.note(record)
        end = volume.end
    for some in neighbours([volume for volume in plan.volumes if volume.end <= end], log.volume_bytes):
        if stopped() or not log.rewrite(some, lambda record: last.keeps(record, plan.tombstones_until_ms)):
            return plan.compacted
    return end


def neighbours(volumes: Sequence[Closed], most_bytes: int) -> Iterator[list[Closed]]:
    """Runs of volumes that fit into one."""
    some: list[Closed] = []
    for volume in volumes:
        if some and sum(one.size for one in some) + volume.size > most_bytes:
            yield some
            some = []
        some.append(volume)
    if some:
        yield some
