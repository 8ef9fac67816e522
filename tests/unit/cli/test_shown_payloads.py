"""What commands show of payloads: personal data is masked in every format, what cannot be read is named (M-28)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.any_pb2 import Any as AnyMessage

from speed.cli.options import as_json, registry_of, shown_payload
from speed.message.protect import Protection, protect_message
from speed.message.schemas.registry import RegisteredSchema, SchemaRegistry
from speed.message.view import MessageView
from speed.wire.records import ContentType
from speed.wire.value import TYPE_URL_PREFIX, Content
from tests.unit.message.keys import BASE

SECRET = "4111-1111"
PERSONAL_CARD = {"properties": {"card": {"x-pii": True}}}
MARKED = Path(__file__).parents[1] / "message" / "schemas" / "marked.desc"
CARD: dict[str, Any] = {
    "type": "record",
    "name": "Card",
    "fields": [{"name": "number", "type": "string", "pii": True}, {"name": "kind", "type": "string"}],
}
AVRO_ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "name", "type": ["null", "string"], "x-pii": True},
        {"name": "cards", "type": {"type": "map", "values": CARD}},
        {"name": "notes", "type": {"type": "map", "values": {"type": "string", "pii": True}}},
        {"name": "before", "type": ["null", "Order"], "default": None},
    ],
}


def registry(tmp_path: Path, file: str, data: bytes) -> RegisteredSchema:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return SchemaRegistry(tmp_path).get(path.parent.name, path.stem)


def view_of(content: Any, schema: RegisteredSchema | None, contains_pii: bool = True) -> MessageView:
    fields = None if schema is None else schema.fields
    return MessageView(protect_message(content, Protection(contains_pii=contains_pii), schema=fields, **BASE))


def shown(tmp_path: Path, content: Any, schema: RegisteredSchema | None, contains_pii: bool = True) -> Any:
    """As it is printed."""
    return json.loads(as_json(shown_payload(view_of(content, schema, contains_pii), registry_of(str(tmp_path)))))


def shown_json(tmp_path: Path, schema: dict[str, Any], value: Any) -> Any:
    return shown(tmp_path, value, registry(tmp_path, "Order/v1.json", json.dumps(schema).encode()))


@pytest.fixture(name="order")
def _order(tmp_path: Path) -> tuple[RegisteredSchema, Callable[..., Any]]:
    """A registered protobuf schema, and its message."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(MARKED.read_bytes()).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return registry(tmp_path, "shop.Order/v1.desc", MARKED.read_bytes()), kind


def protobuf(data: bytes, name: str = "shop.Order") -> Content:
    return Content(ContentType.PROTOBUF, None, TYPE_URL_PREFIX + name, data)


# --- Avro and protobuf ---


def test_personal_fields_of_an_avro_payload_are_masked_and_others_shown(tmp_path: Path) -> None:
    from speed.message.schemas.avro import AvroSchema

    schema = registry(tmp_path, "Order/v1.avsc", json.dumps(AVRO_ORDER).encode())
    card = {"number": SECRET, "kind": "visa"}
    inner: dict[str, Any] = {"id": "0", "name": SECRET, "cards": {}, "notes": {}, "before": None}
    value = {"id": "1", "name": SECRET, "cards": {"main": card}, "notes": {"a": SECRET}, "before": inner}
    assert isinstance(schema.schema, AvroSchema)
    assert schema.contains_pii
    assert shown(tmp_path, Content(ContentType.AVRO, None, None, schema.schema.encode(value)), schema) == {
        "id": "1",
        "name": "***",
        "cards": {"main": {"number": "***", "kind": "visa"}},
        "notes": {"a": "***"},
        "before": {**inner, "name": "***"},
    }


