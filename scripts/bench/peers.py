#!/usr/bin/env python3
"""SPEED beside its peers in one run: ``scripts/setup bench && .venv/bin/python scripts/bench/peers.py``.

Every library echoes the same bytes between two processes of its own. Rounds are interleaved (each round asks
every library once, in a new order), so a busy moment of the machine meets all alike. Ratios are medians over
the rounds. Libraries that are not installed are left out and said so. Exit status: 0 all targets met, 1 not,
2 nothing measured.

gRPC runs without TLS, in Python and Java without protobuf as well (identity serializers), Pyro5 and RPyC without
protection; ZeroMQ with CURVE is the one that gives what SPEED gives. All files lie in the same temporary directory.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import report  # noqa: E402
import startup  # noqa: E402
from contender import Contender, start_all  # noqa: E402
from contenders.table import LANGUAGES, PEERS, is_speed, names_of  # noqa: E402
from targets import verdicts  # noqa: E402

SMALL, LARGE = 200, 1 << 20


@dataclass(frozen=True)
class Kind:
    """One measurement: the command, its payload, and what it does before the first round to warm up a JIT."""

    do: str
    size: int
    members: dict[str, Any]
    java_warm: int


KINDS = {
    "small": Kind("echo", SMALL, {}, 20_000),
    "large": Kind("echo", LARGE, {}, 200),
    "pipelined": Kind("pipeline", SMALL, {}, 20_000),
    "one_way": Kind("send", SMALL, {"batch": False}, 20_000),
    "batched": Kind("send", SMALL, {"batch": True}, 0),
}


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

    def count(self, kind: str, language: str) -> int:
        count = getattr(self, "one_way" if kind == "batched" else kind)
        return count * self.faster if kind in {"one_way", "batched"} and language == "cpp" else count


FULL = Plan(rounds=15, small=400, large=15, pipelined=3000, one_way=5000)
QUICK = Plan(rounds=4, small=200, large=5, pipelined=1000, one_way=2000, warm_share=0.25)
TINY = Plan(rounds=1, small=20, large=2, pipelined=50, one_way=50, faster=1, warm_share=0.01)
PLANS = {"full": FULL, "quick": QUICK, "tiny": TINY}

Samples = dict[str, list[Any]]
"""Kind -> one item a round: the nanoseconds of each echo, or a rate a second."""


def warm_up(contenders: dict[str, Contender], plan: Plan) -> None:
    """Lets Java compile what is measured."""
    for contender in contenders.values():
        for name, kind in KINDS.items():
            count = int(kind.java_warm * plan.warm_share)
            if contender.peer.language == "java" and name in contender.peer.does and count:
                contender.ask(kind.do, kind.size, count, 0, **kind.members)


def measure(
    contenders: dict[str, Contender], plan: Plan, left_out: dict[str, str], progress: bool
) -> dict[str, Samples]:
    """All rounds; a contender that fails in one is left out of all."""
    found: dict[str, Samples] = {name: {} for name in contenders}
    warm_up(contenders, plan)
    for number in range(plan.rounds):
        if progress:
            print(f"round {number + 1} of {plan.rounds}", end="\r", file=sys.stderr, flush=True)
        for name, one in shuffled_steps(list(found)):
            if one not in found or name not in contenders[one].peer.does:
                continue
            try:
                found[one].setdefault(name, []).append(ask(contenders[one], name, plan))
            except RuntimeError as error:
                left_out[one] = str(error)
                del found[one]
    return found


def shuffled_steps(names: list[str]) -> list[tuple[str, str]]:
    """(kind, contender): each kind is asked of all before the next kind begins."""
    random.shuffle(names)
    return [(kind, name) for kind in KINDS for name in names]


def ask(contender: Contender, name: str, plan: Plan) -> Any:
    kind = KINDS[name]
    count = plan.count(name, contender.peer.language)
    answer = contender.ask(kind.do, kind.size, count, max(2, count // 15), **kind.members)
    return answer["ns"] if kind.do == "echo" else answer["per_second"]


def middle(round_: Any) -> float:
    """One round as one number: the median of its echoes, or its rate."""
    return statistics.median(round_) if isinstance(round_, list) else round_


def ratios(found: dict[str, Samples]) -> dict[str, float]:
    """Each SPEED contender over each other one, as the median of the rounds' own ratios: ``kind/ours/other``."""
    answer = {}
    for ours in filter(is_speed, found):
        for other, theirs in found.items():
            for kind in found[ours].keys() & theirs.keys() if other != ours else ():
                pairs = zip(found[ours][kind], theirs[kind], strict=True)
                answer[f"{kind}/{ours}/{other}"] = statistics.median(middle(a) / middle(b) for a, b in pairs)
    return answer


