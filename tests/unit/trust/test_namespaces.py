"""What a namespace says of the schemas of its messages (M-37)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from speed.errors import ConfigurationError
from speed.message.errors import SchemaError
from speed.message.options import PublishOptions
from speed.message.protect import Protection, protect_message
from speed.message.schemas.registry import NamespaceSchemas, SchemaRegistry
from speed.message.security import Guard, MessageSecurity
from speed.message.view import MessageView
from speed.wire.records import ContentType
from speed.wire.value import Content
from tests.unit.message.keys import BASE

NAMESPACE, TOPIC = BASE["namespace"], BASE["topic"]
ORDER = {"id": 1}
AMOUNT = {"required": ["amount"]}


def registry(base: Path, **versions: Any) -> SchemaRegistry:
    """The schemas of the topic."""
    (base / TOPIC).mkdir()
    for version, schema in versions.items():
        (base / TOPIC / f"{version}.json").write_text(json.dumps(schema))
    return SchemaRegistry(base)


class Lines:
    """The warnings of a guard."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.texts: list[str] = []

    def __call__(self, kind: str, text: str, *arguments: object) -> None:
        self.kinds.append(kind)
        self.texts.append(text % arguments)


def guard(schemas: NamespaceSchemas, lines: Lines | None = None, **settings: Any) -> Guard:
    security = MessageSecurity(namespaces={NAMESPACE: schemas}, **settings)
    return Guard(security, "analytics", lines or Lines())


def written(schemas: NamespaceSchemas, **options: Any) -> MessageView:
    return MessageView(guard(schemas).write(ORDER, PublishOptions(**options), **BASE)).validate()


def plain(**schema: str) -> MessageView:
    return MessageView(protect_message(ORDER, Protection(), schema=schema, **BASE))


DOTTED = {**BASE, "topic": "orders.created"}


