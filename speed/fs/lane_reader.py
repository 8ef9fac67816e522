"""The receiver's end of a lane: reading, checking, committing (L-10 to L-19).

Every read goes through ``pread`` into private memory, so that nothing can change after it was verified.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from speed.core.lane import LaneFormat
from speed.core.link import Arrival, LinkSequence
from speed.core.progress import Position, Progress
from speed.errors import WireError
from speed.fs.lane_files import LaneFiles
from speed.wire import names
from speed.wire.cursor import Cursor, Fence
from speed.wire.envelope import ENVELOPE_OVERHEAD, Header, generation_of
from speed.wire.limits import SEGMENT_BYTES
from speed.wire.seal import Keyring, LinkOpener

CHUNK_BYTES = 64 << 10
LOOK_SECONDS = 0.1
"""How old the knowledge of fences and newer generations may be when bytes are accepted; below any lease."""
LAZY_BYTES = 1 << 20
RESYNC_BYTES = 1 << 20


class Received(NamedTuple):
    """One authentic envelope; ``token`` finishes it."""

    header: Header
    payload: bytes
    redelivered: bool
    token: int


Keep = Callable[[bytes, str, str], None]


class LaneReader:
    """Reads one lane in order. Not thread-safe: the lane's lock guards it.

    ``counts`` holds what was dropped: duplicates, gaps, torn tails, damage, envelopes behind a fence.
    """

    def __init__(self, root: str, source: str, target: str, generation: int, keyring: Keyring, keep: Keep) -> None:
        source_id, target_id = names.node_id(source), names.node_id(target)
        self._files = LaneFiles(names.lane_dir(root, target, source), keyring.lane_keys(source_id, target_id))
        self._source = source
        self._keep = keep
        self._format = LaneFormat(source_id, target_id)
        self._opener = LinkOpener(keyring, source_id, target_id)
        self._generation = generation
        self._large = bytearray()
        self._fd = -1
        self._fence: Fence | None = None
        self._looked = 0.0
        self._dirty_bytes = 0
        self._suspect_until = Position(0, 0, 0)
        self._damaged = False
        self.counts: dict[str, int] = {}
        self._listing = self._files.list()
        self._recover()

    @property
    def unfinished(self) -> int:
        return len(self._progress)

    # --- where a former process stopped ---

    def _recover(self) -> None:
        """Take over the newest valid cursor and publish one's own before anything is dispatched."""
        cursor = self._newest_cursor()
        first = self._listing.segments[0] if self._listing.segments else (0, 0)
        if cursor is None:
            self._position = Position(*first, 0)
            self._sequence = LinkSequence()
            self._again: list[tuple[int, Position]] = []
        else:
            self._position = Position(cursor.sender_generation, cursor.segment, cursor.offset)
            self._sequence = LinkSequence(cursor.last_sequence)
            self._again = [
                (entry.sequence, Position(entry.generation, entry.segment, entry.offset)) for entry in cursor.unfinished
            ]
            if not cursor.clean:
                self._suspect_until = self._lane_end()
        self._progress = Progress(self._position, self._sequence.last)
        for sequence, position in self._again:
            self._progress.dispatched(sequence, position, position)
        self._files.create_cursor(self._cursor())
        for generation in self._listing.cursors:
            if generation < self._generation:
                self._files.remove(names.cursor_name(generation))

    def _newest_cursor(self) -> Cursor | None:
        for generation in self._listing.cursors:
            if generation <= self._generation:
                cursor = self._files.read_cursor(generation)
                if cursor is not None:
                    return cursor
                self._count("cursors_damaged")
        return None

    def _lane_end(self) -> Position:
        """The present end of the lane: what lies before it may have been handled already."""
        if not self._listing.segments:
            return self._position
        last = self._listing.segments[-1]
        try:
            fd = self._files.open_segment(*last)
        except OSError:
            return self._position
        try:
            return Position(*last, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def _cursor(self, *, clean: bool = False) -> Cursor:
        position, last, unfinished = self._progress.committed()
        return Cursor(self._generation, position.generation, position.segment, position.offset, last, unfinished, clean)

    # --- reading ---

    def read(
        self, max_envelopes: int, max_bytes: int, now: float, *, scan: bool = False
    ) -> tuple[list[Received], bool]:
        """Up to the given number of envelopes and bytes, and whether more may wait.

        ``now`` is monotonic seconds; ``scan`` marks the periodic look at everything. OSError if the
        filesystem fails; what was not returned is read again.
        """
        received: list[Received] = []
        if self._again:
            self._read_again(received)
        if scan:
            self._look(now)
            if self._dirty_bytes:
                self.commit()
        taken = 0
        while len(received) < max_envelopes and taken < max_bytes:
            if self._fd < 0 and not self._open_next(now, look=scan or not received):
                return received, False
            progress = self._read_chunk(received, max_envelopes, now, scan)
            taken += progress
            if not progress and not self._segment_over(now):
                return received, False
        return received, True

    def _read_again(self, received: list[Received]) -> None:
        """Redeliver what a former process had begun and not finished."""
        again, self._again = self._again, []
        for sequence, position in again:
            try:
                fd = self._files.open_segment(position.generation, position.segment)
            except OSError:
                self._progress.finished(sequence)
                self._count("redeliveries_lost")
                continue
            try:
                envelope = self._envelope_at(fd, position.offset)
            finally:
                os.close(fd)
            if envelope is None or envelope[0].sequence != sequence:
                self._progress.finished(sequence)
                self._count("redeliveries_lost")
            else:
                received.append(Received(envelope[0], envelope[1], True, sequence))

    def _envelope_at(self, fd: int, offset: int) -> tuple[Header, bytes] | None:
        try:
            header = self._format.header_at(os.pread(fd, 88, offset), 0)
            if header is None:
                return None
            data = os.pread(fd, header.payload_bytes + ENVELOPE_OVERHEAD, offset)
            return header, self._opener.open(header, data)
        except WireError:
            return None

    def _read_chunk(self, received: list[Received], max_envelopes: int, now: float, scan: bool) -> int:
        """Read and take envelopes at the position; returns how many bytes were passed."""
        offset = self._position.offset
        chunk = os.pread(self._fd, CHUNK_BYTES, offset)
        if not chunk:
            return 0
        if now - self._looked > LOOK_SECONDS:
            self._look(now)
        at = 0
        while len(received) < max_envelopes:
            try:
                header = self._format.header_at(chunk, at)
            except WireError as error:
                return self._skip_damage(at, error) + at
            if header is None:
                break
            size = header.payload_bytes + ENVELOPE_OVERHEAD
            if self._fence is not None and not self._before_fence(offset + at + size):
                self._count("rejected_behind_fence")
                self._leave_segment()
                return at + 1
            if len(chunk) - at < size:
                if at or not self._take_large(header, size, received):
                    break
                return size
            try:
                self._take(header, chunk[at : at + size] if at or len(chunk) != size else chunk, received)
            except WireError as error:
                return self._skip_damage(at, error, size) + at
            at += size
        if not at and scan and chunk:
            return self._check_waiting()
        return at

    def _take_large(self, header: Header, size: int, received: list[Received]) -> bool:
        """Take one envelope larger than the chunk, read into a reused buffer; False if it is incomplete."""
        offset = self._position.offset
        if os.fstat(self._fd).st_size - offset < size:
            return False
        if len(self._large) < size:
            self._large = bytearray(size)
        view = memoryview(self._large)[:size]
        done = 0
        while done < size:
            count = os.preadv(self._fd, [view[done:]], offset + done)
            if not count:
                return False
            done += count
        try:
            self._take(self._format.header_at(view, 0) or header, view, received)
        except WireError as error:
            self._skip_damage(0, error, size)
        finally:
            view.release()
            if size > 4 << 20:
                self._large = bytearray()  # do not keep the memory of a rare giant
        return True

    def _take(self, header: Header, envelope: bytes | memoryview, received: list[Received]) -> None:
        """Verify one whole envelope and move the position past it; WireError leaves the position."""
        payload = self._opener.open(header, envelope)
        start = self._position
        end = Position(start.generation, start.segment, start.offset + len(envelope))
        sequence = header.sequence
        if generation_of(sequence) != start.generation:
            raise WireError("BAD_SEQUENCE", "the generation is not that of its segment")
        self._position = end
        self._damaged = False
        arrival = self._sequence.arrived(sequence)
        if arrival is Arrival.DUPLICATE:
            self._count("duplicates")
            self._progress.skipped(end)
            return
        if arrival is Arrival.GAP:
            self._count("gaps")
        self._progress.dispatched(sequence, start, end)
        received.append(Received(header, payload, start < self._suspect_until, sequence))

    # --- damage ---

    def _skip_damage(self, at: int, error: WireError, size: int = 0) -> int:
        """Find the next authentic envelope after damage; returns how many bytes to pass from ``at``.

        Without one, an envelope of sound framing is passed alone; otherwise the position waits for more.
        """
        start = self._position.offset + at
        data, resume = self._search(start)
        if resume is None and not size:
            if not self._damaged:
                self._report_damage(start, data[: 1 << 16], error)
                self._damaged = True
            self._move_to(start)
            return 0
        passed = size if resume is None else resume
        if not self._damaged:
            self._report_damage(start, data[:passed], error)
        self._damaged = False
        self._move_to(start + passed)
        return passed

    def _search(self, start: int) -> tuple[bytes, int | None]:
        """Bytes from ``start`` to the segment's end (bounded) and the offset of an authentic envelope in them."""
        remaining = max(0, os.fstat(self._fd).st_size - start)
        data = os.pread(self._fd, min(remaining, SEGMENT_BYTES + RESYNC_BYTES), start)
        return data, self._format.resume_after(data, 1, self._opener.open)

    def _check_waiting(self) -> int:
        """An incomplete envelope waits: if an authentic one lies inside it, its length was a lie."""
        start = self._position.offset
        data, resume = self._search(start)
        if resume is None:
            return 0
        self._report_damage(start, data[:resume], WireError("TRUNCATED", "its length reaches over others"))
        self._move_to(start + resume)
        return resume

    def _report_damage(self, start: int, data: bytes, error: WireError) -> None:
        self._count(f"damaged_{error.reason.lower()}")
        place = names.segment_name(self._position.generation, self._position.segment)
        self._keep(data, str(error), f"{self._source} {place} at {start}")

    def _move_to(self, offset: int) -> None:
        self._position = self._position._replace(offset=offset)
        self._progress.skipped(self._position)

    # --- from segment to segment ---

    def _look(self, now: float) -> None:
        """List the lane again: fences, newer generations, foreign files."""
        self._looked = now
        self._listing = self._files.list()
        for filename in self._listing.foreign:
            self._count("foreign_files")
            self._files.remove(filename)
        generation = self._listing.fence
        if generation and (self._fence is None or self._fence.new_generation < generation):
            self._fence = self._files.read_fence(generation)
        if self._fence is not None and self._position.generation >= self._fence.new_generation:
            self._files.remove(names.fence_name(self._fence.new_generation))
            self._fence = None

    def _before_fence(self, end: int) -> bool:
        fence = self._fence
        if fence is None or self._position.generation >= fence.new_generation:
            return True
        here = (self._position.generation, self._position.segment)
        return (*here, end) <= (fence.old_generation, fence.segment, fence.size)

    def _segment_over(self, now: float) -> bool:
        """At the end of the segment: leave it if a successor exists. True if there is something to go on with."""
        if not self._successor():
            self._look(now)
            return self._successor() is not None  # read once more: the sender may have written before it went on
        tail = os.fstat(self._fd).st_size - self._position.offset if self._fd >= 0 else 0
        if tail and not self._damaged:
            self._count("torn_tails")
        self._leave_segment()
        return True

    def _successor(self) -> tuple[int, int] | None:
        here = (self._position.generation, self._position.segment)
        return next((segment for segment in self._listing.segments if segment > here), None)

    def _leave_segment(self) -> None:
        """Go to the next segment, or wait behind a fence until there is one."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        successor = self._successor()
        if successor is not None:
            self._position = Position(*successor, 0)
        else:
            self._position = Position(self._position.generation, self._position.segment + 1, 0)
        self._damaged = False
        self._progress.skipped(self._position)
        self.commit()

    def _open_next(self, now: float, *, look: bool) -> bool:
        """Open the segment at the position, or the next one there is."""
        here = (self._position.generation, self._position.segment)
        candidates = [segment for segment in self._listing.segments if segment >= here]
        if not candidates:
            if look:
                self._look(now)
                candidates = [segment for segment in self._listing.segments if segment >= here]
            if not candidates:
                return False
        try:
            self._fd = self._files.open_segment(*candidates[0])
        except OSError:
            self._count("segments_unreadable")
            self._files.remove(names.segment_name(*candidates[0]))
            self._look(now)
            return False
        if candidates[0] != here:
            self._position = Position(*candidates[0], 0)
            self._progress.skipped(self._position)
        return True

    # --- finishing ---

    def finish(self, token: int, *, lazy: bool = False) -> None:
        """Mark an envelope as done and commit, unless ``lazy``: then with the next commit or scan."""
        self._progress.finished(token)
        if lazy:
            self._dirty_bytes += 256
            if self._dirty_bytes < LAZY_BYTES:
                return
        self.commit()

    def commit(self) -> None:
        """Write the cursor and remove segments that nothing needs any more."""
        self._dirty_bytes = 0
        self._files.write_cursor(self._cursor())
        if self._listing.segments and self._listing.segments[0] < self._progress.oldest_needed():
            self._remove_read_segments()

    def _remove_read_segments(self) -> None:
        needed = self._progress.oldest_needed()
        for segment in [segment for segment in self._listing.segments if segment < needed]:
            self._files.remove(names.segment_name(*segment))
            self._listing.segments.remove(segment)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def close(self, *, clean: bool = False) -> None:
        """Commit and release; ``clean`` says that nothing is in anybody's hands."""
        try:
            self._files.write_cursor(self._cursor(clean=clean and not self.unfinished))
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the descriptors without writing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._files.close()
