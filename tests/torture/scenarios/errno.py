"""System calls that fail, one site after the other, in the sender's and the receiver's process (L-5, L-15, R-7).

A round attaches strace to an agent and lets one of its calls on the root fail: once at its N-th use, or from then on.
It sends, or receives, meanwhile. Each send ends well or with an error of the contract. What ended well arrives, once
or marked as a repeat, in order. After the failure has gone the agent works as before, with no descriptor more.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from speed.wire import names
from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import ROOT
from tests.torture.scenario import Report, Scenario
from tests.torture.world import World, in_worlds

CALLS = (
    "openat",
    "write,writev",
    "mkdir,mkdirat",
    "newfstatat,statx,fstat,lstat,stat",
    "read,readv",
    "pread64",
    "pwrite64",
    "getdents64",
    "rename,renameat,renameat2",
    "unlink,unlinkat",
    "close",
    "fcntl,dup",
)
ERRORS = ("ENOSPC", "EIO", "EACCES", "EMFILE", "EINTR", "EDQUOT", "ESTALE")
USES = (1, 1, 1, 2, 3, 5)
"""Of the call by one thread, since the failure began."""
SENDS = 5
SETTLE_SECONDS = 20.0
CODES = json.loads((ROOT / "registry_spec" / "codes.json").read_text())
TYPED = {*CODES["local"], *CODES["spc"]}


@dataclass(frozen=True)
class Site:
    """Where it fails."""

    calls: str
    error: str
    when: str

    @classmethod
    def drawn(cls, random: Random, number: int) -> Site:
        """Consecutive numbers go through calls and errors; an interruption that never ends is none."""
        calls, error = CALLS[number % len(CALLS)], ERRORS[number // len(CALLS) % len(ERRORS)]
        lasts = "+" if error != "EINTR" and random.random() < 0.5 else ""
        return cls(calls, error, f"{random.choice(USES)}{lasts}")

    def __str__(self) -> str:
        return f"{self.error} from {self.calls} at use {self.when}"


class Failing:
    """While it lasts, calls of ``agent`` on files below its root fail at ``site``."""

    def __init__(self, agent: Agent, root: str, site: Site) -> None:
        self._agent = agent
        self._out = f"{root}.strace"
        self.hits = 0
        paths = [flag for path in _places(root) for flag in ("-P", path)]
        inject = f"inject={site.calls}:error={site.error}:when={site.when}"
        command = ["strace", "-f", "-qq", "-o", self._out, "-p", str(agent.process.pid), *paths]
        self._command = [*command, "-e", f"trace={site.calls}", "-e", inject]

    def __enter__(self) -> Failing:  # noqa: PYI034 - typing.Self needs Python 3.11
        self._strace = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        assert until(self._is_traced, 10), "strace does not attach"
        return self

    def __exit__(self, *_: object) -> None:
        self._strace.send_signal(signal.SIGINT)
        self._strace.wait(20)
        self.hits = Path(self._out).read_text(errors="replace").count("(INJECTED)")
        os.unlink(self._out)

    def _is_traced(self) -> bool:
        tasks = Path(f"/proc/{self._agent.process.pid}/task").iterdir()
        return all("TracerPid:\t0" not in (task / "status").read_text() for task in tasks)


def _places(root: str) -> list[str]:
    """Everything below the root, and the next segments of each lane."""
    found = [root]
    for directory, inner, files in os.walk(root):
        found += [os.path.join(directory, name) for name in inner + files]
        numbers = [segment for segment in map(names.parse_segment, files) if segment]
        for generation, number in numbers[-1:] or [(1, 0)]:
            found += [os.path.join(directory, names.segment_name(generation, number + more)) for more in (1, 2)]
    return [path for path in found if not path.endswith("speed.key")]


class Round:
    """One site in one agent, as sender and as receiver in turn."""

    def __init__(self, world: World, seed: int, report: Report) -> None:
        self.world, self.report = world, report
        self.random = Random(seed)
        pairs = world.pairs()
        source, target = pairs[seed % len(pairs)]
        if self.random.random() < 0.3:
            world.restart(source.language)  # then it begins a segment
        self.source, self.target = world.agents[source.language], world.agents[target.language]
        self.site = Site.drawn(self.random, seed // len(pairs))
        if report.mutated:
            self.site = Site("write,writev", "ENOSPC", "1+")
        self.agent = self.source if report.mutated or self.random.random() < 0.5 else self.target
        self.where = f"{self.source.language} to {self.target.language}, {self.agent.language}: {self.site}"
        self.first = seed % (1 << 20) * 100
        self.got: list[tuple[int, bool]] = []

    def run(self) -> None:
        self.converse(self.first)
        before = descriptors(self.agent)
        with Failing(self.agent, self.world.root, self.site) as failing:
            accepted = self.send(range(self.first + 10, self.first + 10 + SENDS))
            self.receive(len(accepted), wait=1.0)
        self.report.add("calls that failed", failing.hits)
        self.report.add("sites hit", failing.hits > 0)
        self.report.check(self.agent.process.poll() is None, f"{self.where}: the agent ended")
        last = self.first + 50
        self.report.check(until(lambda: self.works(last), SETTLE_SECONDS), f"{self.where}: afterwards nothing is sent")
        accepted.append(last)
        self.receive_until(last)
        self.judge(accepted)
        if self.site.calls == "close":
            return  # strace fails a call by leaving it out; a close that really fails releases its descriptor
        few = until(lambda: not lost_descriptors(self.agent, before), SETTLE_SECONDS)
        self.report.check(few, f"{self.where}: descriptors were lost: {lost_descriptors(self.agent, before)}")

    def converse(self, number: int) -> None:
        """So that all is open that will be used."""
        self.source.ask("send", target=self.target.name, payload=number, ack=True, timeout=SETTLE_SECONDS)
        self.receive_until(number)
        self.target.ask("finish")
        self.got.clear()

    def send(self, numbers: range) -> list[int]:
        accepted = []
        for number in numbers:
            try:
                self.source.ask("send", target=self.target.name, payload=number, timeout=1)
                accepted.append(number)
            except AgentError as error:
                self.report.add("typed errors")
                self.report.check(error.code in TYPED, f"{self.where}: {error} is no error of the contract")
                if self.report.mutated:
                    accepted.append(number)
        return accepted

    def works(self, number: int) -> bool:
        try:
            self.source.ask("send", target=self.target.name, payload=number, timeout=1)
        except AgentError:
            return False
        return True

    def receive(self, count: int, wait: float) -> None:
        while len(self.got) < count and (message := self.target.ask("receive", timeout=wait)) is not None:
            self.got.append((message["payload"], message["redelivered"]))

    def receive_until(self, number: int) -> None:
        while number not in [each for each, _ in self.got]:
            message = self.target.ask("receive", timeout=SETTLE_SECONDS)
            if not self.report.check(message is not None, f"{self.where}: {number} does not arrive"):
                return
            self.got.append((message["payload"], message["redelivered"]))

    def judge(self, accepted: list[int]) -> None:
        first_times = [number for number, redelivered in self.got if not redelivered]
        lost = set(accepted) - {number for number, _ in self.got}
        self.report.check(not lost, f"{self.where}: {sorted(lost)} were accepted and are lost")
        in_order = first_times == sorted(set(first_times))
        self.report.check(in_order, f"{self.where}: {first_times} is another order, or a repeat without a mark")


def descriptors(agent: Agent) -> Counter[str]:
    """What its descriptors lead to."""
    directory = Path(f"/proc/{agent.process.pid}/fd")
    links = (directory / number for number in os.listdir(directory))
    return Counter(os.readlink(link) for link in links if link.is_symlink())


def lost_descriptors(agent: Agent, before: Counter[str]) -> list[str]:
    """Of what is held more often than before, and more than once; or is held no more by any name."""
    now = descriptors(agent)
    return [link for link, held in (now - before).items() if now[link] > 1 or link.endswith(" (deleted)")]


def run(seed: int, count: int, report: Report) -> None:
    for world, round_seed in in_worlds(report.rounds(seed, count), lease=600):
        Round(world, round_seed, report).run()


SCENARIO = Scenario(
    name="errno",
    promise="whatever system call fails, a send tells so or has its effect, and no descriptor is lost",
    unit="failing sites",
    tiny=1,
    quick=12,
    full=4000,
    mutation="a send that failed counts as accepted",
    run=run,
)