def descriptors(*messages: str, package: str = "shop") -> bytes:
    """A file of protobuf with messages of these names, each with an ``id``."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package=package, syntax="proto3")
    for name in messages:
        field = file.message_type.add(name=name).field.add(name="id", number=1)
        field.type, field.label = field.TYPE_INT32, field.LABEL_OPTIONAL
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def put(base: Path, name: str, version: str, data: bytes) -> None:
    (base / name).mkdir(exist_ok=True)
    (base / name / version).write_bytes(data)


ORDER_OF_PROTOBUF = Content(ContentType.PROTOBUF, None, "type.googleapis.com/shop.Order", b"\x08\x01")


@pytest.mark.parametrize(
    ("file", "data", "payload"),
    [
        ("v1.json", b"{}", ORDER),
        ("v1.desc", descriptors("Order"), ORDER_OF_PROTOBUF),
        ("v1.desc", descriptors("created", package="orders"), ORDER_OF_PROTOBUF),
        ("v1.desc", descriptors("other", "created", package="orders"), ORDER_OF_PROTOBUF),
    ],
    ids=["JSON", "the one message", "the message of that name", "the message of that name among others"],
)
def test_a_topic_with_dots_has_the_schema_of_just_its_name(
    tmp_path: Path, file: str, data: bytes, payload: Any
) -> None:
    """M-29, M-37."""
    put(tmp_path, "orders.created", file, data)
    for other in ("orders", "created", "orders.paid", "orders.created.eu"):
        put(tmp_path, other, "v9.json", b'{"not": {}}')
    of_namespace = NamespaceSchemas(SchemaRegistry(tmp_path), required=True)
    view = MessageView(guard(of_namespace).write(payload, PublishOptions(), **DOTTED))
    assert (view.schema.schema_name, view.schema.schema_version) == ("orders.created", "v1")
    assert bytes(guard(of_namespace).open(view).payload_bytes) == bytes(view.payload_bytes)
    with pytest.raises(SchemaError, match=r"no schema for topic 'orders.cancelled'"):
        guard(of_namespace).write(payload, PublishOptions(), **{**BASE, "topic": "orders.cancelled"})


def test_a_protobuf_file_of_several_messages_and_another_name_says_that_it_cannot_tell(tmp_path: Path) -> None:
    put(tmp_path, "orders.created", "v1.desc", descriptors("Order", "Line"))
    with pytest.raises(SchemaError, match="several messages"):
        SchemaRegistry(tmp_path).get("orders.created", "v1")


def test_a_message_is_described_by_the_schema_of_its_topic_in_the_version_of_its_namespace(tmp_path: Path) -> None:
    of_namespace = NamespaceSchemas(registry(tmp_path, v1={}, v2={}, v3={}), version="v2")
    said = written(of_namespace).schema
    assert (said.schema_name, said.schema_version, said.schema_format) == (TOPIC, "v2", "json-schema")
    assert said.schema_hash.startswith("sha256:")


def test_without_a_version_it_is_the_newest_one(tmp_path: Path) -> None:
    assert written(NamespaceSchemas(registry(tmp_path, v2={}, v10={}))).schema.schema_version == "v10"


def test_what_the_program_asks_for_counts_over_the_namespace(tmp_path: Path) -> None:
    of_namespace = NamespaceSchemas(registry(tmp_path, v1={}, v2={}), version="v2")
    assert written(of_namespace, schema=(TOPIC, "v1")).schema.schema_version == "v1"


def test_a_payload_that_does_not_fit_the_schema_of_its_namespace_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(SchemaError):
        written(NamespaceSchemas(registry(tmp_path, v1=AMOUNT)))


@pytest.mark.parametrize("required", [False, True])
def test_a_topic_without_a_schema_is_refused_only_where_one_is_required(tmp_path: Path, required: bool) -> None:
    of_namespace = NamespaceSchemas(SchemaRegistry(tmp_path), required=required)
    if not required:
        assert not written(of_namespace).schema.schema_name
        return
    with pytest.raises(SchemaError, match="requires one"):
        written(of_namespace)


def test_messages_of_other_namespaces_are_left_alone(tmp_path: Path) -> None:
    other = Guard(MessageSecurity(namespaces={"other": NamespaceSchemas(SchemaRegistry(tmp_path), required=True)}))
    view = MessageView(other.write(ORDER, PublishOptions(), **BASE))
    assert other.open(view) is view


def test_the_newest_version_of_a_remote_registry_must_be_named() -> None:
    with pytest.raises(ConfigurationError, match="version"):
        NamespaceSchemas(SchemaRegistry("https://example.invalid/schemas"))


def test_a_reader_refuses_a_message_without_a_schema_where_one_is_required(tmp_path: Path) -> None:
    schemas = registry(tmp_path, v1={})
    assert guard(NamespaceSchemas(schemas)).open(plain())
    with pytest.raises(SchemaError, match="is absent"):
        guard(NamespaceSchemas(schemas, required=True)).open(plain())


def test_a_reader_refuses_an_unknown_name(tmp_path: Path) -> None:
    of_namespace = NamespaceSchemas(registry(tmp_path, v1={}))
    with pytest.raises(SchemaError, match="'Forged' is unknown"):
        guard(of_namespace).open(plain(schema_name="Forged", schema_version="v1"))


def test_another_version_than_the_expected_one_is_warned_about_and_handed_out(tmp_path: Path) -> None:
    schemas, lines = registry(tmp_path, v1={}, v2={}), Lines()
    view = written(NamespaceSchemas(schemas, version="v1"))
    guard(NamespaceSchemas(schemas, version="v2"), lines).open(view)
    assert lines.kinds == [f"schema {TOPIC}"]
    assert "has version 'v1'" in lines.texts[0]
    assert "'v2' is expected" in lines.texts[0]


@pytest.mark.parametrize("required", [False, True])
def test_a_version_that_is_not_here_is_refused_where_a_schema_is_required(tmp_path: Path, required: bool) -> None:
    of_namespace = NamespaceSchemas(registry(tmp_path, v1={}), version="v1", required=required)
    lines = Lines()
    view = plain(schema_name=TOPIC, schema_version="v9")
    if not required:
        guard(of_namespace, lines).open(view)
        assert len(lines.texts) == 1
        return
    with pytest.raises(SchemaError, match="'v9'"):
        guard(of_namespace, lines).open(view)


def test_the_expected_version_is_not_warned_about(tmp_path: Path) -> None:
    of_namespace, lines = NamespaceSchemas(registry(tmp_path, v1={})), Lines()
    guard(of_namespace, lines).open(written(of_namespace))
    assert lines.texts == []
