"""``--cases all``: crowds, backlogs, populations, large registries, disks; one row for each figure.

Every case starts processes of its own in a directory of its own; one that fails is told of, the others go on. The
crowd around a server is Python's; the server is of the language that the row names.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contender import Contender, Program
from contenders.table import BUILT, MANY, PEERS, is_speed
from kinds import KIB, MIB, SMALL

SENDERS = 64
QUICKER = 4
LANE_BYTES = 1 << 30


@dataclass(frozen=True)
class Scale:
    """How much each case does."""

    calls: int
    messages: int
    fair_messages: int
    events: int
    populations: tuple[int, ...]
    entries: int
    backlog_mib: int
    disk_messages: int


FULL = Scale(1000, 80_000, 40_000, 200, (2, 20, 200), 1000, 1024, 1280)
QUICK = Scale(400, 25_600, 19_200, 50, (2, 20, 200), 1000, 256, 640)
TINY = Scale(10, 64, 128, 2, (2, 4), 10, 2, 64)
SCALES = {"full": FULL, "quick": QUICK, "tiny": TINY}


@dataclass(frozen=True)
class Row:
    """One figure; ``figure`` is the name under which a target knows it."""

    case: str
    value: float
    unit: str
    decimals: int = 0
    figure: str = ""


Rows = Iterator[Row]


def p50_us(pair: Contender, size: int, count: int) -> float:
    return statistics.median(pair.ask("echo", size, count, max(2, count // 10))["ns"]) / 1e3


@contextmanager
def stopped(program: Program) -> Iterator[None]:
    """The process does not run meanwhile."""
    os.kill(program.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(program.process.pid, signal.SIGCONT)


def fan_in(pair: Contender, scale: Scale) -> Rows:
    """Lanes are filled while the receiver stands still; what is timed is how long it takes to catch up.

    A quick receiver gets more of them, or the acknowledgements of the last ones would count for too much.
    """
    count = scale.messages * (QUICKER if pair.name in {"speed.native", "speed.cpp"} else 1)
    rates = {}
    for senders in (1, SENDERS):
        with crowd(pair.work) as program:
            program.ask("open", count=senders, prefix=f"crowd.of-{senders}", max_lane_bytes=LANE_BYTES)
            program.ask("flush")
            with stopped(pair.server):
                program.ask("fill", size=SMALL, count=count)
            rates[senders] = count / program.ask("flush")["seconds"]
        yield Row(f"messages of {senders} senders drained", rates[senders], "messages/s")
    yield Row(f"{SENDERS} senders / 1 sender", rates[SENDERS] / rates[1], "", 2, "fan_in")


def fairness(pair: Contender, scale: Scale) -> Rows:
    """Of 64 lanes that are equally full: the least that was handled of one when half of all was.

    Lanes are read in turns of 64 envelopes, so there must be several turns' worth.
    """
    with crowd(pair.work) as receiver, crowd(pair.work) as senders:
        receiver.ask("open", count=1, prefix="crowd.receiver", lease_seconds=300)
        receiver.ask("tally")
        senders.ask("open", count=SENDERS)
        senders.ask("flush", target="crowd.receiver.0")
        with stopped(receiver):
            senders.ask("fill", size=SMALL, count=scale.fair_messages, target="crowd.receiver.0")
        least = receiver.ask("least_share", senders=SENDERS, messages=scale.fair_messages // 2)["share"]
        yield Row(f"least share of {SENDERS} senders / fair share", least, "", 2, "least_share")


def backlog(pair: Contender, scale: Scale) -> Rows:
    size = scale.backlog_mib * MIB
    with crowd(pair.work) as sender:
        sender.ask("open", count=1, max_lane_bytes=2 * size)
        sender.ask("flush")
        with stopped(pair.server):
            sender.ask("fill", size=64 * KIB, count=size // (64 * KIB))
        seconds = sender.ask("flush")["seconds"]
        yield Row(f"a backlog of {scale.backlog_mib:,} MiB drained", scale.backlog_mib / seconds, "MiB/s")


def fan_out(pair: Contender, scale: Scale) -> Rows:
    with crowd(pair.work) as subscribers, crowd(pair.work) as publisher:
        subscribers.ask("open", count=64, prefix="crowd.subscriber")
        subscribers.ask("subscribe")
        publisher.ask("open", count=1, prefix="crowd.publisher")
        published = publisher.ask("publish", size=SMALL, count=scale.events)
        handled = subscribers.ask("handled", events=published["delivered"])
        seconds = (handled["ended_ns"] - published["began_ns"]) / 1e9
        yield Row("events from 1 to 64", handled["handled"] / seconds, "deliveries/s")


def population(pair: Contender, scale: Scale) -> Rows:
    """The fewest are measured again at the end: the machine may have changed meanwhile."""
    fewest, most = scale.populations[0], scale.populations[-1]
    p50 = {fewest: [p50_us(pair, SMALL, scale.calls)]}
    with crowd(pair.work) as bystanders:
        for running, nodes in zip(scale.populations, scale.populations[1:], strict=False):
            bystanders.ask("open", count=nodes - running, prefix=f"crowd.of-{nodes}")
            p50[nodes] = [p50_us(pair, SMALL, scale.calls)]
    p50[fewest].append(p50_us(pair, SMALL, scale.calls))
    for nodes, samples in p50.items():
        yield Row(f"round trip while {nodes} nodes run", statistics.mean(samples), "µs", 1)
    ratio = p50[most][0] / statistics.mean(p50[fewest])
    yield Row(f"{most} nodes / {fewest} nodes", ratio, "", 2, "population")


def large_registry(pair: Contender, scale: Scale) -> Rows:
    entries = f"registry of {scale.entries:,} entries"
    with crowd(pair.work) as many, crowd(pair.work) as late:
        yield Row(f"{entries}: one more", many.ask("register", count=scale.entries)["seconds"] * 1e3, "ms", 2)
        yield Row(f"{entries}: a node starts", late.ask("open", count=1)["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: listing it first", late.ask("list", times=1)["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: listing it again", late.ask("list", times=5)["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: round trip", p50_us(pair, SMALL, scale.calls), "µs", 1)


def on_disk(pair: Contender, scale: Scale) -> Rows:
    for size, count in ((SMALL, scale.calls), (MIB, max(2, scale.calls // 50))):
        yield Row(f"round trip of {size:,} bytes, on disk", p50_us(pair, size, count), "µs", 1)


def to_disk(pair: Contender, scale: Scale) -> Rows:
    """Each message is flushed before ``send`` returns."""
    rates = {}
    for threads in (1, SENDERS):
        count = scale.disk_messages * (threads if threads == 1 else 4)
        rates[threads] = pair.ask("send", SMALL, count, 8, threads=threads)["per_second"]
        yield Row(f'one way, durability="disk", {threads} threads', rates[threads], "messages/s")
    yield Row(f'durability="disk": {SENDERS} threads / 1', rates[SENDERS] / rates[1], "", 1, "group_commit")


@contextmanager
def crowd(work: Path) -> Iterator[Program]:
    name = f"crowd.{len(list(work.glob('crowd.*.log')))}"
    program = Program(name, [sys.executable, "-m", "contenders.crowd", str(work)], work / f"{name}.log")
    try:
        yield program
    finally:
        program.close()


Case = Callable[[Contender, Scale], Rows]


@dataclass(frozen=True)
class Place:
    """Where a case happens, and a word for its client."""

    case: Case
    on_disk: bool = False
    kind: tuple[str, ...] = ()


ANY_LANGUAGE = (Place(fan_in), Place(backlog), Place(population), Place(on_disk, True), Place(to_disk, True, ("disk",)))
PYTHON_ONLY = (Place(fairness), Place(fan_out), Place(large_registry))


def disk_directory() -> str | None:
    """A directory that survives a power cut; None where the checkout itself is in memory."""
    path = BUILT.parent
    path.mkdir(parents=True, exist_ok=True)
    return None if filesystem_of(path) in {"tmpfs", "ramfs"} else str(path)


def filesystem_of(path: Path) -> str:
    """The type of the mount that holds `path`; empty where /proc does not tell."""
    mounts = Path("/proc/self/mounts")
    longest, found = "", ""
    for line in mounts.read_text().splitlines() if mounts.exists() else ():
        _, place, kind, *_ = line.split()
        if path.is_relative_to(place) and len(place) >= len(longest):
            longest, found = place, kind
    return found


def run_one(name: str, place: Place, scale: Scale, base: str | None) -> Iterator[dict[str, Any]]:
    """The rows of one case."""
    with tempfile.TemporaryDirectory(prefix="speed-bench.", dir=base, ignore_cleanup_errors=True) as work:
        pair = Contender(name, Path(work), *place.kind)
        try:
            for row in place.case(pair, scale):
                yield {"contender": name, **vars(row)}
        finally:
            pair.close()


def run(names: list[str], scale: Scale, memory: str | None) -> Iterator[dict[str, Any]]:
    """All cases of the SPEED contenders among `names`: rows, and for a case that failed one with ``failed``."""
    disk = disk_directory()
    for name in names:
        if not is_speed(name) or not PEERS[name].does >= MANY:  # pairs of languages, and those that do not poll
            continue
        for place in (*ANY_LANGUAGE, *(PYTHON_ONLY if name == "speed" else ())):
            if place.on_disk and disk is None:
                continue
            try:
                yield from run_one(name, place, scale, disk if place.on_disk else memory)
            except Exception as error:  # whatever it was: the other cases count
                yield {"contender": name, "case": place.case.__name__, "failed": f"{type(error).__name__}: {error}"}
