"""Messages and events many at a time: ``Node.on_batch`` (L-15)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import speed
from speed.message.errors import AwayError

Make = Callable[..., speed.Node]
PATIENCE = 30.0


class Collected:
    """A handler that keeps what it took, and tells when there is enough."""

    def __init__(self, enough: int) -> None:
        self.batches: list[list[Any]] = []
        self._enough = enough
        self.done = threading.Event()

    def __call__(self, messages: Sequence[speed.Message]) -> None:
        self.batches.append([message.payload for message in messages])
        if len(self.payloads) >= self._enough:
            self.done.set()

    @property
    def payloads(self) -> list[Any]:
        return [payload for batch in self.batches for payload in batch]


def test_messages_and_events_come_in_batches_and_in_the_order_of_their_sender(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    collected = Collected(1100)
    billing.on_batch(collected, ["orders.*"])
    analytics.wait_for("billing")
    analytics.send_all("billing", range(1000), timeout=PATIENCE)
    for number in range(1000, 1100):
        analytics.publish("orders.new", number)
    assert collected.done.wait(PATIENCE)
    assert collected.payloads == list(range(1100))
    assert len(collected.batches) < 1000


def test_a_lone_message_is_a_batch_and_acknowledged_after_the_handler_returned(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    collected = Collected(1)
    billing.on_batch(collected)
    analytics.send("billing", "one", ack=True)
    assert collected.batches == [["one"]]


def test_what_waited_for_receive_comes_first(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    analytics.send("billing", 1, ack=True)
    collected = Collected(2)
    billing.on_batch(collected)
    analytics.send("billing", 2, ack=True)
    assert collected.done.wait(PATIENCE)
    assert collected.payloads == [1, 2]


def test_a_batch_whose_handler_raises_comes_again_until_it_is_taken(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    seen: list[Any] = []

    def handle(messages: Sequence[speed.Message]) -> None:
        seen.append([message.payload for message in messages])
        if len(seen) < 3:
            raise OSError("no room")

    billing.on_batch(handle)
    analytics.send("billing", "kept", ack=True, timeout=PATIENCE)
    assert seen == [["kept"]] * 3
    assert billing.stats()["counters"]["batches_failed"] == 2


def test_a_refused_place_is_told_to_its_sender_and_no_other(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    billing.on_batch(
        lambda messages: {
            place: speed.JournalError("no odd ones") for place, message in enumerate(messages) if message.payload % 2
        }
    )
    analytics.send("billing", 2, ack=True)
    with pytest.raises(speed.ExecutionFailedError, match="no odd ones"):
        analytics.send("billing", 3, ack=True)
    analytics.send("billing", 4, ack=True)


def test_events_of_other_topics_are_not_handed_over(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    collected = Collected(1)
    billing.on_batch(collected, ["orders.*"])
    analytics.wait_for("billing")
    assert analytics.publish("invoices.new", 1) == 0
    assert analytics.publish("orders.new", 2) == 1
    assert collected.done.wait(PATIENCE)
    assert collected.payloads == [2]


@pytest.mark.parametrize("other", ["on_message", "subscribe", "on_batch"])
def test_a_batch_handler_is_the_only_one(node: Make, other: str) -> None:
    billing = node("billing")
    handlers: dict[str, Callable[[], Any]] = {
        "on_message": lambda: billing.on_message(lambda message: None),
        "subscribe": lambda: billing.subscribe("a", lambda message: None),
        "on_batch": lambda: billing.on_batch(lambda messages: None),
    }
    handlers[other]()
    with pytest.raises(speed.ConfigurationError, match="only one"):
        billing.on_batch(lambda messages: None)


@pytest.mark.parametrize("other", ["on_message", "subscribe"])
def test_there_is_no_handler_beside_one_for_batches(node: Make, other: str) -> None:
    billing = node("billing")
    billing.on_batch(lambda messages: None)
    with pytest.raises(speed.ConfigurationError, match="already has a"):
        if other == "on_message":
            billing.on_message(lambda message: None)
        else:
            billing.subscribe("a", lambda message: None)


def test_what_was_not_taken_when_the_node_closed_comes_again_with_the_same_sequence(node: Make) -> None:
    analytics = node("analytics")
    sequences: list[int] = []
    refused = threading.Event()

    def refuse(messages: Sequence[speed.Message]) -> None:
        sequences.append(messages[0].sequence)
        refused.set()
        raise OSError("no room")

    with speed.Node("billing", root=analytics.root, key=f"{analytics.root}/speed.key", allow=["analytics"]) as first:
        first.on_batch(refuse)
        analytics.send("billing", "kept")
        assert refused.wait(PATIENCE)
    again = Collected(1)
    second = node("billing", allow=["analytics"])
    second.on_batch(lambda messages: (sequences.append(messages[0].sequence), again(messages))[1])
    assert again.done.wait(PATIENCE)
    assert again.payloads == ["kept"]
    assert len(set(sequences)) == 1


def test_a_closed_node_takes_no_handler(node: Make) -> None:
    billing = node("billing")
    billing.close()
    with pytest.raises(speed.NodeClosedError):
        billing.on_batch(lambda messages: None)


@pytest.mark.parametrize("on_error", ["dead-letter", "retry", "drop"])
def test_one_message_that_cannot_be_handled_is_given_up_alone(node: Make, on_error: str) -> None:
    """S-17: it is delivered as often as it may be, the last time alone, and no other message suffers."""
    billing = node("billing", allow=["analytics"], max_deliveries=3, on_error=on_error)
    analytics = node("analytics")
    seen: list[list[Any]] = []
    handled: list[Any] = []
    done = threading.Event()

    def handle(messages: Sequence[speed.Message]) -> None:
        payloads = [message.payload for message in messages]
        seen.append(payloads)
        if "poison" in payloads:
            raise ValueError("cannot be handled")
        handled.extend(payloads)
        if "last" in payloads:
            done.set()

    analytics.wait_for("billing")
    for payload in ("a", "poison", "b"):
        analytics.send("billing", payload, ack=True)
    billing.on_batch(handle)
    analytics.send("billing", "last")
    assert done.wait(PATIENCE)
    assert sum("poison" in payloads for payloads in seen) == 3
    assert ["poison"] in seen
    assert handled == ["a", "b", "last"], "each once, in order"
    counters = billing.stats()["counters"]
    assert counters["messages_dropped" if on_error == "drop" else "dead_letters"] == 1


def test_a_batch_that_needs_what_is_away_waits_and_nothing_of_it_is_given_up(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"], max_deliveries=2), node("analytics")
    attempts: list[int] = []

    def handle(messages: Sequence[speed.Message]) -> None:
        attempts.append(len(messages))
        if len(attempts) < 5:
            raise AwayError("no room in the journal")

    billing.on_batch(handle)
    analytics.send("billing", "kept", ack=True, timeout=PATIENCE)
    assert attempts == [1] * 5
