"""Where system calls can fail: each call on each kind of file, as an agent makes them in each phase of its life."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from random import Random

ERRORS = ("ENOSPC", "EIO", "EACCES", "EMFILE", "EINTR", "EDQUOT", "ESTALE")
SHORT = "SHORT"
DATA_CALLS = ("read", "write", "pwrite")
PHASES = ("register", "send", "receive", "heartbeat", "leave")
NOTHING = "none none 0 0 0"
"""A plan under which calls are noted and none fails."""


@dataclass(frozen=True, order=True)
class Site:
    """A call on a kind of file that fails in a phase of an agent's life, once or from then on."""

    language: str
    phase: str
    call: str
    kind: str
    error: str
    use: int
    lasts: bool

    @property
    def plan(self) -> str:
        number = 0 if self.error == SHORT else getattr(errno, self.error)
        return f"{self.call} {self.kind} {number} {self.use} {int(self.lasts)}"

    def __str__(self) -> str:
        when = f"from use {self.use} on" if self.lasts else f"at use {self.use}"
        return f"{self.language} {self.phase}: {self.call} {self.kind} {self.error} {when}"


Known = dict[tuple[str, str], set[tuple[str, str]]]
"""By language and phase: the calls, each with the kind of file."""


def drawn(known: Known, seed: int) -> Site:
    """Consecutive seeds go through all sites and errors, in a mixed order; how often and how long is drawn."""
    places = [(*where, *place) for where, found in known.items() for place in found]
    cases = sorted((*place, error) for place in places for error in errors_of(place[2]))
    Random(0).shuffle(cases)
    language, phase, call, kind, error = cases[seed % len(cases)]
    random = Random(seed)
    lasts = error not in ("EINTR", SHORT) and random.random() < 0.4
    return Site(language, phase, call, kind, error, random.choice((1, 1, 1, 1, 2)), lasts)


def errors_of(call: str) -> tuple[str, ...]:
    """Only what moves bytes can move fewer."""
    return (*ERRORS, SHORT) if call in DATA_CALLS else ERRORS
