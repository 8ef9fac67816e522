#!/usr/bin/env python3
"""SPEED beside its peers in one run: ``scripts/setup bench && .venv/bin/python scripts/bench/peers.py``.

Every library echoes the same bytes between two processes of its own. Rounds are interleaved (each round asks
every library once, in a new order), so a busy moment of the machine meets all alike. Ratios are medians over
the rounds. Libraries that are not installed are left out and said so. Exit status: 0 all targets met, 1 not,
2 nothing measured.

grpcio runs without TLS and without protobuf (identity serializers), Pyro5 and RPyC without protection; pyzmq
with CURVE is the one that gives what SPEED gives. All files lie in the same temporary directory.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import random
import selectors
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import startup  # noqa: E402
from contenders import NAMES  # noqa: E402

START_SECONDS = 20.0
STEP_SECONDS = 120.0
SMALL, LARGE = 200, 1 << 20
ENGINES = ("speed", "speed_native")
PIPELINED = ("grpc", "speed", "speed_native")


@dataclass(frozen=True)
class Plan:
    """How much is measured: rounds, and calls of each kind a round."""

    rounds: int
    small: int
    large: int
    pipelined: int


FULL = Plan(rounds=15, small=400, large=15, pipelined=3000)
QUICK = Plan(rounds=4, small=200, large=5, pipelined=1000)

TARGETS: list[tuple[str, str, float, str]] = [
    ("call p50 / pyzmq CURVE", "<=", 1.25, "small/zeromq"),
    ("call p50 / grpcio", "<=", 0.33, "small/grpc"),
    ("1 MiB p50 / grpcio", "<=", 1.0, "large/grpc"),
    ("pipelined calls/s / grpcio futures", ">=", 10.0, "pipelined/grpc"),
    ("native: call p50 / pyzmq CURVE", "<=", 0.3, "native/small/zeromq"),
    ("native: call p50 / grpcio", "<=", 0.15, "native/small/grpc"),
    ("native: 1 MiB p50 / grpcio", "<=", 0.6, "native/large/grpc"),
    ("native: pipelined calls/s / grpcio", ">=", 15.0, "native/pipelined/grpc"),
    ("import speed, ms", "<=", 80.0, "import_ms"),
    ("node started, ms", "<=", 50.0, "node_start_ms"),
    ("idle node, % CPU", "<=", 0.5, "idle_cpu_percent"),
    ("idle node, MB resident", "<=", 45.0, "idle_rss_mb"),
    ("speed nodes, ms", "<=", 250.0, "nodes_command_ms"),
]
"""(what, direction, bound, key of the measured figure)"""


class Contender:
    """The two processes of one library; each answers one line a command."""

    def __init__(self, name: str, work: Path) -> None:
        self.name = name
        self._processes: list[subprocess.Popen[str]] = []
        try:
            for role in ("server", "client"):
                self._processes.append(self._start(role, work))
                self._line(self._processes[-1], START_SECONDS)
        except BaseException:
            self.close()
            raise

    def _start(self, role: str, work: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "contenders.process", role, self.name, str(work)]
        with (work / f"{self.name}.{role}.log").open("wb") as log:
            return subprocess.Popen(
                command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def _line(self, process: subprocess.Popen[str], seconds: float) -> str:
        """One line of `process`; RuntimeError if it ends or says nothing for `seconds`."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            line = process.stdout.readline() if selector.select(seconds) else ""
        if not line:
            raise RuntimeError(f"{self.name}: no answer within {seconds:g} s or process ended")
        return line

    def ask(self, do: str, size: int, count: int, warm: int) -> Any:
        client = self._processes[-1]
        assert client.stdin is not None
        client.stdin.write(json.dumps({"do": do, "bytes": size, "count": count, "warm": warm}) + "\n")
        client.stdin.flush()
        return json.loads(self._line(client, STEP_SECONDS))

    def close(self) -> None:
        """End the client, then the server, by ending their inputs."""
        for process in reversed(self._processes):
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass
class Samples:
    """All measurements of one library."""

    small: list[list[int]] = field(default_factory=list)
    large: list[list[int]] = field(default_factory=list)
    pipelined: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        found = {}
        for kind, rounds in (("small", self.small), ("large", self.large)):
            ordered = sorted(sample / 1e3 for samples in rounds for sample in samples)
            if ordered:
                found[f"{kind}_p50_us"] = statistics.median(ordered)
                found[f"{kind}_p99_us"] = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        if self.pipelined:
            found["pipelined_calls_per_second"] = statistics.median(self.pipelined)
        return found


def start_all(names: list[str], work: Path) -> tuple[dict[str, Contender], dict[str, str]]:
    """Start what can be started; returns the contenders and, for each other, the end of its error."""
    started: dict[str, Contender] = {}
    absent: dict[str, str] = {}
    for name in names:
        try:
            started[name] = Contender(name, work)
        except RuntimeError as error:
            logs = [work / f"{name}.{role}.log" for role in ("server", "client")]
            lines = [line for log in logs if log.exists() for line in log.read_text().strip().splitlines()]
            absent[name] = lines[-1] if lines else str(error)
    return started, absent


