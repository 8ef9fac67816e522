"""The protocol role: wait on the bell, read lanes, check, dispatch (RFC 2.1, L-10 to L-20).

The role is held by one thread at a time (``Protocol.role``). ``step`` is everything its holder does once;
the protocol thread loops over it, and any thread that waits for an answer could hold the role instead.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable
from time import monotonic

from speed.errors import SpeedError, WireError
from speed.fs.bell import Bell
from speed.fs.inbox import Inbox
from speed.fs.lane_reader import LaneReader, Received
from speed.runtime.context import Context
from speed.runtime.dispatch import Dispatch
from speed.runtime.outgoing import OutgoingLink
from speed.runtime.workers import WorkerPool
from speed.wire.limits import FULL_SCAN_SECONDS, UNGRANTED_LANE_GRACE_SECONDS
from speed.wire.names import node_id

log = logging.getLogger("speed.protocol")

READ_ENVELOPES = 64
READ_BYTES = 4 << 20
MAX_UNFINISHED = 4096
"""Bounds per lane and wake-up: no lane starves the others, no lane fills the memory."""
POLLING_SECONDS = (0.0005, 0.02)


class InboundLane:
    """One lane being read; ``lock`` orders the protocol thread and the workers that finish envelopes."""

    def __init__(self, source: str, reader: LaneReader) -> None:
        self.source = source
        self.id = node_id(source)
        self.lock = threading.Lock()
        self.reader = reader
        self.paused = False


class Protocol:
    """Owns the bell, the inbox and all inbound lanes of one node."""

    def __init__(self, context: Context, bell: Bell | None, inbox: Inbox, dispatch: Dispatch, pool: WorkerPool) -> None:
        self.role = threading.Lock()
        self._context = context
        self._bell = bell
        self._inbox = inbox
        self._dispatch = dispatch
        self._pool = pool
        self._lanes: dict[bytes, InboundLane] = {}
        self._ungranted: dict[str, float] = {}
        self._watched: dict[int, str] = {}
        self._poll = select.epoll() if hasattr(select, "epoll") else None
        self._idle_seconds = POLLING_SECONDS[0]
        self._next_scan = 0.0
        self._closed_counts: dict[str, int] = {}
        self.accepting = True
        """False while the node leaves: lanes stay unread, answers to others still go out."""
        self._thread = threading.Thread(target=self._run, name=f"speed-{context.name}-protocol", daemon=True)
        if self._poll is not None and bell is not None:
            self._poll.register(bell.fileno(), select.EPOLLIN)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """End the loop after its present step; the caller has set ``context.stopping``."""
        self.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_seconds)

    def wake(self) -> None:
        if self._bell is not None:
            self._bell.wake(self._context.id)

    def look_again(self) -> None:
        """Scan the whole inbox soon: a grant may have opened a lane that waits."""
        self._next_scan = 0.0
        self.wake()

    def watch_reader(self, link: OutgoingLink) -> None:
        """Learn at once when the reader of ``link``'s bell dies: the kernel reports it as EPOLLERR."""
        fd = link.ringer.fileno()
        if self._poll is None or fd is None:
            return
        try:
            self._poll.register(fd, 0)
        except FileExistsError:
            pass
        self._watched[fd] = link.target

    def _run(self) -> None:
        self._pool.lead()
        while not self._context.stopping.is_set():
            self.step_once()
            self._pool.run_as_leader()

    def step_once(self) -> None:
        """Take the role, do one step, give the role up."""
        with self.role:
            try:
                self.step()
            except Exception:
                self._context.stats.count("protocol_failures")
                log.exception("protocol step failed")
                self._context.stopping.wait(0.05)

    def step(self) -> None:
        """Wait for something to do, at most until the next timer, and do it. The caller holds ``role``."""
        rung = self._wait()
        now = monotonic()
        if rung is None or now >= self._next_scan:
            self._full_scan(now)
        else:
            for source_id in rung:
                lane = self._lanes.get(source_id)
                if lane is not None:
                    self._drain(lane, now)
                elif source_id != self._context.id:
                    self._next_scan = 0.0
        self._dispatch.expire(now)

    def _wait(self) -> set[bytes] | None:
        """Source ids that rang; empty after a timer; None if everything must be looked at."""
        if self._bell is None or self._poll is None:
            self._wait_polling()
            return None
        now = monotonic()
        until = min(self._next_scan, self._dispatch.next_deadline())
        rung: set[bytes] | None = set()
        for fd, _ in self._poll.poll(max(0.0, until - now)):
            if fd == self._bell.fileno():
                rung = self._bell.drain()
            else:
                self._reader_died(fd)
        return rung

    def _wait_polling(self) -> None:
        """No bell here: look at all lanes, often after activity, seldom when idle."""
        self._context.stopping.wait(self._idle_seconds)
        self._idle_seconds = min(self._idle_seconds * 1.5, POLLING_SECONDS[1])

    def _reader_died(self, fd: int) -> None:
        target = self._watched.pop(fd, None)
        try:
            assert self._poll is not None
            self._poll.unregister(fd)
        except (OSError, ValueError):
            pass
        if target is not None and self._context.registry.live(target) is None:
            self._dispatch.node_died(target)

    def _full_scan(self, now: float) -> None:
        self._next_scan = now + FULL_SCAN_SECONDS
        for source in self._inbox.scan():
            if node_id(source) not in self._lanes:
                self._open_lane(source, now)
        for lane in list(self._lanes.values()):
            self._drain(lane, now, scan=True)

    def _open_lane(self, source: str, now: float) -> None:
        """Open the lane of a sender that may write here; put others aside after a time of grace (L-21).

        The grace lets a restarted program grant what it granted before, without losing what waits.
        """
        if self._dispatch.may_read(source):
            self._ungranted.pop(source, None)
            try:
                self._lanes[node_id(source)] = InboundLane(source, self._inbox.lane(source))
            except (OSError, SpeedError) as error:
                self._context.stats.count("lanes_unreadable")
                log.warning("lane of %s cannot be read: %s", source, error)
            return
        since = self._ungranted.setdefault(source, now)
        if now - since > UNGRANTED_LANE_GRACE_SECONDS:
            del self._ungranted[source]
            self._inbox.quarantine(source, "the sender has no grant")
            self._context.stats.count("lanes_quarantined")

    def _drain(self, lane: InboundLane, now: float, *, scan: bool = False) -> None:
        with lane.lock:
            lane.paused = lane.reader.unfinished >= MAX_UNFINISHED
            if lane.paused or not self.accepting:
                return
            try:
                received, more = lane.reader.read(READ_ENVELOPES, READ_BYTES, now, scan=scan)
            except OSError as error:
                self._lane_failed(lane, error)
                return
        for envelope in received:
            self._deliver(lane, envelope)
        if received:
            self._idle_seconds = POLLING_SECONDS[0]
        if more and self._bell is not None:
            self._bell.wake(lane.id)

    def _lane_failed(self, lane: InboundLane, error: OSError) -> None:
        self._context.stats.count("lanes_failed")
        log.warning("lane of %s failed, opened again at the next scan: %s", lane.source, error)
        _add(self._closed_counts, lane.reader.counts)
        lane.reader.close()
        del self._lanes[lane.id]

    def _deliver(self, lane: InboundLane, envelope: Received) -> None:
        finish = self._finisher(lane, envelope)
        try:
            self._dispatch.dispatch(lane.source, envelope, finish)
        except WireError as error:
            self._context.stats.count(f"rejected_{error.reason.lower()}")
            log.warning("envelope of %s rejected: %s", lane.source, error)
            finish(lazy=True)
        except Exception:
            self._context.stats.count("dispatch_failures")
            log.exception("dispatch of an envelope of %s failed", lane.source)
            finish(lazy=True)

    def _finisher(self, lane: InboundLane, envelope: Received) -> Callable[..., None]:
        token = envelope.token

        def finish(*, lazy: bool = False) -> None:
            with lane.lock:
                lane.reader.finish(token, lazy=lazy)
                resume = lane.paused and lane.reader.unfinished < MAX_UNFINISHED
            if resume and self._bell is not None:
                self._bell.wake(lane.id)

        return finish

    def close(self) -> None:
        """Commit and release all lanes, the bell and the poll object; the thread has ended."""
        for lane in self._lanes.values():
            with lane.lock:
                lane.reader.close(clean=True)
        self._lanes.clear()
        if self._poll is not None:
            self._poll.close()
        if self._bell is not None:
            self._bell.close()

    def abandon(self) -> None:
        """In a forked child: close descriptors, write nothing."""
        for lane in self._lanes.values():
            lane.reader.abandon()
        if self._poll is not None:
            self._poll.close()
        if self._bell is not None:
            self._bell.close()

    def counts(self) -> dict[str, int]:
        """What all lanes and the inbox dropped or put aside, by reason."""
        total = dict(self._closed_counts)
        for lane in list(self._lanes.values()):
            _add(total, lane.reader.counts)
        if self._inbox.junk:
            total["foreign_files"] = total.get("foreign_files", 0) + self._inbox.junk
        return total

    def senders(self) -> list[str]:
        return [lane.source for lane in list(self._lanes.values())]


def _add(total: dict[str, int], counts: dict[str, int]) -> None:
    for what, number in counts.items():
        total[what] = total.get(what, 0) + number
