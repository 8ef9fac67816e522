"""Publishing: first where there is room, then to the others within one bound; who did not get it is named."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import speed

Make = Callable[..., speed.Node]
PATIENCE = 20.0


@pytest.fixture
def full(make: Make) -> tuple[speed.Node, threading.Event]:
    """A subscriber whose handler does not end before the event is set, and whose lane is full."""
    go = threading.Event()
    held = make("a-full", allow=["publisher"], workers=1)
    held.subscribe("orders.*", lambda message: go.wait(PATIENCE))
    return held, go


def publisher_of(make: Make, full: tuple[speed.Node, threading.Event]) -> speed.Node:
    publisher = make("publisher", max_lane_bytes=20_000)
    while True:
        if publisher.publish("orders.created", bytes(4000), on_full="drop") == 0:
            return publisher


def test_a_full_subscriber_is_dropped_by_policy_counted_and_named(
    make: Make, full: tuple[speed.Node, threading.Event]
) -> None:
    publisher = publisher_of(make, full)
    handled: Queue[Any] = Queue()
    make("z-free", allow=["publisher"]).subscribe("orders.*", lambda message: handled.put(message.payload))
    published = publisher.publish("orders.created", bytes(4000), timeout=1000, on_full="drop")
    assert published == 1
    assert published.delivered == ("z-free",)
    assert published.failed == {"a-full": "INBOX_FULL"}
    assert handled.get(timeout=PATIENCE) == bytes(4000)
    full[1].set()


def test_who_has_room_gets_the_event_before_anybody_is_waited_for(
    make: Make, full: tuple[speed.Node, threading.Event]
) -> None:
    """The full one comes first by name, and lets go only when the other has it."""
    publisher = publisher_of(make, full)
    make("z-free", allow=["publisher"]).subscribe("orders.*", lambda message: full[1].set())
    published = publisher.publish("orders.created", bytes(4000), timeout=PATIENCE)
    assert sorted(published.delivered) == ["a-full", "z-free"]


def test_a_hung_subscriber_with_a_full_lane_keeps_no_event_from_others(make: Make) -> None:
    """It hangs for as long as the publisher would wait for it, and longer."""
    go, handled = threading.Event(), threading.Event()
    make("a-hung", allow=["publisher"], workers=1).subscribe("orders.*", lambda message: go.wait(5 * PATIENCE))
    publisher = make("publisher", max_lane_bytes=20_000)
    while publisher.publish("orders.created", bytes(4000), timeout=0.05):
        pass
    make("z-free", allow=["publisher"]).subscribe("orders.*", lambda message: handled.set())
    how = {"timeout": 4 * PATIENCE}
    publishing = threading.Thread(target=publisher.publish, args=("orders.created", bytes(4000)), kwargs=how)
    publishing.start()
    assert handled.wait(PATIENCE)
    go.set()
    publishing.join(PATIENCE)


def test_a_subscriber_that_does_not_allow_the_publisher_is_named(make: Make) -> None:
    make("private").subscribe("orders.*", lambda message: None)
    make("open", allow=["publisher"]).subscribe("orders.*", lambda message: None)
    published = make("publisher").publish("orders.created", 1, timeout=PATIENCE)
    assert (int(published), published.delivered, dict(published.failed)) == (1, ("open",), {"private": "ACCESS_DENIED"})


def test_a_protected_event_is_published_in_the_same_way(make: Make, full: tuple[speed.Node, threading.Event]) -> None:
    publisher = publisher_of(make, full)
    options = speed.PublishOptions(compression="gzip")
    make("z-free", allow=["publisher"]).subscribe("orders.*", lambda message: None)
    published = publisher.publish(
        "orders.created", bytes(range(256)) * 64, timeout=1000, on_full="drop", options=options
    )
    assert "z-free" in published.delivered
    full[1].set()


def test_what_to_do_with_a_full_subscriber_is_one_of_two_words(make: Make) -> None:
    with pytest.raises(speed.ConfigurationError, match="on_full"):
        make("publisher").publish("orders.created", 1, on_full="perhaps")
