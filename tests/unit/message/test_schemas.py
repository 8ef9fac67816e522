"""Schemas: what fits, what is marked, what may follow what (M-29)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from speed.cli.messages import schema_command
from speed.errors import ConfigurationError
from speed.message.errors import SchemaError
from speed.message.schemas import (
    DEPRECATED,
    PII,
    Schema,
    incompatibilities,
    is_marked,
    marked_names,
    parse_schema,
    schema_hash,
)
from speed.message.schemas.avro import AvroSchema
from speed.message.schemas.registry import SchemaRegistry
from speed.message.view import MessageView
from speed.message.writing import encode_message
from tests.unit.message.keys import BASE

HERE = Path(__file__).parent / "schemas"
ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "amount": {"type": "integer", "minimum": 0},
        "card": {"type": "string", "x-pii": True},
        "region": {"type": "string", "deprecated": True},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    },
    "required": ["id"],
    "$defs": {"item": {"type": "object", "properties": {"name": {"type": "string", "x-pii": True}}}},
}
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": "int"},
        {"name": "card", "type": ["null", "string"], "default": None, "pii": True},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "deprecated": True},
    ],
}


def json_schema(**changes: Any) -> Schema:
    return parse_schema("json-schema", json.dumps({**ORDER, **changes}).encode())


def avro(change: Callable[[dict[str, Any]], None] = lambda _: None) -> AvroSchema:
    root = json.loads(json.dumps(AVRO))
    change(root)
    found = parse_schema("avro", json.dumps(root).encode())
    assert isinstance(found, AvroSchema)
    return found


def protobuf(stem: str) -> Schema:
    return parse_schema("protobuf", (HERE / f"{stem}.desc").read_bytes(), "shop.OrderCreated")


def test_a_json_schema_knows_its_marked_fields_through_references() -> None:
    places = json_schema().places
    value = {"card": "4", "region": "eu", "items": [{}, {"name": "x"}]}
    assert marked_names(value, places, PII) == ["card", "items.name"]
    assert marked_names(value, places, DEPRECATED) == ["region"]
    assert marked_names({"region": None, "items": []}, places, DEPRECATED) == []


def test_a_marked_place_of_a_map_is_named_without_the_names_that_are_data() -> None:
    schema = json_schema(additionalProperties={"properties": {"old": {"deprecated": True}}})
    assert marked_names({"id": "1", "anna": {"old": 1}}, schema.places, DEPRECATED) == ["*.old"]


def test_a_payload_that_does_not_fit_is_named_by_place_and_never_shown() -> None:
    schema = json_schema()
    schema.check("application/json", b"", {"id": "1", "amount": 5})
    with pytest.raises(SchemaError, match="amount") as refused:
        schema.check("application/json", b"", {"id": "1", "amount": -4242})
    assert "4242" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"required": ["id", "amount"]}, "amount is required"),
        ({"properties": {**ORDER["properties"], "id": {"type": "integer"}}}, "may be string"),
        ({"properties": {**ORDER["properties"], "amount": {"type": "integer", "minimum": 5}}}, "narrower"),
        ({"properties": {"id": {"type": "string"}}, "additionalProperties": False}, "amount is not read"),
        ({"properties": {**ORDER["properties"], "id": {"enum": ["a"]}}}, "enum"),
        ({"properties": {**ORDER["properties"], "id": {"type": "string", "pattern": "a"}}}, "pattern"),
    ],
    ids=range(6),
)
def test_a_json_schema_that_cannot_read_what_was_written_is_not_backward_compatible(
    change: dict[str, Any], problem: str
) -> None:
    found = incompatibilities(json_schema(), json_schema(**change), "backward")
    assert any(problem in one for one in found), found


def test_a_new_optional_field_is_fully_compatible() -> None:
    more = json_schema(properties={**ORDER["properties"], "note": {"type": "string"}})
    assert incompatibilities(json_schema(), more, "full") == []
    wider = json_schema(properties={**ORDER["properties"], "amount": {"type": "number"}})
    assert incompatibilities(json_schema(), wider, "backward") == []
    assert incompatibilities(json_schema(), wider, "forward") != []
    assert incompatibilities(json_schema(), wider, "none") == []


@pytest.mark.parametrize(
    "reference", ["https://example.com/x.json", "other.json", "#/$defs/none", "#/$defs/loop", "file:///etc/passwd"]
)
def test_references_out_of_the_schema_are_never_followed(reference: str) -> None:
    loop = {**ORDER["$defs"], "loop": {"$ref": "#/$defs/loop"}}
    with pytest.raises(SchemaError):
        json_schema(properties={"x": {"$ref": reference}}, **{"$defs": loop})


def test_avro_payloads_are_decoded_and_marked() -> None:
    schema = avro()
    value = {"id": "1", "amount": 5, "card": "4111", "kind": "A"}
    data = schema.encode(value)
    assert schema.check("application/avro", data, None) == value
    assert marked_names(value, schema.places, PII) == ["card"]
    assert marked_names(value, schema.places, DEPRECATED) == ["kind"]
    for broken in (data[:-1], data + b"x", b"", b"\xff" * 20):
        with pytest.raises(SchemaError):
            schema.check("application/avro", broken, None)
    with pytest.raises(SchemaError):
        schema.check("application/msgpack", b"", {"id": 7})


TREE = {"type": "record", "name": "Tree", "fields": [{"name": "below", "type": ["null", "Tree"]}]}


def test_an_avro_value_that_nests_without_end_is_refused_and_ends_no_process() -> None:
    """Ten kilobytes say so much; a tree of a few levels is read."""
    schema = parse_schema("avro", json.dumps(TREE).encode())
    assert isinstance(schema, AvroSchema)
    assert schema.decode(b"\x02\x02\x00") == {"below": {"below": {"below": None}}}
    with pytest.raises(SchemaError, match="not Avro of its schema"):
        schema.decode(b"\x02" * 1_000_000 + b"\x00")


def test_a_schema_of_many_types_that_share_others_is_looked_through_once() -> None:
    """Each has two fields of the one before: nobody walks all ways through it."""
    root: dict[str, Any] = {"type": "record", "name": "T0", "fields": [{"name": "a", "type": "int"}]}
    for number in range(1, 28):
        both = [{"name": "a", "type": root}, {"name": "b", "type": f"T{number - 1}"}]
        root = {"type": "record", "name": f"T{number}", "fields": both}
    assert isinstance(parse_schema("avro", json.dumps(root).encode()), AvroSchema)


def test_an_avro_list_of_nothings_has_no_bound_and_is_refused() -> None:
    with pytest.raises(SchemaError, match="no bound"):
        parse_schema("avro", b'{"type": "array", "items": "null"}')


@pytest.mark.parametrize(
    ("change", "backward", "forward"),
    [
        (lambda root: root["fields"].append({"name": "n", "type": "int", "default": 0}), True, True),
        (lambda root: root["fields"].append({"name": "n", "type": "int"}), False, True),
        (lambda root: root["fields"].pop(0), True, False),
        (lambda root: root["fields"][1].update(type="long"), True, False),
        (lambda root: root["fields"][1].update(type="string"), False, False),
        (lambda root: root["fields"][3]["type"]["symbols"].append("C"), True, False),
        (lambda root: root["fields"][2].update(type="null"), False, True),
        (lambda root: root["fields"][0].update(name="key", aliases=["id"]), True, False),
    ],
    ids=range(8),
)
def test_avro_schemas_follow_the_rules_of_resolution(change: Any, backward: bool, forward: bool) -> None:
    assert (incompatibilities(avro(), avro(change), "backward") == []) is backward
    assert (incompatibilities(avro(), avro(change), "forward") == []) is forward


def test_a_protobuf_schema_knows_marked_fields_and_reads_messages() -> None:
    schema = protobuf("order")
    value = {"card": "4", "old_region": "eu", "address": {"street": "x", "city": "y"}}
    assert marked_names(value, schema.places, PII) == ["address.street", "card"]
    assert marked_names(value, schema.places, DEPRECATED) == ["old_region"]
    files = descriptor_pb2.FileDescriptorSet.FromString((HERE / "order.desc").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.OrderCreated"))(id="1", card="4")
    made.items.add(name="x")
    found = schema.check("application/protobuf", made.SerializeToString(), None)
    assert found == {"id": "1", "card": "4", "items": [{"name": "x"}]}
    with pytest.raises(SchemaError):
        schema.check("application/protobuf", b"\x0a\x05x", None)


def test_a_protobuf_field_that_changes_its_type_is_not_compatible() -> None:
    found = incompatibilities(protobuf("order"), protobuf("order2"), "full")
    assert len(found) == 2
    assert "amount" in found[0]
    assert incompatibilities(protobuf("order"), protobuf("order"), "full") == []


@pytest.mark.parametrize("format_", ["json-schema", "avro", "protobuf", "xml"])
@pytest.mark.parametrize("data", [b"", b"7", b"{", b"[" * 50_000, b"\xff" * 64, b'{"type": 7}', b"x" * ((1 << 20) + 1)])
def test_what_is_no_schema_is_refused(format_: str, data: bytes) -> None:
    with pytest.raises(SchemaError):
        parse_schema(format_, data)


# --- registry ---


def registry(tmp_path: Path) -> SchemaRegistry:
    folder = tmp_path / "OrderCreated"
    folder.mkdir()
    for version in ("v2", "v10"):
        (folder / f"{version}.json").write_text(json.dumps(ORDER))
    return SchemaRegistry(tmp_path)


def test_a_directory_gives_schemas_with_all_that_a_message_says_of_them(tmp_path: Path) -> None:
    schemas = registry(tmp_path)
    found = schemas.get("OrderCreated", schemas.latest("OrderCreated"))
    assert found.fields["schema_version"] == "v10"
    assert found.fields["schema_hash"] == schema_hash(json.dumps(ORDER).encode())
    assert found.describe({"id": "1", "region": "eu"})["deprecated_fields_used"] == ["region"]
    assert found.contains_pii


def test_a_received_message_is_held_to_the_hash_of_the_schema_here(tmp_path: Path) -> None:
    schemas = registry(tmp_path)
    fields = schemas.get("OrderCreated", "v2").fields
    good = MessageView(encode_message({"id": "1"}, schema=fields, **BASE)).validate()
    assert schemas.check(good) is not None
    other = {**fields, "schema_hash": "sha256:" + "00" * 32}
    with pytest.raises(SchemaError, match="schema_hash"):
        schemas.check(MessageView(encode_message({"id": "1"}, schema=other, **BASE)))
    unknown = {**fields, "schema_name": "Elsewhere", "schema_url": "https://127.0.0.1:1/x"}
    assert schemas.check(MessageView(encode_message({"id": "1"}, schema=unknown, **BASE))) is None


@pytest.mark.parametrize("name", ["../OrderCreated", "a/b", "", ".", "..", "x" * 129, "a\0b"])
def test_names_that_traverse_paths_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SchemaError):
        registry(tmp_path).get(name, "v2")


def test_a_registry_over_plain_http_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        SchemaRegistry("http://example.com/schemas")


def test_the_command_says_whether_a_schema_may_follow(tmp_path: Path) -> None:
    old, new = tmp_path / "old.avsc", tmp_path / "new.avsc"
    old.write_text(json.dumps(AVRO))
    changed = json.loads(json.dumps(AVRO))
    changed["fields"].append({"name": "n", "type": "int"})
    new.write_text(json.dumps(changed))
    backward = CliRunner().invoke(schema_command, ["check", str(old), str(new)])
    assert (backward.exit_code, "no default" in backward.output) == (1, True)
    forward = CliRunner().invoke(schema_command, ["check", str(old), str(new), "--mode", "forward", "--json"])
    assert (forward.exit_code, json.loads(forward.output)["compatible"]) == (0, True)


def test_a_pattern_that_is_none_is_no_schema() -> None:
    with pytest.raises(SchemaError):
        json_schema(patternProperties={"(": {}})


def test_a_mark_that_only_a_part_beside_others_has_is_found() -> None:
    """So that the sender says `contains_pii`."""
    assert is_marked(json_schema(properties={}, prefixItems=[{"x-pii": True}]).places, PII)
    assert not is_marked(json_schema(properties={}).places, PII)


def test_two_avro_types_of_one_short_name_keep_their_marks_apart() -> None:
    card = {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string"}]}
    marked = {**card, "namespace": "own", "fields": [{"name": "number", "type": "string", "pii": True}]}
    fields = [{"name": "a", "type": marked}, {"name": "b", "type": {**card, "namespace": "shop"}}]
    schema = parse_schema("avro", json.dumps({**AVRO, "fields": [*fields, {"name": "c", "type": "own.Card"}]}).encode())
    one = {"number": "4"}
    assert marked_names({"a": one, "b": one, "c": one}, schema.places, PII) == ["a.number", "c.number"]
