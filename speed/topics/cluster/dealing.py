"""A subscription as one host of several deals it out: its messages come from Pulsar, in any order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from speed.topics.subscription import Subscription, Terms
from speed.wire.limits import MAX_TOPIC_UNACKNOWLEDGED

REMEMBERED = 2 * MAX_TOPIC_UNACKNOWLEDGED
"""Acknowledged offsets that are known to be: Pulsar may send again what it was told of a moment ago."""


class Recent:
    """What was acknowledged last. What comes from Pulsar is not acknowledged there, however low it is."""

    pairs: list[tuple[int, int]] = []  # noqa: RUF012 - never changed

    def __init__(self, low: int) -> None:
        self.low = low
        self._offsets: dict[int, None] = {}

    def add(self, start: int, end: int) -> None:
        """One offset; it is the latest now."""
        assert end == start + 1
        self._offsets.pop(start, None)
        self._offsets[start] = None
        if len(self._offsets) > REMEMBERED:
            del self._offsets[next(iter(self._offsets))]

    def __contains__(self, offset: int) -> bool:
        return offset in self._offsets


class Dealing(Subscription):
    """Not thread-safe. ``attempts`` are those of its messages when it was opened before."""

    def __init__(self, terms: Terms, cursor: int, end: int, attempts: Mapping[int, int]) -> None:
        """``end`` is where the topic ends: what is before it may have been delivered."""
        super().__init__(terms, cursor, (), attempts)
        self.next = end

    def _settled(self, cursor: int, ranges: Iterable[tuple[int, int]]) -> Recent:
        return Recent(cursor)

    def is_settled(self, offset: int) -> bool:
        """Whether it was acknowledged a while ago."""
        return offset in self._acknowledged

    def deal(self, offset: int, key: int, due_ms: int, attempts: int) -> None:
        """A message that came; ``attempts`` is how often Pulsar says that it was sent before.

        One that may be delivered only so often is delivered at least once: a host may have had it and not given it.
        """
        most = self.terms.max_deliveries - 1 if self.terms.max_deliveries else attempts
        self._before[offset] = max(self._before.get(offset, 0), min(attempts, most))
        self.next = max(self.next, offset + 1)
        self._admit(offset, key, due_ms)
