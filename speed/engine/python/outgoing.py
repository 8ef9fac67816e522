"""Outgoing links: the checked, sealed, ordered way of one envelope into another node's inbox.

Implements A-3 (grant checked before any write), L-2 to L-9 (appending, flow control), W-8 (sequences).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from speed.core import counters
from speed.engine import threads
from speed.engine.python.context import Context
from speed.errors import Execution, InboxFullError, NodeClosedError, PayloadTooLargeError, SpeedError, StorageError
from speed.fs.bell import Ringer, RingResult
from speed.fs.identity import unix_ms
from speed.fs.lane_writer import LaneWriter, has_no_space
from speed.fs.slots import SLOTTED_BYTES
from speed.wire import lazily
from speed.wire.entry import Entry
from speed.wire.envelope import ENVELOPE_OVERHEAD, FLAG_SEGMENT, FLAG_SLOTTED, EnvelopeType, counter_of, make_sequence
from speed.wire.identities import Bond
from speed.wire.limits import MAX_CALL_BYTES, MAX_PAYLOAD_BYTES, SEGMENT_BYTES, SLOT_HEAD_BYTES
from speed.wire.names import bell_path, node_id
from speed.wire.seal import LinkSealer, NonceSource

if TYPE_CHECKING:
    from speed.segment.parity import Splitter
    from speed.wire.cursor import SlotHead


# Senders that wait for room in a full inbox: one after the other, each until its own deadline (L-6).

ROOM_POLL_SECONDS = (0.001, 0.05)
"""First and longest pause between two looks at a full lane; no bell announces room."""
TURN_SECONDS = 1.0


class WaitingSenders:
    """Who waits for room on one link, first come, first served; the lock of the link guards it.

    The lock is free while they wait, so those who cannot wait, or not as long, are told in time.
    """

    __slots__ = ("_changed", "_stopping", "turns")

    def __init__(self, lock: threading.Lock, stopping: threading.Event) -> None:
        self._changed = threading.Condition(lock)
        self._stopping = stopping
        self.turns: deque[object] = deque()
        """One for each sender that waits; who finds any here comes after them."""

    def wait(self, has_room: Callable[[], bool], deadline: float) -> bool:
        """Whether it is the caller's turn and there is room, before ``deadline`` (monotonic seconds).

        The caller holds the lock, and has it again when this returns.
        """
        turn = object()
        self.turns.append(turn)
        pause, longest = ROOM_POLL_SECONDS
        try:
            while self.turns[0] is not turn or not has_room():
                left = deadline - monotonic()
                if left <= 0 or self._stopping.is_set():
                    return False
                if self.turns[0] is turn:
                    self._changed.wait(min(pause, left))
                    pause = min(pause * 2, longest)
                else:
                    self._changed.wait(min(TURN_SECONDS, left))
            return True
        finally:
            self.turns.remove(turn)
            self._changed.notify_all()


# Group commit: what many threads appended is flushed once for all of them (L-7).


class GroupFlush:
    """Threads that appended wait here for a flush that covers it; one of them does it for all. Thread-safe.

    ``flush()`` runs without a lock of this class, and returns the counter up to which things had been appended when it
    began.
    """

    def __init__(self, flush: Callable[[], int]) -> None:
        self._flush = flush
        self._over = threading.Condition(threading.Lock())
        self._covered = 0
        self._is_flushing = False

    def wait(self, counter: int) -> None:
        """Return once a flush is over that began when ``counter`` had been appended, whether it failed or not.

        What ``flush`` raises goes to the one thread that did it, and another one flushes.
        """
        with self._over:
            while self._covered < counter and self._is_flushing:
                self._over.wait()
            if self._covered >= counter:
                return
            self._is_flushing = True
        covered = 0
        try:
            covered = self._flush()
        finally:
            with self._over:
                self._covered = max(self._covered, covered)
                self._is_flushing = False
                self._over.notify_all()


SEGMENTED_TYPES = frozenset(
    {EnvelopeType.MESSAGE, EnvelopeType.SPC_REQUEST, EnvelopeType.SPC_RESPONSE, EnvelopeType.EVENT}
)
"""What may be large: it goes in segments, or into slots (W-4)."""


class OutgoingLink:
    """The link from this node to ``target``: one sequence, one lane, one ringer. Thread-safe.

    ``woken(link)`` runs before it opens files; at rest it holds none. ``make_space(link)`` removes files that this node
    can do without, and tells whether there were any.
    """

    def __init__(
        self,
        context: Context,
        target: str,
        woken: Callable[[OutgoingLink], None],
        make_space: Callable[[OutgoingLink], bool],
    ) -> None:
        self.target = target
        self.target_id = node_id(target)
        self.lock = threads.lock("link")
        self.ringer = Ringer(bell_path(context.root, target))
        self._context = context
        self._counter = 0
        self._sequence_base = make_sequence(context.generation, 0)
        self._room = WaitingSenders(self.lock, context.stopping)
        self._woken = woken
        self._make_space = make_space
        self.rests = True
        self._is_closed = False
        self._renewal_due = True
        """The next envelope opens lane and bell, and is sealed for who the target is then."""
        self._flushes = GroupFlush(self._flush) if context.durable else None
        self._sealer = LinkSealer(context.keyring, context.id, self.target_id, context.generation)
        self._nonces = NonceSource()
        self.splitter: Splitter | None = None
        """Cuts what goes out on a link that has a segment size (G-18)."""
        self.features: tuple[str, ...] = ()
        """What the other side can take, as its entry said last (R-2)."""
        self.entry: Entry | None = None
        """What the other side said of itself when it was looked at last, before something was written to it."""
        self.generation = 0
        """The newest life of the target that it was for."""
        self.target_life = 0
        """The generation of a target that is ephemeral: its envelopes are sealed for that life (W-10), once renewed."""
        self.bond: Bond | None = None
        """The two identities that its envelopes are sealed by, once renewed; None without."""
        self.lives = 0
        """How many generations of the target it was for."""
        self._writer = LaneWriter(
            context.root,
            context.name,
            target,
            context.generation,
            context.keyring.lane_keys(context.id, self.target_id),
            window_bytes=context.window_bytes,
            file_bytes=SEGMENT_BYTES,
            mode="rename" if context.polling else "append",
            durable=context.durable,
        )

    def send(self, type_: int, flags: int, payload: bytes, deadline: float, *, urgent: bool = False) -> int:
        """Seal and append one envelope, ring the bell; returns its sequence.

        ``deadline`` (monotonic seconds) bounds the wait for room in a full lane; ``urgent`` never waits.
        Raises InboxFullError, StorageError, PayloadTooLargeError; then nothing was accepted.
        """
        return self._append(type_, flags, (payload,), deadline, urgent, None)

    def send_cut(
        self, type_: int, flags: int, payload: bytes, seconds: float, track: Callable[[int], None] | None = None
    ) -> None:
        """Send a payload that no envelope holds in segments; each waits for room as long as ``seconds``.

        PayloadTooLargeError if the other side takes none, or not as much (G-18).
        """
        with lazily.guard:
            from speed.segment.form import write_segment
            from speed.segment.parity import splitter_for

        self.check_takes(len(payload), MAX_CALL_BYTES)
        splitter = self.splitter or splitter_for(len(payload))
        for segment in splitter.split(payload):
            data = (write_segment(segment),)
            self._append(type_, flags | FLAG_SEGMENT, data, monotonic() + seconds, False, track)

    def check_takes(self, size: int, limit: int) -> None:
        """PayloadTooLargeError for what the other side cannot take in segments."""
        if size > limit:
            raise PayloadTooLargeError(f"{size} bytes for {self.target!r}; the limit is {limit}: send it in parts")
        if "segments" not in self.features:
            raise PayloadTooLargeError(
                f"{size} bytes for {self.target!r}, which takes no segments; the limit is {MAX_PAYLOAD_BYTES}"
            )

    def send_tracked(
        self, type_: int, flags: int, payload: bytes, deadline: float, track: Callable[[int], None]
    ) -> int:
        """Like ``send``; ``track(sequence)`` runs before the envelope can be answered."""
        return self._append(type_, flags, (payload,), deadline, False, track)

    def send_all(
        self, type_: int, flags: int, payloads: Sequence[bytes], deadline: float, *, urgent: bool = False
    ) -> None:
        """Like ``send`` for several envelopes in one write and one ring; ``StorageError`` tells how many went in."""
        self._append(type_, flags, payloads, deadline, urgent, None)

    def _append_cut(
        self,
        splitter: Splitter,
        type_: int,
        flags: int,
        payloads: Sequence[bytes],
        deadline: float,
        urgent: bool,
        track: Callable[[int], None] | None,
    ) -> int:
        with lazily.guard:
            from speed.segment.form import write_segment

        if urgent:  # all or nothing: it is tried again from the beginning
            self._check_room(sum(splitter.cut_bytes(len(payload)) for payload in payloads))
        sequence = 0
        for payload in payloads:
            for segment in splitter.split(payload):
                data = (write_segment(segment),)
                sequence = self._append(type_, flags | FLAG_SEGMENT, data, deadline, urgent, track)
        return sequence

    def _append(
        self,
        type_: int,
        flags: int,
        payloads: Sequence[bytes],
        deadline: float,
        urgent: bool,
        track: Callable[[int], None] | None,
        *,
        is_last: bool = False,
    ) -> int:
        if self.splitter is not None and type_ in SEGMENTED_TYPES and not flags & FLAG_SEGMENT:
            return self._append_cut(self.splitter, type_, flags, payloads, deadline, urgent, track)
        size = total = sum(map(len, payloads))
        if total > MAX_PAYLOAD_BYTES:
            self._check_sizes(payloads)
        takes_slots = total >= SLOTTED_BYTES and type_ in SEGMENTED_TYPES and self._takes_slots
        total += (ENVELOPE_OVERHEAD + SLOT_HEAD_BYTES * takes_slots) * len(payloads)
        context = self._context
        if urgent and self._room.turns:
            raise self._inbox_full()
        if self.rests:
            self.rests = False
            self._woken(self)
        with self.lock:
            self._check_open(is_last)
            if self._renewal_due:
                self.reopen()
            if self._room.turns or not self._writer.room(total):
                self._wait_for_room(total, deadline, urgent)
                self._check_open(is_last)
            context.registration.check_held()
            sequence = self._sequence_base | (self._counter + len(payloads))
            failures = self._writer.flush_failures
            if track is not None:
                track(sequence)
            if takes_slots:
                self._write_mixed(type_, flags, payloads)
            else:
                self._write(type_, flags, payloads)
        context.stats.sent(self.target, len(payloads), size)
        try:
            context.registration.check_held_still()
            if self._flushes is not None:
                self._flushes.wait(counter_of(sequence))
                self._check_flushed(failures)
        except SpeedError as error:
            if type_ == EnvelopeType.SPC_REQUEST:
                error.execution = Execution.MAY_HAVE_RUN  # it is written all the same
            raise
        finally:
            self._ring()
        return sequence

    def _write(self, type_: int, flags: int, payloads: Sequence[bytes]) -> None:
        """Seal them and write all at once; what finds no space is tried once more. The caller holds ``lock``."""
        try:
            self._write_now(type_, flags, payloads)
        except StorageError as error:
            written = error.envelopes_written
            if not has_no_space(error) or not self._find_space():
                raise
            try:
                self._write_now(type_, flags, payloads[written:])
            except StorageError as again:
                again.envelopes_written += written
                raise

    def _write_now(self, type_: int, flags: int, payloads: Sequence[bytes]) -> None:
        first = counter = self._counter
        now = unix_ms()
        envelopes: list[bytes] = []
        for payload in payloads:
            counter += 1
            envelopes.append(self._sealer.seal(type_, flags, counter, now, payload, self._nonces.draw()))
        self._writer.opening = self._sealer.opening
        self._counter = counter  # before the write: a signal handler that raises after it must not repeat them
        try:
            self._writer.append(envelopes)
        except StorageError as error:
            self._counter = first + error.envelopes_written
            raise

    def _find_space(self) -> bool:
        """Whether free slots of this node were removed, on a full disk. The caller holds ``lock``."""
        freed = self._writer.release_slots()
        return self._make_space(self) or freed

    def _ring(self) -> None:
        if self.ringer.ring(self._context.id) is RingResult.NOBODY:
            self._context.stats.count(counters.RINGS_UNHEARD)
            self._context.waker.unheard(self.target)

    # --- large payloads (L-29) ---

    @property
    def _takes_slots(self) -> bool:
        """Whether large payloads go into slots: who polls finds a lane by its segments."""
        return "slots" in self.features and not self._context.polling and hasattr(os, "posix_fallocate")

    def _write_mixed(self, type_: int, flags: int, payloads: Sequence[bytes]) -> None:
        """Write them in their order, large ones into slots; ``StorageError`` tells how many went in."""
        before = 0
        try:
            for run in _runs(payloads):
                if len(run[0]) < SLOTTED_BYTES or not self._write_slot(type_, flags, run[0]):
                    self._write(type_, flags, run)
                before += len(run)
        except StorageError as error:
            error.envelopes_written += before
            raise

    def _write_slot(self, type_: int, flags: int, payload: bytes) -> bool:
        """Whether a slot was free. The receiver is rung before the payload is written: it opens what is there."""
        head = self._begin_slot(len(payload))
        if head is None:
            return False
        try:
            self._write(type_, flags | FLAG_SLOTTED, (head.encode(),))
            self._ring()
            self._writer.fill_slot(payload)
        except BaseException:
            self._writer.spoil_slot()
            self._ring()  # the receiver waits no longer
            raise
        return True

    def _begin_slot(self, payload_bytes: int) -> SlotHead | None:
        try:
            return self._writer.begin_slot(payload_bytes)
        except StorageError as error:
            if not has_no_space(error) or not self._find_space():
                raise
            return self._writer.begin_slot(payload_bytes)

    def release_slots(self, *, idle: bool) -> bool:
        """Remove free slots, with ``idle`` those that were not used since the last call; not while somebody writes.

        Whether there were any.
        """
        if not self.lock.acquire(blocking=False):
            return False
        try:
            return self._writer.release_slots(idle=idle)
        finally:
            self.lock.release()

    # --- what may go wrong ---

    def _check_sizes(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            if len(payload) > MAX_PAYLOAD_BYTES:
                raise PayloadTooLargeError(
                    f"{len(payload)} bytes for {self.target!r}; the limit is {MAX_PAYLOAD_BYTES}: send less or in parts"
                )

    def _wait_for_room(self, payload_bytes: int, deadline: float, urgent: bool) -> None:
        """Wait until the receiver has committed enough; the order of senders is kept. The caller holds ``lock``."""
        if urgent or not self._room.wait(partial(self._has_room, payload_bytes), deadline):
            self._check_open()
            raise self._inbox_full()

    def _has_room(self, payload_bytes: int) -> bool:
        if self._is_closed:
            return False
        if self._renewal_due:
            self.reopen()
        return self._writer.room(payload_bytes)

    def _check_room(self, payload_bytes: int) -> None:
        with self.lock:
            self._check_open()
            if payload_bytes > self._context.window_bytes or self._room.turns or not self._has_room(payload_bytes):
                raise self._inbox_full()

    def _inbox_full(self) -> InboxFullError:
        return InboxFullError(
            f"the inbox of {self.target!r} is full ({self._context.window_bytes} bytes may wait there): "
            "it reads too slowly or has stopped reading; retry later or send less"
        )

    def _check_flushed(self, failures: int) -> None:
        """StorageError if any flush failed since this thread appended: a device tells of a loss only once."""
        if self._writer.flush_failures != failures:
            why = self._writer.flush_error or "see `speed root doctor`"
            raise StorageError(f"what was sent to {self.target!r} may not survive a power cut: {why}")

    def _flush(self) -> int:
        """Others append while the flush runs, and are in the next one. The writer counts one that fails."""
        with contextlib.suppress(StorageError):
            with self.lock:
                counter = self._counter
                flush = self._writer.flush()
            flush()
        return counter

    def renew(self) -> None:
        """Have the next envelope begin a new file and open the bell again; waits for no sender."""
        self._renewal_due = True
        if self.lock.acquire(blocking=False):
            try:
                self.reopen()
            finally:
                self.lock.release()

    def rest(self) -> None:
        """Hold no file open until the next envelope; whoever writes just now goes on."""
        self.rests = True
        self.renew()

    def reopen(self) -> None:
        """Close lane and bell; the next envelope opens them. The caller holds ``lock``."""
        self._renewal_due = False
        self._sealer.seal_for(self.target_life, self.bond)
        self._writer.close()
        self.ringer.close()

    def _check_open(self, is_last: bool = False) -> None:
        """Nothing is written, and nothing opened, once the node has let go of its links; but for its last word."""
        if self._is_closed and not is_last:
            self._context.check_open()
            raise NodeClosedError("the node was closed: nothing was written")

    def end(self) -> None:
        """What is being written is the last, but for ``say_leave``: a successor's fence may lie behind it (L-18)."""
        with self.lock:
            self._is_closed = True
            self._writer.release_slots()

    def say_leave(self, payload: bytes) -> None:
        """The last word, once the name is given up; it may be lost, and waits for nothing."""
        self._append(EnvelopeType.DISCOVERY, 0, (payload,), 0.0, True, None, is_last=True)

    def close(self) -> None:
        """For good."""
        with self.lock:
            self._is_closed = True
            self.reopen()
            self.ringer.shut()


def _runs(payloads: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Large ones one by one, and what lies between them together, in their order."""
    run: list[bytes] = []
    for payload in payloads:
        if len(payload) < SLOTTED_BYTES:
            run.append(payload)
            continue
        if run:
            yield run
            run = []
        yield (payload,)
    if run:
        yield run
