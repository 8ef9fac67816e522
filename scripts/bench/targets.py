"""What is promised, and whether it is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """A bound on one figure: ``kind/ours/peer`` is a ratio, anything else a figure as it is."""

    what: str
    direction: str
    bound: float
    figure: str

    def verdict(self, value: Any) -> str:
        if value is None:
            return "not measured"
        if not isinstance(value, int | float):
            return "FAIL"  # text: the measurement itself failed
        met = value <= self.bound if self.direction == "<=" else value >= self.bound
        return "PASS" if met else "FAIL"


TARGETS = {
    "python": [
        Target("call p50 / pyzmq CURVE", "<=", 1.25, "small/speed/zeromq"),
        Target("call p50 / grpcio", "<=", 0.33, "small/speed/grpc"),
        Target("1 MiB p50 / grpcio", "<=", 1.0, "large/speed/grpc"),
        Target("pipelined calls/s / grpcio futures", ">=", 10.0, "pipelined/speed/grpc"),
        Target("native: call p50 / pyzmq CURVE", "<=", 0.3, "small/speed.native/zeromq"),
        Target("native: call p50 / grpcio", "<=", 0.07, "small/speed.native/grpc"),
        Target("native: 1 MiB p50 / grpcio", "<=", 0.6, "large/speed.native/grpc"),
        Target("native: pipelined calls/s / grpcio futures", ">=", 15.0, "pipelined/speed.native/grpc"),
        Target("one way, batched, thousand/s", ">=", 120.0, "batched/speed"),
        Target("native: one way, batched, thousand/s", ">=", 120.0, "batched/speed.native"),
        Target("import speed, ms", "<=", 80.0, "import_ms"),
        Target("node started, ms", "<=", 50.0, "node_start_ms"),
        Target("idle node, % CPU", "<=", 0.5, "idle_cpu_percent"),
        Target("idle node, MB resident", "<=", 45.0, "idle_rss_mb"),
        Target("speed nodes, ms", "<=", 250.0, "nodes_command_ms"),
    ],
    "cpp": [
        Target("C++ call p50 / gRPC C++", "<=", 0.6, "small/speed.cpp/grpc.cpp"),
        Target("C++ call p50 / libzmq CURVE", "<=", 0.6, "small/speed.cpp/curve.cpp"),
        Target("C++ one way, batched, thousand/s", ">=", 600.0, "batched/speed.cpp"),
        Target("C++ one way, single, thousand/s", ">=", 250.0, "one_way/speed.cpp"),
        Target("Python to C++ p50 / Python to Python", "<=", 1.0, "small/speed.python-cpp/speed"),
    ],
    "java": [
        Target("Java call p50 / grpc-java", "<=", 1.0, "small/speed.java/grpc.java"),
    ],
}


CASE_TARGETS = {
    "python": [
        Target("64 senders / 1, drained", ">=", 0.8, "fan_in/speed"),
        Target("64 senders: least share / fair share", ">=", 0.5, "least_share/speed"),
        Target("call p50 with 200 nodes / with 2", "<=", 1.3, "population/speed"),
        Target("disk: 64 threads / 1", ">=", 15.0, "group_commit/speed"),
        Target("native: 64 senders / 1, drained", ">=", 0.8, "fan_in/speed.native"),
        Target("native: call p50 with 200 nodes / with 2", "<=", 1.3, "population/speed.native"),
        Target("native: disk: 64 threads / 1", ">=", 15.0, "group_commit/speed.native"),
    ],
    "cpp": [
        Target("C++: 64 senders / 1, drained", ">=", 0.8, "fan_in/speed.cpp"),
        Target("C++: call p50 with 200 nodes / with 2", "<=", 1.3, "population/speed.cpp"),
        Target("C++: disk: 64 threads / 1", ">=", 15.0, "group_commit/speed.cpp"),
    ],
    "java": [
        Target("Java: 64 senders / 1, drained", ">=", 0.8, "fan_in/speed.java"),
        Target("Java: call p50 with 200 nodes / with 2", "<=", 1.3, "population/speed.java"),
        Target("Java: disk: 64 threads / 1", ">=", 15.0, "group_commit/speed.java"),
    ],
}
"""Of ``--cases all``."""


def verdicts(figures: dict[str, Any], languages: list[str]) -> list[dict[str, Any]]:
    """Each target of the languages with its measured value and PASS, FAIL or `not measured`."""
    return [judged(target, figures) for language in languages for target in TARGETS[language]]


def case_verdicts(figures: dict[str, Any], languages: list[str]) -> list[dict[str, Any]]:
    """The same for what ``--cases all`` measures."""
    return [judged(target, figures) for language in languages for target in CASE_TARGETS[language]]


def judged(target: Target, figures: dict[str, Any]) -> dict[str, Any]:
    value = figures.get(target.figure)
    return {
        "what": target.what,
        "target": f"{target.direction} {target.bound:g}",
        "measured": value,
        "verdict": target.verdict(value),
    }
