"""Services of rows answer as published (C-7, C-8)."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from speed.column_services import by_row
from speed.core.services import Request, Response, run
from speed.wire.cells import from_values
from speed.wire.column import Column
from tests.vectors import case_name, load, value_of

ROWS = load("rows")
TYPES: dict[str, Any] = {"float64": float, "decimal": Decimal, "local_timestamp": datetime}
TYPES |= {"date": date, "time": time, "duration": timedelta}


def column_of(published: dict[str, Any]) -> Column:
    rows = [value_of(row) for row in published["rows"]]
    return from_values(rows, published["kind"], precision=published["precision"], scale=published["scale"])


def answer_of(request: Request, does: Any) -> Any:
    """What the service does for one row."""
    if not isinstance(does, dict):
        return value_of(does)
    ((what, content),) = does.items()
    if what == "echo":
        return request.get(content)
    if what == "take":
        return request.get(content, int)
    if what == "raises":
        raise ArithmeticError(content)
    if what == "says":
        return Response.error(*content)
    return value_of(does)


def answered(case: dict[str, Any]) -> Response:
    answers = case["answers"]

    def service(row: int, request: Request, **_: Any):  # type: ignore[no-untyped-def]
        return answer_of(request, answers[row])

    if case["declares"] is not None:
        service.__annotations__["return"] = TYPES.get(case["declares"])
    batch = {name: column_of(column) for name, column in case["arguments"].items()}
    batch["row"] = from_values(list(range(len(answers))))
    return run(
        by_row(service, kind="months" if case["declares"] == "months" else None),
        Request("rows", batch, "analytics", "request-1", 0),
    )


@pytest.mark.parametrize("case", ROWS["valid"], ids=case_name)
def test_answers_of_rows_become_columns_as_published(case: dict[str, Any]) -> None:
    expected = case["result"]
    answer = answered(case)
    assert answer.error_message == ""
    if "columns" in expected:
        assert list(answer.result.items()) == [(name, column_of(one)) for name, one in expected["columns"]]
    else:
        assert answer.result == column_of(expected)


@pytest.mark.parametrize("case", ROWS["invalid"], ids=case_name)
def test_the_first_bad_row_ends_a_batch_as_published(case: dict[str, Any]) -> None:
    answer, expected = answered(case), case["error"]
    assert (answer.error_code, answer.details["row"]) == (expected["code"], expected["row"])
    assert answer.error_message.startswith(expected["begins"])
    assert expected["names"] in answer.error_message
