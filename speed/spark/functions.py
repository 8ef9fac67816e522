"""What runs in the Python workers, functions over Arrow batches that carry settings alone; envelopes in columns.

It runs in the Python workers, over Arrow batches, and needs no node and no root.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from speed import __version__
from speed.errors import ConfigurationError, SpeedError, WireError
from speed.message.errors import AwayError, KeyUnavailableError, MessageError
from speed.message.options import PublishOptions
from speed.message.schemas.registry import SchemasAwayError
from speed.message.security import Guard, MessageSecurity, check_security
from speed.message.view import MessageView
from speed.spark.calls import WAITING, Batch, BatchCalls, Counts, null_arrays, promised_arrays, promised_row
from speed.spark.nodes import (
    CallSettings,
    JobNodes,
    NodeSettings,
    check_here,
    executor_id,
    here,
    live_nodes,
    worker_node,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from opentelemetry.trace import TracerProvider
    from pyspark import Accumulator
    from pyspark.sql import Column

    MakeProvider = Callable[[], TracerProvider]
    Batches = Iterator[pa.RecordBatch]

_REPORT_SECONDS = 2.0
_ROWS_AT_ONCE = 1000
"""So many answers of single rows are given to Spark at once."""


class ServiceUse(NamedTuple):
    """One use of a service: who calls, what, with which columns (None: all), for which columns.

    ``counts`` is None where Spark has no accumulators (Spark Connect): the node ``driver`` is told under ``topic``.
    ``driver`` is None where each host has a root of its own: what the accumulators do not take is not counted.
    ``named`` says that the program chose the names of ``promised``.
    """

    node: NodeSettings
    call: CallSettings
    columns: tuple[str, ...] | None
    promised: pa.Schema
    counts: Accumulator[Any] | None
    driver: str | None
    topic: str
    same_rows: bool = True
    named: bool = True
    described: str | None = None
    """For the executors' JVMs, where they call; the functions carry it."""
    by_row: bool = False
    """Each row is a request of its own, of values."""
    traceparent: str | None = None
    """The trace that all calls belong to."""
    make_provider: MakeProvider | None = None
    """Makes what records a span for each task."""

    @property
    def given(self) -> pa.Schema:
        """What Spark gets: what is promised, and the errors where the program wants them in a column."""
        import pyarrow as pa

        name = self.call.error_column
        return self.promised if name is None else self.promised.append(pa.field(name, pa.string()))

    def answers(self, batches: Batches) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
        """Each batch with the promised arrays; what was counted is told to the driver, however it ends."""
        live = live_nodes(self.node)
        if self.driver is not None:
            yield from self._counted(live, batches)
            return
        try:
            check_here(live, self.node, self.call)
            yield from self._counted(live, batches)
        except SpeedError as error:
            raise here(error) from None

    def _counted(self, live: JobNodes, batches: Batches) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
        say = self._say if self.driver else None
        with self._traced() as traceparent:
            calls = BatchCalls(live, self.call, self.columns, self._promised, say, traceparent)
            yield from self._called(calls, batches)

    def _traced(self) -> AbstractContextManager[str | None]:
        """A span around the calls of this task, if they are recorded."""
        if self.make_provider is None or self.traceparent is None:
            return nullcontext(self.traceparent)
        from speed.opentelemetry import task_of_spark

        return task_of_spark(self.make_provider, f"{self.call.node}/{self.call.service}", self.traceparent, _of_task())

    def _called(self, calls: BatchCalls, batches: Batches) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
        try:
            answered = self._each(calls, batches) if self.by_row else calls.answers(batches)
            for batch in answered:
                yield batch.rows, self._arrays(batch)
        except Exception:
            self._report(calls.counts)  # Spark drops the accumulators of a task that fails
            raise
        except GeneratorExit:  # Spark has rows enough
            self._count(calls.counts)
            raise
        self._count(calls.counts)

    def _each(self, calls: BatchCalls, batches: Batches) -> Iterator[Batch]:
        """A call for each row."""
        from speed.spark.declared import rows_of

        return calls.each(row for batch in batches for row in rows_of(batch))

    def mapped(self, batches: Batches) -> Batches:
        """What the service makes of whole batches."""
        import pyarrow as pa

        for _, arrays in self.answers(batches):
            yield pa.RecordBatch.from_arrays(arrays, schema=self.given)

    def called(self, batches: Iterator[pa.Array | tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """One array for the arguments of each batch."""
        import pyarrow as pa

        answers = (arrays for _, arrays in self.answers(_named(batch, self.columns) for batch in batches))
        for arrays in _together(answers) if self.by_row else answers:
            yield arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, fields=list(self.given))

    def _arrays(self, batch: Batch) -> list[pa.Array]:
        """The arrays of ``given``; nulls where a batch failed and that is allowed.

        Of rows that a service would have made, a failed batch gives none, or one that tells the error.
        """
        import pyarrow as pa

        tells_errors = self.call.error_column is not None
        if batch.failed:
            rows = batch.rows.num_rows if self.same_rows else int(tells_errors)
            arrays = null_arrays(self.promised, rows)
        else:
            arrays = batch.result
            rows = len(arrays[0])
        return [*arrays, pa.array([batch.error] * rows, pa.string())] if tells_errors else arrays

    def _promised(self, answer: Any, rows: int) -> list[pa.Array]:
        if self.by_row:
            return promised_row(answer, self.promised)
        return promised_arrays(answer, self.promised, rows if self.same_rows else None, named=self.named)

    def _count(self, counts: Counts) -> None:
        if self.counts is None:
            self._report(counts)
        else:
            self.counts.add(counts)

    def _report(self, counts: Counts) -> None:
        self._tell(counts.payload())

    def _say(self, text: str) -> None:
        self._tell({WAITING: f"executor {executor_id()} on {socket.gethostname()}: {text}"})

    def _tell(self, payload: dict[str, Any]) -> None:
        """A message to the driver's node, if there is one."""
        if self.driver is None:
            return
        node = worker_node(self.node)
        try:
            node.send(
                self.driver,
                payload,
                ack=True,
                timeout=_REPORT_SECONDS,
                options=PublishOptions(topic=self.topic),
            )
        except SpeedError:
            pass  # what is told never fails a task, and never hides why it failed


def _of_task() -> dict[str, Any]:
    """What Spark calls the task that runs here; nothing outside of one."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return {}
    return {"spark.stage": task.stageId(), "spark.partition": task.partitionId(), "spark.attempt": task.attemptNumber()}


def map_function(work: ServiceUse) -> Callable[[Batches], Batches]:
    """Batches in, what the service makes of them out."""
    begin = begin_with(work)

    def map_batches(batches: Batches) -> Batches:
        try:
            yield from begin().mapped(batches)
        except Exception as error:
            raise error.with_traceback(None) from None  # whose lines would stand before what it says

    map_batches.described = work.described  # type: ignore[attr-defined]
    return map_batches


def udf_function(work: ServiceUse) -> Callable[..., Any]:
    """Arrays in, one array out, batch by batch: of the promised type, or of structures if several are promised."""
    import pyarrow as pa

    begin = begin_with(work)

    def call(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        try:
            yield from begin().called(batches)
        except Exception as error:
            raise error.with_traceback(None) from None  # whose lines would stand before what it says

    # Spark reads the form of the function off its annotations, and hands over one array, not a tuple, for one column.
    form = pa.Array if work.columns is None or len(work.columns) == 1 else tuple[pa.Array, ...]
    call.__annotations__ = {"batches": Iterator[form], "return": Iterator[pa.Array]}  # type: ignore[valid-type]
    call.described = work.described  # type: ignore[attr-defined]
    return call


def begin_with(work: Any) -> Callable[[], Any]:
    """What gives a worker its work.

    It travels as code that needs nothing, so that a Python without ``speed`` can say what it lacks.
    """
    from pyspark import cloudpickle  # of functions of the program, it takes the code along

    packed = cloudpickle.dumps(work)
    version = __version__

    def begin() -> Any:
        import pickle
        import sys

        try:
            work = pickle.loads(packed)  # noqa: S301 - Spark's workers unpickle whatever its driver sends
        except ImportError as error:
            raise ImportError(
                f"the Python of Spark's workers, {sys.executable}, cannot import speed ({error}): install speed-ipc "
                f"{version} there, or set PYSPARK_PYTHON to a Python that has it, before the session starts"
            ) from None
        return work

    return begin


def _together(rows: Iterator[list[pa.Array]]) -> Iterator[list[pa.Array]]:
    """Arrays of single rows as arrays of many."""
    import pyarrow as pa

    while some := list(islice(rows, _ROWS_AT_ONCE)):
        yield list(map(pa.concat_arrays, zip(*some, strict=True)))


def _named(batch: pa.Array | tuple[pa.Array, ...], names: tuple[str, ...] | None) -> pa.RecordBatch:
    """One batch of arguments: named by position, or by the fields of a structure."""
    import pyarrow as pa

    arrays = list(batch) if isinstance(batch, tuple) else [batch]
    if names is None:
        names = tuple(field.name for field in arrays[0].type)
        arrays = arrays[0].flatten()
    elif len(arrays) != len(names):
        raise ConfigurationError(f"{len(arrays)} arguments for the columns {', '.join(names)}")
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


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
        begin = begin_with(_EnvelopeOpener(security, fails))
    except (TypeError, pickle.PicklingError) as error:
        raise ConfigurationError(
            f"security holds what cannot travel to the workers ({error}): find keys there, by their URIs"
        ) from None

    def open_envelopes(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from begin().opened(batches)

    # Spark reads the form of the function off its annotations.
    open_envelopes.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return open_envelopes


class _EnvelopeOpener:
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
            row.update(_metadata(view))
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


def _metadata(view: MessageView) -> Mapping[str, Any]:
    """The metadata of a message. Its publisher's clock may be beyond the range of a timestamp."""
    trace, schema = view.traceparent, view.schema
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
        "schema": {name: getattr(schema, f"schema_{name}") or None for name in _SCHEMA},
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
