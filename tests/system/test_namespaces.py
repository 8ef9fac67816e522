"""Namespaces keep the messages of tenants apart (M-34)."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import speed

Make = Callable[..., speed.Node]


def refused(node: speed.Node) -> int:
    return int(node.stats()["counters"].get("messages_refused", 0))


def test_a_node_is_not_handed_messages_of_another_namespace(make: Make) -> None:
    acme = make("acme.orders", namespace="acme")
    other = make("other.orders", namespace="other", allow=["acme.orders"])
    seen: list[Any] = []
    other.on_message(seen.append)
    with pytest.raises(speed.InvalidArgumentsError, match="OTHER_NAMESPACE: namespace: 'acme' is not taken"):
        acme.send("other.orders", 1, ack=True, timeout=20)
    assert seen == []
    assert refused(other) == 1


def test_a_node_is_not_handed_events_of_another_namespace(make: Make) -> None:
    acme = make("acme.orders", namespace="acme")
    other = make("other.orders", namespace="other", allow=["acme.orders"], accept_namespaces=["third"])
    third = make("third.orders", namespace="third")
    other.allow("third.orders")
    seen: Queue[Any] = Queue()
    other.subscribe("*", lambda message: seen.put((message.metadata.namespace, message.payload)))
    acme.publish("orders.made", 1)
    third.publish("orders.made", 2)
    assert seen.get(timeout=20) == ("third", 2)
    assert seen.empty()


@pytest.mark.parametrize("accepted", [["acme"], ["*"]])
def test_a_node_that_says_so_is_handed_messages_of_other_namespaces(make: Make, accepted: list[str]) -> None:
    acme = make("acme.orders", namespace="acme")
    audit = make("audit", allow=["acme.orders"], accept_namespaces=accepted)
    acme.send("audit", 1)
    message = audit.receive(timeout=20)
    assert message is not None
    assert message.metadata.namespace == "acme"


def test_what_is_fetched_or_comes_in_batches_is_kept_apart_as_well(make: Make) -> None:
    acme, plain = make("acme.orders", namespace="acme"), make("plain")
    fetching, batching = (make(name, allow=["plain", "acme.*"]) for name in ("fetching", "batching"))
    seen: Queue[list[Any]] = Queue()
    batching.on_batch(lambda messages: seen.put([message.payload for message in messages]))
    for target in ("fetching", "batching"):
        acme.send(target, "of others")
        plain.send(target, "own")
    message = fetching.receive(timeout=20)
    assert message is not None
    assert message.payload == "own"
    assert seen.get(timeout=20) == ["own"]


@pytest.mark.parametrize("bad", ["", "n" * 1000, 7])
def test_a_namespace_that_no_message_can_have_is_refused_before_anything_is_touched(make: Make, bad: Any) -> None:
    for options in ({"namespace": bad}, {"accept_namespaces": [bad]}):
        with pytest.raises(speed.ConfigurationError, match="namespace"):
            make("acme", **options)
