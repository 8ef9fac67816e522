#!/usr/bin/env python
"""SPEED in Spark, measured side by side in one run, as one table with each target met or missed.

bench/spark.py                    all parts; a quarter of an hour
bench/spark.py --quick            fewer rounds; three minutes
bench/spark.py --only enrich      chosen parts: enrich, shapes, first, executors, flat, streams, memory
bench/spark.py --json [FILE]      one JSON object
bench/spark.py --docs             writes its section of docs/figures.md

Needs scripts/setup bench, scripts/cpp build and, for the native engine, a compiler.
Exit status: 0 all targets reached, 1 not, 2 nothing measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHON = Path(os.environ.get("VENV", ROOT / ".venv")) / "bin" / "python"
if not PYTHON.exists():
    sys.exit(f"spark.py: {PYTHON} is missing: run scripts/setup bench")
if not Path(sys.prefix).samefile(PYTHON.parents[1]):  # called as it stands: the project's environment has what it needs
    os.execv(PYTHON, [str(PYTHON), *sys.argv])
sys.path[:0] = [str(ROOT), str(HERE)]

from on_spark import enrich, executors, figures, flight_jvm, session, shapes, steady, streams  # noqa: E402

import speed  # noqa: E402

PARTS = ("enrich", "shapes", "first", "executors", "flat", "streams", "memory")
MINUTES, QUICK_MINUTES = 10.0, 1.0


def say(text: str) -> None:
    """Progress, apart from what may be JSON."""
    print(text, file=sys.stderr, flush=True)


def run(parts: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """All parts, each in a session of its own; one that fails is told, the others are measured."""
    minutes = options.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    measures: dict[str, Callable[[Any, Path], dict[str, Any]]] = {
        "enrich": lambda spark, work: enrich.measure(spark, work, options.quick, say),
        "shapes": lambda spark, work: shapes.measure(spark, work, options.quick, say),
        "first": lambda spark, work: steady.first_result(spark, work, options.quick, say),
        "streams": lambda spark, work: streams.measure(spark, work, options.quick, say),
        "memory": lambda spark, work: steady.memory(spark, work, minutes, say),
    }
    found: dict[str, Any] = {"machine": machine(), "figures": {}, "left_out": {}}
    for part in parts:
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        work = Path(tempfile.mkdtemp(prefix="speed-spark-bench.", dir=base))
        try:
            if part in ("executors", "flat"):  # in sessions of their own
                found[part] = (
                    executors.measure(work, options.quick, say)
                    if part == "executors"
                    else executors.flat(work, options.quick, say, options.rows)
                )
                found["figures"].update(found[part].pop("figures"))
                continue
            with session.session(work, jars=flight_jars() if part in ("enrich", "shapes") else ()) as spark:
                found[part] = measures[part](spark, work)
            found["figures"].update(found[part].pop("figures"))
        except Exception as error:
            found["left_out"][part] = f"{type(error).__name__}: {str(error)[:300]}"
            say(f"{part} FAILED: {error}")
        finally:
            session.remove(work)
    found["machine"]["load"] = max(found["machine"]["load"], round(os.getloadavg()[0], 2))
    found["verdicts"] = figures.verdicts(found["figures"], parts)
    return found


def flight_jars() -> list[Path]:
    """Arrow Flight's client for the JVM; without Maven, or what it fetches, this contender is left out."""
    try:
        return flight_jvm.jars()
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"Arrow Flight from the JVM is left out: {error}")
        return []


def machine() -> dict[str, Any]:
    """Where this runs."""
    return {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "engine": engine(),
        **session.versions(),
    }


def engine() -> str:
    """Which engine the workers' nodes run on."""
    with tempfile.TemporaryDirectory() as work:
        root, key = session.make_root(Path(work))
        with speed.Node("bench", root=root, key=key) as node:
            return node.engine


def main() -> int:
    """What was measured, as a table, as JSON, in docs/figures.md."""
    parser = argparse.ArgumentParser(description="SPEED in Spark: services on columns, streams, workers over time.")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="one JSON object, instead of the table")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", metavar="PARTS", default=",".join(PARTS), help=f"comma-separated: {','.join(PARTS)}")
    parser.add_argument("--minutes", type=float, help="how long memory is watched (10; quick: 1)")
    parser.add_argument("--rows", type=int, help="of flat: how many go through an executor (100 million; quick: 4)")
    parser.add_argument("--docs", action="store_true", help="write the section of docs/figures.md")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    found = run(parts, options)
    if options.json and options.json != "-":
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2) if options.json == "-" else figures.text(found))
    if options.docs:
        command = "bench/spark.py" + (" --quick" if options.quick else "")
        figures.write_page(found, command, ROOT / "docs" / "figures.md")
    if not found["figures"]:
        return 2
    return 0 if all(row["verdict"] == "reached" for row in found["verdicts"]) else 1


if __name__ == "__main__":
    sys.exit(main())
