"""What has no kind of its own is refused by name: in values, in columns and as the type of a parameter (V-2, V-3)."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from speed.columns import from_arrow, from_numpy, from_values, to_values
from speed.core.services import FunctionService
from speed.errors import ConfigurationError, UnserialisableError
from speed.wire.value import pack, unpack


class Colour(enum.Enum):
    RED = 1


WITHOUT_A_KIND = [
    date(2026, 11, 25),
    time(1),
    timedelta(1),
    uuid.UUID(int=1),
    Colour.RED,
    {1, 2},
]
named = pytest.mark.parametrize("value", WITHOUT_A_KIND, ids=lambda value: type(value).__name__)


@named
def test_it_is_refused_as_a_value(value: Any) -> None:
    with pytest.raises(UnserialisableError, match=type(value).__name__):
        pack({"x": value})


@named
def test_it_is_refused_in_a_column(value: Any) -> None:
    with pytest.raises(UnserialisableError, match=type(value).__name__):
        from_values([value])


@pytest.mark.parametrize("kind", [set, complex, range, np.ndarray])
def test_a_type_without_a_form_is_refused_as_that_of_a_parameter(kind: type) -> None:
    def service(x: Any) -> None: ...

    service.__annotations__["x"] = kind
    with pytest.raises(ConfigurationError, match="which cannot be checked"):
        FunctionService("service", service)


def test_a_decimal_is_a_value_of_columns_alone() -> None:
    with pytest.raises(UnserialisableError, match="Decimal"):
        pack(Decimal("1.5"))
    assert to_values(from_values([Decimal("1.5"), 2])) == [Decimal("1.5"), Decimal(2)]


def test_a_moment_needs_a_zone() -> None:
    with pytest.raises(UnserialisableError, match="without a time zone"):
        pack(datetime(2026, 11, 25))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(UnserialisableError, match="row 0"):
        from_values([datetime(2026, 11, 25)])  # noqa: DTZ001


@pytest.mark.parametrize(
    "kind",
    [
        pa.date32(),
        pa.time64("us"),
        pa.duration("us"),
        pa.timestamp("us"),
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.null(),
    ],
    ids=str,
)
def test_an_arrow_type_without_a_column_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(UnserialisableError, match="has no representation: cast it first") as refused:
        from_arrow(pa.array([None], kind))
    assert str(kind) in str(refused.value)


def test_a_moment_of_nanoseconds_is_rounded_down_before_1970_too() -> None:
    """V-4."""
    before = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
    assert to_values(from_numpy(np.array([-1], "datetime64[ns]"))) == [before]
    with pytest.raises(UnserialisableError, match="does not fit into"):
        from_arrow(pa.array([-1], pa.timestamp("ns", "UTC")))


LISTS: list[tuple[Callable[[Any], Any], Any]] = [(list, [1, "a", None]), (tuple, [1, "a", None])]


@pytest.mark.parametrize(("make", "read"), LISTS)
def test_lists_and_tuples_are_read_as_lists(make: Callable[[Any], Any], read: Any) -> None:
    """V-1."""
    assert unpack(pack(make(read))) == read
