"""Clocks that jump and run at different rates, against the lease core (R-7 to R-12); a seeded simulation, no waiting.

A round is one day of one name. Its owner renews at most half an interval late, until it dies, its host reboots, or it
is paused beyond its lease; then the next owner begins. Observers look at it: neighbours on its boot share its
monotonic clock, strangers on other hosts have clocks of their own, at half to twice its rate. Every wall clock jumps by
an hour to ten years, both ways. Within this margin no owner may be found stale while it keeps its lease; on one boot
an owner must know by itself, at the very moment at which a neighbour may take its name (R-12); and who is gone is
found stale within lease + 2 heartbeats.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from speed.core.access import OwnLease, Verdict, judge
from tests.torture.scenario import Report, Scenario

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TEN_YEARS_MS = 3650 * DAY_MS


@dataclass
class Clock:
    """A host's clocks over true time, which is the owner's: ``monotonic`` since its boot, ``wall`` as it may be."""

    rate: float
    boot: int
    booted_ms: int
    skew_ms: int = 0

    def monotonic(self, now: int) -> int:
        return int((now - self.booted_ms) * self.rate)

    def wall(self, now: int) -> int:
        return now + self.skew_ms


@dataclass(frozen=True)
class Tenure:
    """The part of an entry that leases are about."""

    generation: int
    boot_id: str
    lease: int
    heartbeat_monotonic_ms: int


@dataclass
class Observer:
    """Sees the entry on disk now and then; ``since`` is when it first saw it as it is."""

    clock: Clock
    is_neighbour: bool
    known: Tenure | None = None
    since: int = 0

    def verdict(self, tenure: Tenure, now: int, is_alive: bool, by_wall: bool) -> Verdict:
        clock = self.clock.wall(now) if by_wall else self.clock.monotonic(now)
        if self.known != tenure:
            self.known, self.since = tenure, clock
        alive = is_alive if self.is_neighbour else None
        boot = tenure.boot_id if by_wall else str(self.clock.boot)
        return judge(tenure, boot, clock, alive, clock - self.since)


@dataclass
class Day:
    """One simulated day; events are functions at true times."""

    random: Random
    report: Report
    now: int = 0
    generation: int = 0
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.heartbeat = int(2000 * 30 ** self.random.random())
        self.lease_ms = int(self.heartbeat * self.random.uniform(3, 8)) + 1
        self.home = Clock(1.0, 1, -self.random.randrange(TEN_YEARS_MS))
        strange = [Clock(2 ** self.random.uniform(-1, 1), 2 + n, -self.random.randrange(DAY_MS)) for n in range(3)]
        self.observers = [Observer(self.home, True), *(Observer(clock, False) for clock in strange)]
        self.begin()
        for observer in self.observers:
            self.at(0, lambda observer=observer: self.look(observer))
        self.at(0, self.jump)

    def at(self, when: int, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), event))

    def run(self) -> None:
        while self.now < DAY_MS and not self.report.failures:
            self.now, _, event = heapq.heappop(self._events)
            event()

    # --- the owner ---

    def begin(self) -> None:
        """A new owner takes the name."""
        self.generation += 1
        written = self.home.monotonic(self.now)
        self.is_alive, self.ended_ms, self.paused_ms = True, 0, 0
        self.lease = OwnLease(self.lease_ms, self.heartbeat, written)
        self.publish(written)
        self.at(self.now + self.delay(), lambda tenure=self.generation: self.renew(tenure))
        self.at(self.now + self.random.randrange(self.lease_ms, 4 * HOUR_MS), self.end)

    def publish(self, monotonic: int) -> None:
        time = self.home.wall(self.now) if self.report.mutated else monotonic
        self.tenure = Tenure(self.generation, str(self.home.boot), self.lease_ms, time)

    def delay(self) -> int:
        """Until the next heartbeat: at most half an interval late, as seen by everyone."""
        return int(self.heartbeat * self.random.choice((1.0, 1.0, self.random.uniform(1.0, 1.49))))

    def renew(self, generation: int) -> None:
        if generation != self.generation or not self.is_alive:
            return
        if self.paused_ms:
            self.at(self.paused_ms, lambda: self.wake(generation))
            return
        monotonic = self.home.monotonic(self.now)
        self.lease.renewed(monotonic, monotonic)
        self.publish(monotonic)
        self.report.add("heartbeats")
        self.at(self.now + self.delay(), lambda: self.renew(generation))

    def wake(self, generation: int) -> None:
        """Paused beyond its lease: it must not think that it still has the name."""
        if generation == self.generation:
            late = self.lease.must_stop(self.home.monotonic(self.now))
            self.report.check(late, "an owner that slept through its lease goes on")
            self.is_alive, self.ended_ms = False, self.now

    def end(self) -> None:
        """It dies, its host reboots, or it is paused for more than two leases."""
        way = self.random.choice(("dies", "reboots", "pauses"))
        if way == "pauses":
            self.paused_ms = self.now + 2 * self.lease_ms + self.random.randrange(HOUR_MS)
        else:
            self.is_alive = False
        self.ended_ms = self.now
        if way == "reboots":
            # The observers beside the owner boot with it; what they had seen is forgotten.
            self.home.boot += 1000
            self.home.booted_ms = self.now
            self.observers[0].known = None
        reaches = 2 * (self.lease_ms + 3 * self.heartbeat)
        self.at(self.now + reaches + self.random.randrange(HOUR_MS), self.begin)

    # --- the observers ---

    def look(self, observer: Observer) -> None:
        verdict = observer.verdict(self.tenure, self.now, self.is_alive, self.report.mutated)
        self.report.add("looks")
        self.judge(observer, verdict)
        self.at(self.now + self.random.randrange(1, self.heartbeat), lambda: self.look(observer))

    def judge(self, observer: Observer, verdict: Verdict) -> None:
        is_stale = verdict is Verdict.STALE
        where = "a neighbour" if observer.is_neighbour else f"a stranger at rate {observer.clock.rate:.2f}"
        if not self.ended_ms:
            self.report.check(not is_stale, f"{where} evicts an owner that keeps its lease")
        elif is_stale and self.is_alive and observer.is_neighbour:
            stops = self.lease.must_stop(self.home.monotonic(self.now))
            self.report.check(stops, f"{where} evicts a paused owner before that stops by itself")
        elif not is_stale:
            waited = (self.now - self.ended_ms) * observer.clock.rate
            bound = self.lease_ms + 2 * max(1, observer.clock.rate) * self.heartbeat
            self.report.check(waited <= bound, f"{where} does not free the name of who is gone")

    def jump(self) -> None:
        """A wall clock, or all of them, by ± an hour to ten years."""
        clocks = {id(observer.clock): observer.clock for observer in self.observers}
        for clock in self.random.sample(list(clocks.values()), self.random.randrange(1, 5)):
            clock.skew_ms = int(HOUR_MS * (TEN_YEARS_MS / HOUR_MS) ** self.random.random())
            clock.skew_ms *= self.random.choice((-1, 1))
            self.report.add("jumps")
        self.at(self.now + self.random.randrange(1000, 2 * HOUR_MS), self.jump)


def run(seed: int, count: int, report: Report) -> None:
    for round_seed in report.rounds(seed, count):
        Day(Random(round_seed), report).run()


SCENARIO = Scenario(
    name="clocks",
    promise="no clock that jumps or drifts evicts a live owner; who is gone is found out in time",
    unit="simulated days",
    tiny=1,
    quick=20,
    full=1000,
    mutation="heartbeats are compared by the wall clock",
    run=run,
    emulates="a simulation of the lease core; clocks of hosts differ in rate by at most 1:2",
)
