"""Durable topics that one speedd hosts and clients in every language publish to and consume (topics.md)."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.wire.limits import MAX_TOPIC_KEY_BYTES, MAX_TOPIC_MESSAGE_BYTES
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN, ROOT, pairs
from tests.interop.pool import Agents
from tests.system.topics import TopicSite

WAIT = 60.0
CONFIG = """
[node]
root = "{root}"
key = "{root}/speed.key"
lease_seconds = 4.0
heartbeat_seconds = 1.0
[topics]
publish = ["test", "client.*", "shop.*"]
consume = ["test", "client.*", "billing.*"]
manage = ["test", "client.*"]
[[topic]]
name = "orders"
[[topic]]
name = "small"
max_bytes = 1_048_576
backlog = "refuse"
[[topic]]
name = "secret"
publish = ["nobody"]
consume = ["nobody"]
manage = ["nobody"]
"""
each = pytest.mark.parametrize("source", CHOSEN)


class Hosted(TopicSite):
    """A speedd in the root of the agents."""

    def __init__(self, path: Path, agents: Agents) -> None:
        super().__init__(path, CONFIG.format(root=agents.root))
        self.root, self.key = Path(agents.root), Path(agents.root) / "speed.key"


@pytest.fixture(scope="module")
def clients() -> Iterator[Agents]:
    agents = Agents()
    yield agents
    print(agents.stderr())
    agents.close()


@pytest.fixture(scope="module")
def host(clients: Agents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    site = Hosted(tmp_path_factory.mktemp("topics"), clients)
    site.start()
    yield site
    site.close()


@pytest.fixture(scope="module")
def node(host: Hosted) -> Iterator[speed.Node]:
    with host.node() as node:
        yield node


@pytest.fixture
def topic(node: speed.Node, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of the test's own."""
    topic = node.topic("t." + str(abs(hash(request.node.name))))
    topic.create()
    yield topic.name
    topic.delete()


@pytest.fixture(scope="module")
def running() -> dict[str, Agent]:
    """By language: agents live from test to test."""
    return {}


@pytest.fixture
def client(clients: Agents, host: Hosted, running: dict[str, Agent]) -> Iterator[Callable[[str], Agent]]:
    """``client(language)``: the agent of this language; it is nobody's consumer afterwards."""
    used: set[str] = set()

    def of(language: str) -> Agent:
        used.add(language)
        if language not in running or not running[language].idle:
            if language in running:
                running[language].end()
            running[language] = clients.start(language, f"client.{language}").ready()
        return running[language]

    yield of
    for language in used:
        running[language].ask("topic_leave")


def received(agent: Agent, count: int) -> list[dict[str, Any]]:
    """So many messages, which are acknowledged."""
    found = []
    for _ in range(count):
        message = agent.ask("topic_receive", timeout=WAIT)
        assert message is not None, found
        assert agent.ask("topic_acknowledge", offset=message["offset"]) == 1
        found.append(message)
    return found


@pairs("publishes to")
def test_what_one_language_publishes_another_consumes(
    client: Callable[[str], Agent], topic: str, source: str, target: str
) -> None:
    """D-4, D-5, D-8, D-9, D-12."""
    publisher, consumer = client(source), client(target)
    payload = {"id": 1, "amount": 20.5, "raw": b"\0\xff", "of": [None, True, "größe"]}
    said = {"key": "customer 7", "properties": {"source": "web"}, "producer": "shop", "sequence": 9}
    assert publisher.ask("topic_publish", topic=topic, payload=payload, **said) == {"offset": 0, "duplicate": False}
    assert publisher.ask("topic_publish", topic=topic, payload=payload, **said) == {"offset": 0, "duplicate": True}
    batch = publisher.ask("topic_publish_batch", topic=topic, payloads=[1, None], keys=["a", None])
    assert [one["offset"] for one in batch] == [1, 2]
    assert publisher.ask("topic_delete_key", topic=topic, key="a")["offset"] == 3
    consumer.ask("topic_consume", topic=topic, subscription="billing", start="earliest")
    first, *others = received(consumer, 4)
    assert first == {
        **said,
        "offset": 0,
        "payload": payload,
        "publisher": publisher.name,
        "attempts": 1,
        "is_tombstone": False,
        "origin": None,
        "failed_attempts": 0,
    }
    assert [(one["payload"], one["key"], one["is_tombstone"]) for one in others] == [
        (1, "a", False),
        (None, None, False),
        (None, "a", True),
    ]
    consumer.ask("topic_leave")
    consumer.ask("topic_consume", topic=topic, subscription="billing")
    assert consumer.ask("topic_receive", timeout=0.05) is None


