"""Services called with columns: C-6, C-7."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import speed
from speed import columns
from speed.column_services import by_array, by_arrow, by_row
from speed.columns import from_arrow, from_values, to_arrow, to_values

_NUMBERS = itertools.count()


@pytest.fixture
def call(root: str) -> Iterator[Any]:
    """Call a service of another node."""
    with speed.Node("rules", root=root, allow=["etl"]) as rules, speed.Node("etl", root=root) as etl:
        yield lambda service, function, arguments: (
            rules.register(service, function),
            etl.call("rules", service, arguments),
        )[1]


def test_a_service_with_column_parameters_sees_the_columns(call: Any) -> None:
    """C-6: whole, and what is no column holds for all rows."""

    def scale(values: speed.Column, factor: float) -> speed.Column:
        return columns.from_numpy(columns.to_numpy(values) * factor)

    assert to_values(call("scale", scale, {"values": from_values([1.0, 2.5]), "factor": 2.0})) == [2.0, 5.0]


def test_a_service_of_arrays_takes_and_gives_arrays(call: Any) -> None:
    """C-6."""
    arguments = {"a": from_arrow(pa.array([3.0, 5.0])), "b": from_values([4.0, 12.0])}
    assert to_arrow(call("hypot", by_array(lambda a, b: np.hypot(a, b)), arguments)).to_pylist() == [5.0, 13.0]


def test_a_service_of_arrays_may_answer_with_several_columns(call: Any) -> None:
    """C-6."""
    answer = call("split", by_array(lambda a: {"half": a / 2, "whole": a > 1}), {"a": from_values([1.0, 2.0])})
    assert {name: to_values(column) for name, column in answer.items()} == {"half": [0.5, 1.0], "whole": [False, True]}


def test_a_service_of_rows_answers_batches_and_single_calls(call: Any) -> None:
    """C-6."""

    def owed(delay: int, miles: float | None) -> str | None:
        return None if miles is None else f"{delay}:{miles}"

    service = by_row(owed)
    batch = {"delay": from_values([1, 2]), "miles": from_values([None, 2.5])}
    assert to_values(call("owed", service, batch)) == [None, "2:2.5"]
    assert call("owed_one", service, {"delay": 1, "miles": 0.5}) == "1:0.5"


def test_a_service_of_rows_answers_no_row_with_a_column_of_its_kind(call: Any) -> None:
    """C-6: the annotation tells the kind where no row does."""

    def double(a: int) -> int:
        return 2 * a

    answer = call("double", by_row(double), {"a": from_values([], "int64")})
    assert (answer.kind, answer.rows) == ("int64", 0)


def test_the_first_bad_row_is_named(call: Any) -> None:
    """C-7."""

    def invert(a: float) -> float:
        return 1 / a

    with pytest.raises(speed.ExecutionFailedError, match="row 2: ZeroDivisionError") as failed:
        call("invert", by_row(invert), {"a": from_values([1.0, 2.0, 0.0, 0.0])})
    assert failed.value.details["row"] == 2


@contextmanager
def _python_nodes(root: str) -> Iterator[Any]:
    nodes = {"root": root, "engine": "python"}
    with speed.Node("rules", allow=["etl"], **nodes) as rules, speed.Node("etl", **nodes) as etl:
        yield lambda function, arguments: (rules.register("rows", function), etl.call("rules", "rows", arguments))[1]


def _refused(call: Any, rows: list[Any], function: Any) -> speed.CallError:
    with pytest.raises(speed.CallError) as failed:
        call(f"rows_{next(_NUMBERS)}", by_row(function), {"a": from_values(rows)})
    return failed.value


def test_a_column_that_begins_with_an_integer_and_goes_on_with_a_fraction_names_that_row(call: Any) -> None:
    """C-8: the kind is that of the first value."""
    error = _refused(call, [1.0, 2.5], lambda a: int(a) if a == 1 else a)
    assert (error.code, error.details) == ("EXECUTION_FAILED", {"row": 1})
    assert "row 1: the result is of type float in a column of int64" in str(error)


def test_a_row_that_fits_no_column_is_named(call: Any) -> None:
    """C-8."""
    answers: dict[int, Any] = {0: None, 1: 1j}
    assert _refused(call, [0, 1], lambda a: answers[a]).details == {"row": 1}
    assert _refused(call, [0, 1], lambda a: {"x": a} if a == 0 else a).details == {"row": 1}
    assert _refused(call, [0, 1], lambda a: {"x": a, a: 1}).details == {"row": 0}
    assert _refused(call, [0, 1], lambda a: {"x": 0.5 if a == 0 else "text"}).details == {"row": 1}


def test_an_integer_that_a_float_cannot_hold_names_its_row(call: Any) -> None:
    """C-8: no digit is lost; 2**63 is a float64, 2**53 + 1 is none."""
    with pytest.raises(speed.UnserialisableError, match="row 2 does not fit into a column of float64"):
        from_values([0.5, 2**63, 2**53 + 1])
    error = _refused(call, [1, 2], lambda a: 0.5 if a == 1 else 2**53 + 1)
    assert error.details == {"row": 1}


def test_an_error_that_a_row_answers_with_names_the_row(call: Any) -> None:
    """C-8: answered or raised, with the contract's code or one of the service."""

    def answer(a: str) -> Any:
        if a == "exit":
            raise SystemExit(3)
        if a == "raised":
            raise speed.InvalidArgumentsError("no", {"argument": "a"})
        return 0 if a == "good" else speed.Response.error(a, "no", {"why": "x"})

    for bad, code, details in (
        ("EXECUTION_FAILED", "EXECUTION_FAILED", {"why": "x", "row": 1}),
        ("INVALID_ARGUMENTS", "INVALID_ARGUMENTS", {"why": "x", "row": 1}),
        ("raised", "INVALID_ARGUMENTS", {"argument": "a", "row": 1}),
        ("TIMEOUT", "EXECUTION_FAILED", {"why": "x", "row": 1}),
        ("exit", "EXECUTION_FAILED", {"exception": "SystemExit", "row": 1}),
    ):
        with pytest.raises(speed.CallError, match="row 1: ") as failed:
            call(f"answer_{bad}", by_row(answer), {"a": from_values(["good", bad, bad])})
        assert (failed.value.code, failed.value.details) == (code, details)


