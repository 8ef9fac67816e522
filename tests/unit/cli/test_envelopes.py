"""``speed message envelope``: what a message in a file says of itself, and whether it can be read at all."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from speed.cli.messages import envelope_command
from speed.message import message_pb2
from speed.message.keys import generate_key
from speed.message.protect import Protection, protect_message
from speed.message.writing import with_security
from speed.wire.records import ContentType
from speed.wire.value import Content
from tests.unit.message.keys import BASE

pb: Any = message_pb2
ORDER = {"id": 1, "card": "4111-1111"}
OLD = '{"meta": {"schema": "v2", "ts": 1697200000}, "payload": {"card": "4111-1111"}}'


def envelope(protection: Protection | None = None, **how: Any) -> bytes:
    return protect_message(ORDER, protection or Protection(), **{**BASE, **how})


def run(command: str, data: bytes, *options: str) -> Result:
    return CliRunner().invoke(envelope_command, [command, "-", *options], input=data)


def inspected(data: bytes, *options: str) -> Any:
    return json.loads(run("inspect", data, "--json", *options).stdout)


def test_an_envelope_is_told_part_by_part() -> None:
    told = inspected(
        envelope(priority=8, labels={"region": "eu"}, extensions={"x-a": b"123"}, schema={"schema_name": "Order"})
    )
    assert told["metadata"]["topic"] == BASE["topic"]
    assert told["metadata"]["priority"] == 8
    assert told["observability"]["labels"] == {"region": "eu"}
    assert told["extensions"] == {"x-a": "3 bytes"}
    assert told["schema"] == {"schema_name": "Order"}
    assert told["payload"] == ORDER


def test_names_of_deprecated_fields_are_shown() -> None:
    assert inspected(envelope(schema={"deprecated_fields_used": ["a", "b"]}))["schema"] == {
        "deprecated_fields_used": ["a", "b"]
    }


def test_neither_token_nor_signature_nor_personal_data_is_printed() -> None:
    signed = Protection(sign_with=generate_key("billing.1", "ed25519"), contains_pii=True)
    data = with_security(envelope(signed), pb.SecurityContext(auth_token="secret.token").SerializeToString())
    for options in ((), ("--json",)):
        printed = run("inspect", data, *options).stdout
        assert "4111" not in printed
        assert "secret.token" not in printed
    assert inspected(data)["security"]["signature_bytes"] == 64


def test_an_encrypted_payload_is_named_with_who_can_read_it() -> None:
    told = inspected(envelope(Protection(encrypt_to=(generate_key("readers.1", "x-wing"),))))
    assert told["security"]["encryption"] == {"algorithm": "x-wing", "recipients": ["readers.1"]}
    assert "encrypted for readers.1" in told["payload"]


def test_schemas_mask_what_is_personal_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "Order").mkdir()
    (tmp_path / "Order" / "v1.json").write_text(json.dumps({"properties": {"card": {"x-pii": True}}}))
    from speed.message.schemas.registry import SchemaRegistry

    fields = SchemaRegistry(tmp_path).get("Order", "v1").fields
    assert inspected(envelope(schema=fields), "--schemas", str(tmp_path))["payload"] == {"id": 1, "card": "***"}


def test_an_old_form_is_named_without_its_payload() -> None:
    told = inspected(OLD.encode())
    assert (told["form"], told["payload"], told["schema"]) == ("redis", "dict", {"schema_version": "v2"})
    assert inspected(b'{"value": "abc", "headers": {"schema-id": "1"}}')["payload"] == "3 bytes"


def test_what_is_no_message_is_outlined() -> None:
    found = run("inspect", envelope()[:40], "--json")
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert "records" in told["why"]
    assert told["parts"].startswith("40 bytes: no metadata")


@pytest.mark.parametrize(
    ("data", "forms", "status"),
    [
        (envelope(), ["envelope"], 0),
        (OLD.encode(), ["redis"], 0),
        (OLD.encode() + b"\n\n" + base64.b64encode(envelope()) + b"\n", ["redis", "envelope"], 0),
        (OLD.encode() + b"\nno message\n", ["redis", "unknown"], 1),
        (b"", [], 1),
    ],
)
def test_each_message_of_a_file_is_judged(data: bytes, forms: list[str], status: int) -> None:
    found = run("check", data, "--json")
    assert [one["form"] for one in json.loads(found.stdout)] == forms
    assert found.exit_code == status


def test_people_are_told_what_an_old_message_lacks() -> None:
    assert "can be taken over; it needs a message id, a topic" in run("check", OLD.encode()).stdout
    whole = {"data": "x", "headers": {"Nats-Msg-Id": "1"}}
    assert "it needs a topic, a time" in run("check", json.dumps(whole).encode()).stdout
    assert run("check", b"").stdout == "there is no message\n"


def test_a_file_beyond_all_bounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speed.cli.messages._MAX_BYTES", 10)
    found = run("check", b"12345678901")
    assert found.exit_code == 2
    assert "split it" in found.stderr


def test_the_type_of_a_protobuf_payload_is_told() -> None:
    content = Content(ContentType.PROTOBUF, None, "type.googleapis.com/shop.Order", b"\x08\x01")
    assert inspected(protect_message(content, Protection(), **BASE))["type_url"] == "type.googleapis.com/shop.Order"
