"""Durable topics as a program uses them: ``node.topic("orders")``. The host of the topics does the work."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from speed.core.log import logger
from speed.core.topic_messages import batches, due_ms, outgoing, outgoing_all
from speed.errors import (
    AccessDeniedError,
    ApplicationError,
    CallError,
    CallTimeoutError,
    ConfigurationError,
    DeliveryError,
    NodeLeftError,
    NodeStateError,
    UnknownNodeError,
)
from speed.wire.topic import DEAD_LETTER, TOMBSTONE, decode
from speed.wire.value import pack, unpack

if TYPE_CHECKING:
    from speed.node import Node

log = logger("speed.topic")

HOST = "speedd.topics"
PREFETCH = 100
WAIT_SECONDS = 5.0
"""How long the host waits at most before it answers that there is nothing."""
GRACE_SECONDS = 5.0
"""How much longer a call may take than the host waits."""
PAUSE_SECONDS = 0.05
"""Before a host that is not there, or too busy to wait, is asked again."""
Start = int | str | Mapping[str, int]
AWAY = (UnknownNodeError, NodeLeftError, CallTimeoutError)


@dataclass(frozen=True)
class TopicMessage:
    """One message of a topic.

    Attributes:
        topic, offset: where it stands; offsets only grow.
        payload: what was published.
        key: its key; None without one.
        properties: what its publisher wrote beside it.
        publisher: name of the node that published it.
        recorded_at_ms: when it was recorded, in Unix milliseconds.
        attempts: how often it was delivered to its subscription, this time included; 0 for readers.
        producer, sequence: what its publisher gave for recognising repetitions.
        is_tombstone: whether it says that its key has no value any more.
        origin: of a dead letter, where it came from: topic, offset and subscription.
        failed_attempts: of a dead letter, how often it had been delivered there.
    """

    topic: str
    offset: int
    payload: Any
    key: str | None
    properties: Mapping[str, str]
    publisher: str
    recorded_at_ms: int
    attempts: int
    lane: str = field(repr=False)
    producer: str = ""
    sequence: int = 0
    is_tombstone: bool = False
    origin: tuple[str, int, str] | None = None
    failed_attempts: int = 0

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before; it may have been handled then."""
        return self.attempts > 1


def _message(topic: str, lane: str, row: Sequence[Any]) -> TopicMessage:
    offset, attempts, recorded_ms, data = row
    head, about, payload = decode(data)
    origin = about.get("origin")
    return TopicMessage(
        topic,
        offset,
        unpack(payload) if payload else None,
        about.get("key"),
        about.get("properties", {}),
        about.get("publisher", ""),
        recorded_ms,
        attempts,
        lane,
        about.get("producer", ""),
        head.sequence,
        head.type == TOMBSTONE,
        tuple(origin) if head.type == DEAD_LETTER and origin else None,
        head.attempts,
    )


