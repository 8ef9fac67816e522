"""``Speed``: services of other nodes on the columns of DataFrames."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from speed.errors import ConfigurationError, ServiceNotFoundError
from speed.spark.driver import driver_node, node_name
from speed.spark.functions import Work, enrich_function, map_function, udf_function
from speed.spark.metrics import Counts
from speed.spark.settings import CallSettings, NodeSettings, check_columns
from speed.spark.targets import Targets

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Speed:
    """Services on columns, called by the executors themselves.

    Each Python worker makes a node of its own, ``<name>.<application>.<executor>.<pid>``, when it needs one, and keeps
    it; so the service's side allows the family: ``node.allow("etl.*")``.

    Args:
        spark: the session.
        root, key: as ``speed.Node`` takes them; ``key`` is the path of a file that every executor can read.
        name: the family of this job's nodes.
        lease_seconds: how long a worker that was killed may still be listed.

    Thread-safe. It is configuration: nothing is running until a DataFrame is computed, but for the driver's own node,
    which checks each service before a job starts.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        root: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        name: str = "etl",
        lease_seconds: float = 30.0,
    ) -> None:
        self._spark = spark
        application = str(spark.sparkContext.applicationId)
        self._node = driver_node(spark, name=node_name(application, name), root=root, key=key)
        self._settings = NodeSettings(
            root=self._node.root,
            key=None if key is None else os.fspath(key),
            prefix=name,
            application=application,
            lease_seconds=lease_seconds,
        )
        self._counts = _accumulator(spark)

    @property
    def metrics(self) -> dict[str, Any]:
        """Calls, rows, bytes, retries, failed rows, p50 and p99 of all finished tasks."""
        counts: Counts = self._counts.value
        return counts.summary()

    def enrich(
        self, df: DataFrame, *, node: str, service: str, columns: Sequence[str], returns: str, **options: Any
    ) -> DataFrame:
        """``df`` with the columns that ``service`` answers to ``columns``, a DDL such as ``miles double``.

        ``options`` are those of ``CallSettings``. Raises, before anything runs, ConfigurationError for unknown columns
        or options, UnknownNodeError, AccessDeniedError and ServiceNotFoundError.
        """
        settings = _call_settings(node, service, options)
        names = check_columns(columns)
        returned = _schema(returns)
        _check_names(df.columns, names, returned.names)
        work = self._work(settings, names, returned)
        return df.mapInArrow(enrich_function(work), _joined(df.schema, returned))

    def map(self, df: DataFrame, *, node: str, service: str, schema: str, **options: Any) -> DataFrame:
        """The rows that ``service`` makes of all columns of ``df``, batch by batch; there may be more or fewer."""
        settings = _call_settings(node, service, options)
        returned = _schema(schema)
        work = self._work(settings, check_columns(df.columns), returned)
        return df.mapInArrow(map_function(work), returned)

    def udf(
        self, node: str, service: str, returns: str, *, columns: Sequence[str], **options: Any
    ) -> Callable[..., Column]:
        """A function of columns for ``select`` and ``withColumn``; for SQL give it to ``spark.udf.register``.

        Its arguments, by position, are called ``columns`` on the service's side; ``returns`` is one type: ``string``.
        """
        from pyspark.sql.functions import arrow_udf

        work = self._work(_call_settings(node, service, options), check_columns(columns), _schema(f"value {returns}"))
        made: Callable[..., Column] = arrow_udf(udf_function(work), returns)
        return made

    def _work(self, call: CallSettings, columns: tuple[str, ...], returned: StructType) -> Work:
        """Raises for what can be known before a job runs: the node is there, allows this job, has the service."""
        targets = Targets(self._node, call)
        known = self._node.services(targets.take())
        if call.service not in known:
            raise ServiceNotFoundError(
                f"{call.node} has no service {call.service!r}; it has {', '.join(known) or 'none'}"
            )
        return Work(self._settings, call, columns, _arrow(returned), self._counts)


def _call_settings(node: str, service: str, options: dict[str, Any]) -> CallSettings:
    known = [one.name for one in fields(CallSettings)][2:]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigurationError(f"there is no option {unknown[0]!r}; there are {', '.join(known)}")
    return CallSettings(node, service, **options)


def _schema(ddl: str) -> StructType:
    from pyspark.sql.types import StructType

    try:
        return StructType.fromDDL(ddl)
    except Exception as error:  # pyspark wraps what its parser says in several classes
        raise ConfigurationError(f"{ddl!r} is no schema such as 'miles double, hours double'") from error


def _check_names(present: Sequence[str], asked: Sequence[str], returned: Sequence[str]) -> None:
    missing = [name for name in asked if name not in present]
    if missing:
        raise ConfigurationError(f"the DataFrame has no column {missing[0]!r}; it has {', '.join(present)}")
    twice = [name for name in returned if name in present]
    if twice:
        raise ConfigurationError(f"the DataFrame has a column {twice[0]!r} already: drop it, or return another name")


def _joined(present: StructType, returned: StructType) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([*present.fields, *returned.fields])


def _arrow(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema)


def _accumulator(spark: SparkSession) -> Any:
    from speed.spark.accumulator import AddCounts  # it needs pyspark

    return spark.sparkContext.accumulator(Counts(), AddCounts())