@pairs("replaces")
def test_a_killed_consumer_gives_its_messages_to_another_one(
    clients: Agents, client: Callable[[str], Agent], topic: str, source: str, target: str
) -> None:
    """D-10, D-12."""
    heir, victim = client(source), clients.start(target, f"client.victim.{target}").ready()
    terms = {"topic": topic, "subscription": "billing", "type": "shared", "start": "earliest"}
    victim.ask("topic_consume", **terms)
    heir.ask("topic_publish_batch", topic=topic, payloads=[0, 1, 2])
    assert victim.ask("topic_receive", timeout=WAIT)["payload"] == 0
    assert victim.ask("topic_acknowledge", offset=0) == 1
    assert victim.ask("topic_receive", timeout=WAIT)["payload"] == 1
    victim.kill()
    heir.ask("topic_consume", **terms)
    found = {one["payload"]: one["attempts"] for one in received(heir, 2)}
    assert found.keys() == {1, 2}
    assert found[1] == 2


def test_consumers_join_again_when_the_host_was_killed(
    host: Hosted, client: Callable[[str], Agent], topic: str, node: speed.Node
) -> None:
    """D-9: one of each language; none has said anything between."""
    agents = [client(language) for language in CHOSEN]
    for agent in agents:
        agent.ask("topic_consume", topic=topic, subscription=agent.language, start="earliest", prefetch=2)
    node.topic(topic).publish_batch([0, 1, 2])
    for agent in agents:
        assert [one["payload"] for one in received(agent, 1)] == [0]
    host.kill()
    waiting = [agent.tell("topic_receive", timeout=WAIT) for agent in agents]
    host.start()
    for agent, number in zip(agents, waiting, strict=True):
        again = agent.answer(number)
        assert (again["payload"], again["attempts"]) == (1, 1)  # fetched before, and handed to nobody
        assert agent.ask("topic_acknowledge", offset=1) == 1
        assert [one["payload"] for one in received(agent, 1)] == [2]


EXAMPLES = {
    "cpp": (str(ROOT / "build" / "cpp" / "examples" / "speed-example-topics"),),
    "java": (str(ROOT / "bindings" / "java" / "bin" / "speed-java"), "speed.examples.Topics"),
}
"""Those that ``docs/howto/topics.md`` shows parts of."""


@pytest.mark.parametrize("language", [one for one in CHOSEN if one in EXAMPLES])
def test_the_example_publishes_an_order_and_bills_it(host: Hosted, language: str, node: speed.Node) -> None:
    environment = {**os.environ, "SPEED_ROOT": str(host.root), "SPEED_KEY": str(host.key)}
    said = subprocess.run(EXAMPLES[language], env=environment, capture_output=True, text=True, check=True, timeout=WAIT)
    assert said.stdout == "1 customer 7\n"


@each
def test_what_is_rejected_comes_again_and_becomes_a_dead_letter(
    client: Callable[[str], Agent], topic: str, source: str
) -> None:
    """D-4, D-10, D-12."""
    agent = client(source)
    terms = {"start": "earliest", "max_deliveries": 2, "dead_letter": ""}
    agent.ask("topic_consume", topic=topic, subscription="billing", type="shared", **terms)
    agent.ask("topic_publish", topic=topic, payload={"bad": True}, key="k", properties={"a": "b"})
    for attempts in (1, 2):
        assert agent.ask("topic_receive", timeout=WAIT)["attempts"] == attempts
        assert agent.ask("topic_reject", offset=0, delay=0.0) == 1
    assert agent.ask("topic_receive", timeout=0.2) is None
    (dead,) = agent.ask("topic_read", topic=f"{topic}-billing-DLQ", start="earliest", count=1, timeout=WAIT)
    assert (dead["payload"], dead["key"], dead["properties"]) == ({"bad": True}, "k", {"a": "b"})
    assert (dead["origin"], dead["failed_attempts"]) == ([topic, 0, "billing"], 2)


@each
def test_a_subscription_that_is_not_durable_ends_with_its_consumer(
    client: Callable[[str], Agent], topic: str, node: speed.Node, source: str
) -> None:
    """D-8."""
    agent = client(source)
    agent.ask("topic_publish", topic=topic, payload=0)
    agent.ask("topic_consume", topic=topic, subscription="page", start="earliest", durable=False)
    assert agent.ask("topic_receive", timeout=WAIT)["payload"] == 0
    assert agent.ask("topic_acknowledge", offset=0) == 1
    (page,) = node.topic(topic).describe()["subscriptions"]
    assert (page["subscription"], page["durable"]) == ("page", False)
    agent.ask("topic_leave")
    assert node.topic(topic).describe()["subscriptions"] == []


