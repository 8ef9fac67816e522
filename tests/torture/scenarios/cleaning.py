"""Cleaners beside nodes that start (R-26, R-27): none of them meets a start.

``speed root gc`` runs in a loop. A round: six processes, ordinary and ephemeral ones of each language, start a
node each at one moment, under a name that is new or was used before. Each of these has its inbox and its bell then.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from random import Random

from speed.wire import names
from tests.interop.harness import Agent, AgentError
from tests.interop.languages import CHOSEN, ROOT
from tests.interop.pool import Agents
from tests.torture.scenario import Report, Scenario

NAMES = 40
"""Of which each round takes some again: what is left of them is just being removed, or not."""


class Starts:
    """The processes that start nodes, and the next number of a new name."""

    def __init__(self, cast: Agents, report: Report) -> None:
        self.report, self.root = report, cast.root
        kinds = [(language, kind) for language in CHOSEN for kind in ("false", "true")]
        self.agents = [
            cast.start(language, f"starter.{language}.{kind}", ephemeral=kind, allow=["starter.*"])
            for language, kind in kinds
        ]
        for agent in self.agents:
            agent.ready()

    def round(self, seed: int) -> None:
        random = Random(seed)
        taken = random.sample(range(NAMES), len(self.agents))
        chosen = [f"old.{number}" if random.random() < 0.5 else f"new.{seed}.{number}" for number in taken]
        at = time.monotonic_ns() + random.randrange(20_000_000)
        told = [
            (agent, name, agent.tell("race", name=name, at=at)) for agent, name in zip(self.agents, chosen, strict=True)
        ]
        for agent, name, number in told:
            self.check_started(agent, name, number)
        for agent in self.agents:
            agent.ask("release")

    def check_started(self, agent: Agent, name: str, number: int) -> None:
        try:
            agent.answer(number)
        except AgentError as error:
            self.report.check(False, f"{name} of {agent!r}: {error}")
            return
        bell = names.bell_path(self.root, name)
        has_bell = os.path.exists(bell) and stat.S_ISFIFO(os.stat(bell).st_mode)
        is_whole = has_bell and os.path.isdir(names.inbox_dir(self.root, name))
        self.report.check(is_whole, f"{name} of {agent!r} has no inbox or no bell")
        self.report.add("starts")


@contextlib.contextmanager
def cleaner(root: str, report: Report) -> Iterator[None]:
    """``speed root gc`` in a loop, in a process of its own."""
    command = [sys.executable, "-m", "tests.torture.cleaner", root, *["careless"] * report.mutated]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield
        rounds, _ = process.communicate("\n", timeout=60)
        report.check(process.returncode == 0, f"the cleaner ended with {process.returncode}")
        report.add("rounds of the cleaner", int(rounds or 0))
    finally:
        process.kill()
        process.wait()


def run(seed: int, count: int, report: Report) -> None:
    with contextlib.closing(Agents()) as cast:
        starts = Starts(cast, report)
        with cleaner(cast.root, report):
            for round_seed in report.rounds(seed, count):
                starts.round(round_seed)


SCENARIO = Scenario(
    name="cleaning",
    promise="`speed root gc` beside nodes that start: every start succeeds, and has inbox and bell",
    unit="rounds of 6 starts",
    tiny=20,
    quick=10,
    full=1667,
    mutation="the cleaner takes every node without an entry for a dead one",
    run=run,
)
