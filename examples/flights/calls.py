"""Many calls to one service: one after another, or pipelined; timed, with progress."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import speed

WINDOW = 256
"""Calls under way at a time: enough to keep both sides busy, few enough that a failure is seen at once."""


@dataclass
class Timing:
    """How a series of calls went; times in seconds."""

    label: str
    how: str
    latencies: list[float] = field(default_factory=list)
    elapsed: float = 0.0

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.latencies) / self.elapsed if self.elapsed else 0.0

    def percentile(self, percent: float) -> float:
        """The latency in milliseconds that ``percent`` of the calls do not exceed."""
        ordered = sorted(self.latencies)
        if not ordered:
            return 0.0
        return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class Counter:
    """One line that counts calls: rewritten in place on a terminal, else one line at each quarter."""

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total, self._shown = label, total, 0.0
        self._live = sys.stdout.isatty()

    def show(self, done: int) -> None:
        """Show ``done`` of the total, at most ten times a second on a terminal."""
        step = max(1, self._total // 4)
        if self._live:
            if done < self._total and time.monotonic() - self._shown < 0.1:
                return
            self._shown = time.monotonic()
            end = "\n" if done == self._total else ""
            print(f"\r  {self._label}: {done:,} of {self._total:,} calls", end=end, flush=True)
        elif done == self._total or (done % step == 0 and self._total - done >= step):
            print(f"  {self._label}: {done:,} of {self._total:,} calls", flush=True)


def one_by_one(
    node: speed.Node, target: str, service: str, arguments: Sequence[dict[str, Any]], timeout: float = 30.0
) -> tuple[list[Any], Timing]:
    """Call for each element, waiting for each answer: whole round trips are timed. An error ends it."""
    timing = Timing(f"{target}.{service}", "one by one")
    counter = Counter(timing.label, len(arguments))
    results = []
    began = time.perf_counter()
    for done, argument in enumerate(arguments, 1):
        start = time.perf_counter()
        results.append(node.call(target, service, argument, timeout=timeout))
        timing.latencies.append(time.perf_counter() - start)
        counter.show(done)
    timing.elapsed = time.perf_counter() - began
    return results, timing


def pipelined(
    node: speed.Node, target: str, service: str, arguments: Sequence[dict[str, Any]], timeout: float = 60.0
) -> tuple[list[Any], Timing]:
    """Call for each element with up to ``WINDOW`` calls under way; results in the order of the arguments.

    A latency runs from ``submit`` to the answer, so it includes the time in the queue behind other calls.
    """
    timing = Timing(f"{target}.{service}", f"{WINDOW} under way")
    counter = Counter(timing.label, len(arguments))
    results: list[Any] = []
    under_way: deque[_Timed] = deque()
    began = time.perf_counter()

    def take() -> None:
        result, latency = under_way.popleft().wait()
        results.append(result)
        timing.latencies.append(latency)
        counter.show(len(results))

    for argument in arguments:
        if len(under_way) >= WINDOW:
            take()
        under_way.append(_Timed(node, target, service, argument, timeout))
    while under_way:
        take()
    timing.elapsed = time.perf_counter() - began
    return results, timing


class _Timed:
    """One submitted call and the time of its answer."""

    def __init__(self, node: speed.Node, target: str, service: str, argument: dict[str, Any], timeout: float) -> None:
        self._noted = threading.Event()
        self._start = self._end = time.perf_counter()
        self._future: Future[Any] = node.submit(target, service, argument, timeout=timeout)
        self._future.add_done_callback(self._note)

    def _note(self, _: Future[Any]) -> None:
        """Runs as soon as the answer is there, on a worker of the node."""
        self._end = time.perf_counter()
        self._noted.set()

    def wait(self) -> tuple[Any, float]:
        """Result and latency in seconds; raises what the call raises."""
        result = self._future.result()
        self._noted.wait()  # a future wakes its waiters before it runs its callbacks
        return result, self._end - self._start
