"""What a node accepted is handled, whenever the program says what takes it (registry_spec/scheduling.md, T-2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import speed
from tests.system.conftest import Child

Make = Callable[..., speed.Node]
Start = Callable[..., Child]
PATIENCE = 20.0


def test_messages_that_came_before_the_handler_are_handled_in_order(make: Make) -> None:
    """The node granted in its constructor; its sender was quicker than its program."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    for number in range(180):
        analytics.send("billing", number, ack=True, timeout=PATIENCE)
    handled: Queue[int] = Queue()
    billing.on_message(lambda message: handled.put(message.payload))
    analytics.send("billing", 180, ack=True, timeout=PATIENCE)
    assert [handled.get(timeout=PATIENCE) for _ in range(181)] == list(range(181))


@pytest.mark.parametrize("attempt", range(4))
def test_more_messages_than_a_lane_may_hold_unfinished_wait_for_the_handler(make: Make, attempt: int) -> None:
    """L-19: the lane stands still until the handler has taken some, and goes on beside it: a race, so several tries."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    for number in range(3000):
        analytics.send("billing", number, timeout=PATIENCE)
    handled: Queue[int] = Queue()
    billing.on_message(lambda message: handled.put(message.payload))
    assert [handled.get(timeout=PATIENCE) for _ in range(3000)] == list(range(3000))


def test_a_handler_that_is_registered_while_messages_come_misses_none_and_keeps_their_order(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled: Queue[int] = Queue()
    under_way = threading.Event()

    def send() -> None:
        for number in range(180):
            analytics.send("billing", number, ack=number % 3 == 0, timeout=PATIENCE)
            if number == 90:
                under_way.set()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    assert under_way.wait(PATIENCE)
    billing.on_message(lambda message: handled.put(message.payload))
    assert [handled.get(timeout=PATIENCE) for _ in range(180)] == list(range(180))
    sender.join(PATIENCE)


def test_events_that_came_before_the_subscription_are_handled(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    for number in range(50):
        analytics.forward("billing", [event_of(analytics, number)], event=True)
    analytics.ping("billing", timeout=PATIENCE)
    handled: Queue[int] = Queue()
    billing.subscribe("orders.*", lambda message: handled.put(message.payload))
    assert [handled.get(timeout=PATIENCE) for _ in range(50)] == list(range(50))


def event_of(node: speed.Node, number: int) -> bytes:
    from speed.message.writing import encode_message, new_message_id

    return encode_message(
        number,
        topic="orders.created",
        namespace="default",
        message_id=new_message_id(1_700_000_000_000 + number, bytes(16)),
        published_at_ms=1_700_000_000_000,
        publisher_id=node.name,
    )


RECEIVER = """
import sys, speed
node = speed.Node("billing", root=sys.argv[1], allow=["analytics"], engine=sys.argv[2])
print("up", flush=True)
sys.stdin.readline()
"""
LATER = """
import sys, threading, speed
node = speed.Node("billing", root=sys.argv[1], allow=["analytics"], engine=sys.argv[2])
found = threading.Semaphore(0)
lines = []
def note(message):
    lines.append(message.payload)
    found.release()
node.subscribe("orders.*", note)
node.on_message(note)
for _ in range(int(sys.argv[3])):
    found.acquire(timeout=20)
print(sorted(lines, key=str), flush=True)
node.close()
"""


def test_what_waited_when_its_receiver_was_killed_is_handled_by_the_next_one(
    root: str, make: Make, kind: str, child: Start
) -> None:
    """Acknowledged, or written as an event: neither waits for a program in vain."""
    receiver = child(RECEIVER, root, kind)
    assert receiver.line() == "up"
    analytics = make("analytics")
    for number in range(5):
        analytics.send("billing", number, ack=True, timeout=PATIENCE)
        analytics.forward("billing", [event_of(analytics, 100 + number)], event=True)
    analytics.ping("billing", timeout=PATIENCE)
    receiver.kill()
    assert child(LATER, root, kind, "10").line() == str(sorted([*range(5), *range(100, 105)], key=str))


def test_a_message_that_waited_can_still_be_fetched(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    analytics.send("billing", 1, ack=True, timeout=PATIENCE)
    message = billing.receive(PATIENCE)
    assert message is not None
    assert message.payload == 1


def test_an_event_that_nothing_takes_is_acknowledged_when_its_time_is_over(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from speed.core import scheduler

    monkeypatch.setattr(scheduler, "UNCLAIMED_EVENT_SECONDS", 0.1)
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    analytics.forward("billing", [event_of(analytics, 1)], event=True, ack=True, timeout=PATIENCE)
    assert billing.stats()["counters"]["events_unsubscribed"] == 1


def test_each_thread_that_receives_finishes_its_own_message(root: str, node: Make) -> None:
    """T-7: what another thread fetched meanwhile is not over by that."""
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    for number in (1, 2):
        analytics.send("billing", number, ack=True, timeout=PATIENCE)
    first = billing.receive(PATIENCE)
    assert first is not None
    found: Queue[Any] = Queue()
    other = threading.Thread(target=lambda: found.put(billing.receive(PATIENCE)), daemon=True)
    other.start()
    second = found.get(timeout=PATIENCE)
    assert (first.payload, second.payload) == (1, 2)
    assert not first.is_done


def test_a_cancelled_receive_leaves_the_message_for_the_next_one(make: Make) -> None:
    """Also one that ``wait_for`` gives up, whenever that is."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    async def fetch() -> list[int]:
        found: list[int] = []
        while len(found) < 40:
            try:
                message = await asyncio.wait_for(billing.aio.receive(), 0.003)
            except asyncio.TimeoutError:
                continue
            assert message is not None
            found.append(message.payload)
        return found

    sender = threading.Thread(
        target=lambda: [analytics.send("billing", number, ack=True, timeout=PATIENCE) for number in range(40)],
        daemon=True,
    )
    sender.start()
    assert asyncio.run(asyncio.wait_for(fetch(), PATIENCE)) == list(range(40))
    sender.join(PATIENCE)


def test_a_receive_that_is_cancelled_gives_its_message_to_a_thread_that_waits(make: Make) -> None:
    """Whatever waits behind the awaited call: the message comes right after it was cancelled."""
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")

    async def give_up() -> speed.Message | None:
        waiting = asyncio.ensure_future(billing.aio.receive())
        await asyncio.sleep(0.05)  # it has begun to wait
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.to_thread(analytics.send, "billing", 7, ack=True, timeout=PATIENCE)
        return await asyncio.to_thread(billing.receive, PATIENCE)

    message = asyncio.run(give_up())
    assert message is not None
    assert message.payload == 7


def test_who_sent_a_message_that_waits_is_told_so(node: Make) -> None:
    """S-11: what its acknowledgement says; "handled" would be more than is known."""
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    assert analytics.send("billing", 1, ack=True, timeout=PATIENCE).waiting  # type: ignore[attr-defined]
    billing.on_message(lambda message: None)
    assert not analytics.send("billing", 2, ack=True, timeout=PATIENCE).waiting  # type: ignore[attr-defined]
