"""What has no kind of its own travels in a form; what has none either is refused by name (V-2, V-3)."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pydantic
import pytest

from speed.columns import from_arrow, from_numpy, from_values, to_values
from speed.errors import UnserialisableError
from speed.wire.value import pack, unpack


class Colour(enum.Enum):
    RED = "red"
    DARK = (1, 2)


@dataclass
class Line:
    price: Decimal
    at: date


class Point(NamedTuple):
    x: int
    y: int


class Part(msgspec.Struct, rename="camel"):
    serial_number: uuid.UUID


class Order(pydantic.BaseModel):
    lines: list[Line]
    note: str | None = None


DAY = date(2026, 11, 25)
FORMS: list[tuple[Any, Any]] = [
    (Decimal("-12.50"), "-12.50"),
    (Decimal("1E+3"), "1000"),
    (DAY, "2026-11-25"),
    (time(23, 59, 59, 1), "23:59:59.000001"),
    (timedelta(days=-1, microseconds=5), -86399999995),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Colour.RED, "red"),
    (Colour.DARK, "DARK"),
    (frozenset({1}), [1]),
    (PurePosixPath("/data/a"), "/data/a"),
    (Line(Decimal("1.5"), DAY), {"price": "1.5", "at": "2026-11-25"}),
    (Point(1, 2), [1, 2]),
    (Part(uuid.UUID(int=1)), {"serialNumber": "00000000-0000-0000-0000-000000000001"}),
    (Order(lines=[Line(Decimal("1.5"), DAY)]), {"lines": [{"price": "1.5", "at": "2026-11-25"}], "note": None}),
    (np.int64(5), 5),
    (np.bool_(True), True),
    (np.float32(1.5), 1.5),
    (np.datetime64("2026-11-25T01:02:03"), datetime(2026, 11, 25, 1, 2, 3, tzinfo=timezone.utc)),
    (np.timedelta64(2, "ms"), 2000),
    (np.array([[1, 2]], "int16"), {"dtype": "int16", "shape": [1, 2], "data": b"\1\0\2\0"}),
    ({DAY: [Decimal(1)]}, {"2026-11-25": ["1"]}),
]


@pytest.mark.parametrize(("value", "form"), FORMS, ids=lambda value: type(value).__name__)
def test_what_has_no_kind_travels_in_its_form_wherever_it_stands(value: Any, form: Any) -> None:
    """V-2."""
    assert unpack(pack(value)) == form
    assert unpack(pack({"x": [value, {"y": value}]})) == {"x": [form, {"y": form}]}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (1j, "complex"),
        (range(3), "range"),
        (np.array(["a"]), "ndarray"),
        (np.datetime64("NaT"), "datetime64"),
        (object(), "object"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_neither_is_refused_by_its_type_and_its_place(value: Any, name: str) -> None:
    """W-17."""
    with pytest.raises(UnserialisableError, match=rf"value\.x\[1\] is of type {name}"):
        pack({"x": [DAY, value]})


class Broken(pydantic.BaseModel):
    def model_dump(self, **_: Any) -> Any:
        raise KeyError("secret")


def test_a_value_whose_own_code_fails_is_refused_without_what_it_said() -> None:
    """S-3."""
    with pytest.raises(UnserialisableError, match=r"^value cannot be read: KeyError$"):
        pack({"x": Broken()})


@pytest.mark.parametrize("value", [DAY, time(1), timedelta(1), uuid.UUID(int=1), Colour.RED, {1, 2}], ids=str)
def test_it_is_refused_in_a_column(value: Any) -> None:
    with pytest.raises(UnserialisableError, match=type(value).__name__):
        from_values([value])


def test_a_decimal_has_a_kind_of_column() -> None:
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
