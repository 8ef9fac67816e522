"""Messages whose time to live ends while they wait are handed to nobody (M-7)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import speed
from speed.message.writing import encode_message, new_message_id

Make = Callable[..., speed.Node]
LEFT_MS = 400
"""So long does a message live that is about to expire."""


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


class Ending:
    """A message that is about to expire."""

    def __init__(self, payload: Any) -> None:
        published = unix_ms() - 60_000 + LEFT_MS
        self._over = published + 60_000
        self.data = encode_message(
            payload,
            topic="orders.created",
            namespace="default",
            message_id=new_message_id(published, bytes(16)),
            published_at_ms=published,
            ttl_seconds=60,
        )

    def wait_until_over(self) -> None:
        while unix_ms() <= self._over:
            threading.Event().wait((self._over - unix_ms()) / 1000 + 0.01)


class Busy:
    """A handler that is held up by its first message."""

    def __init__(self) -> None:
        self.seen: Queue[Any] = Queue()
        self.has_begun, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, message: speed.Message) -> None:
        self.seen.put(message.payload)
        self.has_begun.set()
        assert self.goes_on.wait(20)


def pair(make: Make) -> tuple[speed.Node, speed.Node]:
    return make("billing"), make("analytics", allow=["billing"])


def expired(node: speed.Node) -> int:
    return int(node.stats()["counters"].get("messages_expired", 0))


@pytest.mark.parametrize("is_event", [False, True], ids=["message", "event"])
def test_what_expires_behind_a_busy_handler_is_not_handled(make: Make, is_event: bool) -> None:
    billing, analytics = pair(make)
    busy = Busy()
    analytics.subscribe("*", busy) if is_event else analytics.on_message(busy)
    send = billing.publish if is_event else lambda _, payload, **how: billing.send("analytics", payload, **how)
    send("orders.created", "first")
    assert busy.has_begun.wait(20)
    ending = Ending("second")
    billing.forward("analytics", [ending.data], event=is_event)
    ending.wait_until_over()
    busy.goes_on.set()
    billing.send("analytics", "last", ack=True, timeout=20) if not is_event else send("orders.created", "last")
    assert [busy.seen.get(timeout=20) for _ in range(2)] == ["first", "last"]
    assert expired(analytics) == 1


def test_the_sender_of_what_expired_behind_a_busy_handler_is_told(make: Make) -> None:
    billing, analytics = pair(make)
    busy = Busy()
    analytics.on_message(busy)
    billing.send("analytics", "first")
    assert busy.has_begun.wait(20)
    ending = Ending("second")
    threading.Timer(LEFT_MS / 1000 + 0.2, busy.goes_on.set).start()
    with pytest.raises(speed.ExecutionFailedError, match="expired"):
        billing.forward("analytics", [ending.data], ack=True, timeout=20)


def test_what_expires_before_it_is_received_is_passed_over(make: Make) -> None:
    billing, analytics = pair(make)
    ending = Ending("late")
    billing.forward("analytics", [ending.data], ack=True, timeout=20)
    billing.send("analytics", "good", ack=True, timeout=20)
    ending.wait_until_over()
    message = analytics.receive(timeout=20)
    assert message is not None
    assert message.payload == "good"
    assert expired(analytics) == 1


def test_what_expires_behind_a_batch_is_in_no_later_one(make: Make) -> None:
    billing, analytics = pair(make)
    seen: Queue[list[Any]] = Queue()
    has_begun, goes_on = threading.Event(), threading.Event()

    def handle(messages: Any) -> None:
        seen.put([message.payload for message in messages])
        has_begun.set()
        assert goes_on.wait(20)

    analytics.on_batch(handle)
    billing.send("analytics", "first")
    assert has_begun.wait(20)
    ending = Ending("late")
    billing.forward("analytics", [ending.data])
    billing.send("analytics", "good")
    ending.wait_until_over()
    goes_on.set()
    assert [seen.get(timeout=20) for _ in range(2)] == [["first"], ["good"]]
    assert expired(analytics) == 1


def test_a_dead_letter_is_tried_again_however_old_it_is(make: Make, root: str) -> None:
    billing, analytics = pair(make)
    tries: Queue[Any] = Queue()

    def fail_once(message: speed.Message) -> None:
        tries.put(message.payload)
        if tries.qsize() == 1:
            raise ValueError("not yet")

    analytics.on_message(fail_once)
    ending = Ending("kept")
    with pytest.raises(speed.ExecutionFailedError, match="not yet"):
        billing.forward("analytics", [ending.data], ack=True, timeout=20)
    ending.wait_until_over()
    analytics.close()  # or it would try the letter while it leaves
    retry_dead_letters(root)
    make("analytics", allow=["billing"]).on_message(lambda message: tries.put(message.payload))
    assert [tries.get(timeout=20) for _ in range(2)] == ["kept", "kept"]


def retry_dead_letters(root: str) -> None:
    """As `speed dead retry` does."""
    from speed.fs.dead_letters import DeadLetters
    from speed.fs.keyfile import load_key_file

    letters = DeadLetters(root, "analytics", load_key_file(f"{root}/speed.key"))
    assert [letters.move(one.number, "letter", "retry") for one in letters.kept()] == [True]
