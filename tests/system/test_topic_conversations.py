"""What the client of durable topics asks its host, as published (registry_spec/vectors/topics.json)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

import speed
from speed.wire.topic import TopicOffset
from tests.vectors import case_name, load, value_of

pytestmark = pytest.mark.system

CASES = load("topics")["conversations"]
SERVICES = ("publish", "subscribe", "receive", "acknowledge", "reject", "leave", "read", "describe")


def _begun(*, lane: str, epoch: int, offsets: list[int], **_: Any) -> dict[str, Any]:
    return {"lane": lane, "epoch": epoch, "begun": offsets}


class ScriptedHost:
    """A node that answers as a step says, and notes what it was asked beside that."""

    def __init__(self, node: speed.Node) -> None:
        self.expected: deque[dict[str, Any]] = deque()
        self.surprises: list[Any] = []
        node.register("topics.begin", _begun)
        for name in SERVICES:
            node.register(f"topics.{name}", self._answer)

    def _answer(self, request: speed.Request, **arguments: Any) -> Any:
        next_one = self.expected.popleft() if self.expected else None
        if next_one is None or (request.service, arguments) != (next_one["service"], value_of(next_one["arguments"])):
            self.surprises.append((request.service, arguments, next_one))
            return speed.Response.error("SURPRISED", "this was not to be asked")
        if "refusal" in next_one:
            return speed.Response.error(next_one["refusal"], "as it was written")
        return value_of(next_one["answer"])


class Program:
    """Does what the steps say; each method is named after one, and its parameters are what is given."""

    def __init__(self, node: speed.Node) -> None:
        self._topic = node.topic("orders")
        self._received: list[speed.TopicMessage] = []
        self._consumer: speed.Consumer
        self._reader: speed.Reader

    def publish(self, payload: Any, **options: Any) -> dict[str, Any]:
        options["deliver_at_ms"] = options.pop("due_ms", None)
        return _told(self._topic.publish(value_of(payload), **options))

    def publish_batch(self, payloads: Any, **options: Any) -> list[dict[str, Any]]:
        return [_told(one) for one in self._topic.publish_batch(value_of(payloads), **options)]

    def delete_key(self, key: str) -> dict[str, Any]:
        return _told(self._topic.delete_key(key))

    def consumer(self, ack_timeout_ms: int = 0, **terms: Any) -> None:
        self._consumer = self._topic.consumer(**terms, ack_timeout=ack_timeout_ms / 1000)

    def receive(self, timeout: float) -> dict[str, Any] | None:
        return self._noted(self._consumer.receive(timeout))

    def acknowledge(self, messages: list[int]) -> int:
        return self._consumer.acknowledge(*(self._received[one] for one in messages))

    def acknowledge_until(self, message: int) -> int:
        return self._consumer.acknowledge_until(self._received[message])

    def reject(self, messages: list[int], delay_ms: int | None = None) -> int:
        delay = None if delay_ms is None else delay_ms / 1000
        return self._consumer.reject(*(self._received[one] for one in messages), delay=delay)

    def close(self) -> None:
        self._consumer.close()

    def reader(self, **given: Any) -> None:
        self._reader = self._topic.reader(**given)

    def read(self, timeout: float) -> dict[str, Any] | None:
        return self._noted(self._reader.receive(timeout))

    def _noted(self, message: speed.TopicMessage | None) -> dict[str, Any] | None:
        if message is None:
            return None
        self._received.append(message)
        seen = {name: getattr(message, name) for name in SEEN}
        return {**seen, "origin": None if message.origin is None else list(message.origin)}


def _told(kept: TopicOffset) -> dict[str, Any]:
    return {"offset": int(kept), "duplicate": kept.duplicate}


class Latecomer:
    """A host that has forgotten its consumer, and lets it join again no sooner than it has left."""

    def __init__(self, node: speed.Node) -> None:
        self.asked: list[str] = []
        self.joins_again, self.left = threading.Event(), threading.Event()
        node.register("topics.subscribe", self._subscribe)
        node.register("topics.receive", self._receive)
        node.register("topics.leave", self._leave)

    def _subscribe(self, request: speed.Request, **_: Any) -> dict[str, Any]:
        if "subscribe" in self.asked:
            self.joins_again.set()
            assert self.left.wait(20)
        self.asked.append("subscribe")
        return {"lane": "x", "cursor": 0}

    def _receive(self, request: speed.Request, **_: Any) -> speed.Response:
        return speed.Response.error("NOT_JOINED", "who is this?")

    def _leave(self, request: speed.Request, **_: Any) -> dict[str, Any]:
        self.asked.append("leave")
        self.left.set()
        return {}


SEEN = next(
    list(step["gives"])
    for case in CASES
    for step in case["steps"]
    if step["do"] == "receive" and step.get("gives") is not None
)
"""What a program sees of a message."""


@pytest.fixture
def nodes(root: str) -> Iterator[tuple[speed.Node, speed.Node]]:
    with (
        speed.Node("speedd.topics", root=root, allow=["billing"]) as host,
        speed.Node("billing", root=root, allow=["speedd.topics"]) as client,
    ):
        yield host, client


def test_a_consumer_that_is_closed_while_it_joins_again_has_left_in_the_end(
    nodes: tuple[speed.Node, speed.Node],
) -> None:
    """D-12: else it would hold the subscription for as long as its node lives."""
    host = Latecomer(nodes[0])
    consumer = nodes[1].topic("orders").consumer("billing")
    receiving = threading.Thread(target=consumer.receive, name="receiving")
    receiving.start()
    assert host.joins_again.wait(20)
    consumer.close()
    receiving.join(20)
    assert not receiving.is_alive()
    assert host.asked == ["subscribe", "leave", "subscribe", "leave"]


def outcome(program: Program, step: dict[str, Any]) -> dict[str, Any]:
    """What a step gives or raises."""
    try:
        return {"gives": getattr(program, step["do"])(**step["given"])}
    except speed.SpeedError as error:
        return {"raises": error.code}


def expected(step: dict[str, Any]) -> dict[str, Any]:
    if "raises" in step:
        return {"raises": step["raises"]}
    gives = step["gives"]
    has_payload = isinstance(gives, dict) and "payload" in gives
    return {"gives": {**gives, "payload": value_of(gives["payload"])} if has_payload else gives}


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_conversation_is_as_published(nodes: tuple[speed.Node, speed.Node], case: dict[str, Any]) -> None:
    host, program = ScriptedHost(nodes[0]), Program(nodes[1])
    for number, step in enumerate(case["steps"]):
        host.expected.extend(step["host"])
        assert outcome(program, step) == expected(step), (number, host.surprises)
        assert (host.surprises, list(host.expected)) == ([], []), number
