"""Avro, by ``fastavro``: payloads without a container, each under one schema (M-29)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import Any

from speed.message.errors import NotAvailableError, SchemaError
from speed.message.schemas import DEPRECATED, MAX_DEPTH, PII, FieldRules, Reach, read_places
from speed.wire import lazily
from speed.wire.value import AVRO_TYPE

_PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_INSIDE = {"array": "items", "map": "values"}
_MARKS = {"pii": PII, "x-pii": PII, "deprecated": DEPRECATED}


class AvroSchema:
    """An Avro schema. ``deprecated`` and ``pii`` (or ``x-pii``) mark its fields."""

    def __init__(self, root: Any) -> None:
        try:
            self._library = lazily.load("fastavro")
        except ImportError:
            raise NotAvailableError("Avro needs fastavro: install speed-ipc[schemas]") from None
        self.root = root
        self.names = dict(_named(root, "", 0))
        full: dict[str, Any] = {}
        try:
            self._parsed = self._library.parse_schema(root, full)
        except Exception as error:  # its errors have no common class
            raise SchemaError(f"the schema is no Avro schema ({type(error).__name__})") from None
        _check_sizes(self, root, 0)
        self.places = read_places(self._parsed, partial(_fill, full))
        # Compiled, it nests without a bound in what a few kilobytes say, and ends the process; Python has one.
        reads = lazily.load("fastavro._read_py") if _holds_itself(self, root, frozenset(), set()) else self._library
        self._read: Callable[..., Any] = reads.schemaless_reader

    def check(self, content_type: str, data: bytes | memoryview, value: Any) -> Any:
        """The decoded value. A payload of another content type is held to the schema as the value it is."""
        if content_type != AVRO_TYPE:
            if not self._library.validation.validate(value, self._parsed, raise_errors=False):
                raise SchemaError("the payload does not fit the Avro schema")
            return value
        return self.decode(data)

    def decode(self, data: bytes | memoryview, reader: AvroSchema | None = None) -> Any:
        """The value of what was written by this schema, as ``reader`` sees it by Avro's rules; SchemaError."""
        stream = BytesIO(data)
        try:
            decoded = self._read(stream, self._parsed, None if reader is None else reader._parsed)
        except Exception:  # truncated, wrong tags, bad UTF-8, no such field: its errors have no common class
            by = "" if reader is None else ", or the schema that reads it does not take that"
            raise SchemaError(f"the payload is not Avro of its schema{by}") from None
        if stream.tell() != len(data):
            raise SchemaError("the payload goes on behind its Avro value")
        return decoded

    def encode(self, value: Any) -> bytes:
        """``value`` as Avro; SchemaError if it does not fit."""
        stream = BytesIO()
        try:
            self._library.schemaless_writer(stream, self._parsed, value, strict=True)
        except Exception as error:  # as above
            raise SchemaError(f"the payload does not fit the Avro schema ({type(error).__name__})") from None
        return stream.getvalue()

    def breaks(self, writer: AvroSchema) -> list[str]:
        problems: list[str] = []
        _compare(self, self.root, writer, writer.root, "", problems, 0)
        return problems

    def resolve(self, node: Any) -> Any:
        """A name's definition."""
        return self.names.get(node, node) if isinstance(node, str) else node


def parse(data: bytes, name: str) -> AvroSchema:
    try:
        return AvroSchema(json.loads(data))
    except (ValueError, RecursionError):
        raise SchemaError("the schema is not JSON") from None


