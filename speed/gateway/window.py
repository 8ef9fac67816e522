"""How many messages a consumer or reader may be sent now. No sockets, no clock."""

from __future__ import annotations

from speed.gateway.limits import MAX_PERMITS
from speed.gateway.message_ids import MessageId


class Window:
    """What a client has and did not settle, and its permits.

    Args:
        size: messages that it may have at once.
        is_pulling: whether it asks for each message; ``size`` is no bound then.
        late_seconds: after so long a message is not counted any more, as the host gives it to others; 0 for never.
    """

    def __init__(self, size: int, *, is_pulling: bool, late_seconds: float = 0.0) -> None:
        self._size, self._is_pulling, self._late = size, is_pulling, late_seconds
        self._permits = 0
        self._open: dict[MessageId, float] = {}

    def room(self, now: float) -> int:
        """How many more it may be sent."""
        if self._is_pulling:
            return self._permits
        while self._late and self._open and next(iter(self._open.values())) + self._late <= now:
            del self._open[next(iter(self._open))]
        return self._size - len(self._open)

    def until_late(self, now: float) -> float | None:
        """Seconds until the oldest message is not counted any more; None if that never comes."""
        if not self._late or not self._open:
            return None
        return max(0.0, next(iter(self._open.values())) + self._late - now)

    def permit(self, count: int) -> None:
        """It asks for so many."""
        self._permits = min(self._permits + max(0, count), MAX_PERMITS)

    def sent(self, message: MessageId, now: float) -> None:
        """It has one more."""
        self._open.pop(message, None)
        self._open[message] = now
        if self._is_pulling:
            self._permits -= 1
            self._forget()

    def _forget(self) -> None:
        """Who pulls is not bound by what it has: it may acknowledge what is not known here any more."""
        while len(self._open) > self._size:
            del self._open[next(iter(self._open))]

    def settle(self, message: MessageId) -> bool:
        """It acknowledged or refused a message; whether it had it."""
        return self._open.pop(message, None) is not None
