"""System calls that fail or do less than they were asked, one site after the other (L-5, L-10, L-15, R-5, R-7, R-15).

First each language lives once from start to end, and each call on each kind of file is noted: the sites. A round lets
one of them fail, with one error, in one phase: starting, sending, receiving, renewing the lease, leaving. What the
agent does then ends well or with an error of the contract. What was accepted arrives, once or marked as a repeat, in
order. Afterwards the agent, or the next one of its name, works as before, with no descriptor more. What came of each
site is written to ``build/torture/sites-SEED.txt``, a file for each job.
"""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator

from speed.wire import names
from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import CHOSEN, ROOT
from tests.torture.scenario import Report, Scenario
from tests.torture.shim import LIBRARY, Shimmed
from tests.torture.sites import NOTHING, PHASES, Known, Site, drawn

OPTIONS = {"allow": ["e.*"], "lease": 600, "heartbeat": 0.2}
SENDS = 5
SETTLE_SECONDS = 20.0
HEARTBEATS_SECONDS = 0.7
ROUNDS_A_WORLD = 60
CODES = json.loads((ROOT / "registry_spec" / "codes.json").read_text())
TYPED = {*CODES["local"], *CODES["spc"]}


class Victim:
    """An agent that is started again and again, and a sound peer of another language."""

    def __init__(self, shimmed: Shimmed, language: str) -> None:
        self.shimmed, self.language = shimmed, language
        self.peer = shimmed.start(CHOSEN[CHOSEN.index(language) - 1], f"e.peer.{language}", **OPTIONS).ready()
        self.agent = self.begin()
        self.number = 0

    def begin(self, plan: str | None = None) -> Agent:
        """AgentError if it does not start under this plan, which ends with the start."""
        agent = self.shimmed.start(self.language, f"e.{self.language}", plan=plan, **OPTIONS)
        try:
            self.agent = agent.ready()
        finally:
            self.shimmed.plan(agent, None)
        return agent

    def ends(self, phase: str) -> tuple[Agent, Agent]:
        """Who sends and who receives in a phase."""
        return (self.peer, self.agent) if phase == "receive" else (self.agent, self.peer)

    def act(self, phase: str) -> Iterator[str]:
        """Do what a phase is, under the present plan; yields codes of errors, and ``accepted N``."""
        source, target = self.ends(phase)
        if phase == "heartbeat":
            time.sleep(HEARTBEATS_SECONDS)  # some are due meanwhile
        elif phase == "leave":
            yield from told(self.agent, "close")
        else:
            for _ in range(SENDS):
                self.number += 1
                said = list(told(source, "send", target=target.name, payload=self.number, timeout=1))
                yield from said or [f"accepted {self.number}"]
            if phase == "receive":
                yield from told(target, "stats")

    def sites(self) -> Known:
        """Where it makes calls; after that it has left."""
        self.agent.kill()
        learning = self.begin(NOTHING)
        found = {"register": self._noted(learning)}
        for phase in PHASES[1:]:
            self.shimmed.plan(self.agent, NOTHING)
            list(self.act(phase))
            if phase in ("send", "receive"):
                receive(self.ends(phase)[1], self.number)
            found[phase] = self._noted(self.agent)
        return {(self.language, phase): noted for phase, noted in found.items()}

    def _noted(self, agent: Agent) -> set[tuple[str, str]]:
        self.shimmed.plan(agent, None)
        return {(call, kind) for call, kind, _ in self.shimmed.calls(agent)}


