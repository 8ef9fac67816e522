"""Order: each sender's messages come in the order in which it sent them, and what is missing is counted (L-3, L-12).

A round: many senders of all languages send at once to one receiver, while strace delays system calls of one of them
and of the receiver. Then one envelope is wiped out of a lane: what is around it comes, and the gap is reported.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from random import Random

from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents
from tests.torture.duel import Delay, tell_all
from tests.torture.lane_files import LaneFiles
from tests.torture.scenario import Report, Scenario

FEW, MANY = 6, 64
MANY_FROM = 100
EACH = 100
TIMEOUT = 60.0


class Crowd:
    """The senders, and a receiver of each language."""

    def __init__(self, cast: Agents, count: int, report: Report) -> None:
        self.root, self.report = cast.root, report
        languages = itertools.islice(itertools.cycle(CHOSEN), count)
        self.receivers = [cast.start(language, f"receiver.{language}", allow=["sender.*"]) for language in CHOSEN]
        self.senders = [cast.start(language, f"sender.{n}") for n, language in enumerate(languages)]
        for agent in (*self.receivers, *self.senders):
            agent.ready()

    def round(self, seed: int) -> None:
        random = Random(seed)
        receiver = self.receivers[seed % len(self.receivers)]
        slow = [receiver, random.choice(self.senders)]
        delays = [Delay(agent, "write,pread64,openat", random.randrange(100, 2000)) for agent in slow]
        try:
            came = self.exchange(receiver)
        finally:
            for delay in delays:
                delay.end()
        for sender in self.senders:
            numbers = came[sender.name]
            wrong = next((at for at, number in enumerate(numbers) if at != number), len(numbers))
            whole = wrong == len(numbers) == EACH
            told = f"{receiver.language} gets {len(numbers)} messages from {sender.language}"
            self.report.check(whole, f"{told}, the first {wrong} of them in order")
        self.gap(random.choice(self.senders), receiver)

    def exchange(self, receiver: Agent) -> dict[str, list[int]]:
        """All send at once; the numbers that came, by sender."""
        told = [(sender, sender.tell("burst", target=receiver.name, count=EACH, bytes=100)) for sender in self.senders]
        if self.report.mutated:
            told.append((self.senders[0], self.senders[0].tell("send", target=receiver.name, payload={"n": 0})))
        came: dict[str, list[int]] = defaultdict(list)
        for number in tell_all(receiver, "receive", [{"timeout": TIMEOUT}] * len(self.senders) * EACH):
            message = receiver.answer(number)
            if self.report.check(message is not None, f"{receiver.language} waits for messages that were sent"):
                came[message["source"]].append(message["payload"]["n"])
                self.report.add("messages")
        for sender, number in told:
            sender.answer(number)
        while self.report.mutated and (message := receiver.ask("receive", timeout=1)):
            came[message["source"]].append(message["payload"]["n"])
        receiver.ask("finish")
        return came

    def gap(self, sender: Agent, receiver: Agent) -> None:
        """Of three envelopes the middle one is overwritten before the receiver sees it."""
        lane = LaneFiles(self.root, sender.name, receiver.name)
        before = receiver.ask("stats")["counters"].get("gaps", 0)
        path = lane.segment_path(lane.segments()[-1])
        receiver.pause()
        sizes = []
        for number in range(3):
            sender.ask("send", target=receiver.name, payload={"n": number}, timeout=TIMEOUT)
            sizes.append(path.stat().st_size)
        with path.open("r+b", buffering=0) as file:
            file.seek(sizes[0])
            file.write(bytes(sizes[1] - sizes[0]))
        receiver.resume()
        came = [receiver.ask("receive", timeout=TIMEOUT)["payload"]["n"] for _ in range(2)]
        receiver.ask("finish")
        reported = receiver.ask("stats")["counters"].get("gaps", 0) - before
        self.report.add("gaps")
        self.report.check(
            (came, reported) == ([0, 2], 1), f"{receiver.language} gets {came} and reports {reported} gaps"
        )


def run(seed: int, count: int, report: Report) -> None:
    with contextlib.closing(Agents()) as cast:
        crowd = Crowd(cast, MANY if count >= MANY_FROM else FEW, report)
        for round_seed in report.rounds(seed, count):
            crowd.round(round_seed)


SCENARIO = Scenario(
    name="fifo",
    promise="what a sender sends comes in its order, and whatever is missing is reported as a gap",
    unit=f"times {EACH} messages of each sender",
    tiny=1,
    quick=3,
    full=1000,
    mutation="one sender's first number is sent again at the end",
    run=run,
)
