"""The host of durable topics, asked within its own process, as the gateway does (D-5, D-9, D-17, D-30)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import speed
from speed.topics.catalogue import Catalogue
from speed.topics.host import Access, Grants, Host
from speed.topics.subscription import SubscriptionError
from speed.wire.limits import TOPIC_WAIT_SECONDS
from speed.wire.topic import DEAD_LETTER, MESSAGE, TOMBSTONE, RecordHead, decode, encode, key_hash
from speed.wire.value import pack
from tests.system.topics import until

pytestmark = pytest.mark.system


@pytest.fixture
def host(node: Callable[..., speed.Node], root: str) -> Iterator[Host]:
    catalogue = Catalogue(f"{root}/topics", f"{root}/speed.key", "speedd.topics")
    grants = Grants(publish=("shop",), consume=("billing",), manage=("billing",))
    with closing(catalogue):
        with catalogue.lock:
            catalogue.make("orders")
        host = Host(node("speedd.topics", allow=["billing"]), catalogue, Access(grants, {}))
        yield host
        host.close()


def code(call: Callable[[], object]) -> str:
    with pytest.raises(SubscriptionError) as error:
        call()
    return error.value.code


def test_who_asks_in_the_process_has_its_own_grants_and_is_the_publisher(host: Host) -> None:
    answer = host.ask("shop", "publish", topic="orders", messages=[{"payload": pack(1)}])
    assert answer["offsets"] == [0]
    rows = host.ask("billing", "read", topic="orders", start="earliest")["messages"]
    assert b"shop" in rows[0][3]
    assert code(lambda: host.ask("shop", "read", topic="orders")) == "DENIED"
    assert code(lambda: host.check("shop", "consume", "orders")) == "DENIED"
    assert code(lambda: host.check("shop", "publish", "nowhere")) == "UNKNOWN_TOPIC"
    host.check("shop", "publish", "orders")


def test_what_is_wrong_is_refused_as_over_the_wire(host: Host) -> None:
    assert code(lambda: host.ask("shop", "publish", topic="orders", messages=[])) == "INVALID_ARGUMENTS"
    assert code(lambda: host.ask("billing", "subscribe", topic="orders", subscription="..", consumer="c")) == (
        "INVALID_ARGUMENTS"
    )


def test_dead_letters_are_published_again_by_who_manages_both_topics(host: Host) -> None:
    """Under the name of who published them; a tombstone stays one, and what cannot be published waits."""
    with host._topics.lock:
        host._topics.make("failed", parent="orders")
        letters = [("orders", pack(1)), ("orders", b""), ("secret", pack(2))]
        for offset, (origin, payload) in enumerate(letters):
            about = {"publisher": "shop", "key": "k", "origin": [origin, offset, "billing"]}
            letter = encode(RecordHead(DEAD_LETTER, 5, key_hash("k")), about, payload)
            host._topics.find("failed").publish(None, [(0, letter)])
    assert code(lambda: host.ask("shop", "redrive", topic="failed")) == "DENIED"
    for _ in range(2):
        assert code(lambda: host.ask("billing", "redrive", topic="failed")) == "UNKNOWN_TOPIC"
    found = [decode(row[3]) for row in host.ask("billing", "read", topic="orders", start="earliest")["messages"]]
    assert [(one.head.type, one.head.attempts, one.payload) for one in found] == [
        (MESSAGE, 0, pack(1)),
        (TOMBSTONE, 0, b""),
    ]
    assert all(one.about == {"publisher": "shop", "key": "k"} for one in found)
    (group,) = host.ask("billing", "describe", topic="failed")["subscriptions"]
    assert (group["subscription"], group["backlog"], group["consumers"]) == ("redrive", 1, [])


def test_who_watches_is_told_of_each_change(host: Host) -> None:
    told: list[str] = []
    host.watch(told.append)
    host.ask("shop", "publish", topic="orders", messages=[{"payload": pack(1)}])
    assert told == ["orders"]
    host.ask("billing", "subscribe", topic="orders", subscription="s", consumer="c", type="shared", start="earliest")
    host.ask("billing", "receive", topic="orders", subscription="s", consumer="c", most=1)
    host.ask("billing", "leave", topic="orders", subscription="s", consumer="c")
    assert told == ["orders", "orders"]
    host.unwatch(told.append)
    host.ask("billing", "seek", topic="orders", subscription="s", to="latest")
    assert len(told) == 2


EPHEMERAL = {"topic": "orders", "subscription": "s", "type": "shared", "durable": False}


def subscriptions(host: Host) -> list[str]:
    return [one["subscription"] for one in host.ask("billing", "describe", topic="orders")["subscriptions"]]


def test_a_subscription_that_is_not_durable_ends_with_its_last_consumer(host: Host) -> None:
    """D-8"""
    for consumer in ("a", "b"):
        host.ask("billing", "subscribe", consumer=consumer, **EPHEMERAL)
    host.ask("shop", "publish", topic="orders", messages=[{"payload": pack(1)}])
    who = {"topic": "orders", "subscription": "s"}
    taken = host.ask("billing", "receive", **who, consumer="a", most=1)["messages"]
    host.ask("billing", "leave", **who, consumer="a", unseen=[0])
    assert host.ask("billing", "receive", **who, consumer="b", most=1)["messages"] == taken
    host.ask("billing", "leave", **who, consumer="b")
    assert subscriptions(host) == []
    assert code(lambda: host.ask("billing", "receive", **who, consumer="b", most=1)) == "UNKNOWN_SUBSCRIPTION"


def test_a_subscription_that_is_not_durable_ends_with_the_node_of_its_consumer(
    host: Host, node: Callable[..., speed.Node]
) -> None:
    """D-8"""
    billing = node("billing")
    billing.wait_for("speedd.topics")
    host.ask("billing", "subscribe", consumer="c", **EPHEMERAL)
    host.ask("billing", "subscribe", topic="orders", subscription="kept", consumer="c")
    billing.close()
    until(lambda: subscriptions(host) == ["kept"])


@pytest.mark.parametrize("first", [True, False])
def test_a_subscription_is_durable_for_all_its_consumers_or_for_none(host: Host, first: bool) -> None:
    """D-8"""
    host.ask("billing", "subscribe", consumer="a", **{**EPHEMERAL, "durable": first})
    assert (
        code(lambda: host.ask("billing", "subscribe", consumer="b", **{**EPHEMERAL, "durable": not first})) == "TAKEN"
    )


def test_a_subscription_that_is_not_durable_has_no_file(host: Host, root: str) -> None:
    """D-8"""
    host.ask("shop", "publish", topic="orders", messages=[{"payload": pack(1)}])
    host.ask("billing", "subscribe", consumer="a", start="earliest", **EPHEMERAL)
    who = {"topic": "orders", "subscription": "s"}
    answer = host.ask("billing", "receive", **who, consumer="a", most=1)
    host.ask("billing", "acknowledge", **who, lane=answer["lane"], offsets=[0])
    host.ask("billing", "seek", **who, to="earliest")
    assert not list(Path(root).rglob("*.cursor"))


def test_what_comes_by_itself_is_told_in_seconds(host: Host) -> None:
    host.ask("shop", "publish", topic="orders", messages=[{"payload": pack(1)}])
    who = {"topic": "orders", "subscription": "s", "consumer": "c"}
    host.ask("billing", "subscribe", **who, type="shared", start="earliest")
    assert host.until_event("orders", "s") == host.until_event("nowhere", "s") == TOPIC_WAIT_SECONDS
    host.ask("billing", "receive", **who, most=1)
    host.ask("billing", "reject", **who, offsets=[0], delay_ms=60_000)
    assert 30 < host.until_event("orders", "s") <= 60
