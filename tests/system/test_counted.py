"""What a node counts of its handlers, its services and its peers, as STATS tells it (S-14)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import speed
from speed.errors import AccessDeniedError, CallTimeoutError

pytestmark = pytest.mark.system

PATIENCE = 20.0
Make = Callable[..., speed.Node]


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.fixture
def hub(make: Make) -> speed.Node:
    return make("hub", allow=["shop", "web"], workers=1)


@pytest.fixture
def shop(make: Make) -> speed.Node:
    return make("shop", allow=["hub"])


def handlers(node: speed.Node) -> dict[str, Any]:
    found: dict[str, Any] = node.stats()["handlers"]
    return found


def row_of(node: speed.Node, service: str) -> dict[str, Any]:
    found: dict[str, Any] = node.stats()["services"][service]
    return found


def test_handlers_of_messages_are_counted_with_their_times(hub: speed.Node, shop: speed.Node) -> None:
    hub.on_message(lambda message: time.sleep(0.01))
    for _ in range(3):
        shop.send("hub", b"text", ack=True)
    until(lambda: handlers(hub)["(messages)"]["numHandled"] == 3)
    row = handlers(hub)["(messages)"]
    assert sum(row["runTimes"]) == sum(row["queueTimes"]) == 3
    assert row["numErrors"] == 0
    assert row["processingSeconds"] >= 0.03


def test_handlers_of_events_are_counted_by_their_pattern(hub: speed.Node, shop: speed.Node) -> None:
    hub.subscribe("orders.*", lambda message: None)
    hub.subscribe("orders.new", lambda message: None)
    shop.publish("orders.new", b"text")
    until(lambda: set(handlers(hub)) == {"orders.*", "orders.new"})
    until(lambda: [row["numHandled"] for row in handlers(hub).values()] == [1, 1])


def test_handlers_of_batches_are_counted_by_batch(hub: speed.Node, shop: speed.Node) -> None:
    hub.on_batch(lambda messages: None)
    shop.send("hub", b"text", ack=True)
    until(lambda: handlers(hub).get("(batches)", {}).get("numHandled") == 1)


def test_attempts_that_fail_are_errors(hub: speed.Node, shop: speed.Node) -> None:
    def fail(message: speed.Message) -> None:
        raise ValueError

    hub.on_message(fail)
    shop.send("hub", b"text")
    until(lambda: handlers(hub).get("(messages)", {}).get("numErrors") == 1)
    assert handlers(hub)["(messages)"]["numHandled"] == 1


def test_patterns_beyond_the_bound_are_counted_together(hub: speed.Node, shop: speed.Node) -> None:
    for number in range(70):
        hub.subscribe(f"orders.{number}", lambda message: None)
    for number in range(70):
        shop.publish(f"orders.{number}", b"text")
    until(lambda: sum(row["numHandled"] for row in handlers(hub).values()) == 70)
    assert len(handlers(hub)) == 65
    assert handlers(hub)["*"]["numHandled"] == 6


def test_envelopes_and_bytes_are_counted_by_peer_at_both_ends(hub: speed.Node, shop: speed.Node) -> None:
    hub.register("size", lambda data: len(data))
    shop.call("hub", "size", {"data": b"x" * 1000})
    sent, received = shop.stats()["peers"]["hub"], hub.stats()["peers"]["shop"]
    assert (sent["sent"], received["received"]) == (1, 1)
    assert sent["sentBytes"] == received["receivedBytes"] >= 1000
    until(lambda: shop.stats()["peers"]["hub"]["received"] == 1)
    assert hub.stats()["peers"]["shop"]["sentBytes"] == shop.stats()["peers"]["hub"]["receivedBytes"]


def test_who_has_no_grant_is_no_peer(hub: speed.Node, make: Make) -> None:
    with pytest.raises(AccessDeniedError):
        make("stranger").call("hub", "size", {})
    assert "stranger" not in hub.stats()["peers"]


def test_calls_that_time_out_in_the_queue_are_told_apart(hub: speed.Node, shop: speed.Node) -> None:
    go_on = threading.Event()
    hub.register("wait", lambda: go_on.wait(PATIENCE))
    running = shop.submit("hub", "wait", timeout=PATIENCE)
    until(lambda: hub.stats()["runningRequests"] == 1)
    with pytest.raises(CallTimeoutError):
        shop.call("hub", "wait", timeout=0.2)
    go_on.set()
    running.result(PATIENCE)
    row = row_of(hub, "wait")
    assert (row["numTimedOut"], row["numTimedOutQueued"]) == (1, 1)


def test_calls_that_are_withdrawn_are_counted_by_service(hub: speed.Node, shop: speed.Node) -> None:

    def wait(request: speed.Request) -> None:
        request.cancellation.wait(PATIENCE)

    hub.register("wait", wait)
    call = shop.submit("hub", "wait", timeout=PATIENCE)
    until(lambda: hub.stats()["runningRequests"] == 1)
    call.cancel()
    until(lambda: "wait" in hub.stats()["services"])
    until(lambda: row_of(hub, "wait")["numWithdrawn"] == 1)


def test_calls_that_a_service_refuses_are_counted_by_it(hub: speed.Node, shop: speed.Node, make: Make) -> None:
    hub.register("secret", lambda: 1, allow=["web"])
    with pytest.raises(AccessDeniedError):
        shop.call("hub", "secret", {})
    web = make("web")
    assert web.call("hub", "secret", {}) == 1
    row = web.stats("hub")["services"]["secret"]
    assert (row["numRefused"], row["numRequests"]) == (1, 1)


def test_descriptors_of_the_process_are_told(hub: speed.Node) -> None:
    stats = hub.stats()
    assert 3 < stats["openFiles"] <= stats["maxOpenFiles"]
