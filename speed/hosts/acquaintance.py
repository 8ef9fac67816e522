"""What one host knows of another: its life, which a fresh answer proves, and its clock (H-5, H-6).

A greeting carries a nonce. Who answers it holds the key of the pair now, so a life that an answer tells is no replay.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from speed.errors import WireError
from speed.hosts.seal import LIFE_BYTES
from speed.wire.seal import random_bytes
from speed.wire.value import pack, unpack_map

AWAY_SECONDS = 6.0
"""A host that has not answered for so long is away."""
_OPEN_GREETINGS = 8


class Acquaintance:
    """For one thread at a time. Times are those of a monotonic clock, in seconds."""

    def __init__(self, own_life: bytes) -> None:
        self.own_life = own_life
        self.other_life = b""
        """Empty until it is proven."""
        self.round_trip = 0.0
        self._open: OrderedDict[bytes, float] = OrderedDict()
        """Nonces of greetings that are not answered, and when they were sent."""
        self._greetings = 0
        self._newest = 0
        """The number of the last greeting of the life that is proven."""
        self._answered = -AWAY_SECONDS
        self._is_known = False
        self._ahead = 0.0
        """The other clock less ours, at the least."""

    def greeting(self, now: float) -> bytes:
        """One more greeting."""
        nonce = random_bytes(LIFE_BYTES)
        self._open[nonce] = now
        if len(self._open) > _OPEN_GREETINGS:
            self._open.popitem(last=False)
        self._greetings += 1
        return pack({"nonce": nonce, "life": self.own_life, "number": self._greetings})

    def is_strange(self, greeting: bytes) -> bool:
        """Whether a greeting says a life that is not proven. WireError BAD_SEQUENCE for one that came before."""
        told = _checked(greeting, ("nonce", "life"))
        if told["life"] != self.other_life:
            return True
        number = told.get("number")
        if type(number) is not int or number <= self._newest:
            raise WireError("BAD_SEQUENCE", "the greeting came before: it is a replay")
        self._newest = number
        return False

    def answer(self, greeting: bytes, now: float) -> bytes:
        """The answer to a greeting of the other side."""
        told = _checked(greeting, ("nonce", "life"))
        answer = {
            "nonce": told["nonce"],
            "life": self.own_life,
            "knows": self.other_life,
            "clock": int(now * 1000),
        }
        return pack(answer)

    def answered(self, answer: bytes, now: float) -> bool:
        """Take an answer; whether the other side began a new life since the last one."""
        told = _checked(answer, ("nonce", "life"))
        sent = self._open.pop(told["nonce"], None)
        if sent is None:
            raise WireError("BAD_PAYLOAD", "an answer to no greeting that is open")
        clock, knows = told.get("clock"), told.get("knows")
        if type(clock) is not int:
            raise WireError("BAD_PAYLOAD", "an answer without a clock")
        is_new = bool(self.other_life) and told["life"] != self.other_life
        if told["life"] != self.other_life:
            self.other_life, self._newest = told["life"], 0
        self._answered, self.round_trip = now, now - sent
        self._is_known = knows == self.own_life
        self._ahead = clock / 1000 - now  # it was read before now, so a deadline is early rather than late
        return is_new

    def is_up(self, now: float) -> bool:
        """Whether both sides know each other's life, and the other has answered lately."""
        return self._is_known and now - self._answered < AWAY_SECONDS

    @property
    def is_known(self) -> bool:
        """Whether the other side has proven our life too."""
        return self._is_known

    def deadline_there(self, deadline: float) -> int:
        """A moment by the other clock, in milliseconds."""
        return int((deadline + self._ahead) * 1000)


def _checked(data: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    told = unpack_map(data, "greeting")
    for name in names:
        value = told.get(name)
        if type(value) is not bytes or len(value) != LIFE_BYTES:
            raise WireError("BAD_PAYLOAD", f"a greeting without {name}")
    return told
