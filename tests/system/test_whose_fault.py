"""Whose fault an error is, and codes that a service chooses (S-19, S-20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import speed

Make = Callable[..., speed.Node]
PATIENCE = 20.0


@pytest.fixture
def shop(make: Make) -> tuple[speed.Node, speed.Node, speed.Node]:
    """A caller, the shop that it calls, and the stock that the shop calls."""
    return make("caller"), make("shop", allow=["caller"]), make("stock", allow=["shop"])


def error_of(caller: speed.Node, service: str, arguments: dict[str, Any] | None = None) -> speed.CallError:
    with pytest.raises(speed.CallError) as caught:
        caller.call("shop", service, arguments or {}, timeout=PATIENCE)
    return caught.value


def test_arguments_that_the_service_calls_another_with_are_not_its_callers_fault(shop: Any) -> None:
    caller, own, stock = shop

    def find(article: int) -> int:
        return article

    stock.register("find", find)
    own.register("order", lambda: own.call("stock", "find", {"article": "x"}))
    own.register("later", lambda: own.submit("stock", "find", {"article": "x"}).result(PATIENCE))
    for service in ("order", "later"):
        error = error_of(caller, service)
        assert type(error) is speed.ExecutionFailedError
        assert error.details == {"cause": "INVALID_ARGUMENTS", "node": "stock", "service": "find"}
        assert (error.node, error.service) == ("shop", service)
        assert "argument 'article' must be int" in str(error)


def test_a_failure_behind_the_service_names_where_it_was(shop: Any) -> None:
    caller, own, stock = shop

    def fail() -> None:
        raise ValueError("no ink")

    stock.register("fail", fail)
    own.register("order", lambda: own.call("stock", "fail"))
    error = error_of(caller, "order")
    assert error.details == {"cause": "EXECUTION_FAILED", "node": "stock", "service": "fail"}
    assert "no ink" in str(error)


def test_a_node_that_the_service_does_not_reach_is_named(shop: Any) -> None:
    caller, own, _ = shop
    own.register("order", lambda: own.call("nobody", "find"))
    own.register("later", lambda: own.submit("nobody", "find").result(PATIENCE))
    for service in ("order", "later"):
        error = error_of(caller, service)
        assert error.code == "EXECUTION_FAILED"
        assert error.details == {"cause": "UNKNOWN_NODE", "node": "nobody", "service": "find"}


def test_a_service_that_refuses_its_arguments_itself_is_believed(shop: Any) -> None:
    caller, own, _ = shop

    def order(count: int) -> None:
        raise speed.InvalidArgumentsError("count must be positive", {"argument": "count"})

    own.register("order", order)
    error = error_of(caller, "order", {"count": -1})
    assert type(error) is speed.InvalidArgumentsError
    assert error.details == {"argument": "count"}


def test_a_local_error_of_a_call_names_node_and_service(make: Make) -> None:
    caller = make("caller")
    with pytest.raises(speed.UnknownNodeError) as caught:
        caller.call("nobody", "find")
    assert (caught.value.node, caught.value.service) == ("nobody", "find")


@pytest.mark.parametrize("code", ["A" * 65, "", "out_of_stock", "OUT-OF", "app/A", "A\n", 7])
def test_a_code_of_another_form_is_refused_where_the_answer_is_made(code: Any) -> None:
    with pytest.raises(speed.ConfigurationError, match=r"error code .* cannot be used"):
        speed.Response.error(code, "why")


def test_a_service_that_answers_with_a_bad_code_fails(shop: Any) -> None:
    caller, own, _ = shop
    own.register("order", lambda: speed.Response.error("out of stock", "none left"))
    error = error_of(caller, "order")
    assert error.code == "EXECUTION_FAILED"
    assert "'out of stock' cannot be used" in str(error)


def _answered() -> speed.Response:
    return speed.Response.error("OUT_OF_STOCK", "none left", {"left": 0})


def _raised() -> None:
    raise speed.ApplicationError("OUT_OF_STOCK", "none left", {"left": 0})


@pytest.mark.parametrize("order", [_answered, _raised])
def test_a_code_of_the_service_reaches_its_caller(shop: Any, order: Callable[[], Any]) -> None:
    caller, own, _ = shop
    own.register("order", order)
    error = error_of(caller, "order")
    assert type(error) is speed.ApplicationError
    assert (error.code, error.details, error.node, error.service) == ("OUT_OF_STOCK", {"left": 0}, "shop", "order")
    assert error.execution is speed.Execution.RAN
    assert str(error) == "shop: none left"


def test_a_code_of_another_service_stops_at_the_one_that_called_it(shop: Any) -> None:
    caller, own, stock = shop
    stock.register("take", _answered)
    own.register("order", lambda: own.call("stock", "take"))
    error = error_of(caller, "order")
    assert error.code == "EXECUTION_FAILED"
    assert error.details == {"cause": "OUT_OF_STOCK", "node": "stock", "service": "take"}
