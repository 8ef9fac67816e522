"""Services called with columns: C-6, C-7."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import speed
from speed import columns
from speed.column_services import by_array, by_row
from speed.columns import from_arrow, from_values, to_arrow, to_values


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


def test_a_null_where_none_is_declared_is_refused(call: Any) -> None:
    """C-7: for rows and for arrays."""

    def double(a: int) -> int:
        return 2 * a

    for service, function in (("rows", by_row(double)), ("arrays", by_array(lambda a: 2 * a))):
        with pytest.raises(speed.InvalidArgumentsError) as refused:
            call(service, function, {"a": from_values([1, None])})
        assert refused.value.details["row"] == 1
        assert refused.value.details["argument"] == "a"


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
