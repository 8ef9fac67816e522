"""Codes of services, whose fault an error is, and rows, between every pair of languages (S-19, S-20, C-8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from speed.columns import from_values, to_values
from tests.interop.harness import Agent, AgentError
from tests.interop.languages import pairs
from tests.interop.pool import Agents

Between = Callable[..., tuple[Agent, Agent]]
ASKED = {"why": "asked"}


def refusal(caller: Agent, server: Agent, service: str, arguments: dict[str, Any]) -> AgentError:
    return caller.refusal("call", target=server.name, service=service, arguments=arguments)


@pytest.mark.parametrize("code", ["OUT_OF_STOCK", "X", "A9_", "A" * 64, "UNKNOWN_NODE"])
@pairs("calls")
def test_a_code_of_the_service_reaches_its_caller(between: Between, source: str, target: str, code: str) -> None:
    """S-19: with its details, and the service ran."""
    error = refusal(*between(source, target), "error", {"code": code})
    assert (error.code, error.details, error.execution) == (code, ASKED, "ran")


@pytest.mark.parametrize("code", ["", "out_of_stock", "1A", "A-B", "A" * 65, "app/A", "A\n", "ÄRGER"])
@pairs("calls")
def test_a_code_of_another_form_is_the_services_failure(between: Between, source: str, target: str, code: str) -> None:
    """S-19."""
    assert refusal(*between(source, target), "error", {"code": code}).code == "EXECUTION_FAILED"


@pairs("calls")
def test_arguments_that_a_service_calls_another_with_are_not_its_callers_fault(
    between: Between, agents: Agents, source: str, target: str
) -> None:
    """S-20."""
    caller, server = between(source, target)
    behind = agents.shared("serial", source)
    asked = {"node_name": behind.name, "service": "add", "arguments": {"a": 1}}
    error = refusal(caller, server, "relay", asked)
    assert error.code == "EXECUTION_FAILED"
    assert error.details == {"cause": "INVALID_ARGUMENTS", "node": behind.name, "service": "add"}


@pairs("calls")
def test_a_code_of_the_service_behind_is_the_cause(between: Between, agents: Agents, source: str, target: str) -> None:
    """S-20: without its prefix."""
    caller, server = between(source, target)
    behind = agents.shared("serial", source)
    asked = {"node_name": behind.name, "service": "error", "arguments": {"code": "OUT_OF_STOCK"}}
    error = refusal(caller, server, "relay", asked)
    assert error.code == "EXECUTION_FAILED"
    assert error.details == {"cause": "OUT_OF_STOCK", "node": behind.name, "service": "error"}


@pairs("calls")
def test_a_node_that_a_service_does_not_reach_is_named(between: Between, source: str, target: str) -> None:
    """S-20: a local error of its call."""
    asked = {"node_name": "nobody", "service": "add", "arguments": {}}
    error = refusal(*between(source, target), "relay", asked)
    assert error.code == "EXECUTION_FAILED"
    assert error.details == {"cause": "UNKNOWN_NODE", "node": "nobody", "service": "add"}


BAD_ROWS = {
    "refuse": ("INVALID_ARGUMENTS", ASKED),
    "code": ("OUT_OF_STOCK", ASKED),
    "fail": ("EXECUTION_FAILED", {}),
    "half": ("EXECUTION_FAILED", {}),
    "huge": ("EXECUTION_FAILED", {}),
    "text": ("EXECUTION_FAILED", {}),
    None: ("INVALID_ARGUMENTS", {}),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
@pairs("calls")
def test_the_first_bad_row_is_named(between: Between, source: str, target: str, bad: str | None) -> None:
    """C-8: whatever is wrong with it; the column begins with 1."""
    rows = from_values(["one", "null", bad, bad])
    error = refusal(*between(source, target), "rows", {"give": rows})
    code, details = BAD_ROWS[bad]
    assert (error.code, error.details.get("row")) == (code, 2)
    assert details.items() <= error.details.items()
    assert "row 2: " in str(error)


@pytest.mark.parametrize(
    ("give", "kind", "values"),
    [
        (["one", "null"], "int64", [1, None]),
        (["half", "one", "huge"], "float64", [2.5, 1.0, 2.0**63]),
        (["null", "text"], "utf8", [None, "t"]),
        (["null", "null"], "float64", [None, None]),
    ],
)
@pairs("calls")
def test_the_kind_of_a_column_of_rows_is_that_of_the_first_value(
    between: Between, source: str, target: str, give: list[str], kind: str, values: list[Any]
) -> None:
    """C-8."""
    caller, server = between(source, target)
    column = caller.call(server, "rows", {"give": from_values(give)})
    assert (column.kind, to_values(column)) == (kind, values)
