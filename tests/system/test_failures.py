"""Handlers and services that fail in any way end only themselves (registry_spec/spc.md, S-5, S-8, S-11)."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Queue
from typing import Any

import pytest

import speed

Make = Callable[..., speed.Node]
PATIENCE = 20.0


def exit_the_program() -> None:
    sys.exit("enough")


def cancel() -> None:
    raise asyncio.CancelledError("enough")


def interrupt() -> None:
    raise KeyboardInterrupt("enough")


def exit_a_generator() -> None:
    raise GeneratorExit("enough")


class Unspeakable(Exception):
    """Cannot even say what is wrong."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Own(BaseException):
    """No Exception either."""


def raise_an_own_one() -> None:
    raise Own("enough")


WAYS = [exit_the_program, cancel, interrupt, exit_a_generator, raise_an_own_one]
TEXTS = ["half of a pair: \ud83d", "x" * 1980 + "\ud83d" * 9, "x" * 3000]


@pytest.fixture(name="make")
def nodes_of_each_kind(node: Make, kind: str) -> Make:
    return partial(node, engine=kind)


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_that_ends_in_any_way_is_told_and_its_senders_next_message_is_handled(
    make: Make, way: Callable[[], None]
) -> None:
    """S-5, S-11: more failures than the node has threads."""
    billing, analytics = make("billing", allow=["analytics"], workers=1), make("analytics")
    handled: list[Any] = []

    def handle(message: speed.Message) -> None:
        if message.payload == "bad":
            way()
        handled.append(message.payload)

    billing.on_message(handle)
    for _ in range(3):
        with pytest.raises(speed.ExecutionFailedError, match="enough"):
            analytics.send("billing", "bad", ack=True, timeout=PATIENCE)
    analytics.send("billing", "good", ack=True, timeout=PATIENCE)
    assert handled == ["good"]
    assert billing.stats()["counters"]["handler_failures"] == 3


@pytest.mark.parametrize("way", WAYS)
def test_a_service_that_ends_in_any_way_is_answered(make: Make, way: Callable[[], None]) -> None:
    """S-3, S-8: more failures than the node has threads."""
    billing, analytics = make("billing", allow=["analytics"], workers=1), make("analytics")
    billing.register("bad", way)
    billing.register("good", lambda: 1)
    for _ in range(3):
        with pytest.raises(speed.ExecutionFailedError, match="enough"):
            analytics.call("billing", "bad", timeout=PATIENCE)
    assert analytics.call("billing", "good", timeout=PATIENCE) == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_awaited_service_or_handler_that_ends_in_any_way_ends_no_loop(make: Make, way: Callable[[], None]) -> None:
    """S-24: asyncio lets an exit end the loop with the task; more failures than the node has threads."""
    billing, analytics = make("billing", allow=["analytics"], workers=1), make("analytics")

    async def bad() -> int:
        await asyncio.sleep(0)
        way()
        return 1

    async def handle(message: speed.Message) -> None:
        if message.payload == "bad":
            await bad()

    async def good() -> int:
        return 1

    billing.register("bad", bad)
    billing.register("good", good)
    billing.on_message(handle)
    for _ in range(2):
        with pytest.raises(speed.ExecutionFailedError):
            analytics.call("billing", "bad", timeout=PATIENCE)
        with pytest.raises(speed.ExecutionFailedError):
            analytics.send("billing", "bad", ack=True, timeout=PATIENCE)
    analytics.send("billing", "good", ack=True, timeout=PATIENCE)
    assert analytics.call("billing", "good", timeout=PATIENCE) == 1


def test_a_task_that_exits_and_code_that_stops_the_loop_end_nothing_else(make: Make) -> None:
    """S-24."""
    billing, analytics = make("billing", allow=["analytics"], workers=1), make("analytics")

    async def exits() -> None:
        await asyncio.create_task(asyncio.to_thread(exit_the_program))

    async def stops() -> int:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return 1

    billing.register("exits", exits)
    billing.register("stops", stops)
    with pytest.raises(speed.ExecutionFailedError, match="enough"):
        analytics.call("billing", "exits", timeout=PATIENCE)
    assert analytics.call("billing", "stops", timeout=PATIENCE) == 1


class Exiting(dict[str, int]):
    """Ends the program when it is looked through."""

    def items(self) -> Any:
        sys.exit("enough")

    __iter__ = items


def test_a_result_whose_own_code_exits_is_answered(node: Make) -> None:
    """S-3, S-24: the native engine reads such a map without its code."""
    billing, analytics = node("billing", allow=["analytics"], workers=1, engine="python"), node("analytics")
    billing.register("bad", lambda: Exiting(a=1))
    for _ in range(3):
        with pytest.raises(speed.ExecutionFailedError, match="enough"):
            analytics.call("billing", "bad", timeout=PATIENCE)


class Broken(logging.Handler):
    """Fails with each line."""

    def handle(self, record: logging.LogRecord) -> bool:
        raise SystemExit(f"no room for {record.name}")


