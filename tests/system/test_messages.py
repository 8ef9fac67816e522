"""Messages, acknowledgements, events, joins and leaves (registry_spec/messages.md)."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import Queue
from typing import Any

import pytest

import speed
from speed.errors import StorageError

Make = Callable[..., speed.Node]


def test_an_acknowledged_message_was_handled(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    handled: list[Any] = []
    billing.on_message(lambda message: handled.append((message.source, message.payload, message.redelivered)))
    analytics.send("billing", {"hello": 1}, ack=True)
    assert handled == [("analytics", {"hello": 1}, False)]


def test_a_message_without_a_handler_waits_for_receive(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    identifier = analytics.send(
        "billing", [1, "two", b"three", None, 4.5], ack=True, options=speed.PublishOptions(priority=7)
    )
    message = billing.receive(timeout=10)
    assert message is not None
    assert message.payload == [1, "two", b"three", None, 4.5]
    assert message.message_id == identifier
    assert message.metadata.priority == 7
    assert billing.receive(timeout=0) is None


def test_metadata_as_keywords_works_until_the_next_release_and_warns_where_it_is_written(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")

    async def send_awaited() -> None:
        await analytics.aio.send("billing", "b", priority=8)

    def send() -> None:
        analytics.send("billing", "a", priority=7, options=speed.PublishOptions(topic="orders", priority=1))
        asyncio.run(send_awaited())
        analytics.send_all("billing", ["c"], labels={"region": "eu"})
        analytics.send_batch("billing", ["d"], priority=6)

    with pytest.warns(DeprecationWarning, match=r"give options=PublishOptions\((priority|labels)=…\)") as seen:
        send()
    assert [one.filename for one in seen] == [__file__] * 4
    told = [message.metadata for _ in range(4) if (message := billing.receive(timeout=20)) is not None]
    assert [view.priority for view in told] == [7, 8, 5, 6]
    assert (told[0].topic, told[2].labels) == ("orders", {"region": "eu"})


def test_an_argument_that_no_message_has_is_refused_and_nothing_is_sent(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    for verb in (analytics.send, analytics.send_all):
        with pytest.raises(speed.ConfigurationError, match="no such argument: prority; see PublishOptions"):
            verb("billing", [1], prority=7)  # type: ignore[operator]
    analytics.send_all("billing", [1, 2], options=speed.PublishOptions(correlation_id="cart-7"))
    told = [message.metadata for _ in range(2) if (message := billing.receive(timeout=20)) is not None]
    assert [view.correlation_id for view in told] == ["cart-7", "cart-7"]


def test_a_failing_handler_is_told_to_the_sender_who_asked(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")

    def fail(message: speed.Message) -> None:
        raise ValueError("no such order")

    billing.on_message(fail)
    with pytest.raises(speed.ExecutionFailedError, match="no such order"):
        analytics.send("billing", 1, ack=True)


def test_an_expired_message_reaches_no_handler_and_its_sender_is_told(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-7."""
    billing, analytics = node("billing", allow=["analytics"]), node("analytics", engine="python")  # its clock is set
    handled: list[Any] = []
    billing.on_message(lambda message: handled.append(message.payload))
    an_hour_ago = time.time_ns() // 1_000_000 - 3_600_000
    monkeypatch.setattr("speed.engine.message.unix_ms", lambda: an_hour_ago)
    with pytest.raises(speed.ExecutionFailedError, match="expired"):
        analytics.send("billing", "late", ack=True, options=speed.PublishOptions(ttl_seconds=60))
    analytics.send("billing", "timeless", ack=True)
    assert handled == ["timeless"]
    assert billing.stats()["counters"]["messages_expired"] == 1


def test_messages_of_one_sender_stay_in_order(node: Make) -> None:
    """RFC 2.4."""
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    seen: list[int] = []
    billing.on_message(lambda message: seen.append(message.payload))
    for number in range(1000):
        analytics.send("billing", number)
    analytics.send("billing", 1000, ack=True, timeout=30)
    assert seen == list(range(1001))


def test_messages_sent_at_once_arrive_in_their_order_whatever_their_size(node: Make) -> None:
    """L-3, L-4: large ones do not share a write."""
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    payloads = [bytes([number]) * (200_000 if number % 50 == 7 else 200) for number in range(200)]
    seen: list[bytes] = []
    billing.on_message(lambda message: seen.append(message.payload))
    analytics.send_all("billing", iter(payloads), options=speed.PublishOptions(priority=7))
    analytics.send_all("billing", [])
    analytics.send("billing", b"last", ack=True, timeout=30)
    assert seen == [*payloads, b"last"]


