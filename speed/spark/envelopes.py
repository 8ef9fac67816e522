"""Messages that lie as bytes in a column of a DataFrame, opened there: those of Kafka, of files, of anywhere.

It runs in the Python workers, over Arrow batches, and needs no node and no root.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from speed.errors import ConfigurationError, SpeedError, WireError
from speed.message.errors import AwayError, KeyUnavailableError, MessageError
from speed.spark.functions import begin_with
from speed.trust.schemas import SchemasAwayError
from speed.trust.security import Guard, MessageSecurity, check_security
from speed.wire.message import MessageView

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

MakeSecurity = Callable[[], MessageSecurity]
ON_ERROR = ("code", "fail")
ENVELOPE_COLUMNS = {
    "message_id": "string",
    "topic": "string",
    "namespace": "string",
    "publisher": "string",
    "published_at": "timestamp",
    "priority": "int",
    "ttl_seconds": "bigint",
    "content_type": "string",
    "correlation_id": "string",
    "causality_parent": "string",
    "trace_id": "string",
    "headers": "map<string,string>",
    "extensions": "map<string,binary>",
    "schema": "struct<name:string,version:string,url:string,hash:string>",
    "payload": "binary",
    "is_verified": "boolean",
    "code": "string",
}
_AWAY = (KeyUnavailableError, AwayError, SchemasAwayError)
"""What passes: Spark runs the task again."""
_SCHEMA = ("name", "version", "url", "hash")


def envelope(column: Column | str, *, security: MakeSecurity | None = None, on_error: str = "code") -> Column:
    """What is in the messages of a binary column, as one column of structures.

        opened = kafka.select(envelope("value").alias("message"))
        opened.where("message.code IS NULL").select("message.topic", "message.payload")

    The structure has ``message_id``, ``topic``, ``namespace``, ``publisher``, ``published_at``, ``priority``,
    ``ttl_seconds``, ``content_type``, ``correlation_id``, ``causality_parent``, ``trace_id``, ``headers`` (labels),
    ``extensions``, ``schema`` (``name``, ``version``, ``url``, ``hash``), ``payload``, ``is_verified`` and ``code``.
    The payload is the publisher's bytes, decrypted and decompressed. ``publisher`` is who the message says: believe
    it where ``is_verified`` is true. Null gives null.

    Args:
        column: name or column, of type binary.
        security: called once a task, without arguments, in the worker; returns the MessageSecurity that verifies and
            decrypts. Keys stay where its KeyStore finds them, and never travel. Without it nothing is verified.
        on_error: ``"code"``: what is no message, or is refused, has a ``code`` (``BAD_MESSAGE``, ``UNSIGNED``, …), no
            payload, and what else can be read. ``"fail"``: it ends the query.

    A key or schema that is away fails the task, which Spark repeats. Raises ConfigurationError.
    """
    from pyspark.sql.functions import arrow_udf

    if security is not None and not callable(security):
        raise ConfigurationError("security is no function: give one that makes a speed.MessageSecurity in the worker")
    if on_error not in ON_ERROR:
        raise ConfigurationError(f"on_error is {on_error!r}; use one of {', '.join(ON_ERROR)}")
    opened: Column = arrow_udf(_opening(security, on_error == "fail"), _ddl())(column)
    return opened


def _ddl() -> str:
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in ENVELOPE_COLUMNS.items())}>"


def _opening(security: MakeSecurity | None, fails: bool) -> Callable[..., Any]:
    """The function of the workers."""
    import pyarrow as pa

    try:
        begin = begin_with(_Opener(security, fails))
    except (TypeError, pickle.PicklingError) as error:
        raise ConfigurationError(
            f"security holds what cannot travel to the workers ({error}): find keys there, by their URIs"
        ) from None

    def open_envelopes(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from begin().opened(batches)

    # Spark reads the form of the function off its annotations.
    open_envelopes.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return open_envelopes


class _Opener:
    """One use of ``envelope``. It travels to the workers."""

    def __init__(self, security: MakeSecurity | None, fails: bool) -> None:
        self._make, self._fails = security, fails

    def opened(self, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        """One array of structures for each array of bytes."""
        import pyarrow as pa

        security = MessageSecurity() if self._make is None else self._make()
        check_security(security)
        guard, kind = Guard(security), _arrow_type()
        for batch in batches:
            yield pa.array([None if one is None else self._row(guard, one) for one in batch.to_pylist()], kind)

    def _row(self, guard: Guard, data: bytes) -> dict[str, Any]:
        row: dict[str, Any] = {"is_verified": False, "code": None}
        try:
            view = MessageView(data).validate()
            row.update(_told(view))
            opened = guard.open(view, view.publisher_id or "")
            row["payload"] = bytes(opened.plain_bytes)
            row["is_verified"] = guard.security.policy != "off" and bool(view.security.HasField("signature"))
        except _AWAY:
            raise
        except (MessageError, WireError) as error:
            if self._fails:
                raise
            row["code"] = _code(error)
        return row


def _code(error: SpeedError) -> str:
    return error.reason if isinstance(error, WireError) else error.code


def _told(view: MessageView) -> Mapping[str, Any]:
    """What a message says of itself; its publisher's clock may be beyond what a timestamp holds."""
    trace, said = view.traceparent, view.schema
    return {
        "message_id": view.message_id,
        "topic": view.topic,
        "namespace": view.namespace,
        "publisher": view.publisher_id,
        "published_at": min(view.published_at_ms, _LAST_MS) * 1000,
        "priority": view.priority,
        "ttl_seconds": view.ttl_seconds,
        "content_type": view.content_type,
        "correlation_id": view.correlation_id,
        "causality_parent": view.causality_parent,
        "trace_id": trace.split("-")[1] if trace else None,
        "headers": list(view.labels.items()),
        "extensions": list(view.extensions.items()),
        "schema": {name: getattr(said, f"schema_{name}") or None for name in _SCHEMA},
    }


_LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""


def _arrow_type() -> pa.DataType:
    """What ``ENVELOPE_COLUMNS`` are in Arrow."""
    import pyarrow as pa

    plain = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
        "map<string,binary>": pa.map_(pa.string(), pa.binary()),
    }
    schema = pa.struct([pa.field(name, pa.string()) for name in _SCHEMA])
    return pa.struct([pa.field(name, plain.get(kind, schema)) for name, kind in ENVELOPE_COLUMNS.items()])


__all__ = ["envelope"]
