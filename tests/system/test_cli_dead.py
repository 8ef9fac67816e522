"""`speed dead`: what a node could not handle, as an operator sees it (S-18)."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.fs.dead_letters import DeadLetter, DeadLetters
from speed.fs.keyfile import load_key_file
from speed.message.writing import encode_message
from tests.system.commands import Command


@pytest.fixture
def command(tmp_path: Path) -> Command:
    run = Command(tmp_path / "root")
    assert run("root", "init").status == 0
    return run


@pytest.fixture
def letters(command: Command) -> DeadLetters:
    """Two dead letters of billing."""
    root = command.root
    (root / "billing").mkdir(mode=0o700)
    letters = DeadLetters(str(root), "billing", load_key_file(str(root / "speed.key")))
    for amount in (1000, 2000):
        payload = encode_message(
            {"amount": amount}, topic="orders", namespace="default", message_id=f"m{amount}", published_at_ms=1
        )
        letter = DeadLetter(
            "MESSAGE", "analytics", 7, 1000, 5, "EXECUTION_FAILED", "ValueError: boom", 2000, len(payload)
        )
        letters.add(letter, [payload], len(payload))
    return letters


def test_a_root_without_dead_letters_says_so(command: Command) -> None:
    assert command("dead", "list").out == "No dead letters.\n"
    assert command("dead", "list", "billing", "--json").value == []


def test_letters_are_listed_with_why_they_died(command: Command, letters: DeadLetters) -> None:
    said = command("dead", "list").out
    assert "billing" in said and "analytics" in said and "EXECUTION_FAILED: ValueError: boom" in said
    first, second = command("dead", "list", "--json").value
    assert (first["number"], first["deliveries"], first["state"]) == (1, 5, "letter")
    assert second["number"] == 2


def test_a_letter_is_shown_with_its_payload(command: Command, letters: DeadLetters, tmp_path: Path) -> None:
    shown = command("dead", "show", "billing", "2", "--json").value
    assert (shown["topic"], shown["payload"]) == ("orders", {"amount": 2000})
    output = tmp_path / "message"
    assert command("dead", "show", "billing", "2", "--output", str(output)).status == 0
    assert output.stat().st_size == shown["payloadBytes"]


def test_a_letter_that_is_not_there_is_said_to_be_missing(command: Command, letters: DeadLetters) -> None:
    for verb in ("show", "retry", "drop"):
        refused = command("dead", verb, "billing", "9")
        assert refused.status == 2
        assert "no dead letter 9" in refused.err


def test_a_letter_is_asked_for_again(command: Command, letters: DeadLetters) -> None:
    assert command("dead", "retry", "billing", "1").out == "1 dead letter will be handled again when billing starts.\n"
    assert [(one.number, one.state) for one in letters.kept()] == [(1, "retry"), (2, "letter")]
    assert command("dead", "retry", "billing", "--all", "--json").value["retried"] == [2]


def test_letters_are_dropped_by_number_or_all(command: Command, letters: DeadLetters) -> None:
    assert command("dead", "drop", "billing").status == 2
    assert command("dead", "drop", "billing", "1").out == "1 dead letter removed.\n"
    assert command("dead", "drop", "billing", "--all").out == "1 dead letter removed.\n"
    assert letters.kept() == []


def test_a_damaged_letter_is_listed_as_damaged(command: Command, letters: DeadLetters) -> None:
    file = command.root / "billing" / "dead" / "00000001.letter"
    file.write_bytes(file.read_bytes()[:-1])
    first, second = command("dead", "list", "--json").value
    assert "damaged" in first and "damaged" not in second
    refused = command("dead", "show", "billing", "1")
    assert refused.status == 1 and "BAD_PAYLOAD" in refused.err
