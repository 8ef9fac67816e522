"""The generated protobuf code is that of registry_spec/proto/message.proto (M-3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from scripts.generating.fields import Field, read
from speed.message import message_pb2

pb: Any = message_pb2
DECLARED = read((Path(__file__).parents[3] / "registry_spec" / "proto" / "message.proto").read_text())
SCALARS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_BOOL: "bool",
}


def type_name(field: FieldDescriptor) -> str:
    """The type of a field as the .proto text writes it."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        return f"map<{type_name(key)}, {type_name(value)}>"
    kind = field.message_type or field.enum_type
    return kind.full_name.removeprefix("speed.message.v1.") if kind is not None else SCALARS[field.type]


def generated(message: Descriptor) -> set[Field]:
    """The fields of a generated message, in the form of ``DECLARED``."""
    proto = DescriptorProto()
    message.CopyToProto(proto)
    found = set()
    for field in proto.field:
        name = type_name(message.fields_by_name[field.name])
        repeated = field.label == FieldDescriptorProto.LABEL_REPEATED and not name.startswith("map<")
        label = "optional" if field.proto3_optional else "repeated" if repeated else ""
        found.add(Field(label, name, field.name, field.number))
    return found


def test_generated_messages_are_those_of_the_proto_file() -> None:
    """Run scripts/generating/proto.py when this fails."""
    found = pb.DESCRIPTOR.message_types_by_name
    assert {name: generated(message) for name, message in found.items()} == {
        name: set(fields) for name, fields in DECLARED.messages.items()
    }


def test_generated_enums_are_those_of_the_proto_file() -> None:
    """Run scripts/generating/proto.py when this fails."""
    found = {name: dict(enum.values_by_name) for name, enum in pb.DESCRIPTOR.enum_types_by_name.items()}
    numbers = {name: {key: value.number for key, value in items.items()} for name, items in found.items()}
    assert numbers == DECLARED.enums


def test_the_file_name_in_the_descriptor_pool_is_our_own() -> None:
    """A plain ``message.proto`` would clash with an application's own in the process-wide pool."""
    assert pb.DESCRIPTOR.name == "speed/message/v1/message.proto"
