"""What is measured of each contender, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SMALL, KIB, MIB = 200, 1 << 10, 1 << 20


@dataclass(frozen=True)
class Kind:
    """One measurement: the command, its payload, and what it does before the first round to warm up a JIT.

    Its count is the plan's for ``like``, divided by ``share``.
    """

    do: str
    size: int
    like: str
    share: int = 1
    java_warm: int = 0
    members: dict[str, Any] = field(default_factory=dict)


KINDS = {
    "small": Kind("echo", SMALL, "small", java_warm=20_000),
    "large": Kind("echo", MIB, "large", java_warm=200),
    "pipelined": Kind("pipeline", SMALL, "pipelined", java_warm=20_000),
    "one_way": Kind("send", SMALL, "one_way", java_warm=20_000, members={"batch": False}),
    "batched": Kind("send", SMALL, "one_way", java_warm=20_000, members={"batch": True}),
}
LOADED = {"loaded": Kind("echo", SMALL, "small", share=4)}
"""Measured while every core is busy with something else."""
SIZES = {
    "bytes_16": Kind("echo", 16, "small"),
    "kib_4": Kind("echo", 4 * KIB, "small"),
    "kib_64": Kind("echo", 64 * KIB, "small", share=4),
    "mib_16": Kind("echo", 16 * MIB, "large", share=10),
}
THREADS = {
    "pipelined_4": Kind("pipeline", SMALL, "pipelined", members={"threads": 4}),
    "pipelined_16": Kind("pipeline", SMALL, "pipelined", members={"threads": 16}),
}
MORE_KINDS = {"sizes": SIZES, "threads": THREADS}
"""By the words of ``--cases`` that ask for them."""
ALL_KINDS = {**KINDS, **LOADED, **SIZES, **THREADS}


def kinds_of(words: frozenset[str]) -> dict[str, Kind]:
    """What is asked of every contender beside the others."""
    return KINDS | {name: kind for word in sorted(words & MORE_KINDS.keys()) for name, kind in MORE_KINDS[word].items()}


@dataclass(frozen=True)
class Plan:
    """How much is measured: rounds, and calls of each kind a round; rates take `faster` times as many in C++."""

    rounds: int
    small: int
    large: int
    pipelined: int
    one_way: int
    faster: int = 10
    warm_share: float = 1.0

    def count(self, kind: Kind, languages: set[str]) -> int:
        count = max(1, getattr(self, kind.like) // kind.share)
        return count * self.faster if kind.like == "one_way" and languages == {"cpp"} else count


FULL = Plan(rounds=15, small=400, large=15, pipelined=3000, one_way=5000)
QUICK = Plan(rounds=4, small=200, large=5, pipelined=1000, one_way=2000, warm_share=0.25)
TINY = Plan(rounds=1, small=20, large=2, pipelined=50, one_way=50, faster=1, warm_share=0.01)
PLANS = {"full": FULL, "quick": QUICK, "tiny": TINY}
