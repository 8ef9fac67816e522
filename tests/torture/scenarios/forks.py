"""Forks under load, as PySpark makes them (R-23): no deadlock, no shared identity, no stolen wake-up.

A round: a Python process whose node calls, is called and takes messages forks 20 times, four children at once; these
may use nothing of their parent's node, make nodes of their own, fork themselves, and leave by ``os._exit``. Meanwhile
a peer of any language calls and sends to it: all comes, in order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

from tests.interop.harness import Agent, AgentError
from tests.interop.languages import ROOT
from tests.interop.pool import Agents
from tests.torture.duel import language_of
from tests.torture.forker import NAME
from tests.torture.scenario import Report, Scenario

FORKS = 20
ROUND_SECONDS, MUTATED_SECONDS = 100.0, 20.0


class Round:
    """The forking process and its peer."""

    def __init__(self, cast: Agents, peer: Agent, report: Report) -> None:
        self.peer, self.report = peer, report
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.torture.forker",
                cast.root,
                peer.name,
                str(FORKS),
                *["mutated"] * report.mutated,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "SPEED_KEY": f"{cast.root}/speed.key"},
            start_new_session=True,
        )

    def run(self) -> None:
        watchdog = threading.Timer(MUTATED_SECONDS if self.report.mutated else ROUND_SECONDS, self.kill)
        watchdog.start()
        try:
            self.exchange()
        finally:
            watchdog.cancel()
            self.kill()
            self.process.communicate()

    def kill(self) -> None:
        """With its children: one that hangs before it can set its alarm would keep the output open for ever."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def exchange(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        lines = iter(self.process.stdout.readline, "")
        if next(lines, "").strip() != "ready":
            raise AssertionError("the forking process did not start")
        over = threading.Event()
        sent: list[int] = []
        sending = threading.Thread(target=self.send, args=(over, sent))
        sending.start()
        said: list[str] = []
        while (line := next(lines, "")) not in ("done\n", ""):
            said.append(line.strip())
        over.set()
        sending.join()
        if not self.report.check(line != "", "the process that forks ended, or hung, before it was done"):
            return
        self.process.stdin.write(f"\n{len(sent)}\n")
        self.process.stdin.flush()
        for failure in said:
            self.report.check(False, failure)
        told = next(lines, "").strip()
        self.report.check(told == "True", f"messages to a process that forks are lost or out of order: {told}")
        self.report.add("forks", FORKS)
        self.report.add("messages", len(sent))

    def send(self, over: threading.Event, sent: list[int]) -> None:
        while not over.wait(0.005):
            try:
                self.peer.ask("send", target=NAME, payload={"n": len(sent)}, timeout=30)
            except AgentError as error:
                self.report.check(False, f"{self.peer.language} cannot send to a process that forks: {error}")
                return
            sent.append(len(sent))


def run(seed: int, count: int, report: Report) -> None:
    peers: dict[str, Agent] = {}
    with contextlib.closing(Agents()) as cast:
        for round_seed in report.rounds(seed, count):
            language = language_of(round_seed)
            if language not in peers:
                peers[language] = cast.start(language, f"peer.{language}", allow=[NAME, "worker.*"]).ready()
            Round(cast, peers[language], report).run()


SCENARIO = Scenario(
    name="forks",
    promise="a process that forks under load neither deadlocks nor shares identity or wake-ups with its children",
    unit=f"times {FORKS} forks",
    tiny=1,
    quick=3,
    full=500,
    mutation="the process forks behind Python's back",
    run=run,
)
