"""The thread that reads: waits on the bell, reads lanes, checks, dispatches (RFC 2.1, L-10 to L-20).

Each turn looks at the bell and the lanes, at nodes that left, at deadlines and at answers that found no room. Each of
these is guarded for itself: a lane that cannot be read keeps no deadline from ending a call.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from speed.core import counters
from speed.core.calls import PendingCall
from speed.core.log import logger
from speed.engine.python.context import SILENT_SECONDS, Context
from speed.engine.python.dispatch import Dispatch
from speed.engine.python.lanes import InboundLane, InboundLanes
from speed.engine.python.links import Answers
from speed.engine.python.outgoing import OutgoingLink
from speed.engine.python.settling import Withdrawals
from speed.engine.threads import Threads
from speed.errors import WireError
from speed.fs.bell import Bell
from speed.fs.inbox import Inbox
from speed.fs.lane_files import LaneReplacedError
from speed.fs.open import above_standard
from speed.fs.registry import Registry
from speed.fs.slots import OpenedEnvelope
from speed.message.reader import outline
from speed.wire.envelope import FLAG_SEGMENT, EnvelopeType
from speed.wire.limits import FULL_SCAN_SECONDS

log = logger("speed.protocol")

READ_ENVELOPES = 64
READ_BYTES = 4 << 20
"""Bounds per lane and wake-up: no lane starves the others."""
POLLING_SECONDS = (0.0005, 0.02)
EXPIRE_SECONDS = 0.001
"""How exactly deadlines are kept."""
WITHDRAWN_SECONDS = 0.001
"""Longest pause between two lots of withdrawn calls that are answered: workers need the interpreter meanwhile."""
AGAIN_SECONDS = 0.05
"""When lanes are looked at again after a failure."""
FAILED_SECONDS = 0.01
"""Pause after a failure: the thread must not spin where the system fails all the time."""


def _epoll() -> select.epoll:
    poll = select.epoll()
    return poll if poll.fileno() > 2 else select.epoll.fromfd(above_standard(os.dup(poll.fileno())))


class _Described:
    """What a message that cannot be read looks like and who wrote it, as text; made only where a line is written."""

    def __init__(self, registry: Registry, source: str, envelope: OpenedEnvelope) -> None:
        self._registry, self._source, self._envelope = registry, source, envelope

    def __str__(self) -> str:
        header = self._envelope.header
        if header.type not in (EnvelopeType.MESSAGE, EnvelopeType.EVENT) or header.flags & FLAG_SEGMENT:
            return ""
        entry = self._registry.live(self._source)
        writer = "a node that left" if entry is None else f"{entry.language} {entry.version}"
        return f" ({outline(self._envelope.payload)}; written by {writer})"


class _Departed:
    """A node that was found gone. Who begins to wait later may wait for a successor: it can publish at any time."""

    __slots__ = ("scanned", "waiting")

    def __init__(self, waiting: list[PendingCall]) -> None:
        self.waiting = waiting
        self.scanned = False
        """Whether a scan read its lane since."""


class Protocol:
    """Owns the bell, the inbox and all inbound lanes of one node, and the thread that reads them."""

    def __init__(
        self,
        context: Context,
        bell: Bell | None,
        inbox: Inbox,
        dispatch: Dispatch,
        answers: Answers,
        withdrawals: Withdrawals,
        scanned: Callable[[], None],
        lane_removed: Callable[[str], None],
    ) -> None:
        """``scanned`` runs with each scan of the inbox; ``lane_removed`` is told of a sender that will not come back,
        and of which this node has no lane any more.
        """
        self._context = context
        self._waker = context.waker
        self._bell = bell
        self._inbox = inbox
        self._dispatch = dispatch
        self._answers = answers
        self._withdrawals = withdrawals
        self._scanned = scanned
        self._lanes = InboundLanes(context, inbox, dispatch.may_read, self._resume, lane_removed)
        self._large = Threads(context.name, "large")
        """Reads large envelopes, one at a time: others do not wait for them."""
        self._watched: dict[int, str] = {}
        self._poll = _epoll() if hasattr(select, "epoll") else None
        self._idle_seconds = POLLING_SECONDS[0]
        self._next_scan = 0.0
        self._expire_at = 0.0
        self._departed: dict[str, _Departed] = {}
        """Nodes that were found gone."""
        self._stopping = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"speed-{context.name}-protocol", daemon=True)
        if self._poll is not None and bell is not None:
            self._poll.register(bell.fileno(), select.EPOLLIN)

    # --- what other threads ask for ---

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """End the thread after its present turn; waits for it at most ``timeout_seconds``."""
        self._stopping = True
        self._woken.set()
        self._waker.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_seconds)

    def look_again(self) -> None:
        """Scan the whole inbox soon: a grant may have opened a lane that waits."""
        self._next_scan = 0.0
        self._waker.wake()

    def watch_reader(self, link: OutgoingLink) -> None:
        """Learn at once when the reader of ``link``'s bell dies: the kernel reports it as EPOLLERR."""
        fd = link.ringer.fileno()
        if self._poll is None or fd is None:
            return
        with contextlib.suppress(FileExistsError, ValueError, OSError):  # ValueError: the node is just being closed
            self._poll.register(fd, 0)
        self._watched[fd] = link.target

    def node_left(self, name: str) -> None:
        """``name`` is gone, or was replaced: what it already answered is read first, then those who wait are told."""
        self._departed[name] = _Departed(self._context.pending.to(name))
        self.look_again()

    def node_replaced(self, name: str) -> None:
        """Another generation of ``name`` is there, or so it seems: settle the calls that were written to older ones."""
        entry = self._context.registry.live(name, sure=True)
        known = self._departed.get(name)
        if (known is None or known.scanned) and (entry is None or self._dispatch.concerns(name, entry.generation)):
            self.node_left(name)

    # --- the thread ---

    def _run(self) -> None:
        while not self._stopping:
            self._turn()
        while self._dispatch.has_withdrawn and not self._context.registration.is_over:
            self._guarded("answering withdrawn calls", self._dispatch.answer_withdrawn)

    def _turn(self) -> None:
        """Everything that is done once, whatever of it fails."""
        rung = self._guarded("waiting", self._wait)
        now = monotonic()
        self._guarded("reading", self._read, rung, now)
        if self._dispatch.has_withdrawn:
            self._guarded("answering withdrawn calls", self._dispatch.answer_withdrawn)
        if self._waker.silent or self._departed:
            self._guarded("looking after nodes that left", self._look_after_others, now)
        if rung is None or now >= self._waker.due or self._context.id in rung:
            self._look_at_the_time(now)

    def _look_at_the_time(self, now: float) -> None:
        """Do what is due, and find out what comes next: when that has passed, or this node rang its own bell."""
        if now >= self._expire_at:
            self._expire_at = now + EXPIRE_SECONDS
            self._guarded("ending what is over its deadline", self._dispatch.expire, now)
        if now >= self._answers.next_time():
            self._guarded("sending answers", self._answers.try_again)
        if now >= self._withdrawals.next_time():
            self._guarded("withdrawing calls", self._withdrawals.flush)
        self._waker.due = math.inf  # a deadline that comes while the next line runs wakes at once
        self._guarded("looking for the next deadline", self._find_next_time)

    def _guarded(self, doing: str, do: Callable[..., Any], *arguments: Any) -> Any:
        """A failure is counted, logged and tried again soon; it keeps nothing else from being done."""
        try:
            return do(*arguments)
        except Exception as error:
            self._context.stats.count(counters.PROTOCOL_FAILURES)
            self._context.limiter.failed(log, doing, error)
            self._woken.wait(FAILED_SECONDS)
            self._scan_soon(monotonic() + AGAIN_SECONDS)

    def _look_after_others(self, now: float) -> None:
        self._look_at_silent(now)
        self._fail_departed()

    def _wait(self) -> set[bytes] | None:
        """Source ids that rang; empty after a timer; None if everything must be looked at."""
        if self._bell is None or self._poll is None:
            self._wait_polling()
            return None
        rung: set[bytes] | None = set()
        pause = max(0.0, self._waker.due - monotonic())
        if self._dispatch.has_withdrawn:
            pause = min(pause, WITHDRAWN_SECONDS)
        for fd, _ in self._poll.poll(pause):
            if fd == self._bell.fileno():
                rung = self._bell.drain()
            else:
                self._reader_died(fd)
        return rung

    def _find_next_time(self) -> None:
        self._waker.due = min(
            self._next_scan,
            self._dispatch.next_deadline(),
            self._answers.next_time(),
            self._withdrawals.next_time(),
            *(look_at for look_at, _ in list(self._waker.silent.values())),
        )

    def _scan_soon(self, at: float = 0.0) -> None:
        self._next_scan = min(self._next_scan, at)
        self._waker.due = min(self._waker.due, at)

    def _wait_polling(self) -> None:
        """No bell here: look at all lanes, often after activity, seldom when idle."""
        self._woken.wait(WITHDRAWN_SECONDS if self._dispatch.has_withdrawn else self._idle_seconds)
        self._idle_seconds = min(self._idle_seconds * 1.5, POLLING_SECONDS[1])

    def _reader_died(self, fd: int) -> None:
        target = self._watched.pop(fd, None)
        try:
            assert self._poll is not None
            self._poll.unregister(fd)
        except (OSError, ValueError):
            pass
        if target is not None:
            self._waker.silent[target] = (0.0, SILENT_SECONDS[0])

    # --- nodes that are gone ---

    def _fail_departed(self) -> None:
        """Tell those who wait for nodes that left, once their lanes are read as far as they go."""
        for name, departed in list(self._departed.items()):
            lane = self._lanes.opened(name)
            if departed.scanned and not (lane is not None and lane.unread):
                del self._departed[name]
                entry = self._context.registry.live(name, sure=True)
                if entry is None:
                    self._dispatch.node_died(name, departed.waiting)
                else:
                    self._dispatch.node_replaced(name, entry.generation, departed.waiting)

    def _look_at_silent(self, now: float) -> None:
        """A node without a reader on its bell has died if its process is gone."""
        for name, (look_at, pause) in list(self._waker.silent.items()):
            if now < look_at:
                continue
            del self._waker.silent[name]
            entry = self._context.registry.live(name, sure=True)
            if entry is None or self._dispatch.concerns(name, entry.generation):
                self._departed[name] = _Departed(self._context.pending.to(name))
                self._scan_soon()
            elif pause <= SILENT_SECONDS[1]:
                self._waker.silent[name] = (now + pause, 2 * pause)
                self._waker.due = min(self._waker.due, now + pause)

    # --- lanes ---

    def _read(self, rung: set[bytes] | None, now: float) -> None:
        """Rings are not lost to a scan, which looks at few of the lanes at rest."""
        for source_id in rung or ():
            lane = self._lanes.of(source_id, now)
            if lane is not None:
                self._drain(lane, now)
            elif self._lanes.seek(source_id):
                self._next_scan = 0.0
        if rung is None or now >= self._next_scan:
            self._full_scan(now, everything=rung is None)

    def _full_scan(self, now: float, *, everything: bool) -> None:
        """Lanes that are known are read also where the inbox cannot be listed."""
        self._next_scan = now + FULL_SCAN_SECONDS
        departed = list(self._departed.items())
        listed = self._guarded("listing the inbox", self._list, now)
        for lane in self._lanes.due(now, [name for name, _ in departed], everything=everything):
            self._drain(lane, now, scan=True)
        for _, one in departed:
            one.scanned = listed is True
        self._scanned()

    def _list(self, now: float) -> bool:
        self._lanes.learn(now)
        return True

    def _resume(self, lane_id: bytes) -> None:
        """Have a lane read again that was left with something in it."""
        if self._bell is not None:
            self._bell.wake(lane_id)

    def _drain(self, lane: InboundLane, now: float, *, scan: bool = False) -> None:
        if lane.read_later() or self._context.registration.is_over:  # a successor may read already
            return
        try:
            received, more = lane.read(READ_ENVELOPES, READ_BYTES, now, scan)
            for envelope in received:
                self._deliver(lane, envelope)
        except Exception as error:  # what was read and not delivered would be lost
            self._give_up(lane, error)
            return
        if received or more:
            self._idle_seconds = POLLING_SECONDS[0]
            self._lanes.used(lane)
        else:
            self._lanes.idle(lane, scan=scan)
        if lane.holds_large:
            lane.is_elsewhere = True
            self._large.run("large", lane.read_large, now, scan)
        elif more:
            self._resume(lane.id)

    def _give_up(self, lane: InboundLane, error: Exception) -> None:
        self._lanes.give_up(lane)
        if isinstance(error, LaneReplacedError):
            self._resume(lane.id)  # its sender goes on in the new one
        if isinstance(error, OSError):
            text = "lane of %s failed, opened again at the next scan: %s"
            self._context.limiter.warn(log, f"lane {lane.source}", text, lane.source, error)
        else:
            self._context.limiter.failed(log, f"reading the lane of {lane.source}", error)

    def _deliver(self, lane: InboundLane, envelope: OpenedEnvelope) -> None:
        try:
            self._dispatch.dispatch(lane, envelope)
        except WireError as error:
            self._context.stats.count(counters.rejected(error.reason))
            text = "envelope of %s rejected: %s%s"
            description = _Described(self._context.registry, lane.source, envelope)
            self._context.limiter.warn(log, f"rejected {error.reason}", text, lane.source, error, description)
            lane.drop(envelope.token)
        except Exception:
            self._context.stats.count(counters.DISPATCH_FAILURES)
            log.exception("dispatch of an envelope of %s failed", lane.source)
            lane.drop(envelope.token)

    # --- the end ---

    def close(self) -> None:
        """Commit and release all lanes; the thread has ended."""
        self._large.stop()
        self._lanes.close()
        self._inbox.close()
        self._close_poll()

    def _close_poll(self) -> None:
        if self._poll is not None:
            self._poll.close()

    def release_bell(self) -> None:
        """Once the entry is gone: who finds a bell that nobody hears takes its node for dead (R-15)."""
        if self._bell is not None:
            self._bell.close()

    def abandon(self) -> None:
        """In a forked child: close descriptors, write nothing."""
        self._lanes.abandon()
        if self._bell is not None:
            self._bell.abandon()
        self._inbox.close()
        self._close_poll()
        self.release_bell()

    def counts(self) -> dict[str, int]:
        """What all lanes and the inbox dropped or put aside, by reason."""
        total = self._lanes.counts()
        if self._inbox.junk:
            total[counters.FOREIGN_FILES] += self._inbox.junk
        return total

    def senders(self) -> list[str]:
        return self._lanes.senders()
