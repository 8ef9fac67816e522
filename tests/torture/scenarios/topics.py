"""Durable topics whose host, consumers and producers are killed under load (D-5 to D-12).

A round is one kill: of speedd, at a random moment or as it enters a system call, of a consumer, or of a producer. Its
heir goes on. Meanwhile a producer publishes numbers under their sequences, and two subscriptions get them. Mutated,
each round breaks another promise.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.system.topics import CONSUMER, PRODUCER, TopicSite, until
from tests.torture.duel import Sniper
from tests.torture.scenario import Report, Scenario

EACH = 150
"""Messages of a round."""
SUBSCRIPTIONS = ("billing", "audit")
SYSCALLS = ("write", "pwrite64", "/rename(at2?)?", "openat", "close", "futex")
BREAKS = {
    "lost": ("speedd", "is not kept"),
    "twice": ("producer", "is kept more than once"),
    "acknowledged": ("consumer", "came again after its acknowledgement"),
    "marks": ("consumer", "came again unmarked"),
}
"""What can be broken on purpose, whose kill it belongs to, and what must be said of it."""


class Life:
    """A program, and the whole lines that it said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            self.lines.extend(line for line in iter(said.readline, "") if line.endswith("\n"))

    def end(self) -> list[str]:
        """It dies, if it lives; all that it said."""
        self.process.kill()
        self.process.wait()
        self._reading.join()
        return self.lines


class World:
    """A speedd, and a consumer of each subscription, that rounds share."""

    def __init__(self, path: Path) -> None:
        self.site = TopicSite(path)
        self.site.start()
        self.node = self.site.node()
        self.topic = self.node.topic("orders")
        self.consumers = {name: self.consume(name) for name in SUBSCRIPTIONS}
        self.producer: Life | None = None
        until(lambda: len(self.topic.describe()["subscriptions"]) == len(SUBSCRIPTIONS))

    def consume(self, subscription: str) -> Life:
        return Life(self.site.run(CONSUMER, f"consumer.{subscription}", subscription))

    def produce(self, first: int, last: int, name: str = "shop") -> Life:
        self.producer = Life(self.site.run(PRODUCER, first, last, name))
        return self.producer

    def restart(self) -> None:
        self.site.kill()
        self.site.start()
        self.node.wait_for("speedd.topics", timeout=60)

    def is_done(self, end: int) -> bool:
        """Whether all before ``end`` is acknowledged in every subscription."""
        return all(one["cursor"] >= end for one in self.topic.describe()["subscriptions"])

    def close(self) -> None:
        for life in (*self.consumers.values(), self.producer):
            if life is not None:
                life.end()
        self.node.close()
        self.site.close()