def test_a_code_of_the_service_names_the_row(root: str) -> None:
    """C-8."""
    with pytest.raises(speed.ApplicationError, match="row 1: none left") as failed, _python_nodes(root) as call:
        call(by_row(lambda a: a or speed.Response.error("OUT_OF_STOCK", "none left")), {"a": from_values([1, 0])})
    assert (failed.value.code, failed.value.details) == ("OUT_OF_STOCK", {"row": 1})


def test_a_call_that_a_row_made_is_the_rows_failure(call: Any) -> None:
    """C-8, S-20."""
    inner = speed.InvalidArgumentsError("no")
    inner.node, inner.service = "stock", "find"

    def find(a: int) -> int:
        raise inner

    error = _refused(call, [1], find)
    assert error.details == {"cause": "INVALID_ARGUMENTS", "node": "stock", "service": "find", "row": 0}
    assert error.code == "EXECUTION_FAILED"


def test_rows_of_nulls_alone_and_rows_with_other_keys_make_columns(call: Any) -> None:
    """C-8: float64, and null where a row lacks the key."""
    answer = call("nulls", by_row(lambda a: None), {"a": from_values([1, 2])})
    assert (answer.kind, to_values(answer)) == ("float64", [None, None])
    some = {1: {"x": 1}, 2: None, 3: {"y": "t"}}
    answer = call("keys", by_row(lambda a: some[a]), {"a": from_values([1, 2, 3])})
    assert {name: to_values(column) for name, column in answer.items()} == {
        "x": [1, None, None],
        "y": [None, None, "t"],
    }


def test_a_null_where_none_is_declared_is_refused(call: Any) -> None:
    """C-7: for rows and for arrays."""

    def double(a: int) -> int:
        return 2 * a

    def doubled(a: np.ndarray[Any, Any]) -> Any:
        return 2 * a

    for service, function in (("rows", by_row(double)), ("arrays", by_array(doubled))):
        with pytest.raises(speed.InvalidArgumentsError) as refused:
            call(service, function, {"a": from_values([1, None])})
        assert refused.value.details["row"] == 1
        assert refused.value.details["argument"] == "a"