def test_a_handler_of_the_log_that_fails_costs_no_answer(make: Make) -> None:
    """S-24."""
    billing, analytics = make("billing", allow=["analytics"], workers=1), make("analytics")

    def handle(message: speed.Message) -> None:
        raise ValueError("enough")

    billing.register("bad", partial(handle, None))
    billing.on_message(handle)
    logging.getLogger().addHandler(broken := Broken())
    try:
        for _ in range(2):
            with pytest.raises(speed.ExecutionFailedError, match="enough"):
                analytics.call("billing", "bad", timeout=PATIENCE)
            with pytest.raises(speed.ExecutionFailedError, match="enough"):
                analytics.send("billing", 1, ack=True, timeout=PATIENCE)
    finally:
        logging.getLogger().removeHandler(broken)


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_whose_handler_ends_in_any_way_comes_again(make: Make, way: Callable[[], None]) -> None:
    """L-15."""
    billing, analytics = make("billing", allow=["analytics"], workers=1), make("analytics")
    seen: list[Any] = []

    def handle(messages: Sequence[speed.Message]) -> None:
        seen.append([message.payload for message in messages])
        if len(seen) < 3:
            way()

    billing.on_batch(handle)
    analytics.send("billing", "kept", ack=True, timeout=PATIENCE)
    assert seen == [["kept"]] * 3


@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_of_a_node_that_joins_may_end_in_any_way(make: Make, way: Callable[[], None]) -> None:
    """S-5: no worker ends with it."""
    billing = make("billing", allow=["analytics"], workers=1)
    joined: Queue[str] = Queue()
    billing.on_join(lambda entry: (joined.put(entry.name), way()))
    billing.register("one", lambda: 1)
    for number in range(3):
        make(f"other{number}")
        assert joined.get(timeout=PATIENCE) == f"other{number}"
    assert make("analytics").call("billing", "one", timeout=PATIENCE) == 1


@pytest.mark.parametrize("text", TEXTS, ids=["short", "cut", "long"])
def test_a_failure_whose_text_has_no_representation_is_told_and_the_next_message_is_handled(
    make: Make, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S-11, W-15."""
    caplog.set_level(logging.CRITICAL, "speed.messages")  # what is captured must have a representation
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled = threading.Event()

    def handle(message: speed.Message) -> None:
        if message.payload == "bad":
            raise ValueError(text)
        handled.set()

    billing.on_message(handle)
    with pytest.raises(speed.ExecutionFailedError, match=text[:10]):
        analytics.send("billing", "bad", ack=True, timeout=PATIENCE)
    analytics.send("billing", "good")
    assert handled.wait(PATIENCE)


@pytest.mark.parametrize("text", TEXTS, ids=["short", "cut", "long"])
def test_a_refusal_whose_text_has_no_representation_is_told_and_the_next_batch_is_handled(
    make: Make, text: str
) -> None:
    """S-11, W-15."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    billing.on_batch(
        lambda messages: {
            place: speed.JournalError(text) for place, message in enumerate(messages) if message.payload == "bad"
        }
    )
    with pytest.raises(speed.ExecutionFailedError, match=text[:10]):
        analytics.send("billing", "bad", ack=True, timeout=PATIENCE)
    analytics.send("billing", "good", ack=True, timeout=PATIENCE)


def test_a_batch_handler_that_refuses_a_place_that_is_none_holds_up_no_later_batch(make: Make) -> None:
    """L-15."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled: Queue[Any] = Queue()

    def handle(messages: Sequence[speed.Message]) -> dict[int, speed.SpeedError]:
        handled.put(messages[0].payload)
        return {7: speed.JournalError("nobody")} if messages[0].payload == "bad" else {}

    billing.on_batch(handle)
    analytics.send("billing", "bad")
    assert handled.get(timeout=PATIENCE) == "bad"
    analytics.send("billing", "good", ack=True, timeout=PATIENCE)
    assert handled.get(timeout=PATIENCE) == "good"


def test_a_failing_services_text_without_representation_is_answered(make: Make) -> None:
    """S-3, W-15."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    def fail() -> None:
        raise ValueError(TEXTS[0])

    billing.register("bad", fail)
    with pytest.raises(speed.ExecutionFailedError, match="half of a pair"):
        analytics.call("billing", "bad", timeout=PATIENCE)


def test_a_failure_that_fails_to_say_why_is_told_by_its_kind(make: Make) -> None:
    """S-3, S-5, S-11."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    def fail(*_: Any) -> None:
        raise Unspeakable

    billing.on_message(fail)
    billing.register("bad", lambda: fail())
    for _ in range(2):
        with pytest.raises(speed.ExecutionFailedError, match="Unspeakable"):
            analytics.send("billing", "bad", ack=True, timeout=PATIENCE)
    with pytest.raises(speed.ExecutionFailedError, match="Unspeakable"):
        analytics.call("billing", "bad", timeout=PATIENCE)
