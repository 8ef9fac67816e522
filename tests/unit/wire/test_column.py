"""Columns: C-1 to C-5, C-9."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import UnserialisableError, WireError
from speed.wire import column
from speed.wire.cells import RowMisfit, from_values, is_present, to_values
from speed.wire.column import KINDS, Column
from speed.wire.value import pack, unpack
from tests.vectors import case_name, load, value_of

COLUMNS = load("columns")

utc = timezone.utc
ROWS: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(),
    "bool": st.booleans(),
    "utf8": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    "binary": st.binary(max_size=8),
    "timestamp": st.datetimes(timezones=st.just(utc)).map(lambda instant: instant.replace(fold=0)),
    "decimal": st.decimals(1 - 10**9, 10**9 - 1, places=2, allow_nan=False),
    "date": st.dates(),
    "time": st.times().map(lambda of_day: of_day.replace(fold=0)),
    "local_timestamp": st.datetimes().map(lambda moment: moment.replace(fold=0)),
    "duration": st.integers(-(2**63), 2**63 - 1).map(lambda span: timedelta(microseconds=span)),
    "months": st.integers(-(2**31), 2**31 - 1),
}
ROWS["map"] = st.dictionaries(ROWS["utf8"], st.integers(0, 9), max_size=3)
ROWS["struct"] = st.fixed_dictionaries({"a": st.none() | ROWS["utf8"], "b": st.lists(ROWS["map"], max_size=3)}).map(
    lambda fields: dict(sorted(fields.items()))
)
columns = st.sampled_from(sorted(ROWS)).flatmap(
    lambda kind: (
        st.lists(st.none() | ROWS[kind], max_size=40)
        .filter(lambda rows: kind != "struct" or any(rows))  # without fields there is none
        .map(lambda rows: (kind, rows))
    )
) | st.sampled_from(sorted(ROWS.keys() - {"decimal", "months"})).flatmap(
    lambda kind: st.lists(st.none() | st.lists(st.none() | ROWS[kind], max_size=3), max_size=9).map(
        lambda rows: ("list", rows)
    )
)


@pytest.mark.parametrize("case", COLUMNS["valid"], ids=case_name)
def test_a_published_column_is_read_and_written_alike(case: dict[str, Any]) -> None:
    """C-1 to C-4."""
    data, rows = bytes.fromhex(case["hex"]), [value_of(row) for row in case["rows"]]
    read = unpack(data)
    assert (read.kind, read.precision, read.scale) == (case["kind"], case["precision"], case["scale"])
    assert read.type_name == case["type"]
    assert repr(to_values(read)) == repr(rows)
    assert pack(from_values(rows, case["kind"], precision=case["precision"], scale=case["scale"])) == data


@pytest.mark.parametrize("case", COLUMNS["also_read"], ids=case_name)
def test_what_a_writer_would_not_write_is_read_where_the_rules_allow_it(case: dict[str, Any]) -> None:
    """C-4."""
    assert to_values(unpack(bytes.fromhex(case["hex"]))) == [value_of(row) for row in case["rows"]]


@pytest.mark.parametrize("case", COLUMNS["invalid"], ids=case_name)
def test_bytes_that_are_no_column_are_refused(case: dict[str, str]) -> None:
    """C-5."""
    with pytest.raises(WireError) as refusal:
        unpack(bytes.fromhex(case["hex"]))
    assert refusal.value.reason == "BAD_PAYLOAD"


@given(columns)
def test_every_column_is_read_back(kind_and_rows: tuple[str, list[Any]]) -> None:
    """C-2 to C-4, wherever a value may stand (C-1)."""
    kind, rows = kind_and_rows
    made = from_values(rows, kind, precision=11, scale=2)
    read = unpack(pack({"columns": [made]}))["columns"][0]
    assert repr(to_values(read)) == repr(rows)
    assert is_present(read) == [row is not None for row in rows]


@given(columns, st.data())
def test_a_changed_column_is_refused_or_is_a_whole_column(kind_and_rows: tuple[str, list[Any]], data: Any) -> None:
    """C-5: whatever passes can be read to its last row."""
    kind, rows = kind_and_rows
    body = bytearray(column.encode(from_values(rows, kind, precision=11, scale=2)))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = column.decode(bytes(body))
    except ValueError:
        return
    assert column.encode(read) == body
    try:
        assert len(to_values(read)) == read.rows
    except RowMisfit as misfit:  # a moment beyond the years of its reader, a key twice
        assert misfit.row < read.rows


@pytest.mark.parametrize("kind", KINDS.values())
def test_parts_lie_where_a_processor_wants_them(kind: str) -> None:
    """C-2: each part begins at a multiple of 8 bytes."""
    rows = {"bool": True, "utf8": "a", "binary": b"a", "timestamp": datetime(2020, 1, 1, tzinfo=utc), "decimal": 1}
    rows |= {
        "date": date(2020, 1, 1),
        "time": time(1),
        "local_timestamp": datetime.fromisoformat("2020-01-01"),
        "duration": timedelta(1),
    }
    rows |= {"list": [1], "struct": {"a": 1}, "map": {1: 1}}
    body = column.encode(from_values([rows.get(kind, 1), None, rows.get(kind, 1)], kind))
    read = column.decode(body)
    assert len(body) % 8 == 0
    assert body.find(bytes(read.data)) % 8 == 0


@pytest.mark.parametrize(
    ("rows", "kind", "says"),
    [
        ([1, "a"], None, "row 1 is of type str in a column of int64"),
        ([True, 1], None, "row 1 is of type int in a column of bool"),
        ([1, True], None, "row 1 is of type bool in a column of int64"),
        ([None, 2**63], "int64", "row 1 does not fit into a column of int64"),
        (["\ud800"], None, "row 0 does not fit into a column of utf8"),
        ([datetime(2020, 1, 1)], "timestamp", "row 0 does not fit into a column of timestamp"),  # noqa: DTZ001
        ([Decimal("1e-39")], None, "row 0 does not fit into a column of decimal"),
        ([Decimal(10) ** 38], None, r"row 0 does not fit into a decimal\(38, 0\)"),
        ([Decimal("NaN")], None, "row 0 does not fit into a column of decimal"),
        ([datetime(2020, 1, 1, tzinfo=utc)], "local_timestamp", "row 0 does not fit into a column of local_timestamp"),
        ([time(1, tzinfo=utc)], None, "row 0 does not fit into a column of time"),
        ([2**31], "months", "row 0 does not fit into a column of months"),
        ([{1}], None, "a column of set has no kind: give one"),
        ([[1], [2, "a"]], None, "row 1 holds what is of type str in a column of int64"),
        ([{1: [1]}, {1: ["a"]}], None, "row 1 holds what holds what is of type str in a column of int64"),
        ([{"a": 1}, {None: 1}], "map", "row 1 has a key that is null"),
        ([{"a": 1}, {1: 1}], "struct", "row 1 has a key that is no text, and no name of a field"),
        ([{}], "struct", "a column of structs has at least one field"),
        ([0.5, 2**53 + 1], "float64", "row 1 does not fit into a column of float64"),
        ([1], "int32", "no column is of kind 'int32': use one of int64"),
    ],
)
def test_a_row_that_does_not_fit_is_named(rows: list[Any], kind: str | None, says: str) -> None:
    """W-17: on the sender's side, and nothing is converted silently."""
    with pytest.raises(UnserialisableError, match=says):
        from_values(rows, kind)