def rates(found: dict[str, Samples]) -> dict[str, float]:
    """Thousands a second of what is not a ratio: ``kind/name``."""
    return {
        f"{kind}/{name}": statistics.median(rounds) / 1e3
        for name, samples in found.items()
        for kind, rounds in samples.items()
        if KINDS[kind].do != "echo"
    }


def summary(samples: Samples) -> dict[str, float]:
    """The median and the 99th percentile of all echoes in microseconds, rates a second."""
    found = {}
    for kind, rounds in samples.items():
        if KINDS[kind].do != "echo":
            found[f"{kind}_per_second"] = statistics.median(rounds)
            continue
        ordered = sorted(sample / 1e3 for samples in rounds for sample in samples)
        found[f"{kind}_p50_us"] = statistics.median(ordered)
        found[f"{kind}_p99_us"] = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return found


def machine(files: str) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "files": files,
    }


def run(names: list[str], languages: list[str], plan: Plan, options: argparse.Namespace) -> dict[str, Any]:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = Path(tempfile.mkdtemp(prefix="speed-bench.", dir=base))
    contenders: dict[str, Contender] = {}
    try:
        contenders, left_out = start_all(names, work)
        found = measure(contenders, plan, left_out, progress=sys.stderr.isatty())
        figures: dict[str, Any] = {**ratios(found), **rates(found)}
        for contender in contenders.values():
            contender.close()
        if "python" in languages and "speed" in contenders and not options.no_startup:
            (work / "startup").mkdir()
            figures.update(startup.figures(work / "startup", quick=options.quick))
    finally:
        for contender in contenders.values():
            contender.close()
        shutil.rmtree(work, ignore_errors=True)
    return {
        "machine": machine(base or tempfile.gettempdir()),
        "plan": vars(plan),
        "contenders": {name: {**report.describe(PEERS[name]), **summary(found[name])} for name in found},
        "left_out": left_out,
        "figures": figures,
        "verdicts": verdicts(figures, languages),
    }


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--lang", choices=[*LANGUAGES, "all"], default="python", help="which peers (default: python)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the tables")
    parser.add_argument("--quick", action="store_true", help="a minute's worth less: fewer rounds and calls")
    parser.add_argument("--plan", choices=PLANS, help="full, quick, or tiny: only shows that everything runs")
    parser.add_argument("--only", metavar="NAMES", help=f"comma-separated: {','.join(PEERS)}")
    parser.add_argument("--no-startup", action="store_true", help="leave out import, start, idle and CLI figures")
    return parser


def measured(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, Any]:
    """The report of what the options ask for."""
    names = options.only.split(",") if options.only else names_of(options.lang)
    if unknown := set(names) - set(PEERS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    languages = [one for one in LANGUAGES if options.lang in {one, "all"}]
    return run(names, languages, PLANS[plan_of(options)], options)


def plan_of(options: argparse.Namespace) -> str:
    return options.plan or ("quick" if options.quick else "full")


def exit_status(found: dict[str, Any]) -> int:
    if not found["contenders"]:
        return 2
    return 1 if any(row["verdict"] == "FAIL" for row in found["verdicts"]) else 0


def main() -> int:
    parser = arguments((__doc__ or "").split("\n", maxsplit=1)[0])
    options = parser.parse_args()
    found = measured(parser, options)
    print(json.dumps(found, indent=2) if options.json else report.text(found))
    return exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
