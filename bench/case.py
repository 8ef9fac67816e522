"""What every case of ``--cases`` is made of: how much it does, where it happens, the rows it gives."""

from __future__ import annotations

import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from contender import Contender, Program
from kinds import SMALL


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
    waiting_mib: tuple[int, ...]
    """What waits unread when a call is measured; the first is nothing."""
    calls_made: tuple[int, ...]
    """How many calls a pair has behind it when one is measured."""
    java_warm: int
    """Calls before the first measured one where Java takes part: its compiler's work is no growth."""


FULL = Scale(
    calls=1000,
    messages=80_000,
    fair_messages=40_000,
    events=200,
    populations=(2, 20, 200),
    entries=1000,
    backlog_mib=1024,
    disk_messages=1280,
    waiting_mib=(0, 10, 100, 1024),
    calls_made=(1000, 10_000, 100_000, 1_000_000),
    java_warm=20_000,
)
QUICK = replace(
    FULL,
    calls=400,
    messages=25_600,
    fair_messages=19_200,
    events=50,
    backlog_mib=256,
    disk_messages=640,
    waiting_mib=(0, 10, 100),
    calls_made=(1000, 10_000, 100_000),
    java_warm=5000,
)
TINY = Scale(10, 64, 128, 2, (2, 4), 10, 2, 64, (0, 1), (10, 40), 50)
SCALES = {"full": FULL, "quick": QUICK, "tiny": TINY}


@dataclass(frozen=True)
class Row:
    """One figure; ``figure`` is the name under which a target knows it, ``why`` what else was seen of it."""

    case: str
    value: float
    unit: str
    decimals: int = 0
    figure: str = ""
    why: str = ""


Rows = Iterator[Row]
Case = Callable[..., Rows]
"""(pair, scale), or where the place has a twin (pair, twin, scale)."""


@dataclass(frozen=True)
class Place:
    """Where a case happens, and a word each for its client and its server.

    A twin is a second pair, in memory, for which nothing grows: what is told is the ratio to it.
    """

    case: Case
    on_disk: bool = False
    client: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    twin: bool = False
    slow_flush: bool = False
    """A flush takes the client 2 ms, as on a disk of the usual kind."""


def p50_us(pair: Contender, count: int) -> float:
    return statistics.median(pair.ask("echo", SMALL, count, max(2, count // 10))["ns"]) / 1e3


@contextmanager
def stopped(program: Program) -> Iterator[None]:
    """The process does not run meanwhile."""
    os.kill(program.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(program.process.pid, signal.SIGCONT)


@contextmanager
def crowd(work: Path) -> Iterator[Program]:
    name = f"crowd.{len(list(work.glob('crowd.*.log')))}"
    program = Program(name, [sys.executable, "-m", "contenders.crowd", str(work)], work / f"{name}.log")
    try:
        yield program
    finally:
        program.close()
