"""``--cases all``: sizes, threads, crowds, backlogs and disks. Figures without targets, one row each.

Every case starts processes of its own in a directory of its own. The crowd around a server is Python's; the server is
of the language that the row names.
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
from contenders.table import BUILD, BUILT, PEERS, is_speed

MIB = 1 << 20
SMALL = 200


@dataclass(frozen=True)
class Scale:
    """How much each case does."""

    calls: int
    rate: int
    events: int
    populations: tuple[int, ...]
    entries: int
    backlog_mib: int
    disk_messages: int


FULL = Scale(2000, 20_000, 200, (2, 20, 200), 1000, 1024, 640)
QUICK = Scale(400, 5_000, 50, (2, 20, 200), 1000, 256, 128)
TINY = Scale(10, 64, 2, (2, 4), 10, 2, 64)
SCALES = {"full": FULL, "quick": QUICK, "tiny": TINY}


@dataclass(frozen=True)
class Row:
    """One figure."""

    case: str
    value: float
    unit: str
    decimals: int = 0


Rows = Iterator[Row]


def round_trips(pair: Contender, scale: Scale, note: str = "") -> Rows:
    for size in (16, 200, 4096, 65_536, MIB, 16 * MIB):
        count = max(3, min(scale.calls, (64 * MIB) // size * scale.calls // QUICK.calls))
        yield Row(f"round trip of {size:,} bytes{note}", p50_us(pair, size, count), "µs", 1)


def p50_us(pair: Contender, size: int, count: int) -> float:
    return statistics.median(pair.ask("echo", size, count, max(2, count // 10))["ns"]) / 1e3


def caller_threads(pair: Contender, scale: Scale) -> Rows:
    for threads in (1, 4, 16):
        rate = pair.ask("pipeline", SMALL, scale.rate, 100, threads=threads)["per_second"]
        yield Row(f"pipelined from {threads} threads", rate, "calls/s")


def one_way(pair: Contender, scale: Scale) -> Rows:
    for batch in (False, True) if "batched" in pair.peer.does else (False,):
        rate = pair.ask("send", SMALL, scale.rate, 100, batch=batch)["per_second"]
        yield Row(f"one way{', batched' if batch else ''}", rate, "messages/s")


def fan_in(pair: Contender, scale: Scale) -> Rows:
    with crowd(pair.work) as senders:
        senders.ask("open", count=64)
        rate = senders.ask("send", size=SMALL, count=scale.rate, threads=64)["per_second"]
        yield Row("64 senders to 1", rate, "messages/s")


def backlog(pair: Contender, scale: Scale) -> Rows:
    """The receiver is stopped while its lane fills; what is timed is how long it takes to catch up."""
    size = scale.backlog_mib * MIB
    with crowd(pair.work) as sender:
        sender.ask("open", count=1, max_lane_bytes=2 * size)
        sender.ask("flush")
        os.kill(pair.server.process.pid, signal.SIGSTOP)
        try:
            sender.ask("fill", size=64 << 10, count=size // (64 << 10))
        finally:
            os.kill(pair.server.process.pid, signal.SIGCONT)
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
    with crowd(pair.work) as bystanders:
        running = 2
        for nodes in scale.populations:
            if nodes > running:
                bystanders.ask("open", count=nodes - running, prefix=f"crowd.of-{nodes}")
                running = nodes
            yield Row(f"round trip while {nodes} nodes run", p50_us(pair, SMALL, scale.calls), "µs", 1)


def large_registry(pair: Contender, scale: Scale) -> Rows:
    entries = f"registry of {scale.entries:,} entries"
    with crowd(pair.work) as many, crowd(pair.work) as late:
        yield Row(f"{entries}: one more", many.ask("register", count=scale.entries)["seconds"] * 1e3, "ms", 2)
        yield Row(f"{entries}: a node starts", late.ask("open", count=1)["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: listing it first", late.ask("list", times=1)["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: listing it again", late.ask("list", times=5)["seconds"] * 1e3, "ms", 1)
        yield Row(f"{entries}: round trip", p50_us(pair, SMALL, scale.calls), "µs", 1)


def on_disk(pair: Contender, scale: Scale) -> Rows:
    yield from round_trips(pair, scale, ", on disk")
    for threads in (1, 64):
        with crowd(pair.work) as sender:
            sender.ask("open", count=1, durability="disk")
            rate = sender.ask("send", size=SMALL, count=scale.disk_messages, threads=threads)["per_second"]
            yield Row(f'one way, durability="disk", {threads} threads', rate, "messages/s")


@contextmanager
def crowd(work: Path) -> Iterator[Program]:
    name = f"crowd.{len(list(work.glob('crowd.*.log')))}"
    program = Program(name, [sys.executable, "-m", "contenders.crowd", str(work)], work / f"{name}.log")
    try:
        yield program
    finally:
        program.close()


Case = Callable[[Contender, Scale], Rows]
ANY_LANGUAGE: tuple[Case, ...] = (round_trips, caller_threads, one_way, fan_in, backlog)
PYTHON_ONLY: tuple[Case, ...] = (fan_out, population, large_registry)


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


def run_one(name: str, case: Case, scale: Scale, base: str | None) -> Iterator[dict[str, Any]]:
    """The rows of one case; a case that fails is one row that says so."""
    with tempfile.TemporaryDirectory(prefix="speed-bench.", dir=base, ignore_cleanup_errors=True) as work:
        pair = Contender(name, Path(work))
        try:
            for row in case(pair, scale):
                yield {**vars(row), "case": f"{PEERS[name].title}: {row.case}"}
        except RuntimeError as error:
            print(f"{name} {case.__name__}: {error}", file=sys.stderr)
        finally:
            pair.close()


def run(names: list[str], scale: Scale, memory: str | None) -> list[dict[str, Any]]:
    """All cases of the SPEED contenders among `names`."""
    rows: list[dict[str, Any]] = []
    for name in filter(is_speed, names):
        peer = PEERS[name]
        if peer.needs and not peer.needs.exists():
            print(f"{peer.title}: not built: run {BUILD}", file=sys.stderr)
            continue
        for case in (*ANY_LANGUAGE, *(PYTHON_ONLY if name == "speed" else ())):
            rows += run_one(name, case, scale, memory)
        if (disk := disk_directory()) is not None:
            rows += run_one(name, on_disk, scale, disk)
    return rows
