"""Uses of deprecated fields and old versions of schemas are counted, kept, and listed (M-37)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from speed.cli.messages import schema_command
from speed.errors import StorageError
from speed.message.options import PublishOptions
from speed.message.protect import Protection, protect_message
from speed.message.schemas.registry import MAX_ROWS, OTHERS, SchemaRegistry, SchemaUsage, Use, read_usage
from speed.message.security import Guard, MessageSecurity
from speed.message.view import MessageView
from tests.unit.message.keys import BASE

ORDER = {"id": 1, "card": "4111", "region": "eu"}
OLD_CARD = {"properties": {"card": {"deprecated": True}, "region": {"deprecated": True}}}


def registry(base: Path, **versions: Any) -> SchemaRegistry:
    (base / "schemas" / "Order").mkdir(parents=True)
    for version, schema in versions.items():
        (base / "schemas" / "Order" / f"{version}.json").write_text(json.dumps(schema))
    return SchemaRegistry(base / "schemas")


def usage(tmp_path: Path, name: str = "uses.json") -> SchemaUsage:
    return SchemaUsage(tmp_path / name, clock_ms=lambda: 1_700_000_000_000)


def fields(found: SchemaUsage) -> list[tuple[str, str, str, str]]:
    return sorted((use.publisher, use.consumer, use.version, use.field) for use in found.rows())


def test_who_writes_deprecated_fields_or_an_old_version_is_counted(tmp_path: Path) -> None:
    schemas, uses = registry(tmp_path, v1=OLD_CARD, v2={}), usage(tmp_path)
    writer = Guard(MessageSecurity(schemas=schemas, usage=uses), "billing")
    for version in ("v1", "v1", "v2"):
        writer.write(ORDER, PublishOptions(schema=("Order", version)), **{**BASE, "publisher_id": "billing"})
    assert fields(uses) == [("billing", "", "v1", ""), ("billing", "", "v1", "card"), ("billing", "", "v1", "region")]
    assert uses.rows()[Use("billing", "", "Order", "v1", "card")] == (2, 1_700_000_000_000)


def test_who_reads_them_is_counted_with_whom_they_came_from(tmp_path: Path) -> None:
    schemas, uses = registry(tmp_path, v1=OLD_CARD), usage(tmp_path)
    data = Guard(MessageSecurity(schemas=schemas)).write(ORDER, PublishOptions(schema="Order"), **BASE)
    Guard(MessageSecurity(schemas=schemas, usage=uses), "analytics").open(MessageView(data), "shop")
    assert fields(uses) == [("shop", "analytics", "v1", "card"), ("shop", "analytics", "v1", "region")]


def test_without_the_schema_at_hand_what_the_publisher_says_is_counted(tmp_path: Path) -> None:
    uses = usage(tmp_path)
    said = {"schema_name": "Order", "schema_version": "v1", "deprecated_fields_used": ["card"]}
    view = MessageView(protect_message(ORDER, Protection(), schema=said, **BASE))
    Guard(MessageSecurity(usage=uses), "analytics").open(view, "shop")
    assert fields(uses) == [("shop", "analytics", "v1", "card")]


def test_a_later_process_counts_on(tmp_path: Path) -> None:
    for _ in range(2):
        uses = usage(tmp_path)
        uses.count("billing", "", "Order", "v1", ["card"], is_old=False)
        uses.flush()
        uses.flush()
    assert uses.rows() == {Use("billing", "", "Order", "v1", "card"): (2, 1_700_000_000_000)}
    assert read_usage(str(tmp_path / "uses.json")) == uses.rows()
    assert (tmp_path / "uses.json").stat().st_mode & 0o777 == 0o600


def test_kinds_of_use_are_bounded_and_the_rest_is_counted_together(tmp_path: Path) -> None:
    uses = usage(tmp_path)
    for start in range(0, MAX_ROWS + 64, 64):
        uses.count("billing", "", "Order", "v1", [f"field{n}" for n in range(start, start + 64)], is_old=False)
    rows = uses.rows()
    assert len(rows) == MAX_ROWS + 1
    assert rows[Use(OTHERS, "", "", "", "")][0] == 64
    uses.count("x" * 999, "", "Order", "v1", [], is_old=False)
    assert len(uses.rows()) == MAX_ROWS + 1


def test_a_file_that_cannot_be_written_is_told_and_what_was_counted_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uses = SchemaUsage(tmp_path / "missing" / "uses.json")
    uses.count("billing", "", "Order", "v1", ["card"], is_old=False)
    assert "cannot be written" in caplog.text
    (tmp_path / "missing").mkdir()
    uses.flush()
    assert read_usage(str(tmp_path / "missing" / "uses.json")) == uses.rows()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"uses": [1]}', '{"uses": [{}]}', '{"uses": 7}', "[" * 100_000, '{"uses": [{"publisher": 1}]}'],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "uses.json").write_text(text)
    with pytest.raises(StorageError, match=r"uses\.json"):
        usage(tmp_path)


def test_a_row_of_something_else_than_texts_is_refused(tmp_path: Path) -> None:
    row = {**Use("a", "b", "c", "d", "e")._asdict(), "publisher": 1, "messages": 1, "last_ms": 1}
    (tmp_path / "uses.json").write_text(json.dumps({"uses": [row]}))
    with pytest.raises(StorageError):
        usage(tmp_path)


def test_a_file_of_endless_size_or_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speed.message.schemas.registry.MAX_FILE_BYTES", 4)
    (tmp_path / "uses.json").write_text('{"uses": []}')
    with pytest.raises(StorageError):
        read_usage(str(tmp_path / "uses.json"))
    with pytest.raises(StorageError, match="No such file"):
        read_usage(str(tmp_path / "none.json"))


def test_the_command_adds_up_what_several_processes_counted(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        uses = usage(tmp_path, name)
        uses.count("billing", "analytics", "Order", "v1", ["card"], is_old=True)
        uses.flush()
    (tmp_path / "notes.txt").write_text("something else")
    found = CliRunner().invoke(schema_command, ["usage", str(tmp_path), "--json"])
    rows = json.loads(found.stdout)
    assert [(row["publisher"], row["consumer"], row["field"], row["messages"]) for row in rows] == [
        ("billing", "analytics", "", 2),
        ("billing", "analytics", "card", 2),
    ]
    assert rows[0]["last"] == "2023-11-14T22:13:20+00:00"
    shown = CliRunner().invoke(schema_command, ["usage", str(tmp_path / "a.json")]).stdout
    assert "card" in shown


def test_people_are_told_when_nothing_old_was_used(tmp_path: Path) -> None:
    assert CliRunner().invoke(schema_command, ["usage", str(tmp_path)]).stdout == "nothing old was used\n"
