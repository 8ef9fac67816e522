"""Durable topics for those who consume them: their host, the messages that it gives, and a consumer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from speed.core.hints import checked_seconds, milliseconds
from speed.core.log import logger
from speed.engine.threads import ProgramsCode
from speed.engine.tracing import continued
from speed.errors import (
    AccessDeniedError,
    ApplicationError,
    CallError,
    CallTimeoutError,
    ConfigurationError,
    DeliveryError,
    InvalidArgumentsError,
    NodeLeftError,
    NodeStateError,
    UnknownNodeError,
)
from speed.node.calls import call_when_allowed
from speed.wire.topic import DEAD_LETTER, TOMBSTONE, decode, trace_in
from speed.wire.value import unpack

if TYPE_CHECKING:
    from speed.node.verbs import Verbs


# The host of durable topics, and the messages that it gives.

HOST = "speedd.topics"
WAIT_SECONDS = 5.0
"""How long the host waits at most before it answers that there is nothing."""
GRACE_SECONDS = 5.0
"""How much longer a call may take than the host waits."""
PAUSE_SECONDS = 0.05
"""Before a host that is not there, or too busy to wait, is asked again."""
FRESH_SECONDS = 0.02
"""So long a program gets what its host said it may have; then the host is asked again."""
MAX_BEGUN = 64
"""Messages that a program may get before the host is asked again."""
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
    epoch: int = field(default=0, repr=False)
    producer: str = ""
    sequence: int = 0
    is_tombstone: bool = False
    origin: tuple[str, int, str] | None = None
    failed_attempts: int = 0

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before; it may have been handled then."""
        return self.attempts > 1

    @property
    def traceparent(self) -> str | None:
        """The trace of its publisher, as a W3C ``traceparent``; None without a valid one."""
        return trace_in(self.properties)


def read_message(topic: str, lane: str, row: Sequence[Any], epoch: int = 0) -> TopicMessage:
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
        epoch,
        about.get("producer", ""),
        head.sequence,
        head.type == TOMBSTONE,
        tuple(origin) if head.type == DEAD_LETTER and origin else None,
        head.attempts,
    )


def is_unknown(error: ApplicationError) -> bool:
    return error.code == "NOT_JOINED"


log = logger("speed.topic")


