"""What a service may declare, a caller may send and ask for: each value both ways, by every engine (V-1, V-2, S-9)."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import numpy as np
import pyarrow
import pydantic
import pytest
from numpy.typing import NDArray

import speed
import speed.columns
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system


class Currency(enum.Enum):
    EURO = "EUR"
    DOLLAR = "USD"


@dataclass
class Item:
    price: Decimal
    currency: Currency = Currency.EURO


@dataclass
class Receipt:
    id: UUID
    day: date
    items: list[Item]
    tags: set[str] = field(default_factory=set)


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Address(TypedDict, total=False):
    street: str


class Part(msgspec.Struct, rename="camel"):
    serial_number: UUID
    weight: float = 1.0


class Model(pydantic.BaseModel):
    day: date
    price: Decimal
    amount: int = pydantic.Field(gt=0, default=1)


DAY = date(2026, 11, 25)
RECEIPT = Receipt(UUID(int=7), DAY, [Item(Decimal("1.50")), Item(Decimal(2), Currency.DOLLAR)], {"a", "b"})
VALUES: list[tuple[Any, Any]] = [
    (Decimal, Decimal("1.50")),
    (UUID, UUID(int=1)),
    (date, DAY),
    (time, time(1, 2, 3, 4)),
    (datetime, datetime(2026, 11, 25, 1, tzinfo=timezone.utc)),
    (timedelta, timedelta(days=-1, microseconds=5)),
    (Currency, Currency.EURO),
    (Receipt, RECEIPT),
    (Point, Point(1, 2.5)),
    (Address, Address(street="Main")),
    (set[date], {DAY}),
    (frozenset[int], frozenset({1, 2})),
    (tuple[int, str], (1, "a")),
    (tuple[Decimal, ...], (Decimal(1), Decimal(2))),
    (Path, Path("/data/orders")),
    (Part, Part(UUID(int=2))),
    (Model, Model(day=DAY, price=Decimal("9.90"), amount=3)),
    (dict[str, list[Receipt]], {"all": [RECEIPT]}),
    (Receipt | None, RECEIPT),
    (Decimal | str, "any text"),
]


def echo_of(kind: Any) -> Any:
    """A service that gives back what it got, and says what type that was."""
    seen: list[Any] = []

    def echo(value: Any) -> Any:
        seen.append(value)
        return value

    echo.__annotations__ = {"value": kind, "return": kind}
    return echo, seen


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda part: str(getattr(part, "__name__", part))[:30])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_caller_sends_a_service_gets_and_what_it_returns_its_caller_gets(
    node: Make, engine: str, kind: Any, value: Any
) -> None:
    echo, seen = echo_of(kind)
    server, caller = node("server", engine=engine, allow=["caller"]), node("caller", engine=engine)
    server.register("echo", echo)
    assert caller.call("server", "echo", {"value": value}, returns=kind) == value
    assert seen == [value]
    assert type(seen[0]) is type(value)
    assert caller.submit("server", "echo", {"value": value}, returns=kind).result() == value
    assert asyncio.run(caller.aio.call("server", "echo", {"value": value}, returns=kind)) == value


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_and_numbers_of_numpy_keep_their_type_and_shape(node: Make, engine: str) -> None:
    server, caller = node("server", engine=engine, allow=["caller"]), node("caller", engine=engine)

    def double(values: NDArray[np.float32], by: int) -> np.ndarray:  # type: ignore[type-arg]
        return values * by

    server.register("double", double)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    doubled = caller.call("server", "double", {"values": values.T, "by": np.int64(2)}, returns=np.ndarray)
    assert doubled.dtype == np.float32
    assert np.array_equal(doubled, values.T * 2)
    with pytest.raises(speed.InvalidArgumentsError, match="'values' must be ndarray of float32, not another map"):
        caller.call("server", "double", {"values": np.arange(3), "by": 2})


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_names_the_path_what_was_expected_and_what_came(node: Make, engine: str) -> None:
    server, caller = node("server", engine=engine, allow=["caller"]), node("caller", engine=engine)

    def book(receipt: Receipt, model: Model | None = None) -> None: ...

    server.register("book", book)
    sent = {"id": UUID(int=1), "day": DAY, "items": [{"price": "1"}, {"price": 1.5}]}
    with pytest.raises(speed.InvalidArgumentsError) as refused:
        caller.call("server", "book", {"receipt": sent})
    assert "argument 'receipt'.items[1].price must be Decimal, not float" in str(refused.value)
    assert refused.value.details["path"] == "receipt.items[1].price"
    with pytest.raises(speed.InvalidArgumentsError, match=r"currency must be one of 'EUR', 'USD', not another str"):
        caller.call("server", "book", {"receipt": {**sent, "items": [{"price": "1", "currency": "secret"}]}})
    with pytest.raises(speed.InvalidArgumentsError, match=r"'model'.amount is no Model \(greater_than\)"):
        caller.call("server", "book", {"receipt": RECEIPT, "model": {"day": DAY, "price": "1", "amount": 0}})
    with pytest.raises(speed.UnserialisableError, match=r"arguments.receipt.when is of type .*complex"):
        caller.call("server", "book", {"receipt": {"day": DAY, "when": 1j}})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_that_is_not_what_the_caller_asked_for_says_that_the_call_ran(node: Make, engine: str) -> None:
    server, caller = node("server", engine=engine, allow=["caller"]), node("caller", engine=engine)
    server.register("total", lambda: {"items": [{"price": 5}]})
    with pytest.raises(speed.WireError, match="the call ran, but its result must be a map with 'id'") as refused:
        caller.call("server", "total", returns=Receipt)
    assert refused.value.execution is speed.Execution.RAN
    assert (refused.value.node, refused.value.service) == ("server", "total")
    with pytest.raises(speed.WireError, match="the call ran"):
        caller.submit("server", "total", returns=list[int]).result()
    with pytest.raises(speed.ConfigurationError, match="returns has the type hint complex, which cannot be checked"):
        caller.call("server", "total", returns=complex)


@pytest.mark.parametrize("engine", ENGINES)
def test_messages_and_details_of_errors_take_the_same_values(node: Make, engine: str) -> None:
    server, caller = node("server", engine=engine, allow=["caller"]), node("caller", engine=engine)

    def fail() -> None:
        raise speed.ApplicationError("SOLD_OUT", "none left", {"since": DAY, "price": Decimal("1.5")})

    server.register("fail", fail)
    with pytest.raises(speed.ApplicationError) as failed:
        caller.call("server", "fail")
    assert failed.value.details == {"since": "2026-11-25", "price": "1.5"}
    caller.send("server", RECEIPT)
    message = server.receive(10)
    assert message is not None
    assert message.payload["items"][1] == {"price": "2", "currency": "USD"}


def test_a_model_of_pydantic_with_a_duration_is_refused_when_it_is_registered(node: Make) -> None:
    class Job(pydantic.BaseModel):
        took: timedelta

    def run(job: Job) -> None: ...

    run.__annotations__["job"] = Job
    with pytest.raises(speed.ConfigurationError, match="pydantic reads its form, microseconds, as seconds: declare an"):
        node("server").register("run", run)


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_and_batches_of_arrow_are_maps_of_columns(node: Make, engine: str) -> None:
    """V-2, both ways, over the bytes where they lie."""
    server, caller = node("server", engine=engine, allow=["caller"]), node("caller", engine=engine)

    def last(table: pyarrow.Table, batch: pyarrow.RecordBatch) -> list[Any]:
        return [table.slice(1), {"batch": batch}, type(table).__name__, type(batch).__name__]

    def same(value: Any) -> Any:
        return value

    last.__annotations__ |= {"table": pyarrow.Table, "batch": pyarrow.RecordBatch}
    server.register("last", last)
    server.register("same", same)
    table = pyarrow.table({"name": ["tea", None], "day": pyarrow.array([DAY, DAY]), "n": [1, 2]})
    (batch,) = table.to_batches()
    kept, inner, *kinds = caller.call("server", "last", {"table": table, "batch": batch})
    assert kinds == ["Table", "RecordBatch"]
    assert speed.columns.to_values(kept["n"]) == [2]
    assert speed.columns.to_values(inner["batch"]["name"]) == ["tea", None]
    assert caller.call("server", "same", {"value": table}, returns=pyarrow.Table) == table
    assert caller.call("server", "same", {"value": [batch]}, returns=list[pyarrow.RecordBatch]) == [batch]
    assert caller.call("server", "same", {"value": table["n"]}, returns=speed.Column).rows == 2
    (one,) = caller.describe("server", "last")
    assert one.signature() == "(table: table, batch: table) -> array"
    wrong: Any
    for wrong in ({"x": 1}, {"x": table["n"], "y": table["n"].slice(1)}, {1: table["n"]}):
        with pytest.raises(speed.InvalidArgumentsError, match="'table' must be Table, not a map of something else"):
            caller.call("server", "last", {"table": wrong, "batch": batch})
    twice = pyarrow.Table.from_arrays([table["n"], table["n"]], names=["n", "n"])
    with pytest.raises(speed.UnserialisableError, match=r"has a column twice|cannot be read: UnserialisableError"):
        caller.call("server", "same", {"value": twice})
