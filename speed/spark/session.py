"""``Speed``: services of other nodes on the columns of DataFrames."""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark import AccumulatorParam

import speed
from speed.engine.tracing import current_trace
from speed.errors import ConfigurationError, KeyFileError
from speed.fs.keyfile import default_root
from speed.spark import paths
from speed.spark.calls import BatchCalls, Counts, Reports
from speed.spark.functions import ServiceUse, map_function, udf_function
from speed.spark.nodes import (
    AUTO,
    CallSettings,
    JobNodes,
    NodeSettings,
    _close_with,
    call_settings,
    check_columns,
    check_service,
    family,
    known_from,
    live_nodes,
    share_root,
)
from speed.wire.entry import Entry
from speed.wire.text import TraceParent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from speed.spark.functions import MakeProvider


# How Spark adds up what the workers counted.


class AddCounts(AccumulatorParam):  # type: ignore[type-arg, misc, unused-ignore]
    """Counts add up field by field."""

    def zero(self, value: Counts) -> Counts:
        """Nothing counted."""
        return Counts()

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802 - Spark's name
        """The sum of both."""
        return value1 + value2


# The columns that go to a service and those that it promises: what can be said about them before a job runs.

_ARROW = {
    "ByteType": "int8",
    "ShortType": "int16",
    "IntegerType": "int32",
    "LongType": "int64",
    "FloatType": "float32",
    "DoubleType": "float64",
    "BooleanType": "bool",
    "StringType": "string",
    "BinaryType": "binary",
    "DateType": "date32",
    "TimestampNTZType": "timestamp[us]",
    "DayTimeIntervalType": "duration[us]",
    "TimeType": "time64[ns]",
}
"""Names of types in Spark, whose older versions have not all of them, and in Arrow; others have parts."""
_ADVICE = {
    "interval year to month": "Spark hands none to Python: send the months as an integer",
    "interval": "cast it to an interval of days and seconds",
    "void": "cast it to the type that it is to have",
    "struct<>": "a struct has at least one field",
}
_OTHERWISE = "cast it to numbers, strings, binary, times, or to arrays, structs and maps of these"


def promised_schema(ddl: str | StructType, call: CallSettings, *, exact_case: bool = False) -> StructType:
    """The columns of a DDL, or those that are given.

    Raises ConfigurationError for anything else, and for what no answer could hold.

    Names that differ in case alone are one name, as to Spark, unless ``exact_case``.
    """
    from pyspark.sql.types import StructType

    try:
        schema = ddl if isinstance(ddl, StructType) else StructType.fromDDL(ddl)
    except Exception as error:  # pyspark wraps what its parser says in several classes
        raise ConfigurationError(f"{ddl!r} is no schema such as 'miles double, hours double'") from error
    if len({_name(name, exact_case) for name in schema.names}) < len(schema.names):
        raise ConfigurationError(f"{ddl!r} names one column twice")
    for field in schema.fields:
        _check_type(field, "no service can answer")
        if not field.nullable and call.on_error == "null":
            raise ConfigurationError(
                f"column {field.name!r} is promised NOT NULL, and on_error='null' may make nulls of it"
            )
    return schema


def check_names(
    present: Sequence[str], required: Sequence[str], returned: Sequence[str], *, exact_case: bool = False
) -> None:
    """Raises ConfigurationError for a column that is not there, or would be there twice."""
    missing = [name for name in required if name not in present]
    if missing:
        raise ConfigurationError(f"the DataFrame has no column {missing[0]!r}; it has {', '.join(present)}")
    there = {_name(name, exact_case): name for name in present}
    twice = [name for name in returned if _name(name, exact_case) in there]
    if twice:
        found = there[_name(twice[0], exact_case)]
        raise ConfigurationError(
            f"the DataFrame has a column {found!r} already, and {twice[0]!r} is returned: "
            "drop it, or return another name"
        )


def _name(name: str, exact_case: bool) -> str:
    return name if exact_case else name.lower()


