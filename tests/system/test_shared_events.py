"""Shared subscriptions: of the nodes of one family, one gets each event (S-42)."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import speed
from tests.interop.harness import until
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system


class Taken:
    """What came to whom."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.by: defaultdict[str, list[Any]] = defaultdict(list)

    def handler(self, name: str) -> Callable[[speed.Message], None]:
        def take(message: speed.Message) -> None:
            with self._lock:
                self.by[name].append(message.payload)

        return take

    def count(self) -> int:
        with self._lock:
            return sum(map(len, self.by.values()))


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture(params=ENGINES)
def shop(node: Make, request: pytest.FixtureRequest) -> speed.Node:
    return node("shop", engine=request.param)


def worker(node: Make, taken: Taken, name: str, pattern: str = "orders.*", **options: Any) -> speed.Node:
    made = node(name, allow=["shop"], **options)
    made.subscribe(pattern, taken.handler(name), shared=True)
    return made


def test_each_event_goes_to_one_node_of_a_family_in_turn(node: Make, shop: speed.Node, taken: Taken) -> None:
    for number in range(3):
        worker(node, taken, f"worker.{number}")
    told = [shop.publish("orders.created", number) for number in range(9)]
    assert until(lambda: taken.count() == 9)
    assert {name: len(events) for name, events in taken.by.items()} == {f"worker.{number}": 3 for number in range(3)}
    assert sorted(event for events in taken.by.values() for event in events) == list(range(9))
    assert Counter(name for one in told for name in one.delivered) == {f"worker.{number}": 3 for number in range(3)}


def test_each_family_and_each_node_that_does_not_share_gets_every_event(
    node: Make, shop: speed.Node, taken: Taken
) -> None:
    for name in ("worker.0", "worker.1", "audit.0", "audit.1", "alone"):
        worker(node, taken, name)
    node("log", allow=["shop"]).subscribe("orders.*", taken.handler("log"))
    for number in range(4):
        assert len(shop.publish("orders.created", number).delivered) == 4
    assert until(lambda: taken.count() == 16)
    assert {name: len(events) for name, events in taken.by.items()} == {
        "worker.0": 2,
        "worker.1": 2,
        "audit.0": 2,
        "audit.1": 2,
        "alone": 4,
        "log": 4,
    }


def test_a_node_that_is_gone_or_does_not_allow_the_publisher_is_passed_by(
    node: Make, shop: speed.Node, taken: Taken
) -> None:
    first = worker(node, taken, "worker.0")
    worker(node, taken, "worker.1")
    node("worker.2").subscribe("orders.*", taken.handler("worker.2"), shared=True)
    assert shop.publish("orders.created", 0).delivered == ("worker.0",)
    assert until(lambda: taken.count() == 1)
    first.close()
    assert [shop.publish("orders.created", number).delivered for number in range(4)] == [("worker.1",)] * 4
    assert until(lambda: taken.count() == 5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_node_without_room_is_passed_by(node: Make, engine: str, taken: Taken) -> None:
    stopped = threading.Event()
    shop = node("shop", engine=engine, max_lane_bytes=1 << 18)
    busy = node("worker.0", allow=["shop"])
    busy.subscribe("orders.*", lambda message: stopped.wait(60), shared=True)
    worker(node, taken, "worker.1")
    try:
        for _ in range(60):
            told = shop.publish("orders.created", b"x" * 20_000, timeout=30)
            assert len(told.delivered) == 1
            assert not told.failed
        assert until(lambda: taken.count() >= 40)
    finally:
        stopped.set()


def test_batches_are_shared_too(node: Make, shop: speed.Node, taken: Taken) -> None:
    for number in range(2):
        made = node(f"worker.{number}", allow=["shop"])

        def take(messages: list[speed.Message], name: str = made.name) -> None:
            for message in messages:
                taken.handler(name)(message)

        made.on_batch(lambda messages, take=take: take(messages), ["orders.*"], shared=True)
    for number in range(10):
        shop.publish("orders.created", number)
    assert until(lambda: taken.count() == 10)
    assert {name: len(events) for name, events in taken.by.items()} == {"worker.0": 5, "worker.1": 5}


def test_one_pattern_is_shared_or_not(node: Make, shop: speed.Node, taken: Taken) -> None:
    shop.subscribe("orders.*", taken.handler("shop"), shared=True)
    with pytest.raises(speed.ConfigurationError, match=r"'orders\.\*' is subscribed to both shared and not"):
        shop.subscribe("orders.*", taken.handler("shop"))
    shop.subscribe("orders.*", taken.handler("shop"), shared=True)
    shop.subscribe("bills.*", taken.handler("shop"))
    (entry,) = [entry for entry in shop.nodes() if entry.name == "shop"]
    assert (entry.subscriptions, entry.shared) == (("orders.*", "bills.*"), ("orders.*",))


def test_what_a_node_also_wants_for_itself_comes_to_it_each_time(node: Make, shop: speed.Node, taken: Taken) -> None:
    made = worker(node, taken, "worker.0")
    made.subscribe("orders.created", taken.handler("own"))
    worker(node, taken, "worker.1")
    assert sorted(shop.publish("orders.created", 1).delivered) == ["worker.0", "worker.1"]
    assert until(lambda: taken.count() == 3)
