"""Columns from and to numpy and Arrow: C-2 to C-4."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed import columns
from speed.errors import UnserialisableError
from speed.wire import column
from speed.wire.value import pack, unpack
from tests.vectors import case_name, load

COLUMNS = load("columns")

utc = timezone.utc
INSTANT = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=utc)
ARRAYS: dict[str, pa.Array] = {
    "int64": pa.array([1, None, -(2**63)]),
    "int64 without nulls": pa.array([1, 2, 3]),
    "float64": pa.array([1.5, None, float("inf")]),
    "bool": pa.array([True, None, False] * 7),
    "utf8": pa.array(["a", None, "Größe 😀", ""]),
    "binary": pa.array([b"\xff", None, b""]),
    "timestamp": pa.array([INSTANT, None], pa.timestamp("us", tz="UTC")),
    "decimal": pa.array([Decimal("1.25"), None, Decimal("-99.00")], pa.decimal128(9, 2)),
    "date": pa.array([date(2020, 1, 1), None, date(1, 1, 1)]),
    "time": pa.array([time(23, 59, 59, 999999), None], pa.time64("us")),
    "local_timestamp": pa.array([INSTANT.replace(tzinfo=None), None], pa.timestamp("us")),
    "duration": pa.array([timedelta(-1), None, timedelta.max // 1000]),
    "list": pa.array([["a", None], None, [], ["ß"]]),
    "struct": pa.array([{"a": 1, "b": [True]}, None, {"a": None, "b": []}]),
    "map": pa.array([[("a", 1.5), ("b", None)], None, [], [("c", 2.0)]], pa.map_(pa.string(), pa.float64())),
    "empty lists": pa.array([], pa.list_(pa.int64())),
    "empty": pa.array([], pa.int64()),
    "empty utf8": pa.array([], pa.string()),
    "only nulls": pa.array([None, None], pa.float64()),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_arrow_array_is_a_column_and_an_arrow_array_again(name: str) -> None:
    """C-2, C-3."""
    array = ARRAYS[name]
    made = columns.from_arrow(array)
    assert columns.to_values(made) == rows_of(array)
    assert columns.to_arrow(column.decode(column.encode(made))).equals(array)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("start", [1, 3, 8])
def test_a_slice_of_an_arrow_array_is_the_column_of_its_rows(name: str, start: int) -> None:
    """C-4: bits and offsets of a slice begin elsewhere."""
    array = ARRAYS[name][start:]
    made = columns.from_arrow(array)
    assert columns.to_values(column.decode(column.encode(made))) == rows_of(array)


SCALARS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): st.timedeltas(timedelta(-(10**8)), timedelta(10**8)),
    pa.decimal128(38, 2): st.decimals(-(10**9), 10**9, places=2, allow_nan=False),
}
Typed = tuple[pa.DataType, st.SearchStrategy[Any]]


def list_of(items: Typed) -> Typed:
    return pa.list_(items[0]), st.lists(st.none() | items[1], max_size=3)


def map_of(items: Typed) -> Typed:
    entries = st.dictionaries(st.integers(0, 9), st.none() | items[1], max_size=3)
    return pa.map_(pa.int64(), items[0]), entries.map(lambda held: list(held.items()))


def struct_of(fields: list[Typed]) -> Typed:
    names = [f"f{number}" for number in range(len(fields))]
    values = {name: st.none() | field[1] for name, field in zip(names, fields, strict=True)}
    return pa.struct([(name, field[0]) for name, field in zip(names, fields, strict=True)]), st.fixed_dictionaries(
        values
    )


typed: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(list(SCALARS.items())),
    lambda inner: inner.map(list_of) | inner.map(map_of) | st.lists(inner, min_size=1, max_size=3).map(struct_of),
    max_leaves=5,
)
arrays = typed.flatmap(lambda one: st.lists(st.none() | one[1], max_size=20).map(lambda rows: pa.array(rows, one[0])))


def rows_of(array: pa.Array) -> list[Any]:
    """What Python's rows are: maps are dicts."""
    return array.to_pylist(maps_as_pydicts="strict")


@given(arrays, st.integers(0, 20), st.integers(0, 20))
def test_every_arrow_array_and_every_slice_of_it_comes_back(array: pa.Array, start: int, length: int) -> None:
    """C-9: nested in any way, with nulls anywhere."""
    for one in (array, array[start : start + length]):
        made = columns.from_arrow(one)
        read = column.decode(column.encode(made))
        back = columns.to_arrow(read)
        back.validate(full=True)
        assert back.equals(one)
        assert columns.to_values(read) == rows_of(one)


