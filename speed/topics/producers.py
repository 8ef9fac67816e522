"""What each producer published last in one topic: a repetition is known by its sequence (D-6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from speed.topics.subscription import SubscriptionError
from speed.wire.limits import MAX_TOPIC_PRODUCERS, TOPIC_PRODUCER_SECONDS


class Producers:
    """Not thread-safe. Times are Unix ms."""

    def __init__(self, saved: Mapping[str, Any] | None) -> None:
        """``saved`` is what ``state`` gave; what was recorded since then is to be noted again, from ``end`` on."""
        self.end = int(saved["end"]) if saved else 0
        rows: Iterable[Any] = saved["producers"] if saved else ()
        self._last: dict[str, tuple[int, int]] = {name: (sequence, ms) for name, sequence, ms in rows}

    def is_repeated(self, producer: str, sequence: int) -> bool:
        """Whether a message of this sequence, or a later one, is recorded."""
        return bool(sequence) and sequence <= self._last.get(producer, (0, 0))[0]

    def check_room(self, producer: str, now_ms: int) -> None:
        """Raises SubscriptionError FULL if one more cannot be remembered."""
        if producer in self._last or len(self._last) < MAX_TOPIC_PRODUCERS:
            return
        silent = min(self._last, key=lambda name: self._last[name][1])
        if now_ms - self._last[silent][1] < TOPIC_PRODUCER_SECONDS * 1000:
            text = f"the topic remembers {MAX_TOPIC_PRODUCERS} producers, and all published lately: use fewer names"
            raise SubscriptionError("FULL", text)
        del self._last[silent]

    def note(self, producer: str, sequence: int, now_ms: int) -> None:
        """A message of this sequence is recorded."""
        if producer and sequence > self._last.get(producer, (0, 0))[0]:
            self._last[producer] = sequence, now_ms

    def last(self, producer: str) -> int:
        """The sequence that it published last; 0 if none is known."""
        return self._last.get(producer, (0, 0))[0]

    def state(self, end: int) -> dict[str, Any]:
        """What is to be saved once all before ``end`` is noted."""
        self.end = end
        return {"end": end, "producers": [[name, *last] for name, last in self._last.items()]}
