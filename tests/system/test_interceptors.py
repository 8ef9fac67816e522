"""Small functions around calls and services: the same for calls that block, futures and coroutines."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

import speed
from speed.column_services import by_row
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
Around = Generator[Any, Any, Any]
pytestmark = [pytest.mark.system, pytest.mark.parametrize("engine", ENGINES)]


class Short(speed.ServiceError):
    missing: int


def double(x: int) -> int:
    if x < 0:
        raise Short(missing=-x)
    return 2 * x


async def double_later(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


def size(data: memoryview) -> list[Any]:
    return [type(data).__name__, len(data)]


@pytest.fixture
def pair(node: Make, engine: str) -> tuple[speed.Node, speed.Node]:
    return node("server", engine=engine, allow=["caller"]), node("caller", engine=engine)


Pair = tuple[speed.Node, speed.Node]
CALLS: dict[str, Callable[[speed.Node, str, dict[str, Any]], Any]] = {
    "call": lambda caller, service, arguments: caller.call("server", service, arguments, timeout=20),
    "submit": lambda caller, service, arguments: caller.submit("server", service, arguments, timeout=20).result(20),
    "awaited": lambda caller, service, arguments: asyncio.run(  # type: ignore[arg-type]
        caller.aio.call("server", service, arguments, timeout=20)
    ),
}
each_way = pytest.mark.parametrize("way", CALLS)


@each_way
@pytest.mark.parametrize("service", ["double", "double_later"])
def test_they_see_what_goes_and_what_comes_the_first_one_outermost(pair: Pair, way: str, service: str) -> None:
    server, caller = pair
    seen: list[Any] = []

    def note(what: str) -> Callable[[Any], Around]:
        def around(request: Any) -> Around:
            seen.append((what, request.service, dict(request.arguments)))
            result = yield request
            seen.append((what, result))

        return around

    server.intercept_services(note("service"))
    server.register("double", double)
    server.register("double_later", double_later)
    caller.intercept_calls(note("outer"))
    caller.intercept_calls(note("inner"))
    assert CALLS[way](caller, service, {"x": 2}) == 4
    whole = {"x": 2}
    assert seen == [
        *((what, service, whole) for what in ("outer", "inner", "service")),
        *((what, 4) for what in ("service", "inner", "outer")),
    ]


@each_way
def test_they_change_arguments_and_results_and_answer_themselves(pair: Pair, way: str) -> None:
    server, caller = pair

    @server.intercept_services
    def more(request: speed.Request) -> Around:
        result = yield request._replace(arguments={"x": request.arguments["x"] + 1})
        return result + 100

    @caller.intercept_calls
    def kept(request: speed.CallRequest) -> Around:
        if request.arguments["x"] == 7:
            return "kept"
        yield

    ran: list[int] = []

    def noted(x: int) -> int:
        ran.append(x)
        return double(x)

    server.register("double", noted)
    assert CALLS[way](caller, "double", {"x": 2}) == 106
    assert CALLS[way](caller, "double", {"x": 7}) == "kept"
    assert ran == [3]


@each_way
def test_they_see_errors_by_their_class_and_may_take_their_place(pair: Pair, way: str) -> None:
    server, caller = pair
    seen: list[str] = []

    @server.intercept_services
    def permit(request: speed.Request) -> Around:
        if request.arguments.get("x") == 13:
            raise speed.ApplicationError("UNAUTHORISED", "not this one")
        yield request

    @caller.intercept_calls
    def watch(request: speed.CallRequest) -> Around:
        try:
            yield request
        except speed.CallError as error:
            seen.append(error.code)
            if request.arguments["x"] == -2:
                return "instead"
            raise

    server.register("double", double)
    with pytest.raises(speed.ApplicationError, match="not this one"):
        CALLS[way](caller, "double", {"x": 13})
    with pytest.raises(speed.ApplicationError) as raised:
        CALLS[way](caller, "double", {"x": -1})
    assert raised.value.details == {"missing": 1}
    assert CALLS[way](caller, "double", {"x": -2}) == "instead"
    with pytest.raises(speed.InvalidArgumentsError):
        CALLS[way](caller, "double", {"x": "a"})
    assert seen == ["UNAUTHORISED", "SHORT", "SHORT", "INVALID_ARGUMENTS"]


def test_each_attempt_of_a_call_that_is_tried_again_passes_them(pair: Pair) -> None:
    _, caller = pair
    seen: list[str] = []

    @caller.intercept_calls
    def watch(request: speed.CallRequest) -> Around:
        seen.append(request.target)
        yield request

    with pytest.raises(speed.UnknownNodeError):
        caller.call("nobody", "double", {"x": 1}, retry=speed.Retry(attempts=3, backoff_seconds=0.0))
    assert seen == ["nobody"] * 3


def test_descriptions_views_and_columns_stay_what_they_are(pair: Pair) -> None:
    server, caller = pair
    server.intercept_services(passing)
    server.register("double", double)
    server.register("size", size)
    server.register("row", by_row(double))
    assert caller.describe("server", "double")[0].signature() == "(x: integer) -> integer"
    assert caller.describe("server", "row")[0].columns
    assert caller.call("server", "size", {"data": bytes(1 << 16)}) == ["memoryview", 1 << 16]


def passing(request: Any) -> Around:
    yield request


def odd(request: Any) -> Around:
    yield 5


def twice(request: Any) -> Around:
    yield request
    yield request


@each_way
@pytest.mark.parametrize(("interceptor", "expected"), [(odd, "yielded int"), (twice, "yielded twice")])
def test_one_that_yields_something_else_or_again_is_an_error_that_says_so(
    pair: Pair, way: str, interceptor: Any, expected: str
) -> None:
    server, caller = pair
    server.register("double", double)
    caller.intercept_calls(interceptor)
    with pytest.raises(speed.ConfigurationError, match=expected):
        CALLS[way](caller, "double", {"x": 1})


def test_what_is_no_interceptor_and_what_comes_too_late_is_refused(pair: Pair) -> None:
    server, caller = pair
    given: Any
    for given in (lambda request: request, 5, double_later):
        with pytest.raises(speed.ConfigurationError, match="generator function"):
            caller.intercept_calls(given)
    server.register("double", double)
    with pytest.raises(speed.ConfigurationError, match="registered already"):
        server.intercept_services(passing)
    assert inspect.isgeneratorfunction(caller.intercept_calls(passing))


def test_a_call_that_was_submitted_is_withdrawn_through_them(pair: Pair) -> None:
    server, caller = pair
    caller.intercept_calls(passing)

    began = threading.Event()

    def wait(request: speed.Request) -> bool:
        began.set()
        return request.cancellation.wait(20)

    server.register("wait", wait)
    future = caller.submit("server", "wait", timeout=30)
    assert began.wait(20)
    assert not future.cancel()
    assert future.result(20) is True


def test_a_hedged_call_to_a_family_that_is_awaited_passes_once(node: Make, engine: str) -> None:
    caller = node("caller", allow=["pair.*"], engine=engine)
    slow, quick = node("pair.1", allow=["caller"]), node("pair.2", allow=["caller"])
    held = threading.Event()
    slow.register("quote", lambda: held.wait(20.0))
    quick.register("quote", lambda: "quick")
    passed: list[str] = []

    @caller.intercept_calls
    def note(request: speed.CallRequest) -> Any:
        passed.append(request.target)
        yield request

    async def quotes() -> list[Any]:
        retry = speed.Retry(attempts=2, idempotent=True, hedge_seconds=0.01)
        return [await caller.aio.call("pair.*", "quote", retry=retry) for _ in range(2)]

    try:
        assert asyncio.run(quotes()) == ["quick", "quick"]
    finally:
        held.set()
    assert passed == ["pair.*", "pair.*"]


def numbers(count: int) -> Iterator[int]:
    yield from range(count)
    if count > 3:
        raise Short(missing=count - 3)


class Seen:
    """An interceptor that notes what passes it, and how that ends."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def __call__(self, request: speed.CallRequest) -> Around:
        self.notes.append((request.service, dict(request.arguments)))
        try:
            self.notes.append((yield request))
        except Exception as error:
            self.notes.append(type(error).__name__)
            raise


