"""``scripts/interop``: runs the interop tests and prints which feature works from which language to which.

usage: scripts/interop [--all] [--pairs python-cpp,java-java] [-k EXPRESSION] [PYTEST OPTIONS]
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
THOROUGH = {"SPEED_RACE_ROUNDS": "1000", "SPEED_FUZZ_SECONDS": "120"}
"""What ``--all`` adds: races of names, and a longer comparison of decoders."""
VERBS = r"(calls|asks|sends to|publishes to|is refused by|watches|waits for|reclaims the name of|replaces|reads)"
PAIR = re.compile(rf"(\w+) {VERBS} (\w+)")


class Results:
    """A pytest plugin: counts outcomes by feature and by pair."""

    def __init__(self) -> None:
        self.passed: dict[tuple[str, str], int] = defaultdict(int)
        self.failed: dict[tuple[str, str], int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test: failures of any phase count, successes once."""
        cell = (feature_of(report.nodeid), pair_of(report.nodeid))
        if report.failed:
            self.failed[cell] += 1
        elif report.when == "call" and report.passed:
            self.passed[cell] += 1

    def table(self) -> Table:
        """Features by pairs, with how many tests passed; failures in red."""
        cells = self.passed.keys() | self.failed.keys()
        columns = sorted({pair for _, pair in cells if pair}) + [""] * any(not pair for _, pair in cells)
        table = Table("feature", *(pair or "alone" for pair in columns), title="Interop, source → target")
        for feature in sorted({feature for feature, _ in cells}):
            table.add_row(feature, *(self._cell(feature, pair) for pair in columns))
        return table

    def _cell(self, feature: str, pair: str) -> str:
        passed, failed = self.passed.get((feature, pair), 0), self.failed.get((feature, pair), 0)
        if failed:
            return f"[red]{failed} failed[/red]"
        return f"[green]{passed}[/green]" if passed else ""


def feature_of(nodeid: str) -> str:
    """The sentence that is the test's name."""
    return nodeid.partition("::")[2].partition("[")[0].removeprefix("test_").replace("_", " ")


def pair_of(nodeid: str) -> str:
    """``python→cpp``; empty where a test is not about a pair."""
    found = PAIR.search(nodeid)
    return f"{_short(found[1])}→{_short(found[3])}" if found else ""


def _short(language: str) -> str:
    return {"python": "py", "cpp": "c++"}.get(language, language)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/interop", description="Nodes of all languages against each other.")
    parser.add_argument("--all", action="store_true", help="1,000 races for a name, two minutes of fuzzing")
    parser.add_argument("--pairs", help="such as python-cpp,java-java; both directions")
    parser.add_argument("-k", dest="expression", help="only tests whose names match")
    options, rest = parser.parse_known_args()
    os.environ.update(THOROUGH if options.all else {})
    if options.pairs:
        os.environ["SPEED_PAIRS"] = options.pairs
    chosen = ["-k", options.expression] if options.expression else []
    results = Results()
    status = pytest.main([str(HERE), "-q", "--timeout=900", *chosen, *rest], plugins=[results])
    Console(width=max(160, Console().width)).print(results.table())
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