class Topic:
    """A durable topic; made by ``node.topic(name)``. Thread-safe."""

    def __init__(self, node: Node, name: str, host: str = HOST) -> None:
        self._node, self.name, self.host = node, name, host

    @property
    def node(self) -> Node:
        """The node that asks."""
        return self._node

    def __repr__(self) -> str:
        return f"<Topic {self.name} at {self.host}>"

    def _call(self, service: str, *, timeout: float = 30.0, **arguments: Any) -> Any:
        return asked(self._node, self.host, service, {"topic": self.name, **arguments}, timeout)

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
        sequence: int = 0,
        timeout: float = 30.0,
    ) -> int | None:
        """Publish one message; it is kept when this returns. Returns its offset, None for a repetition.

        ``deliver_after`` (seconds) or ``deliver_at_ms`` (Unix milliseconds): shared and key-shared subscriptions get
        it no earlier. With ``producer`` and a ``sequence`` above 0, a message whose sequence is not above the last one
        of this producer is a repetition: after an error, publishing again under the same sequence is safe.
        ``timeout`` is in seconds. Raises what ``Node.call`` does; ApplicationError with the codes UNKNOWN_TOPIC,
        DENIED, FULL, NOT_WRITTEN.
        """
        due = due_ms(deliver_after, deliver_at_ms, int(time.time() * 1000))
        one = outgoing(pack(payload, "payload"), key, properties, due, sequence)
        return self._publish([one], producer, timeout)[0]

    def delete_key(self, key: str, *, timeout: float = 30.0) -> int | None:
        """Publish a tombstone: this key has no value any more."""
        return self._publish([{"payload": b"", "key": key, "tombstone": True}], "", timeout)[0]

    def publish_batch(
        self,
        payloads: Iterable[Any],
        *,
        keys: Iterable[str | None] | None = None,
        properties: Mapping[str, str] | None = None,
        producer: str = "",
        sequence: int = 0,
        timeout: float = 30.0,
    ) -> list[int | None]:
        """Publish many messages in their order, up to 1,000 or 4 MiB in one write; returns their offsets.

        ``keys`` gives each its key; ``sequence`` is that of the first one, and those behind it count on. On an error
        those before the write that failed are kept: with ``producer``, publish all again. As ``publish`` otherwise.
        """
        return self.publish_all(outgoing_all(payloads, keys, properties, sequence), producer=producer, timeout=timeout)

    def publish_all(
        self, messages: Iterable[dict[str, Any]], *, producer: str = "", timeout: float = 30.0
    ) -> list[int | None]:
        """As ``publish_batch``, of messages that ``outgoing`` made."""
        offsets: list[int | None] = []
        for batch in batches(messages):
            offsets += self._publish(batch, producer, timeout)
        return offsets

    def _publish(self, messages: list[dict[str, Any]], producer: str, timeout: float) -> list[int | None]:
        named = {"producer": producer} if producer else {}
        answer = self._call("publish", timeout=timeout, messages=messages, **named)
        return [None if offset < 0 else offset for offset in answer["offsets"]]

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
        on_message: Callable[[TopicMessage], object] | None = None,
        timeout: float = 30.0,
    ) -> Consumer:
        """Join a subscription; it is made if it is not there.

        Args:
            subscription: its name; what it has acknowledged is remembered for ever.
            type: ``"exclusive"`` (one consumer), ``"failover"`` (one at a time), ``"shared"``, or ``"key-shared"``
                (each key in order, with one consumer at a time).
            start: where a new subscription begins: ``"latest"``, ``"earliest"``, an offset, or ``{"at_ms": …}``.
            name: of this consumer; default one of its own.
            prefetch: how many messages are fetched at once.
            max_deliveries: how often a message is delivered at most; 0 for no bound.
            ack_timeout: seconds after which a message that is not acknowledged comes again; 0 for never.
            dead_letter: keep what was delivered so often aside, in the topic ``{topic}-{subscription}-DLQ`` or one of
                this name. Without it, such messages are dropped.
            on_message: called for each message on a thread of its own; it is acknowledged when that returns, and
                refused when it raises.
            timeout: how many seconds a host that is away, or begins anew, is waited for.

        Raises UnknownNodeError, NodeLeftError after ``timeout``; ApplicationError with the codes UNKNOWN_TOPIC, DENIED,
        TAKEN, FULL, DAMAGED.
        """
        aside = f"{self.name}-{subscription}-DLQ" if dead_letter is True else dead_letter or ""
        terms = {
            "type": type,
            "start": start,
            "max_deliveries": max_deliveries,
            "ack_timeout_ms": round(ack_timeout * 1000),
            "dead_letter": aside,
        }
        return Consumer(self, subscription, name or _own_name(), terms, prefetch, on_message, timeout)

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

    def create(self, *, timeout: float = 30.0) -> None:
        """Make the topic unless it is there."""
        self._call("create", timeout=timeout)

    def delete(self, *, timeout: float = 30.0) -> None:
        """Remove the topic with its messages and subscriptions."""
        self._call("delete", timeout=timeout)

    def seek(self, subscription: str, to: Start, *, timeout: float = 30.0) -> int:
        """Have a subscription begin anew; returns the offset. Raises InvalidArgumentsError outside of the topic."""
        return int(self._call("seek", timeout=timeout, subscription=subscription, to=to)["offset"])

    def purge(self, *, dry_run: bool = False, timeout: float = 30.0) -> int:
        """Acknowledge everything in every subscription; returns how many messages that are."""
        return int(self._call("purge", timeout=timeout, dry_run=dry_run)["messages"])

    def compact(self, *, timeout: float = 30.0) -> int:
        """Have a topic that keeps the latest message of each key compacted soon, whatever there is to remove.

        Returns the offset before which that is done: what a subscription has not acknowledged stays. Raises
        InvalidArgumentsError for a topic that keeps its messages.
        """
        return int(self._call("compact", timeout=timeout)["until"])

    def unsubscribe(self, subscription: str, *, timeout: float = 30.0) -> None:
        """Remove a subscription that has no consumers."""
        self._call("unsubscribe", timeout=timeout, subscription=subscription)


def asked(node: Node, host: str, service: str, arguments: dict[str, Any], timeout: float) -> Any:
    """What the host answers. It is asked again while it allows nobody, as in the moment after its start."""
    ends = time.monotonic() + min(timeout, GRACE_SECONDS)
    while True:
        try:
            return node.call(host, f"topics.{service}", arguments, timeout=timeout)
        except AccessDeniedError as error:
            outwait(node, host, ends, error)


