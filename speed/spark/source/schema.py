"""The columns that reading gives, and what is wrong with those that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from speed.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from speed.spark.source.options import ReadOptions

PAYLOAD = "payload"
MESSAGE_COLUMNS = {
    "message_id": "string",
    "kind": "string",
    "topic": "string",
    "inbox": "string",
    "source": "string",
    "published_at": "timestamp",
    "recorded_at": "timestamp",
    "priority": "int",
    "ttl_seconds": "bigint",
    "content_type": "string",
    "content_encoding": "string",
    "correlation_id": "string",
    "causality_parent": "string",
    "trace_id": "string",
    "headers": "map<string,string>",
    "lane": "string",
    "offset": "bigint",
    "redelivered": "boolean",
    "batch_index": "int",
}
"""Of each message, beside its payload. ``kind`` is topic or inbox; ``headers`` are the labels of the message;
``batch_index`` is the number of a payload in its batch, from 0, null of one that travelled alone."""

CALL_COLUMNS = {
    "answered_at": "timestamp",
    "service": "string",
    "caller": "string",
    "microseconds": "bigint",
    "outcome": "string",
    "source": "string",
    "lane": "string",
    "offset": "bigint",
}
"""Of each answered call; never what was said."""

TOPIC_COLUMNS = {
    "topic": "string",
    "offset": "bigint",
    "recorded_at": "timestamp",
    "kind": "string",
    "key": "string",
    "publisher": "string",
    "producer": "string",
    "sequence": "bigint",
    "properties": "map<string,string>",
    "due_at": "timestamp",
    "attempts": "int",
    "content_type": "string",
    "lane": "string",
}
"""Of each message of a durable topic. ``kind`` is message, tombstone or dead letter; only these have ``attempts``."""


def default_schema(options: ReadOptions) -> str:
    """What comes if the program asks for no schema, as DDL, which Spark parses."""
    if options.calls:
        return _ddl(CALL_COLUMNS)
    kind = f"struct<{options.payload_schema}>" if options.payload_schema else options.payload
    return _ddl({**_known(options), PAYLOAD: kind})


def _known(options: ReadOptions) -> dict[str, str]:
    if options.calls:
        return CALL_COLUMNS
    return TOPIC_COLUMNS if options.durable else MESSAGE_COLUMNS


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Raises ConfigurationError for a schema that was asked for and cannot come."""
    known = _known(options)
    for field in schema:
        expected, asked = known.get(field.name), field.dataType.simpleString()
        if expected is not None and asked != expected:
            raise ConfigurationError(f"column {field.name!r} is asked for as {asked}: it is {expected}")
        if expected is None and options.calls:
            raise ConfigurationError(f"the call log has no column {field.name!r}; it has {', '.join(CALL_COLUMNS)}")
        if expected is None and not field.nullable:
            raise ConfigurationError(f"column {field.name!r} is NOT NULL: a payload may lack it")
    if options.payload_schema and PAYLOAD not in schema.names:
        raise ConfigurationError("a schema and payloadSchema are both given: name the payload's columns in one of them")


def _ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
