"""Races for a name: 2 to 64 processes of all languages, exactly one winner (R-4, R-5).

A round is one race of a few or all of the processes, for a name that is new or was given back in order. Every
generation of a name is won once.
"""

from __future__ import annotations

import itertools
from random import Random

from speed.fs.keyfile import load_key_file
from speed.fs.registry import Registry
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN, LANGUAGES
from tests.interop.pool import Agents
from tests.interop.racing import race
from tests.torture.scenario import Report, Scenario

FEW, MANY = 12, 64
MANY_FROM = 1000
"""Rounds from which on it pays to start so many processes."""


class Races:
    """The racers, and who won what."""

    def __init__(self, cast: Agents, count: int, report: Report) -> None:
        self.report = report
        languages = zip(range(count), itertools.cycle(CHOSEN))
        self.racers = [cast.start(language, f"racer.{n}", **report.kind(n)) for n, language in languages]
        for racer in self.racers:
            racer.ready()
        self.registry = Registry(cast.root, load_key_file(f"{cast.root}/speed.key"))
        self.won: dict[tuple[str, int], Agent] = {}

    def round(self, seed: int) -> None:
        random = Random(seed)
        name = random.choice(("prize", f"prize-{seed}"))
        racing = random.sample(self.racers, random.randrange(2, len(self.racers) + 1))
        winners = race(racing, name)
        if self.report.mutated:
            winners += race(racing, f"{name}-too")
        self.report.add("racers", len(racing))
        self.report.check(len(winners) == 1, f"{len(winners)} of {len(racing)} won {name}")
        for winner, generation in winners:
            self.report.add(f"won by {winner.language}")
            other = self.won.setdefault((name, generation), winner)
            self.report.check(other is winner, f"generation {generation} of {name} was won twice")
        self.look(name, winners)
        for winner, _ in winners:
            winner.ask("release")

    def look(self, name: str, winners: list[tuple[Agent, int]]) -> None:
        """The registry shows the winner, as far as there is one."""
        entry = self.registry.read(name)
        shown = entry and (entry.pid, entry.generation, entry.language)
        said = [(winner.process.pid, number, LANGUAGES[winner.language].says) for winner, number in winners]
        self.report.check(shown in said, f"the registry shows {shown} as the owner of {name}; it was won by {said}")


def run(seed: int, count: int, report: Report) -> None:
    cast = Agents()
    try:
        races = Races(cast, MANY if count >= MANY_FROM else FEW, report)
        for round_seed in report.rounds(seed, count):
            races.round(round_seed)
    finally:
        cast.close()


SCENARIO = Scenario(
    name="races",
    promise="however many reach for a name at once, exactly one gets it",
    unit="races",
    tiny=2,
    quick=15,
    full=20_000,
    mutation="the winner of another name is counted as well",
    run=run,
)