def test_integers_and_booleans_with_nulls_are_masked_arrays(call: Any) -> None:
    """V-3: to a function that declares them, or nothing."""

    def doubled(a: np.ma.MaskedArray[Any, Any]) -> Any:
        return 2 * a

    numbers = {"a": from_values([1, None, 3])}
    assert to_values(call("doubled", by_array(doubled), numbers)) == [2, None, 6]
    assert to_values(call("small", by_array(lambda a: a < 2), numbers)) == [True, None, False]
    assert to_values(call("whole", by_array(doubled), {"a": from_values([1, 2])})) == [2, 4]


def test_a_service_by_arrow_takes_a_record_batch_and_gives_one(call: Any) -> None:
    """C-6: nested columns and nulls as Arrow has them, what is no column by its name."""

    def totals(batch: pa.RecordBatch, factor: float = 1.0) -> pa.RecordBatch:
        sums = pa.array([None if row is None else sum(row) * factor for row in batch["prices"].to_pylist()])
        return pa.record_batch({"total": sums, "who": batch["who"]})

    who = pa.array([{"name": "a", "tags": ["x", None]}, None, {"name": None, "tags": []}])
    arguments = {"prices": from_values([[1.5, 2.5], None, []]), "who": from_arrow(who)}
    answer = call("totals", by_arrow(totals), {**arguments, "factor": 2.0})
    assert to_values(answer["total"]) == [8.0, None, 0]
    assert to_arrow(answer["who"]).equals(who)
    assert to_values(call("one", by_arrow(lambda batch: batch.column(0)), {"a": from_values([[1]])})) == [[1]]
    shorter = call("cut", by_arrow(lambda batch: batch.slice(1), any_rows=True), {"a": from_values([1, 2])})
    assert to_values(shorter["a"]) == [2]
    for wrong in ({**arguments, "facto": 1.0}, {**arguments, "batch": 1}):
        with pytest.raises(speed.InvalidArgumentsError):
            call(f"s{next(_NUMBERS)}", by_arrow(totals), wrong)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda batch: batch.slice(1), "the answer has 1 rows for a batch of 2"),
        (lambda batch: pa.record_batch([batch.column(0)] * 2, names=["b", "b"]), "the answer has a column twice"),
        (lambda batch: pa.record_batch({"b": pa.array([1, 2**63], pa.uint64())}), "row 1: the result 'b' is of uint64"),
        (lambda batch: pa.record_batch({"b": pa.nulls(2)}), "no representation"),
    ],
)
def test_an_answer_by_arrow_that_is_no_columns_is_the_services_failure(call: Any, function: Any, says: str) -> None:
    """C-6."""
    with pytest.raises(speed.ExecutionFailedError, match=says):
        call(f"s{next(_NUMBERS)}", by_arrow(function), {"a": from_values([1, 2])})


def test_a_function_by_arrow_without_a_parameter_is_refused() -> None:
    """S-9."""
    with pytest.raises(speed.ConfigurationError, match="a parameter for the batch"):
        by_arrow(lambda: None)


DAY = dt.date(2026, 11, 25)


def test_rows_have_the_values_of_python_for_what_is_nested_and_for_times(call: Any) -> None:
    """V-3: as arguments that hints name, and as answers."""

    def moved(day: dt.date, at: dt.time, by: dt.timedelta, tags: list[str | None], size: Size) -> dict[str, Any]:
        return {
            "day": day + by,
            "at": at,
            "local": dt.datetime.combine(day, at),
            "by": by,
            "tags": [*tags, None],
            "size": {"name": size.name, "prices": size.prices},
            "counts": {"a": 1, "b": None},
        }

    size = {"name": "x", "prices": {"a": 1.5}}
    arguments = {"day": DAY, "at": dt.time(1, 2), "by": dt.timedelta(1), "tags": ["a"], "size": size}
    answer = call(
        "moved", by_row(moved), {name: from_values([one], _KIND.get(name)) for name, one in arguments.items()}
    )
    assert {name: column.type_name for name, column in answer.items()} == {
        "day": "date",
        "at": "time",
        "local": "local_timestamp",
        "by": "duration",
        "tags": "list<utf8>",
        "size": "struct<name: utf8, prices: map<utf8, float64>>",
        "counts": "map<utf8, int64>",
    }
    assert to_values(answer["day"]) == [DAY + dt.timedelta(1)]
    assert to_values(answer["size"]) == [size]

    def following(day: dt.date, by: dt.timedelta) -> dt.date:
        return day + by

    assert call("single", by_row(following), {"day": "2026-11-25", "by": 86_400_000_000}) == "2026-11-26"


