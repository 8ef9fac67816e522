"""Batches between nodes in Python and in C++ (messages.md, M-30)."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

import speed
from speed.wire.content import BATCH_TYPE, CUSTOM, Content
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents

pytestmark = pytest.mark.skipif("cpp" not in CHOSEN, reason="without C++")

PAYLOADS = [{"amount": 1000, "rows": [1, 2.5, None]}, "text: ä€", b"\x00\xff", None, True, 2**63, ""]
WAIT = 20.0


@pytest.fixture
def agent(private: Agents) -> Agent:
    return private.start("cpp", "caller.cpp", allow=["server.*"]).ready()


@pytest.fixture
def node(private: Agents) -> Iterator[speed.Node]:
    with speed.Node("server.python", root=private.root, allow=["caller.*"]) as opened:
        yield opened


@pytest.fixture
def heard(node: speed.Node, agent: Agent) -> Queue[tuple[str, list[Any]]]:
    """What the node in Python is told: topic and payloads of each event; the agent knows that it subscribes."""
    events: Queue[tuple[str, list[Any]]] = Queue()
    node.subscribe("orders.*", lambda message: events.put((message.topic, message.payloads)))
    agent.ask("wait_for", target=node.name, timeout=WAIT)
    return events


@pytest.fixture
def subscribed(node: speed.Node, agent: Agent) -> Agent:
    agent.ask("subscribe", pattern="orders.*")
    node.wait_for(agent.name, timeout=WAIT)
    return agent


def test_a_batch_of_cpp_is_read_in_python(agent: Agent, heard: Queue[Any]) -> None:
    """M-30."""
    assert agent.ask("publish_batch", topic="orders.made", payloads=PAYLOADS) == 1
    assert heard.get(timeout=WAIT) == ("orders.made", PAYLOADS)


def test_a_batch_of_python_is_read_in_cpp(node: speed.Node, subscribed: Agent) -> None:
    """M-30."""
    assert node.publish_batch("orders.made", PAYLOADS) == 1
    event = subscribed.ask("event", timeout=WAIT)
    assert (event["topic"], event["payloads"]) == ("orders.made", PAYLOADS)


def test_a_batch_of_cpp_for_each_topic_is_read_in_python(agent: Agent, heard: Queue[Any]) -> None:
    """M-30: in the order of their first payloads."""
    pairs = [["orders.paid", 1], ["orders.made", 2], ["orders.paid", 3]]
    assert agent.ask("publish_batch", pairs=pairs) == {"orders.paid": 1, "orders.made": 1}
    told = [heard.get(timeout=WAIT) for _ in range(2)]
    assert told == [("orders.paid", [1, 3]), ("orders.made", [2])]


def test_a_protobuf_message_in_a_batch_is_bytes_in_cpp(node: speed.Node, subscribed: Agent) -> None:
    """M-30: as one that travels alone."""
    timestamp = Timestamp(seconds=7)
    node.publish_batch("orders.made", [timestamp, 1])
    assert subscribed.ask("event", timeout=WAIT)["payloads"] == [timestamp.SerializeToString(), 1]


def test_what_is_no_batch_is_its_one_payload_in_cpp(node: speed.Node, subscribed: Agent) -> None:
    """M-30."""
    node.publish("orders.made", "alone")
    assert subscribed.ask("event", timeout=WAIT)["payloads"] == ["alone"]


def test_a_batch_that_lies_is_named_in_cpp(node: speed.Node, subscribed: Agent) -> None:
    """M-30."""
    node.publish("orders.made", Content(CUSTOM, BATCH_TYPE, None, b"\xff\xff\xff\xff"))
    event = subscribed.ask("event", timeout=WAIT)
    assert (event["payload"], event["payloads"]) == (b"\xff\xff\xff\xff", "BAD_BATCH")


def test_what_cannot_be_encoded_is_refused_in_cpp(agent: Agent, heard: Queue[Any]) -> None:
    """M-30: all is kept back."""
    assert agent.refusal("publish_batch", pairs=[["orders.made", 1], ["no topic", 2]]).code == "INVALID_NAME"
    agent.ask("publish_batch", topic="orders.made", payloads=[])
    assert heard.get(timeout=WAIT) == ("orders.made", [])
