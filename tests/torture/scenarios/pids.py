"""Pids that mean nothing: given to another process, or of another pid namespace (R-6, R-8).

A round is of one language. In a namespace of its own an owner dies and a stranger gets its very pid: its name is free
at once. Then an owner lives in a namespace that its neighbours cannot see, and dies there: it keeps its name as long as
it renews its lease, and loses it within lease + 2 heartbeats.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from speed.fs.keyfile import load_key_file
from speed.fs.registry import Registry
from tests.interop.harness import Agent, until
from tests.interop.languages import ROOT
from tests.interop.pool import Agents
from tests.torture.duel import language_of
from tests.torture.scenario import Report, Scenario

NAMESPACE = ["unshare", *["--user", "--map-root-user"] * (os.geteuid() != 0), "--pid", "--fork", "--mount-proc"]
NAME = "billing"
LEASE, HEARTBEAT = 1.5, 0.3
WATCHED_SECONDS = 2 * LEASE
SLACK_SECONDS = 2.0
"""A busy machine is no broken promise; the figure shows what it took."""
ROUND_SECONDS = 120.0


class Round:
    """In a root of its own."""

    def __init__(self, cast: Agents, seed: int, report: Report) -> None:
        language = language_of(seed)
        self.kind = report.kind(seed)
        self.cast, self.language, self.report = cast, language, report
        self.registry = Registry(cast.root, load_key_file(f"{cast.root}/speed.key"))

    def reuse(self) -> None:
        command = [*NAMESPACE, sys.executable, "-m", "tests.torture.renumbered", self.cast.root, self.language]
        done = subprocess.run(
            command + ["mutated"] * self.report.mutated + list(self.kind),
            cwd=ROOT,
            env={**os.environ, "SPEED_KEY": f"{self.cast.root}/speed.key"},
            capture_output=True,
            text=True,
            timeout=ROUND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"a pid namespace cannot be had or failed: {done.stderr[-2000:]}")
        self.report.check(done.stdout.strip() == "", f"{self.language}: {done.stdout.strip()}")
        self.report.add("pids given again")

    def unseen(self) -> None:
        under = [*NAMESPACE, "--kill-child"]
        owner = Agent(self.language, NAME, self.cast.root, under=under, lease=LEASE, heartbeat=HEARTBEAT, **self.kind)
        try:
            owner.ready()
            self.lives()
            owner.kill()
            self.dies(time.monotonic())
        finally:
            owner.end()
        self.report.add("owners unseen")

    def lives(self) -> None:
        """Though no process of this namespace has its pid and start."""
        until_then = time.monotonic() + WATCHED_SECONDS
        while time.monotonic() < until_then:
            live = self.registry.live(NAME, sure=True)
            if not self.report.check(live is not None, f"a live {self.language} owner of another namespace is evicted"):
                return
            time.sleep(0.05)

    def dies(self, died: float) -> None:
        gone = until(lambda: self.registry.live(NAME, sure=True) is None)
        took = time.monotonic() - died
        self.report.note_worst("worst seconds until free", took)
        bound = LEASE + 2 * HEARTBEAT
        freed = gone and took <= bound + SLACK_SECONDS
        self.report.check(
            freed, f"the name of a dead {self.language} owner is free after {took:.1f} s, not {bound:.1f} s"
        )


def run(seed: int, count: int, report: Report) -> None:
    for round_seed in report.rounds(seed, count):
        for play in (Round.reuse, Round.unseen):
            cast = Agents()
            try:
                play(Round(cast, round_seed, report))
            finally:
                cast.close()


SCENARIO = Scenario(
    name="pids",
    promise="a pid used again frees no live name and holds no dead one; nor does a pid of another namespace",
    unit="owners of either kind",
    tiny=1,
    quick=3,
    full=1000,
    mutation="the owner whose pid should be used again is left alive",
    run=run,
)
