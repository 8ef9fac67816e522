"""What a torture scenario is, and what it tells while it runs.

A scenario is one module in ``scenarios/`` with a ``SCENARIO``. It repeats rounds; the seed of a round decides all of
its random choices, so a round that failed is repeated by ``scripts/torture NAME --seed S --count 1``.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

SHOWN = 5
"""Failures after which a scenario ends: more of them tell nothing new."""
PROGRESS_SECONDS = 10.0


@dataclass(frozen=True)
class Scenario:
    """One promise and how it is tried. ``run(seed, count, report)`` makes ``count`` rounds from ``seed`` on.

    ``mutation`` says what ``report.mutated`` makes the test layer do: it breaks the promise, and must be noticed.
    ``tiny`` rounds suffice for that. ``emulates``: how, where the thing itself cannot be done here.
    """

    name: str
    promise: str
    unit: str
    tiny: int
    quick: int
    full: int
    mutation: str
    run: Callable[[int, int, Report], None]
    emulates: str = ""


@dataclass
class Report:
    """Counts, figures and failures of one run."""

    name: str
    mutated: bool = False
    ephemeral: bool = False
    """Every other node says that its name will not come back."""
    figures: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    is_caught: bool = False
    """Whether a check failed; an exception is a failure too, but tells nothing about a mutation."""
    round_seed: int = 0
    _told: float = field(default_factory=time.monotonic)

    def kind(self, number: int) -> dict[str, str]:
        """What the node with this number is started with."""
        return {"ephemeral": "true"} if self.ephemeral and number % 2 else {}

    def rounds(self, seed: int, count: int) -> Iterator[int]:
        """The seeds of ``count`` rounds; ends early once much has failed."""
        for done in range(count):
            if len(self.failures) >= SHOWN:
                return
            self.round_seed = seed + done
            self._tell_progress(done, count)
            yield self.round_seed

    def attempts(self, seed: int, count: int, breaks: Mapping[str, tuple[str, str]]) -> Iterator[Report]:
        """A report for each round.

        Mutated, each of ``breaks`` (by name: who does it, and what is then said) is broken in turn,
        and must be noticed in one of its rounds.
        """
        noticed: set[str] = set()
        for round_seed in self.rounds(seed, count):
            attempt = Report(self.name, self.mutated, round_seed=round_seed)
            yield attempt
            broken = attempt.broken(breaks)
            if broken and any(breaks[broken][1] in failure for failure in attempt.failures):
                noticed.add(broken)
                attempt.failures.clear()
            self.join(attempt)
        if self.mutated:
            self.is_caught = noticed == set(breaks)

    def broken(self, breaks: Mapping[str, tuple[str, str]]) -> str:
        """What is broken in this round; nothing unless the run is mutated."""
        return list(breaks)[self.round_seed % len(breaks)] if self.mutated else ""

    def add(self, figure: str, amount: int = 1) -> None:
        """Count something that the result shows."""
        self.figures[figure] += amount

    def note_worst(self, figure: str, value: float) -> None:
        """Keep the largest value."""
        self.worst[figure] = max(value, self.worst.get(figure, value))

    def check(self, holds: bool, what: str) -> bool:
        """Record a failure of this round unless ``holds``; returns ``holds``."""
        self.is_caught |= not holds
        if not holds:
            self._fail(what)
        return holds

    def _fail(self, what: str) -> None:
        if len(self.failures) < SHOWN:
            kind = " --ephemeral" if self.ephemeral else ""
            command = f"scripts/torture {self.name}{kind} --seed {self.round_seed} --count 1"
            self.failures.append(f"{what}; repeat: {command}")
            print(f"  FAILED {self.failures[-1]}", flush=True)

    def attempt(self, run: Callable[[], None]) -> None:
        """Run it; whatever it raises is a failure of the round."""
        try:
            run()
        except Exception as error:
            traceback.print_exc()
            self._fail(f"{type(error).__name__}: {error}")

    def join(self, other: Report) -> None:
        """Add what another part of the rounds found."""
        self.figures.update(other.figures)
        for figure, value in other.worst.items():
            self.note_worst(figure, value)
        self.failures += other.failures
        self.is_caught |= other.is_caught

    def told(self) -> str:
        """All figures in one line."""
        counted = [f"{amount:,} {figure}" for figure, amount in self.figures.items()]
        return ", ".join(counted + [f"{figure} {value:g}" for figure, value in self.worst.items()])

    def _tell_progress(self, done: int, count: int) -> None:
        if time.monotonic() - self._told >= PROGRESS_SECONDS:
            self._told = time.monotonic()
            print(f"  {self.name}: {done:,} of {count:,}; {self.told()}", flush=True)
