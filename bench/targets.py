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


def _calls(title: str, name: str, batched: float) -> list[Target]:
    """What is promised of Python's calls and messages, by either engine; `batched` is in thousand messages a second."""
    return [
        Target(f"{title}: call p50 / pyzmq CURVE", "<=", 0.3, f"small/{name}/zeromq"),
        Target(f"{title}: call p50 / grpcio", "<=", 0.07, f"small/{name}/grpc"),
        Target(f"{title}: call p99 / p50", "<=", 4.0, f"tail/{name}"),
        Target(f"{title}: processor time of a call, µs", "<=", 30.0, f"cpu_us/{name}"),
        Target(f"{title}: busy cores: call p50 / pyzmq CURVE", "<=", 1.0, f"loaded/{name}/zeromq"),
        Target(f"{title}: pipelined calls/s / grpcio futures", ">=", 15.0, f"pipelined/{name}/grpc"),
        Target(f"{title}: one way, batched, thousand/s", ">=", batched, f"batched/{name}"),
        Target(f"{title}: 1 MiB p50 / grpcio", "<=", 1.0, f"large/{name}/grpc"),
        Target(f"{title}: 1 MiB p50 / grpcio with TLS", "<=", 0.4, f"large/{name}/grpc.tls"),
        Target(f"{title}: 1 MiB p50 / pyzmq CURVE", "<=", 0.3, f"large/{name}/zeromq"),
    ]


TARGETS = {
    "python": [
        *_calls("native", "speed.native", batched=250.0),
        Target("native, not polling: call p50 / pyzmq CURVE", "<=", 1.0, "small/speed.native.blocking/zeromq"),
        *_calls("Python engine", "speed", batched=120.0),
        Target("import speed, ms", "<=", 80.0, "import_ms"),
        Target("node started, ms", "<=", 50.0, "node_start_ms"),
        Target("idle node, % CPU", "<=", 0.2, "idle_cpu_percent"),
        Target("idle node, MB resident", "<=", 40.0, "idle_rss_mb"),
        Target("speed nodes, ms", "<=", 250.0, "nodes_command_ms"),
    ],
    "cpp": [
        Target("C++ call p50 / gRPC C++", "<=", 0.15, "small/speed.cpp/grpc.cpp"),
        Target("C++ call p50 / libzmq CURVE", "<=", 0.6, "small/speed.cpp/curve.cpp"),
        Target("C++, not polling: call p50 / the limit", "<=", 1.3, "small/speed.cpp.blocking/limit"),
        Target("C++ call p50 / the limit, polling", "<=", 3.0, "small/speed.cpp/limit.polling"),
        Target("C++ one way, batched, thousand/s", ">=", 800.0, "batched/speed.cpp"),
        Target("C++ one way, single, thousand/s", ">=", 350.0, "one_way/speed.cpp"),
        Target("C++ 1 MiB p50 / gRPC C++", "<=", 1.3, "large/speed.cpp/grpc.cpp"),
        Target("C++ 1 MiB p50 / libzmq CURVE", "<=", 0.4, "large/speed.cpp/curve.cpp"),
        Target("C++ idle server, MB resident", "<=", 6.0, "resident_mb/speed.cpp"),
        Target("Python to C++ p50 / Python to Python", "<=", 1.0, "small/speed.python-cpp/speed"),
    ],
    "java": [
        Target("Java call p50 / grpc-java", "<=", 0.3, "small/speed.java/grpc.java"),
        Target("Java 1 MiB p50 / grpc-java", "<=", 2.0, "large/speed.java/grpc.java"),
    ],
}


GROWTH = {
    "nodes": "most nodes / 2",
    "waiting_server": "most unread at the receiver / none",
    "waiting_client": "most unread at the caller / none",
    "calls": "most calls made / 1,000",
}


def _growth(title: str, name: str) -> list[Target]:
    """The larger ratio of round trip and processor time."""
    return [
        Target(f"{title}: cost of a call, {what}", "<=", 1.3, f"growth_{curve}/{name}")
        for curve, what in GROWTH.items()
    ]


def _crowds(title: str, name: str) -> list[Target]:
    return [
        Target(f"{title}: 64 senders / 1, drained", ">=", 0.9, f"fan_in/{name}"),
        Target(f"{title}: call p50 with 200 nodes / with 2", "<=", 1.3, f"population/{name}"),
        *_growth(title, name),
        Target(f"{title}: disk: 64 threads / 1", ">=", 15.0, f"group_commit/{name}"),
    ]


def _fair(title: str, name: str) -> Target:
    return Target(f"{title}: 64 senders: least share / fair share", ">=", 0.5, f"least_share/{name}")


CASE_TARGETS = {
    "python": [
        *_crowds("native", "speed.native"),
        _fair("native", "speed.native"),
        Target("native: 64 KiB p50 / pyzmq CURVE", "<=", 0.6, "kib_64/speed.native/zeromq"),
        Target("native: 64 KiB p50 / Arrow Flight", "<=", 0.7, "kib_64/speed.native/flight"),
        Target("native: 16 MiB p50 / pyzmq CURVE", "<=", 0.3, "mib_16/speed.native/zeromq"),
        Target("native: 16 MiB p50 / grpcio with TLS", "<=", 0.5, "mib_16/speed.native/grpc.tls"),
        Target("native: 16 MiB p50 / grpcio", "<=", 0.8, "mib_16/speed.native/grpc"),
        *_crowds("Python engine", "speed"),
        _fair("Python engine", "speed"),
    ],
    "cpp": _crowds("C++", "speed.cpp"),
    "java": _crowds("Java", "speed.java"),
}
"""Of the cases."""
CASES_OF = {
    "fan_in": "fan-in",
    "population": "nodes",
    "growth_nodes": "nodes",
    "growth_waiting_server": "waiting",
    "growth_waiting_client": "waiting",
    "growth_calls": "uptime",
    "group_commit": "durability",
    "least_share": "fairness",
    "kib_64": "sizes",
    "mib_16": "sizes",
}
"""figure -> the word of ``--cases`` that measures it."""


def verdicts(figures: dict[str, Any], languages: list[str]) -> list[dict[str, Any]]:
    """Each target of the languages with its measured value and PASS, FAIL or `not measured`."""
    return [judged(target, figures) for language in languages for target in TARGETS[language]]


def case_verdicts(figures: dict[str, Any], languages: list[str], words: frozenset[str]) -> list[dict[str, Any]]:
    """The same for the cases that were asked for."""
    return [
        judged(target, figures)
        for language in languages
        for target in CASE_TARGETS[language]
        if CASES_OF[target.figure.partition("/")[0]] in words
    ]


def judged(target: Target, figures: dict[str, Any]) -> dict[str, Any]:
    value = figures.get(target.figure)
    return {
        "what": target.what,
        "target": f"{target.direction} {target.bound:g}",
        "measured": value,
        "verdict": target.verdict(value),
        "figure": target.figure,
        "why": "",
    }
