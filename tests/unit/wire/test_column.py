"""Columns: C-1 to C-5."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import UnserialisableError, WireError
from speed.wire import column
from speed.wire.column import KINDS, Column, from_values, is_present, to_values
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
}
columns = st.sampled_from(sorted(ROWS)).flatmap(
    lambda kind: st.lists(st.none() | ROWS[kind], max_size=40).map(lambda rows: (kind, rows))
)


@pytest.mark.parametrize("case", COLUMNS["valid"], ids=case_name)
def test_a_published_column_is_read_and_written_alike(case: dict[str, Any]) -> None:
    """C-1 to C-4."""
    data, rows = bytes.fromhex(case["hex"]), [value_of(row) for row in case["rows"]]
    read = unpack(data)
    assert (read.kind, read.precision, read.scale) == (case["kind"], case["precision"], case["scale"])
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
    if read.kind != "timestamp":  # the years of a timestamp are those of its reader
        assert len(to_values(read)) == read.rows


@pytest.mark.parametrize("kind", KINDS.values())
def test_parts_lie_where_a_processor_wants_them(kind: str) -> None:
    """C-2: each part begins at a multiple of 8 bytes."""
    rows = {"bool": True, "utf8": "a", "binary": b"a", "timestamp": datetime(2020, 1, 1, tzinfo=utc), "decimal": 1}
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
        ([datetime(2020, 1, 1)], None, "row 0 does not fit into a column of timestamp"),  # noqa: DTZ001
        ([Decimal("1e-39")], None, "row 0 does not fit into a column of decimal"),
        ([Decimal(10) ** 38], None, r"row 0 does not fit into a decimal\(38, 0\)"),
        ([Decimal("NaN")], None, "row 0 does not fit into a column of decimal"),
        ([[1]], None, "a column of list has no kind: give one"),
        ([0.5, 2**53 + 1], "float64", "row 1 does not fit into a column of float64"),
        ([1], "int32", "no column is of kind 'int32': use one of int64"),
    ],
)
def test_a_row_that_does_not_fit_is_named(rows: list[Any], kind: str | None, says: str) -> None:
    """W-17: on the sender's side, and nothing is converted silently."""
    with pytest.raises(UnserialisableError, match=says):
        from_values(rows, kind)


def test_a_column_shows_no_content() -> None:
    """Columns are payload: they stay out of logs."""
    assert repr(from_values(["secret"])) == "<speed.Column utf8 rows=1>"
    assert isinstance(from_values(["secret"]), Column)


def test_a_column_shows_its_kind_and_length_and_never_its_values() -> None:
    """No payload in a log."""
    made = from_values(["secret", None])
    assert repr(made) == "<speed.Column utf8 rows=2>"
    assert len(made) == 2
