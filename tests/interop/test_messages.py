"""Messages, events and comings and goings between every pair of languages (lanes.md, access.md, registry.md)."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.interop.harness import Agent, AgentError, until
from tests.interop.languages import pairs
from tests.interop.pool import Agents

Between = Callable[..., tuple[Agent, Agent]]

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BURST = 2_000


@pairs("sends to")
def test_a_message_with_acknowledgement(between: Between, source: str, target: str) -> None:
    """S-11, M-5: it arrives once, with who sent it, its id and its topic."""
    caller, server = between(source, target)
    payload = {"text": "grüße", "bytes": b"\x00\xff", "list": [1, 2.5, None, True]}
    message_id = caller.ask("send", target=server.name, payload=payload, ack=True, topic="orders.new", timeout=10)
    received = server.ask("receive", timeout=10)
    server.ask("finish")
    assert received["payload"] == payload
    assert (received["source"], received["topic"]) == (caller.name, "orders.new")
    assert (received["messageId"], received["redelivered"]) == (message_id, False)
    assert server.ask("receive", timeout=0) is None


@pairs("sends to")
def test_the_trace_context_of_a_message(between: Between, source: str, target: str) -> None:
    """M-11: ids and flags, put together again by the receiver; absent stays absent."""
    caller, server = between(source, target)
    for sent in (TRACE, None):
        options = {} if sent is None else {"traceparent": sent}
        caller.ask("send", target=server.name, payload="x", timeout=10, **options)
        assert server.ask("receive", timeout=10)["traceparent"] == sent
    server.ask("finish")


@pairs("sends to")
def test_many_messages_stay_in_order(between: Between, source: str, target: str) -> None:
    """S-5, L-3, L-12: none is lost, none comes twice."""
    caller, server = between(source, target)
    sending = caller.tell("burst", target=server.name, count=BURST, bytes=100)
    told = server.ask("drain", count=BURST, timeout=50)
    assert caller.answer(sending) > 0
    assert told == {"received": BURST, "in_order": True, "redelivered": 0}
    assert server.ask("receive", timeout=0) is None


@pairs("publishes to")
def test_an_event(between: Between, source: str, target: str) -> None:
    """W-2, R-2: the publisher finds the subscription in the entry; topics that do not match stay away."""
    publisher, subscriber = between(source, target)
    topic = f"orders.{source}-{target}"
    subscriber.ask("subscribe", pattern=f"{topic}.*")
    assert publisher.ask("publish", topic=f"{topic}.created", payload={"n": 1}) == 1
    assert publisher.ask("publish", topic="elsewhere", payload={}) == 0
    event = subscriber.ask("event", timeout=10)
    assert (event["topic"], event["payload"], event["source"]) == (f"{topic}.created", {"n": 1}, publisher.name)
    assert subscriber.ask("event", timeout=0) is None


@pairs("publishes to")
def test_an_event_that_a_family_shares(agents: Agents, source: str, target: str) -> None:
    """S-42: one node of the family gets it, in turn."""
    publisher = agents.shared("caller", source)
    topic = f"shared.{source}-{target}"
    names = [f"worker.{source}-{target}.{number}" for number in range(2)]
    family = [agents.start(target, name, allow=[publisher.name]).ready() for name in names]
    for worker in family:
        worker.ask("subscribe", pattern=topic, shared=True)
    assert [publisher.ask("publish", topic=topic, payload={"n": number}) for number in range(4)] == [1] * 4
    events = [[worker.ask("event", timeout=10)["payload"]["n"] for _ in range(2)] for worker in family]
    assert events == [[0, 2], [1, 3]]


@pairs("is refused by")
def test_access_that_was_not_granted(agents: Agents, source: str, target: str) -> None:
    """A-1, A-3: ACCESS_DENIED before any write: the receiver's directories hold no trace of the attempt."""
    caller, closed = agents.shared("caller", source), agents.shared("closed", target)
    for op, fields in (
        ("send", {"payload": 1, "timeout": 5}),
        ("call", {"service": "add", "arguments": {}}),
        ("ping", {}),
    ):
        assert caller.refusal(op, target=closed.name, **fields).code == "ACCESS_DENIED"
    inbox = os.path.join(agents.root, closed.name, "inbox")
    assert caller.name not in os.listdir(inbox)
    assert caller.name not in os.listdir(agents.root + "/" + closed.name)


@pairs("is refused by")
def test_access_that_was_taken_back(agents: Agents, source: str, target: str) -> None:
    """A-2 to A-4: grants and denials hold for the next call, be it the first one to this server; nothing is written."""
    caller = agents.shared("caller", source)
    closed = agents.start(target, f"server.closing-{source}-{target}", allow=["caller.*"]).ready()
    closed.ask("deny", patterns=[caller.name])
    denied = caller.refusal("call", target=closed.name, service="add", arguments={"a": 1, "b": 1})
    assert caller.name not in os.listdir(os.path.join(agents.root, closed.name, "inbox"))
    closed.ask("allow", patterns=[caller.name])
    assert denied.code == "ACCESS_DENIED"
    assert caller.call(closed, "add", {"a": 1, "b": 1}) == 2
    assert closed.close() == 0


@pairs("watches")
def test_a_node_that_comes_and_goes(agents: Agents, source: str, target: str) -> None:
    """R-15, R-16, R-20: it is seen to join and to leave, and a call to it then fails at once."""
    watcher = agents.shared("caller", source)
    watcher.ask("joins")
    watcher.ask("leaves")
    guest = agents.start(target, f"server.guest-{source}-{target}", allow=["caller.*"]).ready()
    assert watcher.ask("wait_for", target=guest.name, timeout=10)
    assert until(lambda: guest.name in watcher.ask("joins"))
    assert guest.name in watcher.ask("nodes")
    assert watcher.call(guest, "add", {"a": 1, "b": 1}) == 2
    assert guest.close() == 0
    assert until(lambda: guest.name in watcher.ask("leaves"))
    assert guest.name not in watcher.ask("nodes")
    assert watcher.refusal("call", target=guest.name, service="add", arguments={}).code == "UNKNOWN_NODE"


@pairs("waits for")
def test_a_node_that_dies_during_a_call(agents: Agents, source: str, target: str) -> None:
    """S-7, R-6: NODE_LEFT, long before the deadline."""
    caller = agents.shared("caller", source)
    name = f"server.victim-{source}-{target}"
    victim = agents.start(target, name, allow=["caller.*"], heartbeat=0.5).ready()
    sleeping = caller.tell("call", target=victim.name, service="sleep", arguments={"seconds": 300}, timeout=300)
    lane = os.path.join(agents.root, victim.name, "inbox", caller.name)
    assert until(lambda: os.path.isdir(lane) and any(name.startswith("cursor.") for name in os.listdir(lane)))
    victim.kill()
    try:
        caller.answer(sleeping)
    except AgentError as error:
        assert error.code == "NODE_LEFT"
    else:
        raise AssertionError("a dead node answered")
