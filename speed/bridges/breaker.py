"""Whether a bridge carries, waits or tries again (B-18): one table. Pure.

Times are seconds of a clock that never jumps.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.1, 5.0
CHANCE = 0.25
"""By how much a pause is shorter at most: bridges that failed together do not all come back together."""


class State(str, Enum):
    """Of a bridge; its text is what people see."""

    CARRYING = "carrying"
    WAITING = "waiting"
    TRYING = "trying"


CARRYING, WAITING, TRYING = State.CARRYING, State.WAITING, State.TRYING
CONFIRMED, FAILED, DUE = "confirmed", "failed", "due"
TABLE = {
    (CARRYING, CONFIRMED): CARRYING,
    (CARRYING, FAILED): WAITING,
    (WAITING, DUE): TRYING,
    (TRYING, CONFIRMED): CARRYING,
    (TRYING, FAILED): WAITING,
}


class Breaker:
    """For one thread at a time.

    Attributes:
        state: what the bridge does.
        trouble: what failed last; empty while it carries.
    """

    def __init__(self, chance: Callable[[], float]) -> None:
        """``chance`` gives numbers from 0 to 1."""
        self.state = CARRYING
        self.trouble = ""
        self._chance = chance
        self._pause = FIRST_PAUSE_SECONDS
        self._until = 0.0

    def confirmed(self) -> bool:
        """Something was carried. Whether that ends trouble."""
        was, self.state = self.state, TABLE[self.state, CONFIRMED]
        self.trouble = ""
        self._pause = FIRST_PAUSE_SECONDS
        return was is TRYING

    def failed(self, now: float, trouble: str) -> bool:
        """Something was not. Whether this is new."""
        was, self.state = self.state, TABLE[self.state, FAILED]
        is_new = was is CARRYING or trouble != self.trouble
        self.trouble = trouble
        self._until = now + self._pause * (1.0 - CHANCE * self._chance())
        self._pause = min(2 * self._pause, MOST_PAUSE_SECONDS)
        return is_new

    def wait(self, now: float) -> float:
        """How long to wait before the next try; 0 to go on."""
        if self.state is WAITING and now >= self._until:
            self.state = TABLE[self.state, DUE]
        return self._until - now if self.state is WAITING else 0.0


__all__ = ["Breaker", "State"]
