"""A pytest plugin that writes what came of a run, and the arithmetic of runs: ``pytest -p tests.steady.outcomes``.

``--outcomes FILE`` says where. Several runs add up to one tally, and a test that passed when it was repeated counts as
passed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ORDER = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "error")
"""What pytest's closing line names, in its order."""
COLLECTING = "collect"


@dataclass
class Tally:
    """Counts as in pytest's closing line; ``bad``: the phases in which each test failed, by its id."""

    status: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    bad: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Tally:
        """What ``pytest_sessionfinish`` wrote; FileNotFoundError where pytest ended before that."""
        told = json.loads(path.read_text(encoding="utf-8"))
        return cls(told["status"], Counter(told["counts"]), told["bad"])

    def may_be_repeated(self, room: int) -> bool:
        """Whether tests failed, and only tests, and no more than ``room``."""
        phases = {phase for found in self.bad.values() for phase in found}
        return self.status == pytest.ExitCode.TESTS_FAILED and COLLECTING not in phases and 0 < len(self.bad) <= room

    def mend(self, name: str) -> None:
        """This test passed when it was repeated."""
        phases = self.bad.pop(name)
        ends = [phase for phase in phases if phase in ("setup", "teardown")]
        self.counts["error"] -= len(ends)
        self.counts["failed"] -= len(phases) - len(ends)
        self.counts["passed"] += phases != ["teardown"]  # with that alone it was counted as passed already
        if not self.bad:
            self.status = 0

    def add(self, other: Tally) -> None:
        """Another run, of other tests."""
        self.status = self.status or other.status
        self.counts.update(other.counts)
        self.bad |= other.bad

    def closing_line(self, seconds: float) -> str:
        """As pytest's own, so that whoever reads that can read this."""
        counted = [f"{self.counts[what]} {_plural(what, self.counts[what])}" for what in ORDER if self.counts[what] > 0]
        minutes = f" ({int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02})"
        return f"{', '.join(counted) or 'no tests ran'} in {seconds:.2f}s{minutes if seconds >= 60 else ''}"


def _plural(what: str, count: int) -> str:
    if what == "warnings":
        return "warning" if count == 1 else "warnings"
    return "errors" if what == "error" and count != 1 else what


def _bad(reports: Iterable[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for report in reports:
        collecting = isinstance(report, pytest.CollectReport)
        found.setdefault(report.nodeid, []).append(COLLECTING if collecting else report.when)
    return found


# --- the plugin ---


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="write there what came of the run")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Only the process that the others report to has seen all of it."""
    path = session.config.getoption("--outcomes")
    if path is None or hasattr(session.config, "workerinput"):
        return
    stats = session.config.pluginmanager.getplugin("terminalreporter").stats
    told = {
        "status": int(exitstatus),
        "counts": {what: len(stats[what]) for what in ORDER if what in stats},
        "bad": _bad([*stats.get("failed", ()), *stats.get("error", ())]),
    }
    Path(path).write_text(json.dumps(told), encoding="utf-8")