def measure(contenders: dict[str, Contender], plan: Plan, progress: bool) -> dict[str, Samples]:
    found = {name: Samples() for name in contenders}
    order = list(contenders)
    for number in range(plan.rounds):
        if progress:
            print(f"round {number + 1} of {plan.rounds}", end="\r", file=sys.stderr, flush=True)
        random.shuffle(order)
        for name in order:
            found[name].small.append(contenders[name].ask("echo", SMALL, plan.small, 30)["ns"])
        for name in order:
            found[name].large.append(contenders[name].ask("echo", LARGE, plan.large, 2)["ns"])
        for name in order:
            if name in PIPELINED:
                answer = contenders[name].ask("pipeline", SMALL, plan.pipelined, 100)
                found[name].pipelined.append(answer["calls_per_second"])
    return found


def ratios(found: dict[str, Samples], engine: str = "speed") -> dict[str, float]:
    """An engine of SPEED over each peer, as the median of the ratios of the rounds' own medians."""
    if engine not in found:
        return {}
    speed, answer = found[engine], {}
    for name, peer in found.items():
        if name in ENGINES:
            continue
        for kind in ("small", "large"):
            pairs = zip(getattr(speed, kind), getattr(peer, kind), strict=True)
            answer[f"{kind}/{name}"] = statistics.median(
                statistics.median(ours) / statistics.median(theirs) for ours, theirs in pairs
            )
        if peer.pipelined:
            pairs_of_rates = zip(speed.pipelined, peer.pipelined, strict=True)
            answer[f"pipelined/{name}"] = statistics.median(ours / theirs for ours, theirs in pairs_of_rates)
    return answer


def verdicts(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Each target with its measured value and PASS, FAIL or `not measured`."""
    rows = []
    for what, direction, bound, key in TARGETS:
        value = figures.get(key)
        verdict = "not measured" if value is None else "FAIL"  # text: the measurement itself failed
        if isinstance(value, int | float):
            met = value <= bound if direction == "<=" else value >= bound
            verdict = "PASS" if met else "FAIL"
        rows.append({"what": what, "target": f"{direction} {bound:g}", "measured": value, "verdict": verdict})
    return rows


def library_of(name: str) -> dict[str, str]:
    """Version and protection, read from the module's text: importing it would load the library here."""
    text = (HERE / "contenders" / f"{name}_echo.py").read_text()
    values = {}
    for line in text.splitlines():
        key, separator, value = line.partition(" = ")
        if separator and key in {"LIBRARY", "PROTECTION"}:
            values[key] = value.strip('"')
    try:
        version = importlib.metadata.version(values["LIBRARY"])
    except importlib.metadata.PackageNotFoundError:
        version = platform.python_version() if values["LIBRARY"] == "None" else "?"
    return {"version": version, "protection": values["PROTECTION"]}


def print_report(report: dict[str, Any]) -> None:
    machine = report["machine"]
    print(f"Python {machine['python']}, {machine['cpus']} CPUs, load {machine['load']}, files in {machine['files']}\n")
    print(f"{'':28} {'version':9} {'p50 µs':>8} {'p99 µs':>8} {'1 MiB µs':>9} {'calls/s':>8}  protection")
    for name, row in report["contenders"].items():
        rate = row.get("pipelined_calls_per_second")
        print(
            f"{NAMES[name]:28} {row['version']:9} {row['small_p50_us']:8.1f} {row['small_p99_us']:8.1f}"
            f" {row['large_p50_us']:9.0f} {f'{rate:.0f}' if rate else '':>8}  {row['protection']}"
        )
    for name, reason in report["left_out"].items():
        print(f"{NAMES[name]:28} left out: {reason}")
    print()
    for row in report["verdicts"]:
        value = row["measured"]
        shown = f"{value:.2f}" if isinstance(value, int | float) else str(value or "")
        print(f"{row['verdict']:12} {row['what']:36} {row['target']:>8}  {shown}")


def run(names: list[str], plan: Plan, options: argparse.Namespace) -> dict[str, Any]:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = Path(tempfile.mkdtemp(prefix="speed-bench.", dir=base))
    contenders: dict[str, Contender] = {}
    try:
        contenders, left_out = start_all(names, work)
        found = measure(contenders, plan, progress=sys.stderr.isatty())
        for contender in contenders.values():
            contender.close()
        figures: dict[str, Any] = dict(ratios(found))
        figures.update({f"native/{key}": value for key, value in ratios(found, "speed_native").items()})
        if "speed" in contenders and not options.no_startup:
            figures.update(startup.figures(work, quick=options.quick))
    finally:
        for contender in contenders.values():
            contender.close()
        shutil.rmtree(work, ignore_errors=True)
    return {
        "machine": {
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
            "files": base or tempfile.gettempdir(),
        },
        "plan": vars(plan),
        "contenders": {name: {**library_of(name), **samples.summary()} for name, samples in found.items()},
        "left_out": left_out,
        "figures": figures,
        "verdicts": verdicts(figures),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the tables")
    parser.add_argument("--quick", action="store_true", help="a minute's worth less: fewer rounds and calls")
    parser.add_argument("--only", metavar="NAMES", help=f"comma-separated: {','.join(NAMES)}")
    parser.add_argument("--no-startup", action="store_true", help="leave out import, start, idle and CLI figures")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(NAMES)
    if unknown := set(names) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    report = run(names, QUICK if options.quick else FULL, options)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print_report(report)
    if not report["contenders"]:
        return 2
    return 1 if any(row["verdict"] == "FAIL" for row in report["verdicts"]) else 0


if __name__ == "__main__":
    sys.exit(main())
