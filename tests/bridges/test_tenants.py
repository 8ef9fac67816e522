"""Namespaces in backends: each tenant gets its own messages, and takes none from another (B-2, B-22, M-34)."""

from __future__ import annotations

import logging

import pytest

from speed.messages import BackendRefusedError
from tests.bridges.conftest import Bench, take

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_two_namespaces_get_their_own_messages_of_one_topic_under_one_name_of_a_group(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "speed.bridges")
    a, b, c = (bench.connect(namespace=name) for name in ("a", "b", "default"))
    of_a, of_b, of_c = (bench.subscribe(one) for one in (a, b, c))
    for connection, payload in ((a, "a1"), (b, "b1"), (a, "a2"), (c, "c1"), (b, "b2")):
        connection.publish(bench.topic, payload, key="one key")
    assert sorted(take(of_b, 2)) == ["b1", "b2"]
    assert sorted(take(of_a, 2)) == ["a1", "a2"]
    assert take(of_c, 1) == ["c1"]
    assert of_a.refused == of_b.refused == of_c.refused == 0
    assert "a1" not in caplog.text


def test_a_tenant_that_came_first_loses_nothing_to_another_that_takes_all_there_is(bench: Bench) -> None:
    a, b = bench.connect(namespace="a"), bench.connect(namespace="b")
    a.publish_all([(bench.topic, number, "one key") for number in range(3)])
    b.publish(bench.topic, "of b", key="one key")
    with bench.subscribe(b) as of_b:
        assert take(of_b, 1) == ["of b"]
    assert sorted(take(bench.subscribe(a), 3)) == [0, 1, 2]


def test_other_namespaces_are_taken_by_who_asks_for_them(bench: Bench) -> None:
    a, b = bench.connect(namespace="a"), bench.connect(namespace="b")
    both = bench.connect(namespace="c", accept_namespaces=["a", "b"])
    a.publish(bench.topic, "of a", key="one key")
    b.publish(bench.topic, "of b", key="one key")
    assert sorted(take(bench.subscribe(both), 2)) == ["of a", "of b"]


@pytest.mark.parametrize("backend", ["postgres"])
def test_each_namespace_has_one_group_of_a_table(bench: Bench) -> None:
    """B-6."""
    a, b = bench.connect(namespace="a"), bench.connect(namespace="b")
    a.publish(bench.topic, "of a")
    assert take(bench.subscribe(a, group="first"), 1) == ["of a"]
    b.publish(bench.topic, "of b")
    assert take(bench.subscribe(b, group="second"), 1) == ["of b"]
    with pytest.raises(BackendRefusedError, match="another group"):
        bench.subscribe(b, group="third").receive(1)


@pytest.mark.parametrize("backend", ["postgres"])
def test_who_begins_with_what_comes_passes_over_nothing_of_another_namespace(bench: Bench) -> None:
    a, b = bench.connect(namespace="a"), bench.connect(namespace="b")
    b.publish(bench.topic, "of b, before")
    of_a = bench.subscribe(a, start="latest")
    assert of_a.receive(0.5) is None
    a.publish(bench.topic, "of a")
    assert take(of_a, 1) == ["of a"]
    assert take(bench.subscribe(b), 1) == ["of b, before"]


@pytest.mark.parametrize("backend", ["kafka", "nats", "redis", "s3"])
def test_what_another_namespace_published_is_counted_and_not_shown(bench: Bench) -> None:
    a, b = bench.connect(namespace="a"), bench.connect(namespace="b")
    refused = []
    of_b = bench.subscribe(b, on_refused=refused.append)
    a.publish(bench.topic, "of a", key="one key")
    b.publish(bench.topic, "of b", key="one key")
    assert take(of_b, 1) == ["of b"]
    assert (of_b.others, refused) == (1, [])
