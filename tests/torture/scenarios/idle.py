"""Many senders that are idle nearly all the time, and ten times as many lanes that are only history (L-26).

One service in each language may open 256 files. Before it starts, lanes of nodes that no longer run lie in its inbox.
Then live senders come, call once each, rest, and call once more. All are answered. How long the answers took, and what
an idle service uses of a core, is told, not judged: a busy machine is no broken promise.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from speed.fs.keyfile import load_key_file
from speed.wire.envelope import EnvelopeType
from speed.wire.spc import encode_ack
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN, ROOT
from tests.interop.pool import Agents
from tests.torture.ghost import Ghost
from tests.torture.scenario import Report, Scenario
from tests.torture.scenarios.senders import LIMITED

EACH = 100
"""Nodes in one process."""
HISTORY = 10
FLAG_REPLY = 4
REST_SECONDS = 3.0
"""Longer than a node polls for what may follow."""
MANY = 1000
"""From so many senders on a service rests until it is settled."""
SETTLED_SECONDS = 600.0
"""Until a service looked at 22,000 lanes three times: then it knows which are over."""


class Crowd:
    """A process with so many idle senders."""

    def __init__(self, root: str, family: str, count: int, services: list[str]) -> None:
        command = [sys.executable, "-m", "tests.torture.idlers", root, family, str(count), *services]
        environment = {**os.environ, "SPEED_KEY": f"{root}/speed.key"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def call(self) -> list[float]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [float(one) for one in self.line().split()]

    def end(self) -> None:
        self.process.communicate(timeout=120)


def add_history(cast: Agents, target: str, count: int) -> None:
    """Lanes with one envelope each that asks for nothing, of nodes that are gone."""
    ring = load_key_file(f"{cast.root}/speed.key")
    for number in range(count):
        ghost = Ghost(cast.root, f"old.{number}", target, ring)
        ghost.write(ghost.seal(EnvelopeType.ACK, encode_ack(1), FLAG_REPLY))


def share_of_core(agent: Agent, seconds: float) -> float:
    """Percent of a core that a process used."""
    before = _used(agent.pid)
    time.sleep(seconds)
    return 100 * (_used(agent.pid) - before) / seconds


def _used(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def crowds(root: str, count: int, services: list[str]) -> Iterator[list[Crowd]]:
    sizes = [min(EACH, count - first) for first in range(0, count, EACH)]
    started = [Crowd(root, f"idle.{place}", size, services) for place, size in enumerate(sizes)]
    try:
        assert all(crowd.line() == "up" for crowd in started)
        yield started
        for crowd in started:
            crowd.end()
    finally:
        for crowd in started:
            crowd.process.kill()
            crowd.process.wait()


def run(seed: int, count: int, report: Report) -> None:
    """``count`` senders, in one round."""
    for _ in report.rounds(seed, 1):
        with contextlib.closing(Agents()) as cast:
            names = [f"service.{language}" for language in CHOSEN]
            for name in names:
                add_history(cast, name, HISTORY * count)
            allow = ["old.*"] if report.mutated else ["idle.*", "old.*"]
            services = [
                cast.start(language, name, allow=allow, under=LIMITED, watch="false")
                for language, name in zip(CHOSEN, names, strict=True)
            ]
            for service in services:
                service.ready()
            with crowds(cast.root, count, names) as started:
                call_once(started, count, names, "of new senders", report)
                time.sleep(REST_SECONDS if count < MANY else SETTLED_SECONDS)
                for service in services:
                    used = share_of_core(service, 5.0)
                    report.note_worst(f"percent of a core of an idle {service.language} service", round(used, 2))
                call_once(started, count, names, "after a rest", report)


def call_once(started: list[Crowd], count: int, names: list[str], when: str, report: Report) -> None:
    """One sender after the other calls each service once."""
    took = [one for crowd in started for one in crowd.call()]
    report.check(len(took) == count * len(names), f"{len(took)} of {count * len(names)} calls were answered")
    report.add("calls", len(took))
    for place, name in enumerate(names):
        report.note_worst(f"median ms {when} {name}", round(statistics.median(took[place :: len(names)]) * 1e3, 2))
    report.note_worst(f"slowest ms {when}", round(max(took, default=0.0) * 1e3, 1))


SCENARIO = Scenario(
    name="idle",
    promise="idle senders, more than a service may open files, beside lanes of nodes that are gone: all are answered",
    unit="idle senders",
    tiny=5,
    quick=100,
    full=2000,
    mutation="the services allow only those that are gone",
    run=run,
)
