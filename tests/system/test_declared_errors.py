"""Errors of a service that have fields: raised and caught as one class, and as ApplicationError without (S-19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import speed
from speed.core.services import _DECLARED
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system


@dataclass
class Account:
    owner: str
    since: date


class InsufficientFunds(speed.ServiceError):
    """There is not enough money."""

    balance: Decimal
    account: Account


def pay(amount: Decimal) -> None:
    raise InsufficientFunds(balance=amount - 1, account=Account("ada", date(2026, 11, 25)))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_caller_catches_the_class_that_the_service_raised(node: Make, engine: str) -> None:
    bank, shop = node("bank", engine=engine, allow=["shop"]), node("shop", engine=engine)
    bank.register("pay", pay)
    with pytest.raises(InsufficientFunds) as failed:
        shop.call("bank", "pay", {"amount": Decimal("5.50")})
    error = failed.value
    assert (error.code, error.balance) == ("INSUFFICIENT_FUNDS", Decimal("4.50"))
    assert error.account.since == date(2026, 11, 25)
    assert "There is not enough money." in str(error)
    assert (error.node, error.service, error.execution) == ("bank", "pay", speed.Execution.RAN)
    assert isinstance(shop.submit("bank", "pay", {"amount": Decimal(5)}).exception(), InsufficientFunds)


def test_who_does_not_have_the_class_gets_its_code_and_its_fields(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bank, shop = node("bank", allow=["shop"]), node("shop")
    bank.register("pay", pay)
    monkeypatch.delitem(_DECLARED, "INSUFFICIENT_FUNDS")
    with pytest.raises(speed.ApplicationError) as failed:
        shop.call("bank", "pay", {"amount": Decimal(5)})
    assert type(failed.value) is speed.ApplicationError
    assert failed.value.details == {"balance": "4", "account": {"owner": "ada", "since": "2026-11-25"}}


@pytest.mark.parametrize("details", [{}, {"balance": "x", "account": {}}, {"balance": "1", "account": None}])
def test_an_error_with_other_fields_stays_what_it_is(node: Make, details: dict[str, Any]) -> None:
    bank, shop = node("bank", allow=["shop"]), node("shop")

    def fail() -> None:
        raise speed.ApplicationError("INSUFFICIENT_FUNDS", "of another version", details)

    bank.register("pay", fail)
    with pytest.raises(speed.ApplicationError) as failed:
        shop.call("bank", "pay")
    assert type(failed.value) is speed.ApplicationError


def test_an_error_is_made_of_its_fields_and_of_no_others() -> None:
    with pytest.raises(TypeError, match=r"has the fields \['account', 'balance'\]: look at \['account', 'balanc'"):
        InsufficientFunds(balanc=1)
    with pytest.raises(speed.ConfigurationError, match="have one code, INSUFFICIENT_FUNDS: set `code`"):
        type("InsufficientFundsError", (speed.ServiceError,), {})
    with pytest.raises(speed.ConfigurationError, match="error code 'lower' cannot be used"):
        type("Odd", (speed.ServiceError,), {"code": "lower"})
