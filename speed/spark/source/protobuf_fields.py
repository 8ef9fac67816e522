"""Fields of protobuf messages as the columns that are asked for."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow.types as is_type

if TYPE_CHECKING:
    import pyarrow as pa

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
