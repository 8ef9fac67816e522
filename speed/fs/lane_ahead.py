"""What a listing of a lane tells: files in order, fences that end older generations, cursors (L-15 to L-18)."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable

from speed.core.lane import Position
from speed.fs.lane_files import LaneFiles
from speed.fs.open import UntrustedFileError
from speed.wire import names
from speed.wire.cursor import Cursor, Fence
from speed.wire.envelope import ENVELOPE_OVERHEAD
from speed.wire.limits import LANE_WINDOW_BYTES, LISTING_SECONDS, MAX_PAYLOAD_BYTES

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
            self._count("cursors_damaged")
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
            self._count("foreign_files")
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
                self._count("fences_damaged")
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
            self._count("rejected_behind_fence")
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
            self._count("segments_refused")
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
        passed = [slot for slot in self._listing.slots if slot[0] < cursor.sender_generation and not needs_slot(*slot)]
        for slot in passed:
            self._files.remove(names.slot_name(*slot))
            self._listing.slots.remove(slot)
