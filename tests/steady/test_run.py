"""Real runs of pytest over small files: what is repeated, what counts, and what the last line says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.steady.ledger import MOST, VARIABLE
from tests.steady.outcomes import Tally

ROOT = Path(__file__).resolve().parents[2]

ONCE = """
import os, pathlib, pytest

def first_time(name):
    seen = pathlib.Path(__file__).with_name(name)
    if seen.exists():
        return False
    seen.touch()
    return True
"""


class Runs:
    """One directory with a file of tests, and the ledger of one run."""

    def __init__(self, path: Path) -> None:
        self.path, self.ledger = path, path / "unsteady"

    def play(self, tests: str, *, workers: int = 0) -> tuple[int, list[str]]:
        """Exit status and the lines of the output."""
        (self.path / "test_it.py").write_text(ONCE + tests)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPEED_ENGINE": "native", VARIABLE: str(self.ledger)}
        told = subprocess.run(
            [sys.executable, "-m", "tests.steady.run", "7", "-n", str(workers), "test_it.py"],
            cwd=self.path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return told.returncode, told.stdout.splitlines()

    def counts(self, line: str) -> dict[str, int]:
        assert re.fullmatch(r"\d+ \w+(, \d+ \w+)* in \d+\.\d\ds( \(.*\))?", line), line
        return {what: int(number) for number, what in re.findall(r"(\d+) ([a-z]+)", line)}


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_what_passes_when_it_is_repeated_is_unsteady_and_counts_as_passed_once(runs: Runs) -> None:
    tests = """
@pytest.fixture
def begins():
    assert not first_time('begins')
@pytest.fixture
def ends():
    yield
    assert not first_time('ends')
def test_a(begins): pass
def test_b(ends): pass
def test_c(): assert not first_time('c')
def test_d(): pytest.skip('no')
def test_e(): pass
"""
    status, lines = runs.play(tests)
    assert status == 0
    assert runs.counts(lines[-1]) == {"passed": 4, "skipped": 1}
    assert lines[-5] == "== unsteady: 3 failed and passed alone"
    again = [f"test_it.py::test_{one}; again: SEED=7 scripts/test 'test_it.py::test_{one}'" for one in "abc"]
    assert sorted(lines[-4:-1]) == again


def test_what_fails_twice_fails_the_run_and_is_named(runs: Runs) -> None:
    status, lines = runs.play("def test_a(): assert False\ndef test_b(): pass\n")
    assert status == 1
    assert runs.counts(lines[-1]) == {"failed": 1, "passed": 1}
    assert lines[lines.index("== failed twice, or was not repeated") + 1] == "test_it.py::test_a"
    assert not runs.ledger.exists()


def test_more_failures_than_a_run_may_have_unsteady_tests_are_not_repeated(runs: Runs) -> None:
    runs.ledger.write_text("of an earlier step\n" * (MOST - 1))
    status, lines = runs.play("def test_a(): assert not first_time('a')\ndef test_b(): assert not first_time('b')\n")
    assert status == 1
    assert runs.counts(lines[-1]) == {"failed": 2}
    assert not any(line.startswith("== once more") for line in lines)


def test_a_worker_that_dies_is_a_failed_test_which_is_repeated_with_nothing_beside_it(runs: Runs) -> None:
    tests = """
def test_a(worker_id):
    if first_time('a'):
        os._exit(1)
    assert worker_id == 'master'
@pytest.mark.parametrize('number', range(2))
def test_b(number):
    pathlib.Path(__file__).with_name(f'{number}.{os.getpid()}.seen').touch()
"""
    status, lines = runs.play(tests, workers=2)
    assert status == 0
    assert runs.counts(lines[-1]) == {"passed": 3}
    assert len(list(runs.path.glob("*.seen"))) == 2


def test_a_file_that_cannot_be_read_is_a_failure_at_once(runs: Runs) -> None:
    status, lines = runs.play("import no_such_module\n")
    assert status == 2
    assert runs.counts(lines[-1]) == {"error": 1}
    assert not any(line.startswith("== once more") for line in lines)


def test_a_process_that_ends_before_it_could_tell_is_a_failure(runs: Runs) -> None:
    status, lines = runs.play("def test_a(): os._exit(0)\n")
    assert status == 1
    assert lines[-1].startswith("no tests ran in ")


def test_tallies_of_several_runs_add_up() -> None:
    one, other = Tally(0), Tally(1, bad={"test_a": ["call"]})
    one.counts.update(passed=2, warnings=1)
    other.counts.update(passed=3, failed=1, warnings=1)
    one.add(other)
    assert one.status == 1
    assert one.closing_line(59.0) == "1 failed, 5 passed, 2 warnings in 59.00s"
    assert one.closing_line(3700.0).endswith(" in 3700.00s (1:01:40)")
