"""Calls whose server is gone, or was replaced (S-21), and calls that were withdrawn (S-16).

And those to a node that is starting, until it serves. What waits here does so on a thread of its own: neither the one
that reads lanes nor a worker has to be free for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from speed.core import counters, texts
from speed.core.access import granted
from speed.core.calls import (
    PendingCall,
    RequestEnvelopes,
    RequestState,
    RequestVerdict,
    node_left,
    not_begun,
    perhaps_run_before,
    verdict_of,
)
from speed.core.log import logger
from speed.engine import threads
from speed.engine.python.context import Context
from speed.engine.python.links import Links
from speed.engine.threads import Threads
from speed.errors import (
    AccessDeniedError,
    InboxFullError,
    NodeLeftError,
    NodeStartingError,
    SpeedError,
    UnknownNodeError,
)
from speed.fs import claim
from speed.fs.committed import deciding_cursor
from speed.wire import names, spc
from speed.wire.cursor import Cursor
from speed.wire.entry import Entry
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import MAX_WITHDRAWN_IDS, SUCCESSOR_SECONDS

# Calls that were withdrawn, until the other side is told (S-16). The thread that reads tells it, many in one word.

_AGAIN_SECONDS = 0.005
"""Pause before a full inbox is tried again."""


class Withdrawals:
    """Thread-safe; ``withdraw`` waits for nothing, so an event loop may call it."""

    def __init__(self, context: Context, links: Links) -> None:
        self._context = context
        self._links = links
        self._lock = threads.lock("withdrawals")
        self._waiting: dict[str, dict[str, None]] = {}
        self._next = math.inf

    def withdraw(self, target: str, request_id: str) -> None:
        """Have ``target`` told that nobody waits for the answer, if it understands that."""
        self._context.pending.withdrawn(target, request_id)
        if not self._links.takes(target, "withdraw"):
            return
        with self._lock:
            self._waiting.setdefault(target, {})[request_id] = None
            self._next = 0.0
        self._context.waker.wake_by(monotonic())

    def next_time(self) -> float:
        """Monotonic seconds of the next ``flush``; infinity when nothing waits."""
        return self._next

    def flush(self) -> None:
        """Tell what waits; what there is no room for is told later, unless its call has ended by then."""
        if monotonic() < self._next:
            return
        with self._lock:
            waiting, self._waiting, self._next = self._waiting, {}, math.inf
        for target, ids in waiting.items():
            open_ids = [one for one in ids if self._context.pending.waits_for(target, one)]
            for first in range(0, len(open_ids), MAX_WITHDRAWN_IDS):
                self._tell(target, open_ids[first : first + MAX_WITHDRAWN_IDS])

    def _tell(self, target: str, ids: list[str]) -> None:
        """One that is leaving is told too: its end waits for what runs there."""
        entry = self._context.registry.live(target)
        if entry is None or not granted(entry, self._context.name, self._context.fingerprint):
            self._context.stats.count(counters.WITHDRAWALS_UNDELIVERED, len(ids))
            return
        payload = spc.encode({"op": "WITHDRAW", "requestIds": ids})
        try:
            self._links.open(target, entry.generation).send(EnvelopeType.DISCOVERY, 0, payload, 0.0, urgent=True)
        except InboxFullError:
            with self._lock:
                self._waiting.setdefault(target, {}).update(dict.fromkeys(ids))
                self._next = monotonic() + _AGAIN_SECONDS
        except (SpeedError, OSError):
            self._context.stats.count(counters.WITHDRAWALS_UNDELIVERED, len(ids))
        else:
            self._context.stats.count(counters.CALLS_WITHDRAWN, len(ids))


log = logger("speed.spc")

LOOK_SECONDS = 0.02
"""Pause between two looks for a successor."""

Send = Callable[[PendingCall, RequestState], None]
"""Writes a request to the node as it is now; raises a SpeedError if nothing was written."""


class SettledCall:
    """One call that is settled here. ``since`` is in monotonic seconds."""

    __slots__ = ("call", "has_successor", "request", "since", "verdict")

    def __init__(self, call: PendingCall, request: RequestState, verdict: RequestVerdict | None) -> None:
        self.call, self.request, self.verdict = call, request, verdict
        self.has_successor = False
        self.since = monotonic()


class Settling:
    """Thread-safe."""

    def __init__(self, context: Context, send: Send) -> None:
        self._context = context
        self._send = send
        self._threads = Threads(context.name, "settling")
        self._lock = threads.lock("settling")
        self._open: dict[str, list[SettledCall]] = {}
        """By target, in the order of their beginning; who is in it has a thread."""
        self._left: dict[str, int] = {}
        """The newest generation of each node that said that it leaves."""

    def left(self, name: str, generation: int) -> None:
        """A generation of ``name`` said that it leaves: it begins nothing any more."""
        self._left[name] = max(generation, self._left.get(name, 0))

    def concerns(self, target: str, generation: int) -> bool:
        """Whether a call is open that was written to a generation of ``target`` before the live one."""
        return any(_is_older(call, generation) for call in self._context.pending.to(target))

    def settle(self, target: str, calls: list[PendingCall], generation: int | None) -> None:
        """Settle those of ``calls`` that were written to a generation before the live one, None for none.

        What their server answered was read.
        """
        due = []
        for call in calls:
            if call.request is not None and _is_older(call, generation):
                call.request.is_settled = True
                due.append(SettledCall(call, call.request, None))
        self._add(target, due)

    def overdue(self, call: PendingCall, cursors: dict[int, Cursor | None]) -> SpeedError | None:
        """How a call ended whose deadline passed before its server was found gone; None if that is there.

        ``cursors``: what was read of this target already, by generation.
        """
        request = call.request
        if request is None or request.is_settled or not request.is_written or not self._has_ended(request.entry):
            return None
        return node_left(
            call.target, self._verdict(SettledCall(call, request, None), cursors) or RequestVerdict.MAY_HAVE_RUN
        )

    def wait_until_online(self, call: PendingCall, request: RequestState) -> None:
        """Have a call sent once its target serves; nothing of it was written."""
        request.is_settled = True
        self._add(call.target, [SettledCall(call, request, RequestVerdict.NOT_BEGUN)])

    def stop(self) -> None:
        """The node ends: who waited was told."""
        self._threads.stop()

    # --- on a thread of its own ---

    def _add(self, target: str, due: list[SettledCall]) -> None:
        if not due:
            return
        with self._lock:
            known = self._open.get(target)
            if known is not None:
                known.extend(due)
                return
            self._open[target] = due
        try:
            self._threads.run(None, self._work, target)
        except SpeedError:  # the node ends, and has told them
            self._open.pop(target, None)

    def _work(self, target: str) -> None:
        while not self._context.stopping.is_set():
            with self._lock:
                due = self._open[target]
                if not due:
                    del self._open[target]
                    return
                self._open[target] = []
            try:
                waiting = self._look(target, due)
            except Exception as error:  # they are looked at again, and end by their deadlines at the latest
                self._context.limiter.failed(log, f"settling calls to {target}", error)
                waiting = [one for one in due if self._context.pending.is_open(one.call)]
            with self._lock:
                self._open[target][:0] = waiting
            if waiting:
                self._context.stopping.wait(LOOK_SECONDS)

    def _look(self, target: str, due: list[SettledCall]) -> list[SettledCall]:
        """Take each as far as it goes now; returns those that still wait."""
        entry = self._context.registry.live(target, sure=True)
        cursors: dict[int, Cursor | None] = {}
        waiting = []
        for one in due:
            try:
                if self._waits(one, entry, cursors):
                    waiting.append(one)
            except SpeedError as error:
                self._fail(one, error)
            except Exception as error:
                self._context.limiter.failed(log, f"settling a call to {target}", error)
                self._fail(one, node_left(target, RequestVerdict.MAY_HAVE_RUN))
        return waiting

    def _waits(self, one: SettledCall, entry: Entry | None, cursors: dict[int, Cursor | None]) -> bool:
        """Whether it is looked at again."""
        call, request, target = one.call, one.request, one.call.target
        if not self._context.pending.is_open(call):
            return False
        now = monotonic()
        successor = None if entry is None or entry.status == "leaving" else entry
        if successor is not None and request.is_written and successor.generation <= request.entry.generation:
            successor = None
        if one.verdict is None:
            one.verdict = self._verdict(one, cursors)
            if (
                one.verdict is None
                and successor is not None
                and now < min(request.until, one.since + SUCCESSOR_SECONDS)
            ):
                return True
        verdict = one.verdict or RequestVerdict.MAY_HAVE_RUN
        payload = request.payload
        if verdict is RequestVerdict.MAY_HAVE_RUN or payload is None or request.is_withdrawn or now >= request.until:
            raise self._ended(one, verdict, entry)
        if successor is None:
            if now >= one.since + SUCCESSOR_SECONDS:
                raise self._ended(one, verdict, entry)
            return True
        if not one.has_successor:
            one.has_successor, one.since = True, now
        if successor.status == "starting":
            return True
        return not self._sent(one, verdict, target)

    def _verdict(self, one: SettledCall, cursors: dict[int, Cursor | None]) -> RequestVerdict | None:
        """What had begun, as far as the lane tells; None if nothing decides yet."""
        request, target = one.request, one.call.target
        generation = request.entry.generation
        if generation not in cursors:
            context = self._context
            keys = context.keyring.lane_keys(context.id, names.node_id(target))
            path = names.lane_dir(context.root, target, context.name)
            cursors[generation] = deciding_cursor(path, keys, generation, lambda: self._has_ended(request.entry))
        cursor = cursors[generation]
        if cursor is None:
            return None
        verdict = verdict_of(cursor, RequestEnvelopes(request.sequences, request.parts))
        return RequestVerdict.REPEATABLE if verdict is RequestVerdict.NOT_BEGUN and request.may_have_run else verdict

    def _has_ended(self, entry: Entry) -> bool:
        """Whether the process of a generation is gone, or that generation left in order: it begins nothing more."""
        context, generation = self._context, entry.generation
        if self._left.get(entry.name, 0) >= generation or context.registry.process_gone(entry):
            return True
        try:
            return bool(claim.is_released(context.root, entry.name, generation))
        except OSError:
            return False

    def _sent(self, one: SettledCall, verdict: RequestVerdict, target: str) -> bool:
        """Send it to the successor; False if that is gone, or starts, by now."""
        call, request = one.call, one.request
        if verdict is RequestVerdict.REPEATABLE and not request.may_have_run:
            request.may_have_run = True
            call.completion = perhaps_run_before(call.completion)
        for sequence in request.sequences if len(request.sequences) > 1 else ():
            self._context.pending.forget(target, sequence)  # what becomes of these segments says nothing any more
        try:
            self._send(call, request)
        except (UnknownNodeError, NodeStartingError, NodeLeftError):
            return False
        except AccessDeniedError as error:
            if (
                request.is_written and monotonic() < one.since + SUCCESSOR_SECONDS
            ):  # one that has just started may allow it yet
                return False
            raise (error if verdict is RequestVerdict.NOT_BEGUN else node_left(target, verdict)) from None
        except SpeedError as error:
            raise (error if verdict is RequestVerdict.NOT_BEGUN else node_left(target, verdict)) from None
        self._context.stats.count(counters.CALLS_SENT_AGAIN)
        return True

    def _ended(self, one: SettledCall, verdict: RequestVerdict, entry: Entry | None) -> SpeedError:
        """How a call ended that is not sent again."""
        target = one.call.target
        if one.request.is_written:
            return node_left(target, verdict)
        if entry is None:
            return UnknownNodeError(self._context.registry.absence(target))
        return NodeStartingError(texts.starting(target))

    def _fail(self, one: SettledCall, error: SpeedError) -> None:
        if error.execution is None:
            not_begun(error)
        self._context.pending.end(one.call, error)


def _is_older(call: PendingCall, generation: int | None) -> bool:
    """Whether it was written, to a generation before the live one, and is not settled yet."""
    request = call.request
    if request is None or request.is_settled or not request.is_written:
        return False
    return generation is None or request.entry.generation < generation
