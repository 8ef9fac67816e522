"""Owners that were paused: one owner a generation; who was replaced gets nothing accepted (R-8, R-12, L-18).

A round: an owner is stopped in the midst of sending until its lease has run out; eight claimants reach for its name at
once; then it is resumed. It must hear LEASE_LOST, and its receiver nothing.
"""

from __future__ import annotations

from random import Random

from speed.fs.keyfile import load_key_file
from speed.fs.registry import Registry
from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents
from tests.interop.racing import race
from tests.torture.duel import language_of
from tests.torture.scenario import Report, Scenario

CLAIMANTS = 8
NAME = "billing"
BURST, BYTES = 1_000_000, 4000
"""More than a lane holds: it is sending when it is stopped, and still when it is resumed."""
QUIET_SECONDS = 0.3


class Reclaims:
    """The claimants and receivers, which live on, and the newest generation."""

    def __init__(self, cast: Agents, report: Report) -> None:
        self.cast, self.report = cast, report
        self.claimants = [
            cast.start(language_of(number), f"claimant.{number}", **report.kind(number)) for number in range(CLAIMANTS)
        ]
        self.receivers = [cast.start(language, f"receiver.{language}", allow=[NAME]) for language in CHOSEN]
        for agent in (*self.claimants, *self.receivers):
            agent.ready()
        self.registry = Registry(cast.root, load_key_file(f"{cast.root}/speed.key"))
        self.generation = 0

    def round(self, seed: int) -> None:
        receiver = self.receivers[seed // 3 % 3]
        owner = self.cast.start(language_of(seed), NAME, lease=1.5, heartbeat=0.3, **self.report.kind(seed)).ready()
        self.own(owner.generation)
        sending = owner.tell("burst", target=receiver.name, count=BURST, bytes=BYTES)
        before = receiver.ask("drain", count=Random(seed).randrange(1, 200), timeout=10)["received"]
        self.report.check(before > 0, "an owner in the midst of sending sends nothing")
        owner.pause()
        gone = until(lambda: self.registry.live(NAME, sure=True) is None)
        self.report.check(gone, "the lease of a stopped owner does not run out")
        winners = race(self.claimants, NAME)
        self.report.check(len(winners) == 1, f"{len(winners)} claimants replaced one owner")
        for _, generation in winners:
            self.own(generation)
        drain(receiver)
        owner.resume()
        self.lost(owner, sending)
        accepted = drain(receiver) + (before if self.report.mutated else 0)
        self.report.check(
            accepted == 0, f"{accepted} of a {owner.language} owner came to {receiver.language} though replaced"
        )
        for winner, _ in winners:
            winner.ask("release")
        owner.end()
        self.report.add(f"{owner.language} owners replaced")

    def own(self, generation: int) -> None:
        """Each is higher than all before."""
        self.report.check(generation > self.generation, f"generation {generation} after {self.generation}")
        self.generation = generation

    def lost(self, owner: Agent, sending: int) -> None:
        try:
            owner.answer(sending)
        except AgentError as error:
            self.report.check(error.code == "LEASE_LOST", f"an owner that was replaced hears {error.code}")
        else:
            self.report.check(False, "an owner that was replaced sends on")


def drain(receiver: Agent) -> int:
    """Receive until nothing more comes; how many came."""
    total = 0
    while came := receiver.ask("drain", count=1 << 20, timeout=QUIET_SECONDS)["received"]:
        total += came
    return total


def run(seed: int, count: int, report: Report) -> None:
    cast = Agents()
    try:
        reclaims = Reclaims(cast, report)
        for round_seed in report.rounds(seed, count):
            reclaims.round(round_seed)
    finally:
        cast.close()


SCENARIO = Scenario(
    name="reclaim",
    promise="a paused owner is replaced by exactly one of many; resumed, it hears so and gets nothing accepted",
    unit="replacements",
    tiny=1,
    quick=4,
    full=5000,
    mutation="what it had sent before it was stopped is counted as accepted late",
    run=run,
)
