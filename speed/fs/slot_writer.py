"""The slots of a lane as its sender fills them: large payloads on pages that are used again (L-28, L-29)."""

from __future__ import annotations

import contextlib
import errno
import os

from speed.core.slots import SlotChoice, choose_slot, excess
from speed.fs.open import create_file, open_for_writing, unlink_quietly, write_all_at
from speed.wire.cursor import Cursor
from speed.wire.limits import KEY_BYTES
from speed.wire.names import slot_name
from speed.wire.seal import random_bytes
from speed.wire.slot import SlotHead, SlotPieces

SLOTTED_BYTES = 128 << 10
"""A payload of at least this size goes into a slot: for less, the second file costs more than its pages save."""

Place = tuple[int, int, int]
"""Where an envelope begins: generation, number of the file, offset."""
_BEHIND_ALL = 1 << 63
"""An offset that no file reaches."""


class _Slot:
    """One that was made. ``place``: where the envelope of its last payload lies, until the receiver is done with it."""

    __slots__ = ("file_bytes", "number", "place", "used")

    def __init__(self, number: int) -> None:
        self.number = number
        self.place: Place | None = None
        self.file_bytes = 0
        self.used = True


class SlotWriter:
    """Fills one slot at a time: ``begin``, then ``write`` once its envelope is appended; ``spoil`` whatever failed.

    Not thread-safe: the lock of the link guards it. It holds a file open from ``begin`` to the end of that payload.
    """

    def __init__(self, generation: int, *, durable: bool) -> None:
        self._generation = generation
        self._durable = durable
        self._slots: dict[int, _Slot] = {}
        self._slot = _Slot(0)
        self._pieces: SlotPieces | None = None
        self._fd = -1
        self.held = 0
        """Bytes of the files whose payloads the receiver is not done with, as far as was looked (L-6)."""
        self.file_bytes = 0
        """Bytes of all files."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._slots)

    @property
    def is_in_use(self) -> bool:
        """Whether some are not known to be free: a look at the cursor may tell."""
        return any(slot.place is not None for slot in self._slots.values())

    def commit(self, cursor: Cursor) -> None:
        """Know which slots the receiver is done with."""
        position = (cursor.sender_generation, cursor.file, cursor.offset)
        unfinished = {(entry.generation, entry.file, entry.offset) for entry in cursor.unfinished}
        for slot in self._slots.values():
            if slot.place is not None and slot.place < position and slot.place not in unfinished:
                slot.place = None
        self._count()

    def _count(self) -> None:
        self.file_bytes = sum(slot.file_bytes for slot in self._slots.values())
        self.held = self.file_bytes - sum(self._free().values())

    # --- one payload ---

    def begin(self, directory: int, payload_bytes: int, room: int) -> SlotHead | None:
        """Open a free slot, with space for a payload; None if all are in use. OSError.

        ``room``: what the window leaves for all free slots together, with the one that is taken.
        """
        self._end()
        key = random_bytes(KEY_BYTES)
        pieces = SlotPieces(key, payload_bytes)
        choice = self._open(directory, pieces.slot_bytes, room)
        if choice is None:
            return None
        self._pieces = pieces
        try:
            self._slot.file_bytes = _resize(self._fd, choice.file_bytes)
        except BaseException:
            self._end()
            raise
        finally:
            self._count()
        return SlotHead(self._slot.number, payload_bytes, key)

    def _open(self, directory: int, needed: int, room: int) -> SlotChoice | None:
        """Open the slot that is chosen, without those that turn out to be gone, or to be of others."""
        foreign: set[int] = set()
        while True:
            choice = choose_slot(self._free(), self._used() | foreign, needed, room)
            if choice is None:
                return None
            for number in choice.removed:
                self._remove(number, directory)
            try:
                self._open_or_make(choice.number, directory)
            except FileExistsError:
                foreign.add(choice.number)
            if self._fd >= 0:
                return choice

    def _free(self) -> dict[int, int]:
        return {slot.number: slot.file_bytes for slot in self._slots.values() if slot.place is None}

    def _used(self) -> set[int]:
        return {slot.number for slot in self._slots.values() if slot.place is not None}

    def _open_or_make(self, number: int, directory: int) -> None:
        """No file is open afterwards if that of a slot is gone; FileExistsError for a new one that is another's."""
        name, slot = slot_name(self._generation, number), self._slots.get(number)
        if slot is not None:
            try:
                self._fd = open_for_writing(name, directory, (os.geteuid(),))
            except OSError:  # it is gone, or another file has its name
                self._remove(number, directory)
                return
            self._slot = slot
            return
        self._fd = create_file(name, directory, append=False)
        self._slot = self._slots[number] = _Slot(number)
        if self._durable:
            os.fsync(directory)

    def _remove(self, number: int, directory: int) -> None:
        unlink_quietly(slot_name(self._generation, number), directory)
        del self._slots[number]
        self._count()

    def write(self, payload: bytes, place: Place) -> None:
        """Write the pieces; the envelope at ``place`` names the slot. OSError; then it is to be spoiled."""
        assert self._pieces is not None
        if self._slots.get(self._slot.number) is not self._slot:
            raise FileNotFoundError(errno.ENOENT, "the lane was put aside meanwhile")
        self._use(place)
        for index in range(self._pieces.count):
            write_all_at(self._fd, self._pieces.seal(index, payload), self._pieces.place(index)[0])
        if self._durable:
            os.fdatasync(self._fd)
        self._end()

    def spoil(self, file: tuple[int, int]) -> None:
        """Tell the receiver that nothing more comes. The envelope lies in ``file``, if anywhere."""
        if self._slot.place is None:
            self._use((*file, _BEHIND_ALL))
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            self._slot.file_bytes = 0
        self._count()
        self._end()

    def _use(self, place: Place) -> None:
        self._slot.place, self._slot.used = place, True
        self._count()

    def _end(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    # --- the end of slots ---

    def forget(self) -> None:
        """Begin anew: the lane has another directory now."""
        self._slots.clear()
        self._count()

    def release(self, directory: int, *, idle: bool) -> None:
        """Unlink those that are free; with ``idle`` those only that were not used since the last call."""
        for number, slot in list(self._slots.items()):
            if slot.place is None and not self._is_open(slot) and not (idle and slot.used):
                self._remove(number, directory)
            slot.used = False

    def trim(self, directory: int, room: int) -> None:
        """Unlink free ones until they take no more than ``room`` bytes."""
        free = self._free()
        if self._fd >= 0:
            room -= free.pop(self._slot.number, 0)
        for number in excess(free, room):
            self._remove(number, directory)

    def _is_open(self, slot: _Slot) -> bool:
        return self._fd >= 0 and slot is self._slot


def _resize(fd: int, size: int) -> int:
    """Make a file so long, with its space: a full disk is told now. Returns its size."""
    before = os.fstat(fd).st_size
    if before == size:
        return size
    try:
        if before > size:
            os.ftruncate(fd, size)
        else:
            os.posix_fallocate(fd, 0, size)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, before)
        raise
    return size
