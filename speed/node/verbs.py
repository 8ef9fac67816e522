"""The verbs of a node, which may block. An engine does the work, or ``Protected`` and ``Across``.

What makes a node of them, with ``aio`` and topics, is ``speed.node.node``; those two ask a node by these verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, overload

from speed.core.hints import each, function, in_seconds, is_type, number, several, text, texts
from speed.core.services import Service, ServiceOptions, as_service
from speed.engine import Engine
from speed.engine.event_loop import Awaited, EventLoop, Receiving, is_async
from speed.engine.interceptors import Intercepted, Interceptors, checked
from speed.engine.message import Published, publish_each
from speed.engine.options import ON_FULL, SendRequest
from speed.engine.streams import StreamService, is_streaming
from speed.engine.tracing import with_trace
from speed.errors import (
    ConfigurationError,
    NodeClosedError,
    ServiceNotFoundError,
    SpeedError,
)
from speed.node.calls import CallVerbs, InterceptorFunction
from speed.node.guard import Opening
from speed.wire import lazily
from speed.wire.entry import Entry
from speed.wire.names import is_family, is_one_here, local_grants
from speed.wire.value import Content, is_protobuf

if TYPE_CHECKING:
    from speed.engine.message import BatchHandler, Message
    from speed.message.options import PublishOptions
    from speed.message.security import MessageSecurity
    from speed.node.group import Family
    from speed.node.remote import Across, Protected

    Toward = Engine | Across | Family

Function = TypeVar("Function", bound=Callable[..., Any])
Handler = Callable[["Message"], object]
HandlerFunction = TypeVar("HandlerFunction", bound=Callable[..., object])


class Verbs(CallVerbs):
    """What a node does for its program."""

    name: str
    root: str
    engine: str
    """``native`` or ``python``: which one it runs on."""
    _engine: Engine
    _loop: EventLoop
    _opening: Opening
    _guarded: Protected | None
    _security: MessageSecurity | None
    _namespace: str
    _forked: bool
    _around_services: Interceptors = ()
    _has_services = False

    # --- access ---
    def allow(self, *patterns: str) -> None:
        """Let nodes write here: names, families ``"etl.*"``, or ``"etl.*@hosta"``; published before this returns."""
        self._engine.allow(local_grants(each("allow", patterns)))

    def ready(self) -> None:
        """Say that a node made with ``starting=True`` serves now: who waits for it goes on. Again does nothing."""
        self._engine.ready()

    def deny(self, *patterns: str) -> None:
        """Take grants back; envelopes not yet dispatched are discarded."""
        self._engine.deny(local_grants(each("deny", patterns)))

    def allowed(self) -> tuple[str, ...]:
        """The grants in force."""
        return self._engine.allowed()

    # --- services ---
    def register(
        self,
        name: str,
        service: Service | Callable[..., Any],
        allow: Iterable[str] | None = None,
        *,
        idempotent: bool = False,
        version: str = "",
        replace: bool = False,
    ) -> None:
        """Offer ``service``: an object with ``invoke(request)``, or a function whose parameters are checked.

        ``allow`` narrows who may call it. A request is begun once at most, even if its process is killed; with
        ``idempotent`` the caller's node sends one that was begun and not answered to the next process of this name,
        where it sees ``request.redelivered``. Either may be ``async``, or yield items for ``stream``; a parameter with
        the hint ``Iterator[T]`` or ``AsyncIterator[T]`` gets those of the caller. A parameter with the type hint
        ``memoryview`` gets a view of bytes, not a copy. Others read what it takes and gives (``describe``): from its
        signature, the first line of its docstring, and ``version``, its own. With ``replace`` one of this name makes
        room, as for a cell of a notebook that is run again; a call that comes just then finds no service. Raises
        ServiceExistsError, InvalidNameError, ConfigurationError.
        """
        if replace:
            with suppress(ServiceNotFoundError):
                self.unregister(name)
        made = as_service(name, service)
        if is_streaming(made):
            made = StreamService(name, made, self._loop)
        elif is_async(service):
            made = Awaited(made, self._loop)
        if self._around_services:
            made = Intercepted(made, self._around_services)
        self._has_services = True
        grants = None if allow is None else local_grants(texts("allow", allow))
        self._engine.register(name, made, grants, ServiceOptions(idempotent, text("version", version)))

    def service(
        self,
        name: str,
        allow: Iterable[str] | None = None,
        *,
        idempotent: bool = False,
        version: str = "",
        replace: bool = False,
    ) -> Callable[[Function], Function]:
        """Decorator form of ``register``."""

        def decorate(function: Function) -> Function:
            self.register(name, function, allow, idempotent=idempotent, version=version, replace=replace)
            return function

        return decorate

    def unregister(self, name: str) -> None:
        """Take a service back: what runs ends as it would. Raises ServiceNotFoundError, as calls do from now on."""
        self._engine.unregister(text("name", name))

    def intercept_services(self, interceptor: InterceptorFunction) -> InterceptorFunction:
        """Run ``interceptor`` around each service of this node; also a decorator.

        It is a generator function of a ``speed.Request``, and yields it, or one like it, once::

            @node.intercept_services
            def measure(request):
                began = monotonic()
                try:
                    yield request
                finally:
                    print(request.service, request.caller, monotonic() - began)

        What the service gives is what ``yield`` gives, and what it raises is raised there. An error that the
        interceptor raises takes the place of the outcome, and so does a value that it returns, unless that is None. One
        that returns or raises before it yields answers itself: the service is not invoked. The first one added is the
        outermost. It runs on a worker, where it may wait. Raises ConfigurationError for another function, and once a
        service is registered, which would be without.
        """
        if self._has_services:
            raise ConfigurationError("a service is registered already: add interceptors of services before")
        self._around_services = (*self._around_services, checked(interceptor))
        return interceptor

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
        key: str | None = None,
        **keywords: Any,
    ) -> str:
        """Send one message; returns its message id. Of a family one node gets it, as ``call`` chooses.

        It is in the receiver's lane when this returns, as durable as the node's ``durability``. With ``ack`` it
        waits until its handler returned, or until it waits there for the program to take it: then the id's
        ``waiting`` is true. A crash of either side no longer loses it. ``timeout`` in seconds bounds the wait for
        room and acknowledgement. ``options`` say what there is to say of the message (topic, priority,
        ttl_seconds, labels, …), and how it is encrypted, signed and described; given as ``keywords``, as until the
        next release, metadata brings a DeprecationWarning. Raises MessageError for keys, algorithms, schema and
        classification; then nothing was sent.

        ``payload`` may be an open binary file. What no envelope holds (64 MiB) goes in segments, in little memory; with
        each, ``timeout`` begins anew and ``on_progress(written, total)`` is called (bytes). SegmentsLostError, with
        ``ack``, if the receiver gave it up. What is sent after it is handled after it, unless ``unordered``. It is
        neither signed nor encrypted: asked for, that is NotAvailableError.
        """
        target, options = text("node", target), self._options(options, keywords)
        metadata, protected = self._described(options, payload)
        seconds = in_seconds(timeout)
        if protected is None:
            request = SendRequest(target, payload, ack, seconds, metadata, on_progress, unordered)
            toward = self._engine if key is None and is_one_here(target) else self._toward(target, key)
            return toward.send(request)
        message_id, data = protected.encode(payload, options, metadata)
        self._toward(target, key).forward(target, (data,), False, ack, seconds)
        return message_id

    def send_all(
        self,
        target: str,
        payloads: Iterable[Any],
        *,
        timeout: float = 5.0,
        options: PublishOptions | None = None,
        **keywords: Any,
    ) -> None:
        """Send many messages in their order, up to 64 in one write and one ring.

        As ``send`` without ``ack``, with ``options`` for each of them; one ``send`` behind them can ask for it, since
        they are handled in order. On an error the messages of the write that failed, and those after it, were not
        accepted, except those that a StorageError counts. A payload that cannot be encoded takes at most the 63 before
        it with it.
        """
        target, payloads = text("node", target), several("payloads", payloads)
        options = self._options(options, keywords)
        metadata, protected = self._described(options, None)
        if protected is None:
            self._toward(target).send_all(target, payloads, in_seconds(timeout), metadata)
            return
        encoded = [protected.encode(payload, options, metadata)[1] for payload in payloads]
        self._toward(target).forward(target, encoded, False, False, in_seconds(timeout))

    def send_batch(self, target: str, payloads: Iterable[Any], **how: Any) -> str:
        """Send many payloads as one message, with one id, one acknowledgement and one handling.

        ``how`` is as of ``send``. The receiver finds them in ``message.payloads``.
        """
        with lazily.guard:
            from speed.message.options import encode_batch

        return self.send(target, encode_batch(several("payloads", payloads)), **how)

    def forward(
        self, target: str, messages: Sequence[bytes], *, event: bool = False, ack: bool = False, timeout: float = 5.0
    ) -> None:
        """Send encoded messages in their order exactly as they are, with the ids they have; as events or not.

        As ``send_all``; with ``ack`` the last one is acknowledged as by ``send``, and so were those before it. They
        are not looked at here, but for tokens: TokenError for one, WireError for records that cannot be read and may
        hide one, and then none is sent. All else a receiver refuses.
        """
        self._opening.check_forwarded(several("messages", messages))
        self._toward(target).forward(text("node", target), messages, event, ack, in_seconds(timeout))

    def publish(
        self,
        topic: str,
        payload: Any,
        *,
        timeout: float = 5.0,
        on_full: str = "wait",
        options: PublishOptions | None = None,
        **keywords: Any,
    ) -> Published:
        """Send an event to every node that subscribes to ``topic`` and allows this one; returns how many got it.

        The number knows their names (``delivered``) and why others did not get it (``failed``: name to code, those
        that do not allow this node included). Who has room gets it at once; ``timeout`` bounds the wait for all others
        together, and ``on_full="drop"`` does not wait for them. ``options`` and ``keywords`` are as of ``send``.
        """
        if on_full not in ON_FULL:
            raise ConfigurationError(f"on_full is {on_full!r}; use 'wait' or 'drop'")
        options = self._options(options, keywords)
        metadata, protected = self._described(options, payload)
        seconds = in_seconds(timeout)
        if protected is None:
            return self._engine.publish(topic, payload, seconds, on_full, metadata)
        _, data = protected.encode(payload, options, {**metadata, "topic": topic})
        return protected.publish(topic, data, seconds, on_full)

    @overload
    def publish_batch(self, topic: str, payloads: Iterable[Any], **how: Any) -> Published: ...
    @overload
    def publish_batch(self, topic: Iterable[tuple[str, Any]], **how: Any) -> dict[str, Published]: ...
    def publish_batch(self, topic: Any, payloads: Any = None, **how: Any) -> Any:
        """Publish many payloads as one event; ``how`` is as of ``publish``.

        ``publish_batch([("orders.made", 1), ("orders.paid", 2)])`` publishes one event for each topic, and returns
        what became of each by its topic. ``timeout`` is for all of them. What cannot be encoded keeps all back.
        """
        with lazily.guard:
            from speed.message.options import encode_batch, encode_batches

        if payloads is not None:
            return self.publish(topic, encode_batch(several("payloads", payloads)), **how)
        return publish_each(self.publish, encode_batches(several("pairs", topic)), **how)

    def segment(self, target: str, segment_size: int | None, *, parity_rate: float = 0.0) -> None:
        """Send all payloads to ``target`` in segments of ``segment_size`` bytes at most, as a bridge may need.

        With ``parity_rate`` what it loses is recovered; segments then have the greatest multiple of 64 bytes in it.
        None ends it.
        """
        size = None if segment_size is None else number("segment_size", segment_size)
        self._toward(target).cut(text("node", target), size, number("parity_rate", parity_rate))

    # --- receiving ---
    def on_message(self, handler: Handler) -> Handler:
        """Handle messages on the workers, in order for each sender. One handler a node, which may be ``async``.

        Those that came before are handled first.
        """
        handle = self._loop.settled(function("the handler of messages", handler))
        self._engine.on_message(self._opening.opening(handle))
        return handler

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, None after ``timeout`` seconds; finishes the one that this thread was given before."""
        return self._opening.receive(None if timeout is None else in_seconds(timeout))

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

    @overload
    def subscribe(
        self, pattern: str, type_or_handler: Callable[[Message], object], *, shared: bool = ...
    ) -> Callable[[Message], object]: ...
    @overload
    def subscribe(
        self, pattern: str, type_or_handler: Any, handler: HandlerFunction, *, shared: bool = ...
    ) -> HandlerFunction: ...
    @overload
    def subscribe(
        self, pattern: str, type_or_handler: Any = None, *, shared: bool = ...
    ) -> Callable[[HandlerFunction], HandlerFunction]: ...
    def subscribe(self, pattern: str, type_or_handler: Any = None, handler: Any = None, *, shared: bool = False) -> Any:
        """Handle events whose topic matches ``pattern`` (a topic, ``orders.*`` or ``*``); also a decorator.

        With a type, as in ``subscribe("orders.*", OrderCreated, handler)``, ``message.payload`` is one: a protobuf
        class, a dataclass, a class with ``model_validate``, or a plain type such as ``list[int]``. What is none is
        refused before the handler; a type that cannot be checked is a ConfigurationError here. Of a batch each payload
        is a message, if all are such. Publishers must be allowed. The subscription is published before this returns.
        With ``shared`` each event goes to one node of this node's family (``pricing.1`` is of ``pricing.*``) that
        subscribes so, one after the other.
        """
        kind = type_or_handler
        if handler is None and kind is not None and not is_type(kind):
            kind, handler = None, function("the handler of events", kind)
        if handler is None:
            return lambda decorated: self.subscribe(pattern, kind, decorated, shared=shared)
        handle = function("the handler of events", handler)
        if kind is not None:
            with lazily.guard:
                from speed.node.guard import typed

            handle = typed(kind, handler)
        handle = self._loop.settled(handle)
        self._engine.subscribe(pattern, self._opening.opening(handle), bool(shared))
        return handler

    def on_batch(self, handler: BatchHandler, topics: Iterable[str] = (), *, shared: bool = False) -> BatchHandler:
        """Handle messages, and events of ``topics`` (patterns), many at a time, in order for each sender.

        They are acknowledged and finished when ``handler(messages)`` returned; it may return a mapping of places in
        the batch to errors, and those are refused. If it raises, the batch is handed over again after a moment; when
        the node is closed meanwhile, it waits for the next start. After a crash what was not finished comes again,
        with the same ``sequence``. With it, the node has no other handler. ``shared`` is as in ``subscribe``, of all
        ``topics``.
        """
        handle = self._loop.settled(function("the handler of batches", handler))
        batches = self._opening.opening_batches(handle)
        self._engine.on_batch(texts("topics", topics), batches, bool(shared))
        return handler

    # --- other nodes ---
    def nodes(self, fabric: str | None = None) -> list[Entry]:
        """Live nodes, sorted by name; with ``fabric`` only those that carry the label."""
        return [entry for entry in self._engine.nodes() if fabric is None or fabric in entry.fabrics]

    def wait_for(self, target: str, *, timeout: float = 10.0) -> Entry:
        """Wait until ``target``, or one of a family, is live and allows this node. UnknownNodeError if none comes."""
        target, seconds = text("node", target), in_seconds(timeout)
        return self._family(target).wait_for(seconds) if is_family(target) else self._engine.wait_for(target, seconds)

    def on_join(self, handler: Callable[[Entry], object]) -> Callable[[Entry], object]:
        """Call ``handler(entry)`` when another node joins."""
        self._engine.on_join(self._loop.settled(function("the handler", handler)))
        return handler

    def on_leave(self, handler: Callable[[Entry], object]) -> Callable[[Entry], object]:
        """Call ``handler(entry)`` when another node leaves, dies or is replaced."""
        self._engine.on_leave(self._loop.settled(function("the handler", handler)))
        return handler

    def on_lost(self, handler: Callable[[SpeedError], object]) -> Callable[[SpeedError], object]:
        """Call ``handler(error)`` when this node has lost its lease: every later operation raises that error."""
        self._engine.on_lost(self._loop.settled(function("the handler", handler)))
        return handler

    def remove_stale(self) -> list[str]:
        """Remove the entries of nodes that are gone, never their claims; returns their names."""
        return self._engine.remove_stale()

    # --- life ---
    @property
    def generation(self) -> int:
        """How often this name was claimed, this time included."""
        return self._engine.generation

    @property
    def closed(self) -> bool:
        """Whether the node can no longer be used (closed, or its lease is lost)."""
        return self._forked or self._engine.closed

    def _options(self, options: PublishOptions | None, keywords: dict[str, Any]) -> PublishOptions | None:
        if not keywords:
            return options
        with lazily.guard:
            from speed.message.options import with_keywords

        return with_keywords(options, keywords)

    def _described(self, options: PublishOptions | None, payload: Any) -> tuple[dict[str, Any], Protected | None]:
        """All metadata of a message, and who writes it; None if the engine itself can."""
        metadata = {} if options is None else options.metadata()
        fields = with_trace(metadata, None if options is None else options.trace_context)
        is_plain = type(payload) is not Content and (options is None or options.is_plain)
        if not is_plain or (self.engine == "native" and is_protobuf(payload)):  # the core knows no classes of Python
            return fields, self._guarded or self._make_protected()
        if self._guarded is not None and self._guarded.protects:
            return fields, self._guarded
        if "parent_span_id" not in fields:
            return fields, None
        with lazily.guard:
            from speed.engine.message import is_large  # imported by those who send only

        if not is_large(payload):
            return fields, self._guarded or self._make_protected()
        del fields["parent_span_id"]  # in segments, a message carries what every engine writes
        return fields, None

    def _make_protected(self) -> Protected:
        with lazily.guard:
            from speed.node.remote import Protected

        return Protected(self._engine, self.name, self._namespace, self._security)
