"""What each producer published last in one topic: a repetition is known by its sequence (D-6).

A producer is a name together with its owner, the node that publishes under it or a family in which that node is:
nobody speaks for the producer of another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from speed.topics.subscription import SubscriptionError
from speed.wire.limits import MAX_OWNER_PRODUCERS, MAX_TOPIC_PRODUCERS, TOPIC_PRODUCER_SECONDS

RUNS = 8
"""Of each producer: so many runs of what it published last are remembered with their offsets."""


class Producer(NamedTuple):
    """A name, and the authenticated node, or family of nodes, that publishes under it."""

    owner: str
    name: str


class Recorded(NamedTuple):
    """Where a message is kept; ``offset`` is -1 where that is not known any more."""

    offset: int
    is_repeated: bool = False


class Run(NamedTuple):
    """Messages whose sequences and offsets follow each other."""

    sequence: int
    offset: int
    length: int


class Last(NamedTuple):
    """The sequence that a producer published last, when, and where its last messages are."""

    sequence: int
    ms: int
    runs: tuple[Run, ...] = ()

    def offset_of(self, sequence: int) -> int:
        """Where a message is kept; -1 if that is not known any more."""
        for run in self.runs:
            if run.sequence <= sequence < run.sequence + run.length:
                return run.offset + sequence - run.sequence
        return -1

    def then(self, sequence: int, offset: int, ms: int) -> Last:
        """With one more message."""
        *before, last = self.runs or (Run(sequence, offset, 0),)
        if sequence - last.sequence == offset - last.offset == last.length:
            return Last(sequence, ms, (*before, last._replace(length=last.length + 1)))
        return Last(sequence, ms, (*self.runs, Run(sequence, offset, 1))[-RUNS:])


NEVER = Last(0, 0)


class Producers:
    """Not thread-safe. Times are Unix ms."""

    def __init__(self, saved: Mapping[str, Any] | None) -> None:
        """``saved`` is what ``state`` gave; what was recorded since then is to be noted again, from ``end`` on.

        Raises KeyError, TypeError, ValueError for what cannot be.
        """
        self.end = int(saved["end"]) if saved else 0
        rows: Iterable[Any] = saved["producers"] if saved else ()
        self._last = {
            Producer(owner, name): Last(sequence, ms, tuple(Run(*run) for run in runs))
            for owner, name, sequence, ms, runs in rows
        }

    def check_room(self, producer: Producer, now_ms: int) -> None:
        """Make room for one more. Raises SubscriptionError FULL if its owner has too many lately."""
        if producer in self._last:
            return
        own = [one for one in self._last if one.owner == producer.owner]
        if len(own) >= MAX_OWNER_PRODUCERS:
            self._forget_silent(own, now_ms, f"{producer.owner} has {len(own)}")
        elif len(self._last) >= MAX_TOPIC_PRODUCERS and not self._has_taken_from_largest(len(own)):
            self._forget_silent(self._last, now_ms, f"it has {len(self._last)}")

    def _has_taken_from_largest(self, own: int) -> bool:
        """Whether room was made by the owner of the most names, if that has more than the one who asks."""
        largest, count = Counter(one.owner for one in self._last).most_common(1)[0]
        if count <= own + 1:
            return False
        del self._last[self._longest_silent(one for one in self._last if one.owner == largest)]
        return True

    def _forget_silent(self, some: Collection[Producer], now_ms: int, text: str) -> None:
        silent = self._longest_silent(some)
        if now_ms - self._last[silent].ms < TOPIC_PRODUCER_SECONDS * 1000:
            raise SubscriptionError(
                "FULL", f"too many producers of the topic are remembered: {text}; use fewer names, or forget some"
            )
        del self._last[silent]

    def _longest_silent(self, some: Iterable[Producer]) -> Producer:
        return min(some, key=lambda one: self._last[one].ms)

    def note(self, producer: Producer, sequence: int, offset: int, now_ms: int) -> None:
        """A message is recorded; the last one counts, whatever its sequence."""
        self._last[producer] = self._last.get(producer, NEVER).then(sequence, offset, now_ms)

    def last(self, producer: Producer) -> Last:
        """What it published last."""
        return self._last.get(producer, NEVER)

    def forget(self, name: str, owner: str = "") -> int:
        """Know nothing more of the producers of a name, of one owner or of all. Returns how many there were."""
        gone = [one for one in self._last if one.name == name and owner in ("", one.owner)]
        for one in gone:
            del self._last[one]
        return len(gone)

    def described(self) -> list[dict[str, Any]]:
        """What people look at."""
        return [
            {"owner": one.owner, "producer": one.name, "sequence": last.sequence, "last_ms": last.ms}
            for one, last in self._last.items()
        ]

    def state(self, end: int) -> dict[str, Any]:
        """What is to be saved once all before ``end`` is noted."""
        self.end = end
        rows = [[*one, last.sequence, last.ms, [list(run) for run in last.runs]] for one, last in self._last.items()]
        return {"end": end, "producers": rows}
