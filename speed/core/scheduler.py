"""Who runs what next in a node: one table of states and events, without threads and without a clock (T-n).

The rules and the table stand in ``registry_spec/scheduling.md``; C++ and Java have a class of the same name, and all
three replay ``vectors/scheduling.json``. The runtime owns the lock around it and the threads that call ``take``.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Any

from speed.wire.limits import MAX_BLOCKED_WORKERS, UNCLAIMED_EVENT_SECONDS

AGED_TURN = 8
"""Every eighth message is the one whose sender has waited longest, whatever its priority."""


CLEAR_FROM = 64
"""Deadlines of ended work are kept up to here, and up to as many as those that still mean something."""


class Kind(Enum):
    """What a worker can be given."""

    REQUEST = "request"
    MESSAGE = "message"
    TASK = "task"


class WorkState(Enum):
    """Where one piece of work stands (T-2)."""

    UNCLAIMED = "unclaimed"
    WAITING = "waiting"
    RUNNING = "running"
    BLOCKED = "blocked"
    IN_HAND = "in hand"
    BACK_OFF = "back-off"
    ENDED = "ended"


class Life(Enum):
    """Where the node stands (T-1)."""

    OPEN = "open"
    LEAVING = "leaving"
    CLOSED = "closed"


class Admission(Enum):
    """What became of a request that arrived."""

    WAITING = "waiting"
    DUPLICATE = "duplicate"
    LEAVING = "leaving"


@dataclass(slots=True, eq=False)
class Work:
    """One request, message or task. ``item`` is the runtime's own; ``number`` is the order of arrival."""

    kind: Kind
    item: Any
    number: int
    state: WorkState
    sender: str = ""
    key: Hashable = None
    priority: int = 0
    order: Hashable = None
    deadline: float | None = None
    is_event: bool = False
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class Overdue:
    """What a look at the time found: requests over their deadline, and events that nothing took."""

    waiting: tuple[Work, ...] = ()
    running: tuple[Work, ...] = ()
    unclaimed: tuple[Work, ...] = ()


