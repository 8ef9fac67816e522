"""Interleaved rounds: every contender is asked once a round, so a busy moment of the machine meets all alike."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from contender import Contender
from kinds import Kind, Plan

Samples = dict[str, list[Any]]
"""kind -> one item a round: the nanoseconds of each echo, or a rate a second; ``cpu``: microseconds a small call."""


class Bench:
    """Contenders that run, and what was found about each; one that fails is asked no more, what it gave is kept."""

    def __init__(self, contenders: dict[str, Contender], plan: Plan, left_out: dict[str, str]) -> None:
        self.found: dict[str, Samples] = {name: {} for name in contenders}
        self.left_out = left_out
        self._contenders = contenders
        self._plan = plan

    def warm_up(self, kinds: dict[str, Kind]) -> None:
        """Let Java compile what is measured."""
        for name, contender in self._contenders.items():
            for kind_name, kind in kinds.items():
                count = int(kind.java_warm * self._plan.warm_share)
                if "java" in contender.peer.languages and kind_name in contender.peer.does and count:
                    with self._reported(name, kind_name):
                        contender.ask(kind.do, kind.size, count, 0, **kind.members)

    def idle(self, seconds: float) -> dict[str, dict[str, float]]:
        """Start-up time and memory of each server, and its share of a core while nobody asks it anything."""
        before = {name: one.server.cpu_ns() for name, one in self._contenders.items()}
        began = time.perf_counter_ns()
        time.sleep(seconds)
        took = time.perf_counter_ns() - began
        return {
            name: {
                "start_ms": one.server.start_ms,
                "idle_percent": 100 * (one.server.cpu_ns() - before[name]) / took,
                "resident_mb": one.server.resident_mb(),
            }
            for name, one in self._contenders.items()
        }

    def measure(self, kinds: dict[str, Kind], rounds: int) -> None:
        """All rounds: each kind is asked of all, in a new order, before the next kind begins."""
        for number in range(rounds):
            if sys.stderr.isatty():
                print(f"round {number + 1} of {rounds}", end="\r", file=sys.stderr, flush=True)
            for kind_name, kind in kinds.items():
                names = [name for name, one in self._contenders.items() if kind_name in one.peer.does]
                for name in random.sample(names, len(names)):
                    if name not in self.left_out:
                        with self._reported(name, kind_name):
                            self._ask(name, kind_name, kind)

    def _ask(self, name: str, kind_name: str, kind: Kind) -> None:
        contender = self._contenders[name]
        count = self._plan.count(kind, contender.peer.languages)
        warm = max(1, count // 15)
        before = contender.cpu_ns()
        answer = contender.ask(kind.do, kind.size, count, warm, **kind.members)
        spent = contender.cpu_ns() - before
        samples = self.found[name]
        samples.setdefault(kind_name, []).append(answer["ns"] if kind.do == "echo" else answer["per_second"])
        if kind_name == "small":
            samples.setdefault("cpu", []).append(spent / 1e3 / (count + warm))

    @contextmanager
    def _reported(self, name: str, kind: str) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, OSError) as error:
            self.left_out[name] = f"{kind}: {error}"