def test_messages_sent_at_once_that_find_no_space_tell_how_many_were_accepted(
    node: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-5: three of ten, and these are delivered."""
    billing, analytics = node("billing", allow=["analytics"], engine="python"), node("analytics", engine="python")
    real = os.writev

    def fill(fd: int, parts: list[bytes]) -> int:
        data = b"".join(parts)
        return real(fd, [data[: len(data) * 7 // 20]])  # three and a half, of equal length

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", fill)
        patch.setattr(os, "write", refuse)
        with pytest.raises(StorageError) as caught:
            analytics.send_all("billing", range(10))
    assert caught.value.envelopes_written == 3
    analytics.send("billing", 10)
    received = [billing.receive(timeout=10) for _ in range(4)]
    assert [message.payload for message in received if message is not None] == [0, 1, 2, 10]


def test_a_payload_that_cannot_be_encoded_takes_no_full_write_before_it_with_it(node: Make) -> None:
    billing, analytics = node("billing", allow=["analytics"]), node("analytics")
    with pytest.raises(speed.UnserialisableError):
        analytics.send_all("billing", [*range(64), object()])
    assert [message.payload for message in iter(partial(billing.receive, 0.2), None)] == list(range(64))


def test_of_messages_sent_at_once_none_reaches_a_node_that_does_not_allow_it(node: Make, root: str) -> None:
    """A-3."""
    node("billing")
    with pytest.raises(speed.AccessDeniedError):
        node("analytics").send_all("billing", [1, 2, 3])
    assert os.listdir(f"{root}/billing/inbox") == []


def test_an_event_reaches_those_who_subscribe_and_allow(node: Make) -> None:
    publisher = node("publisher")
    arrived: Queue[tuple[str, str, Any]] = Queue()

    def hear(name: str) -> Callable[[speed.Message], None]:
        return lambda message: arrived.put((name, message.topic, message.payload))

    node("open", allow=["publisher"]).subscribe("orders.*", hear("open"))
    node("closed").subscribe("orders.*", hear("closed"))
    node("elsewhere", allow=["publisher"]).subscribe("invoices.*", hear("elsewhere"))
    assert publisher.publish("orders.created", {"id": 7}) == 1
    assert arrived.get(timeout=10) == ("open", "orders.created", {"id": 7})
    assert arrived.empty()


def test_joins_and_leaves_are_reported(node: Make) -> None:
    """R-16."""
    watcher = node("watcher")
    seen: Queue[tuple[str, str]] = Queue()
    watcher.on_join(lambda entry: seen.put(("join", entry.name)))
    watcher.on_leave(lambda entry: seen.put(("leave", entry.name)))
    other = node("other", fabrics=["Finance"])
    assert seen.get(timeout=10) == ("join", "other")
    assert [entry.name for entry in watcher.nodes(fabric="Finance")] == ["other"]
    other.close()
    assert seen.get(timeout=10) == ("leave", "other")


def test_a_node_that_leaves_fails_the_calls_that_wait_for_it(node: Make) -> None:
    server, client = node("server", allow=["client"]), node("client")
    started = threading.Event()
    release = threading.Event()
    server.register("hang", lambda: (started.set(), release.wait(20))[1])
    future = client.submit("server", "hang", timeout=60)
    assert started.wait(10)
    server.close(drain_seconds=0)
    with pytest.raises(speed.NodeLeftError, match="server"):
        future.result(20)
    release.set()


def test_unknown_message_options_are_named(node: Make) -> None:
    node("billing", allow=["analytics"])
    with pytest.raises(speed.ConfigurationError, match="colour"):
        node("analytics").send("billing", 1, colour="red")


def test_receive_gives_the_more_urgent_sender_first_and_keeps_the_order_of_each(node: Make) -> None:
    """M-33."""
    billing = node("billing", allow=["calm", "urgent"])
    calm, urgent = node("calm"), node("urgent")
    for number in range(2):
        calm.send("billing", f"calm {number}", ack=True, options=speed.PublishOptions(priority=2))
    for number in range(2):
        urgent.send("billing", f"urgent {number}", ack=True, options=speed.PublishOptions(priority=9))
    found = [billing.receive(timeout=10) for _ in range(4)]
    assert [message and message.payload for message in found] == ["urgent 0", "urgent 1", "calm 0", "calm 1"]


def test_a_busy_worker_takes_the_more_urgent_sender_next(node: Make) -> None:
    """M-33."""
    billing = node("billing", allow=["first", "calm", "urgent"], workers=1)
    first, calm, urgent = node("first"), node("calm"), node("urgent")
    handled: Queue[str] = Queue()
    entered, go_on = threading.Event(), threading.Event()

    def handle(message: speed.Message) -> None:
        handled.put(message.payload)
        if message.payload == "first":
            entered.set()
            go_on.wait(30)

    billing.on_message(handle)
    first.send("billing", "first")
    assert entered.wait(10)
    calm.send("billing", "calm", options=speed.PublishOptions(priority=1))
    urgent.send("billing", "urgent", options=speed.PublishOptions(priority=9))
    deadline = time.monotonic() + 10
    while billing.stats()["counters"].get("messages_received", 0) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    go_on.set()
    assert [handled.get(timeout=10) for _ in range(3)] == ["first", "urgent", "calm"]
