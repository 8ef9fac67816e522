"""A pytest plugin that tells which tests took most: ``pytest -p tests.steady.times``, as tests.steady.run does.

A test that waits is told apart from one that works: beside the seconds that went by stand those of the processor, of
the process of pytest and all below it, also of those that go on after the test. What a daemon does that left its parent
is not seen. ``--times FILE`` keeps a line of each test, and the report names the ``SHOWN`` that took most.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SHOWN = 100
"""Tests that a whole run names."""
LEAST_SECONDS = 0.5
"""Who took less than this is not worth a line."""
PROPERTY = "seconds of the processor"
TICKS = os.sysconf("SC_CLK_TCK")


def spent(pid: int | str = "self") -> float:
    """Seconds of the processor that a process, those below it and those it has waited for have taken."""
    proc = Path("/proc", str(pid))
    try:
        fields = (proc / "stat").read_text().rpartition(") ")[2].split()
    except OSError:  # it has ended, or this is no Linux
        return sum(os.times()[:4]) if pid == "self" else 0.0
    below = (one for task in proc.glob("task/*") for one in _started_by(task))
    return sum(map(int, fields[11:15])) / TICKS + sum(map(spent, below))


def _started_by(task: Path) -> list[str]:
    """The processes that a thread started; none if it has ended, while the other threads of its process go on."""
    try:
        return (task / "children").read_text().split()
    except OSError:
        return []


@dataclass(frozen=True)
class Took:
    """One test with its fixtures."""

    name: str
    seconds: float
    processor: float


def table(tests: list[Took], shown: int = SHOWN) -> list[str]:
    """Those that took most of the processor, and what all took."""
    first = sorted(tests, key=lambda one: (-max(one.processor, 0), -one.seconds))[:shown]
    lines = [
        f"{one.seconds:8.1f} s {one.processor:8.1f} s  {one.name}" for one in first if one.seconds >= LEAST_SECONDS
    ]
    seconds, processor = sum(one.seconds for one in tests), sum(one.processor for one in tests)
    return [*lines, f"{seconds:8.1f} s {processor:8.1f} s  all"]


def by_file(tests: list[Took]) -> list[Took]:
    """The same, added up for each file."""
    found: dict[str, Took] = {}
    for one in tests:
        name = one.name.partition("::")[0]
        old = found.get(name, Took(name, 0, 0))
        found[name] = Took(name, old.seconds + one.seconds, old.processor + one.processor)
    return list(found.values())


# --- the plugin ---

BEGAN = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", metavar="FILE", help="write there what each test took, and show what took most")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Begins before the fixtures, and ends after them."""
    item.stash[BEGAN] = spent()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A report goes from a worker to the process that writes the table."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "teardown" and BEGAN in item.stash:
        report.user_properties = [*report.user_properties, (PROPERTY, spent() - item.stash[BEGAN])]


class Times:
    """Collects the reports of all processes."""

    def __init__(self, path: str) -> None:
        self._path, self._seconds, self._processor = Path(path), dict[str, float](), dict[str, float]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        for name, value in report.user_properties:
            if name == PROPERTY:
                self._processor[report.nodeid] = float(str(value))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        tests = [Took(name, seconds, self._processor.get(name, 0.0)) for name, seconds in self._seconds.items()]
        self._path.write_text("".join(f"{one.seconds:.2f}\t{one.processor:.2f}\t{one.name}\n" for one in tests))
        for title, told in (("the files", by_file(tests)), ("the tests", tests)):
            terminalreporter.section(f"{title} that took most: seconds, and seconds of the processor")
            for line in table(told):
                terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--times")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(path), "speed-times")