class Scheduler:
    """The order of all work of one node. Not locked: the pool's lock covers every method.

    A node of ``workers`` runs at most so many services at once, and at most so many handlers, and one more in all:
    neither kind can take every worker from the other.
    """

    def __init__(self, workers: int) -> None:
        self.life = Life.OPEN
        self._workers = workers
        self._numbers = count(1)
        self._running = [0, 0]
        """Work at work: services on their own, tasks in the places of handlers."""
        self._blocked = 0
        self._rotation = deque(Kind)
        self._requests: OrderedDict[str, OrderedDict[Hashable, Work]] = OrderedDict()
        """Waiting requests by sender; the first sender is served next."""
        self._accepted: dict[tuple[str, Hashable], Work] = {}
        """Requests that wait or run, by sender and id."""
        self._tasks: deque[Work] = deque()
        self._queues: dict[Hashable, deque[Work]] = {}
        """Waiting messages by what keeps them in order, usually their sender."""
        self._busy: set[Hashable] = set()
        """Orders of which a message is being handled, or waits to be tried again."""
        self._ready: dict[int, OrderedDict[Hashable, int]] = {}
        """Orders whose first message may run, by its priority; the value says since when."""
        self._handled = 0
        self._unclaimed: dict[str, deque[Work]] = {}
        self._deadlines: list[tuple[float, int, Work]] = []
        self._clear_at = CLEAR_FROM
        self._back_off: list[tuple[float, int, Work]] = []

    # --- arrivals ---

    def request(self, sender: str, key: Hashable, item: Any, deadline: float) -> tuple[Admission, Work | None]:
        """A request whose sender's grant and head were checked; ``deadline`` is in seconds of the runtime's clock."""
        if (sender, key) in self._accepted:
            return Admission.DUPLICATE, None
        if self.life is not Life.OPEN:
            return Admission.LEAVING, None
        work = Work(Kind.REQUEST, item, next(self._numbers), WorkState.WAITING, sender, key, deadline=deadline)
        self._accepted[sender, key] = work
        self._requests.setdefault(sender, OrderedDict())[key] = work
        self._note_deadline(work, deadline)
        return Admission.WAITING, work

    def message(
        self,
        sender: str,
        item: Any,
        now: float,
        *,
        priority: int = 5,
        order: Hashable = None,
        is_event: bool = False,
        claimed: bool = True,
    ) -> Work | None:
        """A message or event; None once the node leaves: it stays in its lane, for the next start.

        ``claimed``: something in the program takes it; else it waits until something does. Messages of one ``order``
        (the sender, unless another is given) are handled one after the other.
        """
        if self.life is not Life.OPEN:
            return None
        order = sender if order is None else order
        number = next(self._numbers)
        work = Work(Kind.MESSAGE, item, number, WorkState.WAITING, sender, None, priority, order, None, is_event)
        if claimed:
            self._enqueue(work)
        else:
            work.state = WorkState.UNCLAIMED
            self._unclaimed.setdefault(sender, deque()).append(work)
            if is_event:
                self._note_deadline(work, now + UNCLAIMED_EVENT_SECONDS)
        return work

    def task(self, item: Any) -> Work:
        """Something short of the node's own, or a callback of the program."""
        work = Work(Kind.TASK, item, next(self._numbers), WorkState.WAITING)
        self._tasks.append(work)
        return work

    # --- workers ---

    def take(self, now: float) -> Work | None:
        """What a free worker does next; None if there is nothing, or no place for it."""
        if self._back_off:
            self._end_back_off(now)
        if not (self._requests or self._ready or self._tasks):
            return None
        if self.life is Life.CLOSED or sum(self._running) > self._workers:
            return None
        for kind in self._rotation:
            if self._running[kind is Kind.REQUEST] < self._workers:
                work = self._next_of(kind)
                if work is not None:
                    self._rotation.remove(kind)
                    self._rotation.append(kind)
                    self._running[kind is Kind.REQUEST] += 1
                    work.state = WorkState.RUNNING
                    return work
        return None

    def _next_of(self, kind: Kind) -> Work | None:
        if kind is Kind.REQUEST:
            return self._next_request()
        if kind is Kind.MESSAGE:
            return self._next_message()
        return self._tasks.popleft() if self._tasks else None

    def _next_request(self) -> Work | None:
        """The first of the sender whose turn it is; its next one waits until all others had theirs."""
        if not self._requests:
            return None
        sender, waiting = self._requests.popitem(last=False)
        _, work = waiting.popitem(last=False)
        if waiting:
            self._requests[sender] = waiting
        return work

    def _next_message(self) -> Work | None:
        if not self._ready:
            return None
        self._handled += 1
        if self._handled % AGED_TURN:
            priority = max(self._ready)
        else:
            priority = min(self._ready, key=lambda one: next(iter(self._ready[one].values())))
        order = next(iter(self._ready[priority]))
        self._unready(order, priority)
        self._busy.add(order)
        return self._queues[order].popleft()

    def done(self, work: Work) -> None:
        """A worker, or the program, has finished with ``work``; what the program fetched held up no other."""
        ran = work.state is not WorkState.IN_HAND
        self._free(work)
        work.state = WorkState.ENDED
        if work.kind is Kind.REQUEST:
            self._accepted.pop((work.sender, work.key), None)
        elif work.kind is Kind.MESSAGE and ran:
            self._let_follow(work.order)

    def again(self, work: Work, at: float) -> None:
        """Handling failed: try once more at ``at``; what comes after it in its order waits."""
        self._free(work)
        work.state = WorkState.BACK_OFF
        heappush(self._back_off, (at, work.number, work))

    def blocked(self, work: Work) -> bool:
        """Its worker waits for another node: its place is given to others. False if too many wait already."""
        if work.state is not WorkState.RUNNING or self._blocked >= MAX_BLOCKED_WORKERS:
            return False
        self._free(work)
        self._blocked += 1
        work.state = WorkState.BLOCKED
        return True

    def resumed(self, work: Work) -> None:
        """Its worker goes on, at once: for a while there may be more at work than there are places."""
        if work.state is WorkState.BLOCKED:
            self._blocked -= 1
            self._running[work.kind is Kind.REQUEST] += 1
            work.state = WorkState.RUNNING

    def _free(self, work: Work) -> None:
        if work.state is WorkState.RUNNING:
            self._running[work.kind is Kind.REQUEST] -= 1
        elif work.state is WorkState.BLOCKED:
            self._blocked -= 1

    # --- messages in order ---

    def _enqueue(self, work: Work) -> None:
        self._queues.setdefault(work.order, deque()).append(work)
        self._make_ready(work.order)

    def _make_ready(self, order: Hashable) -> None:
        """Let the first message of ``order`` be taken, unless one before it is still being handled."""
        queue = self._queues.get(order)
        if not queue:
            self._queues.pop(order, None)
        elif order not in self._busy:
            self._ready.setdefault(queue[0].priority, OrderedDict()).setdefault(order, next(self._numbers))

    def _unready(self, order: Hashable, priority: int) -> None:
        orders = self._ready.get(priority)
        if orders is not None and orders.pop(order, None) is not None and not orders:
            del self._ready[priority]

    def _let_follow(self, order: Hashable) -> None:
        self._busy.discard(order)
        self._make_ready(order)

    def _end_back_off(self, now: float) -> None:
        while self._back_off and self._back_off[0][0] <= now:
            work = heappop(self._back_off)[2]
            work.state = WorkState.WAITING
            self._put_first(work)

    def _put_first(self, work: Work) -> None:
        self._queues.setdefault(work.order, deque()).appendleft(work)
        self._let_follow(work.order)

    # --- what nothing takes yet ---

    def claim(self, takes: Callable[[Any], bool]) -> int:
        """The program said what it takes: what waited for that is handled before what came later. Returns how many."""
        claimed = [work for waiting in self._unclaimed.values() for work in waiting if takes(work.item)]
        for work in claimed:
            work.state = WorkState.WAITING
        for sender, waiting in list(self._unclaimed.items()):
            self._keep_unclaimed(sender, waiting)
        for order in dict.fromkeys(work.order for work in claimed):
            self._merge(order, [work for work in claimed if work.order == order])
        return len(claimed)

    def _keep_unclaimed(self, sender: str, waiting: deque[Work]) -> None:
        """Keep those of a sender that nothing has taken."""
        rest = deque(work for work in waiting if work.state is WorkState.UNCLAIMED)
        if rest:
            self._unclaimed[sender] = rest
        else:
            del self._unclaimed[sender]

    def _merge(self, order: Hashable, claimed: list[Work]) -> None:
        queue = self._queues.get(order, deque())
        if queue:
            self._unready(order, queue[0].priority)
        self._queues[order] = deque(sorted((*queue, *claimed), key=lambda work: work.number))
        self._make_ready(order)

    def receive(self) -> Work | None:
        """The next message for the program to fetch: the most urgent of the senders' first ones, then the oldest."""
        firsts = [next((work for work in waiting if not work.is_event), None) for waiting in self._unclaimed.values()]
        work = min((one for one in firsts if one), key=lambda one: (-one.priority, one.number), default=None)
        if work is not None:
            self._remove_unclaimed(work)
            work.state = WorkState.IN_HAND
        return work

    def put_back(self, work: Work) -> None:
        """The program did not take it after all: it is fetched next, or handled."""
        work.state = WorkState.UNCLAIMED
        self._unclaimed.setdefault(work.sender, deque()).appendleft(work)

    def _remove_unclaimed(self, work: Work) -> None:
        waiting = self._unclaimed[work.sender]
        waiting.remove(work)
        if not waiting:
            del self._unclaimed[work.sender]

    def load(self) -> dict[str, int]:
        """What waits and what runs: requests, and messages that nobody handles yet."""
        waiting = sum(map(len, self._requests.values()))
        messages = sum(map(len, self._queues.values())) + sum(map(len, self._unclaimed.values())) + len(self._back_off)
        return {
            "queuedRequests": waiting,
            "runningRequests": len(self._accepted) - waiting,
            "queuedMessages": messages,
        }

    # --- withdrawal, departure, time ---

    def withdraw(self, sender: str, key: Hashable) -> Work | None:
        """The caller withdrew a request. One that waited is ENDED and never begins; one that runs stays as it is."""
        work = self._accepted.get((sender, key))
        if work is not None and work.state is WorkState.WAITING:
            self._drop_request(work)
        return work

    def has(self, sender: str, key: Hashable) -> bool:
        """Whether a request waits or runs."""
        return (sender, key) in self._accepted

    def forget(self, sender: str) -> tuple[Work, ...]:
        """The caller left or died: its requests, the waiting ones ENDED. What it sent otherwise stays."""
        works = tuple(work for (caller, _), work in self._accepted.items() if caller == sender)
        for work in works:
            if work.state is WorkState.WAITING:
                self._drop_request(work)
        return works

    def _drop_request(self, work: Work) -> None:
        work.state = WorkState.ENDED
        del self._accepted[work.sender, work.key]
        waiting = self._requests[work.sender]
        del waiting[work.key]
        if not waiting:
            del self._requests[work.sender]

    def expire(self, now: float) -> Overdue:
        """Requests over their deadline, each told once, and events that nothing took in time."""
        found: dict[WorkState, list[Work]] = {WorkState.WAITING: [], WorkState.RUNNING: [], WorkState.UNCLAIMED: []}
        while self._deadlines and self._deadlines[0][0] <= now:
            work = heappop(self._deadlines)[2]
            if work.state is WorkState.UNCLAIMED:
                self._remove_unclaimed(work)
                work.state = WorkState.ENDED
                found[WorkState.UNCLAIMED].append(work)
            elif work.kind is Kind.REQUEST and work.state is WorkState.WAITING:
                self._drop_request(work)
                found[WorkState.WAITING].append(work)
            elif work.kind is Kind.REQUEST and work.state in (WorkState.RUNNING, WorkState.BLOCKED):
                work.is_overdue = True
                found[WorkState.RUNNING].append(work)
        return Overdue(*(tuple(found[state]) for state in (WorkState.WAITING, WorkState.RUNNING, WorkState.UNCLAIMED)))

    def _note_deadline(self, work: Work, deadline: float) -> None:
        """Remember a time; those that mean nothing any more are cleared out once they are the greater part."""
        work.deadline = deadline
        if len(self._deadlines) > self._clear_at:
            self._deadlines = [one for one in self._deadlines if _awaits(one[2])]
            heapify(self._deadlines)
            self._clear_at = 2 * len(self._deadlines) + CLEAR_FROM
        heappush(self._deadlines, (deadline, work.number, work))

    def next_time(self) -> float | None:
        """When ``expire`` or ``take`` next has something to do because of the time; None if never."""
        while self._deadlines and not _awaits(self._deadlines[0][2]):
            heappop(self._deadlines)
        firsts = self._deadlines[:1] + self._back_off[:1]
        return min(firsts)[0] if firsts else None

    # --- the end ---

    def leave(self) -> None:
        """No further request is accepted; what was accepted is worked off."""
        if self.life is Life.OPEN:
            self.life = Life.LEAVING

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for a worker and nothing is at work."""
        waits = self._requests or self._tasks or self._queues or self._back_off
        return not waits and not self._blocked and not any(self._running)

    def close(self) -> tuple[Work, ...]:
        """Nothing is taken any more; the requests that still waited, ENDED, for their callers to be told."""
        self.life = Life.CLOSED
        waiting = tuple(work for requests in self._requests.values() for work in requests.values())
        for work in waiting:
            self._drop_request(work)
        return waiting


def _awaits(work: Work) -> bool:
    """Whether the deadline of ``work`` still means something."""
    at_work = work.state in (WorkState.WAITING, WorkState.RUNNING, WorkState.BLOCKED)
    return work.state is WorkState.UNCLAIMED or (work.kind is Kind.REQUEST and at_work and not work.is_overdue)


# How long things took, as counts of spans: the first counts those below 64 µs, each that follows those of up to twice
# as long, the last whatever is longer (S-14).

TIMES = 24
_SHORTEST_SECONDS = 64e-6
TIME_BOUNDS_SECONDS = tuple(_SHORTEST_SECONDS * (1 << place) for place in range(TIMES - 1))
"""The end of each span but the last."""


def time_place(seconds: float) -> int:
    """Where among the counts a span of ``seconds`` is counted."""
    return min(int(max(0.0, seconds) / _SHORTEST_SECONDS).bit_length(), TIMES - 1)


def time_quantile(counts: Sequence[int], share: float) -> float:
    """Seconds that ``share`` of what was counted stayed below, at most; 0.0 where nothing was counted."""
    wanted = share * sum(counts)
    seen = 0
    for place, number in enumerate(counts):
        seen += number
        if number and seen >= wanted:
            return TIME_BOUNDS_SECONDS[place] if place < len(TIME_BOUNDS_SECONDS) else inf
    return 0.0
