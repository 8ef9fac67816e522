"""Keys that change under load (W-14): in the overlap nothing valid is rejected, and afterwards nothing old is accepted.

A round is one rotation: a key is added, promoted, the old one retired, as ``speed key rotate`` does it. After each step
the nodes of all languages restart one by one, each with unread messages in its lanes, while the others go on. In the
end a stranger seals with the retired key, and one with the new key.
"""

from __future__ import annotations

import os

from speed.cli.keys import rotated
from speed.fs.keyfile import read_keys, write_key_file
from speed.wire.seal import Keyring
from tests.interop.harness import Agent
from tests.torture.ghost import Ghost
from tests.torture.scenario import Report, Scenario
from tests.torture.world import World, in_worlds

STEPS = ("add", "promote", "retire")
TIMEOUT = 30.0
QUIET_SECONDS = 0.3


class Round:
    """One rotation in a world that rounds share."""

    def __init__(self, world: World, seed: int, report: Report) -> None:
        self.world, self.seed, self.report = world, seed, report

    def run(self) -> None:
        # The strangers of the round before were refused.
        self.before = {agent.process.pid: refused_by(agent) for agent in self.world.agents.values()}
        old = Keyring(read_keys(self.world.key_path)[:1])
        for step in STEPS:
            self.step(step)
            for language in self.world.agents:
                self.exchange(language, step)
        self.strangers(old)
        self.report.add("rotations")

    def step(self, step: str) -> None:
        if step == "retire" and self.report.mutated:
            return
        keys = rotated(read_keys(self.world.key_path), step, os.urandom(32))
        write_key_file(self.world.key_path, keys, replace=True)

    def exchange(self, language: str, step: str) -> None:
        """One node restarts between what it is sent and what it reads; then all send to all."""
        target = self.world.agents[language]
        others = [agent for agent in self.world.agents.values() if agent is not target]
        for agent in others:
            agent.ask("send", target=target.name, payload={"n": 1}, timeout=TIMEOUT)
        self.world.restart(language, kill=False)
        target = self.world.agents[language]
        for agent in others:
            agent.ask("send", target=target.name, payload={"n": 2}, timeout=TIMEOUT)
            target.ask("send", target=agent.name, payload={"n": 3}, timeout=TIMEOUT)
            answer = agent.call(target, "add", {"a": 1, "b": 2}, timeout=TIMEOUT)
            self.report.check(answer == 3, f"a wrong answer after {step}")
        for agent, expected in ((target, 2 * len(others)), *((agent, 1) for agent in others)):
            got = agent.ask("drain", count=expected, timeout=TIMEOUT)["received"]
            self.report.add("messages", got)
            self.report.check(got == expected, f"{agent!r} got {got} of {expected} after {step} at {language}")
            refused = refused_by(agent)
            self.report.check(
                refused == self.before.get(agent.process.pid, {}),
                f"{agent!r} refused {refused} after {step} at {language}",
            )

    def strangers(self, old: Keyring) -> None:
        """With the retired key, and with the one of today."""
        for agent in self.world.agents.values():
            for keyring, name, expected in ((old, "old", 0), (self.world.keyring, "new", 1)):
                ghost = Ghost(self.world.root, f"t.{name}.{self.seed}", agent.name, keyring)
                ghost.write(ghost.message({"n": 1}))
                wait = TIMEOUT if expected else QUIET_SECONDS + 1.0  # a lane is found at the next scan
                got = agent.ask("drain", count=1, timeout=wait)["received"]
                self.report.check(got == expected, f"{agent!r} accepted {got} sealed with the {name} key")


def refused_by(agent: Agent) -> dict[str, int]:
    """What it counted as refused or damaged since it started."""
    counters = agent.ask("stats")["counters"]
    return {name: count for name, count in counters.items() if name.startswith(("rejected", "damage"))}


def run(seed: int, count: int, report: Report) -> None:
    for world, round_seed in in_worlds(report.rounds(seed, count), report):
        Round(world, round_seed, report).run()


SCENARIO = Scenario(
    name="rotation",
    promise="while a key is changed nothing valid is rejected; once it is retired nothing sealed with it is accepted",
    unit="rotations",
    tiny=1,
    quick=1,
    full=1000,
    mutation="the old key is not retired",
    run=run,
)
