"""The fields of messages, from ``registry_spec/proto``: their numbers, wire types and names in three languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from google.protobuf.any_pb2 import DESCRIPTOR as ANY

from scripts.generating import places

PYTHON = "speed/wire/records.py"
CPP = "bindings/cpp/src/wire/message/fields.hpp"
JAVA = "bindings/java/src/main/java/speed/internal/wire/Fields.java"
_BLOCK = re.compile(r"^(message|enum) (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s+(?:(optional|repeated) )?(map<\w+, \w+>|[\w.]+) (\w+) = (\d+);", re.MULTILINE)
_VALUE = re.compile(r"^\s+(\w+) = (\d+);", re.MULTILINE)
_KINDS = {"string": "text", "bytes": "bytes"}
_NAMED = frozenset({"ContentEncoding"})
"""Enums whose values programs name, in lower case."""
_NUMBERS = frozenset({"bool", "int32", "int64", "uint32"})


class Field(NamedTuple):
    """One line of a message."""

    label: str
    type: str
    name: str
    number: int

    @property
    def kind(self) -> str:
        """``text``, ``bytes``, ``texts``, ``text_map``, ``bytes_map``; else the name of its type."""
        if self.type.startswith("map<string, "):
            return f"{_KINDS[self.type[len('map<string, ') : -1]]}_map"
        return _KINDS.get(self.type, self.type) + ("s" if self.label == "repeated" else "")


class Schema(NamedTuple):
    """All messages and enums; those that others hold stand behind these, as in the file."""

    messages: dict[str, list[Field]]
    enums: dict[str, dict[str, int]]

    def is_number(self, field: Field) -> bool:
        return field.type in _NUMBERS or field.type in self.enums

    def inside(self, field: Field) -> list[Field] | None:
        """The fields of the message that it holds."""
        return self.messages.get(field.type)

    def values(self, enum: str) -> dict[str, int]:
        """Without what protobuf puts before each name."""
        prefix = snake(enum).upper() + "_"
        return {name.removeprefix(prefix): number for name, number in self.enums[enum].items()}


def read(text: str) -> Schema:
    """What a ``.proto`` text declares."""
    messages: dict[str, list[Field]] = {}
    enums: dict[str, dict[str, int]] = {}
    for kind, name, body in _BLOCK.findall(text):
        if kind == "enum":
            enums[name] = {value: int(number) for value, number in _VALUE.findall(body)}
        else:
            messages[name] = [Field(*found[:3], int(found[3])) for found in _FIELD.findall(body)]
    return Schema(messages, enums)


def of_contract(root: Path) -> Schema:
    """The whole schema, with what protobuf itself defines: its ``Any``, and the entries of its maps."""
    files = [read(path.read_text()) for path in sorted((root / "registry_spec" / "proto").glob("*.proto"))]
    any_fields = ANY.message_types_by_name["Any"].fields
    own = {
        "ProtobufAny": [Field("", {9: "string", 12: "bytes"}[one.type], one.name, one.number) for one in any_fields],
        "MapEntry": [Field("", "string", "key", 1), Field("", "bytes", "value", 2)],
    }
    return Schema(
        {name: fields for file in files for name, fields in file.messages.items()} | own,
        {name: values for file in files for name, values in file.enums.items()},
    )


def files(root: Path) -> Iterator[tuple[str, str]]:
    schema = of_contract(root)
    yield PYTHON, places.region((root / PYTHON).read_text(), "#", python(schema), "proto")
    yield CPP, cpp(schema)
    yield JAVA, java(schema)


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# Python: the numbers, and which fields are messages.


def python(schema: Schema) -> str:
    tables = [
        *((name, [(field.name.upper(), field.number) for field in fields]) for name, fields in schema.messages.items()),
        *((name, list(schema.values(name).items())) for name in schema.enums),
    ]
    classes = "".join(
        f"\n\nclass {name}:\n" + "".join(f"    {key}: Final = {number}\n" for key, number in rows)
        for name, rows in tables
    )
    parts = _parts(schema, schema.messages["MessageEnvelope"])
    about = '"""The fields of a MessageEnvelope that are messages themselves, but for its payload."""\n'
    return f"{classes}\n\nMESSAGE_PARTS: Final[Parts] = {parts}\n{about}"


def _parts(schema: Schema, fields: list[Field]) -> str:
    """The messages among some fields, with those among theirs."""
    inside = {field.number: schema.inside(field) or [] for field in fields if _is_part(schema, field)}
    return "{" + ", ".join(f"{number}: {_parts(schema, held)}" for number, held in inside.items()) + "}"


def _is_part(schema: Schema, field: Field) -> bool:
    return schema.inside(field) is not None or field.kind.endswith("_map")


# C++: tags, that is a number with its wire type, as a reader meets them and a writer puts them.

_CPP_HEAD = """// The fields of messages (registry_spec/proto). Generated by scripts/generate.
// Each is its tag: its number, and the wire type that it has. What has the number and another type is an unknown field.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "wire/value/records.hpp"

