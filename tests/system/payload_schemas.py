"""Schemas of Avro and protobuf payloads for the tests, and payloads of theirs."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2

FIELD = descriptor_pb2.FieldDescriptorProto
IMPORTS = (timestamp_pb2, duration_pb2, wrappers_pb2)


def avro(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    """A record of an Avro schema."""
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


AVRO_1 = avro({"name": "id", "type": "int"}, {"name": "city", "type": ["null", "string"], "default": None})
AVRO_2 = avro(
    {"name": "number", "type": "long", "aliases": ["id"]},
    {"name": "city", "type": ["null", "string"], "default": None},
    {"name": "currency", "type": "string", "default": "EUR"},
)
"""What came after: a field has another name and a wider type, one is new."""


def avro_bytes(schema: Any, value: Any) -> bytes:
    """A payload."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def descriptor_set(*, more: bool = False) -> bytes:
    """``shop.Order`` and ``shop.Other``, as ``protoc --include_imports -o`` writes them; ``more``: a later version."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.extend(one.DESCRIPTOR.name for one in IMPORTS)
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("PLAIN", "GIFT")):
        kind.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    item.field.add(name="name", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")

    def add(name: str, type_: int, of: str = "", *, many: bool = False) -> None:
        label = FIELD.LABEL_REPEATED if many else FIELD.LABEL_OPTIONAL
        field = order.field.add(name=name, number=len(order.field) + 1, type=type_, label=label)  # type: ignore[arg-type]
        if of:
            field.type_name = of

    add("id", FIELD.TYPE_INT64)
    add("city", FIELD.TYPE_STRING)
    add("kind", FIELD.TYPE_ENUM, ".shop.Kind")
    add("first", FIELD.TYPE_MESSAGE, ".shop.Item")
    add("items", FIELD.TYPE_MESSAGE, ".shop.Item", many=True)
    add("sizes", FIELD.TYPE_INT32, many=True)
    add("at", FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    add("took", FIELD.TYPE_MESSAGE, ".google.protobuf.Duration")
    add("note", FIELD.TYPE_MESSAGE, ".google.protobuf.StringValue")
    add("kinds", FIELD.TYPE_ENUM, ".shop.Kind", many=True)
    add("big", FIELD.TYPE_UINT64)
    add("maybe", FIELD.TYPE_INT32)
    order.field[-1].proto3_optional = True
    order.field[-1].oneof_index = 0
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    add("counts", FIELD.TYPE_MESSAGE, ".shop.Order.CountsEntry", many=True)
    if more:
        add("added", FIELD.TYPE_STRING)
    order.oneof_decl.add(name="_maybe")
    other = file.message_type.add(name="Other")
    other.field.add(name="id", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    files = descriptor_pb2.FileDescriptorSet()
    for one in IMPORTS:
        one.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(file)
    return files.SerializeToString()


def message_class(name: str = "shop.Order", *, more: bool = False) -> Any:
    """What a program has that was made from the same file."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set(more=more)).file:
        pool.Add(file)  # type: ignore[no-untyped-call]
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def registry_in(directory: Path) -> Path:
    """A registry with versions of both."""
    for name, version, data in (
        ("Order", "1.avsc", json.dumps(AVRO_1).encode()),
        ("Order", "2.avsc", json.dumps(AVRO_2).encode()),
        ("shop.Order", "1.desc", descriptor_set()),
        ("shop.Order", "2.desc", descriptor_set(more=True)),
    ):
        (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / name / version).write_bytes(data)
    return directory