_KIND = {"size": "struct"}


@dataclass
class Size:
    name: str
    prices: dict[str, float]


def test_no_row_of_a_declared_kind_is_a_column_of_it(call: Any) -> None:
    """C-8."""

    def day(a: int) -> dt.date:
        return DAY

    def several(a: int) -> list[int]:
        return [a]

    assert call("day", by_row(day), {"a": from_values([], "int64")}).type_name == "date"
    assert call("list", by_row(several), {"a": from_values([], "int64")}).type_name == "list<float64>"


def test_columns_of_different_lengths_are_refused(call: Any) -> None:
    """C-6."""
    with pytest.raises(speed.InvalidArgumentsError, match="columns of different lengths"):
        call("add", by_array(lambda a, b: a + b), {"a": from_values([1]), "b": from_values([1, 2])})


def test_an_answer_of_another_length_is_the_services_failure(call: Any) -> None:
    """C-6."""
    with pytest.raises(speed.ExecutionFailedError, match="the answer has 1 rows for a batch of 2"):
        call("first", by_array(lambda a: a[:1]), {"a": from_values([1, 2])})


def test_a_message_may_carry_columns(root: str) -> None:
    """C-1: a column is a value like any other."""
    with speed.Node("a", root=root) as a, speed.Node("b", root=root, allow=["a"]) as b:
        a.send("b", {"prices": from_values([1.5, None])})
        message = b.receive(timeout=10)
        assert message is not None
        assert to_values(message.payload["prices"]) == [1.5, None]


def nothing(a: np.ndarray[Any, Any]) -> Any:
    return np.array([None] * len(a), object)


def masked(a: np.ndarray[Any, Any]) -> Any:
    return np.ma.masked_less(a, 2)


def several(a: int) -> Any:
    return {"a": a} if a > 1 else None


def empty(a: int) -> Any:
    return {"a": a} if a > 1 else {}


def digits(a: int) -> Decimal:
    return Decimal(10**29 + a)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (by_array(nothing), [None, None]),
        (by_array(masked), [None, 2]),
        (by_row(lambda a: None), [None, None]),
        (by_row(several), {"a": [None, 2]}),
        (by_row(empty), {"a": [None, 2]}),
        (by_row(digits), [Decimal(10**29 + 1), Decimal(10**29 + 2)]),
    ],
    ids=["an array of nulls", "a masked array", "rows of nulls", "maps", "empty maps", "decimals of 30 digits"],
)
def test_what_a_batch_has_never_decides_whether_it_fails(call: Any, service: Any, expected: Any) -> None:
    """C-8."""
    answer = call("service", service, {"a": from_values([1, 2], "int64")})
    found = {name: to_values(one) for name, one in answer.items()} if isinstance(answer, dict) else to_values(answer)
    assert found == expected


def test_a_batch_without_rows_is_answered_with_none(call: Any) -> None:
    for number, service in enumerate((by_array(nothing), by_row(several), by_row(digits))):
        assert to_values(call(f"service{number}", service, {"a": from_values([], "int64")})) == []


def test_an_instant_that_the_language_has_not_is_an_argument_that_its_row_does_not_take(call: Any) -> None:
    """V-4."""
    beyond = from_arrow(pa.array([0, -62_135_596_800_000_001]).cast(pa.timestamp("us", "UTC")))
    with pytest.raises(speed.InvalidArgumentsError, match="row 1: argument 'at' is an instant beyond") as refused:
        call("service", by_row(lambda at: at), {"at": beyond})
    assert refused.value.details == {"argument": "at", "row": 1}


def test_a_number_that_an_array_cannot_answer_names_its_row_and_column(call: Any) -> None:
    """V-4."""
    service = by_array(lambda a: {"b": a.astype(np.longdouble) * np.longdouble("1e4000")})
    with pytest.raises(speed.ExecutionFailedError, match="row 1: the result 'b' does not fit") as failed:
        call("service", service, {"a": from_values([0.0, 1.0])})
    assert failed.value.details == {"row": 1}