class Round:
    """One kill; ``first`` is the number with which its messages begin."""

    def __init__(self, world: World, seed: int, first: int, report: Report) -> None:
        self.world, self.first, self.report = world, first, report
        self.random = Random(seed)
        self.broken = report.broken(BREAKS)
        self.start = world.topic.describe()["end"]
        self.said: list[int] = []
        self.lines: dict[str, list[list[Any]]] = {name: [] for name in SUBSCRIPTIONS}

    def run(self) -> None:
        victims = {"speedd": self.speedd, "consumer": self.consumer, "producer": self.produced_by_heir}
        victim = BREAKS[self.broken][0] if self.broken else self.random.choice(list(victims))
        producer = self.world.produce(self.first, self.first + EACH - 1)
        moment = self.random.randrange(1, EACH - 20)
        until(lambda: len(producer.lines) >= moment or producer.process.poll() is not None)
        victims[victim]()
        self.report.add(f"kills of {victim}")
        self.judge(victim)

    # --- the victims ---

    def speedd(self) -> None:
        died = self.world.site.started[-1]
        if self.random.random() < 0.5:
            sniper = Sniper(SimpleNamespace(process=died), self.random.choice(SYSCALLS), self.random.randrange(1, 30))  # type: ignore[arg-type]
            producer = self.world.producer
            until(lambda: died.poll() is not None or producer is None or producer.process.poll() is not None)
            self.report.add("at a system call", died.poll() is not None)
            sniper.end()
        self.world.restart()

    def consumer(self) -> None:
        name = self.random.choice(SUBSCRIPTIONS)
        self.take(name, self.world.consumers[name].end())
        self.world.consumers[name] = self.world.consume(name)

    def produced_by_heir(self) -> None:
        assert self.world.producer is not None
        self.said += map(int, self.world.producer.end())
        last = max(self.said)
        name, begin = ("another", last) if self.broken == "twice" else ("shop", last + 1)
        self.world.produce(begin, self.first + EACH - 1, name)

    def take(self, name: str, lines: list[str]) -> None:
        """What the consumer said of this round."""
        said = (json.loads(line) for line in lines)
        self.lines[name] += [line for line in said if line[1] >= self.start]

    # --- judging ---

    def judge(self, victim: str) -> None:
        assert self.world.producer is not None
        ended = self.world.producer.process.wait(timeout=120) == 0
        self.said += map(int, self.world.producer.end())
        self.report.check(ended, f"{victim} killed: the producer failed")
        end = self.world.topic.describe()["end"]
        came = self.all_came(end)
        self.report.check(came, f"{victim} killed: not all that was published came; {self.world.topic.describe()}")
        for name in SUBSCRIPTIONS:
            self.take(name, list(self.world.consumers[name].lines))
            self.check_ledger(f"{victim} killed: of {name}", self.lines[name])
        self.check_kept(f"{victim} killed:", end)

    def all_came(self, end: int) -> bool:
        """Waits for it."""
        try:
            until(lambda: self.world.is_done(end) and all(self.is_told(name, end) for name in SUBSCRIPTIONS))
        except AssertionError:
            return False
        return True

    def is_told(self, name: str, end: int) -> bool:
        """Its consumer may have said it a moment after the host knew."""
        said = [json.loads(line) for line in list(self.world.consumers[name].lines)]
        return {line[1] for line in (*self.lines[name], *said)} >= set(range(self.start, end))

    def check_ledger(self, who: str, lines: list[list[Any]]) -> None:
        """In the order of time: nothing after its acknowledgement, repetitions marked."""
        got: set[int] = set()
        acknowledged: set[int] = set()
        for what, offset, *rest in self.broken_lines(lines):
            if what == "acknowledged":
                acknowledged.add(offset)
                continue
            self.report.check(offset not in acknowledged, f"{who} {offset} came again after its acknowledgement")
            self.report.check(offset not in got or rest[1] > 1, f"{who} {offset} came again unmarked")
            self.report.add("repeated", offset in got)
            got.add(offset)
        self.report.add("acknowledged", len(acknowledged))

    def broken_lines(self, lines: list[list[Any]]) -> list[list[Any]]:
        first = next(line for line in lines if line[0] == "got")
        if self.broken == "marks":
            return [first, *lines]
        return [*lines, first] if self.broken == "acknowledged" else lines

    def check_kept(self, who: str, end: int) -> None:
        """What was said to be published is there, all in order and each once."""
        reader = self.world.topic.reader(self.start, prefetch=EACH)
        messages = [reader.receive(timeout=20) for _ in range(self.start, end)]
        kept = [message.payload for message in messages if message is not None]
        said = [*self.said, -1] if self.broken == "lost" else self.said
        missing = sorted(set(said) - set(kept))
        self.report.check(not missing, f"{who} published, and is not kept: {missing}")
        twice = [number for number, times in Counter(kept).items() if times > 1]
        self.report.check(not twice, f"{who} something is kept more than once: {twice}")
        self.report.check(kept == sorted(kept), f"{who} another order than that of publishing")
        self.report.add("published", len(said))


def run(seed: int, count: int, report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="topics.") as path:
        world = World(Path(path))
        try:
            for number, attempt in enumerate(report.attempts(seed, count, BREAKS)):
                Round(world, attempt.round_seed, 1 + number * EACH, attempt).run()
        finally:
            world.close()


SCENARIO = Scenario(
    name="topics",
    promise="a durable topic loses nothing it accepted, whoever is killed; what was acknowledged does not come again, "
    "what comes again says so, and a producer with sequences has each message once",
    unit="kills",
    tiny=len(BREAKS),
    quick=8,
    full=2000,
    mutation="what was not published counts, a producer's heir has another name, messages come again or unmarked",
    run=run,
)
