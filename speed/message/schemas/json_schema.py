"""JSON Schema (2020-12), by ``jsonschema``; nothing is fetched for a ``$ref`` (M-29)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

from speed.message.errors import NotAvailableError, SchemaError
from speed.message.schemas import DEPRECATED, MAX_DEPTH, PII, FieldRules, Reach, read_places
from speed.wire import lazily

_TYPES = frozenset({"null", "boolean", "object", "array", "number", "integer", "string"})
_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_OPAQUE = ("allOf", "anyOf", "oneOf", "not", "if", "pattern", "format", "multipleOf", "dependentRequired")
"""What is compatible only when it is the same: no one can compare it in general."""

_MARKS = {"x-pii": PII, "deprecated": DEPRECATED}
_REFERENCES = ("$ref", "$dynamicRef")
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else", "propertyNames")
"""What holds for the same value; who marks the names of a map marks the map."""


class JsonSchema:
    """A JSON Schema. ``deprecated`` and ``x-pii`` mark its fields."""

    def __init__(self, root: dict[str, Any]) -> None:
        try:
            library, referencing = lazily.load("jsonschema"), lazily.load("referencing")
        except ImportError:
            raise NotAvailableError("JSON Schema needs jsonschema: install speed-ipc[schemas]") from None
        try:
            library.Draft202012Validator.check_schema(root)
        except library.SchemaError as error:
            raise SchemaError(f"the schema is no JSON Schema: {error.message[:200]}") from None
        self._unresolvable = referencing.exceptions.Unresolvable
        self._validator = library.Draft202012Validator(root, registry=referencing.Registry())
        self.root = root
        self.places = read_places(root, partial(_fill, self))

    def check(self, content_type: str, data: bytes | memoryview, value: Any) -> Any:
        """Raises SchemaError naming where, never what, the value is."""
        try:
            error = next(self._validator.iter_errors(value), None)
        except (self._unresolvable, RecursionError):
            raise SchemaError("the schema refers to what is not in it, or without end") from None
        if error is not None:
            where = ".".join(str(part) for part in error.absolute_path) or "the payload"
            raise SchemaError(f"{where[:200]}: does not fit `{error.validator}` of the schema")
        return value

    def resolve(self, node: Any) -> dict[str, Any]:
        """What a node means: a local ``$ref`` followed; true is anything."""
        for _ in range(MAX_DEPTH):
            if not isinstance(node, dict) or "$ref" not in node:
                return node if isinstance(node, dict) else {}
            node = self.at(node["$ref"])
        raise SchemaError("a $ref of the schema leads to itself")

    def at(self, reference: str) -> Any:
        """The node that a local reference names, by its place or its anchor."""
        pointer = unquote(reference.removeprefix("#"))
        node: Any = self.root
        if pointer and not pointer.startswith("/"):
            node = _anchored(node, pointer)
        for part in pointer.split("/")[1:]:
            node = _member(node, part)
        if node is None or not reference.startswith("#"):
            raise SchemaError(f"{reference[:80]!r} is not in the schema: only local references are followed")
        return node

    def breaks(self, writer: JsonSchema) -> list[str]:
        problems: list[str] = []
        _compare(self, self.root, writer, writer.root, "", problems, 0)
        return problems


def parse(data: bytes, name: str) -> JsonSchema:
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        raise SchemaError("the schema is not JSON") from None
    if not isinstance(root, dict):
        raise SchemaError("the schema is no JSON object")
    return JsonSchema(root)


def _fill(schema: JsonSchema, node: Any, place: FieldRules, reach: Reach) -> None:
    if not isinstance(node, dict):
        return
    place.marks.update(mark for word, mark in _MARKS.items() if node.get(word) is True)
    for word in _REFERENCES:
        if word in node:
            schema.resolve(node)  # or it leads to itself
            place.same.append(reach(schema.at(node[word])))
    place.same += [reach(one) for word in _ALTERNATIVES for one in node.get(word, ())]
    place.same += [reach(node[word]) for word in _CONDITIONS if word in node]
    place.same += [reach(one) for one in node.get("dependentSchemas", {}).values()]
    place.named = {name: reach(below) for name, below in node.get("properties", {}).items()}
    place.matching = [(_matcher(pattern), reach(one)) for pattern, one in node.get("patternProperties", {}).items()]
    place.others = [reach(node[word]) for word in ("additionalProperties", "unevaluatedProperties") if word in node]
    place.first = [reach(one) for one in node.get("prefixItems", ())]
    place.rest = [reach(node[word]) for word in ("items", "unevaluatedItems") if word in node]
    place.each = [reach(node["contains"])] if "contains" in node else []


def _matcher(pattern: str) -> Callable[[str], Any]:
    try:
        return re.compile(pattern).search
    except re.error:
        raise SchemaError(f"patternProperties: {pattern[:80]!r} is no pattern") from None


def _anchored(root: Any, name: str) -> Any:
    """The node that has the anchor, or None."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if name in (node.get("$anchor"), node.get("$dynamicAnchor")):
                return node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return None


def _member(node: Any, part: str) -> Any:
    """What a part of a JSON pointer leads to, or None."""
    if isinstance(node, list):
        return node[int(part)] if part.isdecimal() and int(part) < len(node) else None
    return node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None


def _compare(
    reader: JsonSchema, mine: Any, writer: JsonSchema, theirs: Any, path: str, problems: list[str], depth: int
) -> None:
    """Add what ``mine`` refuses of what ``theirs`` allows."""
    if depth > MAX_DEPTH or mine is True:
        return
    mine, theirs = reader.resolve(mine), writer.resolve(theirs)
    here = path or "the payload"
    unread = _types(theirs) - _types(mine)
    if unread - ({"integer"} if "number" in _types(mine) else set()):
        problems.append(f"{here}: may be {', '.join(sorted(unread))}, which is not read")
    problems += [f"{here}: {name} is required, and was not" for name in _missing(mine, theirs)]
    problems += [f"{here}: `{word}` differs" for word in _OPAQUE if word in mine and mine[word] != theirs.get(word)]
    problems += [f"{here}: `{word}` is narrower" for word in _narrower(mine, theirs)]
    their_fields = theirs.get("properties", {})
    for name, below in mine.get("properties", {}).items():
        if name in their_fields:
            _compare(reader, below, writer, their_fields[name], f"{path}.{name}" if path else name, problems, depth + 1)
    if mine.get("additionalProperties") is False:
        unknown = their_fields.keys() - mine.get("properties", {}).keys()
        problems += [f"{here}: {name} is not read any more" for name in sorted(unknown)]
    if "items" in mine and "items" in theirs:
        _compare(reader, mine["items"], writer, theirs["items"], f"{path}[]", problems, depth + 1)


def _types(node: dict[str, Any]) -> set[str]:
    types = node.get("type", _TYPES)
    return {types} if isinstance(types, str) else set(types)


def _missing(mine: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    return sorted(set(mine.get("required", ())) - set(theirs.get("required", ())))


def _narrower(mine: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    found = [word for word in _LOWER_BOUNDS if word in mine and theirs.get(word, float("-inf")) < mine[word]]
    found += [word for word in _UPPER_BOUNDS if word in mine and theirs.get(word, float("inf")) > mine[word]]
    allowed, written = mine.get("enum"), theirs.get("enum", [theirs["const"]] if "const" in theirs else None)
    if allowed is not None and (written is None or any(value not in allowed for value in written)):
        found.append("enum")
    if "const" in mine and mine["const"] != theirs.get("const"):
        found.append("const")
    return found
