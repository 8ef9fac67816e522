"""One topic on disk: its messages, its end in memory, compaction (D-25), state files (D-2), and room for them (D-27).

One pass notes the last message of each key in what was recorded since the pass before, and then rewrites all volumes,
the oldest first: so no older value outlives the tombstone of its key, wherever a crash ends it. It runs beside
publishers and consumers; the lock of the topics is held only where it begins and ends.
"""

from __future__ import annotations

import errno
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from time import sleep
from typing import Any, NamedTuple

from speed.core.log import logger
from speed.errors import JournalDamagedError, JournalError, KeyFileError, StorageError, WireError
from speed.fs.open import names_in, open_directory, owners_of, read_small, replace_file, sync_directory, unlink_quietly
from speed.journal import Journal
from speed.journal.files import MAX_FILES, JournalLane, Record
from speed.journal.retention import Keeps
from speed.journal.volume_writer import Incoming
from speed.journal.writer import Closed, JournalWriter
from speed.topics.backend import StoredMessage
from speed.wire.journal import Subject
from speed.wire.limits import TOPIC_HEADROOM_BYTES, TOPIC_RESERVE_BYTES
from speed.wire.names import child_path
from speed.wire.seal import Keyring
from speed.wire.topic import (
    COMPACTED,
    DEAD_LETTER,
    MAX_STATE_BYTES,
    PRODUCERS,
    SETTINGS,
    TOMBSTONE,
    KeptMessage,
    decode,
    is_cursor,
    open_state,
    seal_state,
)

# Room on the file systems of topics: what is published can still be consumed when they are full (D-27).

RESERVE = "reserve"
SHARE = 8
"""Of a small file system no more than one part in so many is kept free."""
FULL = (errno.ENOSPC, errno.EDQUOT)


class FreeSpace(NamedTuple):
    """What is free on a file system, and what publishing leaves there."""

    free: int
    headroom: int

    def check(self, place: str, size: int) -> None:
        """Raises StorageError where ``size`` bytes more would not leave enough."""
        if self.free - size < self.headroom:
            raise StorageError(
                f"{place}: {self.free} bytes are free, and {self.headroom} are left for consumers: make room, consume, "
                "or shorten retention"
            )

    @property
    def answer_bytes(self) -> int:
        """How large an answer may be that has to be written there."""
        return self.free // 2


