"""Batches between nodes in Python and in C++ or Java (messages.md, M-30)."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest

import speed
from speed.wire.value import BATCH_TYPE
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents

LANGUAGES = [one for one in CHOSEN if one != "python"]
PAYLOADS = [{"amount": 1000, "rows": [1, 2.5, None]}, "text: ä€", b"\x00\xff", None, True, 2**63, ""]
WAIT = 20.0
Heard = Queue[tuple[str, list[Any]]]


@pytest.fixture(params=LANGUAGES)
def agent(request: pytest.FixtureRequest, private: Agents) -> Agent:
    return private.start(request.param, "caller.other", allow=["server.*"]).ready()


@pytest.fixture
def node(private: Agents) -> Iterator[speed.Node]:
    with speed.Node("server.python", root=private.root, allow=["caller.*"]) as opened:
        yield opened


@pytest.fixture
def heard(node: speed.Node, agent: Agent) -> Heard:
    """What the node in Python is told: topic and payloads of each event; the agent knows that it subscribes."""
    events: Heard = Queue()
    node.subscribe("orders.*", lambda message: events.put((message.topic, message.payloads)))
    agent.ask("wait_for", target=node.name, timeout=WAIT)
    return events


@pytest.fixture
def subscribed(node: speed.Node, agent: Agent) -> Agent:
    agent.ask("subscribe", pattern="orders.*")
    node.wait_for(agent.name, timeout=WAIT)
    return agent


def test_a_batch_of_the_other_language_is_read_in_python(agent: Agent, heard: Heard) -> None:
    """M-30."""
    assert agent.ask("publish_batch", topic="orders.made", payloads=PAYLOADS) == 1
    assert heard.get(timeout=WAIT) == ("orders.made", PAYLOADS)


def test_a_batch_of_python_is_read_in_the_other_language(node: speed.Node, subscribed: Agent) -> None:
    """M-30."""
    assert node.publish_batch("orders.made", PAYLOADS) == 1
    event = subscribed.ask("event", timeout=WAIT)
    assert (event["topic"], event["payloads"]) == ("orders.made", PAYLOADS)


def test_a_batch_that_python_sends_to_one_node_is_read_in_the_other_language(node: speed.Node, agent: Agent) -> None:
    """M-30."""
    node.wait_for(agent.name, timeout=WAIT)
    node.send_batch(agent.name, PAYLOADS)
    assert agent.ask("receive", timeout=WAIT)["payloads"] == PAYLOADS


def test_a_batch_of_the_other_language_for_each_topic_is_read_in_python(agent: Agent, heard: Heard) -> None:
    """M-30: in the order of their first payloads."""
    pairs = [["orders.paid", 1], ["orders.made", 2], ["orders.paid", None]]
    counts = agent.ask("publish_batch", pairs=pairs)
    assert counts == {"orders.paid": 1, "orders.made": 1}
    told = [heard.get(timeout=WAIT) for _ in range(2)]
    assert told == [("orders.paid", [1, None]), ("orders.made", [2])]


def test_what_is_no_batch_is_its_one_payload_in_the_other_language(node: speed.Node, subscribed: Agent) -> None:
    """M-30."""
    node.publish("orders.made", "alone")
    assert subscribed.ask("event", timeout=WAIT)["payloads"] == ["alone"]


def test_a_batch_that_lies_is_named_in_the_other_language(node: speed.Node, subscribed: Agent) -> None:
    """M-30."""
    node.publish("orders.made", b"\xff\xff\xff\xff", options=speed.PublishOptions(content_type=BATCH_TYPE))
    event = subscribed.ask("event", timeout=WAIT)
    assert (event["payload"], event["payloads"]) == (b"\xff\xff\xff\xff", "BAD_BATCH")


def test_what_cannot_be_published_keeps_all_back(agent: Agent, heard: Heard) -> None:
    """M-30."""
    assert agent.refusal("publish_batch", pairs=[["orders.made", 1], ["no topic", 2]]).code == "INVALID_NAME"
    agent.ask("publish_batch", topic="orders.made", payloads=[])
    assert heard.get(timeout=WAIT) == ("orders.made", [])
