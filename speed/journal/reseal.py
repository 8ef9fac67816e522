"""Sealing a journal anew with the first key, so that older ones can be retired; what older ones still seal (J-16)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from speed.errors import StorageError, WireError
from speed.fs.open import (
    UntrustedFileError,
    create_file,
    names_in,
    open_directory,
    owners_of,
    put_in_place,
    read_small,
    replace_file,
    unlink_quietly,
    write_all,
)
from speed.journal.files import MAX_FILES, End, JournalLane, Volume, lanes_in
from speed.wire import names
from speed.wire.journal import (
    BlockHeader,
    VolumeKeys,
    open_description,
    open_end,
    open_removed,
    seal_description,
    seal_end,
    seal_removed,
)
from speed.wire.limits import MAX_JOURNAL_LANES, NONCE_BYTES
from speed.wire.seal import Keyring, random_bytes
from speed.wire.topic import MAX_STATE_BYTES, is_state, open_state, seal_state

KEY_ID = slice(8, 16)
"""Where each file and block names its key."""


class Resealed(NamedTuple):
    """A file of a journal: ``size`` bytes of it were sealed anew; ``trouble`` says what of it could not be."""

    path: str
    size: int
    trouble: str = ""


class Held(NamedTuple):
    """What some keys seal of a journal: how many files, and their bytes."""

    files: int
    size: int


class _Small(NamedTuple):
    """A file that is sealed as a whole; ``anew`` gives its bytes under the first key, WireError if it is damaged."""

    fd: int
    name: str
    anew: Callable[[bytes], bytes]

    def read(self) -> bytes | None:
        """None if it is not there; OSError."""
        try:
            return read_small(self.name, self.fd, owners_of(self.fd), MAX_STATE_BYTES + 1)
        except FileNotFoundError:
            return None


def _removed(fd: int, ring: Keyring) -> _Small:
    return _Small(fd, names.JOURNAL_REMOVED, lambda data: seal_removed(open_removed(data, ring), ring))


def _of_lane(files: JournalLane, ring: Keyring) -> Iterator[_Small]:
    """Everything in a lane but its volumes."""
    lane = files.raw_id
    yield _Small(
        files.fd,
        names.JOURNAL_DESCRIPTION,
        lambda data: seal_description(open_description(data, lane, ring), lane, ring, random_bytes(NONCE_BYTES)),
    )
    yield _Small(files.fd, names.JOURNAL_END, lambda data: seal_end(open_end(data, lane, ring), lane, ring))
    for entry in list(names_in(files.fd, MAX_FILES)):
        if is_state(entry.name):
            yield _Small(files.fd, entry.name, _state_anew(entry.name, lane, ring))


def _state_anew(name: str, lane: bytes, ring: Keyring) -> Callable[[bytes], bytes]:
    return lambda data: seal_state(open_state(data, lane, name, ring), lane, name, ring)


@contextmanager
def _opened(directory: str) -> Iterator[int]:
    fd = open_directory(directory)
    try:
        yield fd
    finally:
        os.close(fd)


def _lanes(directory: str) -> Iterator[JournalLane]:
    """Each lane that is there, open; OSError."""
    for lane_id in lanes_in(directory, MAX_JOURNAL_LANES):
        try:
            files = JournalLane(directory, lane_id)
        except FileNotFoundError:
            continue  # retention removed it
        with files:
            yield files


# --- sealing anew ---


class ResealingRun:
    """One walk over a journal, under the keys of its beginning.

    Args:
        rewrite_lock: held while a volume is rewritten, and taken before ``lock``.
        lock: held where something is put in place.
        reopen: called under ``lock`` before that, with a lane's id: whoever has its files open is to open them anew.
            False if nothing may be put in place any more.
    """

    def __init__(
        self,
        directory: str,
        keyring: Keyring,
        rewrite_lock: threading.Lock,
        lock: threading.RLock,
        reopen: Callable[[str], bool],
    ) -> None:
        self._directory = directory
        self._ring, self._began = keyring, keyring.now
        self._rewrite_lock, self._lock = rewrite_lock, lock
        self._reopen = reopen

    def files(self) -> Iterator[Resealed]:
        """Seal file by file; OSError, StorageError."""
        if len(self._began.ids) == 1:
            return  # what others sealed cannot be opened
        with _opened(self._directory) as fd:
            yield from self._whole("", _removed(fd, self._ring))
        for files in _lanes(self._directory):
            for first in files.volumes():
                with self._rewrite_lock:
                    resealed = self._volume(files, first)
                if resealed is not None:
                    yield resealed
            for small in _of_lane(files, self._ring):  # behind the blocks: what `end` speaks of is on disk
                yield from self._whole(files.id, small)

    def _may_put(self, lane_id: str) -> bool:
        """A key that has gone meanwhile must seal nothing any more."""
        return self._reopen(lane_id) and self._ring.now is self._began

    def _whole(self, lane_id: str, small: _Small) -> Iterator[Resealed]:
        path = names.child_path(lane_id, small.name) if lane_id else small.name
        try:
            size, trouble = self._put_whole(lane_id, small)
        except UntrustedFileError as error:
            size, trouble = 0, str(error)
        if size or trouble:
            yield Resealed(path, size, trouble)

    def _put_whole(self, lane_id: str, small: _Small) -> tuple[int, str]:
        first = self._began.ids[0]
        with self._lock:
            data = small.read()
            if data is None or data[KEY_ID] == first or not self._may_put(lane_id):
                return 0, ""
            try:
                fresh, trouble = small.anew(data), ""
            except WireError as error:
                fresh, trouble = self._named(data), str(error)
            if fresh != data:
                is_private = is_state(small.name)  # as its host made it
                os.close(replace_file(small.name, fresh, small.fd, private=is_private, durable=True))
        return 0 if trouble else len(data), trouble

    def _named(self, data: bytes) -> bytes:
        """A damaged file that names the first key: it stays damaged, and no other key is missed."""
        if data[KEY_ID] not in self._began.ids:
            return data
        return data[: KEY_ID.start] + self._began.ids[0] + data[KEY_ID.stop :]

    # --- volumes ---

    def _volume(self, files: JournalLane, first: int) -> Resealed | None:
        if self._ring.now is not self._began:
            return None  # the next run does it
        path = names.child_path(files.id, names.volume_name(first))
        try:
            volume = Volume(files.open(first), first)
        except FileNotFoundError:
            return None  # retention removed it, or what is kept of it is in another
        except UntrustedFileError as error:
            return Resealed(path, 0, str(error))
        with closing(volume):
            if self._is_done(volume):
                return None
            volume.seek(0, first)
            size, trouble = self._put_volume(files, volume)
        return Resealed(path, size, trouble) if size or trouble else None

    def _is_done(self, volume: Volume) -> bool:
        """Whether the first key sealed all of it, as far as headers tell."""
        others = any(header.key_id != self._began.ids[0] for header, _ in volume.headers())
        return not others and volume.ended is not End.DAMAGED

    def _put_volume(self, files: JournalLane, volume: Volume) -> tuple[int, str]:
        """Write it anew beside, while recording goes on; then, under the lock, what came meanwhile."""
        name = names.volume_name(volume.first)
        temporary = names.temporary_name(name)
        unlink_quietly(temporary, files.fd)  # of a process that was killed
        fd = create_file(temporary, files.fd, append=False)
        try:
            anew = _Anew(volume, VolumeKeys(self._ring, files.raw_id, volume.first), self._began.ids[0], fd)
            anew.begin()
            os.fsync(fd)
            with self._lock:
                anew.finish()
                is_put = anew.is_changed and files.has(name) and self._may_put(files.id)
                if is_put:
                    put_in_place(temporary, name, files.fd)
            if is_put:
                os.fsync(files.fd)
        finally:
            os.close(fd)
            unlink_quietly(temporary, files.fd)
        return anew.size if is_put else 0, anew.trouble


class _Anew:
    """A volume that is written anew: its blocks under the first key, everything else as it is."""

    def __init__(self, volume: Volume, keys: VolumeKeys, key_id: bytes, fd: int) -> None:
        self._volume, self._keys, self._key_id, self._fd = volume, keys, key_id, fd
        self._done = 0
        self.size = 0
        """Bytes of blocks that were sealed anew."""
        self.is_changed = False
        self._unknown = ""
        self._damaged_at = -1

    def begin(self) -> None:
        """Write what is there so far, as far as there are blocks."""
        for header, block in self._volume.sound(self._keys.opens, bodies=True):
            if header.key_id != self._key_id:
                self._block(header, block)

    def _block(self, header: BlockHeader, block: memoryview) -> None:
        try:
            fresh = self._keys.seal_anew(header, block)
            self.size += len(fresh)
        except WireError as error:
            if error.reason == "UNKNOWN_KEY":
                self._unknown = self._unknown or str(error)
                return
            fresh = self._keys.name_anew(header)
            self._damaged(header)
        self._copy(self._volume.position)
        self._write(self._volume.position, fresh)
        self.is_changed = True

    def _damaged(self, header: BlockHeader) -> None:
        """Its length holds if a block begins behind it; else it may be anywhere."""
        if self._damaged_at < 0:
            self._damaged_at = self._volume.position
        if not self._volume.continues_after(header):
            self._volume.ended = End.DAMAGED

    def finish(self) -> None:
        """Write the rest as it is, while nothing is recorded: what came meanwhile, the first key sealed."""
        if self._volume.size() < self._done:
            raise StorageError("what was just recorded was taken back: the file system fails")
        self._copy(self._volume.size())
        os.ftruncate(self._fd, self._volume.whole_size())  # what lies beyond every bound is looked at by nobody
        os.fsync(self._fd)

    def _copy(self, end: int) -> None:
        for data in self._volume.raw(self._done, end):
            self._write(self._done, data)

    def _write(self, position: int, data: bytes) -> None:
        """Blocks that somebody forged may overlap: each byte has its place."""
        os.lseek(self._fd, position, os.SEEK_SET)
        write_all(self._fd, data)
        self._done = max(self._done, position + len(data))

    @property
    def trouble(self) -> str:
        """What stays as it is."""
        at = [place for place in (self._damaged_at, self._volume.damaged_at) if place >= 0]
        return self._unknown or (f"damaged at byte {min(at)}" if at else "")


# --- what keys seal ---


def held_by(directory: str, ring: Keyring, key_ids: Collection[bytes]) -> Held:
    """What names these keys in a journal; nothing where there is no journal. Headers tell; it needs no lock."""
    try:
        sizes = list(filter(None, _held(directory, ring, key_ids)))
    except FileNotFoundError:
        return Held(0, 0)
    except OSError as error:
        raise StorageError(f"the journal {directory} cannot be looked at: {error.strerror}") from error
    return Held(len(sizes), sum(sizes))


def _held(directory: str, ring: Keyring, key_ids: Collection[bytes]) -> Iterator[int]:
    """The sizes of the files that hold something; 0 for others."""
    with _opened(directory) as fd:
        yield _held_whole(_removed(fd, ring), key_ids)
    for files in _lanes(directory):
        for first in files.volumes():
            yield files.size(first) if _is_volume_under(files, first, ring, key_ids) else 0
        for small in _of_lane(files, ring):
            yield _held_whole(small, key_ids)


def _held_whole(small: _Small, key_ids: Collection[bytes]) -> int:
    """The size of a file that names one of these keys, 0 for another."""
    try:
        data = small.read()
    except UntrustedFileError:
        return 0
    return len(data) if data is not None and data[KEY_ID] in key_ids else 0


def _is_volume_under(files: JournalLane, first: int, ring: Keyring, key_ids: Collection[bytes]) -> bool:
    """Whether a block in it names one of these keys."""
    try:
        volume = Volume(files.open(first), first)
    except (FileNotFoundError, UntrustedFileError):
        return False
    with closing(volume):
        headers = volume.sound(VolumeKeys(ring, files.raw_id, first).opens)
        return any(header.key_id in key_ids for header, _ in headers)
