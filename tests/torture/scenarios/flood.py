"""Junk by the hundred thousand: foreign files in inboxes and registry, foreign directories, noise in the bells.

A round adds 10,000 files: half to the inboxes of the three agents, half to the registry, every third of them called
like an entry, and every tenth of these as large as one; ten directories in each inbox, called like lanes; and noise in
every bell. Meanwhile acknowledged messages go between all pairs. Delivery, memory and quarantine stay bounded (R-1,
R-22, L-9, L-19 to L-21).
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from random import Random
from unittest.mock import patch

from speed.wire import names
from speed.wire.limits import MAX_QUARANTINE_BYTES, MAX_QUARANTINE_FILES, MIN_ENTRY_BYTES
from tests.interop.harness import Agent
from tests.torture.scenario import Report, Scenario
from tests.torture.world import World

FILES = 10_000
DIRECTORIES = 10
MEASURES = 5
DELIVERY_SECONDS = 1.0
GROWTH_MB = 64
SMALL_HEAP = {"SPEED_JAVA_OPTIONS": "-Xmx64m"}
"""Without a bound a virtual machine keeps its garbage as long as there is memory."""


class Flood:
    """All rounds happen in one world: the junk adds up."""

    def __init__(self, world: World, report: Report) -> None:
        self.world, self.report = world, report
        self.deliveries: list[float] = []
        for _ in range(MEASURES):
            self.measure()
        self.deliveries.clear()
        self.before = {agent: resident_mb(agent) for agent in world.agents.values()}

    def round(self, seed: int) -> None:
        random = Random(seed)
        agents = list(self.world.agents.values())
        junk = threading.Thread(target=self.pour, args=(random, seed))
        junk.start()
        if self.report.mutated:
            agents[0].pause()
            threading.Timer(2 * DELIVERY_SECONDS, agents[0].resume).start()
        for _ in range(MEASURES):
            self.measure()
        junk.join()
        for agent in agents:
            self.note(agent)

    def pour(self, random: Random, seed: int) -> None:
        registry = names.registry_dir(self.world.root)
        for number in range(FILES // 2):
            end = ".node" if number % 3 == 0 else ""
            size = MIN_ENTRY_BYTES if number % 30 == 0 else random.randrange(64)
            write(f"{registry}/junk-{seed}-{number}{end}", random.randbytes(size))
        for agent in self.world.agents.values():
            inbox = names.inbox_dir(self.world.root, agent.name)
            for number in range(FILES // 2 // len(self.world.agents)):
                write(f"{inbox}/junk-{seed}-{number} ", random.randbytes(random.randrange(64)))
            for number in range(DIRECTORIES):
                os.mkdir(f"{inbox}/stranger.{seed}.{number}", 0o700)
            self.make_noise(agent, random.randbytes(random.choice((1001, 65536))))
        self.report.add("files", FILES)
        self.report.add("directories", DIRECTORIES * len(self.world.agents))

    def make_noise(self, agent: Agent, noise: bytes) -> None:
        bell = os.open(names.bell_path(self.world.root, agent.name), os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(bell, noise)
        except BlockingIOError:
            pass  # it is full: just as good
        finally:
            os.close(bell)

    def measure(self) -> None:
        """Seconds until a message was acknowledged, for every pair."""
        for source, target in self.world.pairs():
            began = time.monotonic()
            source.ask("send", target=target.name, payload={"n": 1}, ack=True, timeout=30)
            self.deliveries.append(time.monotonic() - began)
        for agent in self.world.agents.values():
            agent.ask("drain", count=len(self.world.agents) - 1, timeout=30)

    def note(self, agent: Agent) -> None:
        growth = resident_mb(agent) - self.before[agent]
        self.report.note_worst(f"growth of {agent.language}, MB", round(growth, 1))
        self.report.check(growth <= GROWTH_MB, f"{agent!r} grew by {growth:.0f} MB")
        kept = list(os.scandir(names.quarantine_dir(self.world.root, agent.name)))
        files = [entry for entry in kept if not entry.name.endswith(".reason")]
        size = sum(entry.stat(follow_symlinks=False).st_size for entry in files if entry.is_file(follow_symlinks=False))
        self.report.check(len(files) <= MAX_QUARANTINE_FILES, f"{agent!r} keeps {len(files)} files in quarantine")
        self.report.check(size <= MAX_QUARANTINE_BYTES, f"{agent!r} keeps {size} bytes in quarantine")

    def judge(self) -> None:
        ordered = sorted(self.deliveries)
        p99 = ordered[int(len(ordered) * 0.99)]
        self.report.add("deliveries", len(ordered))
        self.report.note_worst("p99 of delivery, s", p99)
        self.report.note_worst("slowest delivery, s", ordered[-1])
        self.report.check(p99 <= DELIVERY_SECONDS, f"delivery took {p99:.1f} s (p99)")


def write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, data)
    os.close(fd)


def resident_mb(agent: Agent) -> float:
    pages = int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def run(seed: int, count: int, report: Report) -> None:
    with patch.dict(os.environ, SMALL_HEAP), World() as world:
        flood = Flood(world, report)
        for round_seed in report.rounds(seed, count):
            flood.round(round_seed)
        flood.judge()


SCENARIO = Scenario(
    name="flood",
    promise="junk in inboxes, registry and bells neither holds up valid envelopes nor fills memory or disk",
    unit="rounds of 10,000 files",
    tiny=1,
    quick=2,
    full=100,
    mutation="a receiver is stopped for two seconds",
    run=run,
)
