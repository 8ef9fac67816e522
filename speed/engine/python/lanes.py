"""All lanes of an inbox: known, open, looked at next (L-21, L-26), and each as those who finish envelopes share it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from speed.core import counters
from speed.core.lane import Awake, Token
from speed.core.log import logger
from speed.engine import threads
from speed.engine.python.context import Context, Stats
from speed.errors import SpeedError
from speed.fs import claim
from speed.fs.inbox import Inbox
from speed.fs.lane_reader import LaneReader
from speed.fs.slots import OpenedEnvelope
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import LANES_AT_REST_A_SCAN, UNGRANTED_LANE_GRACE_SECONDS
from speed.wire.names import node_id

# One lane being read, as the holder of the protocol role and those who finish envelopes share it.

log = logger("speed.protocol")

WORK = frozenset({EnvelopeType.MESSAGE, EnvelopeType.SPC_REQUEST, EnvelopeType.EVENT})
"""Types that are finished after they were handled; all others are done when they are read (L-15)."""


class Lane(Protocol):
    """Where an envelope came from, and how it is finished."""

    @property
    def source(self) -> str: ...
    def fingerprint(self, key_id: bytes) -> str:
        """Of the identity that sealed with this key; empty for none."""

    def begin(self, token: Token, *, listed: bool) -> bool: ...
    def keep_start(self) -> None: ...
    def begin_again(self, token: Token) -> int: ...
    def finish(self, tokens: Iterable[Token]) -> None: ...
    def drop(self, token: Token) -> None: ...


class InboundLane:
    """Orders reading, finishing and committing by ``lock``; ``resume(id)`` has a paused lane read again.

    At rest it holds no file open: what is finished meanwhile opens them for that long only.
    """

    __slots__ = (
        "_closed",
        "_opened",
        "_paused",
        "_rang",
        "_rests",
        "_resume",
        "_stats",
        "ended_at",
        "holds_large",
        "id",
        "is_elsewhere",
        "lock",
        "reader",
        "source",
        "unread",
    )

    def __init__(self, source: str, reader: LaneReader, stats: Stats, resume: Callable[[bytes], None]) -> None:
        self.source = source
        self.id = node_id(source)
        self.lock = threads.lock("lane")
        self.reader = reader
        self._stats = stats
        self._resume = resume
        self._paused = False
        self._closed = False
        self._rests = False
        self.unread = False
        """Whether the last ``read`` may have left something, by its bounds or because too much is unfinished."""
        self.holds_large = False
        """Whether it was left at a large envelope, for ``read_large``."""
        self.is_elsewhere = False
        """Whether another thread reads that one now: whoever leaves it to that thread sets it, which clears it."""
        self._opened: tuple[list[OpenedEnvelope], bool] | Exception | None = None
        """What ``read_large`` brought."""
        self._rang = False
        """Whether it was to be read while another thread read it."""
        self.ended_at: int | None = None
        """When its directory was changed last, if its sender was gone before a scan read it; -1: just now."""

    def read(self, max_envelopes: int, max_bytes: int, now: float, scan: bool) -> tuple[list[OpenedEnvelope], bool]:
        """What the reader has now, nothing while too much is unfinished; OSError if the filesystem fails.

        It stops before a large envelope, and brings what ``read_large`` read.
        """
        with self.lock:
            self._rests = False
            received, more = self._take_opened() or self._read(max_envelopes, max_bytes, now, scan)
            self.holds_large = more and not self._paused and self.reader.holds_large
            self.unread = more or self._paused
            for envelope in received:
                if envelope.header.type not in WORK:
                    self.reader.finish(envelope.token, lazy=True)
            return received, more

    def _read(self, max_envelopes: int, max_bytes: int, now: float, scan: bool) -> tuple[list[OpenedEnvelope], bool]:
        self._paused = self.reader.is_full
        if self._paused or self._closed:
            return [], False
        return self.reader.read(max_envelopes, max_bytes, now, scan=scan, large=False)

    def _take_opened(self) -> tuple[list[OpenedEnvelope], bool] | None:
        opened, self._opened = self._opened, None
        rang, self._rang = self._rang, False
        if isinstance(opened, Exception):
            raise opened
        return None if rang and opened == ([], False) else opened  # what was missing may be there

    def fingerprint(self, key_id: bytes) -> str:
        """Of the identity that sealed with this key; empty for none (I-5)."""
        openings = self.reader.openings
        return "" if openings is None else openings.fingerprint(key_id)

    def read_later(self) -> bool:
        """Whether another thread reads a large one now; if it brings nothing, the lane is read once more after that."""
        is_elsewhere = self.is_elsewhere
        self._rang = self._rang or is_elsewhere
        return is_elsewhere

    def read_large(self, now: float, scan: bool) -> None:
        """Read the large one that ``holds_large`` tells of, on any thread: the next ``read`` brings it."""
        with self.lock:
            try:
                if not self._closed:
                    self._opened = self.reader.read(1, 1, now, scan=scan)
            except Exception as error:  # for the thread that reads to act on
                self._opened = error
            finally:
                self.is_elsewhere = False
        self._resume(self.id)

    @property
    def is_read(self) -> bool:
        """Whether nothing of it is unread or unfinished."""
        with self.lock:
            return not self.unread and self.reader.is_idle

    def begin(self, token: Token, *, listed: bool) -> bool:
        """Commit a request before it is begun (S-8); False if that could not be written, so that it must not begin.

        ``listed``: until it is finished the cursor says that it began. LeaseLostError if a successor reads the lane.
        """
        with self.lock:
            if self._closed:
                return False
            committed = self.reader.begin(token, listed=listed)
            self._stay_at_rest()
            resume = self._paused and not self.reader.is_full
        if resume:
            self._resume(self.id)
        return committed

    def keep_start(self) -> None:
        """Before a request for another generation is finished (L-31)."""
        with self.lock:
            if not self._closed:
                self.reader.keep_start()
                self._stay_at_rest()

    def begin_again(self, token: Token) -> int:
        """How often a message that came again has been begun, with this time (L-25)."""
        with self.lock:
            if self._closed:
                return 2
            count = self.reader.begin_again(token)
            self._stay_at_rest()
            return count

    def finish(self, tokens: Iterable[Token]) -> None:
        """Commit that these envelopes are done. A failing filesystem is counted: they may be redelivered."""
        with self.lock:
            if self._closed:
                return
            try:
                *first, last = tokens
                for token in first:
                    self.reader.finish(token, lazy=True)
                self.reader.finish(last)
            except OSError as error:
                self._commit_failed(error)
            self._stay_at_rest()
            resume = self._paused and not self.reader.is_full
        if resume:
            self._resume(self.id)

    def drop(self, token: Token) -> None:
        """A refused envelope is done; it is committed with the next ones."""
        with self.lock:
            self.reader.finish(token, lazy=True)
            self._stay_at_rest()

    def rest(self) -> None:
        """Hold no file open until it is read again."""
        with self.lock:
            self._rests = True
            self._stay_at_rest()

    def _stay_at_rest(self) -> None:
        if not self._rests or self._closed:
            return
        try:
            self.reader.rest()
        except OSError as error:
            self._commit_failed(error)

    def _commit_failed(self, error: OSError) -> None:
        self._stats.count(counters.COMMITS_FAILED)
        log.warning("lane of %s: cursor not written: %s", self.source, error)

    def close(self, *, clean: bool) -> None:
        """Release the lane; with ``clean`` its position is committed first."""
        with self.lock:
            if not self._closed:
                self._closed = True
                if clean:
                    self.reader.close(clean=True)
                else:
                    self.reader.abandon()

    def abandon(self) -> None:
        """In a forked child: close descriptors; the parent's lock may be held for ever and is not taken."""
        self.lock = threads.lock("lane")
        self._closed = True  # a message that the child has in hand finishes nothing
        self.reader.abandon()