class Round:
    """One site."""

    def __init__(self, victim: Victim, site: Site, report: Report) -> None:
        self.victim, self.site, self.report = victim, site, report
        self.got: list[tuple[int, bool]] = []
        self.said: list[str] = []

    def run(self) -> str:
        """What came of it."""
        victim, phase, plan = self.victim, self.site.phase, self.site.plan
        victim.agent.kill()
        if phase == "register":
            try:
                victim.begin(plan)
            except AgentError as error:
                self.said.append(error.code)
            failing = victim.shimmed.agents[-1]
            if self.said:
                victim.begin()
        else:
            if phase == "receive":
                self.forget_lane()
            failing = victim.begin()
            self.exchange()
            before = held(failing)
            victim.shimmed.plan(failing, plan)
            self.said += victim.act(phase)
            victim.shimmed.plan(failing, None)
            self.check(phase == "leave" or failing.process.poll() is None, "the agent ended")
        hits = sum(how == "failed" for _, _, how in victim.shimmed.calls(failing))
        if phase == "leave":
            self.check(until(lambda: failing.process.poll() is not None, SETTLE_SECONDS), "it does not end")
            victim.begin()
        self.judge()
        if phase in ("send", "receive", "heartbeat"):
            few = until(lambda: not lost(failing, before), SETTLE_SECONDS)
            self.check(few, f"descriptors were lost: {lost(failing, before)}")
        return self.outcome(hits)

    def forget_lane(self) -> None:
        """All in it has been received; now its receiver will find it anew, and make its first cursor."""
        lane = names.lane_dir(self.victim.shimmed.root, self.victim.agent.name, self.victim.peer.name)
        shutil.rmtree(lane, ignore_errors=True)

    def exchange(self) -> None:
        """So that all is open that will be used; but a sender's lane and segment are what may fail."""
        phase = self.site.phase
        for source, target in ((self.victim.peer, self.victim.agent), (self.victim.agent, self.victim.peer)):
            if (phase, source) not in (("send", self.victim.agent), ("receive", self.victim.peer)):
                self.send_at_last(source, target)

    def send_at_last(self, source: Agent, target: Agent) -> int:
        self.victim.number += 1
        number = self.victim.number
        sent = until(
            lambda: not list(told(source, "send", target=target.name, payload=number, timeout=1)), SETTLE_SECONDS
        )
        self.check(sent, f"{source!r} cannot send")
        return number

    def judge(self) -> None:
        source, target = self.victim.ends(self.site.phase)
        last = self.send_at_last(source, target)
        self.got = receive(target, last)
        accepted = {int(one.split()[1]) for one in self.said if one.startswith("accepted")} | {last}
        for code in self.codes():
            self.check(code in TYPED, f"{code} is no error of the contract")
        if self.report.mutated:
            accepted.add(0)
        missing = sorted(accepted - {number for number, _ in self.got})
        if missing:
            missing.append(target.ask("stats")["counters"])
        self.check(not missing, f"{missing} were accepted and are lost")
        firsts = [number for number, redelivered in self.got if not redelivered]
        self.check(firsts == sorted(set(firsts)), f"{firsts} is another order, or a repeat without a mark")

    def codes(self) -> list[str]:
        return [one for one in self.said if not one.startswith("accepted")]

    def outcome(self, hits: int) -> str:
        codes = sorted(set(self.codes()))
        self.report.add("calls that failed", hits)
        self.report.add("sites hit", hits > 0)
        self.report.add("typed errors", len(self.codes()))
        return "not reached" if not hits else ", ".join(codes) or "went on"

    def check(self, holds: bool, what: str) -> None:
        self.report.check(holds, f"{self.site}: {what}")


def told(agent: Agent, op: str, **fields: object) -> Iterator[str]:
    """The code of its error, if there is one."""
    try:
        agent.ask(op, **fields)
    except AgentError as error:
        yield error.code


def receive(agent: Agent, last: int) -> list[tuple[int, bool]]:
    """Payloads and marks until the last one came."""
    got: list[tuple[int, bool]] = []
    while (message := agent.ask("receive", timeout=SETTLE_SECONDS)) is not None:
        got.append((message["payload"], message["redelivered"]))
        if message["payload"] == last:
            break
    agent.ask("finish")
    return got


def held(agent: Agent) -> Counter[str]:
    """What its descriptors lead to."""
    return Counter(agent.descriptors())


def lost(agent: Agent, before: Counter[str]) -> list[str]:
    """Of what is held more often than before, and more than once; or is held no more by any name."""
    now = held(agent)
    return [link for link, _ in (now - before).items() if now[link] > 1 or link.endswith(" (deleted)")]


def run(seed: int, count: int, report: Report) -> None:
    known: Known = {}
    outcomes: dict[Site, str] = {}
    seeds = report.rounds(seed, count)
    for first in seeds:
        with Shimmed() as shimmed:
            victims = {language: Victim(shimmed, language) for language in CHOSEN}
            if not known:
                for victim in victims.values():
                    known |= victim.sites()
            for round_seed in itertools.chain([first], itertools.islice(seeds, ROUNDS_A_WORLD - 1)):
                site = drawn(known, round_seed)
                outcomes[site] = Round(victims[site.language], site, report).run()
    report.note_worst("sites known", sum(map(len, known.values())))
    rows = sorted(f"{site}: {outcome}" for site, outcome in outcomes.items())
    (LIBRARY.parent / f"sites-{seed}.txt").write_text("\n".join(rows) + "\n")


SCENARIO = Scenario(
    name="errno",
    promise="whatever system call fails, an agent tells so or goes on, nothing accepted and no descriptor is lost",
    unit="failing sites",
    tiny=1,
    quick=15,
    full=6000,
    mutation="a message that was never sent counts as accepted",
    run=run,
)
