"""Protobuf: a FileDescriptorSet, as ``protoc --include_imports --include_source_info -o`` writes it (M-29)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from speed.message.errors import SchemaError
from speed.message.schemas import DEPRECATED, PII, FieldRules, Reach, read_places
from speed.wire.value import PROTOBUF_TYPE

_PII_MARK = "@pii"
_GROUPS: tuple[frozenset[int], ...] = (
    frozenset(
        {
            FieldDescriptor.TYPE_INT32,
            FieldDescriptor.TYPE_INT64,
            FieldDescriptor.TYPE_UINT32,
            FieldDescriptor.TYPE_UINT64,
            FieldDescriptor.TYPE_BOOL,
            FieldDescriptor.TYPE_ENUM,
        }
    ),
    frozenset({FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64}),
    frozenset({FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32}),
    frozenset({FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64}),
)
"""Types of one group are read as each other."""


class ProtobufSchema:
    """One message of a descriptor set. ``deprecated = true`` and a comment with ``@pii`` mark its fields."""

    def __init__(self, files: Any, name: str) -> None:
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in files.file:
                pool.Add(file)
            self.descriptor: Any = pool.FindMessageTypeByName(name)
        except (KeyError, TypeError) as error:
            raise SchemaError(f"the descriptor set has no message {name!r}, or lacks an import") from error
        self._class = message_factory.GetMessageClass(self.descriptor)
        commented = frozenset(mark for file in files.file for mark in _commented(file))
        self.places = read_places(self.descriptor, partial(_fill, commented), attrgetter("full_name"))

    def check(self, content_type: str, data: bytes | memoryview, value: Any) -> Any:
        """The fields that are set, as nested maps."""
        if content_type != PROTOBUF_TYPE:
            raise SchemaError(f"content_type: is {content_type}, and the schema is protobuf")
        return _set_fields(self.parsed(data))

    def parsed(self, data: bytes | memoryview) -> Any:
        """The message itself; SchemaError if it is none."""
        try:
            return self._class.FromString(bytes(data))
        except (DecodeError, ValueError):
            raise SchemaError(f"the payload is no {self.descriptor.full_name}") from None

    def breaks(self, writer: ProtobufSchema) -> list[str]:
        problems: list[str] = []
        _compare(self.descriptor, writer.descriptor, "", problems, set())
        return problems


def parse(data: bytes, name: str) -> ProtobufSchema:
    """The message called ``name``, or the one of the last file; SchemaError if there is none, or more than one."""
    files = _files(data)
    return ProtobufSchema(files, name or _only_message(files))


def has_message(data: bytes, name: str) -> bool:
    """Whether there is a message of that full name, within another one or not; SchemaError if it is no set."""
    found = [(file.package, message) for file in _files(data).file for message in file.message_type]
    return any(name in _full_names(package, message) for package, message in found)


def _full_names(above: str, message: Any) -> Iterator[str]:
    name = ".".join(filter(None, (above, message.name)))
    yield name
    for nested in message.nested_type:
        yield from _full_names(name, nested)


def message_names(data: bytes) -> frozenset[str]:
    """The messages of a descriptor set that are not within others; SchemaError if it is none."""
    found = [(file.package, message.name) for file in _files(data).file for message in file.message_type]
    return frozenset(".".join(filter(None, names)) for names in found)


def _files(data: bytes) -> Any:
    try:
        return descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError:
        raise SchemaError("the schema is no FileDescriptorSet: make it with protoc -o") from None


def _only_message(files: Any) -> str:
    """The one message of the last file, which is what protoc was asked for."""
    last = files.file[-1] if files.file else None
    if last is None or len(last.message_type) != 1:
        raise SchemaError("the descriptor set has several messages: say which")
    return f"{last.package}.{last.message_type[0].name}".strip(".")


def _commented(file: Any) -> Iterator[tuple[str, int]]:
    """(message, field number) of each field whose comment says it is personal."""
    for place in file.source_code_info.location:
        if _PII_MARK not in place.leading_comments + place.trailing_comments:
            continue
        path, name, messages = list(place.path), file.package, file.message_type
        message = None
        while len(path) >= 2 and path[0] in (4, 3):  # message_type of a file, nested_type of a message
            message = messages[path[1]]
            name, messages, path = f"{name}.{message.name}".strip("."), message.nested_type, path[2:]
            if path[:1] == [2]:
                break
        if message is not None and len(path) == 2 and path[0] == 2:  # field of a message
            yield name, message.field[path[1]].number


def _fill(commented: frozenset[tuple[str, int]], message: Any, place: FieldRules, reach: Reach) -> None:
    for field in message.fields:
        below = place.named[field.name] = FieldRules()
        if field.GetOptions().deprecated:
            below.marks.add(DEPRECATED)
        if (message.full_name, field.number) in commented:
            below.marks.add(PII)
        if _is_map(field):
            value = field.message_type.fields_by_name["value"].message_type
            below.others = [] if value is None else [reach(value)]
        elif field.message_type is not None:
            (below.each if _is_repeated(field) else below.same).append(reach(field.message_type))


def _set_fields(message: Any) -> dict[str, Any]:
    """Extensions are left out: the schema says nothing of them."""
    return {field.name: _plain(field, value) for field, value in message.ListFields() if not field.is_extension}


def _plain(field: Any, value: Any) -> Any:
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return {key: _plain(inner, one) for key, one in value.items()}
    if _is_repeated(field):
        return list(value) if field.message_type is None else [_set_fields(one) for one in value]
    return value if field.message_type is None else _set_fields(value)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _compare(mine: Any, theirs: Any, path: str, problems: list[str], seen: set[tuple[str, str]]) -> None:
    if (mine.full_name, theirs.full_name) in seen:
        return
    seen.add((mine.full_name, theirs.full_name))
    written = {field.number: field for field in theirs.fields}
    for field in mine.fields:
        below = f"{path}.{field.name}" if path else field.name
        found = written.get(field.number)
        if found is None:
            continue
        if _is_repeated(field) != _is_repeated(found):
            problems.append(f"{below}: was {'a list' if _is_repeated(found) else 'single'}")
        elif not _same_wire(field.type, found.type):
            problems.append(f"{below}: number {field.number} was {found.name}, of another type")
        elif field.message_type is not None:
            _compare(field.message_type, found.message_type, below, problems, seen)


def _is_repeated(field: Any) -> bool:
    """Of all supported runtimes: newer ones deprecate ``label``."""
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if repeated is None else repeated)


def _same_wire(mine: int, theirs: int) -> bool:
    if mine == FieldDescriptor.TYPE_BYTES and theirs == FieldDescriptor.TYPE_STRING:
        return True
    return mine == theirs or any(mine in group and theirs in group for group in _GROUPS)
