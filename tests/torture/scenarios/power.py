"""The power fails (L-7): what a send with ``disk`` durability has accepted is there afterwards.

Receiver and sender run under strace; all that they ask of the filesystem is recorded, and the answers of the sender. A
round plays the operations up to a cut to a disk that keeps only what was flushed (and in every second round some of the
rest, by chance), builds what is left, and starts both again there. Every message that the sender had answered for
arrives, in order, and so does a new one. Rounds that follow each other cut after each operation in turn.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from functools import cache
from random import Random
from typing import Any

from speed.fs.keyfile import write_key_file
from speed.fs.root import filesystem_of
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN
from tests.interop.pool import make_root
from tests.torture.disk import Disk
from tests.torture.recording import Operation, operations, under_strace
from tests.torture.scenario import Report, Scenario

SENDS = 6
LARGE = {2: 200_000, 3: 150_000}
"""Bytes of the payloads that lie in slots, by the number of the message."""
NEW = 1000
SENDER, RECEIVER = "t.s", "t.r"
OPTIONS: dict[str, Any] = {"allow": ["t.*"], "durability": "disk"}


def disk_root() -> str:
    """A new directory that does not lie in memory."""
    places = [place for place in (os.getcwd(), "/var/tmp") if not filesystem_of(place).is_memory]
    assert places, "no directory at hand lies on a disk"
    return tempfile.mkdtemp(prefix=".torture.", dir=places[0])


@cache
def recorded(source: str, target: str, is_ephemeral: bool) -> tuple[bytes, str, list[Operation]]:
    """The key file, the root, and what happened below it, in order; ``is_ephemeral``: the sender."""
    root = disk_root()
    write_key_file(f"{root}/speed.key", (os.urandom(32),))
    traces = [f"{root}.{name}" for name in (RECEIVER, SENDER)]
    receiver = Agent(target, RECEIVER, root, under=under_strace(traces[0]), **OPTIONS).ready()
    kind = {"ephemeral": "true"} if is_ephemeral else {}
    sender = Agent(source, SENDER, root, under=under_strace(traces[1]), **OPTIONS, **kind).ready()
    try:
        for number in range(SENDS):
            sender.ask("send", target=RECEIVER, payload={"n": number, "filler": "x" * LARGE.get(number, 0)})
        sender.close()
        receiver.close()
        found = [operation for trace in traces for operation in operations(trace, root)]
        with open(f"{root}/speed.key", "rb") as key:
            return key.read(), root, sorted(found, key=lambda operation: operation.at)
    finally:
        sender.end()
        receiver.end()
        shutil.rmtree(root)
        for trace in traces:
            os.unlink(trace)


class Round:
    """One cut in one recording."""

    def __init__(self, seed: int, report: Report) -> None:
        self.report, self.random = report, Random(seed)
        self.source, self.target = CHOSEN[seed % len(CHOSEN)], CHOSEN[seed // len(CHOSEN) % len(CHOSEN)]
        pairs = len(CHOSEN) ** 2
        self.kind = report.kind(seed // pairs)
        self.key, self.root, self.operations = recorded(self.source, self.target, bool(self.kind))
        self.cut = (seed // pairs + seed % pairs * 7) % (len(self.operations) + 1)
        self.is_strict = seed % 2 == 0

    def run(self) -> None:
        disk = Disk(self.root, flushes=not self.report.mutated)
        disk.put("speed.key", self.key)
        if self.report.mutated:
            self.cut = len(self.operations)
        answered = -1
        for operation in self.operations[: self.cut]:
            disk.play(operation)
            if operation.kind == "say":
                answered = max([answered, *_answers(operation.data)])
        place = make_root()
        try:
            disk.restore(place, None if self.is_strict else self.random)
            self.check(place, answered)
        finally:
            shutil.rmtree(place)
        self.report.add("cuts")
        self.report.add("acknowledged before them", answered + 1)

    def check(self, root: str, answered: int) -> None:
        receiver = Agent(self.target, RECEIVER, root, allow=["t.*"])
        sender = Agent(self.source, SENDER, root, allow=["t.*"], **self.kind)
        try:
            sender.ready()
            receiver.ready()
            sender.ask("send", target=RECEIVER, payload={"n": NEW}, ack=True, timeout=10)
            got: list[int] = []
            while NEW not in got and (message := receiver.ask("receive", timeout=5)) is not None:
                got.append(message["payload"]["n"])
        finally:
            sender.end()
            receiver.end()
        where = f"{self.source} to {self.target}, cut after {self.cut} of {len(self.operations)} operations"
        lost = set(range(answered + 1)) - set(got)
        self.report.check(not lost, f"{where}: {sorted(lost)} were accepted and are lost")
        self.report.check(got[-1:] == [NEW] and got == sorted(set(got)), f"{where}: then arrived {got}")


def _answers(said: bytes) -> list[int]:
    """The sends that the sender answered for: its commands are numbered from 1."""
    told = (json.loads(line) for line in said.splitlines() if line.startswith(b"{"))
    return [one["id"] - 1 for one in told if one.get("ok") and one["id"] <= SENDS]


def run(seed: int, count: int, report: Report) -> None:
    for round_seed in report.rounds(seed, count):
        Round(round_seed, report).run()


SCENARIO = Scenario(
    name="power",
    promise="what a send to disk has accepted survives a power cut at any moment",
    unit="cuts",
    tiny=1,
    quick=9,
    full=1000,
    mutation="the disk ignores flushes",
    run=run,
    emulates="system calls are recorded; what was not flushed is dropped when their prefix is rebuilt",
)
