"""Columns of Avro and protobuf payloads: by the schema that their message names, and the one that the query read.

An Avro payload is read by the schema it was written by; a schema file then says, by Avro's rules, what its reader
sees. A protobuf payload tells its fields by their numbers: any version of its schema reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow.types as is_type

from speed.errors import ConfigurationError
from speed.message.errors import SchemaError
from speed.message.schemas import Schema, parse_schema, schema_hash
from speed.message.schemas.avro import AvroSchema
from speed.message.schemas.protobuf import ProtobufSchema, message_names
from speed.message.schemas.registry import SchemaRegistry, read_schema_file
from speed.wire.value import AVRO_TYPE, PROTOBUF_TYPE

if TYPE_CHECKING:
    import pyarrow as pa

    from speed.spark.source.options import ReadOptions
    from speed.spark.source.scan import MessageHead


# Fields of protobuf messages as the columns that are asked for.

_MICROSECONDS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MOMENT, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"


def fields_of(message: Any, kind: pa.DataType) -> Any:
    """A message as a value for a type: of a struct the fields that are wanted.

    A field that is not set is null if its schema tells that from a default, else its default. Moments, durations and
    wrapped values (``google.protobuf.StringValue``) are plain values, unless structs are asked for; moments and
    durations are microseconds where integers are. OverflowError for a moment beyond the years 1 to 9999.
    """
    if is_type.is_struct(kind):
        return {field.name: _field(message, field.name, field.type) for field in kind}
    name = message.DESCRIPTOR.full_name
    if name in (_MOMENT, _DURATION):
        return _time(message, name == _MOMENT, kind)
    is_wrapped = name.startswith("google.protobuf.") and name.endswith("Value") and len(message.DESCRIPTOR.fields) == 1
    return message.value if is_wrapped else message


def _time(message: Any, is_moment: bool, kind: pa.DataType) -> Any:
    microseconds = message.seconds * _MICROSECONDS + message.nanos // 1000
    if is_type.is_integer(kind):
        return microseconds
    passed = timedelta(microseconds=microseconds)
    return _EPOCH + passed if is_moment else passed


def _field(message: Any, name: str, kind: pa.DataType) -> Any:
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None or (field.has_presence and not message.HasField(name)):
        return None
    value = getattr(message, name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {key: _one(inner, value[key], kind.item_type if is_type.is_map(kind) else kind) for key in value}
    if hasattr(value, "append") or hasattr(value, "add"):
        return [_one(field, one, kind.value_type if is_type.is_list(kind) else kind) for one in value]
    return _one(field, value, kind)


def _one(field: Any, value: Any, kind: pa.DataType) -> Any:
    if field.message_type is not None:
        return fields_of(value, kind)
    if field.enum_type is not None and is_type.is_string(kind):
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


_TYPE_OF = {"avro": AVRO_TYPE, "protobuf": PROTOBUF_TYPE}
Decode = Callable[[bytes], Any]


@dataclass(frozen=True)
class Schemas:
    """Where schemas are looked up. Travels to the executors, the schema file with it."""

    registry: str | None = None
    file: bytes = b""
    format: str = ""
    message: str = ""
    """The message of a protobuf file, where no payload names its own."""

    @property
    def content_type(self) -> str:
        """What payloads are whose type nobody says; empty without a schema file."""
        return _TYPE_OF.get(self.format, "")

    def decoder(self, head: MessageHead, kind: pa.DataType) -> Decode:
        """What makes the value of a column of payloads of this head.

        Raises SchemaError if their schema is not known, SchemasAwayError if that cannot be found out for the moment.
        """
        return self._avro(head) if head.content_type == AVRO_TYPE else self._protobuf(head, kind)

    def _avro(self, head: MessageHead) -> Decode:
        reader = _parsed(self.format, self.file) if self.format == "avro" else None
        writer = self._named(head) or self._unnamed(head, reader)
        if not isinstance(writer, AvroSchema):
            raise SchemaError("it is Avro, and the schema that it names is not")
        assert reader is None or isinstance(reader, AvroSchema)
        return lambda payload: writer.decode(payload, reader)

    def _unnamed(self, head: MessageHead, reader: Schema | None) -> Schema:
        """The schema file, unless the payload was written by another one: it would be misread."""
        if reader is None or head.schema_hash not in ("", schema_hash(self.file)):
            raise _unknown(head)
        return reader

    def _protobuf(self, head: MessageHead, kind: pa.DataType) -> Decode:
        name = head.type_url.rpartition("/")[2]
        schema = self._in_file(name or self.message) or self._named(head)
        if schema is None:
            raise _unknown(head)
        if not isinstance(schema, ProtobufSchema) or name not in ("", schema.descriptor.full_name):
            raise SchemaError("the schema that it names is of something else")
        return lambda payload: fields_of(schema.parsed(payload), kind)

    def _in_file(self, name: str) -> Schema | None:
        """The message of this name; the only one, if that is empty."""
        if self.format != "protobuf" or (name and name not in message_names(self.file)):
            return None
        return _parsed(self.format, self.file, name)

    def _named(self, head: MessageHead) -> Schema | None:
        """The schema that a message names; None if it names none, or there is no registry."""
        if self.registry is None or not head.schema_name:
            return None
        found = _registry(self.registry).get(head.schema_name, head.schema_version)
        if head.schema_hash not in ("", found.fields["schema_hash"]):
            raise SchemaError(f"schema {head.schema_name!r} of version {head.schema_version!r} is another one here")
        return found.schema


_parsed = lru_cache(maxsize=64)(parse_schema)
_registry = lru_cache(maxsize=8)(SchemaRegistry)
"""Kept in the process: the tasks of a worker ask for the same ones."""


def _unknown(head: MessageHead) -> SchemaError:
    named = f"{head.schema_name} of version {head.schema_version}" if head.schema_name else "which it does not name"
    return SchemaError(f"its schema, {named}, is not known: give schemaRegistry or schemaFile, or read it as binary")


def schemas_of(options: ReadOptions) -> Schemas:
    """What the options name; the file is read here, on the driver. Raises ConfigurationError."""
    if options.schema_file is None:
        return Schemas(options.schema_registry)
    message = options.schema_message or ""
    try:
        format_, data = read_schema_file(options.schema_file)
        if format_ == "avro" or message:
            parse_schema(format_, data, message)
        elif format_ != "protobuf" or not message_names(data):
            raise SchemaError("use an Avro schema (.avsc), or a descriptor set of protobuf (.desc)")
    except SchemaError as error:
        raise ConfigurationError(f"schemaFile is {options.schema_file!r}: {error}") from None
    return Schemas(options.schema_registry, data, format_, message)
