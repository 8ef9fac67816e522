"""One accepted request, from its head to its answer."""

from __future__ import annotations

from speed.core.progress import Token
from speed.runtime.cancellation import Withdrawal
from speed.runtime.inbound import Lane
from speed.wire.spc import RequestHead


class Accepted:
    """``token`` commits its envelope in ``lane``; ``deadline`` is in monotonic seconds, ``sent_ms`` Unix time.

    ``unsure``: whether this process began it before its lane failed cannot be told (S-8).
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
        "sent_ms",
        "source",
        "token",
        "unsure",
        "was_found_again",
    )

    def __init__(
        self,
        lane: Lane,
        token: Token,
        generation: int,
        head: RequestHead,
        payload: bytes,
        deadline: float,
        sent_ms: int,
        unsure: bool,
    ) -> None:
        self.lane, self.source, self.token, self.generation = lane, lane.source, token, generation
        self.head, self.payload, self.deadline = head, payload, deadline
        self.sent_ms, self.unsure = sent_ms, unsure
        self.cancellation = Withdrawal()
        self.is_over = self.was_found_again = False
        self._right = [None]

    def claim_answer(self) -> bool:
        """Whether the caller of this method is the one that answers: exactly one is (S-3). Thread-safe."""
        try:
            self._right.pop()
        except IndexError:
            return False
        return True

    def begin(self, *, listed: bool) -> bool:
        """Commit that it begins, as ``Lane.begin``; once more where its lane was opened again meanwhile."""
        lane = self.lane
        began = lane.begin(self.token, listed=listed)
        if not began and self.lane is not lane:
            began = self.lane.begin(self.token, listed=listed)
        return began

    def found_again(self, lane: Lane, token: Token) -> bool:
        """Its lane failed and was opened again: there it is finished from now on. False if it is another envelope."""
        if token.sequence != self.token.sequence:
            return False
        self.token, self.lane = token, lane
        self.was_found_again = True
        if self.is_over:
            self.finish()
        return True

    def end(self) -> None:
        """Nothing is left to do for it, but in a lane that was opened again meanwhile."""
        self.is_over = True
        self.payload = b""  # its deadline is remembered for a while, and the call with it
        if self.was_found_again:
            self.finish()

    def finish(self) -> None:
        """Commit it; again does nothing."""
        self.lane.finish((self.token,))
