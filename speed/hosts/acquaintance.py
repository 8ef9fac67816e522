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
_REMEMBERED_LIVES = 64


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
        self._newest: OrderedDict[bytes, list[int]] = OrderedDict()
        """Of each life that was proven: the number of its last greeting, and the last counter."""
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
        self._take(0, told.get("number"))
        return False

    def take_counter(self, counter: int) -> None:
        """What is counted so came in the life that is proven. WireError BAD_SEQUENCE if it came before."""
        self._take(1, counter)

    def _take(self, place: int, number: Any) -> None:
        newest = self._newest[self.other_life]
        if type(number) is not int or number <= newest[place]:
            raise WireError("BAD_SEQUENCE", "it came before: it is a replay")
        newest[place] = number

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
        self._remember(told["life"])
        self._answered, self.round_trip = now, now - sent
        self._is_known = knows == self.own_life
        self._ahead = clock / 1000 - now  # it was read before now, so a deadline is early rather than late
        return is_new

    def _remember(self, life: bytes) -> None:
        """One that is proven again, as of a process that was paused, goes on where it was."""
        self.other_life = life
        self._newest.setdefault(life, [0, 0])
        self._newest.move_to_end(life)
        if len(self._newest) > _REMEMBERED_LIVES:
            self._newest.popitem(last=False)

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
