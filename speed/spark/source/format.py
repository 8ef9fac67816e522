"""The format ``speed``: Spark's Python data source for journals, call logs, and messages and events to nodes.

    from speed.spark import register
    register(spark)
    spark.readStream.format("speed").option("root", …).option("topic", "flights.*").load()
    df.write.format("speed").mode("append").option("root", …).option("node", "billing").save()

Options are checked while Spark analyses the query (``options``). Where the package ``pyspark_speed`` can be
imported by Spark's own workers, it finds the format by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from speed.errors import ConfigurationError
from speed.spark.source.hosted import HostedReader, HostedStream
from speed.spark.source.options import ReadOptions, WriteOptions, check_names, read_options, write_options
from speed.spark.source.read import BatchReader
from speed.spark.source.rows import check_rows
from speed.spark.source.schema import check_schema, default_schema
from speed.spark.source.stream import StreamReader
from speed.spark.source.topic_rows import check_topic_rows
from speed.spark.source.write import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

FORMAT = "speed"


class SpeedDataSource(DataSource):  # type: ignore[misc, unused-ignore]
    """What Spark makes for each use of the format; all state is in the options."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        check_names(options)
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> str:
        """What reading gives if the program asks for no schema. Raises ConfigurationError."""
        return default_schema(read_options(self.options, streaming=None))

    def reader(self, schema: StructType) -> BatchReader | HostedReader:
        """For ``spark.read``. Raises ConfigurationError."""
        options = read_options(self.options, streaming=False)
        return (HostedReader if options.hosted else BatchReader)(options, _arrow(schema, options))

    def streamReader(self, schema: StructType) -> StreamReader | HostedStream:  # noqa: N802 - Spark's name
        """For ``spark.readStream``. Raises ConfigurationError."""
        options = read_options(self.options)
        return (HostedStream if options.hosted else StreamReader)(options, _arrow(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For ``df.write``. Raises ConfigurationError."""
        if overwrite:
            raise ConfigurationError("mode is overwrite: what was sent cannot be taken back; use mode('append')")
        return BatchWriter(self._writing(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """For ``df.writeStream``. Raises ConfigurationError."""
        if overwrite:
            raise ConfigurationError(
                "the output mode is complete: what was sent cannot be taken back; use append or update"
            )
        return StreamWriter(self._writing(schema))

    def _writing(self, schema: StructType) -> WriteOptions:
        options = write_options(self.options)
        if options.durable_topic:
            check_topic_rows(schema)
        else:
            check_rows(schema, topic_is_needed=not (options.node or options.topic))
        return options


def _arrow(schema: StructType, options: ReadOptions) -> pa.Schema:
    """The Arrow schema that Spark expects for ``schema``."""
    from pyspark.sql.pandas.types import to_arrow_schema

    check_schema(schema, options)
    return to_arrow_schema(schema, timezone="UTC")
