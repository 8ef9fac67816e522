#!/usr/bin/env python
"""A service of rows in each language, asked by Python for the same column, in turns.

bench/rows.py              100,000 rows, 15 rounds
bench/rows.py --rows N --rounds N

Each row is one call of a function: ``amount * 0.18``. Needs bench/build cpp java.
Exit status: 0 both targets reached, 1 not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHON = Path(os.environ.get("VENV", ROOT / ".venv")) / "bin" / "python"
if not Path(sys.prefix).samefile(PYTHON.parents[1]):  # called as it stands: the project's environment has what it needs
    os.execv(PYTHON, [str(PYTHON), *sys.argv])
sys.path[:0] = [str(ROOT), str(HERE)]

from contender import Program  # noqa: E402
from contenders.table import PEERS  # noqa: E402

import speed  # noqa: E402
from speed.columns import from_values  # noqa: E402

SERVERS = {"python": "speed.native", "cpp": "speed.cpp", "java": "speed.java"}
MOST_OF_PYTHON = {"cpp": 0.3, "java": 0.5}
WARM_ROUNDS = 5


def measure(rows: int, rounds: int) -> dict[str, float]:
    """The median of a call with ``rows`` rows, in milliseconds, by language."""
    column = from_values([float(number) for number in range(rows)])
    samples: dict[str, list[float]] = {language: [] for language in SERVERS}
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with contextlib.ExitStack() as opened:
        work = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="speed-bench.", dir=base)))
        clients = {language: opened.enter_context(client_of(language, work, opened)) for language in SERVERS}
        for number in range(WARM_ROUNDS + rounds):
            for language in random.sample(list(SERVERS), len(SERVERS)):
                took = timed_call(clients[language], column)
                if number >= WARM_ROUNDS:
                    samples[language].append(took)
    return {language: statistics.median(taken) * 1e3 for language, taken in samples.items()}


def client_of(language: str, base: Path, opened: contextlib.ExitStack) -> speed.Node:
    """A node beside a server of ``language``, in a root of their own."""
    work = base / language
    work.mkdir()
    speed.init_root(work / "root", work / "speed.key")
    server = Program(language, PEERS[SERVERS[language]].server("server", work), work / "server.log")
    opened.callback(server.close)
    node = speed.Node("client", root=str(work / "root"), key=str(work / "speed.key"))
    node.wait_for("server", timeout=10)
    return node


def timed_call(node: speed.Node, column: speed.Column) -> float:
    """Seconds of one call, whose result is looked at."""
    began = time.perf_counter()
    taxes = node.call("server", "tax", {"amount": column}, timeout=60)
    took = time.perf_counter() - began
    assert taxes.rows == column.rows
    return took


def main() -> int:
    """Prints a table with each target met or missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    found = measure(options.rows, options.rounds)
    missed = 0
    for language, median in found.items():
        share, most = median / found["python"], MOST_OF_PYTHON.get(language)
        verdict = "" if most is None else f"<= {most}: {'PASS' if share <= most else 'FAIL'}"
        missed += most is not None and share > most
        print(f"{language:8} {options.rows:,} rows in {median:8.1f} ms  {share:6.2f} of Python's  {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
