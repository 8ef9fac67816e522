"""What programs do all day, at random, from many threads: nothing is lost, nothing runs twice, nothing hangs.

A round: nodes of one engine or language in one process, or of all of them in a process each, call, call within calls,
withdraw calls, send small and large messages, publish, look at each other, change grants, close and start again; those
in Python have services and handlers that exit and fork, and a main thread that signals interrupt
(``tests/torture/living.py``). Then all is quiet, every node runs, and what was accepted must be handled; what each
process wrote down is judged (``tests/torture/life_facts.py``). Mutated, each round breaks another promise.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.interop.harness import until
from tests.interop.languages import ROOT
from tests.interop.pool import make_root
from tests.torture.life_facts import Facts
from tests.torture.scenario import Report, Scenario

PYTHON = (sys.executable, "-u", "-m", "tests.torture.living")
PROGRAMS: dict[str, tuple[tuple[str, ...], str]] = {
    "python": (PYTHON, "python"),
    "native": (PYTHON, "native"),
    "cpp": ((str(ROOT / "build/cpp/speed-living"),), ""),
    "java": ((str(ROOT / "bindings/java/bin/speed-java"), "speed.tool.Living"), ""),
}
"""Command and engine of each kind of process."""
KINDS = tuple(PROGRAMS)
BREAKING = ("python",)
"""Who breaks promises on purpose: all kinds are judged alike."""
BREAKS = {
    "lost": "messages were never handled",
    "twice": "ran twice",
    "foreign": "broken on purpose",
    "hang": "late",
    "descriptor": "descriptors became",
}
"""What can be broken on purpose, and what must be said of it."""
ALONE, TOGETHER = 4, 2
"""Nodes in a process."""
THREADS = 6
SHORT_SECONDS, LONG_SECONDS = 3.0, 10.0
LONG_FROM = 100
START_SECONDS = 60.0
SETTLE_SECONDS = 60.0
END_SECONDS = 30.0
GRACE_SECONDS, MUTATED_GRACE_SECONDS = 20.0, 0.5


class Home:
    """One process and its nodes."""

    def __init__(self, kind: str, root: str, setting: dict[str, Any]) -> None:
        command, engine = PROGRAMS[kind]
        self.kind, self.journal = kind, Path(setting["journal"])
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by end()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPEED_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"},
        )
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.tell(json.dumps({**setting, "root": root, "engine": engine}))

    def tell(self, line: str = "") -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def line(self, wait: float) -> str:
        """What it says next; what became of it, if it says nothing for so long."""
        with contextlib.suppress(queue.Empty):
            return self._said.get(timeout=wait)
        return f"nothing for {wait:.0f} s"

    def facts(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def errors(self) -> str:
        """What it wrote to standard error."""
        self._stderr.seek(0)
        return self._stderr.read()

    def abort(self) -> str:
        """End one that hangs; what it wrote. One in Python says where its threads stand."""
        self._process.send_signal(signal.SIGABRT)
        self._process.wait(END_SECONDS)
        return self.errors()

    def end(self) -> None:
        """Gone afterwards."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._process.kill()
        self._process.communicate()
        self._stderr.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line.strip())
        self._said.put(f"its end, {self._process.wait()}")


