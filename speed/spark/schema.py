"""The columns that go to a service and those that it promises: what can be said about them before a job runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from speed.errors import ConfigurationError
from speed.spark.settings import CallSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructField, StructType

_ARROW = {
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool",
    "string": "string",
    "binary": "binary",
}
"""Names of types in Spark and in Arrow; timestamps and decimals have parameters. No other type becomes a column."""
_ADVICE = {
    "date": "cast it to a timestamp or a string",
    "timestamp_ntz": "cast it to timestamp, in the time zone of the session",
}
_OTHERWISE = "use numbers, booleans, strings, binary, timestamps or decimals"


def promised_schema(ddl: str, call: CallSettings, *, exact_case: bool = False) -> StructType:
    """The columns of a DDL. Raises ConfigurationError for anything else, and for what no answer could hold.

    Names that differ in case alone are one name, as to Spark, unless ``exact_case``.
    """
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(ddl)
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
    present: Sequence[str], asked: Sequence[str], returned: Sequence[str], *, exact_case: bool = False
) -> None:
    """Raises ConfigurationError for a column that is not there, or would be there twice."""
    missing = [name for name in asked if name not in present]
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
    import pyarrow as pa
    from pyspark.sql.types import DecimalType

    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if kind.typeName() == "timestamp":
        return pa.timestamp("us", tz="UTC")
    return pa.type_for_alias(_ARROW[kind.typeName()])


def _check_type(field: StructField, cannot: str) -> None:
    try:
        _arrow(field.dataType)
    except KeyError:
        kind = field.dataType.simpleString()
        advice = _ADVICE.get(kind, _OTHERWISE)
        raise ConfigurationError(f"column {field.name!r} is of type {kind}, which {cannot}: {advice}") from None
