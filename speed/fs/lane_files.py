"""One lane directory as its receiver sees it: listing, files in order, fences, cursors (L-10, L-15 to L-18)."""

from __future__ import annotations

import bisect
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple

from speed.core import counters
from speed.core.lane import Position
from speed.errors import WireError
from speed.fs.committed import MAX_LANE_FILES, Deliveries, read_cursor
from speed.fs.dead_letters import Quarantine
from speed.fs.identity import is_settled
from speed.fs.open import (
    UntrustedFileError,
    names_in,
    open_directory,
    open_for_writing,
    open_regular,
    owners_of,
    read_small,
    replace_file,
    unlink_quietly,
    write_at_start,
)
from speed.wire import names
from speed.wire.cursor import (
    FENCE_BYTES,
    MAX_CURSOR_BYTES,
    Cursor,
    Fence,
    decode_fence,
    encode_cursor,
)
from speed.wire.envelope import ENVELOPE_OVERHEAD
from speed.wire.identities import OPENING_BYTES, BoundLink, NodeIdentity, accept_link, shared_key_id_of
from speed.wire.limits import (
    LANE_WINDOW_BYTES,
    LISTING_SECONDS,
    MAX_PAYLOAD_BYTES,
    MAX_STARTS,
)
from speed.wire.seal import Keyring

_SEALED_BITS = 0o440


class Listing(NamedTuple):
    """What lies in a lane directory: files and slots in order, fences, cursors, starts and deliveries by generation.

    And what does not belong there.
    """

    files: list[tuple[int, int]]
    slots: list[tuple[int, int]]
    fences: list[int]
    cursors: list[int]
    starts: list[int]
    deliveries: list[int]
    foreign: list[str]
    openings: list[tuple[int, bytes]]
    """Generation and key id of each bound link (I-4)."""


class LaneReplacedError(FileNotFoundError):
    """The directory of a lane is gone, or another stands in its place."""