def quoted(name: str) -> str:
    """A column's name as Spark takes it literally, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def check_types(schema: StructType, names: Sequence[str]) -> None:
    """Raises ConfigurationError for a column of a type that does not travel (C-3)."""
    for name in names:
        _check_type(schema[name], "no service can take")


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow types of columns that travel, as Spark wants them. Raises KeyError for others."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _arrow(field.dataType), field.nullable) for field in schema.fields])


def _arrow(kind: DataType) -> pa.DataType:
    """What Spark has a type as in Arrow. Raises KeyError for one that does not travel."""
    import pyarrow as pa
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType, TimestampType

    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, TimestampType):
        return pa.timestamp("us", tz="UTC")
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", _arrow(kind.elementType), kind.containsNull))
    if isinstance(kind, MapType):
        values = pa.field("value", _arrow(kind.valueType), kind.valueContainsNull)
        return pa.map_(pa.field("key", _arrow(kind.keyType), nullable=False), values)
    if isinstance(kind, StructType):
        return pa.struct([pa.field(one.name, _arrow(one.dataType), one.nullable) for one in _fields(kind)])
    if type(kind).__name__ == "VariantType":
        mark = {"variant": "true"}  # by which Spark knows it again
        parts = [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, metadata=mark)]
        return pa.struct(parts)
    return pa.type_for_alias(_ARROW[type(kind).__name__])


def _fields(kind: StructType) -> list[StructField]:
    if not kind.fields or len(set(kind.names)) < len(kind.names):
        raise KeyError(kind.simpleString())
    return list(kind.fields)


def _check_type(field: StructField, cannot: str) -> None:
    try:
        _arrow(field.dataType)
    except KeyError:
        kind = field.dataType.simpleString()
        advice = _ADVICE.get(kind, _OTHERWISE)
        raise ConfigurationError(f"column {field.name!r} is of type {kind}, which {cannot}: {advice}") from None


_ANSWER = "__speed_answer"
_ROWS_IN_FLIGHT = 32
_SAMPLED = 1
"""Of a trace that begins here: with less, services would drop the spans that they record by themselves."""
_lock = threading.Lock()
_reports: weakref.WeakKeyDictionary[speed.Node, Reports] = weakref.WeakKeyDictionary()


class Speed:
    """Services on columns, called by the executors themselves.

    Each executor makes a node of its own, ``<name>.<application>.<executor>``, when it needs one, and keeps it; a
    Python worker that calls, one with its pid behind that. So services allow the family: ``node.allow("etl.*")``.

    Args:
        spark: the session; of Spark Connect too.
        root, key: as ``speed.Node`` takes them. Both are paths that hold on every executor: the key itself never
            travels through Spark. Without ``key`` each executor looks for its own (``$SPEED_KEY``, else in the root).
        name: the family of this job's nodes.
        lease_seconds: how long a worker that was killed may still be listed on other machines.
        engine: of the driver's node and of the workers', as ``speed.Node`` takes it: ``auto`` is native where that is
            built for the interpreter of the executor. Those who share a node (``close``) have its key and engine.
        executors: ``shared``: they see the driver's root. ``own``: each host has, under the same path, a root, a key
            and services of its own; workers call those of their host and check there, the first time, that they exist,
            and errors name the host. Then the driver needs neither root nor key, executors without ``root`` take
            ``$SPEED_ROOT``, and tasks that failed are not in ``metrics``. ``auto``: ``shared`` on a local master;
            elsewhere a small job looks, before the first use, for the driver's node in the root of each executor that
            it reaches, and one that does not find it means ``own``, as does a driver without a key.

        path: which way services are called: ``jvm``, from the executors' JVMs, without Python workers; ``python``;
            ``auto``, from the JVMs where that can be, else by Python workers, and why is told at debug level. None
            means ``spark.speed.path`` of the session, else ``auto``. Each use of a service can say its own.
        tracer_provider: called once a task, without arguments, in the worker; returns the TracerProvider of
            OpenTelemetry that records a span for the task, and is shut down with it. Python workers call then.

    All calls of a use of a service belong to one trace, on every executor: that which is at hand where the program asks
    for the use (``with speed.trace(…)``, a span of OpenTelemetry), else one that this object has for all its uses.

    Thread-safe. It is configuration: nothing is running until a DataFrame is computed, but for the driver's own node,
    which checks each service before a job starts, and closes with the session.

    Raises ConfigurationError also where the workers of a local master run a Python without pyarrow.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        root: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        name: str = "etl",
        lease_seconds: float = 30.0,
        engine: str = "auto",
        executors: str = AUTO,
        path: str | None = None,
        tracer_provider: MakeProvider | None = None,
    ) -> None:
        context = _context(spark)
        self._path = None if path is None else paths.checked(path)
        self._bridge: Any = None
        if context is not None:
            paths.check_interpreter(context.master, context.pythonExec)
        self._spark = spark
        self._own = known_from(executors, None if context is None else context.master)
        self._root_is_given = root is not None
        self._settings = NodeSettings(
            root=os.path.abspath(os.fspath(root) if root is not None else default_root()),
            key=None if key is None else os.fspath(key),
            prefix=name,
            application=str(spark.conf.get("spark.app.id") if context is None else context.applicationId),
            lease_seconds=lease_seconds,
            engine=engine,
        )
        self._lock = threading.Lock()
        self._id = uuid.uuid4().hex
        self._trace = str(TraceParent(uuid.uuid4().hex, uuid.uuid4().hex[:16], _SAMPLED))
        self._make_provider = tracer_provider
        self._reports = Reports()
        self._counts = None if context is None else _accumulator(context)
        self._live = self._join(spark if context is None else context)

    def close(self) -> None:
        """Close the driver's own node now, which otherwise closes with the session. Jobs that run go on.

        Several ``Speed`` of one session with the same root and name have it in common.
        """
        if self._live is not None:
            self._live.node.close()

    @property
    def node_name(self) -> str:
        """The name of the driver's own node. Raises ConfigurationError where there is none (``executors``)."""
        return self._here().node.name

    def nodes(self) -> list[Entry]:
        """The live nodes, those of the workers too, as the driver's own node sees them. Raises as ``node_name``."""
        return self._here().node.nodes()

    @property
    def metrics(self) -> dict[str, Any]:
        """Calls, rows, bytes, retries, failed rows, p50 and p99 of all tasks, of those that failed too.

        Where each host has a root of its own, they are those of tasks that succeeded, and nothing with Spark Connect.
        """
        counts = self._reports.of(self._id)
        if self._counts is not None:
            counts = counts + self._counts.value
        if self._bridge is not None:
            counts = counts + paths.counted(self._bridge, self._spark, self._id)
        return counts.summary()

    def enrich(
        self,
        df: DataFrame,
        *,
        node: str,
        service: str,
        columns: Sequence[str] | Mapping[str, str],
        returns: str | StructType,
        path: str | None = None,
        **options: Any,
    ) -> DataFrame:
        """``df`` with the columns that ``service`` answers; ``returns`` are their types, such as ``miles double``.

        ``columns`` are the arguments: names of columns, or a mapping of the service's own names to those of columns,
        ``{"amount": "net"}``. Only they and the answer pass through Python, as Arrow batches: pandas is not needed.
        Where Spark needs no column of the answer, nobody is asked. A promised column that an answer lacks is null; what
        is promised NOT NULL is checked, and yet nullable to Spark. A value that its promised type does not hold fails
        the job, which names row and column, or is null with ``on_error="null"``. With ``error_column="error"`` it is
        null too, and that column tells code and text of what failed: of the row that the service named if it is
        ``idempotent``, else of its whole batch.
        ``path`` is as in ``Speed``, for this use alone. ``options`` are those of ``CallSettings``. Raises, before
        anything runs, ConfigurationError for unknown columns or options, for types that no column holds and for a path
        that cannot be taken, UnknownNodeError, AccessDeniedError and ServiceNotFoundError.
        Where each host has a root of its own, the job raises the last three.
        """
        return self._with_answers(df, call_settings(node, service, options), columns, returns, path)

    def call_each(
        self,
        df: DataFrame,
        *,
        node: str,
        service: str,
        returns: str,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        path: str | None = None,
        **options: Any,
    ) -> DataFrame:
        """``df`` with what ``service`` answers to a call for each row, which is a request of values, not of columns.

        For services that were not made for columns; one that takes columns is quicker by ``enrich``. Rows keep their
        order, and each worker has ``in_flight`` calls under way, 32 unless it is given. ``columns`` are as in
        ``enrich``, all by default. One promised column is the answer itself, several are the members of a map; one that
        it lacks is null. A call that fails ends the job, or with ``error_column="error"`` leaves nulls and its error in
        that column. ``path`` and ``options`` are as in ``enrich``, and so is what is raised; Python workers call.
        """
        settings = call_settings(node, service, {"in_flight": _ROWS_IN_FLIGHT, **options})
        return self._with_answers(df, settings, df.columns if columns is None else columns, returns, path, by_row=True)

    def call_all(
        self,
        requests: Iterable[Mapping[str, Any]],
        *,
        node: str,
        service: str,
        progress: bool | None = None,
        **options: Any,
    ) -> list[Any]:
        """What ``service`` answers to each of the ``requests``, in their order; the driver's own node calls.

        For a few thousand requests that lie in the driver; ``call_each`` is for DataFrames. ``progress`` shows a bar in
        the terminal or the notebook; None shows it where there is one. With ``on_error="null"`` a request that failed
        gives None. ``options`` are those of ``CallSettings``; 32 calls are under way unless ``in_flight`` says another
        number. Raises what ended the first call that failed, and ConfigurationError where the driver has no node.
        """
        settings = call_settings(node, service, {"in_flight": _ROWS_IN_FLIGHT, **options})
        if settings.error_column is not None:
            raise ConfigurationError("error_column is for DataFrames: use on_error='null'")
        with self._lock:
            check_service(self._here(), settings)
        trace = current_trace() or self._trace
        calls = BatchCalls(self._here(), settings, None, lambda answer, _: answer, traceparent=trace)
        total = len(requests) if isinstance(requests, Sized) else None
        answers = (None if one.failed else one.result for one in calls.each(requests, within=""))
        return list(with_progress(answers, str(settings), total, progress))

    def _with_answers(
        self,
        df: DataFrame,
        settings: CallSettings,
        columns: Sequence[str] | Mapping[str, str],
        returns: str,
        path: str | None,
        *,
        by_row: bool = False,
    ) -> DataFrame:
        from pyspark.sql.functions import arrow_udf

        arguments = dict(columns) if isinstance(columns, Mapping) else {name: name for name in check_columns(columns)}
        names = check_columns(list(arguments))
        returned = promised_schema(returns, settings, exact_case=self._is_case_sensitive())
        given = _given(returned, settings)
        check_names(df.columns, list(arguments.values()), given.names, exact_case=self._is_case_sensitive())
        if not by_row:
            check_types(df.schema, list(arguments.values()))
        sent = [df.schema[name].dataType for name in arguments.values()]
        work = self._work(settings, names, returned)._replace(by_row=by_row)
        work = self._on_path(work, path, [*sent, *_types(returned)])
        if work.described is None:
            df = self._readable(df)
        kind = given[0].dataType if len(given) == 1 else given
        ask = arrow_udf(udf_function(work), kind).asNondeterministic()  # else Spark asks again for each use
        answer = ask(*(df[quoted(name)] for name in arguments.values()))
        if len(given) == 1:
            return df.select("*", answer.alias(given.names[0]))
        return df.select("*", answer.alias(_ANSWER)).select("*", f"{_ANSWER}.*").drop(_ANSWER)

    def map(
        self,
        df: DataFrame,
        *,
        node: str,
        service: str,
        schema: str | StructType,
        path: str | None = None,
        **options: Any,
    ) -> DataFrame:
        """The rows that ``service`` makes of all columns of ``df``, batch by batch; there may be more or fewer.

        With ``on_error="null"`` a batch that failed gives no rows; with ``error_column="error"`` it gives one, of nulls
        and the error. This is Spark's ``mapInArrow``, for which the extra ``spark`` installs pandas.
        """
        settings = call_settings(node, service, options)
        returned = promised_schema(schema, settings, exact_case=self._is_case_sensitive())
        check_types(df.schema, check_columns(df.columns))
        work = self._work(settings, None, returned)._replace(same_rows=False)
        work = self._on_path(work, path, [*_types(df.schema), *_types(returned)])
        return df.mapInArrow(map_function(work), _given(returned, settings))

    def udf(
        self,
        node: str,
        service: str,
        returns: str | DataType,
        *,
        columns: Sequence[str] | None = None,
        path: str | None = None,
        **options: Any,
    ) -> Callable[..., Column]:
        """A function of columns for ``select`` and ``withColumn``, and with ``columns`` for SQL.

        ``returns`` is one type: ``string``, ``array<date>``. The arguments go to the service under the names that the
        columns have in Spark: ``u("miles", col("arr_delay").alias("delay"))``. With ``columns`` they are named by
        position, and the function can be registered for SQL:

            spark.udf.register("haul", sp.udf("geo", "haul", "string", columns=["miles"]))

        Registering one without ``columns`` raises ConfigurationError. With ``error_column="error"`` the function gives
        a structure of ``value`` and ``error``.
        """
        from pyspark.sql.functions import arrow_udf

        settings = call_settings(node, service, options)
        names = None if columns is None else check_columns(columns)
        promised = promised_schema(_one_value(returns), settings)
        work = self._work(settings, names, promised)._replace(named=False)
        work = self._on_path(work, path, _types(promised))  # those of the arguments are known when it is used
        kind = returns if settings.error_column is None else _given(promised, settings)
        made: Callable[..., Column] = arrow_udf(udf_function(work), kind)
        return made if names else _ByName(made)

    def _readable(self, df: DataFrame) -> DataFrame:
        """``df``; where Spark keeps caches as Arrow, behind a filter that all rows pass.

        Spark 4.3.0 fails where a function of Arrow stands directly on such a cache (IndexOutOfBoundsException).
        """
        from pyspark.sql.functions import rand

        serializer = str(self._spark.conf.get("spark.sql.cache.serializer", ""))
        return df.where(rand() >= 0) if serializer.endswith(".ArrowCachedBatchSerializer") else df

    def _is_case_sensitive(self) -> bool:
        return str(self._spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"

    def _work(self, call: CallSettings, columns: tuple[str, ...] | None, returned: StructType) -> ServiceUse:
        """Raises for what can be known before a job runs: the node is there, allows this job, has the service."""
        settings, driver = self._settings, None
        if not self._are_on_their_own():
            with self._lock:
                check_service(self._here(), call)
            driver = self._here().node.name
        elif not self._root_is_given:
            settings = replace(settings, root=None)
        use = ServiceUse(settings, call, columns, arrow_schema(returned), self._counts, driver, self._id)
        return use._replace(traceparent=current_trace() or self._trace, make_provider=self._make_provider)

    def _on_path(self, work: ServiceUse, path: str | None, types: Sequence[DataType]) -> ServiceUse:
        """The use, described for the JVM where it is to go that way. Raises ConfigurationError where it cannot."""
        chosen = paths.checked(path or self._path or str(self._spark.conf.get(paths.SETTING, paths.AUTO)))
        if chosen == paths.PYTHON:
            return work
        why = paths.why_workers(work) or paths.why_python(is_connect=_context(self._spark) is None, types=types)
        if why is None:
            joined = paths.join(self._spark)
            why = joined if isinstance(joined, str) else None
        if why is not None:
            paths.say_why_python(chosen, str(work.call), why)
            return work
        self._bridge = joined
        return work._replace(described=paths.described(work, family(self._settings)))

    def _join(self, session: Any) -> JobNodes | None:
        """The driver's own node, where it has one, which closes with the session."""
        if self._own:
            return None
        try:
            live = live_nodes(self._settings)
        except KeyFileError:
            if self._own is not None:
                raise
            self._own = True  # on a cluster the driver's host may have nothing of SPEED
            return None
        live.node.remove_stale()  # workers that were killed
        self._reports = _reports_to(live.node, f"{family(self._settings)}.*")
        _close_with(session, live.node)
        return live

    def _are_on_their_own(self) -> bool:
        with self._lock:
            if self._own is None:
                self._own = not share_root(self._spark, self._here().node.root, self._here().node.name)
            return self._own

    def _here(self) -> JobNodes:
        if self._live is None:
            raise ConfigurationError("the driver has no node: each host of the executors has a root of its own")
        return self._live


def _one_value(kind: str | DataType) -> str | StructType:
    from pyspark.sql.types import StructType

    return f"value {kind}" if isinstance(kind, str) else StructType().add("value", kind)


def _given(promised: StructType, call: CallSettings) -> StructType:
    """The columns that come: those that are promised, and that of the errors."""
    from pyspark.sql.types import StringType, StructField, StructType

    if call.error_column is None:
        return promised
    if call.error_column in promised.names:
        raise ConfigurationError(f"column {call.error_column!r} is promised: give the errors another name")
    return StructType([*promised.fields, StructField(call.error_column, StringType())])


def _types(schema: StructType) -> list[DataType]:
    return [field.dataType for field in schema.fields]


def _reports_to(node: speed.Node, workers: str) -> Reports:
    """What the workers tell ``node``, which allows them; several ``Speed`` of one application share it."""
    with _lock:
        reports = _reports.get(node)
        if reports is None:
            reports = _reports[node] = Reports()
            node.on_message(reports.take)
            node.allow(workers)
        return reports


def _context(spark: SparkSession) -> Any | None:
    """The session's context; None for Spark Connect."""
    try:
        return spark.sparkContext
    except AttributeError:
        return None


def with_progress(answers: Iterator[Any], title: str, total: int | None, wanted: bool | None) -> Iterator[Any]:
    """The same, with a bar of how many came; None: where a terminal or a notebook shows it."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    if wanted is None:
        wanted = console.is_terminal or console.is_jupyter
    return iter(track(answers, title, total, console=console)) if wanted else answers


class _ByName:
    """A function of columns that gets them as one structure: Spark itself gives its fields their names."""

    def __init__(self, made: Callable[..., Column]) -> None:
        self._made = made

    def __call__(self, *columns: Any) -> Column:
        from pyspark.sql.functions import struct

        return self._made(struct(*columns))

    @property
    def asNondeterministic(self) -> Any:  # noqa: N802 - what Spark looks for in a function that is registered
        raise ConfigurationError(
            "in SQL the arguments of a function have no names: give them to sp.udf, as columns=['miles', 'delay']"
        )


def _accumulator(context: Any) -> Any:
    return context.accumulator(Counts(), AddCounts())
