"""Columns of Avro and protobuf payloads: which schema reads them, and what each field becomes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speed.errors import ConfigurationError
from speed.message.errors import SchemaError
from speed.message.schemas import schema_hash
from speed.message.schemas.registry import SchemaRegistry, SchemasAwayError
from speed.message.writing import encode_message
from speed.spark.declared import MisfitError, array_of
from speed.spark.source.columns import MessageBatches
from speed.spark.source.options import read_options
from speed.spark.source.scan import MessageHead, Payloads, parse_message
from speed.spark.source.schemas import Schemas, schemas_of
from tests.system.payload_schemas import AVRO_1, AVRO_2, avro, avro_bytes, descriptor_set, message_class, registry_in

pa = pytest.importorskip("pyarrow")
BASE = {"message_id": "one", "topic": "t", "namespace": "default", "published_at_ms": 1}
AVRO_FILE, AVRO_LATER = json.dumps(AVRO_1).encode(), json.dumps(AVRO_2).encode()


def head_of(payload: Any, **said: Any) -> tuple[MessageHead, bytes]:
    parsed = parse_message(encode_message(payload, **BASE, **said))
    return parsed.head, parsed.payload


def avro_head(payload: bytes, schema: dict[str, Any] | None = None) -> tuple[MessageHead, bytes]:
    return head_of(payload, content_type="application/avro", **({} if schema is None else {"schema": schema}))


def read(schemas: Schemas, head: MessageHead, payload: bytes, **columns: Any) -> Any:
    """What the columns have."""
    kind = pa.struct(list(columns.items()))
    return array_of([schemas.decoder(head, kind)(payload)], kind)[0].as_py()


@pytest.fixture
def registry(tmp_path: Path) -> str:
    return str(registry_in(tmp_path / "schemas"))


def named(registry: str, name: str, version: str) -> dict[str, Any]:
    return SchemaRegistry(registry).get(name, version).fields


# --- Avro ---


def test_an_avro_payload_is_read_by_the_schema_that_its_message_names(registry: str) -> None:
    schemas, wanted = Schemas(registry), {"id": pa.int64(), "city": pa.string(), "currency": pa.string()}
    one = avro_head(avro_bytes(AVRO_1, {"id": 7, "city": "Oslo"}), named(registry, "Order", "1"))
    two = avro_head(avro_bytes(AVRO_2, {"number": 1 << 40, "currency": "NOK"}), named(registry, "Order", "2"))
    assert read(schemas, *one, **wanted) == {"id": 7, "city": "Oslo", "currency": None}
    assert read(schemas, *two, **wanted) == {"id": None, "city": None, "currency": "NOK"}


def test_a_schema_file_says_what_is_seen_of_all_versions(registry: str) -> None:
    """By Avro's rules: aliases, wider numbers, defaults."""
    schemas = Schemas(registry, AVRO_LATER, "avro")
    wanted = {"number": pa.int64(), "currency": pa.string()}
    one = avro_head(avro_bytes(AVRO_1, {"id": 7}), named(registry, "Order", "1"))
    two = avro_head(avro_bytes(AVRO_2, {"number": 8, "currency": "NOK"}), named(registry, "Order", "2"))
    assert read(schemas, *one, **wanted) == {"number": 7, "currency": "EUR"}
    assert read(schemas, *two, **wanted) == {"number": 8, "currency": "NOK"}


def test_a_reader_that_cannot_take_what_was_written_is_told(registry: str) -> None:
    reader = json.dumps(avro({"name": "id", "type": "int"}, {"name": "must", "type": "int"})).encode()
    head, payload = avro_head(avro_bytes(AVRO_1, {"id": 7}), named(registry, "Order", "1"))
    with pytest.raises(SchemaError, match="does not take that"):
        read(Schemas(registry, reader, "avro"), head, payload, id=pa.int64())


@pytest.mark.parametrize("schema", [None, {"schema_name": "Order", "schema_hash": schema_hash(AVRO_FILE)}])
def test_a_schema_file_reads_payloads_that_name_no_other_schema(schema: dict[str, Any] | None) -> None:
    head, payload = avro_head(avro_bytes(AVRO_1, {"id": 7, "city": "Oslo"}), schema)
    assert read(Schemas(None, AVRO_FILE, "avro"), head, payload, city=pa.string()) == {"city": "Oslo"}


def test_a_payload_of_another_schema_than_the_file_is_not_misread() -> None:
    head, _ = avro_head(b"", {"schema_name": "Order", "schema_version": "9", "schema_hash": schema_hash(b"else")})
    for schemas in (Schemas(None, AVRO_FILE, "avro"), Schemas(), Schemas(None, descriptor_set(), "protobuf")):
        with pytest.raises(SchemaError, match="Order of version 9, is not known: give schemaRegistry or schemaFile"):
            schemas.decoder(head, pa.struct([]))
    with pytest.raises(SchemaError, match="which it does not name, is not known"):
        Schemas().decoder(avro_head(b"")[0], pa.struct([]))


