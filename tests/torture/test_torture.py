"""The harness can fail: each scenario notices its own broken promise; failures, results and the table say enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.steady.ledger import VARIABLE, Ledger
from tests.torture import program, results
from tests.torture.program import all_scenarios, main, notices_mutation, play
from tests.torture.scenario import Report, Scenario

SCENARIOS = all_scenarios()
SEED = 20260101
QUICKLY_BROKEN = ("clocks", "rotation", "tampering")
"""Of whom a change that touches none of the harness is told; .ci/run breaks all others when it does."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICKLY_BROKEN else pytest.mark.thorough) for name in SCENARIOS]
)
def test_a_broken_promise_is_noticed(name: str) -> None:
    assert notices_mutation(SCENARIOS[name], SEED)


def _breaking(seed: int, count: int, report: Report) -> None:
    for round_seed in report.rounds(seed, count):
        report.check(round_seed != 12, "twelve")


BREAKING = Scenario("breaking", "never twelve", "rounds", 1, 9, 99, "nothing", _breaking)


def test_a_failure_says_the_command_that_repeats_it() -> None:
    report, _ = play(BREAKING, 10, 5)
    assert report.failures == ["twelve; repeat: scripts/torture breaking --seed 12 --count 1"]


def test_a_failure_among_ephemeral_nodes_is_repeated_among_them() -> None:
    report = Report("breaking", ephemeral=True, round_seed=7)
    report.check(False, "seven")
    assert report.failures == ["seven; repeat: scripts/torture breaking --ephemeral --seed 7 --count 1"]
    assert not play(BREAKING, 13, 5)[0].failures


def test_rounds_that_are_shared_among_processes_are_told_as_one() -> None:
    clocks = SCENARIOS["clocks"]
    alone, _ = play(clocks, 5, 2)
    shared, _ = play(clocks, 5, 2, jobs=2)
    assert shared.figures == alone.figures
    assert play(clocks, 5, 2, jobs=2, mutated=True)[0].is_caught


def test_an_exception_is_a_failure_of_its_round() -> None:
    def raising(seed: int, count: int, report: Report) -> None:
        for _ in report.rounds(seed, count):
            raise RuntimeError("broken")

    report, _ = play(Scenario("raising", "", "rounds", 1, 1, 1, "", raising), 7, 3)
    assert report.failures == ["RuntimeError: broken; repeat: scripts/torture raising --seed 7 --count 1"]


def test_results_are_told_as_json_and_by_the_exit_status(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert main(["clocks", "--count", "1", "--seed", "3", "--json", str(path)]) == 0
    (told,) = json.loads(path.read_text())["results"]
    assert (told["scenario"], told["seed"], told["count"], told["verdict"]) == ("clocks", 3, 1, "kept")
    assert main(["clocks", "--mutate", "--seed", "3"]) == 0
    assert main(["clocks", "--smoke", "--seed", "3"]) == 0
    assert main(["no-such"]) == 2


def test_the_table_keeps_the_rows_of_scenarios_that_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a\n{results.BEGIN}\n| s |\n|---|\n| x | old |\n| y | old |\n{results.END}\nb\n")
    monkeypatch.setattr(results, "PAGE", page)
    new = results.Result("y", "c", 1, 2, "rounds", 3.0, {}, [], "kept", "m", "d")
    results.update_page([new], ["x", "y"])
    assert page.read_text().splitlines()[4:6] == ["| x | old |", new.row()]


def test_what_fails_once_is_played_again_from_its_seed_and_told_as_unsteady(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[int] = []

    def once(seed: int, count: int, report: Report) -> None:
        played.append(seed)
        report.check(len(played) > 1, "the first time")

    monkeypatch.setattr(program, "all_scenarios", lambda: {"once": Scenario("once", "", "rounds", 1, 1, 1, "", once)})
    monkeypatch.setenv(VARIABLE, str(tmp_path / "unsteady"))
    assert main(["once", "--seed", "8", "--twice"]) == 0
    assert played == [8, 8]
    assert Ledger().lines() == ["torture once: the first time; again: scripts/torture once --seed 8"]
    played.clear()
    assert main(["once", "--seed", "8"]) == 1