def outwait(node: Node, host: str, ends: float, error: AccessDeniedError) -> None:
    """Until the host allows this node; raises ``error`` if it goes on so: then it never did, or does no more."""
    left = ends - time.monotonic()
    if left <= 0:
        raise error
    try:
        node.wait_for(host, timeout=left)
    except UnknownNodeError:
        raise error from None


def _own_name() -> str:
    from uuid import uuid4

    return f"c-{uuid4().hex[:12]}"


class _Fetched:
    """Messages that were fetched and not handed out, and the number of the answer that brought them."""

    def __init__(self, topic: str, subscription: str, consumer: str, terms: Mapping[str, Any], most: int) -> None:
        self.who = {"topic": topic, "subscription": subscription, "consumer": consumer}
        self.terms = terms
        self._topic, self._most = topic, most
        self._waiting: deque[TopicMessage] = deque()
        self._got = 0

    def next(self) -> TopicMessage | None:
        return self._waiting.popleft() if self._waiting else None

    def question(self, seconds: float) -> dict[str, Any]:
        return {**self.who, "most": self._most, "got": self._got, "wait_ms": int(seconds * 1000)}

    def take(self, answer: Mapping[str, Any]) -> bool:
        """Whether there were messages."""
        self._got = answer["batch"]
        self._waiting.extend(_message(self._topic, answer["lane"], row) for row in answer["messages"])
        return bool(answer["messages"])

    def forget(self) -> None:
        """The host began anew: what was not handed out comes again."""
        self._got = 0
        self._waiting.clear()

    def unseen(self) -> list[int]:
        return [one.offset for one in self._waiting]

    def acknowledgement(self, messages: Sequence[TopicMessage], *, until: bool) -> dict[str, Any]:
        lanes = {one.lane for one in messages}
        if len(lanes) != 1:
            raise ConfigurationError("acknowledge messages of one topic, at least one")
        last = max(one.offset for one in messages)
        what = {"until": last} if until else {"offsets": [one.offset for one in messages]}
        return {"topic": self._topic, "subscription": self.who["subscription"], "lane": lanes.pop(), **what}

    def rejection(self, messages: Sequence[TopicMessage], delay: float | None) -> dict[str, Any]:
        later = {} if delay is None else {"delay_ms": round(delay * 1000)}
        return {**self.who, "offsets": [one.offset for one in messages], **later}


def is_unknown(error: ApplicationError) -> bool:
    return error.code == "NOT_JOINED"


