"""Received messages and events on their way to handlers, ``receive`` and iteration (M-n, RFC 2.4).

Messages and events of one sender are handled one after the other, in order; different senders side by
side, the more urgent first when workers are few (M-33). Without a message handler, messages wait for ``receive``
(acknowledged, and committed only when done).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic

from speed.core.order import ByPriority, SenderHeads, SenderOrder
from speed.core.services import failure_text
from speed.errors import ConfigurationError, SpeedError, WireError
from speed.runtime.arrival import Arrival
from speed.runtime.batches import Batches, BatchHandler
from speed.runtime.context import Context
from speed.runtime.message import Message
from speed.runtime.tracing import current_traceparent
from speed.runtime.workers import WorkerPool
from speed.wire.names import check_topic_pattern, matches

log = logging.getLogger("speed.messages")

Handler = Callable[[Message], object]


class Delivery:
    """Handlers, subscriptions and the receive queue of a node. Thread-safe."""

    def __init__(self, context: Context, pool: WorkerPool) -> None:
        self._context = context
        self._pool = pool
        self._order: SenderOrder[Arrival] = SenderOrder()
        self._runnable: ByPriority[Arrival] = ByPriority()
        self._order_lock = threading.Lock()
        self._handler: Handler | None = None
        self._subscriptions: tuple[tuple[str, Handler], ...] = ()
        self._received: SenderHeads[Message] = SenderHeads()
        self._in_hand: Message | None = None
        self._batches: Batches | None = None
        self._arrived = threading.Condition()

    # --- what the program asks for ---

    def on_message(self, handler: Handler) -> None:
        """Handle messages by ``handler``; those that already wait are handled first."""
        with self._arrived:
            if self._handler is not None or self._batches is not None:
                raise ConfigurationError("this node already has a message handler: use one")
            while self._received:
                self._enqueue(Arrival(self._received.pop(), False, lambda: None, lambda code, text: None))
            self._handler = handler  # last: what arrives from now on comes after those that waited

    def subscribe(self, pattern: str, handler: Handler) -> tuple[str, ...]:
        """Add a subscription; returns all patterns, for the published entry."""
        if self._batches is not None:
            raise ConfigurationError("this node already has a handler: one for batches is the only one")
        self._subscriptions = (*self._subscriptions, (check_topic_pattern(pattern), handler))
        return tuple(dict.fromkeys(pattern for pattern, _ in self._subscriptions))

    def on_batch(self, handler: BatchHandler, patterns: tuple[str, ...]) -> None:
        """Hand over all messages, and events of ``patterns``, in batches; there is no other handler then."""
        for pattern in patterns:
            check_topic_pattern(pattern)
        with self._arrived:
            if self._handler is not None or self._subscriptions or self._batches is not None:
                raise ConfigurationError("this node already has a handler: one for batches is the only one")
            batches = Batches(self._context, self._pool, handler, patterns)
            while self._received:
                batches.add(Arrival(self._received.pop(), False, lambda: None, lambda code, text: None))
            self._batches = batches  # last: what arrives from now on comes after those that waited

    def stop_waiting(self) -> None:
        """The node leaves: a batch that its handler could not take is not tried again."""
        if self._batches is not None:
            self._batches.leaving = True

    def receive(self, timeout_seconds: float | None) -> Message | None:
        """The next message, or None after the timeout; finishes the message returned before."""
        deadline = None if timeout_seconds is None else monotonic() + timeout_seconds
        with self._arrived:
            finished, self._in_hand = self._in_hand, None
        if finished is not None:
            finished.done()
        with self._arrived:
            while not self._received:
                left = 1.0 if deadline is None else deadline - monotonic()
                if left <= 0:
                    return None
                if self._context.failure is not None:
                    raise self._context.failure
                self._arrived.wait(min(left, 1.0))
            self._in_hand = self._received.pop()
            return self._in_hand

    def wake_receivers(self) -> None:
        with self._arrived:
            self._arrived.notify_all()

    def finish_in_hand(self) -> None:
        """On close: what ``receive`` returned last counts as handled."""
        with self._arrived:
            message, self._in_hand = self._in_hand, None
        if message is not None:
            message.done()

    # --- what the protocol thread brings ---

    def arrive(self, arrival: Arrival) -> None:
        if self._batches is not None:
            self._batches.add(arrival)
            return
        if arrival.is_event or self._handler is not None:
            self._enqueue(arrival)
            return
        with self._arrived:
            waits = self._handler is None and self._batches is None
            if waits:
                message = arrival.message
                self._received.push(message.source, message.metadata.priority, message)
                self._arrived.notify()
        if waits:
            arrival.acknowledge()
        elif self._batches is not None:
            self._batches.add(arrival)
        else:
            self._enqueue(arrival)

    def _enqueue(self, arrival: Arrival) -> None:
        with self._order_lock:
            runnable = self._order.push(arrival.message.source, arrival)
            if runnable:
                self._runnable.push(arrival.message.metadata.priority, arrival)
        if runnable:
            self._pool.submit(self._run)

    def _run(self) -> None:
        """Handle the most urgent message, then queue its sender's next behind other work: no sender starves others."""
        with self._order_lock:
            arrival = self._runnable.pop()
        try:
            self._handle(arrival)
        finally:
            self._handled(arrival.message.source)

    def _handled(self, source: str) -> None:
        with self._order_lock:
            following = self._order.done(source)
            if following is not None:
                self._runnable.push(following.message.metadata.priority, following)
        if following is not None:
            self._pool.submit(self._run)

    def _handle(self, arrival: Arrival) -> None:
        message = arrival.message
        token = current_traceparent.set(message.traceparent)
        try:
            self._call_handlers(arrival)
        except WireError as error:
            self._context.stats.count("messages_malformed")
            arrival.refuse("INVALID_ARGUMENTS", str(error))
        except BaseException as error:  # its own exit or cancellation, too: its sender's next messages wait
            self._context.stats.count("handler_failures")
            log.exception("handler failed for a message of %s", message.source)
            text = failure_text(error)
            if not isinstance(error, SpeedError):
                text = f"{type(error).__name__}: {text}"
            arrival.refuse("EXECUTION_FAILED", text[:2000])
        else:
            arrival.acknowledge()
        finally:
            current_traceparent.reset(token)
            message.done()

    def _call_handlers(self, arrival: Arrival) -> None:
        if not arrival.is_event:
            if self._handler is not None:
                self._handler(arrival.message)
            return
        topic = arrival.message.topic
        handlers = [handler for pattern, handler in self._subscriptions if matches(pattern, topic)]
        if not handlers:
            self._context.stats.count("events_unsubscribed")
        for handler in handlers:
            handler(arrival.message)