def test_a_schema_that_is_another_one_here_or_missing_or_of_another_format_is_named(registry: str) -> None:
    said = named(registry, "Order", "1")
    schemas, kind = Schemas(registry), pa.struct([])
    for changed, what in (
        ({"schema_hash": schema_hash(b"else")}, "is another one here"),
        ({"schema_version": "3"}, "there is no schema 'Order' of version '3'"),
        ({"schema_name": "../Order"}, "cannot be a schema"),
        (named(registry, "shop.Order", "1"), "it is Avro, and the schema that it names is not"),
    ):
        with pytest.raises(SchemaError, match=what):
            schemas.decoder(avro_head(b"", {**said, **changed})[0], kind)


def test_a_registry_that_is_away_is_no_fault_of_a_payload() -> None:
    head, _ = avro_head(b"", {"schema_name": "Order", "schema_version": "1"})
    with pytest.raises(SchemasAwayError):
        Schemas("https://127.0.0.1:9/schemas").decoder(head, pa.struct([]))


@pytest.mark.parametrize("payload", [b"", b"\xff" * 30, avro_bytes(AVRO_1, {"id": 7}) + b"more"])
def test_bytes_that_are_no_avro_of_their_schema_are_named(payload: bytes) -> None:
    head, _ = avro_head(payload)
    with pytest.raises(SchemaError):
        read(Schemas(None, AVRO_FILE, "avro"), head, payload, id=pa.int64())


def test_values_of_avro_become_those_of_their_columns() -> None:
    schema = avro(
        {"name": "ids", "type": {"type": "array", "items": {"type": "string", "logicalType": "uuid"}}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "inner", "type": avro({"name": "a", "type": "int"}, {"name": "b", "type": "int"}, name="Inner")},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    )
    raw = json.loads(json.dumps(schema).replace('"logicalType"', '"raw"'))  # what stands in the bytes
    value = {
        "ids": ["0af76519-16cd-43dd-8448-eb211c80319c"],
        "counts": {"x": 1},
        "inner": {"a": 1, "b": 2},
        "day": 1,
        "at": 1500,
        "kind": "B",
        "price": (1234).to_bytes(2, "big"),
    }
    head, payload = avro_head(avro_bytes(raw, value))
    found = read(
        Schemas(None, json.dumps(schema).encode(), "avro"),
        head,
        payload,
        ids=pa.list_(pa.string()),
        counts=pa.map_(pa.string(), pa.int32()),
        inner=pa.struct([("b", pa.int32())]),
        day=pa.date32(),
        at=pa.timestamp("us", "UTC"),
        kind=pa.string(),
        price=pa.decimal128(8, 2),
    )
    assert (found["ids"], found["counts"], found["inner"]) == (value["ids"], [("x", 1)], {"b": 2})
    assert (str(found["day"]), found["at"].timestamp(), found["kind"]) == ("1970-01-02", 1.5, "B")
    assert str(found["price"]) == "12.34"


# --- protobuf ---


def proto_head(payload: Any, schema: dict[str, Any] | None = None) -> tuple[MessageHead, bytes]:
    return head_of(payload, **({} if schema is None else {"schema": schema}))


def test_a_protobuf_payload_is_read_by_the_schema_that_it_names_or_the_file(registry: str) -> None:
    order = message_class()(id=7, city="Oslo")
    for schemas, said in (
        (Schemas(registry), named(registry, "shop.Order", "1")),
        (Schemas(None, descriptor_set(), "protobuf"), None),
        (Schemas(registry, descriptor_set(more=True), "protobuf"), named(registry, "shop.Order", "1")),
    ):
        assert read(schemas, *proto_head(order, said), id=pa.int64(), city=pa.string()) == {"id": 7, "city": "Oslo"}


def test_versions_of_a_protobuf_message_read_each_other(registry: str) -> None:
    later = message_class(more=True)(id=7, added="new")
    head, payload = proto_head(later, named(registry, "shop.Order", "2"))
    wanted = {"id": pa.int64(), "added": pa.string()}
    assert read(Schemas(registry), head, payload, **wanted) == {"id": 7, "added": "new"}
    assert read(Schemas(None, descriptor_set(), "protobuf"), head, payload, **wanted) == {"id": 7, "added": None}


def test_a_message_that_neither_file_nor_registry_has_is_named(registry: str) -> None:
    other = message_class("shop.Other")(id="x")
    head, payload = proto_head(other)
    assert read(Schemas(None, descriptor_set(), "protobuf"), head, payload, id=pa.string()) == {"id": "x"}
    with pytest.raises(SchemaError, match="is not known"):
        Schemas(registry).decoder(head, pa.struct([]))
    for said in (named(registry, "shop.Order", "1"), named(registry, "Order", "1")):
        with pytest.raises(SchemaError, match="is of something else"):
            Schemas(registry).decoder(proto_head(other, said)[0], pa.struct([]))