namespace speed::wire::proto {
"""


def cpp(schema: Schema) -> str:
    messages = "".join(_cpp_message(schema, name, fields) for name, fields in schema.messages.items())
    enums = "".join(_cpp_enum(name, schema.values(name)) for name in schema.enums)
    return f"{_CPP_HEAD}{messages}{enums}\n}}  // namespace speed::wire::proto\n"


def _cpp_message(schema: Schema, name: str, fields: list[Field]) -> str:
    lines = "".join(
        f"inline constexpr std::uint32_t {_cpp_name(field.name)} = "
        f"{'number' if schema.is_number(field) else 'bytes'}_tag({field.number});\n"
        for field in fields
    )
    return _cpp_namespace(name, lines)


def _cpp_enum(name: str, values: dict[str, int]) -> str:
    lines = "".join(f"inline constexpr int {value.lower()} = {number};\n" for value, number in values.items())
    if name not in _NAMED:
        return _cpp_namespace(name, lines)
    pairs = "".join(f'    {{{value.lower()}, "{value.lower()}"}},\n' for value in values if value != "CUSTOM")
    count = len(values) - ("CUSTOM" in values)
    return _cpp_namespace(
        name,
        f"{lines}\ninline constexpr std::array<std::pair<int, std::string_view>, {count}> names{{{{\n{pairs}}}}};\n",
    )


def _cpp_namespace(name: str, lines: str) -> str:
    return f"\nnamespace {snake(name)} {{\n{lines}}}  // namespace {snake(name)}\n"


def _cpp_name(name: str) -> str:
    return "name_space" if name == "namespace" else name


# Java: numbers, and the kind of each field.

_JAVA_HEAD = """// Generated by scripts/generate from registry_spec/proto.
package speed.internal.wire;

import java.util.Map;

/** The fields of messages ({@code registry_spec/proto}): their numbers, and what each holds. */
public final class Fields {
    private Fields() {}
"""


def java(schema: Schema) -> str:
    messages = "".join(_java_message(schema, name, fields) for name, fields in schema.messages.items())
    enums = "".join(_java_enum(name, schema.values(name)) for name in schema.enums)
    return f"{_JAVA_HEAD}{messages}{enums}}}\n"


def _java_message(schema: Schema, name: str, fields: list[Field]) -> str:
    numbers = "".join(_java_number(field.name.upper(), field.number) for field in fields)
    cases = "".join(
        f"                case {field.name.upper()} -> {kind};\n"
        for field in fields
        if (kind := _java_kind(schema, field)) is not None
    )
    method = (
        "\n        static Field field(int number) {\n            return switch (number) {\n"
        f"{cases}                default -> Field.UNKNOWN;\n            }};\n        }}\n"
    )
    return _java_class(name, numbers, method)


def _java_kind(schema: Schema, field: Field) -> str | None:
    """None of an ``Any``: the payload, which is found and not read with the rest."""
    if schema.is_number(field):
        return "Field.NUMBER"
    if schema.inside(field) is None:
        return None if "." in field.type else f"Field.{field.kind.upper()}"
    return f"Field.{'messages' if field.label == 'repeated' else 'message'}({field.type}::field)"


def _java_enum(name: str, values: dict[str, int]) -> str:
    numbers = "".join(_java_number(value, number) for value, number in values.items())
    if name not in _NAMED:
        return _java_class(name, numbers, "")
    pairs = ", ".join(f'{value}, "{value.lower()}"' for value in values if value != "CUSTOM")
    names = f"\n        static final Map<Integer, String> NAMES =\n                Map.of({pairs});\n"
    return _java_class(name, numbers, names)


def _java_number(name: str, number: int) -> str:
    return f"        public static final int {name} = {number};\n"


def _java_class(name: str, numbers: str, more: str) -> str:
    return (
        f"\n    /** {{@code {name}}}. */\n    public static final class {name} {{\n{numbers}\n"
        f"        private {name}() {{}}\n{more}    }}\n"
    )