class Consumer:
    """One consumer of a subscription: ``for message in consumer``, or ``receive``. Thread-safe.

    What it was given and has not acknowledged comes again, to it or another one, when it leaves or dies.
    """

    def __init__(
        self,
        node: Verbs,
        host: str,
        topic: str,
        subscription: str,
        name: str,
        terms: Mapping[str, Any],
        prefetch: int,
        on_message: Callable[[TopicMessage], object] | None,
        timeout: float,
    ) -> None:
        self._node, self._host = node, host
        self.topic, self.subscription, self.name = topic, subscription, name
        self._fetched = _Fetched(topic, subscription, name, terms, prefetch)
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
        return call_when_allowed(self._node, self._host, f"topics.{service}", dict(arguments), timeout)

    def _join_within(self, seconds: float) -> None:
        """Raises UnknownNodeError, NodeLeftError if the host is away for longer."""
        ends = time.monotonic() + checked_seconds("timeout", seconds)
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
        ends = None if timeout is None else time.monotonic() + checked_seconds("timeout", timeout)
        with self._lock:
            while not self._closing.is_set():
                message = self._fetched.next()
                if message is not None:
                    return message
                began = time.monotonic()
                left = WAIT_SECONDS if ends is None else ends - began
                if self._begin() if self._fetched.has_more else self._fetch(max(0.0, min(left, WAIT_SECONDS))):
                    continue
                if ends is not None and time.monotonic() >= ends:
                    return None
                if time.monotonic() - began < PAUSE_SECONDS < left:
                    self._closing.wait(PAUSE_SECONDS)
        return None

    def _fetch(self, seconds: float) -> bool:
        return self._exchange("receive", self._fetched.question(seconds), seconds, self._fetched.take)

    def _begin(self) -> bool:
        """Whether the program may have more of what is at hand: the host counts that, and says if it began anew."""
        return self._exchange("begin", self._fetched.beginning(), 0.0, self._fetched.begun)

    def _exchange(
        self, service: str, question: Mapping[str, Any], seconds: float, take: Callable[[Mapping[str, Any]], bool]
    ) -> bool:
        try:
            return take(self._call(service, question, timeout=seconds + GRACE_SECONDS))
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

        Messages from before a seek, or from before the topic was made anew, count as none: they are gone, or come
        again. Raises InvalidArgumentsError for a message of another topic; what ``Node.call`` raises, and then again is
        right.
        """
        questions = self._fetched.acknowledgements(messages)
        return sum(self._fetched.settled(self._call("acknowledge", question)) for question in questions)

    def _begin_acknowledging(self, messages: Sequence[TopicMessage]) -> Future[Any]:
        (question,) = self._fetched.acknowledgements(messages)
        return self._node.submit(self._host, "topics.acknowledge", question, timeout=30.0)

    def acknowledge_until(self, message: TopicMessage) -> int:
        """All up to this one are handled. Only for ``exclusive`` and ``failover``; InvalidArgumentsError otherwise."""
        (question,) = self._fetched.acknowledgements([message], until=True)
        return self._fetched.settled(self._call("acknowledge", question))

    def reject(self, *messages: TopicMessage, delay: float | None = None) -> int:
        """These could not be handled: they come again after ``delay`` seconds, by default after a back-off.

        Returns how many this consumer had. Their order is given up.
        """
        return int(self._call("reject", self._fetched.rejection(messages, delay))["rejected"])

    def _handle_all(self, handler: Callable[[TopicMessage], object]) -> None:
        handled = _Handled(self)
        while not self._closing.is_set():
            try:
                for message in self:
                    self._handle(handler, message, handled)
            except BaseException as error:  # nobody else handles what is sent here
                log.error("consumer %s of topic %s: %s", self.name, self.topic, error)
                self._closing.wait(1.0)

    def _handle(self, handler: Callable[[TopicMessage], object], message: TopicMessage, handled: _Handled) -> None:
        try:
            with ProgramsCode(), continued(message.traceparent):
                handler(message)
        except BaseException as error:  # its own exit or cancellation, too: what was given out here waits
            log.error("handling offset %d of topic %s failed", message.offset, self.topic, exc_info=error)
            self._settle(self.reject, message)
        else:
            handled.add(message)
        if not self._fetched.has_more or self._closing.is_set():
            handled.finish()

    def _settle(self, tell: Callable[..., int], *messages: TopicMessage) -> None:
        """The host is told until it answers: what is not settled stays with this consumer for as long as it lives."""
        while True:
            try:
                tell(*messages)
                return
            except (DeliveryError, CallTimeoutError) as error:
                log.warning("offset %d of topic %s is not settled yet: %s", messages[0].offset, self.topic, error)
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


class _Fetched:
    """Messages that were fetched and not handed out, and the number of the answer that brought them.

    The program gets only what the host was told of, so that a delivery counts only then, and nothing that the host
    gave before the subscription began anew: it is asked for the first message with those, and then for twice as many
    each time, as long as the program is quick.
    """

    def __init__(self, topic: str, subscription: str, consumer: str, terms: Mapping[str, Any], limit: int) -> None:
        self.who = {"topic": topic, "subscription": subscription, "consumer": consumer}
        self.terms = terms
        self._topic, self._limit = topic, limit
        self._waiting: deque[TopicMessage] = deque()
        self._got = 0
        self._begun, self._window = 0, 1
        """How many of the first that wait the program may have now, and how many it was to have at the last word."""
        self._fresh_until = 0.0

    def next(self) -> TopicMessage | None:
        """The next one that the program may have."""
        if not self._begun or time.monotonic() > self._fresh_until:
            return None
        self._begun -= 1
        return self._waiting.popleft()

    def give_back(self, message: TopicMessage | None) -> None:
        """It was not handed out after all."""
        if message is not None:
            self._waiting.appendleft(message)
            self._begun += 1

    def beginning(self) -> dict[str, Any]:
        """What asks whether the program may have some more."""
        self._window = 1 if self._begun else min(2 * self._window, MAX_BEGUN)
        first = self._waiting[0]
        some = [one.offset for one in islice(self._waiting, max(self._window, self._begun))]
        return {**self.who, "lane": first.lane, "epoch": first.epoch, "offsets": some}

    def begun(self, answer: Mapping[str, Any]) -> bool:
        """Whether the program may have the next one. What the host does not know any more is gone."""
        if self._waiting and (answer["lane"], answer["epoch"]) != (self._waiting[0].lane, self._waiting[0].epoch):
            self._waiting.clear()
        begun = set(answer["begun"])
        wanted = max(self._window, self._begun)
        some = [self._waiting.popleft() for _ in range(min(wanted, len(self._waiting)))]
        kept = [one for one in some if one.offset in begun]
        self._waiting.extendleft(reversed(kept))
        self._hear(len(kept))
        return bool(kept)

    def _hear(self, begun: int) -> None:
        """The host has said that the program may have so many."""
        self._begun, self._fresh_until = begun, time.monotonic() + FRESH_SECONDS

    def settled(self, answer: Mapping[str, Any]) -> int:
        """How many were not acknowledged before. What is at hand is asked for again if there was a seek."""
        with suppress(IndexError):  # others hand them out meanwhile
            first = self._waiting[0]
            if (first.lane, first.epoch) != (answer.get("lane"), answer.get("epoch")):
                self._fresh_until = 0.0
        if answer.get("stale"):
            text = "%d acknowledgements of topic %s count for nothing: subscription %s began anew meanwhile"
            log.warning(text, answer["stale"], self._topic, self.who["subscription"])
        return int(answer["acknowledged"])

    @property
    def has_more(self) -> bool:
        """Whether the next one is at hand."""
        return bool(self._waiting)

    def question(self, seconds: float) -> dict[str, Any]:
        return {**self.who, "most": self._limit, "got": self._got, "wait_ms": int(seconds * 1000), "begin": 1}

    def take(self, answer: Mapping[str, Any]) -> bool:
        """Whether there were messages."""
        self._got = answer["batch"]
        epoch = answer.get("epoch", 0)
        self._waiting.extend(read_message(self._topic, answer["lane"], row, epoch) for row in answer["messages"])
        self._window = 1
        self._hear(min(1, len(self._waiting)))
        return bool(answer["messages"])

    def forget(self) -> None:
        """The host began anew: what was not handed out comes again."""
        self._got = self._begun = 0
        self._waiting.clear()

    def unseen(self) -> list[int]:
        return [one.offset for one in self._waiting]

    def acknowledgements(self, messages: Sequence[TopicMessage], *, until: bool = False) -> list[dict[str, Any]]:
        """One question for what was given between two seeks."""
        if not messages:
            raise ConfigurationError("acknowledge messages, at least one")
        other = next((one.topic for one in messages if one.topic != self._topic), None)
        if other is not None:
            raise InvalidArgumentsError(
                f"this is a message of another topic, {other!r}: {self._topic!r} is consumed here"
            )
        offsets: dict[tuple[str, int], list[int]] = {}
        for one in messages:
            offsets.setdefault((one.lane, one.epoch), []).append(one.offset)
        who = {"topic": self._topic, "subscription": self.who["subscription"]}
        return [
            {**who, "lane": lane, "epoch": epoch, **({"until": max(some)} if until else {"offsets": some})}
            for (lane, epoch), some in offsets.items()
        ]

    def rejection(self, messages: Sequence[TopicMessage], delay: float | None) -> dict[str, Any]:
        later = {} if delay is None else {"delay_ms": milliseconds("delay", delay)}
        return {**self.who, "offsets": [one.offset for one in messages], **later}


class _Handled:
    """What a callback handled: acknowledged while it handles the next, and together what it handled meanwhile."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._waiting: list[TopicMessage] = []
        self._sent: list[TopicMessage] = []
        self._in_flight: Future[Any] | None = None

    def add(self, message: TopicMessage) -> None:
        """One more; what was given before a seek is told alone."""
        if self._waiting and (self._waiting[0].lane, self._waiting[0].epoch) != (message.lane, message.epoch):
            self.finish()
        self._waiting.append(message)
        if self._in_flight is None or self._in_flight.done():
            self._look()
            self._tell()

    def finish(self) -> None:
        """Until the host knows all, or the consumer is closed."""
        self._look()
        messages, self._waiting = self._waiting, []
        if messages:
            self._consumer._settle(self._consumer.acknowledge, *messages)

    def _tell(self) -> None:
        try:
            self._in_flight = self._consumer._begin_acknowledging(self._waiting)
            self._sent, self._waiting = self._waiting, []
        except DeliveryError:
            self.finish()

    def _look(self) -> None:
        """Wait for the answer; what the host did not take is told again."""
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is None:
            return
        if in_flight.exception() is None:
            self._consumer._fetched.settled(in_flight.result())
        else:
            self._consumer._settle(self._consumer.acknowledge, *self._sent)
