"""What a call costs while something grows: running nodes, what waits unread, the calls made before.

Each point is told beside a twin: a pair of the same library with a root of its own, for which nothing grows. Both are
asked in turns, so that a busy moment of the machine meets them alike.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from case import Row, Rows, Scale, crowd
from contender import Contender, Program
from kinds import KIB, MIB, SMALL

ROUNDS = 15
CHUNK = 2000
"""Calls under way at once, where calls are made only to have been made."""
WAITING_BYTES = 16 * KIB
QUIET_SECONDS, QUIET_SHARE, QUIET_TIMES = 0.1, 0.05, 600
"""A pair is at rest when it used less than that share of a core for so long; how often to look."""


@dataclass(frozen=True)
class Point(Row):
    """One point of a curve: round trip and processor time, and both beside its twin's."""

    curve: str = ""
    at: float = 0.0
    cpu_us: float = 0.0
    ratio: float = 1.0
    cpu_ratio: float = 1.0


@dataclass(frozen=True)
class Cost:
    """Of a call: median round trip, and processor time of both sides; microseconds."""

    p50_us: float
    cpu_us: float


def cost(pair: Contender, size: int, count: int) -> Cost:
    warm = max(2, count // 10)
    before = pair.cpu_ns()
    samples = pair.ask("echo", size, count, warm)["ns"]
    return Cost(statistics.median(samples) / 1e3, (pair.cpu_ns() - before) / 1e3 / (count + warm))


def point(case: str, pair: Contender, twin: Contender, calls: int, size: int = SMALL, **members: Any) -> Point:
    """Rounds in which both are asked, in a new order; the least of each, since what else runs only ever adds."""
    rounds: dict[Contender, list[Cost]] = {pair: [], twin: []}
    for _ in range(ROUNDS):
        for one in random.sample((pair, twin), 2):
            rounds[one].append(cost(one, size, max(2, calls // ROUNDS)))
    ours, theirs = map(least, rounds.values())
    ratios = {"ratio": ours.p50_us / theirs.p50_us, "cpu_ratio": ours.cpu_us / theirs.cpu_us}
    return Point(case, ours.p50_us, "µs", 1, cpu_us=ours.cpu_us, **ratios, **members)


def least(costs: list[Cost]) -> Cost:
    return Cost(min(one.p50_us for one in costs), min(one.cpu_us for one in costs))


class Curve:
    """Points as ratios to the first one, before anything grew: two pairs are never alike, least of all in Java."""

    def __init__(self, name: str, pair: Contender, twin: Contender, calls: int) -> None:
        self._name = name
        self._pairs = pair, twin
        self._calls = calls
        self._first: Point | None = None

    def at(self, at: float, case: str) -> Point:
        found = point(case, *self._pairs, self._calls, curve=self._name, at=at)
        first = self._first = self._first or found
        ratios = {"ratio": found.ratio / first.ratio, "cpu_ratio": found.cpu_ratio / first.cpu_ratio}
        self._last = replace(found, **ratios)
        return self._last

    def round_trip(self, case: str) -> Row:
        return Row(case, self._last.ratio, "", 2, "population")

    def cost(self, case: str) -> Row:
        """The verdict: the larger of the last two ratios."""
        return Row(case, max(self._last.ratio, self._last.cpu_ratio), "", 2, f"growth_{self._name}")


def at_rest(pair: Contender) -> None:
    """Return once the pair does nothing more about what just came: it is growth that counts, not contention."""
    for _ in range(QUIET_TIMES):
        before = pair.cpu_ns()
        time.sleep(QUIET_SECONDS)
        if pair.cpu_ns() - before < QUIET_SHARE * QUIET_SECONDS * 1e9:
            return
    raise RuntimeError(f"{pair.name} does not come to rest")


def nodes(pair: Contender, twin: Contender, scale: Scale) -> Rows:
    """More and more idle nodes in the same registry."""
    curve, running = Curve("nodes", pair, twin, scale.calls), 0
    with crowd(pair.work) as bystanders:
        for number in scale.populations:
            if running:
                bystanders.ask("open", count=number - running, prefix=f"crowd.of-{number}")
                at_rest(pair)
            running = number
            yield curve.at(number, f"round trip while {number} nodes run")
    fewest = f"{running} nodes / {scale.populations[0]} nodes"
    yield curve.round_trip(f"round trip, {fewest}")
    yield curve.cost(f"cost of a call, {fewest}")


def waiting_at_receiver(pair: Contender, twin: Contender, scale: Scale) -> Rows:
    """Nobody asks the service's node for its messages: they wait in another lane of the inbox the calls come by."""
    return _waiting(pair, twin, scale, "server", "unread in another lane of the receiver")


def waiting_at_caller(pair: Contender, twin: Contender, scale: Scale) -> Rows:
    """Messages that the calling node does not ask for, in the inbox its answers come by."""
    return _waiting(pair, twin, scale, "client", "unread in the caller's inbox")


def _waiting(pair: Contender, twin: Contender, scale: Scale, target: str, where: str) -> Rows:
    with crowd(pair.work) as sender:
        sender.ask("open", count=1, max_lane_bytes=2 * MIB * max(scale.waiting_mib))
        curve, filled = Curve(f"waiting_{target}", pair, twin, scale.calls), 0
        for mib in scale.waiting_mib:
            _fill(sender, (mib - filled) * MIB, target)
            filled = mib
            at_rest(pair)
            yield curve.at(mib, f"round trip while {mib:,} MiB wait {where}")
        yield curve.cost(f"cost of a call, {filled:,} MiB {where} / none")


def _fill(sender: Program, size: int, target: str) -> None:
    if size:
        sender.ask("wait", target=target)
        sender.ask("fill", size=WAITING_BYTES, count=size // WAITING_BYTES, target=target)


def uptime(pair: Contender, twin: Contender, scale: Scale) -> Rows:
    """Calls before the measured ones; their lanes rotate every 8 MiB, which is some 25,000 calls."""
    curve, made = Curve("calls", pair, twin, scale.calls), 0
    for number in scale.calls_made:
        for count in chunks(number - made):
            pair.ask("pipeline", SMALL, count, 0)
        made = number + scale.calls
        yield curve.at(number, f"round trip after {number:,} calls")
    yield curve.cost(f"cost of a call, after {number:,} calls / after {scale.calls_made[0]:,}")


def chunks(count: int) -> Iterator[int]:
    for begin in range(0, count, CHUNK):
        yield min(CHUNK, count - begin)


def filesystems(pair: Contender, twin: Contender, scale: Scale) -> Rows:
    """The same on a disk's filesystem; the twin is in memory."""
    for size, calls in ((SMALL, scale.calls), (MIB, max(2, scale.calls // 25))):
        yield point(f"round trip of {size:,} bytes, on disk", pair, twin, calls, size)
