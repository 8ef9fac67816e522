"""A payload that lies in a slot, opened piece by piece while its sender writes it (L-30)."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum, auto
from io import BytesIO
from time import perf_counter

from speed.fs.envelope_reader import Received, read_at
from speed.wire.envelope import FLAG_SLOTTED
from speed.wire.limits import TAG_BYTES
from speed.wire.names import slot_name
from speed.wire.slot import SlotHead, SlotPieces

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

    def __init__(self, head: SlotHead, envelope: Received) -> None:
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

    def whole(self) -> Received:
        """The envelope as if its payload had lain in it."""
        assert self._payload is not None
        before = self.envelope.header
        header = before._replace(payload_bytes=self.payload_bytes, flags=before.flags & ~FLAG_SLOTTED)
        return self.envelope._replace(header=header, payload=self._payload.getvalue())
