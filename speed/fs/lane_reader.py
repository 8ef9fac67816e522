"""The receiver's end of a lane: reading, checking, committing (L-10 to L-19). What is verified is a private copy."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable

from speed.core import counters
from speed.core.lane import (
    COUNTED_AS,
    ByteWindow,
    Damage,
    LaneProgress,
    LinkReceiver,
    Opened,
    Position,
    Repeats,
    Scan,
    SequenceVerdict,
    Token,
)
from speed.errors import LeaseLostError, WireError
from speed.fs.claim import forgotten_up_to
from speed.fs.dead_letters import Quarantine
from speed.fs.lane_files import LaneAhead, LaneFile, LaneFiles, Openings
from speed.fs.open import UntrustedFileError
from speed.fs.slots import CHUNK_BYTES, EnvelopeReader, OpenedEnvelope, SlotReader, SlotState, read_at
from speed.wire import names
from speed.wire.cursor import Cursor, SlotHead, Unfinished
from speed.wire.envelope import FLAG_SLOTTED, Header
from speed.wire.identities import BoundLink, NodeIdentity
from speed.wire.limits import MAX_QUARANTINED_BYTES, MAX_UNFINISHED
from speed.wire.seal import Keyring

_LAZY_BYTES = 1 << 20
LARGE_BYTES = 4 << 20
"""A payload above this is one that a thread with other lanes to read may leave to another."""


class LaneReader:
    """Reads one lane in order. Not thread-safe: the lane's lock guards it.

    ``counts`` holds what was dropped or strange: duplicates, gaps, torn tails, damage, fenced bytes.
    ``is_live(generation)`` says whether the sender still lives in a generation; only a scan asks.
    """

    def __init__(
        self,
        root: str,
        source: str,
        target: str,
        generation: int,
        keyring: Keyring,
        quarantine: Quarantine,
        *,
        ephemeral: bool = False,
        is_remote: bool = False,
        is_live: Callable[[int], bool] = lambda _: False,
        identity: Callable[[], NodeIdentity] | None = None,
    ) -> None:
        source_id, target_id = ids = names.node_id(source), names.node_id(target)
        self._files = LaneFiles(names.lane_dir(root, target, source), keyring.lane_keys(*ids), quarantine)
        self._root = root
        self._keyring = keyring
        self._source = source
        self._quarantine = quarantine
        life = generation if ephemeral else 0
        self.openings: Openings | None = None
        """Of bound links; None without an identity."""
        if identity is not None:
            self.openings = Openings(identity, keyring, self._files, BoundLink(source_id, target_id, 0, life))
        self._envelopes = EnvelopeReader(source_id, target_id, keyring, life, self.openings)
        self._generation = generation
        self._fd = -1
        self._needed = 0
        self._looked_through = 0
        """Where the file ended when an incomplete envelope was last read; it is read again only once the file grew."""
        self._dirty = 0
        self._again: list[tuple[Unfinished, Token]] = []
        self._slotted: SlotReader | None = None
        """A payload that is not whole yet: nothing behind it is read meanwhile."""
        self._is_live = is_live
        self._is_remote = is_remote
        self._is_open = self._is_replaced = False
        self._sealed = False
        self._first: Cursor | None = None
        """The first cursor, until it is kept for callers; None before it was published."""
        self._has_start = False
        self.counts: dict[str, int] = {}
        try:
            self._ahead = LaneAhead(self._files, self._count)
            self._recover()
            self._is_open = True
        except BaseException:
            self._files.close()
            raise

    @property
    def is_full(self) -> bool:
        """Whether more is handed out and not finished than a lane may have in hand (L-19)."""
        return self._slotted is None and self._progress.is_full

    @property
    def is_idle(self) -> bool:
        """Whether everything that was handed out is finished."""
        return not self._progress.pending and not self._again

    @property
    def holds_large(self) -> bool:
        """Whether a large envelope comes next, and is wholly there, or a large payload in a slot."""
        if self._slotted is not None:
            return self._slotted.payload_bytes > LARGE_BYTES
        if self._fd < 0 or self._needed <= LARGE_BYTES:
            return False
        return os.fstat(self._fd).st_size - self._position.offset >= self._needed

    # --- where a former process stopped (L-15) ---

    def _recover(self) -> None:
        """Take over the newest valid cursor and publish an own one before anything is handed out."""
        self._was_open = self._generation in self._ahead.cursors
        tried: set[tuple[int, int]] = set()
        while True:
            self._check_not_replaced()
            self._seal(tried)
            cursor = self._take_over(*self._ahead.newest_cursor(self._generation + self._was_open))
            if not self._write_cursor(self._cursor()):
                if cursor.clean:
                    self._files.mark_unclean(cursor)
                break
            self._ahead.list_again()
            self._check_not_replaced()
            if not self._unsealed() - tried:
                self._seal_own()
                self._ahead.remove_cursors_below(self._generation)
                break
        self._files.let_go_of_sealed()

    def _check_not_replaced(self) -> None:
        """LeaseLostError if there is a cursor of a successor, or the own one was sealed by it."""
        newest = max(self._ahead.cursors, default=0)
        is_sealed = newest == self._generation and not self._files.may_write(newest)[0]
        if newest > self._generation or is_sealed:
            raise self._replaced()

    def _replaced(self) -> LeaseLostError:
        return LeaseLostError(f"a newer process reads the lane of {self._source!r}: this one was replaced")

    def _seal(self, tried: set[tuple[int, int]]) -> None:
        """Let no former generation begin anything more (L-31)."""
        tried.update((one, self._files.seal(one)) for one in self._ahead.cursors if one < self._generation)

    def _unsealed(self) -> set[tuple[int, int]]:
        """Cursors of former generations that have their write bit, with the numbers of their files."""
        found = set()
        for generation in self._ahead.cursors:
            if generation < self._generation:
                is_writable, inode = self._files.may_write(generation)
                if is_writable:
                    found.add((generation, inode))
        return found

    def _seal_own(self) -> None:
        """The own cursor is the only one that still changes: say so, unless it was there when the lane was opened.

        Where a former one is damaged, nobody knows what that life had begun: callers must not read it from this one.
        """
        if not self._was_open:
            self._sealed = not self._is_remote and not self._unsealed()
        if self._sealed:
            self._write_cursor(self._cursor())
        self._first = self._cursor()
        self._has_start = self._generation in self._ahead.starts
        if self._is_doubtful:
            self._first = None
            self._keep_start()

    def _cursor(self, clean: bool = False) -> Cursor:
        return self._progress.cursor(self._generation, clean, self._sealed)

    def _take_over(self, cursor: Cursor | None, damaged: bool) -> Cursor:
        """Go on where a cursor says; without one at the beginning. Returns what it goes on from."""
        if cursor is None:
            first = self._ahead.first_file(forgotten_up_to(self._root, self._source, self._keyring))
            cursor = Cursor(self._generation, *first, 0, 0, (), clean=True)
        self._position = Position(cursor.sender_generation, cursor.file, cursor.offset)
        self._link = LinkReceiver(cursor.last_sequence)
        self._progress = LaneProgress(self._position, cursor.last_sequence)
        self._again = [(entry, self._progress.redispatched(entry)) for entry in cursor.unfinished]
        until = self._ahead.end(self._position) if damaged or not cursor.clean else Position(0, 0, 0)
        # A cursor of this very generation: the lane failed and is opened again, with any number in the program's hands.
        is_own = self._was_open and cursor.receiver_generation == self._generation
        self._sealed = is_own and cursor.sealed
        is_full = len(cursor.unfinished) >= MAX_UNFINISHED
        self._unsure = self._was_open and damaged
        self._is_doubtful = damaged and not self._was_open
        self._unsure_past_cursor = self._unsure or (self._was_open and is_full)
        self._repeats: Repeats | None = Repeats(until, all_types=damaged or is_own or is_full)
        self._deliveries = self._files.deliveries(self._generation, self._ahead.deliveries, self._count)
        return cursor

    # --- reading ---

    def read(
        self, max_envelopes: int, max_bytes: int, now: float, *, scan: bool = False, large: bool = True
    ) -> tuple[list[OpenedEnvelope], bool]:
        """Up to the given number of envelopes and bytes, and whether more may wait.

        ``now`` is monotonic seconds; ``scan`` marks the periodic look at everything; without ``large`` it stops before
        a large envelope. OSError if the filesystem fails; what was not returned is read again.
        """
        received: list[OpenedEnvelope] = []
        taken = 0
        if scan:
            self._look_around(now)
        while len(received) < max_envelopes and taken < max_bytes:
            if not large and self.holds_large:
                return received, True
            if self._slotted is not None:
                taken += self._read_slot(self._slotted, received, now, scan)
                if self._slotted is not None:
                    return received, False
                continue
            if self._again:
                taken += self._read_again(received)
                continue
            if self._fd < 0 and not self._open_next(now):
                return received, False
            final = self._ahead.successor(self._position) is not None
            passed, at_end = self._read_window(received, max_envelopes - len(received), now, scan, final)
            taken += passed
            if at_end and final:
                self._leave_file()
            elif at_end and self._ahead.successor(self._position) is None:
                return received, False
        return received, True

    def _look_around(self, now: float) -> None:
        self._ahead.look(self._position, now)
        if self._files.has_new_key:
            self._rewrite()
        elif self._dirty:
            self.commit()

    def _read_window(
        self, received: list[OpenedEnvelope], limit: int, now: float, scan: bool, last: bool
    ) -> tuple[int, bool]:
        """Take what one read brings; returns its cost in bytes and whether nothing more can be taken now.

        ``last``: the file had a successor before this read, so no byte follows what it brings (L-17).
        """
        position = self._position
        want = CHUNK_BYTES if self._needed <= CHUNK_BYTES else self._window_bytes(scan or last)
        if not want or self._is_unchanged(last):
            self._ahead.look_if_due(position, now)
            return 0, True
        data = read_at(self._fd, position.offset, want)
        length = len(data)
        self._ahead.look_if_due(position, now)
        if not length:
            return 0, True
        visible = self._ahead.before_fence(position, length)
        ended = (last and length < want) or visible < length
        window = ByteWindow(data[:visible], position.offset, position.generation, ended, scan)
        scanned = self._envelopes.decoder.scan(window, limit)
        self._take(scanned, data, ended)
        self._accept(scanned.items, received)
        if scanned.more:
            # A search after damage may have authenticated the whole window many times over.
            searched = any(isinstance(item, Damage) for item in scanned.items)
            return max(scanned.consumed, CHUNK_BYTES) if searched else scanned.consumed, False
        if scanned.consumed or ended:
            return scanned.consumed, length < want or ended
        # An incomplete envelope fills the window. More of it may be there, and in a file that nobody
        # writes to any more the next window is all that is left.
        grown = os.fstat(self._fd).st_size - position.offset
        if scan and length < want:
            self._looked_through = position.offset + length
        return 0, not last and grown < scanned.needed

    def _is_unchanged(self, last: bool) -> bool:
        """Whether the file has not grown since the incomplete envelope at the position was read."""
        return not last and self._looked_through > 0 and os.fstat(self._fd).st_size <= self._looked_through

    def _window_bytes(self, whole: bool) -> int:
        """How much to read of a large envelope: all once it is there; 0: wait for it."""
        available = os.fstat(self._fd).st_size - self._position.offset
        if available < self._needed and not whole:
            return 0
        return max(CHUNK_BYTES, min(self._needed, available + 1))

    def _take(self, scanned: Scan, data: bytes, ended: bool) -> None:
        """Move the position past what was settled, and put damage aside while its bytes are at hand."""
        self._needed = scanned.needed
        if not scanned.consumed:
            return
        generation, file, offset = self._position
        self._position = Position(generation, file, offset + scanned.consumed)
        self._looked_through = 0
        for item in scanned.items:
            if type(item) is Damage:
                self._put_aside(item, data[item.start - offset :], torn=ended and item is scanned.items[-1])

    def _put_aside(self, damage: Damage, data: bytes, *, torn: bool) -> None:
        """Keep damaged bytes with their reason; a torn tail was never acknowledged and is dropped (L-17)."""
        if torn and damage.reason == "TRUNCATED":
            self._count(counters.TORN_TAILS)
            return
        sample = data[: min(damage.end - damage.start, MAX_QUARANTINED_BYTES)]  # L-20
        self._keep(sample, damage.reason, names.lane_file_name(*self._position[:2]), damage.start)

    def _keep(self, sample: bytes, reason: str, filename: str, offset: int) -> None:
        """Count damage, and put its bytes into quarantine."""
        self._count(counters.damaged(reason))
        self._quarantine.put(sample, f"{self._source} {filename}", reason, offset)

    def _accept(self, items: Iterable[Opened | Damage], received: list[OpenedEnvelope]) -> None:
        """Apply the sequence rules and hand out what they let through."""
        generation, file, offset = self._position
        link, progress = self._link, self._progress
        for item in items:
            if type(item) is not Opened:
                continue
            header, payload, start, end = item
            sequence = header.sequence
            verdict = link.judge(sequence)
            if verdict:
                self._count(COUNTED_AS[verdict])
                if verdict > SequenceVerdict.GAP:
                    continue
            token = progress.dispatched(sequence, generation, file, start, end)
            repeated = self._repeats is not None and self._may_be_repeated(self._repeats, header, token)
            self._hand_out(
                OpenedEnvelope(header, payload, repeated, token, repeated and self._unsure_past_cursor), received
            )
        if progress.tail_offset != offset:
            progress.skip_to(self._position)
            self._dirty += 1

    def _hand_out(self, envelope: OpenedEnvelope, received: list[OpenedEnvelope]) -> None:
        """What is whole at once; a payload in a slot follows when it is."""
        if envelope.header.flags & FLAG_SLOTTED:
            self._begin_slot(envelope)
        else:
            received.append(envelope)

    def _may_be_repeated(self, repeats: Repeats, header: Header, token: Token) -> bool:
        if repeats.are_over(token):
            self._repeats = None
        return self._repeats is not None and repeats.may_include(header)

    def _read_again(self, received: list[OpenedEnvelope]) -> int:
        """Redeliver the next of what a former process had begun and not finished; returns its cost in bytes."""
        entry, token = self._again.pop(0)
        found = self._envelope_at(entry)
        if found is None or found.header.sequence != entry.sequence:
            self.finish(token)
            self._count(counters.REDELIVERIES_LOST)
            return 0
        self._progress.found_again(token, found.end)
        self._hand_out(OpenedEnvelope(found.header, found.payload, True, token, self._unsure), received)
        return found.end - found.start

    def _envelope_at(self, entry: Unfinished) -> Opened | None:
        try:
            fd = self._files.open_file(entry.generation, entry.file)
        except (FileNotFoundError, UntrustedFileError):
            return None
        try:
            return self._envelopes.at(fd, entry.generation, entry.offset)
        finally:
            os.close(fd)

    # --- payloads in slots (L-30) ---

    def _begin_slot(self, envelope: OpenedEnvelope) -> None:
        """Have the payload read next; an envelope that does not say where it lies is damage."""
        token = envelope.token
        try:
            head = SlotHead.decode(envelope.payload)
        except WireError as error:
            self._put_envelope_aside(token, error.reason)
            self.finish(token)
            return
        self._progress.lies_in_slot(token, head.number, head.payload_bytes)
        self._slotted = SlotReader(head, envelope)

    def _put_envelope_aside(self, token: Token, reason: str) -> None:
        """As it came: sealed."""
        fd = self._files.open_file(token.generation, token.file)
        try:
            sample = read_at(fd, token.start, min(token.end - token.start, MAX_QUARANTINED_BYTES))
        finally:
            os.close(fd)
        self._keep(sample, reason, names.lane_file_name(token.generation, token.file), token.start)

    def _read_slot(self, slotted: SlotReader, received: list[OpenedEnvelope], now: float, scan: bool) -> int:
        """Take the pieces that are there; the payload is handed out once it is whole. Returns the cost in bytes."""
        state = self._pieces_of(slotted, now, scan)
        if state is SlotState.WAITS:
            return 0
        self._slotted = None
        if state is SlotState.WHOLE:
            received.append(slotted.whole())
            return slotted.payload_bytes
        if state is SlotState.DAMAGED:
            self._keep(slotted.missing, "BAD_SLOT", slotted.name, slotted.missing_at)
        else:
            self._count(counters.TORN_SLOTS)
        self.finish(slotted.envelope.token)
        return slotted.payload_bytes

    def _pieces_of(self, slotted: SlotReader, now: float, scan: bool) -> SlotState:
        try:
            fd = self._files.open_named(slotted.name)
        except FileNotFoundError:
            return SlotState.TORN
        except UntrustedFileError:
            self._count(counters.SLOTS_REFUSED)
            self._files.put_aside(slotted.name, "UNTRUSTED_FILE")
            return SlotState.TORN
        try:
            return slotted.read(fd, lambda: self._fate(slotted.envelope.token, now, scan))
        finally:
            os.close(fd)

    def _fate(self, token: Token, now: float, scan: bool) -> SlotState:
        """What a missing piece means: its sender writes nothing else before the last one, a later life may."""
        self._ahead.look_if_due(self._position, now)
        by = self._ahead.followed_by((token.generation, token.file), token.end)
        if by:
            return SlotState.DAMAGED if by == token.generation else SlotState.TORN
        return SlotState.TORN if scan and not self._is_live(token.generation) else SlotState.WAITS

    # --- files ---

    def _leave_file(self) -> None:
        """Go to the next file: all of this one was read, and nothing is written to it any more (L-17)."""
        self._release()
        successor = self._ahead.sure_successor(self._position)
        if successor is not None:
            self._begin(successor)
        self.commit()

    def _open_next(self, now: float) -> bool:
        """Open the file at the position, or the next one there is."""
        file = self._ahead.file_at(self._position, now)
        if file is None:
            return False
        self._fd = self._ahead.open(file, self._position, now)
        if self._fd < 0:
            return False
        if file != (self._position.generation, self._position.file):
            self._begin(file)
        self._needed = 0
        return True

    def _begin(self, file: LaneFile) -> None:
        self._position = Position(*file, 0)
        self._looked_through = 0
        self._progress.skip_to(self._position)

    # --- finishing ---

    def begin_again(self, token: Token) -> int:
        """Count another start of a redelivered message before it runs; returns how often it was begun (L-25).

        A note that cannot be written is counted: one death more is needed before the message is given up.
        """
        try:
            return self._deliveries.begin(token.sequence)
        except OSError:
            self._count(counters.DELIVERIES_FAILED)
            return 2

    def begin(self, token: Token, *, listed: bool) -> bool:
        """Commit a request before it is begun (S-8); ``listed`` keeps it in the cursor until it is finished.

        False if that could not be written. LeaseLostError if a successor sealed the cursor: then it does not begin.
        """
        if listed:
            self._progress.begin(token)
        else:
            self.finish(token, lazy=True)
        written = self.commit()
        if self._is_replaced or (written and self._files.is_sealed):
            raise self._replaced()
        return written

    def keep_start(self) -> None:
        """Before a request for another generation is finished: keep what its caller reads (L-31)."""
        if self._first is not None:
            self._keep_start()

    def _keep_start(self) -> None:
        if self._has_start:
            return
        self._has_start = True
        try:
            self._files.keep_start(self._generation, self._first, self._ahead.starts)
        except OSError:  # callers learn less
            self._count(counters.STARTS_FAILED)

    def finish(self, token: Token, *, lazy: bool = False) -> None:
        """Mark an envelope as done and commit, unless ``lazy``: then with the next commit or scan.

        One whose payload lay in a slot is committed at once: its sender may wait for that slot.
        """
        if not self._progress.finish(token) and not self._dirty:
            return  # it was committed when it began
        try:
            self._deliveries.finished(token.sequence)
        except OSError:
            self._count(counters.DELIVERIES_FAILED)
        if lazy and not token.slot:
            self._dirty += token.end - token.start
            if self._dirty < _LAZY_BYTES:
                return
        self.commit()

    def commit(self) -> bool:
        """Write the cursor, then remove files that nothing needs any more (L-14, L-17); whether it was written."""
        cursor = self._cursor()
        written = self._write_cursor(cursor)
        if not self._ahead.is_passed(cursor) or (not written and self._progress.pending):
            return written
        # Without space for a cursor only this frees some; the next start begins at what is left.
        self._ahead.remove_passed(cursor, self._progress.needs_slot)
        return written or self._write_cursor(cursor)

    def _rewrite(self) -> None:
        """Write again what an older key protects (W-20), so that it can be retired. A failure is tried again."""
        try:
            self._deliveries.rewrite()
        except OSError:
            self._count(counters.COMMITS_FAILED)
        else:
            self.commit()

    def _write_cursor(self, cursor: Cursor) -> bool:
        """Commit; a failure is counted and tried again by the next scan: until then a crash redelivers."""
        try:
            is_first = self._files.write_cursor(cursor)
        except OSError as error:
            self._count(counters.COMMITS_FAILED)
            self._dirty = max(1, self._dirty)
            if self._is_open and error.errno in (errno.EACCES, errno.ENOENT):
                self._look_for_successor()
            return False
        if is_first and self._is_open:
            self._look_for_successor()
        self._ahead.committed = cursor.sender_generation
        self._dirty = 0
        return True

    def _look_for_successor(self) -> None:
        """Where the own cursor is sealed or gone, or could not be written when the lane was opened."""
        try:
            is_writable, inode = self._files.may_write(self._generation)
            above = any(generation > self._generation for generation in self._files.list().cursors)
            self._is_replaced = above or (inode > 0 and not is_writable)
        except OSError:  # it is looked at again with the next commit
            self._count(counters.COMMITS_FAILED)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def close(self, *, clean: bool = False) -> None:
        """Commit and release; ``clean`` says that everything handed out is finished."""
        in_hand = len(self._progress.pending) - (self._slotted is not None)
        try:
            self._write_cursor(self._cursor(clean and not in_hand))
        finally:
            self.abandon()

    def rest(self) -> None:
        """Hold nothing open until the next use; what was finished is committed first, all else stays as it is."""
        try:
            if self._dirty:
                self.commit()
        finally:
            self._release()
            self._files.rest()

    def abandon(self) -> None:
        """Release the descriptors without writing."""
        self._release()
        self._files.close()

    def _release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
