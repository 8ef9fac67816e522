"""A root on a network filesystem, emulated below the C library (``shim_c``; L-22, L-23, R-7, R-10, R-21, L-24).

Each agent is a host of its own: it sees what others changed up to some seconds late, has no FIFOs, and for a while many
of its calls fail, are cut short, or report a failure after they succeeded. A round sends between two languages
meanwhile: what was accepted arrives, in order, once or marked as a repeat. Other rounds let all languages reach for one
name, kill the winner and let them reach again: one owner each time. A lease that such a mount cannot keep is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from tests.interop.harness import START_SECONDS, Agent, AgentError, until
from tests.interop.languages import CHOSEN, DIFFERENT
from tests.torture.scenario import Report, Scenario
from tests.torture.scenarios.errno import TYPED
from tests.torture.share import Share

HEARTBEAT = 0.5
SLACK_SECONDS = 1.5
LATE = (1, 2, 0)
LATE_FULL = (60, 3, 20, 0, 1)
FULL_FROM = 100
PERMILLE = 30
SENDS = 15
ROUNDS_A_SHARE = 8
SETTLE_SECONDS = 30.0


class Round:
    """Messages from one host to another while calls go wrong."""

    def __init__(self, share: Share, source: Agent, target: Agent, seed: int, report: Report) -> None:
        self.share, self.source, self.target, self.report = share, source, target, report
        self.first = seed % (1 << 20) * 100
        self.where = f"{source.language} to {target.language}, up to {share.late} s late"
        self.got: list[tuple[int, bool]] = []

    def run(self) -> None:
        self.share.fail(True)
        accepted = [number for number in range(self.first, self.first + SENDS) if self.accepts(number)]
        self.receive(wait=0.2)
        self.share.fail(False)
        last = self.first + SENDS
        wait = SETTLE_SECONDS + self.share.late
        self.report.check(until(lambda: self.accepts(last), wait), f"{self.where}: afterwards nothing is sent")
        self.receive(wait, last)
        self.judge([*accepted, last])

    def accepts(self, number: int) -> bool:
        try:
            self.source.ask("send", target=self.target.name, payload=number, timeout=1)
        except AgentError as error:
            self.report.add("typed errors")
            self.report.check(error.code in TYPED, f"{self.where}: {error} is no error of the contract")
            return False
        self.report.add("accepted")
        return True

    def receive(self, wait: float, last: int = -1) -> None:
        """Until the last one came, or nothing more."""
        while (message := self.target.ask("receive", timeout=wait)) is not None:
            self.got.append((message["payload"], message["redelivered"]))
            if message["payload"] == last:
                return

    def judge(self, accepted: list[int]) -> None:
        arrived = {number for number, _ in self.got}
        lost = sorted(set(accepted) - arrived)
        if lost:
            lost.append(self.target.ask("stats")["counters"])
        self.report.check(not lost, f"{self.where}: {lost} were accepted and are lost")
        firsts = [number for number, redelivered in self.got if not redelivered]
        in_order = firsts == sorted(set(firsts))
        self.report.check(in_order, f"{self.where}: {firsts} is another order, or a repeat without a mark")
        self.report.add("marked repeats", len(self.got) - len(firsts))


class Hosts:
    """One agent of each language, and races for a name."""

    def __init__(self, share: Share, report: Report) -> None:
        self.share, self.report = share, report
        self.lease = round(3 * HEARTBEAT + share.late + SLACK_SECONDS, 1)
        self.agents = {one: share.start(one, f"r.{one}", allow=["r.*"], **self.options) for one in CHOSEN}
        for agent in self.agents.values():
            agent.ready()

    @property
    def options(self) -> dict[str, float]:
        return {"lease": self.lease, "heartbeat": HEARTBEAT}

    def check_refusals(self) -> None:
        """A lease that is over before another host can have seen a heartbeat."""
        for language in CHOSEN:
            agent = self.share.start(language, "hasty", lease=3 * HEARTBEAT + self.share.late, heartbeat=HEARTBEAT)
            self.report.check(refusal(agent) == "CONFIGURATION", f"{language} takes a lease that is too short here")
            self.report.add("leases refused")

    def race(self) -> None:
        """All reach for one name; the winner is killed; they reach again."""
        winners = [*self.reach(), *self.reach()]
        self.report.check(len(winners) == 2, f"{len(winners)} owners after two races")
        generations = [winner.generation for winner in winners]
        self.report.check(generations == sorted(set(generations)), f"generations {generations}")
        self.report.add("races", 2)

    def reach(self) -> Iterator[Agent]:
        racers = [self.share.start(language, "prize", **self.options) for language in CHOSEN * 2]
        longest = START_SECONDS + 2 * (self.lease + self.share.late)  # who was killed is waited for, seen late
        winners = [racer for racer in racers if refusal(racer, longest) == ""]
        self.report.check(len(winners) == 1, f"{len(winners)} of {len(racers)} own one name, {self.share.late} s late")
        for winner in winners:
            winner.kill()
            yield winner


def refusal(agent: Agent, wait: float = START_SECONDS) -> str:
    """The code with which it does not start; empty when it starts."""
    try:
        agent.ready(wait)
    except AgentError as error:
        return error.code
    return ""


def run(seed: int, count: int, report: Report) -> None:
    seeds = report.rounds(seed, count)
    lates = LATE_FULL if count >= FULL_FROM else LATE
    for first in seeds:
        late = lates[first // ROUNDS_A_SHARE % len(lates)] if count > 1 else lates[first % len(lates)]
        with Share(late, PERMILLE, first, lies=report.mutated) as share:
            hosts = Hosts(share, report)
            hosts.check_refusals()
            for round_seed in itertools.chain([first], itertools.islice(seeds, ROUNDS_A_SHARE - 1)):
                source, target = Random(round_seed).choice(DIFFERENT)
                Round(share, hosts.agents[source], hosts.agents[target], round_seed, report).run()
            hosts.race()


SCENARIO = Scenario(
    name="remote",
    promise="on a network filesystem nothing accepted is lost and a name has one owner; an unsafe lease is refused",
    unit="rounds of 15 messages",
    tiny=1,
    quick=8,
    full=1000,
    mutation="a segment that is renamed into place is dropped by the server",
    run=run,
    emulates="a library below the C library of each agent plays the client of a network filesystem",
)