def _named(node: Any, space: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Every named type below ``node``, by its full and its short name."""
    if depth > MAX_DEPTH:
        raise SchemaError("the schema is nested too deeply")
    if isinstance(node, list):
        for one in node:
            yield from _named(one, space, depth + 1)
    elif isinstance(node, dict):
        if "name" in node and node.get("type") in ("record", "error", "enum", "fixed"):
            space = node.get("namespace", space)
            yield node["name"], node
            yield f"{space}.{node['name']}", node
        for below in (node.get("items"), node.get("values"), node.get("type")):
            if isinstance(below, dict | list):
                yield from _named(below, space, depth + 1)
        for field in node.get("fields", ()):
            yield from _named(field.get("type") if isinstance(field, dict) else None, space, depth + 1)


def _check_sizes(schema: AvroSchema, node: Any, depth: int) -> None:
    """A list of nothings takes no bytes: a few bytes could claim a list without end."""
    for kind, _, below in _below(schema, node):
        target = schema.resolve(below)
        if kind == "items" and (target == "null" or (isinstance(target, dict) and target.get("fields") == [])):
            raise SchemaError("a list of `null` or of empty records takes no bytes, so its length has no bound")
        if depth < MAX_DEPTH and not isinstance(below, str):
            _check_sizes(schema, below, depth + 1)


def _holds_itself(schema: AvroSchema, node: Any, around: frozenset[int], others: set[int]) -> bool:
    """Whether a value of a type may hold another one of the same type, and so on. ``others`` are types that do not."""
    target = schema.resolve(node)
    if id(target) in around:
        return True
    if id(target) in others or not isinstance(target, dict | list):
        return False
    within = around | {id(target)}
    if any(_holds_itself(schema, below, within, others) for _, _, below in _below(schema, target)):
        return True
    others.add(id(target))
    return False


def _below(schema: AvroSchema, node: Any) -> Iterator[tuple[str, str, Any]]:
    """(kind, field name, type) of what a type consists of."""
    if isinstance(node, list):
        yield from (("branch", "", one) for one in node)
    elif isinstance(node, dict):
        yield from (("field", field["name"], field["type"]) for field in node.get("fields", ()))
        if node.get("type") == "array":
            yield "items", "", node["items"]
        elif node.get("type") == "map":
            yield "values", "", node["values"]
        elif isinstance(node.get("type"), dict | list):
            yield "branch", "", node["type"]


def _fill(names: dict[str, Any], node: Any, place: FieldRules, reach: Reach) -> None:
    """A field's marks hold for its value, whose type may have marks of its own."""
    if isinstance(node, list):
        place.same = [reach(branch) for branch in node]
    elif isinstance(node, str):
        place.same = [reach(names[node])] if node in names else []
    elif isinstance(node, dict):
        place.marks.update(mark for word, mark in _MARKS.items() if node.get(word) is True)
        place.named = {field["name"]: reach(field) for field in node.get("fields", ())}
        kind = node["type"]
        if kind == "array":
            place.each = [reach(node["items"])]
        elif kind == "map":
            place.others = [reach(node["values"])]
        elif not isinstance(kind, str) or kind in names:
            place.same = [reach(kind)]


def _kind(node: Any) -> str:
    return str(node["type"]) if isinstance(node, dict) and isinstance(node.get("type"), str) else str(node)


def _compare(
    reader: AvroSchema, mine: Any, writer: AvroSchema, theirs: Any, path: str, problems: list[str], depth: int
) -> None:
    """Add what Avro's rules of resolution refuse."""
    if depth > MAX_DEPTH // 4:
        return
    mine, theirs = reader.resolve(mine), writer.resolve(theirs)
    here = path or "the payload"
    if isinstance(theirs, list):
        for branch in theirs:
            _compare(reader, mine, writer, branch, path, problems, depth + 1)
        return
    if isinstance(mine, list):
        if not any(_reads(reader, branch, writer, theirs, depth + 1) for branch in mine):
            problems.append(f"{here}: {_kind(theirs)} is no branch that is read")
        return
    kind, their_kind = _kind(mine), _kind(theirs)
    if kind != their_kind:
        if kind not in _PROMOTIONS.get(their_kind, ()):
            problems.append(f"{here}: was {their_kind}, is read as {kind}")
    elif kind == "record":
        _compare_fields(reader, mine, writer, theirs, path, problems, depth)
    elif kind in _INSIDE:
        inner = _INSIDE[kind]
        _compare(reader, mine[inner], writer, theirs[inner], f"{path}[]", problems, depth + 1)
    else:
        problems += [f"{here}: {problem}" for problem in _plain_problems(kind, mine, theirs)]


def _plain_problems(kind: str, mine: Any, theirs: Any) -> list[str]:
    """Of two enums, or two fixed types."""
    if kind == "fixed" and mine["size"] != theirs["size"]:
        return [f"had {theirs['size']} bytes, is read with {mine['size']}"]
    unread = sorted(set(theirs["symbols"]) - set(mine["symbols"])) if kind == "enum" else []
    return [f"{', '.join(unread)} is not read"] if unread and "default" not in mine else []


def _compare_fields(
    reader: AvroSchema, mine: Any, writer: AvroSchema, theirs: Any, path: str, problems: list[str], depth: int
) -> None:
    written = {field["name"]: field for field in theirs["fields"]}
    for field in mine["fields"]:
        below = f"{path}.{field['name']}" if path else field["name"]
        found = next((written[name] for name in (field["name"], *field.get("aliases", ())) if name in written), None)
        if found is not None:
            _compare(reader, field["type"], writer, found["type"], below, problems, depth + 1)
        elif "default" not in field:
            problems.append(f"{below}: is not written, and has no default")


def _reads(reader: AvroSchema, mine: Any, writer: AvroSchema, theirs: Any, depth: int) -> bool:
    problems: list[str] = []
    _compare(reader, mine, writer, theirs, "", problems, depth)
    return not problems
