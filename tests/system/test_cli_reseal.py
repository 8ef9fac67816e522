"""``speed journal reseal``: what it seals anew, what it says, and that it keeps out of speedd's way (J-16)."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.journal.writer import JournalWriter
from tests.fs.journals import SUBJECT, incoming
from tests.system.commands import Command

pytestmark = pytest.mark.system


def record(run: Command, directory: str) -> Path:
    with JournalWriter(run.root / directory, run.root / "speed.key") as writer:
        writer.record(SUBJECT, incoming([0]))
    return next((run.root / directory).glob("*/*.segment"))


def test_journal_and_topics_of_the_root_are_sealed_anew(run: Command) -> None:
    record(run, "journal")
    record(run, "topics")
    assert run("key", "rotate").status == 0
    told = run("journal", "reseal", "--json")
    assert told.status == 0
    assert [(one["directory"], one["files"], one["left"], one["state"]) for one in told.value] == [
        (f"{run.root}/journal", 3, 0, "done"),
        (f"{run.root}/topics", 3, 0, "done"),
    ]
    again = run("journal", "reseal", "--json")
    assert [one["files"] for one in again.value] == [0, 0]
    assert run("key", "rotate", "--step", "retire").status == 0
    assert run("journal", "verify").status == 0
    assert run("journal", "verify", "--directory", f"{run.root}/topics").status == 0


def test_while_another_process_writes_it_says_what_is_left_and_changes_nothing(run: Command) -> None:
    segment = record(run, "journal")
    before = segment.read_bytes()
    with JournalWriter(run.root / "journal", run.root / "speed.key") as writer:
        assert run("key", "rotate").status == 0
        told = run("journal", "reseal")
        assert told.status == 1
        assert "speedd, which seals it anew by itself" in told.out
        assert segment.read_bytes() == before
        list(writer.reseal())
        assert run("journal", "reseal").status == 0


def test_what_is_damaged_is_named_and_holds_nothing_up(run: Command) -> None:
    segment = record(run, "journal")
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    assert run("key", "rotate").status == 0
    told = run("journal", "reseal")
    assert (told.status, told.err) == (0, f"{segment}: damaged at byte 0\n")
    assert run("key", "rotate", "--step", "retire").status == 0


def test_a_place_that_is_no_journal_is_refused_and_a_root_without_one_is_done(run: Command, tmp_path: Path) -> None:
    refused = run("journal", "reseal", "--directory", str(tmp_path))
    assert refused.status != 0
    assert f"there is no journal in {tmp_path}" in refused.err
    assert list(tmp_path.glob("journal.lock")) == []
    empty = run("journal", "reseal")
    assert (empty.status, empty.out) == (0, f"No journal in {run.root}.\n")
