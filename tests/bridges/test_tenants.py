"""Namespaces in backends: each tenant gets its own messages, and takes none from another (B-2, B-22, M-34)."""

from __future__ import annotations

import logging

import pytest

from speed.messages import BackendRefusedError
from tests.bridges.conftest import Bench, take

pytestmark = [pytest.mark.system, pytest.mark.slow]
KEYS = {"kafka": "one key"}
"""Where only what has one key keeps its order; the queue of SQS keeps it only without one."""


def test_two_namespaces_get_their_own_messages_of_one_topic_under_one_name_of_a_group(
    bench: Bench, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "speed.bridges")
    a, b, c = (bench.connect(namespace=name) for name in ("a", "b", "default"))
    of_a, of_b, of_c = (bench.subscribe(one) for one in (a, b, c))
    for connection, payload in ((a, "of a, 1"), (b, "of b, 1"), (a, "of a, 2"), (c, "of c, 1"), (b, "of b, 2")):
        connection.publish(bench.topic, payload, key=KEYS.get(backend))
    assert take(of_b, 2) == ["of b, 1", "of b, 2"]
    assert take(of_a, 2) == ["of a, 1", "of a, 2"]
    assert take(of_c, 1) == ["of c, 1"]
    assert of_a.refused == of_b.refused == of_c.refused == 0
    assert "of a, 1" not in caplog.text


def test_a_tenant_that_came_first_loses_nothing_to_another_that_takes_all_there_is(bench: Bench, backend: str) -> None:
    a, b = bench.connect(namespace="a"), bench.connect(namespace="b")
    a.publish_all([(bench.topic, number, KEYS.get(backend)) for number in range(3)])
    b.publish(bench.topic, "of b", key=KEYS.get(backend))
    with bench.subscribe(b) as of_b:
        assert take(of_b, 1) == ["of b"]
    assert take(bench.subscribe(a), 3) == [0, 1, 2]


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
def test_what_another_namespace_published_is_counted_and_not_shown(bench: Bench, backend: str) -> None:
    a, b = bench.connect(namespace="a"), bench.connect(namespace="b")
    refused = []
    of_b = bench.subscribe(b, on_refused=refused.append)
    a.publish(bench.topic, "of a", key=KEYS.get(backend))
    b.publish(bench.topic, "of b", key=KEYS.get(backend))
    assert take(of_b, 1) == ["of b"]
    assert (of_b.others, refused) == (1, [])