def test_fields_of_protobuf_become_values_of_their_columns() -> None:
    order = message_class()(
        id=7, kind=1, first={"name": "a"}, items=[{"name": "b"}], sizes=[1, 2], counts={"x": 3}, kinds=[0, 1, 9]
    )
    order.at.FromMilliseconds(1500)
    order.took.FromSeconds(2)
    order.note.value = "n"
    found = read(
        Schemas(None, descriptor_set(), "protobuf"),
        *proto_head(order),
        kind=pa.string(),
        first=pa.struct([("name", pa.string())]),
        items=pa.list_(pa.struct([("name", pa.string())])),
        sizes=pa.list_(pa.int32()),
        counts=pa.map_(pa.string(), pa.int32()),
        kinds=pa.list_(pa.string()),
        at=pa.timestamp("us", "UTC"),
        took=pa.duration("us"),
        note=pa.string(),
    )
    assert (found["kind"], found["kinds"], found["first"]) == ("GIFT", ["PLAIN", "GIFT", "9"], {"name": "a"})
    assert (found["items"], found["sizes"], found["counts"]) == ([{"name": "b"}], [1, 2], [("x", 3)])
    assert (found["at"].timestamp(), found["took"].total_seconds(), found["note"]) == (1.5, 2.0, "n")
    as_struct = read(
        Schemas(None, descriptor_set(), "protobuf"),
        *proto_head(order),
        kind=pa.int32(),
        at=pa.struct([("seconds", pa.int64())]),
    )
    assert as_struct == {"kind": 1, "at": {"seconds": 1}}


def test_what_is_not_set_is_its_default_or_null_as_its_schema_tells_them_apart() -> None:
    found = read(
        Schemas(None, descriptor_set(), "protobuf"),
        *proto_head(message_class()()),
        id=pa.int64(),
        city=pa.string(),
        maybe=pa.int32(),
        first=pa.struct([("name", pa.string())]),
        sizes=pa.list_(pa.int32()),
        none=pa.string(),
    )
    assert found == {"id": 0, "city": "", "maybe": None, "first": None, "sizes": [], "none": None}


@pytest.mark.parametrize(
    "columns",
    [{"city": pa.int64()}, {"big": pa.int64()}, {"first": pa.string()}, {"sizes": pa.int32()}, {"counts": pa.int32()}],
)
def test_a_column_of_another_type_does_not_fit(columns: dict[str, Any]) -> None:
    order = message_class()(city="Oslo", big=(1 << 64) - 1, first={"name": "a"}, sizes=[1], counts={"x": 3})
    with pytest.raises(MisfitError):
        read(Schemas(None, descriptor_set(), "protobuf"), *proto_head(order), **columns)


def test_bytes_that_are_no_such_message_are_named() -> None:
    head, _ = proto_head(message_class()())
    with pytest.raises(SchemaError, match=r"no shop\.Order"):
        read(Schemas(None, descriptor_set(), "protobuf"), head, b"\xff\xff", id=pa.int64())


# --- options ---


def options(tmp_path: Path, name: str, data: bytes, **more: str) -> Schemas:
    (tmp_path / name).write_bytes(data)
    return schemas_of(read_options({"root": "/r", "schemaFile": str(tmp_path / name), **more}))


def test_a_schema_file_travels_with_the_query(tmp_path: Path) -> None:
    found = options(tmp_path, "order.avsc", AVRO_FILE, schemaRegistry="/schemas")
    assert pickle.loads(pickle.dumps(found)) == found == Schemas("/schemas", AVRO_FILE, "avro")
    assert found.content_type == "application/avro"
    assert options(tmp_path, "order.desc", descriptor_set()).content_type == "application/protobuf"
    assert options(tmp_path, "order.desc", descriptor_set(), schemaMessage="shop.Order").message == "shop.Order"
    assert schemas_of(read_options({"root": "/r"})) == Schemas()


@pytest.mark.parametrize(
    ("name", "data", "more"),
    [
        ("order.json", b"{}", {}),
        ("order.txt", b"", {}),
        ("order.avsc", b"{", {}),
        ("order.desc", b"\xff", {}),
        ("order.desc", b"", {}),
        ("order.desc", descriptor_set(), {"schemaMessage": "shop.Missing"}),
    ],
)
def test_a_schema_file_that_is_none_is_named_before_the_query_runs(
    tmp_path: Path, name: str, data: bytes, more: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError, match=r"schemaFile is '.*order"):
        options(tmp_path, name, data, **more)


def test_a_schema_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such file"):
        schemas_of(read_options({"root": "/r", "schemaFile": str(tmp_path / "none.avsc")}))


# --- whole payloads ---


def test_a_value_in_msgpack_is_no_text_where_its_bytes_look_like_one() -> None:
    """V-5: 65 is the byte of an A."""
    lane: Any = None
    batches = MessageBatches(pa.schema([("payload", pa.string())]), lane, "raise")
    number, text = head_of(65), head_of("A")
    assert number[1] == text[1] == b"A"
    for (head, payload), fits in ((text, True), (number, False)):
        payloads = Payloads([head], np.zeros(1, np.int32), pa.array([payload]), np.arange(1))
        assert batches._decoded(pa.binary(), payloads).to_pylist() == [b"A"]
        if fits:
            assert batches._decoded(pa.string(), payloads).to_pylist() == ["A"]
        else:
            with pytest.raises(MisfitError, match="is an integer, which string does not hold"):
                batches._decoded(pa.string(), payloads)
