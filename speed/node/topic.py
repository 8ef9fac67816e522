"""Durable topics as a program uses them: ``node.topic("orders")``. The host of the topics does the work."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from speed.core.hints import checked_seconds, milliseconds
from speed.engine.tracing import current_trace
from speed.errors import AccessDeniedError, ConfigurationError
from speed.node.calls import call_when_allowed
from speed.node.consumer import (
    GRACE_SECONDS,
    HOST,
    WAIT_SECONDS,
    Consumer,
    Start,
    TopicMessage,
    read_message,
)
from speed.wire import lazily
from speed.wire.limits import MAX_TOPIC_BATCH
from speed.wire.topic import TopicOffset, batches, offsets_of, outgoing, outgoing_all, traced
from speed.wire.value import pack

if TYPE_CHECKING:
    from speed.node.verbs import Verbs


PREFETCH = 100
_Batch = list[dict[str, Any]]


class Topic:
    """A durable topic; made by ``node.topic(name)``. Thread-safe."""

    def __init__(self, node: Verbs, name: str, host: str = HOST) -> None:
        self._node, self.name, self.host = node, name, host

    @property
    def node(self) -> Verbs:
        """The node that asks."""
        return self._node

    def __repr__(self) -> str:
        return f"<Topic {self.name} at {self.host}>"

    def _call(self, service: str, *, timeout: float = 30.0, **arguments: Any) -> Any:
        return call_when_allowed(self._node, self.host, f"topics.{service}", {"topic": self.name, **arguments}, timeout)

    # --- publishing ---

    def publish(
        self,
        payload: Any,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        deliver_after: float | None = None,
        deliver_at_ms: int | None = None,
        producer: str = "",
        owner: str = "",
        sequence: int = 0,
        timeout: float = 30.0,
    ) -> TopicOffset:
        """Publish one message; it is kept when this returns. Returns its offset, and whether it is a ``duplicate``.

        ``deliver_after`` (seconds) or ``deliver_at_ms`` (Unix milliseconds): shared and key-shared subscriptions get
        it no earlier. With ``producer`` and a ``sequence`` above 0, a message whose sequence is not above the last one
        of this producer is a repetition: after an error, publishing again under the same sequence is safe. Each node
        has producers of its own; ``owner`` names a family that this node is in, whose nodes share them: ``shop`` for
        ``shop.1`` and ``shop.2``.
        A trace that is at hand goes along as the property ``traceparent``, unless ``properties`` has one.
        ``timeout`` is in seconds. Raises what ``Node.call`` does; ApplicationError with the codes UNKNOWN_TOPIC,
        DENIED, FULL, NOT_WRITTEN.
        """
        due = due_ms(deliver_after, deliver_at_ms, int(time.time() * 1000))
        one = outgoing(pack(payload, "payload"), key, traced(properties, current_trace()), due, sequence)
        return self._publish([one], producer, owner, timeout)[0]

    def delete_key(self, key: str, *, timeout: float = 30.0) -> TopicOffset:
        """Publish a tombstone: this key has no value any more."""
        return self._publish([{"payload": b"", "key": key, "tombstone": True}], "", "", timeout)[0]

    def publish_batch(
        self,
        payloads: Iterable[Any],
        *,
        keys: Iterable[str | None] | None = None,
        properties: Mapping[str, str] | None = None,
        producer: str = "",
        owner: str = "",
        sequence: int = 0,
        timeout: float = 30.0,
    ) -> list[TopicOffset]:
        """Publish many messages in their order, up to 1,000 or 4 MiB in one write; returns their offsets.

        ``keys`` gives each its key; ``sequence`` is that of the first one, and those behind it count on. On an error
        those before the write that failed are kept: with ``producer``, publish all again. As ``publish`` otherwise;
        ConfigurationError for another number of keys than payloads.
        """
        messages = outgoing_all(payloads, keys, traced(properties, current_trace()), sequence)
        return self.publish_all(messages, producer=producer, owner=owner, timeout=timeout)

    def publish_all(
        self, messages: Iterable[dict[str, Any]], *, producer: str = "", owner: str = "", timeout: float = 30.0
    ) -> list[TopicOffset]:
        """As ``publish_batch``, of messages that ``outgoing`` made."""
        offsets: list[TopicOffset] = []
        making = batches(messages)
        batch = next(making, None)
        while batch is not None:
            in_flight = self._begun(batch, producer, owner, timeout)
            try:
                following = next(making, None)  # made while the host writes
            finally:
                offsets += self._kept(in_flight, batch, producer, owner, timeout)
            batch = following
        return offsets

    def _begun(self, batch: _Batch, producer: str, owner: str, timeout: float) -> Future[Any] | None:
        """A batch on its way; None to a host that allows nobody, as one that has only just begun."""
        with suppress(AccessDeniedError):
            arguments = self._publication(batch, producer, owner)
            return self._node.submit(self.host, "topics.publish", arguments, timeout=timeout)
        return None

    def _kept(
        self, in_flight: Future[Any] | None, batch: _Batch, producer: str, owner: str, timeout: float
    ) -> list[TopicOffset]:
        with suppress(AccessDeniedError):
            if in_flight is not None:
                return offsets_of(in_flight.result())
        return self._publish(batch, producer, owner, timeout)

    def _publish(self, messages: _Batch, producer: str, owner: str, timeout: float) -> list[TopicOffset]:
        arguments = self._publication(messages, producer, owner)
        return offsets_of(call_when_allowed(self._node, self.host, "topics.publish", arguments, timeout))

    def _publication(self, messages: _Batch, producer: str, owner: str) -> dict[str, Any]:
        named = {name: text for name, text in (("producer", producer), ("owner", owner)) if text}
        return {"topic": self.name, "messages": messages, **named}

    # --- reading ---

    def consumer(
        self,
        subscription: str,
        *,
        type: str = "exclusive",  # noqa: A002 - the word of those who use topics
        start: Start = "latest",
        name: str = "",
        prefetch: int = PREFETCH,
        max_deliveries: int = 0,
        ack_timeout: float = 0.0,
        dead_letter: bool | str = False,
        durable: bool = True,
        on_message: Callable[[TopicMessage], object] | None = None,
        timeout: float = 30.0,
    ) -> Consumer:
        """Join a subscription; it is made if it is not there.

        Args:
            subscription: its name; what it has acknowledged is remembered for ever, if it is durable.
            type: ``"exclusive"`` (one consumer), ``"failover"`` (one at a time), ``"shared"``, or ``"key-shared"``
                (each key in order, with one consumer at a time).
            start: where a new subscription begins: ``"latest"``, ``"earliest"``, an offset, ``{"at_ms": …}`` (Unix
                milliseconds), or ``{"last": …}`` (so many messages before the end).
            name: of this consumer; default one of its own.
            prefetch: how many messages are fetched at once.
            max_deliveries: how often a message is delivered at most; 0 for no bound.
            ack_timeout: seconds after which a message that is not acknowledged comes again; 0 for never.
            dead_letter: keep what was delivered so often aside, in the topic ``{topic}-{subscription}-DLQ`` or one of
                this name. Without it, such messages are dropped.
            durable: whether a new subscription outlives its consumers. One that does not is gone with the last of them,
                or with the host; they join a new one then, at ``start``.
            on_message: called for each message on a thread of its own. When that returns the message is acknowledged,
                while the next one is handled; when it raises, the message is refused.
            timeout: how many seconds a host that is away, or begins anew, is waited for.

        Raises UnknownNodeError, NodeLeftError after ``timeout``; ApplicationError with the codes UNKNOWN_TOPIC, DENIED,
        TAKEN, FULL, DAMAGED.
        """
        aside = f"{self.name}-{subscription}-DLQ" if dead_letter is True else dead_letter or ""
        terms = {
            "type": type,
            "start": start,
            "max_deliveries": max_deliveries,
            "ack_timeout_ms": milliseconds("ack_timeout", ack_timeout),
            "dead_letter": aside,
            **({} if durable else {"durable": False}),
        }
        own = name or _own_name()
        return Consumer(self._node, self.host, self.name, subscription, own, terms, prefetch, on_message, timeout)

    def reader(self, start: Start = "latest", *, prefetch: int = PREFETCH, compacted: bool = False) -> Reader:
        """Read without a subscription, from ``start`` on (as for ``consumer``).

        ``compacted`` (with ``start="earliest"``): of what is there now, only the last message of each key, and none of
        a key that was deleted; messages without a key all. They are held in memory until they are received. What is
        published later comes as it is, deletions as well (``is_tombstone``).
        """
        return Reader(self, start, prefetch, compacted=compacted)

    def describe(self, *, timeout: float = 30.0) -> dict[str, Any]:
        """Offsets, size and subscriptions."""
        described: dict[str, Any] = self._call("describe", timeout=timeout)
        return described

    # --- managing ---

    def create(self, *, dead_letters_of: str = "", timeout: float = 30.0) -> None:
        """Make the topic unless it is there; for the dead letters of another topic, whose grants hold for it too."""
        named = {"dead_letters_of": dead_letters_of} if dead_letters_of else {}
        self._call("create", timeout=timeout, **named)

    def delete(self, *, timeout: float = 30.0) -> None:
        """Remove the topic with its messages and subscriptions."""
        self._call("delete", timeout=timeout)

    def seek(self, subscription: str, to: Start, *, timeout: float = 30.0) -> int:
        """Have a subscription begin anew; returns the offset. Raises InvalidArgumentsError outside of the topic."""
        return int(self._call("seek", timeout=timeout, subscription=subscription, to=to)["offset"])

    def purge(self, *, dry_run: bool = False, timeout: float = 30.0) -> int:
        """Acknowledge everything in every subscription; returns how many messages that are."""
        return int(self._call("purge", timeout=timeout, dry_run=dry_run)["messages"])

    def redrive(self, most: int | None = None, *, timeout: float = 30.0) -> int:
        """Publish the dead letters in this topic anew where they came from, the oldest first; returns how many.

        At most ``most``; by default those that are there now. Each subscription there gets them, not only the one
        that could not handle them. What this topic has besides stays as it is. ``timeout`` is for each batch. Raises
        CallError for the first that cannot be published; those before it are.
        """
        done, before = 0, 1 << 63
        while True:
            wanted = MAX_TOPIC_BATCH if most is None else min(MAX_TOPIC_BATCH, most - done)
            answer = self._call("redrive", timeout=timeout, most=wanted)
            done, left = done + int(answer["messages"]), int(answer["left"])
            if done == most or not 0 < left < before:  # others may die meanwhile: this ends nevertheless
                return done
            before = left

    def forget_producer(self, producer: str, *, owner: str = "", timeout: float = 30.0) -> int:
        """Have the sequences of a producer begin anew, as after one that was far too high.

        ``owner`` is the node, or family of nodes, that publishes under the name; by default all that do. Returns how
        many producers that were.
        """
        named = {"owner": owner} if owner else {}
        return int(self._call("forget_producer", timeout=timeout, producer=producer, **named)["forgotten"])

    def compact(self, *, timeout: float = 30.0) -> int:
        """Have a topic that keeps the latest message of each key compacted soon, whatever there is to remove.

        Returns the offset before which that is done: what a subscription has not acknowledged stays. Raises
        InvalidArgumentsError for a topic that keeps its messages.
        """
        return int(self._call("compact", timeout=timeout)["until"])

    def unsubscribe(self, subscription: str, *, timeout: float = 30.0) -> None:
        """Remove a subscription that has no consumers."""
        self._call("unsubscribe", timeout=timeout, subscription=subscription)


def _own_name() -> str:
    with lazily.guard:
        from uuid import uuid4

    return f"c-{uuid4().hex[:12]}"


class Reader:
    """Messages of a topic from a place on, without a subscription. Not thread-safe."""

    def __init__(self, topic: Topic, start: Start, prefetch: int, *, compacted: bool = False) -> None:
        self._topic, self._limit = topic, prefetch
        self._waiting: deque[TopicMessage] = deque()
        self._next: Start = start
        end = topic.describe()["end"] if compacted else 0
        self._fetch(0.0)  # where "latest" is, is now
        if compacted:
            self._waiting = deque(sorted(self._last_of_each_key(end), key=lambda one: one.offset))

    def _last_of_each_key(self, end: int) -> list[TopicMessage]:
        """Of what is before ``end`` at least; messages without a key all."""
        last: dict[str | int, TopicMessage] = {}
        while self._waiting:
            last.update((one.offset if one.key is None else one.key, one) for one in self._waiting)
            self._waiting.clear()
            assert isinstance(self._next, int)
            if self._next < end:
                self._fetch(0.0)
        return [one for one in last.values() if not one.is_tombstone]

    def receive(self, timeout: float | None = None) -> TopicMessage | None:
        """The next message; None after ``timeout`` seconds."""
        ends = None if timeout is None else time.monotonic() + checked_seconds("timeout", timeout)
        while not self._waiting:
            left = WAIT_SECONDS if ends is None else ends - time.monotonic()
            self._fetch(max(0.0, min(left, WAIT_SECONDS)))
            if not self._waiting and ends is not None and time.monotonic() >= ends:
                return None
        return self._waiting.popleft()

    def _fetch(self, seconds: float) -> None:
        arguments = {"start": self._next, "most": self._limit, "wait_ms": int(seconds * 1000)}
        answer = self._topic._call("read", timeout=seconds + GRACE_SECONDS, **arguments)
        self._next = answer["next"]
        self._waiting.extend(read_message(self._topic.name, answer["lane"], row) for row in answer["messages"])

    def __iter__(self) -> Iterator[TopicMessage]:
        """Messages, for ever."""
        while (message := self.receive()) is not None:
            yield message


def due_ms(after: float | None, at_ms: int | None, now_ms: int) -> int:
    """When a message is due, in Unix milliseconds; 0 for at once. ConfigurationError where both are given."""
    if after is not None and at_ms is not None:
        raise ConfigurationError("deliver_after and deliver_at_ms are both given: use one of them")
    if after is not None:
        return now_ms + milliseconds("deliver_after", after)
    return at_ms or 0