def nested(depth: int) -> Any:
    return 1 if depth == 1 else [nested(depth - 1)]


def test_a_column_in_32_others_is_the_last_one_that_travels() -> None:
    """C-9: deeper ones are refused where they are made, one that holds itself too."""
    assert to_values(unpack(pack(from_values([nested(32)])))) == [nested(32)]
    endless: list[Any] = []
    endless.append(endless)
    made = from_values([nested(32)])
    for deep in (lambda: from_values([nested(33)]), lambda: from_values(endless)):
        with pytest.raises(UnserialisableError, match="nested deeper than 32"):
            deep()
    with pytest.raises(UnserialisableError, match="nested deeper than 32"):
        column.encode(Column("struct", 1, memoryview(b""), children=(made,), names=("a",)))


def test_a_struct_of_more_fields_than_a_column_has_inside_is_refused() -> None:
    """C-9: before any of them is read."""
    names = column.encode(from_values([str(number) for number in range(65_537)]))
    with pytest.raises(ValueError, match="without names of fields, or with too many"):
        column.decode(column.encode(Column("struct", 0, memoryview(b""), children=(), names=("a",)))[:8] + names)


def test_what_lies_in_a_null_row_is_never_read() -> None:
    """C-4: a date that Python does not have, a key twice."""
    beyond = replace(from_values([date(1, 1, 1)]), data=memoryview(pack_days(-(2**31))))
    a_struct = Column("struct", 1, memoryview(b""), memoryview(b"\0"), children=(beyond,), names=("day",))
    assert to_values(a_struct) == [None]
    assert to_values(replace(from_values([[1]]), validity=memoryview(b"\0"), children=(beyond,))) == [None]
    twice = replace(from_values([{1: 1, 2: 2}]), children=(from_values([1, 1]), from_values([1, 2])))
    assert to_values(replace(twice, validity=memoryview(b"\0"))) == [None]
    for bad, why in ((beyond, "a date beyond the years 1 to 9999"), (twice, "has a key twice")):
        with pytest.raises(RowMisfit, match=why):
            to_values(bad)


def pack_days(days: int) -> bytes:
    return days.to_bytes(4, "little", signed=True)


def test_a_column_shows_no_content() -> None:
    """Columns are payload: they stay out of logs."""
    assert repr(from_values(["secret"])) == "<speed.Column utf8 rows=1>"
    assert isinstance(from_values(["secret"]), Column)


def test_a_column_shows_its_kind_and_length_and_never_its_values() -> None:
    """No payload in a log."""
    made = from_values(["secret", None])
    assert repr(made) == "<speed.Column utf8 rows=2>"
    assert len(made) == 2