def test_a_stream_passes_them_and_its_end_is_where_they_run_on(pair: Pair) -> None:
    server, caller = pair
    server.register("numbers", numbers)
    seen = Seen()
    caller.intercept_calls(seen)
    stream = caller.stream("server", "numbers", {"count": 3})
    assert next(stream) == 0
    assert seen.notes == [("numbers", {"count": 3})]
    assert list(stream) == [1, 2]
    assert seen.notes[1:] == [None]
    with pytest.raises(speed.ApplicationError):
        list(caller.stream("server", "numbers", {"count": 4}))
    assert seen.notes[3:] == ["Short"]


def test_a_stream_that_is_closed_ends_for_them_as_a_call_that_was_withdrawn(pair: Pair) -> None:
    server, caller = pair
    server.register("numbers", numbers)
    seen = Seen()
    caller.intercept_calls(seen)
    with caller.stream("server", "numbers", {"count": 3}) as stream:
        next(stream)
    assert seen.notes[1:] == ["CallWithdrawnError"]


def test_one_of_them_may_change_a_stream_end_it_and_turn_its_error(pair: Pair) -> None:
    server, caller = pair
    server.register("numbers", numbers)

    @caller.intercept_calls
    def change(request: speed.CallRequest) -> Around:
        if request.arguments["count"] > 9:
            raise ValueError("too many")
        if request.arguments["count"] > 7:
            return "answered here"
        try:
            yield request._replace(arguments={"count": request.arguments["count"] + 1})
        except speed.ApplicationError:
            return "three are enough"

    assert list(caller.stream("server", "numbers", {"count": 2})) == [0, 1, 2]
    stream = caller.stream("server", "numbers", {"count": 3})
    assert list(stream) == [0, 1, 2, 3]
    assert (stream.result, list(stream)) == ("three are enough", [])
    with pytest.raises(ValueError, match="too many"):
        caller.stream("server", "numbers", {"count": 10})
    with pytest.raises(speed.ConfigurationError, match="answers a stream itself"):
        caller.stream("server", "numbers", {"count": 8})


def test_a_stream_that_cannot_begin_ends_for_them_too(pair: Pair) -> None:
    _, caller = pair
    seen = Seen()
    caller.intercept_calls(seen)
    with pytest.raises(speed.UnknownNodeError):
        caller.stream("nobody", "numbers", {"count": 1})
    assert seen.notes[1:] == ["UnknownNodeError"]


def test_an_awaited_stream_passes_them(pair: Pair) -> None:
    server, caller = pair
    server.register("numbers", numbers)
    seen = Seen()
    caller.intercept_calls(seen)

    async def read() -> list[int]:
        return [one async for one in caller.aio.stream("server", "numbers", {"count": 2})]

    assert asyncio.run(read()) == [0, 1]
    assert seen.notes == [("numbers", {"count": 2}), None]
