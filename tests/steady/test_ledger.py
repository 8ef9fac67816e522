"""What a whole run knows of its unsteady tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.steady.ledger import MOST, VARIABLE, Ledger, main


def test_steps_share_one_file_and_each_sees_what_the_others_added(tmp_path: Path) -> None:
    one, other = Ledger(str(tmp_path / "unsteady")), Ledger(str(tmp_path / "unsteady"))
    assert one.block() == []
    one.add("test_a", "scripts/test test_a")
    other.add("Lane.rolls", "scripts/cpp -R Lane.rolls")
    assert one.room() == other.room() == MOST - 2
    assert one.block() == [
        "== unsteady: 2 failed and passed alone",
        "test_a; again: scripts/test test_a",
        "Lane.rolls; again: scripts/cpp -R Lane.rolls",
    ]


def test_a_step_without_a_file_counts_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    ledger = Ledger()
    ledger.add("test_a", "again")
    assert ledger.room() == MOST - 1
    assert Ledger().room() == MOST


def test_more_than_a_run_may_have_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "unsteady"))
    for number in range(MOST):
        Ledger().add(f"test_{number}", "again")
    assert main() == 0
    Ledger().add("one more", "again")
    assert main() == 1
    assert f"unsteady: {MOST + 1} failed and passed alone: more than {MOST} in a run" in capsys.readouterr().out