def test_personal_fields_of_a_protobuf_payload_are_masked_and_others_shown(tmp_path: Path, order: Any) -> None:
    schema, kind = order
    made = kind(id="1", name=SECRET, notes={7: SECRET}, amounts={"eur": 5}, before=kind(id="0", name=SECRET))
    made.cards["main"].number, made.cards["main"].kind = SECRET, "visa"
    made.old.add(number=SECRET)
    assert schema.contains_pii
    assert shown(tmp_path, protobuf(made.SerializeToString()), schema) == {
        "id": "1",
        "name": "***",
        "cards": {"main": {"number": "***", "kind": "visa"}},
        "notes": "***",
        "amounts": {"eur": 5},
        "old": [{"number": "***"}],
        "before": {"id": "0", "name": "***"},
    }


@pytest.mark.parametrize("data", [b"", b"\x0a\xffgarbage", b"\xff" * 40], ids=["nothing", "cut", "garbage"])
@pytest.mark.parametrize("contains_pii", [True, False])
def test_a_protobuf_payload_of_an_unknown_type_is_named_and_not_printed(
    tmp_path: Path, data: bytes, contains_pii: bool
) -> None:
    said = shown(tmp_path, protobuf(data, "shop.Unknown"), None, contains_pii)
    assert said == "***" if contains_pii else "shop.Unknown" in said
    assert "garbage" not in said


def test_bytes_that_are_not_of_their_schema_are_named_and_not_printed(tmp_path: Path, order: Any) -> None:
    schema, _ = order
    said = shown(tmp_path, protobuf(b"\x0a\xff" + SECRET.encode()), schema)
    assert "BAD_SCHEMA" in said
    assert SECRET not in said


def test_a_protobuf_payload_is_named_whether_this_process_knows_its_type_or_not(tmp_path: Path) -> None:
    for content in (protobuf(b"\x0a\xffgarbage", "google.protobuf.Any"), AnyMessage(type_url="x/y", value=b"1")):
        assert "google.protobuf.Any: its schema is not here" in shown(tmp_path, content, None, False)


def test_json_and_text_that_are_none_are_named(tmp_path: Path) -> None:
    for content in (
        Content(ContentType.JSON, None, None, b'{"a": '),
        Content(ContentType.CUSTOM, "text/plain", None, b"\xff"),
    ):
        assert "BAD_MESSAGE" in shown(tmp_path, content, None, False)


def test_a_payload_of_a_schema_with_another_hash_is_named(tmp_path: Path) -> None:
    schema = registry(tmp_path, "Order/v1.json", b"{}")
    view = view_of({"a": SECRET}, schema._replace(fields={**schema.fields, "schema_hash": "sha256:" + "0" * 64}))
    assert "BAD_SCHEMA" in shown_payload(view, registry_of(str(tmp_path)))


def test_a_payload_that_its_json_schema_cannot_describe_is_named(tmp_path: Path) -> None:
    schema = registry(tmp_path, "Order/v1.json", b'{"properties": {"card": {"x-pii": true}}}')
    said = shown(tmp_path, SECRET.encode(), schema)
    assert "octet-stream" in said


def test_the_schema_says_what_is_personal_and_not_the_sender(tmp_path: Path) -> None:
    schema = registry(tmp_path, "Order/v1.json", b'{"properties": {"card": {"x-pii": true}}}')
    assert shown(tmp_path, {"id": 1, "card": SECRET}, schema, contains_pii=False) == {"id": 1, "card": "***"}


# --- JSON Schema ---


def test_members_that_no_property_names_are_masked_by_additional_properties(tmp_path: Path) -> None:
    schema = {"properties": {"id": {}}, "additionalProperties": {"x-pii": True}}
    assert shown_json(tmp_path, schema, {"id": 1, "phone": SECRET}) == {"id": 1, "phone": "***"}


def test_fields_below_additional_properties_are_masked(tmp_path: Path) -> None:
    schema = {"additionalProperties": PERSONAL_CARD}
    value = {"anna": {"card": SECRET, "age": 7}}
    assert shown_json(tmp_path, schema, value) == {"anna": {"card": "***", "age": 7}}


def test_members_whose_names_match_a_pattern_are_masked(tmp_path: Path) -> None:
    schema = {"patternProperties": {"^card_": {"x-pii": True}}, "additionalProperties": {"type": "integer"}}
    assert shown_json(tmp_path, schema, {"card_1": SECRET, "amount": 5}) == {"card_1": "***", "amount": 5}