def room_at(path: str) -> FreeSpace:
    """As it is now; all there is where that cannot be found out."""
    if not hasattr(os, "statvfs"):
        return FreeSpace(1 << 62, 0)
    try:
        status = os.statvfs(path)
    except OSError:
        return FreeSpace(1 << 62, 0)
    total = status.f_blocks * status.f_frsize
    return FreeSpace(status.f_bavail * status.f_frsize, min(TOPIC_HEADROOM_BYTES, total // SHARE))


class Reserve:
    """A file whose blocks are given up when a cursor could not be written otherwise. Not thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._is_held = False

    def refill(self) -> None:
        """Take the blocks, if there are enough."""
        if self._is_held or room_at(self._directory).free < 2 * TOPIC_RESERVE_BYTES:
            return
        with suppress(OSError):
            self._write()
            self._is_held = True

    def _write(self) -> None:
        """By writing: not every file system knows how to reserve."""
        directory = open_directory(self._directory)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(RESERVE, flags, 0o600, dir_fd=directory)
        finally:
            os.close(directory)
        try:
            if os.fstat(fd).st_size < TOPIC_RESERVE_BYTES:
                os.write(fd, bytes(TOPIC_RESERVE_BYTES))
        finally:
            os.close(fd)

    def release(self) -> bool:
        """Give the blocks up; whether there were any."""
        if not self._is_held:
            return False
        self._is_held = False
        with suppress(OSError):
            os.truncate(os.path.join(self._directory, RESERVE), 0)
        return True


class TopicState:
    """What lies in a topic's lane beside its records. Not thread-safe."""

    def __init__(
        self, directory: str, lane_id: str, keyring: Keyring, *, durable: bool, reserve: Reserve | None = None
    ) -> None:
        """``reserve`` is given up where nothing can be written otherwise."""
        self._path = child_path(directory, lane_id)
        self._lane = bytes.fromhex(lane_id)
        self._keyring = keyring
        self._durable, self._reserve = durable, reserve
        self._fd = open_directory(self._path)

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        """Have a file say ``value``, as durable as asked. Raises StorageError; then what was there is there."""
        data = seal_state(value, self._lane, name, self._keyring)
        try:
            self._replace(name, data)
        except OSError as error:
            raise StorageError(f"the state of a topic cannot be written: {error.strerror}; make room") from error

    def _replace(self, name: str, data: bytes) -> None:
        try:
            os.close(replace_file(name, data, self._fd, private=True, durable=self._durable))
        except OSError as error:
            if error.errno not in FULL or self._reserve is None or not self._reserve.release():
                raise
            os.close(replace_file(name, data, self._fd, private=True, durable=self._durable))

    def get(self, name: str) -> dict[str, Any] | None:
        """What a file says; None if it is not there. Raises WireError, OSError for one that cannot be read."""
        try:
            data = read_small(name, self._fd, owners_of(self._fd), MAX_STATE_BYTES + 1)
        except FileNotFoundError:
            return None
        return open_state(data, self._lane, name, self._keyring)

    def cursors(self) -> dict[str, dict[str, Any] | str]:
        """By the names of their files: what cursors say, or why one cannot be read."""
        found: dict[str, dict[str, Any] | str] = {}
        for entry in names_in(self._fd, MAX_FILES):
            if is_cursor(entry.name):
                try:
                    value = self.get(entry.name)
                except (OSError, WireError) as error:
                    found[entry.name] = str(error)
                else:
                    found.update({} if value is None else {entry.name: value})
        return found

    def remove(self, name: str) -> None:
        """Remove one file. Raises StorageError if it stays."""
        if not unlink_quietly(name, self._fd) and name in os.listdir(self._fd):
            raise StorageError(f"the state of a topic cannot be removed: {self._path}/{name}")
        if self._durable:
            sync_directory(self._path)

    def remove_all(self) -> None:
        """Remove every file of these."""
        for name in (SETTINGS, PRODUCERS, COMPACTED, *self.cursors()):
            unlink_quietly(name, self._fd)
        self.close()

    def close(self) -> None:
        """Release the directory."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


RECENT_BYTES = 1 << 20
"""Of messages that are kept in memory: who keeps up never reads the disk."""
READ_BYTES = 1 << 22
READ_RECORDS = 4096
"""So much is read ahead of who asks for what is not in memory."""


log = logger("speed.topics")


class DamagedMessagesError(JournalDamagedError):
    """Messages ``first`` to ``end - 1`` of a topic cannot be read."""

    def __init__(self, topic: str, first: int, end: int) -> None:
        super().__init__(
            f"messages {first} to {end - 1} of topic {topic!r} are damaged: restore the topic from a copy, or go on "
            f"behind them, at offset {end} (`speed topic seek`)",
            first,
        )
        self.topic, self.first, self.end = topic, first, end

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.topic, self.first, self.end), vars(self)


class TopicLog:
    """Not thread-safe: the host holds one lock around everything."""

    def __init__(self, writer: JournalWriter, key: str, subject: Subject) -> None:
        """Makes the lane if it is not there. Raises StorageError, JournalFullError."""
        self._writer, self._key = writer, key
        self._subject = subject
        self.directory = writer.directory
        self._journal = Journal(writer.directory, key)
        end = writer.end(subject)
        self.lane, self.end, self.is_cut = end.lane, end.next, end.is_cut
        self._recent: list[StoredMessage] = []
        self._recent_bytes = 0
        self._read: list[StoredMessage] = []
        self._ahead: Iterator[StoredMessage] = iter(())
        """What is on disk behind ``_read``: to look for its place anew would read the volume from its beginning."""
        self.damaged: dict[int, int] = {}
        """First offset and end of what was found to be damaged."""
        self.first = self._first_kept()
        self.bytes = self._size()

    def append(self, messages: Sequence[bytes]) -> int:
        """Record messages by one write; returns the offset of the first. Raises StorageError; then none is there."""
        end = self._writer.record(self._subject, [Incoming(0, False, data) for data in messages], self.lane)
        first = end.next - len(messages)
        self._recent += [StoredMessage(offset, end.last_ms, data) for offset, data in enumerate(messages, first)]
        size = sum(map(len, messages))
        self._recent_bytes += size
        self.bytes += size
        if self._recent_bytes > 2 * RECENT_BYTES:
            self._forget_oldest()
        self.end = end.next
        return first

    def _forget_oldest(self) -> None:
        """Many at once: each time, all the others move up."""
        gone = 0
        while self._recent_bytes > RECENT_BYTES and gone < len(self._recent) - 1:
            self._recent_bytes -= len(self._recent[gone].data)
            gone += 1
        del self._recent[:gone]

    def read(self, start: int, limit: int = READ_RECORDS) -> list[StoredMessage]:
        """Messages from ``start`` on, maybe fewer than there are; none only at the end.

        Raises DamagedMessagesError where those at ``start`` are damaged; JournalError.
        """
        start = max(start, self.first)
        if start >= self.end:
            return []
        if self._recent and start >= self._recent[0].offset:
            place = start - self._recent[0].offset
            return self._recent[place : place + limit]
        if not self._read or not self._read[0].offset <= start <= self._read[-1].offset:
            self._check_sound(start)
            self._read = self._from_disk(start)
        place = bisect_left(self._read, start, key=_offset)
        return self._read[place : place + limit]

    def _from_disk(self, start: int) -> list[StoredMessage]:
        if not self._read or start != self._read[-1].offset + 1:
            self._ahead = self._stored(start)
        return self._some() or self._some_anew(start)

    def _some_anew(self, start: int) -> list[StoredMessage]:
        """What was recorded since the end was looked at."""
        self._ahead = self._stored(start)
        return self._some()

    def _some(self) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        size = 0
        try:
            for stored in islice(self._ahead, READ_RECORDS):
                found.append(stored)
                size += len(stored.data)
                if size >= READ_BYTES:
                    break
        except DamagedMessagesError:
            if not found:
                raise
        return found

    def _stored(self, start: int) -> Iterator[StoredMessage]:
        """Blocks follow each other, compacted or not: what lies between two of them was damaged."""
        end, following = self.end, start
        try:
            for block in self._journal.blocks(self.lane, start, end, skip_damaged=True):
                self._check_follows(following, block.offset)
                following = block.end
                for record in block.records(""):
                    yield StoredMessage(record.offset, record.recorded_at_ms, record.message)
        except KeyFileError as error:
            raise JournalError(str(error)) from None
        self._check_follows(following, end)

    def _check_follows(self, following: int, offset: int) -> None:
        if offset <= following:
            return
        damage = DamagedMessagesError(self._subject.subject, following, offset)
        if following not in self.damaged:
            log.error("%s", damage)
        self.damaged[following] = offset
        raise damage

    def _check_sound(self, start: int) -> None:
        """What is known to be damaged is not looked for again."""
        for first, end in self.damaged.items():
            if first <= start < end:
                raise DamagedMessagesError(self._subject.subject, start, end)

    def rest(self) -> None:
        """Hold no files open; who reads on opens them again."""
        self._ahead = iter(())

    def one(self, offset: int) -> StoredMessage | None:
        """The message of one offset; None if it is not there any more."""
        if self._recent and self._recent[0].offset <= offset < self.end:
            return self._recent[offset - self._recent[0].offset]
        found = self.read(offset, 1) if offset >= self.first else []
        return found[0] if found and found[0].offset == offset else None

    def offset_at(self, unix_ms: int) -> int:
        """The first message that was recorded at that time or later; the end if none was."""
        start = self._journal.offset_at(self.lane, unix_ms) if self.end > self.first else self.end
        while found := self.read(start):
            for stored in found:
                if stored.recorded_ms >= unix_ms:
                    return stored.offset
            start = found[-1].offset + 1
        return self.end

    # --- retention ---

    def before(self, unix_ms: int) -> int:
        """The offset before which all are older, as far as blocks tell."""
        return self._journal.offset_at(self.lane, unix_ms) if self.end > self.first else self.first

    def beyond(self, max_bytes: int) -> int:
        """The offset before which volumes must go for the rest to have no more than ``max_bytes``."""
        with JournalLane(self._writer.directory, self.lane) as files:
            volumes = files.volumes()
            sizes = [files.size(first) for first in volumes]
        total, keep = sum(sizes), 0
        while total > max_bytes and keep < len(volumes) - 1:
            total -= sizes[keep]
            keep += 1
        return volumes[keep] if volumes else self.first

    def remove_before(self, offset: int) -> None:
        """Remove volumes that are wholly before ``offset``. OSError."""
        self._writer.remove_before(self.lane, offset)
        self.first, self.bytes = self._first_kept(), self._size()
        self.damaged = {first: end for first, end in self.damaged.items() if end > self.first}

    # --- compaction: beside all else, but for ``leave_volume`` and ``measure`` ---

    @property
    def volume_bytes(self) -> int:
        """How large a volume becomes."""
        return self._writer.volume_bytes

    def closed(self) -> list[Closed]:
        """The volumes that are not written any more. OSError."""
        return self._writer.closed(self.lane)

    def leave_volume(self) -> None:
        """Have all messages of before lie in closed volumes. Raises StorageError."""
        self._writer.leave_volume(self._subject)

    def tidy(self) -> None:
        """Remove what a crash left of a rewriting. OSError."""
        self._writer.tidy(self.lane)

    def records(self, start: int, end: int) -> Iterator[Record]:
        """All records from ``start`` to ``end``, from the disk. Raises JournalError, KeyFileError."""
        return Journal(self._writer.directory, self._key).read(self.lane, start, end)

    def rewrite(self, volumes: Sequence[Closed], keeps: Keeps) -> bool:
        """Keep of these neighbours what ``keeps`` says; False if others changed them meanwhile.

        Raises JournalError, KeyFileError, OSError.
        """
        return self._writer.rewrite(self.lane, volumes, keeps)

    def measure(self) -> None:
        """Look how many bytes there are. OSError."""
        self.bytes = self._size()

    def _first_kept(self) -> int:
        with JournalLane(self._writer.directory, self.lane) as files:
            volumes = files.volumes()
        return volumes[0] if volumes else self.end

    def _size(self) -> int:
        with JournalLane(self._writer.directory, self.lane) as files:
            return sum(map(files.size, files.volumes()))

    def remove(self) -> None:
        """Remove all of it. OSError if something is left."""
        self._writer.remove(self._subject)


def _offset(stored: StoredMessage) -> int:
    return stored.offset


# Compaction: of each key of a topic only the last message is kept (D-25).

MAX_KEYS = 1 << 18
MAX_KEY_BYTES = 1 << 25
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
        return len(self._last) >= MAX_KEYS or self._bytes >= MAX_KEY_BYTES

    def note(self, record: Record) -> None:
        """A later record than those before."""
        _yield_turn(record)
        message = _keyed(record)
        if message is not None:
            key = message.about["key"]
            self._bytes += 0 if key in self._last else len(key)
            self._last[key] = record.offset

    def keeps(self, record: Record, tombstones_until_ms: int) -> bool:
        """Whether a record is its key's last one, and no tombstone whose time is over; or has no key."""
        _yield_turn(record)
        message = _keyed(record)
        if message is None:
            return True
        if self._last.get(message.about["key"], -1) > record.offset:
            return False
        return message.head.type != TOMBSTONE or record.recorded_at_ms >= tombstones_until_ms


def _yield_turn(record: Record) -> None:
    if not record.offset % RECORDS_AT_ONCE:
        sleep(TURN_SECONDS)


def _keyed(record: Record) -> KeptMessage | None:
    """The message of a record that a later one can take the place of; None for any other."""
    try:
        message = decode(record.message)
    except WireError:
        return None
    is_value = message.head.type != DEAD_LETTER and isinstance(message.about.get("key"), str)
    return message if is_value else None


def compact(log: TopicLog, plan: Plan, stopped: Stopped) -> int:
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


def neighbours(volumes: Sequence[Closed], max_bytes: int) -> Iterator[list[Closed]]:
    """Runs of volumes that fit into one."""
    some: list[Closed] = []
    for volume in volumes:
        if some and sum(one.size for one in some) + volume.size > max_bytes:
            yield some
            some = []
        some.append(volume)
    if some:
        yield some


COMPACT_EVERY_SECONDS = 10.0
"""How often is looked whether a topic is to be compacted that nobody asked for."""
AFTER_TROUBLE_SECONDS = 300.0
"""The same where that failed: damage stays, and to find it anew costs as much as before."""


class Compacting:
    """Calls ``compact`` now and then, and when it is asked for, until it is closed."""

    def __init__(self, compact: Callable[[Stopped], str]) -> None:
        """``compact`` ends when what it is given says so; it returns why it failed, else nothing."""
        self._compact = compact
        self._requested = threading.Event()
        self._ends = False
        self.trouble = ""
        """Why the last look failed; empty if it did not."""
        self._thread = threading.Thread(target=self._run, name="speed-compacting", daemon=True)

    def begin(self) -> None:
        """Look for the first time; again, it changes nothing."""
        if self._thread.ident is None:
            self._thread.start()

    def ask(self) -> None:
        """Look soon."""
        self._requested.set()

    def _run(self) -> None:
        while not self._ends:
            self.trouble = self._compact(lambda: self._ends)
            self._requested.wait(AFTER_TROUBLE_SECONDS if self.trouble else COMPACT_EVERY_SECONDS)
            self._requested.clear()

    def close(self) -> None:
        """End behind the volume that is being rewritten."""
        self._ends = True
        self._requested.set()
        if self._thread.ident is not None:
            self._thread.join()