@given(arrays, st.data())
def test_an_altered_nested_column_is_refused_or_is_an_array_that_arrow_takes(array: pa.Array, data: Any) -> None:
    """C-5: nothing that passes is read beyond its end."""
    body = bytearray(column.encode(columns.from_arrow(array)))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = column.decode(bytes(body))
    except ValueError:
        return
    assert column.encode(read) == body
    try:
        columns.to_arrow(read).validate(full=True)
    except pa.ArrowInvalid as error:  # values of a type, not its parts
        assert any(why in str(error) for why in ("out of range", "does not fit in precision", "outside", "range of"))


def test_nested_arrow_values_are_not_copied() -> None:
    """C-9: the buffers are Arrow's own, whatever may be null to its type, and a part of the rows too."""
    field = pa.field("element", pa.struct([pa.field("a", pa.int64(), nullable=False)]), nullable=False)
    array = pa.array([[{"a": number}] for number in range(10)], pa.list_(field))
    made = columns.from_arrow(array)
    (numbers,) = made.children[0].children
    assert np.frombuffer(numbers.data, np.int64).ctypes.data == array.buffers()[-1].address
    assert columns.to_arrow(made).buffers()[-1].address == array.buffers()[-1].address


@pytest.mark.parametrize("case", COLUMNS["valid"], ids=case_name)
def test_a_published_column_is_an_arrow_array_and_a_column_again(case: dict[str, Any]) -> None:
    """C-3, C-9: but for months, of which pyarrow has no array."""
    read = unpack(bytes.fromhex(case["hex"]))
    array = columns.to_arrow(read)
    array.validate(full=True)
    if case["kind"] != "months":
        assert pack(columns.from_arrow(array)) == bytes.fromhex(case["hex"])


def test_arrow_values_are_not_copied() -> None:
    """C-3: the buffers are Arrow's own, there and back."""
    array = pa.array(range(1000))
    made = columns.from_arrow(array)
    assert np.frombuffer(made.data, np.int64).ctypes.data == array.buffers()[1].address
    assert columns.to_arrow(made).buffers()[1].address == array.buffers()[1].address


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1, 2], pa.int8()), "int64"),
        (pa.array([1, None], pa.uint32()), "int64"),
        (pa.array([1.5], pa.float32()), "float64"),
        (pa.array(["a"], pa.large_string()), "utf8"),
        (pa.array([b"ab"], pa.binary(2)), "binary"),
        (pa.array([INSTANT.replace(microsecond=0)], pa.timestamp("s", tz="Europe/Berlin")), "timestamp"),
        (pa.chunked_array([[1, 2], [3]]), "int64"),
        (pa.array([date(2020, 1, 1)], pa.date64()), "date"),
        (pa.array([time(1, 2, 3)], pa.time32("s")), "time"),
        (pa.array([timedelta(1)], pa.duration("s")), "duration"),
        (pa.array([[1, 2], None], pa.large_list(pa.int8())), "list"),
        (pa.array([[1, 2], None], pa.list_(pa.int16(), 2)), "list"),
        (pa.array([{"a": "x"}], pa.struct([("a", pa.large_string())])), "struct"),
        (pa.array([Decimal("1.5")], pa.decimal256(38, 1)), "decimal"),
    ],
)
def test_a_narrower_arrow_type_is_widened(array: Any, kind: str) -> None:
    """C-3."""
    made = columns.from_arrow(array)
    assert (made.kind, columns.to_values(made)) == (kind, array.to_pylist())


@pytest.mark.parametrize(
    "array",
    [
        pa.array([None]),
        pa.array([[None]]),
        pa.array([{}], pa.struct([])),
        pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([1], pa.time64("ns")),
        pa.array([Decimal(10) ** 50], pa.decimal256(76, 0)),
        pa.array([[2**63]], pa.list_(pa.uint64())),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.array([2**63], pa.uint64()),
        pa.array([1], pa.timestamp("ns", tz="UTC")),
    ],
    ids=lambda array: str(array.type),
)
def test_an_arrow_column_that_would_change_is_refused(array: Any) -> None:
    """W-17: nothing is converted silently."""
    with pytest.raises(UnserialisableError):
        columns.from_arrow(array)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.5, np.nan]),
        np.array([1, -1]),
        np.arange(10)[::2],
        np.array([True] * 9),
        np.array(["2020-01-01", "NaT"], "M8[us]"),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array([1, "NaT"], "m8[us]"),
        np.array(["a", None, "b"], object),
        np.array([], float),
    ],
    ids=lambda array: f"{array.dtype} {len(array)}",
)
def test_a_numpy_array_is_a_column_and_a_numpy_array_again(array: np.ndarray[Any, Any]) -> None:
    """C-2, C-3."""
    read = columns.to_numpy(column.decode(column.encode(columns.from_numpy(array))))
    np.testing.assert_array_equal(read, array)


