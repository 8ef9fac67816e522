"""Many agents of all languages that all talk to each other; what they hold open and how large they are."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents
from tests.torture.scenario import Report

EACH = 5
TIMEOUT = 60.0
LEASE, HEARTBEAT = 30, 1
HEAP = ["env", "SPEED_JAVA_OPTIONS=-XX:TieredStopAtLevel=1 -Xmx64m"]
"""Java's collector lets garbage lie up to this; what leaks ends the process."""
MAX_BYTES = {"java": 80 << 20}
MOST_BYTES_ELSE = 16 << 20


class Fleet:
    """Agents ``m.<number>``; use it as a context. In each exchange everyone sends to, calls and pings somebody."""

    def __init__(self, count: int, report: Report, under: Sequence[str] = ()) -> None:
        self.report = report
        self.forgets = report.mutated and not under
        self.cast = Agents()
        self.members: list[Agent] = []
        self._under = [*HEAP, *under]
        try:
            self.grow(count)
        except BaseException:
            self.cast.close()
            raise

    def __enter__(self) -> Fleet:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.cast.close()

    def grow(self, count: int) -> list[Agent]:
        """As many more, in turn of all languages, some at a time."""
        numbers = range(len(self.members), len(self.members) + count)
        languages = itertools.islice(itertools.cycle(CHOSEN), numbers.start, None)
        new: list[Agent] = []
        for number, language in zip(numbers, languages, strict=False):
            options = {"allow": ["m.*"], "lease": LEASE, "heartbeat": HEARTBEAT, "under": self._under}
            new.append(self.cast.start(language, f"m.{number}", **options))
            if len(new) % 8 == 0:
                new[-1].ready()
        for agent in new:
            if not agent.generation:
                agent.ready()
        self.members += new
        return new

    def exchange(self, shift: int) -> None:
        """Each to the one ``shift`` places on: messages, a call, a ping. All must come, in order and without a flag."""
        size = len(self.members)
        targets = [self.members[(place + shift) % size] for place in range(size)]
        told = []
        for agent, target in zip(self.members, targets, strict=True):
            missing = self.forgets and agent is self.members[0]
            told.append(
                (
                    agent.tell("burst", target=target.name, count=EACH - missing, bytes=300),
                    agent.tell(
                        "call", target=target.name, service="add", arguments={"a": shift, "b": 1}, timeout=TIMEOUT
                    ),
                    agent.tell("ping", target=target.name),
                    agent.tell("drain", count=EACH, timeout=2 if self.forgets else TIMEOUT),
                )
            )
        for agent, (burst, call, ping, drain) in zip(self.members, told, strict=True):
            agent.answer(burst, TIMEOUT)
            self.report.check(agent.answer(call, TIMEOUT) == shift + 1, f"{agent!r}: a wrong answer")
            self.note_ping(agent.answer(ping, TIMEOUT))
            got = agent.answer(drain, 2 * TIMEOUT)
            sound = got == {"received": EACH, "in_order": True, "redelivered": 0}
            if not sound:
                counters = agent.ask("stats")["counters"]
                self.report.check(False, f"{agent!r} got {got}, not {EACH} in order; it counted {counters}")
            self.report.add("messages", got["received"])
        self.report.add("calls", size)

    def note_ping(self, seconds: float) -> None:
        """For who measures."""

    def check_all_present(self) -> None:
        """Nobody heard that anybody left."""
        for agent in self.members:
            left = agent.ask("leaves")
            self.report.check(left == [], f"{agent!r} hears that {left} left, and nobody did")

    def footprint(self) -> list[tuple[int, int]]:
        """(descriptors, resident bytes) of each."""
        return [(len(os.listdir(f"/proc/{agent.pid}/fd")), resident(agent.pid)) for agent in self.members]

    def check_growth(self, before: list[tuple[int, int]]) -> None:
        """Since then: no descriptor more than may be in somebody's hands, and little memory."""
        after = self.footprint()
        for agent, (files, size), (files_now, size_now) in zip(self.members, before, after, strict=True):
            self.report.note_worst("descriptors more", files_now - files)
            self.report.note_worst(f"MiB more in {agent.language}", round((size_now - size) / (1 << 20), 1))
            self.report.check(files_now <= files + 4, f"{agent!r}: {files} descriptors became {files_now}")
            most = MAX_BYTES.get(agent.language, MOST_BYTES_ELSE)
            self.report.check(size_now - size <= most, f"{agent!r} grew by {size_now - size:,} bytes")


def resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
