"""The one writer of a journal: its lock, its lanes, its retention (J-1, J-2, J-8)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from speed.errors import (
    ConfigurationError,
    DurabilityError,
    JournalError,
    JournalFullError,
    JournalTakenError,
    RootError,
    SpeedError,
    StorageError,
)
from speed.fs.keyfile import load_key_file
from speed.fs.lock import try_lock
from speed.fs.open import ensure_directory, open_directory, replace_file, unlink_quietly
from speed.fs.probe import lies_in_memory
from speed.fs.root import is_group_root
from speed.journal.lane_files import lanes_in, try_subject
from speed.journal.lane_writer import Incoming, LaneWriter
from speed.journal.reader import Journal
from speed.journal.retention import Kept, Retention
from speed.wire import names
from speed.wire.journal import Subject, seal_description
from speed.wire.limits import JOURNAL_SEGMENT_BYTES, MAX_JOURNAL_LANES
from speed.wire.seal import NonceSource

if TYPE_CHECKING:
    from filelock import BaseFileLock

OPEN_LANES = 128
"""Descriptors held; of more lanes the one written longest ago is closed."""
SEGMENTS_KEPT = 16
"""A journal of ``max_bytes`` has at least so many segments, so that retention takes a little at a time."""
MIN_SEGMENT_BYTES = 65536


def _unix_ms() -> int:
    return int(time.time() * 1000)


class JournalWriter:
    """Records messages. Thread-safe: one lock covers everything.

    Args:
        directory, key: as for ``Journal``; the directory is made if it is missing.
        durability: ``"process"`` or ``"disk"``, as for ``Node``.
        max_bytes, max_age_seconds: retention; None keeps everything.

    Raises JournalTakenError while another process writes there, KeyFileError, RootError, DurabilityError.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        key: str | os.PathLike[str],
        *,
        durability: str = "process",
        max_bytes: int | None = None,
        max_age_seconds: float | None = None,
    ) -> None:
        self.directory = os.path.abspath(os.fspath(directory))
        self._keyring = load_key_file(os.fspath(key))
        _make(self.directory)
        self._durable = _is_durable(durability, self.directory)
        self._lock = threading.Lock()
        self._taken = _take(self.directory)
        self._journal = Journal(self.directory, key)
        self._nonces = NonceSource()
        self._retention = Retention(max_bytes, max_age_seconds)
        most = JOURNAL_SEGMENT_BYTES if max_bytes is None else max_bytes // SEGMENTS_KEPT
        self._segment_bytes = max(MIN_SEGMENT_BYTES, min(JOURNAL_SEGMENT_BYTES, most))
        self._written = 0
        self.trouble = ""
        """Why the last write failed; empty while writing works."""
        self._lanes: dict[str, LaneWriter] = {}
        self._ids: dict[Subject, str] = {}
        for lane_id in lanes_in(self.directory, MAX_JOURNAL_LANES):
            subject = try_subject(self.directory, lane_id, self._keyring)
            if subject is not None:
                self._ids.setdefault(subject, lane_id)

    # --- recording ---

    def record(self, subject: Subject, incoming: Sequence[Incoming]) -> None:
        """Append messages to the lane of ``subject``; they are as durable as asked when this returns.

        Raises StorageError (try again), JournalFullError if there would be too many lanes.
        """
        with self._lock:
            if not self._taken.is_locked:  # closed, or a forked child's
                raise JournalError(f"the journal {self.directory} was closed: make a new writer")
            try:
                self._written += self._lane(subject).append(incoming, _unix_ms())
            except OSError as error:
                self.trouble = str(error.strerror)
                raise StorageError(f"the journal {self.directory} cannot be written: {error.strerror}") from error
            except SpeedError as error:
                self.trouble = str(error)
                raise
            self.trouble = ""
            if self._written >= self._segment_bytes:
                self._retain()

    def retain(self) -> None:
        """Remove what is too old or too much. Never raises for a failing file system: it is tried again."""
        with self._lock:
            self._retain()

    def _lane(self, subject: Subject) -> LaneWriter:
        lane_id = self._ids.get(subject) or self._make_lane(subject)
        lane = self._lanes.pop(lane_id, None) or self._open_lane(lane_id)
        self._lanes[lane_id] = lane  # last: written most recently
        if len(self._lanes) > OPEN_LANES:
            self._release_oldest()
        return lane

    def _open_lane(self, lane_id: str) -> LaneWriter:
        return LaneWriter(
            self._journal, lane_id, self._keyring, self._nonces, self._segment_bytes, durable=self._durable
        )

    def _release_oldest(self) -> None:
        held = [lane for lane in self._lanes.values() if lane.is_open]
        for lane in held[:-OPEN_LANES]:
            lane.release()

    def _make_lane(self, subject: Subject) -> str:
        """A directory with its description; one that a crash left without is completed."""
        if len(self._ids) >= MAX_JOURNAL_LANES:
            raise JournalFullError(
                f"the journal {self.directory} has {MAX_JOURNAL_LANES} lanes: record fewer topics, or allow fewer nodes"
            )
        raw = self._keyring.journal_id(subject.name())
        path = names.child_path(self.directory, raw.hex())
        ensure_directory(path)
        fd = open_directory(path)
        try:
            unlink_quietly(names.temporary_name(names.JOURNAL_DESCRIPTION), fd)
            data = seal_description(subject, raw, self._keyring, self._nonces.draw())
            description = replace_file(names.JOURNAL_DESCRIPTION, data, fd)
            try:
                if self._durable:
                    os.fsync(description)
                    os.fsync(fd)
                    _flush_directory(self.directory)
            finally:
                os.close(description)
        finally:
            os.close(fd)
        self._ids[subject] = raw.hex()
        return raw.hex()

    # --- retention ---

    def _retain(self) -> None:
        self._written = 0
        lanes = {lane_id: self._lanes.get(lane_id) for lane_id in self._ids.values()}
        known = {lane_id: lane.last_ms if lane else None for lane_id, lane in lanes.items()}
        for segment in list(self._retention.expired(self.directory, known, _unix_ms())):
            try:
                self._remove(segment)
            except (OSError, JournalError):
                continue  # it is still there the next time

    def _remove(self, segment: Kept) -> None:
        """Remove a segment. The last one of its lane gets an empty successor first: no offset comes twice."""
        lane = self._lanes.get(segment.lane) or self._open_lane(segment.lane)
        self._lanes.setdefault(segment.lane, lane)
        if lane.segment in (segment.first, -1):
            lane.roll()
        fd = open_directory(names.child_path(self.directory, segment.lane))
        try:
            unlink_quietly(names.journal_segment_name(segment.first), fd)
        finally:
            os.close(fd)
        self._release_oldest()

    # --- life ---

    def close(self) -> None:
        """Release everything; the journal may be written by another process."""
        with self._lock:
            for lane in self._lanes.values():
                lane.release()
            self._lanes.clear()
            self._taken.release()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _make(directory: str) -> None:
    try:
        os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
    except OSError as error:
        raise RootError(f"cannot make the directory of {directory}: {error.strerror}; choose another") from error
    ensure_directory(directory, private=not is_group_root(os.path.dirname(directory)))


def _is_durable(durability: str, directory: str) -> bool:
    if durability not in ("process", "disk"):
        raise ConfigurationError(f"durability is {durability!r}; use 'process' or 'disk'")
    if durability == "disk" and lies_in_memory(directory):
        raise DurabilityError(f"{directory} lies in memory: 'disk' cannot be given there; use 'process' or a disk")
    return durability == "disk"


def _take(directory: str) -> BaseFileLock:
    """The lock of the one writer; it goes with the process, however that ends."""
    try:
        lock = try_lock(names.child_path(directory, names.JOURNAL_LOCK))
    except OSError as error:
        raise JournalError(f"the lock of {directory} cannot be taken ({error.strerror}): remove it") from None
    if lock is None:
        raise JournalTakenError(f"another process writes the journal {directory}: stop it, or name another directory")
    return lock


def _flush_directory(path: str) -> None:
    fd = open_directory(path)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
