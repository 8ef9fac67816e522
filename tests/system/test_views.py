"""Bytes that a program asks for as memoryviews: what a service gets by its type hint, and a caller with ``views``."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable
from typing import Any

import pytest

import speed

Make = Callable[..., speed.Node]
LARGE = os.urandom(1 << 20)
SMALL = b"12345"


@pytest.fixture(params=["python", "native"])
def pair(node: Make, request: pytest.FixtureRequest) -> tuple[speed.Node, speed.Node]:
    """A server that allows the client."""
    server = node("server", engine=request.param, allow=["client"])
    server.register("echo", lambda **given: given)
    return server, node("client", engine=request.param)


def kinds_seen(server: speed.Node) -> list[Any]:
    """Registers ``look``, whose first parameter asks for a view; the types that come are noted."""
    seen: list[Any] = []

    @server.service("look")
    def look(data: memoryview, rest: bytes = b"") -> int:
        seen.append((type(data), data.readonly, bytes(data), type(rest)))
        return len(data)

    return seen


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_a_parameter_that_is_hinted_memoryview_gets_a_view_that_nobody_can_write_through(
    pair: tuple[speed.Node, speed.Node], data: bytes
) -> None:
    server, client = pair
    seen = kinds_seen(server)
    assert client.call("server", "look", {"data": data, "rest": data}) == len(data)
    assert seen == [(memoryview, True, data, bytes)]


def test_what_is_no_bytes_is_refused_where_a_view_is_asked_for(pair: tuple[speed.Node, speed.Node]) -> None:
    server, client = pair
    kinds_seen(server)
    with pytest.raises(speed.InvalidArgumentsError, match="'data' must be memoryview, not str"):
        client.call("server", "look", {"data": "text"})


def test_a_service_that_changes_a_view_that_it_was_given_fails(pair: tuple[speed.Node, speed.Node]) -> None:
    server, client = pair

    @server.service("change")
    def change(data: memoryview) -> None:
        data[0] = 1

    with pytest.raises(speed.ExecutionFailedError, match="read-only"):
        client.call("server", "change", {"data": LARGE})


def test_a_service_may_answer_with_the_view_that_it_was_given(pair: tuple[speed.Node, speed.Node]) -> None:
    server, client = pair

    @server.service("back")
    def back(data: memoryview) -> memoryview:
        return data

    assert client.call("server", "back", {"data": LARGE}) == LARGE


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_large_bytes_that_a_native_node_shows_are_not_copied(node: Make, is_async: bool) -> None:
    server, client = node("server", engine="native", allow=["client"]), node("client", engine="native")

    def shown(data: memoryview) -> str:
        return type(data.obj).__name__

    async def awaited(data: memoryview) -> str:
        return shown(data)

    server.register("shown", awaited if is_async else shown)
    assert client.call("server", "shown", {"data": LARGE}) == "Memory"
    server.register("echo", lambda data: data)
    assert type(client.call("server", "echo", {"data": LARGE}, views=True).obj).__name__ == "Memory"


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_bytes_of_a_result_come_as_views_at_any_depth_where_the_caller_asks(
    pair: tuple[speed.Node, speed.Node], data: bytes
) -> None:
    _, client = pair
    given = {"data": data, "more": [{"deep": data}, 7, "text"]}
    for result in (
        client.call("server", "echo", given, views=True),
        client.submit("server", "echo", given, views=True).result(20),
        asyncio.run(client.aio.call("server", "echo", given, views=True)),
    ):
        views = (result["data"], result["more"][0]["deep"])
        assert [(type(view), view.readonly, bytes(view)) for view in views] == [(memoryview, True, data)] * 2
        assert result["more"][1:] == [7, "text"]


def test_a_view_holds_its_bytes_while_more_calls_use_memory_again_and_its_node_closes(
    pair: tuple[speed.Node, speed.Node],
) -> None:
    _, client = pair
    kept = client.call("server", "echo", {"data": LARGE}, views=True)["data"]
    for _ in range(20):
        client.call("server", "echo", {"data": os.urandom(len(LARGE))}, views=True)
    client.close()
    gc.collect()
    assert kept == LARGE


def test_bytes_stay_bytes_where_nobody_asks(pair: tuple[speed.Node, speed.Node]) -> None:
    _, client = pair
    assert type(client.call("server", "echo", {"data": LARGE})["data"]) is bytes