def test_items_at_their_places_are_masked(tmp_path: Path) -> None:
    schema = {"properties": {"row": {"prefixItems": [{}, {"x-pii": True}], "items": {"type": "integer"}}}}
    assert shown_json(tmp_path, schema, {"row": ["a", SECRET, 5]}) == {"row": ["a", "***", 5]}


def test_items_behind_the_first_are_masked(tmp_path: Path) -> None:
    schema = {"prefixItems": [{"type": "string"}], "items": {"x-pii": True}}
    assert shown_json(tmp_path, schema, ["a", SECRET, SECRET]) == ["a", "***", "***"]


@pytest.mark.parametrize(
    "schema",
    [
        {"if": {"required": ["id"]}, "then": PERSONAL_CARD},
        {"if": {"required": ["x"]}, "else": PERSONAL_CARD},
        {"dependentSchemas": {"id": PERSONAL_CARD}},
        {"anyOf": [{"allOf": [{"oneOf": [PERSONAL_CARD]}]}]},
        {"properties": {"id": {}}, "unevaluatedProperties": {"x-pii": True}},
        {"$ref": "#/$defs/a", "$defs": {"a": PERSONAL_CARD}},
        {"$ref": "#a", "$defs": {"b": {"$anchor": "a", "properties": {"card": {"x-pii": True}}}}},
        {"$dynamicRef": "#a", "$defs": {"b": {"$dynamicAnchor": "a", "properties": {"card": {"x-pii": True}}}}},
        {"$ref": "#/allOf/0/$defs/a~1b%20c", "allOf": [{"$defs": {"a/b c": PERSONAL_CARD}}]},
    ],
    ids=["then", "else", "dependent", "branches", "unevaluated", "pointer", "anchor", "dynamic", "escaped"],
)
def test_a_mark_is_found_wherever_a_json_schema_may_say_it(tmp_path: Path, schema: dict[str, Any]) -> None:
    assert shown_json(tmp_path, schema, {"id": 1, "card": SECRET}) == {"id": 1, "card": "***"}


def test_a_field_beside_a_reference_is_masked(tmp_path: Path) -> None:
    schema = {"$ref": "#/$defs/a", "properties": {"card": {"x-pii": True}}, "$defs": {"a": {"type": "object"}}}
    assert shown_json(tmp_path, schema, {"card": SECRET}) == {"card": "***"}


def test_a_payload_that_is_personal_as_a_whole_is_masked(tmp_path: Path) -> None:
    assert shown_json(tmp_path, {"x-pii": True}, {"card": SECRET}) == "***"
    assert shown_json(tmp_path / "n", {"propertyNames": {"x-pii": True}}, {SECRET: 1}) == "***"


def test_a_schema_that_contains_itself_is_masked_at_any_depth(tmp_path: Path) -> None:
    person = {"properties": {"name": {"x-pii": True}, "friend": {"$ref": "#"}}}
    value: dict[str, Any] = {"name": SECRET}
    for _ in range(20):
        value = {"name": SECRET, "friend": value}
    assert SECRET not in as_json(shown_json(tmp_path, person, value))


# --- the command ---


def test_listen_goes_on_behind_what_it_cannot_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from speed.cli import calls

    first = view_of(protobuf(b"\x0a\xffgarbage", "shop.Unknown"), None, False)
    messages = iter([first, view_of("second", None, False)])

    class Arrived:
        source, redelivered, timestamp_ms = "billing", False, 0

        def __init__(self, view: MessageView) -> None:
            self.metadata, self.topic, self.message_id = view, view.topic, view.message_id

    def print_all() -> None:
        calls._print_all(lambda: Arrived(next(messages)), _Json(), 2, None)  # type: ignore[arg-type,return-value]

    class _Json:
        as_json = True

    import click

    result = CliRunner().invoke(click.command()(print_all), [])
    assert result.exception is None
    payloads = [json.loads(line)["payload"] for line in result.output.splitlines()]
    assert "shop.Unknown" in payloads[0]
    assert payloads[1] == "second"
