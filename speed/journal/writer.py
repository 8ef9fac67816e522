"""The one writer of a journal: its lock, its lanes, its retention, its rewriting (J-1, J-2, J-8, J-14, J-15)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from speed.errors import (
    ConfigurationError,
    DurabilityError,
    JournalError,
    JournalFullError,
    JournalTakenError,
    RootError,
    SpeedError,
    StorageError,
    WireError,
)
from speed.fs.identity import try_lock
from speed.fs.keyfile import KeySource
from speed.fs.open import (
    PRIVATE_DIRECTORY,
    ensure_directory,
    make_directories,
    open_directory,
    put_in_place,
    replace_file,
    unlink_quietly,
)
from speed.fs.root import is_group_root, lies_in_memory
from speed.journal.files import JournalLane, lanes_in, removed_lanes
from speed.journal.reader import Journal
from speed.journal.reseal import Resealed, ResealingRun
from speed.journal.retention import (
    Keeps,
    RetainedLane,
    Retention,
    identities,
    kept,
    remove_leftovers,
    sealed,
    write_temporary,
)
from speed.journal.volume_writer import Incoming, VolumeWriter
from speed.wire import names
from speed.wire.journal import (
    LANE_ID_BYTES,
    MAX_REMOVED,
    Description,
    Subject,
    VolumeKeys,
    seal_description,
    seal_end,
    seal_removed,
)
from speed.wire.limits import JOURNAL_SEGMENT_BYTES, MAX_JOURNAL_LANES
from speed.wire.seal import NonceSource, random_bytes

if TYPE_CHECKING:
    from filelock import BaseFileLock

OPEN_LANES = 64
"""Lanes whose descriptors are held; of more lanes the one written longest ago is closed."""
SEGMENTS_KEPT = 16
"""A journal of ``max_bytes`` has at least so many volumes, so that retention takes a little at a time."""
MIN_VOLUME_BYTES = 65536


def _unix_ms() -> int:
    return int(time.time() * 1000)


class LaneEnd(NamedTuple):
    """Where a lane ends: the offset that comes next, and when the last record was recorded (Unix ms)."""

    lane: str
    next: int
    last_ms: int
    is_cut: bool = False


class Closed(NamedTuple):
    """A volume that has a successor: its first offset, that of its successor, its bytes."""

    first: int
    end: int
    size: int


class JournalWriter:
    """Records messages. Thread-safe: one lock covers everything.

    Args:
        directory, key: as for ``Journal``; the directory is made if it is missing.
        durability: ``"process"`` or ``"disk"``, as for ``Node``.
        max_bytes, max_age_seconds: retention; None keeps everything.
        volume_bytes: size of a volume; retention removes whole ones. Default by ``max_bytes``.
        lock: of who writes further files into the lanes; what changes files holds it.

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
        volume_bytes: int = JOURNAL_SEGMENT_BYTES,
        lock: threading.RLock | None = None,
    ) -> None:
        self.directory = os.path.abspath(os.fspath(directory))
        self._keys = KeySource(os.fspath(key))
        self.keyring = self._keys.keyring
        _make(self.directory)
        self._durable = _is_durable(durability, self.directory)
        self._lock = lock or threading.RLock()
        self._rewrite_lock = threading.Lock()
        """Held while a volume is rewritten, and taken before ``_lock``: two rewrites would use the same name."""
        self._taken = _take(self.directory)
        self._journal = Journal(self.directory, key)
        self._nonces = NonceSource()
        self._retention = Retention(max_bytes, max_age_seconds)
        limit = volume_bytes if max_bytes is None else max_bytes // SEGMENTS_KEPT
        self.volume_bytes = max(MIN_VOLUME_BYTES, min(JOURNAL_SEGMENT_BYTES, limit))
        """How large a volume becomes before the next one is begun."""
        self._written = 0
        self.trouble = ""
        """Why the last write failed; empty while writing works."""
        self._lanes: dict[str, VolumeWriter] = {}
        self._know_lanes()

    # --- lanes that are there ---

    def _know_lanes(self) -> None:
        """The lanes that the present keys open."""
        self._keys_known = self.keyring.now
        for lane in self._lanes.values():
            lane.release()
        self._lanes.clear()
        self._removed = removed_lanes(self.directory, self.keyring)
        self._sources = self._find_lanes()
        """Of every lane that is there; none is known of one whose description is damaged."""
        self._ids = self._find_subjects()

    def _find_lanes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for lane_id in lanes_in(self.directory, MAX_JOURNAL_LANES):
            description = self._described(lane_id)
            if description is not None or not _is_left_over(self.directory, lane_id):
                found[lane_id] = description.subject.source if description else ""
        return found

    def _find_subjects(self) -> dict[Subject, str]:
        """The lanes that go on: of several for one subject those that no other goes on for."""
        described = {lane_id: self._described(lane_id) for lane_id in self._sources}
        left = {one.after.hex() for one in described.values() if one is not None} | {one.hex() for one in self._removed}
        ids: dict[Subject, str] = {}
        for lane_id, one in described.items():
            if one is not None and lane_id not in left:
                ids.setdefault(one.subject, lane_id)
        return ids

    def _described(self, lane_id: str) -> Description | None:
        """None for a lane whose description cannot be read with this key."""
        try:
            with JournalLane(self.directory, lane_id) as files:
                return files.description(self.keyring)
        except (OSError, WireError):
            return None

    # --- recording ---

    def record(self, subject: Subject, incoming: Sequence[Incoming], only: str = "") -> LaneEnd:
        """Append messages to the lane of ``subject``; they are as durable as asked when this returns.

        Returns where the lane ends now. With ``only``, the id of a lane, it is that one or none.
        Raises StorageError (try again), JournalFullError if there would be too many lanes; JournalError where the
        lane of ``subject`` is another one than ``only``.
        """
        with self._lock:
            self._check_open()
            if only and self._ids.get(subject) != only:
                raise JournalError(f"lane {only} of {self.directory} is not that of {subject.subject!r} any more")
            try:
                lane = self._lane(subject)
                self._written += lane.append(incoming, _unix_ms())
            except OSError as error:
                self.trouble = str(error.strerror)
                raise StorageError(f"the journal {self.directory} cannot be written: {error.strerror}") from error
            except SpeedError as error:
                self.trouble = str(error)
                raise
            self.trouble = ""
            if self._written >= self.volume_bytes:
                self._retain()
            return LaneEnd(lane.id, lane.next, lane.last_ms)

    def _check_open(self) -> None:
        if not self._taken.is_locked:  # closed, or a forked child's
            raise JournalError(f"the journal {self.directory} was closed: make a new writer")
        self._keys.look_soon()
        if self._keys_known is not self.keyring.now:
            self._know_lanes()

    def subjects(self) -> list[Subject]:
        """What has a lane that goes on."""
        with self._lock:
            self._check_open()
            return sorted(self._ids)

    def undescribed(self) -> list[str]:
        """Lanes with records of which nobody can tell what they record: their descriptions cannot be read."""
        with self._lock:
            self._check_open()
            return sorted(lane_id for lane_id, source in self._sources.items() if not source)

    def remove_undescribed(self, lane_id: str) -> None:
        """Remove one of these with all its records. OSError if something is left."""
        with self._lock:
            self._check_open()
            if lane_id in self._sources:
                self._remove_lane(lane_id)
            else:
                _remove_directory(self.directory, lane_id)

    def end(self, subject: Subject) -> LaneEnd:
        """Where the lane of ``subject`` ends; it is made if it is not there. One that was cut is only told of.

        Raises StorageError, JournalFullError.
        """
        with self._lock:
            self._check_open()
            try:
                lane_id = self._ids.get(subject) or self._make_lane(subject)
                lane = self._lanes.get(lane_id) or self._open_lane(lane_id)
            except OSError as error:
                raise StorageError(f"the journal {self.directory} cannot be used: {error.strerror}") from error
            self._lanes[lane_id] = lane
            if len(self._lanes) > OPEN_LANES:
                self._release_oldest()
            return LaneEnd(lane_id, lane.next, lane.last_ms, lane.is_cut)

    def remove_before(self, lane_id: str, offset: int) -> None:
        """Remove the volumes of one lane whose records are all before ``offset``; the last one stays. OSError."""
        with self._lock:
            with JournalLane(self.directory, lane_id) as files:
                volumes = files.volumes()
            ends = pairwise(volumes)
            _remove_volumes(self.directory, lane_id, [first for first, end in ends if end <= offset])

    def remove(self, subject: Subject) -> None:
        """Remove the lane of ``subject`` with all its records, and note that. OSError if something is left."""
        with self._lock:
            self._check_open()
            lane_id = self._ids.pop(subject)
            self._note_removed({lane_id: self._journal.end(lane_id, skip_damaged=True)})
            self._remove_lane(lane_id)

    def keep(self, max_bytes: int | None, max_age_seconds: float | None) -> None:
        """Other limits than before, from the next look of ``retain`` on."""
        with self._lock:
            self._retention.max_bytes, self._retention.max_age_seconds = max_bytes, max_age_seconds

    def retain(self) -> None:
        """Remove what is too old or too much. Never raises for a failing file system: it is tried again."""
        with self._lock:
            self._retain()

    def _lane(self, subject: Subject) -> VolumeWriter:
        lane_id = self._ids.get(subject) or self._make_lane(subject)
        lane = self._lanes.pop(lane_id, None) or self._open_lane(lane_id)
        if lane.is_cut:  # it is left as it is, for its readers to be told (J-12)
            lane = self._open_lane(self._make_lane(subject, after=lane.id))
        self._lanes[lane.id] = lane  # last: written most recently
        if len(self._lanes) > OPEN_LANES:
            self._release_oldest()
        return lane

    def _open_lane(self, lane_id: str) -> VolumeWriter:
        lane = VolumeWriter(
            self._journal, lane_id, self.keyring, self._nonces, self.volume_bytes, durable=self._durable
        )
        if not lane.description.has_end:  # one of before
            lane.description = Description(lane.description.subject)
            self._describe(lane_id, lane.description, lane.next)
        return lane

    def _release_oldest(self) -> None:
        held = [lane for lane in self._lanes.values() if lane.is_open]
        for lane in held[:-OPEN_LANES]:
            lane.release()

    def _make_lane(self, subject: Subject, after: str = "") -> str:
        """A lane of its own id, each time: what was read of another one says nothing about this one (J-2)."""
        free = MAX_JOURNAL_LANES - len(self._sources)
        held = sum(1 for source in self._sources.values() if source == subject.source)
        if free <= held:
            raise JournalFullError(
                f"{subject.source} has {held} lanes of the journal {self.directory}, and {free} are left for all: "
                "record or publish fewer topics, or let retention make room"
            )
        lane_id = random_bytes(LANE_ID_BYTES).hex()
        ensure_directory(names.child_path(self.directory, lane_id))
        try:
            self._describe(lane_id, Description(subject, bytes.fromhex(after)), 0)
            if self._durable:
                _flush_directory(self.directory)
        except OSError:
            _remove_directory(self.directory, lane_id)
            raise
        self._sources[lane_id] = subject.source
        self._ids[subject] = lane_id
        return lane_id

    def _describe(self, lane_id: str, description: Description, end: int) -> None:
        """Note the end, then what the lane is: whoever knows it finds both."""
        raw = bytes.fromhex(lane_id)
        fd = open_directory(names.child_path(self.directory, lane_id))
        try:
            self._put(names.JOURNAL_END, seal_end(end, raw, self.keyring), fd)
            data = seal_description(description, raw, self.keyring, self._nonces.draw())
            self._put(names.JOURNAL_DESCRIPTION, data, fd)
        finally:
            os.close(fd)

    def _put(self, name: str, data: bytes, directory: int) -> None:
        """A file in place, as durable as asked."""
        os.close(replace_file(name, data, directory, durable=self._durable))

    # --- retention ---

    def _retain(self) -> None:
        self._written = 0
        if self._retention.keeps_all:
            return
        open_ones = {lane_id: lane.last_ms for lane_id, lane in self._lanes.items()}
        lanes = {lane_id: RetainedLane(source, open_ones.get(lane_id)) for lane_id, source in self._sources.items()}
        gone = self._retention.expired(self.directory, lanes, _unix_ms())
        with suppress(OSError, SpeedError):  # what is still there goes the next time
            self._remove(gone)

    def _remove(self, gone: Mapping[str, list[int]]) -> None:
        """Remove volumes, and lanes of which nothing would be left; those are noted before anything of them goes."""
        whole: dict[str, int] = {}
        for lane_id, firsts in gone.items():
            with suppress(OSError, SpeedError):
                end = self._end_of_rest(lane_id, firsts)
                if end is None:
                    _remove_volumes(self.directory, lane_id, firsts)
                else:
                    whole[lane_id] = end
        self._note_removed({lane_id: end for lane_id, end in whole.items() if end >= 0})
        self._ids = {subject: lane_id for subject, lane_id in self._ids.items() if lane_id not in whole}
        for lane_id in whole:
            with suppress(OSError):
                self._remove_lane(lane_id)

    def _end_of_rest(self, lane_id: str, firsts: list[int]) -> int | None:
        """The offset that comes next in a lane of which nothing is left without these volumes; None if there is.

        -1 where it cannot be known.
        """
        with JournalLane(self.directory, lane_id) as files:
            kept = files.volumes()
            if any(files.size(first) for first in kept if first not in firsts):
                return None
        if (noted := self._removed.get(bytes.fromhex(lane_id))) is not None:
            return noted  # a crash ended its removal
        if self._described(lane_id) is None:
            return -1 if firsts else None
        end = self._journal.end(lane_id, skip_damaged=True)
        return end if firsts or end == (kept[-1] if kept else 0) else None

    def _note_removed(self, ends: Mapping[str, int]) -> None:
        if not ends:
            return
        noted = {bytes.fromhex(lane_id): end for lane_id, end in ends.items()}
        removed = dict(list({**self._removed, **noted}.items())[-MAX_REMOVED:])
        fd = open_directory(self.directory)
        try:
            self._put(names.JOURNAL_REMOVED, seal_removed(removed, self.keyring), fd)
        finally:
            os.close(fd)
        self._removed = removed

    def _remove_lane(self, lane_id: str) -> None:
        lane = self._lanes.pop(lane_id, None)
        if lane is not None:
            lane.release()
        self._retention.forget(lane_id)
        _remove_directory(self.directory, lane_id)
        del self._sources[lane_id]

    # --- rewriting ---

    def closed(self, lane_id: str) -> list[Closed]:
        """The volumes of a lane that are not written any more, in order. OSError."""
        with JournalLane(self.directory, lane_id) as files:
            return [Closed(first, end, files.size(first)) for first, end in pairwise(files.volumes())]

    def leave_volume(self, subject: Subject) -> None:
        """Begin another volume, unless nothing is in the last one. Raises StorageError."""
        with self._lock:
            self._check_open()
            try:
                self._lane(subject).leave_volume()
            except OSError as error:
                raise StorageError(f"the journal {self.directory} cannot be written: {error.strerror}") from error

    def tidy(self, lane_id: str) -> None:
        """Remove what a crash left of a rewriting. OSError."""
        with self._rewrite_lock, JournalLane(self.directory, lane_id) as files:
            remove_leftovers(files)

    def rewrite(self, lane_id: str, volumes: Sequence[Closed], keeps: Keeps) -> bool:
        """Have the first of some neighbours hold what is kept of all of them. Readers go on beside it.

        Returns False, and changes nothing, if others changed them meanwhile. The lock is held only for the rename.
        Raises JournalDamagedError where a record is missing, KeyFileError, OSError.
        """
        first, end = volumes[0].first, volumes[-1].end
        firsts = [volume.first for volume in volumes]
        journal, nonces = Journal(self.directory, self._journal.key), NonceSource()
        with self._rewrite_lock, JournalLane(self.directory, lane_id) as files:
            before = identities(files, firsts)
            keys = VolumeKeys(self.keyring, files.raw_id, first)
            records = kept(first, journal.read(lane_id, first, end), keeps)
            written = write_temporary(files, first, sealed(first, records, keys, nonces), durable=self._durable)
            try:
                return self._take_over(files, written, firsts, before)
            finally:
                unlink_quietly(written, files.fd)

    def _take_over(self, files: JournalLane, written: str, firsts: list[int], before: list[tuple[int, int]]) -> bool:
        with self._lock:
            self._check_open()
            if identities(files, firsts) != before:
                return False
            put_in_place(written, names.volume_name(firsts[0]), files.fd)
            if self._durable:  # or a power cut might keep that the others went, and not what holds their records
                os.fsync(files.fd)
            for first in firsts[1:]:
                unlink_quietly(names.volume_name(first), files.fd)
        return True

    # --- keys that change ---

    def reseal(self) -> Iterator[Resealed]:
        """Seal anew with the first key, file by file, what other keys sealed; recording goes on meanwhile.

        Gives each file that was sealed anew, and each of which something stays as it is. Ends early when keys change
        meanwhile, or the writer is closed. Raises StorageError: to try again is right.
        """
        with self._lock:
            self._keys.look()
            self._check_open()
            run = ResealingRun(self.directory, self.keyring, self._rewrite_lock, self._lock, self._reopen_lane)
        try:
            yield from run.files()
        except OSError as error:
            raise StorageError(
                f"the journal {self.directory} cannot be sealed anew: {error.strerror}; make room there"
            ) from error

    def _reopen_lane(self, lane_id: str) -> bool:
        """Have a lane's files opened anew with the next record; False if this writer may change nothing any more."""
        lane = self._lanes.get(lane_id)
        if lane is not None:
            lane.release()
        self._keys.look_soon()
        return self._taken.is_locked

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
        make_directories(os.path.dirname(directory), PRIVATE_DIRECTORY)
    except OSError as error:
        raise RootError(f"cannot make the directory of {directory}: {error.strerror}; choose another") from error
    ensure_directory(directory, private=not is_group_root(os.path.dirname(directory)))


def _remove_volumes(directory: str, lane_id: str, firsts: Iterable[int]) -> None:
    """Of a lane that stays; its last volume does as well."""
    with JournalLane(directory, lane_id) as files:
        last = files.volumes()[-1:]
        for first in firsts:
            if first not in last:
                unlink_quietly(names.volume_name(first), files.fd)


def _remove_directory(directory: str, lane_id: str) -> None:
    """A whole lane. What is not of a journal stays, and so does its directory."""
    with JournalLane(directory, lane_id) as files:
        volumes = map(names.volume_name, files.volumes())
        for name in (*volumes, *files.unfinished(), names.JOURNAL_DESCRIPTION, names.JOURNAL_END):
            unlink_quietly(name, files.fd)
    with suppress(OSError):
        os.rmdir(names.child_path(directory, lane_id))


def _is_left_over(directory: str, lane_id: str) -> bool:
    """Whether a directory is that of a lane that was not made to its end, or not removed; then it is removed."""
    with JournalLane(directory, lane_id) as files:
        if files.volumes() or files.has(names.JOURNAL_DESCRIPTION):
            return False
    _remove_directory(directory, lane_id)
    return True


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