class InboundLanes:
    """Lanes by the id that their sender rings with. For the thread that reads.

    A lane that was read to its end, and whose sender is gone, costs a name and a time stamp; one that holds files open
    goes to rest when others need them.
    """

    def __init__(
        self,
        context: Context,
        inbox: Inbox,
        may_read: Callable[[str], bool],
        resume: Callable[[bytes], None],
        lane_removed: Callable[[str], None],
    ) -> None:
        self._context = context
        self._inbox = inbox
        self._may_read = may_read
        self._resume = resume
        self._lane_removed = lane_removed
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._lanes: dict[bytes, InboundLane] = {}
        self._passed: dict[bytes, int] = {}
        """Lanes of senders that are gone, read to the end: when they were changed last."""
        self._keys = context.keyring.now
        self._awake: Awake[bytes] = Awake(context.max_open_lanes)
        self._failed: dict[bytes, None] = {}
        """What could not be opened or read: the next scan tries again."""
        self._sought: set[bytes] = set()
        """Who rang, and is not known yet."""
        self._doubted: set[bytes] = set()
        """Whose senders this scan looks at: they may be gone."""
        self._claims: dict[str, int] | None = None
        """The newest claim of each name, listed at most once in a scan."""
        self._turns: deque[bytes] = deque()
        """Who is looked at next; whoever comes new goes first."""
        self._held: frozenset[bytes] = frozenset()
        self._held_until: float | None = None
        self._closed_counts: Counter[str] = Counter()

    # --- which to read ---

    def of(self, source_id: bytes, now: float) -> InboundLane | None:
        """The lane of whoever rang; None if it is not known yet, waits for a grant, or cannot be opened."""
        lane = self._lanes.get(source_id)
        return self._open(source_id, now) if lane is None and source_id in self._names else lane

    def seek(self, source_id: bytes) -> bool:
        """Whether whoever rang is to be looked for by a scan: it is not known yet."""
        is_unknown = source_id not in self._names and source_id != self._context.id
        if is_unknown:
            self._sought.add(source_id)
        return is_unknown

    def opened(self, source: str) -> InboundLane | None:
        """The lane of a sender, if it was read since it last ended."""
        return self._lanes.get(node_id(source))

    def due(self, now: float, urgent: Iterable[str], *, everything: bool) -> Iterator[InboundLane]:
        """What a scan reads: those that hold files open or failed, ``urgent`` senders, and others in turn, or all."""
        failed, self._failed = self._failed, {}
        everything = self._have_keys_changed() or everything
        turns = list(self._names) if everything else self._next_turns()
        self._doubted = {*map(node_id, urgent), *turns}
        self._claims = None
        for source_id in dict.fromkeys((*self._awake, *failed, *self._doubted)):
            lane = self._lanes.get(source_id) or self._open_if_changed(source_id, now)
            if lane is not None:
                self._look_at_sender(lane)
                yield lane

    def _look_at_sender(self, lane: InboundLane) -> None:
        """Before its lane is read: what a sender wrote just before its end is not passed over."""
        if lane.id in self._doubted:
            is_gone = self._context.registry.live(lane.source) is None
            lane.ended_at = self._inbox.changed_at(lane.source) if is_gone else None

    def _have_keys_changed(self) -> bool:
        """Then no lane may keep a cursor under a key that will be retired: each is looked at (W-20)."""
        before, self._keys = self._keys, self._context.keyring.now
        if self._keys is before:
            return False
        self._passed.clear()
        return True

    def _next_turns(self) -> list[bytes]:
        if not self._turns:
            self._turns.extend(self._names)
        return [self._turns.popleft() for _ in range(min(LANES_AT_REST_A_SCAN, len(self._turns)))]

    def learn(self, now: float) -> None:
        """Know the senders that have a lane; what an earlier process found waits for its grants (L-21)."""
        found = self._inbox.scan(self._is_wanted)
        self._sought.clear()
        if found is not None:
            self._know(found)
        if self._held_until is None:
            self._held, self._held_until = frozenset(self._names), now + UNGRANTED_LANE_GRACE_SECONDS

    def _know(self, found: set[str]) -> None:
        """Only what came and went costs more than a look: there may be many thousands."""
        for gone in self._ids.keys() - found:
            source_id = self._ids.pop(gone)
            del self._names[source_id]
            self._passed.pop(source_id, None)
        for source in found - self._ids.keys():
            source_id = self._ids[source] = node_id(source)
            self._names[source_id] = source
            self._turns.appendleft(source_id)

    def _is_wanted(self, source: str) -> bool:
        """Whether a sender is listed though there are too many: it rang, or its lane is in use."""
        source_id = node_id(source)
        return source_id in self._sought or source_id in self._lanes

    def _open_if_changed(self, source_id: bytes, now: float) -> InboundLane | None:
        source = self._names.get(source_id)
        return None if source is None or self._is_passed(source_id, source) else self._open(source_id, now)

    def _is_passed(self, source_id: bytes, source: str) -> bool:
        """Whether nothing came since a lane was read to its end.

        A sender that is live again may go on in the file that it had, which does not show in the directory.
        """
        passed = self._passed.get(source_id)
        if passed is None or passed != self._inbox.changed_at(source):
            return False
        return self._context.registry.live(source) is None

    def _open(self, source_id: bytes, now: float) -> InboundLane | None:
        source = self._names[source_id]
        is_held = source_id in self._held and self._held_until is not None and now < self._held_until
        if is_held and not self._may_read(source):
            return None
        try:
            reader = self._inbox.lane(source, partial(self._is_live, source))
            lane = InboundLane(source, reader, self._context.stats, self._resume)
        except (OSError, SpeedError) as error:
            self._context.stats.count(counters.LANES_UNREADABLE)
            self._context.limiter.warn(log, f"unreadable {source}", "lane of %s cannot be read: %s", source, error)
            self._failed[source_id] = None
            return None
        self._passed.pop(source_id, None)
        self._lanes[source_id] = lane
        return lane

    def _is_live(self, source: str, generation: int) -> bool:
        """Whether a sender may go on with what it began in a generation (L-30)."""
        entry = self._context.registry.live(source, sure=True)
        return entry is not None and entry.generation == generation

    # --- what holds files open ---

    def used(self, lane: InboundLane) -> None:
        """It had something: it holds its files open, and another one may have to rest, or to go if its sender did."""
        for source_id in self._awake.use(lane.id):
            other = self._lanes.get(source_id)
            if other is not None and other.ended_at is not None and other.is_read:
                self._close_lane(other, clean=True)
            elif other is not None:
                other.rest()

    def idle(self, lane: InboundLane, *, scan: bool) -> None:
        """It had nothing: unless it was used of late it holds nothing open, and a scan may let go of it."""
        if lane.id not in self._awake:
            lane.rest()
        if not scan or lane.id not in self._doubted or lane.ended_at is None or not lane.is_read:
            return
        if lane.ended_at < 0:  # the next scan can tell
            self._turns.appendleft(lane.id)
        elif lane.ended_at == self._inbox.changed_at(lane.source):
            self._end(lane, lane.ended_at)

    def _end(self, lane: InboundLane, ended_at: int) -> None:
        """One whose sender does not come back is removed."""
        if not self._may_be_ephemeral(lane.source):
            self._close_lane(lane, clean=True)
            self._passed[lane.id] = ended_at
        elif self._inbox.remove_lane(lane.source, ended_at, self._context.registry):
            self._close_lane(lane, clean=False)
            self._lane_removed(lane.source)

    def _may_be_ephemeral(self, source: str) -> bool:
        """Unless its newest claim says that its name comes back; one that was just removed says nothing."""
        context = self._context
        try:
            if self._claims is None:
                self._claims = claim.newest_of_all(context.root)
        except OSError:
            return True
        newest = self._claims.get(source, 0)
        claimant = claim.read(context.root, source, newest, context.keyring.registry_keys) if newest else None
        return newest > 0 and (claimant is None or claimant.ephemeral)

    def give_up(self, lane: InboundLane) -> None:
        """Close a lane in disorder; the next scan opens it at its last commit."""
        self._context.stats.count(counters.LANES_FAILED)
        self._close_lane(lane, clean=False)
        self._failed[lane.id] = None

    def _close_lane(self, lane: InboundLane, *, clean: bool) -> None:
        self._lanes.pop(lane.id, None)
        self._awake.rest(lane.id)
        self._closed_counts.update(lane.reader.counts)
        lane.close(clean=clean)

    # --- the end ---

    def close(self) -> None:
        """Commit and release all lanes."""
        for lane in self._lanes.values():
            lane.close(clean=True)
        self._lanes.clear()

    def abandon(self) -> None:
        """In a forked child: close descriptors, write nothing."""
        for lane in self._lanes.values():
            lane.abandon()

    def counts(self) -> Counter[str]:
        """What all lanes dropped or put aside, by reason."""
        total = Counter(self._closed_counts)
        for lane in list(self._lanes.values()):
            total.update(lane.reader.counts)
        return total

    def senders(self) -> list[str]:
        return sorted(self._names.copy().values())
