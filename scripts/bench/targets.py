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
        Target("native call p50 / pyzmq CURVE", "<=", 0.3, "small/speed.native/zeromq"),
        Target("native 1 MiB p50 / grpcio", "<=", 0.6, "large/speed.native/grpc"),
        Target("native pipelined calls/s / grpcio futures", ">=", 15.0, "pipelined/speed.native/grpc"),
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


def verdicts(figures: dict[str, Any], languages: list[str]) -> list[dict[str, Any]]:
    """Each target of the languages with its measured value and PASS, FAIL or `not measured`."""
    return [
        {
            "what": target.what,
            "target": f"{target.direction} {target.bound:g}",
            "measured": figures.get(target.figure),
            "verdict": target.verdict(figures.get(target.figure)),
        }
        for language in languages
        for target in TARGETS[language]
    ]
