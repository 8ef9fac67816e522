"""The verbs of ``Node`` for messages and events (design section 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from speed.engine import Engine
from speed.errors import ConfigurationError, NodeClosedError
from speed.opening import Opening
from speed.runtime.message import is_large
from speed.runtime.options import ON_FULL, in_seconds
from speed.runtime.receiving import Receiving
from speed.wire.content import Content

if TYPE_CHECKING:
    from speed.message.options import PublishOptions
    from speed.protected import Protected
    from speed.runtime.batches import BatchHandler
    from speed.runtime.event_loop import EventLoop
    from speed.runtime.message import Message
    from speed.runtime.published import Published
    from speed.trust.security import MessageSecurity

Handler = Callable[["Message"], object]


class Messaging:
    """What a node sends and handles; plain messages go to the engine, others through ``Protected``."""

    _engine: Engine
    _loop: EventLoop
    name: str

    def _protect(self, namespace: str, security: MessageSecurity | None) -> None:
        """What is asked of messages; the code for it is imported when there is a use for it."""
        self._namespace = namespace
        self._security = security
        self._guarded: Protected | None = None
        if security is not None:
            self._guarded = self._make_protected()
        self._opening: Opening = self._guarded or Opening(self._engine)

    # --- sending ---

    def send(
        self,
        target: str,
        payload: Any,
        *,
        ack: bool = False,
        timeout: float = 5.0,
        options: PublishOptions | None = None,
        on_progress: Callable[[int, int], object] | None = None,
        unordered: bool = False,
        **metadata: Any,
    ) -> str:
        """Send one message; returns its message id.

        It is in the receiver's lane when this returns, as durable as the node's ``durability``. With ``ack`` it
        waits until its handler returned, or until it waits there for the program to take it: then the id's
        ``waiting`` is true. A crash of either side no longer loses it. ``timeout`` in seconds bounds the wait for
        room and acknowledgement. ``metadata`` is topic, priority, ttl_seconds, correlation_id, labels, … (M-n), or
        stands in ``options``, which also say how the message is encrypted, signed and described. Raises MessageError
        for keys, algorithms, schema and classification; then nothing was sent.

        ``payload`` may be an open binary file. What no envelope holds (64 MiB) goes in segments, in little memory; with
        each, ``timeout`` begins anew and ``on_progress(written, total)`` is called (bytes). SegmentsLostError, with
        ``ack``, if the receiver gave it up (G-18 to G-20). What is sent after it is handled after it, unless
        ``unordered``. It is neither signed nor encrypted: asked for, that
        is NotAvailableError (M-16).
        """
        protected = self._protected_for(options, payload)
        seconds = in_seconds(timeout)
        if protected is None:
            described = _merged(options, metadata)
            if is_large(payload):
                return self._engine.send_large(target, payload, ack, seconds, described, on_progress, unordered)
            return self._engine.send(target, payload, ack, seconds, described, unordered)
        message_id, data = protected.encode(payload, options, metadata)
        self._engine.forward(target, (data,), False, ack, seconds)
        return message_id

    def send_all(self, target: str, payloads: Iterable[Any], *, timeout: float = 5.0, **metadata: Any) -> None:
        """Send many messages in their order, up to 64 in one write and one ring.

        As ``send`` without ``ack``; one ``send`` behind them can ask for it, since they are handled in order. On
        an error the messages of the write that failed, and those after it, were not accepted, except those that
        a StorageError counts (L-5). A payload that cannot be encoded takes at most the 63 before it with it.
        """
        protected = self._protected_for(None, None)
        if protected is None:
            self._engine.send_all(target, payloads, in_seconds(timeout), metadata)
            return
        encoded = [protected.encode(payload, None, metadata)[1] for payload in payloads]
        self._engine.forward(target, encoded, False, False, in_seconds(timeout))

    def send_batch(self, target: str, payloads: Iterable[Any], **how: Any) -> str:
        """Send many payloads as one message, with one id, one acknowledgement and one handling (M-30).

        ``how`` is as of ``send``. The receiver finds them in ``message.payloads``.
        """
        from speed.message.batch import encode_batch

        return self.send(target, encode_batch(payloads), **how)

    def forward(
        self, target: str, messages: Sequence[bytes], *, event: bool = False, ack: bool = False, timeout: float = 5.0
    ) -> None:
        """Send encoded messages (M-1) in their order exactly as they are, with the ids they have; as events or not.

        As ``send_all``; with ``ack`` the last one is acknowledged as by ``send``, and so were those before it. They
        are not looked at here, but for tokens: TokenError for one, WireError for records that cannot be read and may
        hide one, and then none is sent. All else a receiver refuses.
        """
        self._opening.check_forwarded(messages)
        self._engine.forward(target, messages, event, ack, in_seconds(timeout))

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        timeout: float = 5.0,
        on_full: str = "wait",
        options: PublishOptions | None = None,
        **metadata: Any,
    ) -> Published:
        """Send an event to every node that subscribes to ``topic`` and allows this one; returns how many got it.

        The number knows their names (``delivered``) and why others did not get it (``failed``: name to code, those
        that do not allow this node included). Who has room gets it at once; ``timeout`` bounds the wait for all others
        together, and ``on_full="drop"`` does not wait for them. ``options`` and ``metadata`` are as of ``send``.
        """
        if on_full not in ON_FULL:
            raise ConfigurationError(f"on_full is {on_full!r}; use 'wait' or 'drop'")
        protected = self._protected_for(options, payload)
        seconds = in_seconds(timeout)
        if protected is None:
            return self._engine.publish(topic, payload, seconds, on_full, _merged(options, metadata))
        _, data = protected.encode(payload, options, {**metadata, "topic": topic})
        return protected.publish(topic, data, seconds, on_full)

    def publish_batch(self, topic: str, payloads: Iterable[Any], **how: Any) -> Published:
        """Publish many payloads as one event (M-30); ``how`` is as of ``publish``."""
        from speed.message.batch import encode_batch

        return self.publish(topic, encode_batch(payloads), **how)

    def segment(self, target: str, segment_size: int | None, *, parity_rate: float = 0.0) -> None:
        """Send all payloads to ``target`` in segments of ``segment_size`` bytes at most, as a bridge may need.

        With ``parity_rate`` what it loses is recovered (G-5); the size is then a multiple of 64. None ends it.
        """
        self._engine.cut(target, segment_size, parity_rate)

    # --- receiving ---

    def on_message(self, handler: Handler) -> Handler:
        """Handle messages on the workers, in order for each sender. One handler a node, which may be ``async``.

        Those that came before are handled first.
        """
        handle = self._loop.settled(handler)
        self._engine.on_message(self._opening.opening(handle))
        return handler

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, None after ``timeout`` seconds; finishes the one that this thread was given before."""
        return self._opening.receive(timeout)

    def _receiving(self) -> Receiving:
        """How ``node.aio`` fetches."""
        return Receiving(self.name, self._engine, self._opening.opened)

    def messages(self) -> Iterator[Message]:
        """Messages one after the other until the node is closed; each is finished when the next is asked for."""
        while True:
            try:
                message = self.receive()
            except NodeClosedError:
                return
            if message is not None:
                yield message

    def subscribe(self, pattern: str, type_or_handler: Any = None, handler: Handler | None = None) -> Any:
        """Handle events whose topic matches ``pattern`` (a topic, ``orders.*`` or ``*``); also a decorator.

        With a type, as in ``subscribe("orders.*", OrderCreated, handler)``, ``message.payload`` is one: a protobuf
        class, a dataclass, or a class with ``model_validate``. What is none is refused before the handler.
        Publishers must be allowed as for messages. The subscription is published before this returns.
        """
        kind = type_or_handler if isinstance(type_or_handler, type) else None
        chosen = handler if kind is not None or handler is not None else type_or_handler
        if chosen is None:
            return lambda function: self.subscribe(pattern, kind or function, function)
        handle = chosen
        if kind is not None:
            from speed.typed import typed

            handle = typed(kind, chosen)
        handle = self._loop.settled(handle)
        self._engine.subscribe(pattern, self._opening.opening(handle))
        return chosen

    def on_batch(self, handler: BatchHandler, topics: Iterable[str] = ()) -> BatchHandler:
        """Handle messages, and events of ``topics`` (patterns), many at a time, in order for each sender.

        They are acknowledged and finished when ``handler(messages)`` returned; it may return a mapping of places in
        the batch to errors, and those are refused. If it raises, the batch is handed over again after a moment; when
        the node is closed meanwhile, it waits for the next start. After a crash what was not finished comes again,
        with the same ``sequence``. With it, the node has no other handler.
        """
        handle = self._loop.settled(handler)
        self._engine.on_batch(tuple(topics), self._opening.opening_batches(handle))
        return handler

    # --- what is asked of messages ---

    def _protected_for(self, options: PublishOptions | None, payload: Any) -> Protected | None:
        """Who writes such a message; None if the engine itself can."""
        if type(payload) is Content or (options is not None and not options.is_plain):
            return self._guarded or self._make_protected()
        return self._guarded if self._guarded is not None and self._guarded.protects else None

    def _make_protected(self) -> Protected:
        from speed.protected import Protected

        return Protected(self._engine, self.name, self._namespace, self._security)


def _merged(options: PublishOptions | None, metadata: dict[str, Any]) -> dict[str, Any]:
    return metadata if options is None else {**options.metadata(), **metadata}