class Round:
    """The processes of one round, one after the other of its steps."""

    def __init__(self, seed: int, seconds: float, report: Report, kinds: Sequence[str] = ()) -> None:
        """``kinds`` of processes; by default it is their turn."""
        self.report, self.seconds = report, seconds
        self.grace = MUTATED_GRACE_SECONDS if report.mutated else GRACE_SECONDS
        self.root = make_root()
        names = dict(_lineup(kinds or _turn(seed)))
        everyone = [name for own in names.values() for name in own]
        self.homes = []
        for kind, own in names.items():
            setting = {
                "journal": f"{self.root}/{kind}.journal",
                "prefix": kind,
                "seed": seed,
                "seconds": seconds,
                "threads": THREADS,
                "names": own,
                "others": everyone,
                "grace": self.grace,
                "broken": broken_in(seed) if report.mutated else "",
            }
            self.homes.append(Home(kind, self.root, setting))

    def run(self) -> None:
        try:
            if self._all_say("ready", START_SECONDS):
                self._live()
        finally:
            for home in self.homes:
                home.end()
            shutil.rmtree(self.root, ignore_errors=True)

    def _live(self) -> None:
        self._tell_all()
        if not self._all_say("quiet", self.seconds + 2 * GRACE_SECONDS):
            return
        wait = 1.0 if self.report.mutated else SETTLE_SECONDS
        until(lambda: not self._facts().waits(), wait)
        self._tell_all()
        for home in self.homes:
            self._check_end(home)
        facts = self._facts()
        self._count(facts)
        broken = list(facts.broken())
        if broken:
            print(f"  counted in this round: {facts.discarded()}", flush=True)
        for what in broken:
            self.report.check(False, f"{'+'.join(home.kind for home in self.homes)}: {what}")

    def _tell_all(self) -> None:
        for home in self.homes:
            home.tell()

    def _all_say(self, word: str, wait: float) -> bool:
        deadline = time.monotonic() + wait
        said = [(home, home.line(max(1.0, deadline - time.monotonic()))) for home in self.homes]
        sound = [self.report.check(line == word, f"{home.kind}: {line}, not {word!r}") for home, line in said]
        for (home, _), holds in zip(said, sound, strict=True):
            if not holds:
                print(home.abort(), flush=True)
        return all(sound)

    def _check_end(self, home: Home) -> None:
        word, *counts = home.line(GRACE_SECONDS + START_SECONDS).split()
        if not self.report.check(word == "descriptors", f"{home.kind}: {word} {' '.join(counts)}, and no end"):
            print(home.abort(), flush=True)
            return
        before, after = map(int, counts)
        self.report.note_worst("descriptors more", after - before)
        sound = self.report.check(after <= before, f"{home.kind}: {before} descriptors became {after}")
        told = home.errors()
        sound &= self.report.mutated or self.report.check("Traceback" not in told, f"{home.kind}: a traceback")
        if not sound and not self.report.mutated:
            print(told, flush=True)

    def _facts(self) -> Facts:
        return Facts(line for home in self.homes for line in home.facts())

    def _count(self, facts: Facts) -> None:
        self.report.add("messages", len(facts.sent))
        self.report.add("events", len(facts.published))
        self.report.add("calls answered", len(facts.answered))
        self.report.add("calls failed", len(facts.failed))
        self.report.add("redelivered", sum(marks.count("again") for marks in facts.took.values()))
        self.report.add("acts refused", len(facts.refused))


def broken_in(seed: int) -> str:
    """What a mutated round breaks."""
    return list(BREAKS)[seed % len(BREAKS)]


def _turn(seed: int) -> Sequence[str]:
    """Each kind has its turn alone; then come all together."""
    return (*((kind,) for kind in KINDS), KINDS)[seed % (len(KINDS) + 1)]


def _lineup(kinds: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Who lives in which process."""
    for kind in kinds:
        yield kind, [f"life.{kind}{number}" for number in range(TOGETHER if len(kinds) > 1 else ALONE)]


def run(seed: int, count: int, report: Report) -> None:
    """Mutated, each round must notice what it breaks."""
    seconds = LONG_SECONDS if count >= LONG_FROM else SHORT_SECONDS
    caught = True
    for round_seed in report.rounds(seed, count):
        attempt = Report(report.name, report.mutated, round_seed=round_seed)
        Round(round_seed, seconds, attempt, BREAKING if report.mutated else ()).run()
        if report.mutated:
            caught &= any(BREAKS[broken_in(round_seed)] in failure for failure in attempt.failures)
        report.join(attempt)
    report.is_caught &= caught


SCENARIO = Scenario(
    name="life",
    promise="whatever programs do at once: no message lost, no call run twice, no strange error, no hang, no leak",
    unit="rounds of all that a node can do",
    tiny=len(BREAKS),
    quick=len(KINDS) + 1,
    full=60 * (len(KINDS) + 1),
    mutation="a message is swallowed, a call counted twice, a foreign error raised, an act held up, a descriptor kept",
    run=run,
)
