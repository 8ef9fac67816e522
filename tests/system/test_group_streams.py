"""Streams and progress of a family: one of its nodes serves the whole of a stream (S-40)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import speed
from tests.interop.harness import until
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system


def member(node: Make, number: int) -> speed.Node:
    """A node of the family, whose services tell who answered."""
    made = node(f"pricing.{number}", allow=["shop"])

    def rows(count: int) -> Iterator[str]:
        for _ in range(count):
            yield made.name

    def total(items: Iterator[int]) -> list[Any]:
        return [made.name, sum(items)]

    def work(request: speed.Request) -> str:
        request.progress(1, 2)
        return made.name

    for service in (rows, total, work):
        made.register(service.__name__, service)
    return made


@pytest.fixture(params=ENGINES)
def shop(node: Make, request: pytest.FixtureRequest) -> speed.Node:
    return node("shop", engine=request.param)


def test_streams_of_a_family_are_served_by_one_node_each_in_turn(node: Make, shop: speed.Node) -> None:
    for number in range(3):
        member(node, number)
    streams = [list(shop.stream("pricing.*", "rows", {"count": 50})) for _ in range(6)]
    assert all(len(rows) == 50 and len(set(rows)) == 1 for rows in streams)
    assert Counter(rows[0] for rows in streams) == {f"pricing.{number}": 2 for number in range(3)}


def test_a_stream_that_is_being_read_counts_as_a_call_under_way(node: Make, shop: speed.Node) -> None:
    for number in range(2):
        member(node, number)
    with shop.stream("pricing.*", "rows", {"count": 1_000_000}) as stream:
        busy = next(stream)
        assert busy not in {next(iter(shop.stream("pricing.*", "rows", {"count": 1}))) for _ in range(4)}


def test_streams_of_one_key_go_to_one_node(node: Make, shop: speed.Node) -> None:
    for number in range(3):
        member(node, number)
    served = {next(shop.stream("pricing.*", "rows", {"count": 1}, key="alice")) for _ in range(6)}
    assert len(served) == 1


def test_items_are_sent_to_whoever_begins_the_call_and_none_is_lost(node: Make, shop: speed.Node) -> None:
    node("pricing.0", allow=["shop"])  # has no such service
    member(node, 1)
    results = [shop.stream("pricing.*", "total", items=range(1000)).wait() for _ in range(4)]
    assert results == [["pricing.1", 499_500]] * 4


def test_a_node_that_began_nothing_is_passed_by(node: Make, shop: speed.Node) -> None:
    node("pricing.0", allow=["shop"])
    node("pricing.1").register("rows", lambda: "never")
    member(node, 2)
    assert {row for _ in range(4) for row in shop.stream("pricing.*", "rows", {"count": 5})} == {"pricing.2"}
    assert shop.call("pricing.*", "work", on_progress=lambda progress: None) == "pricing.2"


def test_what_one_node_has_begun_ends_with_it(node: Make, shop: speed.Node) -> None:
    for number in range(2):
        made = node(f"pricing.{number}", allow=["shop"])

        def fails(made: speed.Node = made) -> Iterator[str]:
            yield made.name
            raise speed.ApplicationError("SOLD_OUT", "none left")

        made.register("fails", lambda fails=fails: (yield from fails()))
    stream = shop.stream("pricing.*", "fails")
    served = next(stream)
    with pytest.raises(speed.ApplicationError) as failed:
        next(stream)
    assert failed.value.node == served


def test_nobody_to_ask_is_said_at_once(node: Make, shop: speed.Node) -> None:
    with pytest.raises(speed.UnknownNodeError, match="no node of 'pricing"):
        shop.stream("pricing.*", "rows")
    node("pricing.0", allow=["shop"])
    assert until(lambda: len(shop.nodes()) > 1)
    with pytest.raises(speed.ServiceNotFoundError) as missing:
        shop.wait_for("pricing.*", timeout=30)
        list(shop.stream("pricing.*", "rows"))
    assert missing.value.node == "pricing.0"


def test_a_closed_stream_is_withdrawn_from_its_node(node: Make, shop: speed.Node) -> None:
    closed = threading.Event()
    made = node("pricing.0", allow=["shop"])

    def numbers() -> Iterator[int]:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            closed.set()

    made.register("numbers", numbers)
    with shop.stream("pricing.*", "numbers") as stream:
        assert [next(stream) for _ in range(10)] == list(range(10))
    assert closed.wait(30)


def test_asyncio_reads_streams_of_families_too(node: Make, shop: speed.Node) -> None:
    member(node, 0)

    async def read() -> list[str]:
        return [row async for row in shop.aio.stream("pricing.*", "rows", {"count": 3})]

    assert asyncio.run(read()) == ["pricing.0"] * 3
