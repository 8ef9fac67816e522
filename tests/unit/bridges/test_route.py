"""Where a bridge carries messages: names, wanted messages, hops."""

from __future__ import annotations

import pytest

from speed.bridges import (
    EVENTS,
    MAX_HOPS,
    TOPICS,
    BridgeSettings,
    Filter,
    Route,
    hop_of,
    hop_of_lane,
    read_hops,
    write_hops,
)
from speed.errors import ConfigurationError, InvalidNameError
from speed.message.writing import encode_message

HEAD = {"topic": "orders", "namespace": "n", "message_id": "m", "published_at_ms": 1_718_000_000_000}


@pytest.mark.parametrize(
    ("pattern", "rename", "topic", "target"),
    [
        ("orders.*", "", "orders.created", "orders.created"),
        ("orders.*", "eu.orders.*", "orders.created.now", "eu.orders.created.now"),
        ("*", "eu.*", "orders", "eu.orders"),
        ("eu.*", "*", "eu.orders", "orders"),
        ("orders", "eu.orders", "orders", "eu.orders"),
    ],
)
def test_what_the_star_stood_for_is_kept(pattern: str, rename: str, topic: str, target: str) -> None:
    """B-12."""
    route = Route(pattern, rename)
    assert route.covers(topic)
    assert route.renamed(topic) == target


def test_topics_of_other_patterns_are_not_covered() -> None:
    """B-12."""
    assert not Route("orders.*").covers("orders")
    assert not Route("orders").covers("orders.created")


@pytest.mark.parametrize(("pattern", "rename"), [("orders.*", "orders"), ("orders", "eu.*")])
def test_a_star_alone_is_refused(pattern: str, rename: str) -> None:
    """B-12."""
    with pytest.raises(ConfigurationError, match="none"):
        Route(pattern, rename)


def test_a_name_that_becomes_too_long_is_refused() -> None:
    """B-12."""
    with pytest.raises(InvalidNameError):
        Route("*", f"{'a' * 200}.*").renamed("b" * 200)


def wants(wanted: dict[str, tuple[str, ...]], key: str | None = None, **metadata: object) -> bool:
    return Filter(wanted).wants(encode_message("x", **HEAD, **metadata), key)  # type: ignore[arg-type]


def test_a_message_is_wanted_whose_fields_all_fit() -> None:
    """B-19."""
    wanted = {"publisher": ("shop.*", "till"), "labels.region": ("eu",)}
    assert wants(wanted, publisher_id="shop.7", labels={"region": "eu"})
    assert wants(wanted, publisher_id="till", labels={"region": "eu"})
    assert not wants(wanted, publisher_id="shop", labels={"region": "eu"})
    assert not wants(wanted, publisher_id="shop.7", labels={"region": "us"})
    assert not wants(wanted, publisher_id="shop.7")


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("publisher", "me"),
        ("key", "customer-4"),
        ("namespace", "n"),
        ("priority", "7"),
        ("content_type", "text/plain"),
        ("correlation_id", "c"),
        ("labels.a", "b"),
    ],
)
def test_each_field_of_the_metadata_can_be_asked_for(field: str, text: str) -> None:
    """B-19."""
    metadata = {"publisher_id": "me", "priority": 7, "correlation_id": "c", "labels": {"a": "b"}}
    assert wants({field: (text,)}, "customer-4", **metadata)
    assert not wants({field: ("another",)}, "customer-4", **metadata)


def test_without_a_filter_all_are_wanted() -> None:
    """B-19."""
    assert Filter({}).wants(b"not even looked at", None)


@pytest.mark.parametrize("field", ["payload", "labels.", "label.x"])
def test_a_field_that_there_is_not_is_refused(field: str) -> None:
    """B-19: the payload is none."""
    with pytest.raises(ConfigurationError, match="there is no field"):
        Filter({field: ("x",)})


def test_hops_are_written_and_read() -> None:
    """B-16."""
    hops = [hop_of("kafka", str(number)) for number in range(MAX_HOPS)]
    assert len(set(hops)) == MAX_HOPS
    assert read_hops(write_hops(hops)) == tuple(hops)
    assert read_hops("") == ()
    assert hop_of_lane("0123456789abcdef" * 2) == "0123456789abcdef"


@pytest.mark.parametrize(
    "text", ["x", "0123456789abcde", "0123456789abcdef,", "0123456789ABCDEF", ",".join(["0123456789abcdef"] * 17)]
)
def test_what_cannot_be_read_as_hops_is_none(text: str) -> None:
    """B-16."""
    assert read_hops(text) == ()


@pytest.mark.parametrize(("source", "target"), [(TOPICS, "kafka://h"), (EVENTS, "kafka://h"), ("kafka://h", TOPICS)])
def test_the_end_that_is_not_the_root_is_the_backend(source: str, target: str) -> None:
    """B-11."""
    assert BridgeSettings("b", source, target, "orders").backend == "kafka://h"