class LaneFiles:
    """One lane directory, held open so that replacing its path changes nothing.

    At rest it holds nothing open; what is done then opens it again. OSError if another stands in its place by then.
    """

    def __init__(self, path: str, lane_keys: Sequence[bytes], quarantine: Quarantine | None = None) -> None:
        self._path = path
        self._directory = open_directory(path)
        try:
            self._owners = owners_of(self._directory)
            self._place = _place(os.fstat(self._directory))
        except OSError:
            os.close(self._directory)
            raise
        self._keys = lane_keys
        self._quarantine = quarantine
        self._cursor_fd = -1
        self._has_cursor = False
        self._sealed: dict[int, int] = {}
        """Descriptors of former cursors, while the lane is opened."""
        self._cursor_key = b""
        self._listed_mtime = -1

    @property
    def _fd(self) -> int:
        if self._directory < 0:
            self._directory = self._open_again()
        return self._directory

    def _open_again(self) -> int:
        fd = open_directory(self._path)
        if _place(os.fstat(fd)) != self._place:
            os.close(fd)
            raise self._replaced()
        return fd

    def _replaced(self) -> LaneReplacedError:
        text = "the lane was removed or replaced, and what lay there unread is lost"
        return LaneReplacedError(errno.ENOENT, text, self._path)

    def _check_place(self) -> None:
        """LaneReplacedError if the path leads elsewhere: the sender goes on there (L-2)."""
        try:
            is_there = _place(os.lstat(self._path)) == self._place
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise self._replaced()

    def rest(self) -> None:
        """Close the descriptors; the next use opens them again."""
        self.close()

    def changed(self) -> bool:
        """Whether a file came or went since the last listing, as far as time stamps tell."""
        return os.fstat(self._fd).st_mtime_ns != self._listed_mtime

    def list(self) -> Listing:
        """Look at everything; the newest fence and cursor come first. LaneReplacedError."""
        self._check_place()
        listing = Listing([], [], [], [], [], [], [], [])
        modified = os.fstat(self._fd).st_mtime_ns
        self._listed_mtime = modified if is_settled(modified) else -1
        for entry in names_in(self._fd, MAX_LANE_FILES):
            _sort_in(listing, entry.name)
        listing.files.sort()
        listing.slots.sort()
        listing.fences.sort(reverse=True)
        listing.cursors.sort(reverse=True)
        listing.starts.sort(reverse=True)
        listing.deliveries.sort(reverse=True)
        return listing

    def open_file(self, generation: int, file: int) -> int:
        """A descriptor of a regular file of an expected owner; OSError for anything else."""
        return self.open_named(names.lane_file_name(generation, file))

    def open_named(self, filename: str) -> int:
        """The same for a file of any kind, by its name."""
        return open_regular(filename, self._fd, self._owners)

    def file_bytes(self, generation: int, file: int) -> int:
        """Present size of a file, 0 if there is none."""
        try:
            name = names.lane_file_name(generation, file)
            return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0

    def has_file(self, generation: int, file: int) -> bool:
        """Whether the file can be opened now, whatever the last listing said."""
        try:
            os.close(self.open_file(generation, file))
        except (FileNotFoundError, UntrustedFileError):
            return False
        return True

    def remove(self, filename: str) -> None:
        """Remove a file that is no longer needed, if it is still there."""
        unlink_quietly(filename, self._fd)

    def put_aside(self, filename: str, reason: str) -> None:
        """Move something that does not belong here to quarantine; who only looks has none and moves nothing."""
        if self._quarantine is not None:
            self._quarantine.take(self._fd, filename, reason)

    def read_fence(self, generation: int) -> Fence | None:
        """The fence of ``generation``; None if it is missing or not authentic, OSError if reading it failed."""
        try:
            data = read_small(names.fence_name(generation), self._fd, self._owners, FENCE_BYTES + 1)
            fence = decode_fence(data, self._keys)
        except (FileNotFoundError, UntrustedFileError, WireError):
            return None
        return fence if fence.new_generation == generation else None

    def read_opening(self, generation: int, key_id: bytes) -> bytes:
        """What opens a bound link; OSError."""
        return read_small(names.opening_name(generation, key_id), self._fd, self._owners, OPENING_BYTES + 1)

    def read_cursor(self, generation: int) -> Cursor | None:
        """The cursor of a receiver's generation; None if it is missing or not authentic."""
        cursor = read_cursor(self._fd, names.cursor_name(generation), self._keys, self._owners)
        return cursor if cursor is not None and cursor.receiver_generation == generation else None

    def deliveries(self, generation: int, found: Sequence[int], count: Callable[[str], None]) -> Deliveries:
        """How often messages that came again were begun, as the receiver of that generation goes on counting."""
        return Deliveries(lambda: self._fd, generation, self._keys, self._owners, found, count)

    def write_cursor(self, cursor: Cursor) -> bool:
        """Commit in place: one write, whole for every process (L-14); whether it is the first. OSError."""
        key = self._keys[0]
        data = encode_cursor(cursor, key)
        is_first = not self._has_cursor
        if is_first:
            self._create_cursor(cursor.receiver_generation, data)
        else:
            if self._cursor_fd < 0:
                name = names.cursor_name(cursor.receiver_generation)
                self._cursor_fd = open_for_writing(name, self._fd, self._owners)
            write_at_start(self._cursor_fd, data)
        self._cursor_key = key
        return is_first

    @property
    def has_new_key(self) -> bool:
        """Whether the own cursor was made with a key that is not the first any more (W-20)."""
        return self._has_cursor and self._keys[0] != self._cursor_key

    def mark_unclean(self, cursor: Cursor) -> None:
        """Take the flag of a clean end from the cursor that was read, in its place: that needs no space (L-15)."""
        fd = self._sealed.get(cursor.receiver_generation)
        if fd is not None:  # a lane without a cursor has none to mark; where not even this can be written, nothing can
            with contextlib.suppress(OSError):
                write_at_start(fd, encode_cursor(cursor._replace(clean=False), self._keys[0]))

    # --- sealing what former generations committed (L-31) ---

    def seal(self, generation: int) -> int:
        """Take the write bits of a former generation's cursor away; the number of its file, 0 if it is not there.

        That of another member of a group stays as it is. It is held open, as it may have to be marked.
        """
        name = names.cursor_name(generation)
        try:
            fd = open_for_writing(name, self._fd, self._owners)
        except PermissionError:
            return self.may_write(generation)[1]  # sealed before
        except OSError:
            return 0
        before = self._sealed.pop(generation, None)
        if before is not None:
            os.close(before)
        self._sealed[generation] = fd
        status = os.fstat(fd)
        with contextlib.suppress(OSError):
            os.fchmod(fd, stat.S_IMODE(status.st_mode) & _SEALED_BITS)
        return status.st_ino

    def let_go_of_sealed(self) -> None:
        """Close them."""
        for fd in self._sealed.values():
            os.close(fd)
        self._sealed.clear()

    def may_write(self, generation: int) -> tuple[bool, int]:
        """Whether the cursor of a generation has its write bit, and the number of its file; (False, 0) without one."""
        try:
            status = os.stat(names.cursor_name(generation), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return False, 0
        return bool(status.st_mode & stat.S_IWUSR), status.st_ino

    @property
    def is_sealed(self) -> bool:
        """Whether a successor sealed the own cursor that was written last."""
        return not os.fstat(self._cursor_fd).st_mode & stat.S_IWUSR

    def keep_start(self, generation: int, first: Cursor | None, kept: Sequence[int]) -> None:
        """Keep the first cursor for callers, or nothing where it would tell them wrong.

        Of what lies there already only the newest stay.
        """
        data = b"" if first is None else encode_cursor(first, self._keys[0])
        os.close(replace_file(names.start_name(generation), data, self._fd))
        for generation in sorted(kept, reverse=True)[MAX_STARTS - 1 :]:
            self.remove(names.start_name(generation))

    def _create_cursor(self, generation: int, data: bytes) -> None:
        """Put the own cursor in place by a rename; at full size, so that no later commit needs space."""
        padded = data.ljust(MAX_CURSOR_BYTES, b"\0")
        self._cursor_fd = replace_file(names.cursor_name(generation), padded, self._fd)
        self._has_cursor = True

    def close(self) -> None:
        """Release the descriptors."""
        self.let_go_of_sealed()
        for fd in (self._cursor_fd, self._directory):
            if fd >= 0:
                os.close(fd)
        self._cursor_fd = self._directory = -1


def _place(status: os.stat_result) -> tuple[int, int]:
    """The identity of a directory, which tells it from another one put in its place."""
    return status.st_dev, status.st_ino


def _sort_in(listing: Listing, filename: str) -> None:
    if (file := names.parse_lane_file(filename)) is not None:
        listing.files.append(file)
    elif (slot := names.parse_slot(filename)) is not None:
        listing.slots.append(slot)
    elif (generation := names.parse_cursor(filename)) is not None:
        listing.cursors.append(generation)
    elif (generation := names.parse_start(filename)) is not None:
        listing.starts.append(generation)
    elif (generation := names.parse_deliveries(filename)) is not None:
        listing.deliveries.append(generation)
    elif (generation := names.parse_fence(filename)) is not None:
        listing.fences.append(generation)
    elif (opening := names.parse_opening(filename)) is not None:
        listing.openings.append(opening)
    elif not filename.startswith(names.TEMPORARY_PREFIX):
        listing.foreign.append(filename)


# What a listing of a lane tells: files in order, fences that end older generations, cursors (L-15 to L-18).

MAX_SEGMENT_BYTES = LANE_WINDOW_BYTES + MAX_PAYLOAD_BYTES + ENVELOPE_OVERHEAD

LaneFile = tuple[int, int]
"""Sender generation and number."""


class LaneAhead:
    """The files of a lane as last listed, seen from its reader's position. Not thread-safe: its reader guards it.

    ``count(what)`` hears of foreign files, damaged fences and bytes behind a fence.
    """

    __slots__ = ("_count", "_fenced", "_fences", "_files", "_listing", "_looked", "committed")

    def __init__(self, files: LaneFiles, count: Callable[[str], None]) -> None:
        self._files = files
        self._count = count
        self._fences: list[Fence] = []
        self._fenced: LaneFile | None = None
        self._looked = float("-inf")
        self._listing = files.list()
        self.committed = 0
        """Sender generation of the committed position: a crash leads back there, and not further."""

    @property
    def cursors(self) -> list[int]:
        """Receiver generations that left a cursor, the newest first."""
        return self._listing.cursors

    @property
    def deliveries(self) -> list[int]:
        """Receiver generations that left counts of deliveries, the newest first."""
        return self._listing.deliveries

    @property
    def starts(self) -> list[int]:
        """Receiver generations whose first cursor is kept, the newest first."""
        return self._listing.starts

    def list_again(self) -> None:
        """Look at everything once more, before anything is read."""
        self._listing = self._files.list()

    def newest_cursor(self, below: int) -> tuple[Cursor | None, bool]:
        """The newest authentic cursor of a generation below, and whether a newer one of these is damaged.

        Then it may say too little (L-15).
        """
        damaged = False
        for generation in self._listing.cursors:
            if generation >= below:
                continue
            cursor = self._files.read_cursor(generation)
            if cursor is not None:
                return cursor, damaged
            self._count(counters.CURSORS_DAMAGED)
            damaged = True
        return None, damaged

    def remove_cursors_below(self, generation: int) -> None:
        """Remove what former generations of the receiver left, once the own cursor is in place."""
        for former in self._listing.cursors:
            if former < generation:
                self._files.remove(names.cursor_name(former))

    def look_if_due(self, position: Position, now: float) -> None:
        """After bytes were read and before they are accepted: is there a fence or a newer file? (L-18)"""
        if now - self._looked > LISTING_SECONDS or self._files.changed():
            self.look(position, now)

    def look(self, position: Position, now: float) -> None:
        """List the lane again: fences, newer files, foreign files."""
        self._looked = now
        listing = self._listing = self._files.list()
        for filename in listing.foreign:
            self._count(counters.FOREIGN_FILES)
            self._files.put_aside(filename, "NO_LANE_FILE")
        if listing.fences or self._fences:
            self._read_fences(position.generation)

    def _read_fences(self, passed: int) -> None:
        """Know all fences above the generation ``passed``; remove those that no crash leads back before."""
        known = {fence.new_generation: fence for fence in self._fences}
        self._fences = []
        for generation in self._listing.fences:
            if generation <= passed:
                if generation <= self.committed:
                    self._files.remove(names.fence_name(generation))
                continue
            fence = known.get(generation) or self._files.read_fence(generation)
            if fence is None:
                self._count(counters.FENCES_DAMAGED)
            else:
                self._fences.append(fence)

    def before_fence(self, position: Position, length: int) -> int:
        """How many of ``length`` bytes at ``position`` were written before the sender lost its name."""
        if not self._fences:
            return length
        here = (position.generation, position.file)
        visible = length
        for fence in self._fences:
            end = (fence.old_generation, fence.file)
            if fence.new_generation > here[0] and here >= end:
                allowed = fence.size - position.offset if here == end else 0
                visible = min(visible, max(0, allowed))
        if visible < length and self._fenced != here:
            self._fenced = here
            self._count(counters.REJECTED_BEHIND_FENCE)
        return visible

    def successor(self, position: Position) -> LaneFile | None:
        """The first file after that of ``position``."""
        here = (position.generation, position.file)
        files = self._listing.files
        if not files or files[-1] <= here:
            return None
        return next(file for file in files if file > here)

    def sure_successor(self, position: Position) -> LaneFile | None:
        """The same for who goes there."""
        return self._nearest((position.generation, position.file + 1), self.successor(position))

    def first_file(self, above: int) -> LaneFile:
        """Where a lane without a cursor begins: with the first life above a generation."""
        listed = next((file for file in self._listing.files if file[0] > above), None)
        return self._nearest((above + 1, 0), listed) or (above + 1, 0)

    def _nearest(self, wanted: LaneFile, listed: LaneFile | None) -> LaneFile | None:
        """``listed``, unless ``wanted`` or the first file of its generation is there and comes before it (L-17).

        A listing may lack what came while it was taken, or lay behind its bound: so the names are tried.
        """
        if listed is None:
            return None
        for file in (wanted, (listed[0], 1)):
            if wanted <= file < listed and self._files.has_file(*file):
                bisect.insort(self._listing.files, file)
                return file
        return listed

    def file_at(self, position: Position, now: float) -> LaneFile | None:
        """The file of ``position``, else the first after it; looked for again if there is none."""
        found = self._first_from(position)
        if found is None:
            self.look_if_due(position, now)
            found = self._first_from(position)
        return self._nearest((position.generation, position.file), found)

    def _first_from(self, position: Position) -> LaneFile | None:
        here = (position.generation, position.file)
        return next((file for file in self._listing.files if file >= here), None)

    def open(self, file: LaneFile, position: Position, now: float) -> int:
        """Descriptor of a file, -1 if it is gone or was put aside as untrusted; OSError if opening it failed."""
        try:
            return self._open_trusted(file)
        except FileNotFoundError:
            pass
        except UntrustedFileError:
            self._count(counters.SEGMENTS_REFUSED)
            self._files.put_aside(names.lane_file_name(*file), "UNTRUSTED_FILE")
        self.look(position, now)
        return -1

    def _open_trusted(self, file: LaneFile) -> int:
        fd = self._files.open_file(*file)
        try:
            if os.fstat(fd).st_size > MAX_SEGMENT_BYTES:
                raise UntrustedFileError(0, "larger than any lane file", names.lane_file_name(*file))
        except OSError:
            os.close(fd)
            raise
        return fd

    def end(self, start: Position) -> Position:
        """The present end of the lane; ``start`` where there is no file."""
        if not self._listing.files:
            return start
        last = self._listing.files[-1]
        return Position(*last, self._files.file_bytes(*last))

    def followed_by(self, file: LaneFile, end: int) -> int:
        """The generation that wrote behind ``end`` of a file, or in a later one that was listed; 0: none did."""
        if self._files.file_bytes(*file) > end:
            return file[0]
        written = (later[0] for later in self._listing.files if later > file and self._files.file_bytes(*later))
        return next(written, 0)

    def is_passed(self, cursor: Cursor) -> bool:
        """Whether a file lies before the committed position, or a slot of an earlier generation is there."""
        files, slots = self._listing.files, self._listing.slots
        generation = cursor.sender_generation
        return bool(files and files[0] < (generation, cursor.file)) or bool(slots and slots[0][0] < generation)

    def remove_passed(self, cursor: Cursor, needs_slot: Callable[[int, int], bool]) -> None:
        """Unlink the files before the committed position, but for those with an unfinished envelope.

        And slots of generations before it, but for those that ``needs_slot`` names (L-30).
        """
        needed = {(entry.generation, entry.file) for entry in cursor.unfinished}
        here = (cursor.sender_generation, cursor.file)
        for file in [one for one in self._listing.files if one < here and one not in needed]:
            self._files.remove(names.lane_file_name(*file))
            self._listing.files.remove(file)
        self._remove_openings(cursor.sender_generation)
        passed = [slot for slot in self._listing.slots if slot[0] < cursor.sender_generation and not needs_slot(*slot)]
        for slot in passed:
            self._files.remove(names.slot_name(*slot))
            self._listing.slots.remove(slot)

    def _remove_openings(self, generation: int) -> None:
        """Remove what opened older generations, once none of their files is left (I-5)."""
        left = {file[0] for file in self._listing.files}
        for opening in [one for one in self._listing.openings if one[0] < generation and one[0] not in left]:
            self._files.remove(names.opening_name(*opening))
            self._listing.openings.remove(opening)


# The bound links that lead into a lane, by the openings in it (I-5).

_MAX_BOUND = 64
"""Fingerprints that are remembered for a lane; those of links that are opened again count anew."""


class Openings:
    """Keys of bound links, and whose each is. Not thread-safe: the lane's lock guards it."""

    def __init__(self, own: Callable[[], NodeIdentity], keyring: Keyring, files: LaneFiles, link: BoundLink) -> None:
        """``link``: its nodes and the receiver's life, of no generation."""
        self._identity, self._keyring, self._files, self._link = own, keyring, files, link
        self._fingerprints: dict[bytes, str] = {}

    @property
    def own(self) -> NodeIdentity:
        """The identity of the receiver, with the exchange keys of now."""
        return self._identity()

    def key(self, key_id: bytes, generation: int) -> bytes:
        """WireError UNKNOWN_KEY where nothing opens it, BAD_IDENTITY where what does is not sound; OSError."""
        try:
            opening = self._files.read_opening(generation, key_id)
        except (FileNotFoundError, UntrustedFileError):
            raise WireError("UNKNOWN_KEY", f"neither a key nor an opening has the id {key_id.hex()}") from None
        shared = self._keyring.find(shared_key_id_of(opening))
        if shared is None:
            raise WireError("UNKNOWN_KEY", "the shared key of a bound link is not in the key file")
        opened = accept_link(self.own, shared, self._link._replace(generation=generation), opening)
        if opened.key_id != key_id:
            raise WireError("BAD_IDENTITY", "an opening under another name")
        if len(self._fingerprints) >= _MAX_BOUND:
            del self._fingerprints[next(iter(self._fingerprints))]
        self._fingerprints[key_id] = opened.fingerprint
        return opened.key

    def fingerprint(self, key_id: bytes) -> str:
        """Of the sender of what was opened under a key; empty if it is that of no bound link."""
        fingerprint = self._fingerprints.pop(key_id, "")
        if fingerprint:
            self._fingerprints[key_id] = fingerprint  # behind all others: what is in use is never the oldest
        return fingerprint
