"""A client is a Protocol whose methods are services, checked against what the node describes (S-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import pytest

import speed

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system


@dataclass
class Receipt:
    total: Decimal
    lines: list[str]


class Billing(Protocol):
    def book(self, price: Decimal, note: str = "") -> Receipt:
        """Books it."""
        ...

    def forget(self) -> None: ...

    async def later(self, price: Decimal) -> Receipt: ...


def book(price: Decimal, note: str = "") -> Receipt:
    return Receipt(price, [note])


@pytest.fixture
def shop(node: Make) -> speed.Node:
    billing = node("billing", allow=["shop"])
    billing.register("book", book)
    billing.register("later", book)
    billing.register("forget", lambda: None)
    return node("shop")


def test_methods_are_services_with_their_types(shop: speed.Node) -> None:
    client = shop.client(Billing, "billing")
    assert client.book(Decimal("1.5"), "tea") == Receipt(Decimal("1.5"), ["tea"])
    assert client.book(price=Decimal(2)).lines == [""]
    client.forget()
    assert asyncio.run(client.later(Decimal(3))).total == 3  # type: ignore[arg-type]
    assert client.book.__doc__ == "Books it."
    assert "Billing of 'billing'" in repr(client)


def test_arguments_that_no_method_takes_are_refused_before_anything_is_written(shop: speed.Node) -> None:
    client: Any = shop.client(Billing, "nobody")
    with pytest.raises(speed.InvalidArgumentsError, match=r"book: .*missing a required argument: 'price'"):
        client.book()
    with pytest.raises(AttributeError, match="Billing has no method 'gone'"):
        _ = client.gone
    with pytest.raises(speed.UnknownNodeError):
        client.book(Decimal(1))


class Streaming(Protocol):
    def rows(self, count: int) -> Iterator[Decimal]: ...

    def total(self, prices: Iterator[Decimal]) -> Decimal: ...

    def add(self, prices: Iterator[Decimal], to: Decimal = Decimal(0)) -> Iterator[Decimal]: ...


@pytest.fixture
def ledger(node: Make) -> speed.Node:
    def rows(count: int) -> Iterator[Decimal]:
        yield from map(Decimal, range(count))

    def total(prices: Iterator[Decimal]) -> Decimal:
        return sum(prices, Decimal(0))

    def add(prices: Iterator[Decimal], to: Decimal = Decimal(0)) -> Iterator[Decimal]:
        for price in prices:
            yield price + to

    ledger = node("ledger", allow=["shop"])
    for service in (rows, total, add):
        ledger.register(service.__name__, service)
    return ledger


@pytest.mark.usefixtures("ledger")
def test_a_method_whose_result_or_parameter_is_an_iterator_streams(shop: speed.Node) -> None:
    client = shop.client(Streaming, "ledger")
    rows = client.rows(3)
    assert isinstance(rows, speed.Stream)
    assert list(rows) == [Decimal(0), Decimal(1), Decimal(2)]
    assert client.total(map(Decimal, range(4))) == Decimal(6)
    assert list(client.add(iter([Decimal(1)]), Decimal("0.5"))) == [Decimal("1.5")]


def test_whose_items_there_are_is_described(shop: speed.Node, ledger: speed.Node) -> None:
    ledger.register("plain", lambda: None)
    told = {one.name: (one.streaming, one.items) for one in shop.describe("ledger")}
    assert told == {
        "add": (True, "both"),
        "plain": (False, None),
        "rows": (True, "service"),
        "total": (True, "caller"),
    }


class NotStreaming(Protocol):
    def rows(self, count: int) -> list[Decimal]: ...


class StreamingBooks(Protocol):
    def book(self, price: Decimal, note: str) -> Iterator[Receipt]: ...


class AwaitedStream(Protocol):
    async def rows(self, count: int) -> Iterator[Decimal]: ...


@pytest.mark.usefixtures("ledger")
def test_a_method_streams_where_its_service_does(shop: speed.Node) -> None:
    with pytest.raises(speed.ConfigurationError, match=r"'rows' of 'ledger' streams: hint its items as Iterator"):
        shop.client(NotStreaming, "ledger").rows(3)
    with pytest.raises(speed.ConfigurationError, match="'book' of 'billing' does not stream"):
        shop.client(StreamingBooks, "billing").book(Decimal(1), "x")
    with pytest.raises(speed.ConfigurationError, match=r"node\.aio\.stream"):
        shop.client(AwaitedStream, "ledger")


class Named(Protocol):
    @speed.named("book", cost="price")
    def order(self, cost: Decimal, note: str = "") -> Receipt: ...


class NamedWrongly(Protocol):
    @speed.named("book", gone="price")
    def order(self, cost: Decimal) -> Receipt: ...


def test_a_method_may_have_another_name_than_its_service_and_so_may_arguments(shop: speed.Node) -> None:
    client = shop.client(Named, "billing")
    assert client.order(Decimal(2), note="x") == client.order(cost=Decimal(2), note="x") == Receipt(Decimal(2), ["x"])


class Other(Protocol):
    def book(self, price: Decimal, currency: str) -> Receipt: ...


class Fewer(Protocol):
    def book(self, note: str) -> Receipt: ...


class Absent(Protocol):
    def refund(self) -> None: ...


@pytest.mark.parametrize(
    ("protocol", "name", "given", "told"),
    [
        (Other, "book", ["1", "EUR"], "it has no 'currency'"),
        (Fewer, "book", ["x"], "it needs 'price'"),
        (Absent, "refund", [], "'billing' has no service 'refund' that this node may call"),
    ],
)
def test_a_protocol_that_is_not_what_the_node_describes_is_refused_at_its_first_call(
    shop: speed.Node, protocol: Any, name: str, given: list[str], told: str
) -> None:
    client = shop.client(protocol, "billing")
    with pytest.raises(speed.ConfigurationError, match=told):
        getattr(client, name)(*given)


class Positional(Protocol):
    def book(self, price: int, /) -> None: ...


class Unchecked(Protocol):
    def book(self) -> complex: ...


@pytest.mark.parametrize(
    ("protocol", "told"),
    [
        (Positional, "arguments travel by name"),
        (NamedWrongly, "has no parameter 'gone', which is named"),
        (Unchecked, "complex, which cannot be checked"),
        (int, "int has no public methods|arguments travel by name"),
        (5, "not int"),
    ],
)
def test_what_no_client_is_made_of_is_refused_where_it_is_made(shop: speed.Node, protocol: Any, told: str) -> None:
    with pytest.raises(speed.ConfigurationError, match=told):
        shop.client(protocol, "billing")
