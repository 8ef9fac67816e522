"""Services that give and take many items, and progress (registry_spec/streams.md)."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import speed
from speed.wire import spc
from speed.wire.envelope import FLAG_REPLY, EnvelopeType
from tests.interop.harness import until

Make = Callable[..., speed.Node]
Pair = tuple[speed.Node, speed.Node]


@dataclass
class Row:
    name: str
    price: Decimal


@pytest.fixture
def pair(node: Make) -> Pair:
    """``billing`` serves, ``analytics`` may call it."""
    return node("billing", allow=["analytics"]), node("analytics")


def counting(billing: speed.Node) -> threading.Event:
    """Has ``billing`` give numbers without end; set once its generator was closed."""
    closed = threading.Event()

    def numbers() -> Iterator[int]:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            closed.set()

    billing.register("numbers", numbers)
    return closed


# --- what a service gives ---


def test_a_generator_is_a_service_whose_items_come_in_order(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("rows")
    def rows(count: int) -> Generator[dict[str, Any], None, str]:
        for number in range(count):
            yield {"number": number}
        return "that is all"

    stream = analytics.stream("billing", "rows", {"count": 20_000})
    assert [row["number"] for row in stream] == list(range(20_000))
    assert stream.result == "that is all"
    assert list(stream) == []


def test_an_asynchronous_generator_is_one_too(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("rows")
    async def rows(count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    assert list(analytics.stream("billing", "rows", {"count": 10_000})) == list(range(10_000))


def test_no_item_is_held_back_while_the_service_thinks(pair: Pair) -> None:
    """S-34."""
    billing, analytics = pair
    goes_on = threading.Event()

    @billing.service("slow")
    def slow() -> Iterator[int]:
        yield 1
        goes_on.wait(30)
        yield 2

    stream = analytics.stream("billing", "slow")
    assert next(stream) == 1
    goes_on.set()
    assert list(stream) == [2]


def test_items_are_read_as_what_was_asked_for(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("rows")
    def rows() -> Iterator[Any]:
        yield Row("nut", Decimal("1.50"))
        yield {"name": "bolt"}

    stream = analytics.stream("billing", "rows", returns=Row)
    assert next(stream) == Row("nut", Decimal("1.50"))
    with pytest.raises(speed.WireError, match="an item"):
        next(stream)


def test_large_items_pass_a_window_that_is_smaller(pair: Pair) -> None:
    """S-29."""
    billing, analytics = pair

    @billing.service("blobs")
    def blobs() -> Iterator[bytes]:
        for size in (3 << 20, 1, 2 << 20):
            yield bytes(size)

    stream = analytics.stream("billing", "blobs", window_bytes=1000)
    assert [len(blob) for blob in stream] == [3 << 20, 1, 2 << 20]


def test_an_item_without_a_representation_fails_the_service_after_those_before_it(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("odd")
    def odd() -> Iterator[Any]:
        yield 1
        yield object()

    stream = analytics.stream("billing", "odd")
    assert next(stream) == 1
    with pytest.raises(speed.ExecutionFailedError):
        next(stream)


# --- what a caller sends ---


def test_a_service_takes_what_its_caller_sends(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("total")
    def total(amounts: Iterator[int], factor: int) -> int:
        return sum(amounts) * factor

    stream = analytics.stream("billing", "total", {"factor": 2}, items=range(10_000))
    assert stream.wait() == 2 * sum(range(10_000))
    assert analytics.stream("billing", "total", {"factor": 2}, items=[]).wait() == 0


def test_an_asynchronous_service_takes_them_too(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("total")
    async def total(amounts: AsyncIterator[int]) -> int:
        return sum([amount async for amount in amounts])

    assert analytics.stream("billing", "total", items=range(10_000)).wait() == sum(range(10_000))


def test_items_go_both_ways_at_once(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("double")
    def double(amounts: Iterator[int]) -> Iterator[int]:
        for amount in amounts:
            yield amount * 2

    assert list(analytics.stream("billing", "double", items=range(20_000))) == list(range(0, 40_000, 2))


def test_items_of_a_caller_are_checked_one_by_one(pair: Pair) -> None:
    billing, analytics = pair
    taken: list[Row] = []

    @billing.service("store")
    def store(rows: Iterator[Row]) -> int:
        taken.extend(rows)
        return len(taken)

    assert analytics.stream("billing", "store", items=[Row("nut", Decimal(1))]).wait() == 1
    assert taken == [Row("nut", Decimal(1))]
    with pytest.raises(speed.ExecutionFailedError, match="an item"):
        analytics.stream("billing", "store", items=[{"name": 1}]).wait()


def test_an_item_of_another_type_fails_a_service_that_had_begun(pair: Pair) -> None:
    billing, analytics = pair
    charged: list[int] = []

    @billing.service("charge")
    def charge(items: Iterator[int]) -> int:
        charged.extend(items)
        return sum(charged)

    with pytest.raises(speed.ExecutionFailedError, match="an item must be int, not str") as failed:
        analytics.stream("billing", "charge", items=[1, 2, "three"]).wait()
    assert failed.value.execution is speed.Execution.RAN


def test_a_callers_items_that_fail_end_the_call_with_that_error(pair: Pair) -> None:
    billing, analytics = pair
    ended = threading.Event()

    @billing.service("total")
    def total(amounts: Iterator[int]) -> int:
        try:
            return sum(amounts)
        finally:
            ended.set()

    def items() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    stream = analytics.stream("billing", "total", items=items())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            stream.wait()
    assert ended.wait(30)


# --- ends ---


def test_an_error_comes_after_all_items_and_again_each_time(pair: Pair) -> None:
    """S-33."""
    billing, analytics = pair

    @billing.service("fails")
    def fails() -> Iterator[int]:
        yield from range(1000)
        raise ValueError("out of rows")

    stream = analytics.stream("billing", "fails")
    got: list[int] = []
    for _ in range(3):
        with pytest.raises(speed.ExecutionFailedError, match="out of rows") as caught:
            got.extend(stream)
        assert (caught.value.node, caught.value.service) == ("billing", "fails")
    assert got == list(range(1000))


def test_an_exit_in_a_generator_ends_its_call_and_nothing_else(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("exits")
    def exits() -> Iterator[int]:
        yield 1
        sys.exit(3)

    with pytest.raises(speed.ExecutionFailedError, match="SystemExit"):
        list(analytics.stream("billing", "exits"))
    billing.register("tax", lambda: 1)
    assert analytics.call("billing", "tax") == 1


def test_a_declared_error_is_caught_as_its_class(pair: Pair) -> None:
    billing, analytics = pair

    class NoMoreRows(speed.ServiceError):
        """There are none."""

        left: int

    @billing.service("rows")
    def rows() -> Iterator[int]:
        yield 1
        raise NoMoreRows(left=0)

    with pytest.raises(NoMoreRows):
        list(analytics.stream("billing", "rows"))


def test_a_reader_that_stops_early_closes_the_generator(pair: Pair) -> None:
    """S-34."""
    billing, analytics = pair
    closed = counting(billing)
    with analytics.stream("billing", "numbers") as stream:
        assert [next(stream) for _ in range(3)] == [0, 1, 2]
    assert closed.wait(30)
    with pytest.raises(speed.CallWithdrawnError):
        next(stream)


def test_a_stream_that_is_dropped_is_withdrawn(pair: Pair) -> None:
    billing, analytics = pair
    closed = counting(billing)
    next(analytics.stream("billing", "numbers"))
    assert closed.wait(30)


def test_a_reader_that_goes_closes_the_generator(pair: Pair, node: Make) -> None:
    billing, _ = pair
    closed = counting(billing)
    billing.allow("reader")
    reader = node("reader")
    assert next(reader.stream("billing", "numbers")) == 0
    reader.close()
    assert closed.wait(30)


def test_a_service_whose_node_leaves_ends_the_stream(pair: Pair) -> None:
    billing, analytics = pair
    counting(billing)
    stream = analytics.stream("billing", "numbers")
    assert next(stream) == 0
    billing.close(drain_seconds=0)
    with pytest.raises(speed.SpeedError):
        for _ in stream:
            pass


def test_the_deadline_ends_a_stream_on_both_sides(pair: Pair) -> None:
    billing, analytics = pair
    closed = counting(billing)
    with pytest.raises(speed.CallTimeoutError):
        for _ in analytics.stream("billing", "numbers", timeout=0.3):
            pass
    assert closed.wait(30)


def test_who_waits_too_long_for_an_item_withdraws(pair: Pair) -> None:
    billing, analytics = pair
    withdrawn = threading.Event()

    @billing.service("silent")
    def silent(request: speed.Request) -> Iterator[int]:
        yield 1
        request.cancellation.wait(30)
        withdrawn.set()

    stream = analytics.stream("billing", "silent", idle_timeout=0.2)
    assert next(stream) == 1
    with pytest.raises(speed.CallTimeoutError, match="sent nothing"):
        next(stream)
    assert withdrawn.wait(30)


# --- bounds ---


def test_a_reader_that_stands_still_holds_its_service_up(pair: Pair) -> None:
    """S-29."""
    billing, analytics = pair
    made = 0

    @billing.service("numbers")
    def numbers() -> Iterator[int]:
        nonlocal made
        while True:
            made += 1
            yield made

    stream = analytics.stream("billing", "numbers", window_items=10)
    assert next(stream) == 1
    until(lambda: made >= 10)
    time.sleep(0.2)
    assert made <= 11
    assert [next(stream) for _ in range(100)] == list(range(2, 102))
    stream.close()


def test_a_slow_service_holds_up_who_sends_it_items(pair: Pair) -> None:
    billing, analytics = pair
    asked_for = 0
    may_take = threading.Event()

    def items() -> Iterator[int]:
        nonlocal asked_for
        for number in range(100_000):
            asked_for += 1
            yield number

    @billing.service("slow")
    def slow(amounts: Iterator[int]) -> int:
        may_take.wait(30)
        return sum(amounts)

    stream = analytics.stream("billing", "slow", items=items())
    until(lambda: asked_for >= 4096)
    time.sleep(0.2)
    assert asked_for <= 4097
    may_take.set()
    assert stream.wait() == sum(range(100_000))


def test_a_peer_beyond_its_credit_breaks_the_stream_and_nothing_else(node: Make) -> None:
    """S-33."""
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics")

    @billing.service("floods")
    def floods(request: speed.Request) -> Iterator[int]:
        channel = request.channel
        channel.write(spc.encode_items(channel.request_id, 0, [b"\x01"] * 50))  # at once: no credit comes in between
        yield 1

    with pytest.raises(speed.InternalError, match="beyond credit"):
        list(analytics.stream("billing", "floods", window_items=20))
    billing.register("tax", lambda: 1)
    assert analytics.call("billing", "tax") == 1


def test_items_that_nobody_waits_for_are_counted_and_dropped(node: Make) -> None:
    """S-28."""
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", allow=["billing"])
    link = billing._engine._parts.links.granted("analytics")  # type: ignore[attr-defined]
    for flags in (0, FLAG_REPLY):
        link.send(EnvelopeType.STREAM, flags, spc.encode_items("9.9", 0, [b"\x01"]), time.monotonic() + 5)
    until(lambda: analytics.stats()["counters"].get("stream_envelopes_unexpected") == 2)


def test_an_envelope_of_a_stream_that_cannot_be_read_is_refused(node: Make) -> None:
    billing, analytics = node("billing", engine="python"), node("analytics", allow=["billing"])
    link = billing._engine._parts.links.granted("analytics")  # type: ignore[attr-defined]
    link.send(EnvelopeType.STREAM, 0, b"\x81\xa1x\x01", time.monotonic() + 5)
    until(lambda: analytics.stats()["counters"].get("rejected_bad_payload") == 1)


def test_a_forked_child_does_not_wait_for_its_parents_stream(pair: Pair) -> None:
    billing, analytics = pair
    counting(billing)
    stream = analytics.stream("billing", "numbers", window_items=1)
    assert next(stream) == 0
    child = os.fork()
    if child == 0:
        try:
            for _ in range(10):
                next(stream)
        except speed.ForkedNodeError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert next(stream) == 1
    stream.close()


# --- what does not fit ---


def test_a_call_of_a_service_that_streams_is_told_to_stream(pair: Pair) -> None:
    """S-27."""
    billing, analytics = pair
    counting(billing)
    with pytest.raises(speed.InvalidArgumentsError, match=r"node\.stream"):
        analytics.call("billing", "numbers")


def test_a_stream_of_a_service_that_does_not_is_told_to_call(pair: Pair) -> None:
    billing, analytics = pair
    billing.register("tax", lambda: 1)
    with pytest.raises(speed.InvalidArgumentsError, match="gives and takes no items"):
        list(analytics.stream("billing", "tax"))


def test_items_for_a_service_that_takes_none_are_refused(pair: Pair) -> None:
    billing, analytics = pair
    counting(billing)
    with pytest.raises(speed.InvalidArgumentsError, match="takes no items"):
        list(analytics.stream("billing", "numbers", items=[1]))


def test_a_window_that_holds_nothing_is_refused(pair: Pair) -> None:
    with pytest.raises(speed.ConfigurationError, match="window"):
        pair[1].stream("billing", "rows", window_items=0)


def test_a_description_says_that_a_service_streams_and_what_its_items_are(pair: Pair) -> None:
    billing, analytics = pair
    counting(billing)
    (described,) = analytics.describe("billing", "numbers")
    assert described.streaming
    assert described.result == {"type": "integer"}


# --- progress ---


def test_progress_reaches_who_asked_for_it(pair: Pair) -> None:
    """S-32."""
    billing, analytics = pair

    @billing.service("work")
    def work(request: speed.Request) -> int:
        request.progress(0, 3, "begun")
        for done in (1, 2, 3):
            time.sleep(0.06)
            request.progress(done, 3)
        return 42

    heard: list[speed.Progress] = []
    assert analytics.call("billing", "work", on_progress=heard.append) == 42
    assert heard[-1] == speed.Progress(3, 3, "")
    assert [one.done for one in heard] == sorted({one.done for one in heard})
    assert analytics.call("billing", "work") == 42


def test_progress_that_comes_too_often_is_lost_but_for_its_end(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("work")
    def work(request: speed.Request) -> None:
        for done in range(100_001):
            request.progress(done, 100_000)

    heard: list[speed.Progress] = []
    analytics.call("billing", "work", on_progress=heard.append)
    assert heard[-1].done == 100_000
    assert len(heard) < 10_000


def test_a_stream_tells_of_progress_beside_its_items(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("rows")
    def rows(request: speed.Request) -> Iterator[int]:
        yield 1
        request.progress(1, 1)
        yield 2

    heard: list[speed.Progress] = []
    assert list(analytics.stream("billing", "rows", on_progress=heard.append)) == [1, 2]
    assert heard == [speed.Progress(1, 1, "")]


@pytest.mark.parametrize("done", [-1, float("nan"), "1", True])
def test_progress_is_a_number_from_zero(pair: Pair, done: Any) -> None:
    billing, analytics = pair

    @billing.service("work")
    def work(request: speed.Request) -> None:
        request.progress(done)

    with pytest.raises(speed.ExecutionFailedError, match="progress"):
        analytics.call("billing", "work")


# --- awaited ---


def test_a_stream_is_awaited_item_by_item(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("double")
    async def double(amounts: AsyncIterator[int]) -> AsyncIterator[int]:
        async for amount in amounts:
            yield amount * 2

    async def items() -> AsyncIterator[int]:
        for number in range(100):
            await asyncio.sleep(0)
            yield number

    async def main() -> list[int]:
        return [item async for item in analytics.aio.stream("billing", "double", items=items())]

    assert asyncio.run(main()) == list(range(0, 200, 2))


def test_a_task_that_is_cancelled_withdraws_its_stream(pair: Pair) -> None:
    """S-34."""
    billing, analytics = pair
    withdrawn = threading.Event()

    @billing.service("silent")
    async def silent() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.sleep(30)
        finally:
            withdrawn.set()

    async def main() -> None:
        stream = analytics.aio.stream("billing", "silent")
        assert await anext(stream) == 1
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(stream), 0.1)
        with pytest.raises(speed.CallWithdrawnError):
            await anext(stream)

    asyncio.run(main())
    assert withdrawn.wait(30)


def test_progress_of_an_awaited_call_is_heard_on_its_loop(pair: Pair) -> None:
    billing, analytics = pair

    @billing.service("work")
    def work(request: speed.Request) -> int:
        request.progress(3, 3)
        return 42

    async def main() -> tuple[int, list[tuple[float, bool]]]:
        heard: list[tuple[float, bool]] = []
        here = threading.current_thread()
        result = await analytics.aio.call(
            "billing",
            "work",
            on_progress=lambda progress: heard.append((progress.done, threading.current_thread() is here)),
        )
        await asyncio.sleep(0)
        return result, heard

    assert asyncio.run(main()) == (42, [(3, True)])
