#!/usr/bin/env python3
"""SPEED beside its peers in one run: ``scripts/setup bench && .venv/bin/python bench/peers.py``.

Every library echoes the same bytes between two processes of its own. Rounds are interleaved (each round asks
every library once, in a new order), so a busy moment of the machine meets all alike. Ratios are medians over
the rounds. Libraries that are not installed are left out and said so. Exit status: 0 all targets met, 1 not,
2 nothing measured.

gRPC runs without TLS, in Python and Java without protobuf as well (identity serializers);
ZeroMQ with CURVE is the one that gives what SPEED gives. All files lie in the same temporary directory.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import report  # noqa: E402
import startup  # noqa: E402
from contender import Contender, start_all  # noqa: E402
from contenders.processes import every_core_busy, files_directory  # noqa: E402
from contenders.table import LANGUAGES, PAIRS, PEERS, is_speed, names_of  # noqa: E402
from kinds import ALL_KINDS, LOADED, PLANS, Plan, kinds_of  # noqa: E402
from rounds import Bench, Samples  # noqa: E402
from targets import verdicts  # noqa: E402

IDLE_SECONDS = 3.0
LOADED_ROUNDS = 3
SIDE_BY_SIDE = frozenset({"peers"})
"""The word of ``--cases`` that asks for all of this; ``sizes``, ``threads`` and ``pairs`` add to it."""
PYTHON_CPP = "speed.python-cpp"
"""The one pair of languages that a target speaks of."""


def middle(round_: Any) -> float:
    """One round as one number: the median of its echoes, or its rate."""
    return statistics.median(round_) if isinstance(round_, list) else round_


def ratios(found: dict[str, Samples]) -> dict[str, float]:
    """Each SPEED contender over each other one, as the median of the rounds' own ratios: ``kind/ours/other``."""
    answer = {}
    for ours in filter(is_speed, found):
        for other, theirs in found.items():
            for kind in found[ours].keys() & theirs.keys() if other != ours else ():
                pairs = zip(found[ours][kind], theirs[kind], strict=False)  # one of them may have failed later
                answer[f"{kind}/{ours}/{other}"] = statistics.median(middle(a) / middle(b) for a, b in pairs)
    return answer


def rates(found: dict[str, Samples]) -> dict[str, float]:
    """Thousands a second of what is not a ratio: ``kind/name``."""
    return {
        f"{kind}/{name}": statistics.median(rounds) / 1e3
        for name, samples in found.items()
        for kind, rounds in samples.items()
        if kind in ALL_KINDS and ALL_KINDS[kind].do != "echo"
    }


def own_figures(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """What is promised of one contender alone: ``figure/name``."""
    answer = {}
    for name, row in rows.items():
        answer[f"resident_mb/{name}"] = row["resident_mb"]
        answer[f"cpu_us/{name}"] = row.get("cpu_us")
        if row.get("small_p50_us"):
            answer[f"tail/{name}"] = row["small_p99_us"] / row["small_p50_us"]
    return answer


def summary(samples: Samples) -> dict[str, float]:
    """The median and the 99th percentile of all echoes in microseconds, rates a second."""
    found = {}
    for kind, rounds in samples.items():
        if kind == "cpu":
            found["cpu_us"] = statistics.median(rounds)
        elif ALL_KINDS[kind].do != "echo":
            found[f"{kind}_per_second"] = statistics.median(rounds)
        else:
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
    base = files_directory()
    work = Path(tempfile.mkdtemp(prefix="speed-bench.", dir=base))
    kinds = kinds_of(options.cases)
    contenders: dict[str, Contender] = {}
    figures: dict[str, Any] = {}
    try:
        contenders, left_out = start_all(names, work)
        bench = Bench(contenders, plan, left_out)
        resting = bench.idle(IDLE_SECONDS if plan.rounds > 1 else 0.1)
        bench.warm_up(kinds)
        bench.measure(kinds, plan.rounds)
        with every_core_busy():
            bench.measure(LOADED, min(plan.rounds, LOADED_ROUNDS))
        figures.update({**ratios(bench.found), **rates(bench.found)})
        for contender in contenders.values():
            contender.close()
        if "python" in languages and "speed" in contenders and not options.no_startup:
            (work / "startup").mkdir()
            figures.update(startup.figures(work / "startup", quick=options.quick))
    finally:
        for contender in contenders.values():
            contender.close()
        shutil.rmtree(work, ignore_errors=True)
    measured = {name: samples for name, samples in bench.found.items() if samples}
    rows = {
        name: {**report.describe(PEERS[name]), **resting[name], **summary(samples)}
        for name, samples in measured.items()
    }
    figures.update(own_figures(rows))
    return {
        "machine": machine(base),
        "plan": vars(plan),
        "contenders": rows,
        "left_out": left_out,
        "figures": figures,
        "verdicts": verdicts(figures, languages),
    }


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--lang", choices=[*LANGUAGES, "all"], default="python", help="which peers (default: python)")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="one JSON object, instead of the tables")
    parser.add_argument("--quick", action="store_true", help="a minute's worth less: fewer rounds and calls")
    parser.add_argument("--plan", choices=PLANS, help="full, quick, or tiny: only shows that everything runs")
    parser.add_argument("--only", metavar="NAMES", help=f"comma-separated: {','.join(PEERS)}")
    parser.set_defaults(cases=SIDE_BY_SIDE)
    parser.add_argument("--no-startup", action="store_true", help="leave out import, start, idle and CLI figures")
    return parser


def measured(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, Any]:
    """The report of what the options ask for; an empty one where they ask for no comparison."""
    names = chosen(options)
    if unknown := set(names) - set(PEERS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if "peers" not in options.cases:
        return {"machine": machine(files_directory()), "contenders": {}, "left_out": {}, "figures": {}, "verdicts": []}
    found = run(names, languages_of(options), PLANS[plan_of(options)], options)
    if options.json and options.json != "-":
        save(found, options.json)
    return found


def languages_of(options: argparse.Namespace) -> list[str]:
    return [one for one in LANGUAGES if options.lang in {one, "all"}]


def chosen(options: argparse.Namespace) -> list[str]:
    """The contenders that the options name; two languages that meet only where all are asked for."""
    if options.only:
        return list(options.only.split(","))
    return [
        name
        for name in names_of(options.lang)
        if options.lang != "all" or "pairs" in options.cases or name not in PAIRS or name == PYTHON_CPP
    ]


def plan_of(options: argparse.Namespace) -> str:
    return options.plan or ("quick" if options.quick else "full")


def save(found: dict[str, Any], place: str) -> None:
    Path(place).write_text(json.dumps(found, indent=2) + "\n")


def tell(found: dict[str, Any], place: str | None) -> None:
    """Print the tables; with ``-`` one JSON object instead, with the name of a file write it there."""
    if place and place != "-":
        save(found, place)
    print(json.dumps(found, indent=2) if place == "-" else report.text(found))


def exit_status(found: dict[str, Any]) -> int:
    if not (found["contenders"] or found.get("cases")):
        return 2
    return 1 if any(row["verdict"] == "FAIL" for row in found["verdicts"]) else 0


def main() -> int:
    parser = arguments((__doc__ or "").split("\n", maxsplit=1)[0])
    options = parser.parse_args()
    found = measured(parser, options)
    tell(found, options.json)
    return exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
