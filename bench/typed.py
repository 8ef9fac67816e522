"""Checks of arguments by type hints, beside pydantic-core.

    .venv/bin/python -m bench.typed [--rounds N] [--json]

One service takes three scalars, another one a nested model: an order with a customer and two items. SPEED reads it
into dataclasses, pydantic-core into models of the same fields, from the same values, by turns in one process. What is
judged is the median of the rounds; the targets are 2 µs for the scalars, and 1.3 times pydantic-core for the model.
Exit status: 0 all met, 1 not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from timeit import Timer
from typing import Any

from pydantic import BaseModel

from speed import Request
from speed.core.signatures import compile_parameters

SCALARS_TARGET_US = 2.0
MODEL_TARGET = 1.3
CALLS = 20_000


@dataclass
class Customer:
    """Who orders."""

    name: str
    age: int


@dataclass
class Item:
    """What is ordered."""

    sku: str
    price: float
    count: int


@dataclass
class Order:
    """All of it."""

    number: int
    customer: Customer
    items: list[Item]


class CustomerModel(BaseModel):
    """The same for pydantic."""

    name: str
    age: int


class ItemModel(BaseModel):
    """The same for pydantic."""

    sku: str
    price: float
    count: int


class OrderModel(BaseModel):
    """The same for pydantic."""

    number: int
    customer: CustomerModel
    items: list[ItemModel]


def tax(amount: float, rate: float, country: str) -> float:
    """Three scalars."""
    return amount * rate * len(country)


def place(order: Order) -> int:
    """A nested model."""
    return order.number


VALUES: dict[str, Any] = {
    "number": 7,
    "customer": {"name": "Ada", "age": 36},
    "items": [{"sku": "tea", "price": 2.5, "count": 3}, {"sku": "rye", "price": 4.0, "count": 1}],
}


def microseconds(call: Callable[[], object]) -> float:
    """Of one call."""
    return Timer(call).timeit(CALLS) / CALLS * 1e6


def measured(rounds: int) -> dict[str, float]:
    """Medians in µs; ``nothing`` is the call that is timed, without a check."""
    scalars = compile_parameters("tax", tax, Request).taken
    model = compile_parameters("place", place, Request).taken
    validate = OrderModel.__pydantic_validator__.validate_python
    three, order = {"amount": 1.5, "rate": 0.2, "country": "FI"}, {"order": VALUES}
    assert model(order)["order"] == Order(7, Customer("Ada", 36), [Item("tea", 2.5, 3), Item("rye", 4.0, 1)])
    parts: dict[str, Callable[[], object]] = {
        "nothing": lambda: three,
        "scalars": lambda: scalars(three),
        "model": lambda: model(order),
        "pydantic": lambda: validate(VALUES),
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(rounds):
        for name, call in parts.items():
            times[name].append(microseconds(call))
    return {name: median(of_round) for name, of_round in times.items()}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = measured(options.rounds)
    ratio = found["model"] / found["pydantic"]
    if options.json:
        print(json.dumps({**found, "ratio": ratio}))
    else:
        scalars, nothing, model, theirs = (found[name] for name in ("scalars", "nothing", "model", "pydantic"))
        print(f"three scalars   {scalars:6.2f} µs, {nothing:.2f} of it the call itself (target {SCALARS_TARGET_US})")
        print(f"nested model    {model:6.2f} µs, {ratio:.2f} times {theirs:.2f} µs of pydantic (target {MODEL_TARGET})")
    return int(found["scalars"] > SCALARS_TARGET_US or ratio > MODEL_TARGET)


if __name__ == "__main__":
    sys.exit(main())