class Consumer:
    """One consumer of a subscription: ``for message in consumer``, or ``receive``. Thread-safe.

    What it was given and has not acknowledged comes again, to it or another one, when it leaves or dies.
    """

    def __init__(
        self,
        topic: Topic,
        subscription: str,
        name: str,
        terms: Mapping[str, Any],
        prefetch: int,
        on_message: Callable[[TopicMessage], object] | None,
        timeout: float,
    ) -> None:
        self._node, self._host = topic._node, topic.host
        self.topic, self.subscription, self.name = topic.name, subscription, name
        self._fetched = _Fetched(topic.name, subscription, name, terms, prefetch)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._join_within(timeout)
        self._thread: threading.Thread | None = None
        if on_message is not None:
            self._thread = threading.Thread(
                target=self._handle_all, args=(on_message,), name=f"speed-{name}", daemon=True
            )
            self._thread.start()

    def _call(self, service: str, arguments: Mapping[str, Any], timeout: float = 30.0) -> Any:
        return asked(self._node, self._host, service, dict(arguments), timeout)

    def _join_within(self, seconds: float) -> None:
        """Raises UnknownNodeError, NodeLeftError if the host is away for longer."""
        ends = time.monotonic() + seconds
        while True:
            try:
                return self._join()
            except AWAY:  # to join twice changes nothing
                if time.monotonic() >= ends:
                    raise
            self._closing.wait(PAUSE_SECONDS)

    def _join(self) -> None:
        self._call("subscribe", {**self._fetched.who, **self._fetched.terms})
        self._fetched.forget()

    def receive(self, timeout: float | None = None) -> TopicMessage | None:
        """The next message; None after ``timeout`` seconds, or when the consumer was closed.

        Waits while the host is away, and joins again when it is back.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while not self._closing.is_set():
                message = self._fetched.next()
                if message is not None:
                    return message
                began = time.monotonic()
                left = WAIT_SECONDS if ends is None else ends - began
                if self._fetch(max(0.0, min(left, WAIT_SECONDS))):
                    continue
                if ends is not None and time.monotonic() >= ends:
                    return None
                if time.monotonic() - began < PAUSE_SECONDS < left:
                    self._closing.wait(PAUSE_SECONDS)
        return None

    def _fetch(self, seconds: float) -> bool:
        try:
            return self._fetched.take(
                self._call("receive", self._fetched.question(seconds), timeout=seconds + GRACE_SECONDS)
            )
        except AWAY:
            self._closing.wait(PAUSE_SECONDS)
        except ApplicationError as error:
            if not is_unknown(error):
                raise
            if not self._closing.is_set():
                self._join_again()
        return False

    def _join_again(self) -> None:
        try:
            self._join()
        except (*AWAY, AccessDeniedError):  # asking again tells
            self._closing.wait(PAUSE_SECONDS)
        if self._closing.is_set():  # it may have joined after it left
            self._leave([])

    def __iter__(self) -> Iterator[TopicMessage]:
        """Messages until the consumer is closed."""
        while (message := self.receive()) is not None:
            yield message

    def acknowledge(self, *messages: TopicMessage) -> int:
        """These are handled: they do not come again. Returns how many were not acknowledged before.

        Raises InvalidArgumentsError for a message of another topic; what ``Node.call`` raises, and then again is right.
        """
        return int(self._call("acknowledge", self._fetched.acknowledgement(messages, until=False))["acknowledged"])

    def acknowledge_until(self, message: TopicMessage) -> int:
        """All up to this one are handled. Only for ``exclusive`` and ``failover``; InvalidArgumentsError otherwise."""
        return int(self._call("acknowledge", self._fetched.acknowledgement([message], until=True))["acknowledged"])

    def reject(self, *messages: TopicMessage, delay: float | None = None) -> int:
        """These could not be handled: they come again after ``delay`` seconds, by default after a back-off.

        Returns how many this consumer had. Their order is given up.
        """
        return int(self._call("reject", self._fetched.rejection(messages, delay))["rejected"])

    def _handle_all(self, handler: Callable[[TopicMessage], object]) -> None:
        while not self._closing.is_set():
            try:
                for message in self:
                    self._handle(handler, message)
            except Exception as error:
                log.error("consumer %s of topic %s: %s", self.name, self.topic, error)
                self._closing.wait(1.0)

    def _handle(self, handler: Callable[[TopicMessage], object], message: TopicMessage) -> None:
        try:
            handler(message)
        except Exception as error:
            log.error("handling offset %d of topic %s failed", message.offset, self.topic, exc_info=error)
            self._settle(self.reject, message)
        else:
            self._settle(self.acknowledge, message)

    def _settle(self, tell: Callable[[TopicMessage], int], message: TopicMessage) -> None:
        """The host is told until it answers: what is not settled stays with this consumer for as long as it lives."""
        while True:
            try:
                tell(message)
                return
            except (DeliveryError, CallTimeoutError) as error:
                log.warning("offset %d of topic %s is not settled yet: %s", message.offset, self.topic, error)
            except ApplicationError as error:
                if error.code != "NOT_WRITTEN":
                    raise
            if self._closing.wait(PAUSE_SECONDS):
                return

    def close(self) -> None:
        """Leave; what was given and is not acknowledged goes to others. A callback that runs is waited for."""
        if self._closing.is_set():
            return
        self._closing.set()
        is_at_rest = self._lock.acquire(blocking=False)
        if is_at_rest:
            self._lock.release()
        else:  # somebody waits for messages, so none is at hand: the host wakes it
            self._leave([])
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if is_at_rest:
            self._leave(self._fetched.unseen())

    def _leave(self, unseen: list[int]) -> None:
        try:
            self._call("leave", {**self._fetched.who, "unseen": unseen}, timeout=GRACE_SECONDS)
        except (DeliveryError, CallError, NodeStateError):
            pass  # a host that is away knows no consumers when it is back
        self._fetched.forget()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reader:
    """Messages of a topic from a place on, without a subscription. Not thread-safe."""

    def __init__(self, topic: Topic, start: Start, prefetch: int, *, compacted: bool = False) -> None:
        self._topic, self._most = topic, prefetch
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
        ends = None if timeout is None else time.monotonic() + timeout
        while not self._waiting:
            left = WAIT_SECONDS if ends is None else ends - time.monotonic()
            self._fetch(max(0.0, min(left, WAIT_SECONDS)))
            if not self._waiting and ends is not None and time.monotonic() >= ends:
                return None
        return self._waiting.popleft()

    def _fetch(self, seconds: float) -> None:
        arguments = {"start": self._next, "most": self._most, "wait_ms": int(seconds * 1000)}
        answer = self._topic._call("read", timeout=seconds + GRACE_SECONDS, **arguments)
        self._next = answer["next"]
        self._waiting.extend(_message(self._topic.name, answer["lane"], row) for row in answer["messages"])

    def __iter__(self) -> Iterator[TopicMessage]:
        """Messages, for ever."""
        while (message := self.receive()) is not None:
            yield message
