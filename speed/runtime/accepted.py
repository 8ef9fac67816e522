"""One accepted request, from its head to its answer."""

from __future__ import annotations

from speed.core.progress import Token
from speed.runtime.cancellation import Withdrawal
from speed.runtime.inbound import Lane
from speed.wire.spc import RequestHead


class Accepted:
    """``token`` commits its envelope in ``lane``; ``deadline`` is in monotonic seconds.

    ``unsure``: whether an earlier process began it cannot be told (S-8).
    """

    __slots__ = (
        "_right",
        "cancellation",
        "deadline",
        "generation",
        "head",
        "is_over",
        "lane",
        "payload",
        "redelivered",
        "source",
        "token",
        "unsure",
    )

    def __init__(
        self,
        lane: Lane,
        token: Token,
        generation: int,
        head: RequestHead,
        payload: bytes,
        deadline: float,
        redelivered: bool,
        unsure: bool,
    ) -> None:
        self.lane, self.source, self.token, self.generation = lane, lane.source, token, generation
        self.head, self.payload, self.deadline = head, payload, deadline
        self.redelivered, self.unsure = redelivered, unsure
        self.cancellation = Withdrawal()
        self.is_over = False
        self._right = [None]

    def claim_answer(self) -> bool:
        """Whether the caller of this method is the one that answers: exactly one is (S-3). Thread-safe."""
        try:
            self._right.pop()
        except IndexError:
            return False
        return True

    def finish(self) -> None:
        """Commit it; again does nothing."""
        self.lane.finish((self.token,))