def test_nulls_are_what_numpy_says_for_them_or_an_error() -> None:
    """C-4: null is not NaN in a column; numpy has nothing else for it."""
    np.testing.assert_array_equal(columns.to_numpy(columns.from_values([1.0, None])), [1.0, np.nan])
    assert columns.to_numpy(columns.from_values(["a", None])).tolist() == ["a", None]
    for rows in ([1, None], [True, None]):
        masked = columns.to_numpy(columns.from_values(rows))
        assert isinstance(masked, np.ma.MaskedArray)
        assert masked.tolist() == rows
        assert columns.to_values(columns.from_numpy(masked)) == rows
    assert columns.to_numpy(columns.from_values([[1], None, {}][:2])).tolist() == [[1], None]
    assert columns.to_numpy(columns.from_values([3, None], "months")).tolist() == [3, None]
    assert columns.to_numpy(columns.from_values([time(1)])).tolist() == [time(1)]


@pytest.mark.parametrize("array", [np.zeros((2, 2)), np.array([2**63], np.uint64), np.array([1j]), np.array(1.0)])
def test_a_numpy_array_without_a_column_is_refused(array: np.ndarray[Any, Any]) -> None:
    """W-17."""
    with pytest.raises(UnserialisableError):
        columns.from_numpy(array)


@pytest.mark.parametrize("count", [8, 9])
def test_bits_fill_their_bytes_or_leave_zeros(count: int) -> None:
    """C-4."""
    made = columns.from_arrow(pa.array([True] * count))
    assert bytes(made.data) == (b"\xff" if count == 8 else b"\xff\x01")


def test_the_kind_of_a_column_is_known_before_its_values() -> None:
    """C-3."""
    assert columns.kind_of(pa.large_string()) == "utf8"
    with pytest.raises(UnserialisableError):
        columns.kind_of(pa.null())
    assert columns.kind_of(pa.list_(pa.date64())) == "list"
    with pytest.raises(UnserialisableError):
        columns.kind_of(pa.list_(pa.null()))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.ma.array([1, 2], mask=[False, True]), [1, None]),
        (np.ma.array([1.5, 2.0], mask=[True, False]), [None, 2.0]),
        (np.ma.array([True, False], mask=[False, True]), [True, None]),
        (np.ma.array(["a", "b"], mask=[False, True]), ["a", None]),
        (np.ma.array([2**63, 1], np.uint64, mask=[True, False]), [None, 1]),
        (np.ma.array(np.array([0, 1], "M8[s]"), mask=[False, True]), [datetime(1970, 1, 1, tzinfo=utc), None]),
        (np.ma.array([1, 2]), [1, 2]),
        (np.array([None, None], object), [None, None]),
        (np.array([], object), []),
    ],
    ids=lambda array: f"{type(array).__name__} {getattr(array, 'dtype', '')}",
)
def test_what_is_masked_is_null_and_so_are_nulls_alone(array: np.ndarray[Any, Any], expected: list[Any]) -> None:
    """V-3."""
    assert columns.to_values(columns.from_numpy(array)) == expected


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.array(["1", "1e4000"], np.longdouble), "row 1 does not fit into a column of float64"),
        (np.array([0, 300_000], "M8[Y]"), "row 1 does not fit into a column of timestamp"),
        (np.array([0, 2**40], "m8[W]"), "row 1 does not fit into a column of duration"),
        (np.array([0, 2**40], "M8[D]"), "row 1 does not fit into a column of date"),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_a_value_of_numpy_that_would_change_is_refused(array: np.ndarray[Any, Any], says: str) -> None:
    """V-4."""
    with pytest.raises(UnserialisableError, match=says):
        columns.from_numpy(array)


def test_a_longdouble_that_is_a_float_is_that_float() -> None:
    """V-4."""
    read = columns.to_values(columns.from_numpy(np.array(["0.5", "inf"], np.longdouble)))
    assert read == [0.5, float("inf")]


def test_an_instant_that_python_has_not_is_named_by_its_row() -> None:
    """V-4: years that a column holds, and a datetime does not; what stands for a null has no meaning."""
    beyond = pa.array([0, None, -62_135_596_800_000_001]).cast(pa.timestamp("us", "UTC"))
    with pytest.raises(UnserialisableError, match="row 2 is an instant beyond the years 1 to 9999"):
        columns.to_values(columns.from_arrow(beyond))
    assert columns.to_values(columns.from_arrow(beyond[:2])) == [datetime(1970, 1, 1, tzinfo=utc), None]


def test_text_in_arrow_that_is_not_utf8_is_named_by_its_row() -> None:
    """W-17: whichever engine sends it."""
    broken = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    for array, row in ((broken, 1), (broken[1:], 0)):
        with pytest.raises(UnserialisableError, match=f"row {row} is text that is not UTF-8"):
            columns.from_arrow(array)
    with pytest.raises(UnserialisableError, match=r"row 1 is of uint64 and does not fit into int64"):
        columns.from_arrow(pa.array([1, 2**63], pa.uint64()))