@each
def test_all_up_to_a_message_are_acknowledged(client: Callable[[str], Agent], topic: str, source: str) -> None:
    """D-12: only where there is an order."""
    agent = client(source)
    agent.ask("topic_publish_batch", topic=topic, payloads=[0, 1, 2])
    agent.ask("topic_consume", topic=topic, subscription="billing", start="earliest")
    assert [agent.ask("topic_receive", timeout=WAIT)["payload"] for _ in range(3)] == [0, 1, 2]
    assert agent.ask("topic_acknowledge", offset=1, until=True) == 2
    agent.ask("topic_consume", topic=topic, subscription="audit", type="shared", start=2)
    assert agent.ask("topic_receive", timeout=WAIT)["payload"] == 2
    assert agent.refusal("topic_acknowledge", offset=2, until=True).code == "INVALID_ARGUMENTS"


@each
def test_a_message_with_a_time_comes_no_earlier(client: Callable[[str], Agent], topic: str, source: str) -> None:
    """D-10: due."""
    agent = client(source)
    agent.ask("topic_consume", topic=topic, subscription="billing", type="shared", start={"at_ms": 0})
    began = time.time()
    agent.ask("topic_publish", topic=topic, payload="later", after=0.7)
    agent.ask("topic_publish", topic=topic, payload="now")
    assert [one["payload"] for one in received(agent, 2)] == ["now", "later"]
    assert time.time() - began >= 0.7


@pairs("reads")
def test_readers_begin_where_they_are_told(
    client: Callable[[str], Agent], topic: str, source: str, target: str
) -> None:
    """D-14."""
    reader, publisher = client(source), client(target)
    keys = ["a", None, "b", "a"]
    publisher.ask("topic_publish_batch", topic=topic, payloads=[0, 1, 2, 3], keys=keys)
    publisher.ask("topic_delete_key", topic=topic, key="b")

    def offsets(count: int, **how: Any) -> list[int]:
        return [one["offset"] for one in reader.ask("topic_read", topic=topic, count=count, timeout=0.05, **how)]

    assert offsets(5, start="earliest") == [0, 1, 2, 3, 4]
    assert offsets(5, start=3) == [3, 4]
    assert offsets(5, compacted=True) == [1, 3]
    assert offsets(1, start="latest") == []


@each
def test_what_a_client_may_not_or_cannot_is_told_by_its_code(
    client: Callable[[str], Agent], topic: str, source: str, node: speed.Node
) -> None:
    """D-1, D-5, D-8, D-17, D-18."""
    agent = client(source)

    def publishing(name: str, payload: Any = 1, **said: Any) -> str:
        return agent.refusal("topic_publish", topic=name, payload=payload, **said).code

    def consuming(name: str) -> str:
        return agent.refusal("topic_consume", topic=name, subscription="taken").code

    assert publishing("none") == "UNKNOWN_TOPIC"
    assert publishing("secret") == "DENIED"
    assert publishing(topic, key="k" * (MAX_TOPIC_KEY_BYTES + 1)) == "INVALID_ARGUMENTS"
    assert publishing(topic, bytes(MAX_TOPIC_MESSAGE_BYTES)) == "INVALID_ARGUMENTS"
    assert consuming("none") == "UNKNOWN_TOPIC"
    assert consuming("secret") == "DENIED"
    with node.topic(topic).consumer("taken"):
        assert consuming(topic) == "TAKEN"
    assert agent.ask("topic_consume", topic=topic, subscription="taken", consumer="b-1") == "b-1"
    assert agent.ask("topic_publish", topic=topic, payload=1)["offset"] == 0  # nothing beside it was kept


def test_a_topic_that_is_full_refuses_every_publisher(client: Callable[[str], Agent], node: speed.Node) -> None:
    """D-16: while a subscription needs what is there."""
    with node.topic("small").consumer("billing", start="earliest"), pytest.raises(speed.ApplicationError) as refused:
        while True:
            node.topic("small").publish(bytes(50_000))
    assert refused.value.code == "FULL"
    for language in CHOSEN:
        assert client(language).refusal("topic_publish", topic="small", payload=bytes(50_000)).code == "FULL"
