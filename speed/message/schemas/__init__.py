"""Schemas of payloads: JSON Schema, Avro and protobuf behind one face (M-29). Parsed texts and values only, no I/O."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, Protocol

from speed.message.errors import SchemaError
from speed.message.schemas.places import Place
from speed.wire import lazily

MAX_SCHEMA_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 32
FORMATS: Final = {
    "json-schema": "speed.message.schemas.json_schema",
    "avro": "speed.message.schemas.avro",
    "protobuf": "speed.message.schemas.protobuf",
}
MODES: Final = ("backward", "forward", "full", "none")


class Schema(Protocol):
    """A parsed schema; ``places`` is what it says of the payload."""

    places: Place

    def check(self, content_type: str, data: bytes | memoryview, value: Any) -> Any:
        """The value as the schema sees it; SchemaError if the payload does not fit."""

    def breaks(self, writer: Any) -> list[str]:
        """Why this schema cannot read all that ``writer``, one of the same format, writes; empty if it can."""


def parse_schema(format_: str, data: bytes, name: str = "") -> Schema:
    """The schema in ``data``; ``name`` chooses the message of a protobuf file. SchemaError for one that is none."""
    if format_ not in FORMATS:
        raise SchemaError(f"schema_format: {format_[:32]!r} is not known; there are {', '.join(FORMATS)}")
    if len(data) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"a schema of {len(data)} bytes is too large; at most {MAX_SCHEMA_BYTES}")
    schema: Schema = lazily.load(FORMATS[format_]).parse(data, name)
    return schema


def schema_hash(data: bytes) -> str:
    """What ``schema_hash`` says of a schema file."""
    return "sha256:" + sha256(data).hexdigest()


def incompatibilities(old: Schema, new: Schema, mode: str) -> list[str]:
    """What speaks against ``new`` in the place of ``old`` under a compatibility mode; empty if nothing does."""
    if type(old) is not type(new):
        return ["the formats differ"] if mode != "none" else []
    found = []
    if mode in ("backward", "full"):
        found += [f"backward: {problem}" for problem in new.breaks(old)]
    if mode in ("forward", "full"):
        found += [f"forward: {problem}" for problem in old.breaks(new)]
    return found
