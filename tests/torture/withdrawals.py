"""Calls that are begun beside other commands, some of them withdrawn, and what their caller was told of each (S-16).

What ran is known whoever was killed: it lies in a file. It is compared with what the caller was told.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Protocol

from tests.interop.harness import Agent
from tests.torture.duel import Outcome
from tests.torture.scenario import Report

NEVER, MAYBE, RAN = "not begun", "may have run", "ran"
SEGMENT_BYTES = 256
TIMEOUT = 20.0
MAX_AT_ONCE = 6
"""More than a node has workers, so that some of them wait."""
LONGEST_SECONDS = 0.02
LARGEST_BYTES = 1200
"""Small enough for a caller that waits for one of its calls: the commands behind it lie in a pipe."""
MOST_WORKERS = 4
ALLOWED = {"WITHDRAWN", "NODE_LEFT", "UNKNOWN_NODE", "ACCESS_DENIED", "TIMEOUT"}
"""How such a call may end; UNKNOWN_NODE and ACCESS_DENIED before a new life grants. TIMEOUT (S-7, S-8): a killed server
had begun it, which nobody answers, and the next life was there before the caller had noticed the death."""


class Calls(Protocol):
    """What is called, and how often each call ran; asked for once, when nothing runs any more."""

    service: str

    def arguments(self, number: int) -> dict[str, Any]: ...
    def ran(self) -> Counter[int]: ...
    def ran_so_far(self) -> Counter[int]: ...


class Noted:
    """Calls of the agents' service ``note``, which writes its number into a file before it does anything else."""

    service = "note"

    def __init__(self, path: Path, random: Random) -> None:
        self._path, self._random = path, random

    def arguments(self, number: int) -> dict[str, Any]:
        seconds = self._random.choice((0.0, self._random.random() * LONGEST_SECONDS))
        return {"n": number, "file": str(self._path), "seconds": seconds, "quits": self._random.random() < 0.5}

    def ran_so_far(self) -> Counter[int]:
        return Counter(map(int, self._path.read_text().split())) if self._path.exists() else Counter()

    def ran(self) -> Counter[int]:
        ran = self.ran_so_far()
        self._path.unlink(missing_ok=True)
        return ran


class Withdrawals:
    """The calls of one round."""

    def __init__(self, calls: Calls, random: Random, report: Report) -> None:
        self._calls, self._random, self._report = calls, random, report
        self._starts: list[int] = []
        self._outcomes: list[int] = []
        self._begun, self._ended = Outcome(), Outcome()
        self._withdrawn: set[int] = set()
        self._in_segments: set[int] = set()
        self._first_life: Counter[int] | None = None

    def server_died(self) -> None:
        """What runs from now on does so in a later life of the server."""
        self._first_life = self._calls.ran_so_far()

    def begin(self, caller: Agent, target: str) -> list[int]:
        """Have it begin some calls, and withdraw some of these; their numbers, for ``end``."""
        first = len(self._starts)
        numbers = range(first, first + self._random.randrange(1, MAX_AT_ONCE + 1))
        with contextlib.suppress(BrokenPipeError):
            for number in numbers:
                self._tell_size(caller, target, number)
                self._starts.append(caller.tell("start", call=number, **self._call(target, number)))
                for other in self._given_up(first, number):
                    self._withdrawn.add(other)
                    caller.mention("withdraw", call=other)
            caller.mention("segment", target=target, size=None, parity=0)
        return list(numbers)

    def end(self, caller: Agent, numbers: list[int]) -> None:
        """Have it wait for these."""
        with contextlib.suppress(BrokenPipeError):
            for number in numbers:
                self._outcomes.append(caller.tell("outcome", call=number))

    def _given_up(self, first: int, number: int) -> Iterator[int]:
        """Now and then the newest one or one before it."""
        if self._random.random() < 0.5:
            yield self._random.randrange(first, number + 1)

    def _tell_size(self, caller: Agent, target: str, number: int) -> None:
        if self._random.random() < 0.4:
            self._in_segments.add(number)
        size = SEGMENT_BYTES if number in self._in_segments else None
        caller.mention("segment", target=target, size=size, parity=0)

    def _call(self, target: str, number: int) -> dict[str, Any]:
        arguments = {**self._calls.arguments(number), "filler": "x" * self._random.randrange(LARGEST_BYTES)}
        return {"target": target, "service": self._calls.service, "arguments": arguments, "timeout": TIMEOUT}

    def hear(self, caller: Agent) -> None:
        """What it was told of all of them, before it is gone."""
        self._begun.take(caller, self._starts)
        self._ended.take(caller, self._outcomes)

    def judge(self, what: str, *, broken: str = "") -> None:
        """Once nothing runs any more. ``broken``: what is broken on purpose, ``never``, ``twice`` or ``later``."""
        begun, ended = self._begun, self._ended
        told = {number: error.execution for number, error in {**ended.errors, **begun.errors}.items()}
        ran = self._calls.ran()
        if broken == "twice":
            ran += ran
        if broken == "never":
            ran.update(number for number, execution in told.items() if execution == NEVER)
        self._count(told, ended)
        codes = {one: error.code for one, error in ended.errors.items() if one not in begun.errors}
        strange = {one: code for one, code in codes.items() if code not in ALLOWED}
        self._check(what, f"ended with {sorted(set(strange.values()))}", list(strange))
        unanswered = [one for one, code in codes.items() if code == "TIMEOUT"]
        self._check(what, "unanswered, more than were begun", unanswered if len(unanswered) > MOST_WORKERS else [])
        self._check(what, "ran twice", [one for one, times in ran.items() if times > 1])
        self._check(
            what,
            "ran, and its caller was told that it was not begun",
            [one for one, execution in told.items() if execution == NEVER and ran[one]],
        )
        later = set() if self._first_life is None else set(ran - self._first_life)
        lost = {one for one, code in codes.items() if code == "NODE_LEFT"}
        if broken == "later":
            later |= lost
        self._check(what, "ran in a later life, and its caller was told that its server left", sorted(later & lost))
        answered = [one for one in ended.results if one not in begun.errors]
        says_ran = [one for one, execution in told.items() if execution == RAN]
        self._check(what, "never ran, and was answered", [one for one in (*answered, *says_ran) if not ran[one]])

    def _check(self, what: str, broken: str, numbers: list[int]) -> None:
        marks = [f"{one}{'w' * (one in self._withdrawn)}{'s' * (one in self._in_segments)}" for one in numbers]
        self._report.check(not numbers, f"{what} {len(numbers)} calls: {broken}: {', '.join(marks)}")

    def _count(self, told: dict[int, str], ended: Outcome) -> None:
        self._report.add("calls withdrawn", len(self._withdrawn))
        self._report.add("told as not begun", sum(told.get(one) == NEVER for one in self._withdrawn))
        self._report.add("told as perhaps run", sum(told.get(one) == MAYBE for one in self._withdrawn))
        self._report.add("calls in segments", len(self._in_segments))
        self._report.add("answered", sum(one not in told for one in ended.results))
