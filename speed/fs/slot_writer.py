"""The slots of a lane as its sender fills them: large payloads on pages that are used again (L-28, L-29)."""

from __future__ import annotations

import contextlib
import errno
import os

from speed.fs.open import create_file, open_for_writing, unlink_quietly, write_all_at
from speed.wire.cursor import Cursor
from speed.wire.limits import KEY_BYTES, MAX_SLOTS
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

    __slots__ = ("held", "number", "place", "used")

    def __init__(self, number: int) -> None:
        self.number = number
        self.place: Place | None = None
        self.held = 0
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
        """Bytes of payloads that the receiver is not done with, as far as was looked (L-6)."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._slots)

    @property
    def is_used_up(self) -> bool:
        """Whether there are slots, and none is known to be free: a look at the cursor may tell of one."""
        return bool(self._slots) and all(slot.place is not None for slot in self._slots.values())

    def commit(self, cursor: Cursor) -> None:
        """Know which slots the receiver is done with."""
        position = (cursor.sender_generation, cursor.file, cursor.offset)
        unfinished = {(entry.generation, entry.file, entry.offset) for entry in cursor.unfinished}
        for slot in self._slots.values():
            if slot.place is not None and slot.place < position and slot.place not in unfinished:
                slot.place, slot.held = None, 0
        self._count()

    def _count(self) -> None:
        self.held = sum(slot.held for slot in self._slots.values())

    # --- one payload ---

    def begin(self, directory: int, payload_bytes: int) -> SlotHead | None:
        """Open a free slot, with room for a payload; None if all are in use. OSError."""
        self._end()
        self._fd = self._open_free(directory)
        if self._fd < 0:
            return None
        head = SlotHead(self._slot.number, payload_bytes, random_bytes(KEY_BYTES))
        self._pieces = SlotPieces(head.key, payload_bytes)
        try:
            _reserve(self._fd, self._pieces.slot_bytes)
        except BaseException:
            self._end()
            raise
        return head

    def _open_free(self, directory: int) -> int:
        """Descriptor of one that is free, or new; -1 for none."""
        for slot in [slot for slot in self._slots.values() if slot.place is None]:
            name = slot_name(self._generation, slot.number)
            try:
                fd = open_for_writing(name, directory, (os.geteuid(),))
            except OSError:  # it is gone, or another file has its name
                unlink_quietly(name, directory)
                del self._slots[slot.number]
            else:
                self._slot = slot
                return fd
        return self._make(directory)

    def _make(self, directory: int) -> int:
        for number in [number for number in range(1, MAX_SLOTS + 1) if number not in self._slots]:
            try:
                fd = create_file(slot_name(self._generation, number), directory, append=False)
            except FileExistsError:  # it is not ours
                continue
            self._slot = self._slots[number] = _Slot(number)
            if self._durable:
                os.fsync(directory)
            return fd
        return -1

    def write(self, payload: bytes, place: Place) -> None:
        """Write the pieces; the envelope at ``place`` names the slot. OSError; then it is to be spoiled."""
        assert self._pieces is not None
        if self._slots.get(self._slot.number) is not self._slot:
            raise FileNotFoundError(errno.ENOENT, "the lane was put aside meanwhile")
        self._use(place, len(payload))
        for index in range(self._pieces.count):
            write_all_at(self._fd, self._pieces.seal(index, payload), self._pieces.place(index)[0])
        if self._durable:
            os.fdatasync(self._fd)
        self._end()

    def spoil(self, file: tuple[int, int]) -> None:
        """Tell the receiver that nothing more comes. The envelope lies in ``file``, if anywhere."""
        if self._slot.place is None:
            self._use((*file, _BEHIND_ALL), 0)
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
        self._end()

    def _use(self, place: Place, held: int) -> None:
        self._slot.place, self._slot.held, self._slot.used = place, held, True
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
            if slot.place is None and not (idle and slot.used):
                unlink_quietly(slot_name(self._generation, number), directory)
                del self._slots[number]
            slot.used = False


def _reserve(fd: int, size: int) -> None:
    """Make a file long enough, with its space: a full disk is told now."""
    before = os.fstat(fd).st_size
    if before >= size:
        return
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError:
        os.ftruncate(fd, before)
        raise
