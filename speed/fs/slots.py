"""Envelopes of one lane opened (L-10, L-11), and the slots beside it, read and written (L-28 to L-30)."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from enum import Enum, auto
from io import BytesIO
from time import perf_counter
from typing import NamedTuple

from speed.core.lane import ByteWindow, LaneDecoder, Opened, SlotChoice, Token, choose_slot, excess
from speed.fs.open import create_file, open_for_writing, unlink_quietly, write_all_at
from speed.wire.cursor import Cursor, SlotHead, SlotPieces
from speed.wire.envelope import FLAG_SLOTTED, Header
from speed.wire.limits import KEY_BYTES, MAX_PAYLOAD_BYTES, TAG_BYTES
from speed.wire.names import slot_name
from speed.wire.seal import BoundKeys, Keyring, LinkOpener, random_bytes

# From bytes in private memory to opened envelopes of one lane (L-10, L-11).

CHUNK_BYTES = 64 << 10
"""What is read of a file at a time, unless an envelope is larger."""


class OpenedEnvelope(NamedTuple):
    """One authentic envelope; ``token`` finishes it.

    ``redelivered``: an earlier process may have begun it. ``unsure``: not even of a request that it committed before
    it began can be told whether it did (S-8).
    """

    header: Header
    payload: bytes
    redelivered: bool
    token: Token
    unsure: bool = False


class EnvelopeReader:
    """The decoder of a lane, and reading of single envelopes. Not thread-safe: the lane's reader guards it."""

    __slots__ = ("decoder",)

    def __init__(
        self,
        source_id: bytes,
        target_id: bytes,
        keyring: Keyring,
        target_life: int = 0,
        bound: BoundKeys | None = None,
    ) -> None:
        opener = LinkOpener(keyring, source_id, target_id, target_life, bound)
        self.decoder = LaneDecoder(source_id, target_id, MAX_PAYLOAD_BYTES, opener.open)

    def at(self, fd: int, generation: int, offset: int) -> Opened | None:
        """The authentic envelope that begins at a place of a file, however large it is."""
        needed = CHUNK_BYTES
        while True:
            scanned = self.decoder.scan(ByteWindow(read_at(fd, offset, needed), offset, generation), limit=1)
            if scanned.items or scanned.needed <= needed:
                break
            needed = scanned.needed
        return next((item for item in scanned.items if isinstance(item, Opened)), None)  # at most one was asked for


def read_at(fd: int, offset: int, want: int) -> bytes:
    """A private copy of ``want`` bytes of a file, fewer at its end; nothing about them is believed before."""
    data = os.pread(fd, want, offset)
    while data and len(data) < want:
        more = os.pread(fd, want - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


# A payload that lies in a slot, opened piece by piece while its sender writes it (L-30).

PATIENCE_SECONDS = 200e-6
"""How long a missing piece is tried again at once. After that others are read: the sender rings when it is done."""


class SlotState(Enum):
    """What became of a payload; one that ``WAITS`` has a piece missing that may still come."""

    WHOLE = auto()
    WAITS = auto()
    TORN = auto()
    DAMAGED = auto()


class SlotReader:
    """Puts one payload together. Not thread-safe: the reader of its lane guards it.

    ``envelope`` is the one that says where it lies. Nothing is kept open between two reads.
    """

    def __init__(self, head: SlotHead, envelope: OpenedEnvelope) -> None:
        self.envelope = envelope
        self.name = slot_name(envelope.token.generation, head.number)
        self.payload_bytes = head.payload_bytes
        self.missing = b""
        """The piece that is missing, as it was read last."""
        self._pieces = SlotPieces(head.key, head.payload_bytes)
        self._opened = 0
        self._payload: BytesIO | None = None

    @property
    def missing_at(self) -> int:
        """Where that piece lies in the slot."""
        return self._pieces.place(self._opened)[0]

    def read(self, fd: int, fate: Callable[[], SlotState]) -> SlotState:
        """Take the pieces that are there. OSError.

        ``fate()`` says what becomes of a missing one; it is asked before that piece is looked at for the last time.
        """
        if self._payload is None:
            if self._is_cut(fd):
                return SlotState.TORN
            self._payload = BytesIO(bytes(self.payload_bytes))  # not before: a forged size costs no memory
        while self._opened < self._pieces.count:
            if self._await_piece(fd, self._payload):
                continue
            state = fate()
            if not self._take_piece(fd, self._payload):
                return SlotState.TORN if self._is_cut(fd) else state
        return SlotState.WHOLE

    def _is_cut(self, fd: int) -> bool:
        """Whether the slot is too short, which its sender made long enough before it began."""
        return os.fstat(fd).st_size < self._pieces.slot_bytes

    def _await_piece(self, fd: int, payload: BytesIO) -> bool:
        if self._take_piece(fd, payload):
            return True
        until = perf_counter() + PATIENCE_SECONDS
        while perf_counter() < until:
            if not self._ends_as_read(fd) and self._take_piece(fd, payload):
                return True
            os.sched_yield()
        return False

    def _ends_as_read(self, fd: int) -> bool:
        """Whether the missing piece still has the tag that it had: the rest need not be verified again so soon."""
        offset, size = self._pieces.place(self._opened)
        return os.pread(fd, TAG_BYTES, offset + size - TAG_BYTES) == self.missing[-TAG_BYTES:]

    def _take_piece(self, fd: int, payload: BytesIO) -> bool:
        sealed = read_at(fd, *self._pieces.place(self._opened))
        with payload.getbuffer() as room:
            is_opened = self._pieces.open(self._opened, sealed, room)
        if is_opened:
            self._opened += 1
        else:
            self.missing = sealed
        return is_opened

    def whole(self) -> OpenedEnvelope:
        """The envelope as if its payload had lain in it."""
        assert self._payload is not None
        before = self.envelope.header
        header = before._replace(payload_bytes=self.payload_bytes, flags=before.flags & ~FLAG_SLOTTED)
        return self.envelope._replace(header=header, payload=self._payload.getvalue())


SLOTTED_BYTES = 128 << 10
"""A payload of at least this size goes into a slot: for less, the second file costs more than its pages save."""

Place = tuple[int, int, int]
"""Where an envelope begins: generation, number of the file, offset."""
_PAST_END = 1 << 63
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
            self._use((*file, _PAST_END))
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
