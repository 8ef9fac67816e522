"""What nodes answer of their work, and what happened between two such answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from speed import Node
from speed.core.access import may_look
from speed.core.scheduler import TIME_BOUNDS_SECONDS, TIMES, time_quantile
from speed.wire.text import harmless

if TYPE_CHECKING:
    from speed.wire.entry import Entry

MAX_NAMES = 500
"""Of one kind from one node: who answers chooses them, and how many there are."""
Answers = dict[str, dict[str, Any] | None]
"""What nodes answered, by name; None of one that did not."""


def ask_all(node: Node, timeout: float, entries: Iterable[Entry] | None = None) -> Answers:
    """The counters of all nodes that ``node`` may look at; None of one that is silent, or answers with no figures.

    ``entries`` are those of all nodes, where they are known.
    """
    known = node.nodes() if entries is None else entries
    names = sorted(entry.name for entry in known if entry.name != node.name and may_look(entry, node.name))
    return {name: answer and sound(answer) for name, answer in node._stats_of(names, timeout).items()}


_FIGURES = frozenset(
    (
        "name",
        "uptimeSeconds",
        "pendingCalls",
        "lanes",
        "queuedRequests",
        "runningRequests",
        "queuedMessages",
        "workers",
        "refusedSenders",
        "refusedBy",
        "counters",
        "services",
        "handlers",
        "peers",
        "openFiles",
        "maxOpenFiles",
    )
)


def sound(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer, whose kinds were checked when it came, with few names, all of them harmless, and nothing unknown."""
    return {key: _sound(value) for key, value in answer.items() if key in _FIGURES}


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return harmless(value)
    if not isinstance(value, dict):
        return value
    return {harmless(name): _sound(one) for name, one in sorted(value.items())[:MAX_NAMES]}


class ServiceLoad(NamedTuple):
    """What one service did between two looks, and what its node has at work and in its queue now."""

    node: str
    service: str
    calls_per_second: float
    error_share: float
    timed_out: int
    run_times: Sequence[int]
    queue_times: Sequence[int]
    at_work: int
    queued: int
    waiting: int = 0
    """Messages in the lanes of its node, and how long the oldest waits."""
    waiting_seconds: float = 0.0

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it; times in seconds, None where nothing was counted."""
        return {
            "node": self.node,
            "service": self.service,
            "callsPerSecond": self.calls_per_second,
            "errorShare": self.error_share,
            "timedOut": self.timed_out,
            "runP50Seconds": quantile(self.run_times, 0.5),
            "runP99Seconds": quantile(self.run_times, 0.99),
            "waitedP99Seconds": quantile(self.queue_times, 0.99),
            "runningRequests": self.at_work,
            "queuedRequests": self.queued,
        }


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Within which time this share ran, in seconds; None where nothing was counted."""
    return min(time_quantile(counts, share), TIME_BOUNDS_SECONDS[-1]) if any(counts) else None


SORTED_BY: dict[str, Callable[[ServiceLoad], float]] = {
    "calls": lambda load: load.calls_per_second,
    "errors": lambda load: load.error_share,
    "p99": lambda load: time_quantile(load.run_times, 0.99),
    "waited": lambda load: time_quantile(load.queue_times, 0.99),
    "queue": lambda load: load.queued,
    "lanes": lambda load: load.waiting_seconds,
}


def loads(before: Answers, now: Answers, seconds: float) -> Iterator[ServiceLoad]:
    """What each service did in these seconds. A node that was started anew meanwhile counts from its start."""
    for node, answer in now.items():
        if answer is None:
            continue
        earlier = (before.get(node) or {}).get("services", {})
        for service, row in answer.get("services", {}).items():
            past = earlier.get(service, {})
            if row["numRequests"] < past.get("numRequests", 0):
                past = {}
            calls = row["numRequests"] - past.get("numRequests", 0)
            errors = row["numErrors"] - past.get("numErrors", 0)
            yield ServiceLoad(
                node,
                service,
                calls / seconds,
                max(0, errors) / calls if calls else 0.0,
                max(0, row.get("numTimedOut", 0) - past.get("numTimedOut", 0)),
                _counted_since(past.get("runTimes"), row.get("runTimes")),
                _counted_since(past.get("queueTimes"), row.get("queueTimes")),
                answer.get("runningRequests", 0),
                answer.get("queuedRequests", 0),
            )


_NOTHING = (0,) * TIMES


def _counted_since(past: Sequence[int] | None, now: Sequence[int] | None) -> Sequence[int]:
    if now and past == now:  # most services of a large root are called by nobody now
        return _NOTHING
    return [max(0, two - one) for one, two in zip(past or [0] * TIMES, now or (), strict=False)]
