"""The verbs of a node, which may block. An engine does the work, or ``Protected`` and ``Across``.

What makes a node of them, with ``aio`` and topics, is ``speed.node.node``; those two ask a node by these verbs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from speed.core.access import granted
from speed.core.hints import by_name, checked_seconds, each, function, in_seconds, is_type, number, several, text, texts
from speed.core.services import Service, ServiceOptions, as_declared, as_service, result_reader
from speed.core.signatures import Description, described
from speed.engine import Engine
from speed.engine.event_loop import Awaited, EventLoop, Receiving, is_async
from speed.engine.message import Published, publish_each
from speed.engine.options import ON_FULL, Attempts, CallRequest, Retry, RetryBudget, SendRequest
from speed.engine.streams import StreamService, is_streaming
from speed.engine.tracing import with_trace
from speed.engine.workers import place_given_up
from speed.errors import (
    AccessDeniedError,
    ConfigurationError,
    NodeClosedError,
    ServiceNotFoundError,
    SpeedError,
    UnknownNodeError,
)
from speed.node.guard import Opening
from speed.node.streaming import StreamVerbs
from speed.wire import lazily
from speed.wire.entry import Entry
from speed.wire.names import is_family, local_grants
from speed.wire.value import Content, is_protobuf

if TYPE_CHECKING:
    from speed.engine.message import BatchHandler, Message
    from speed.message.options import PublishOptions
    from speed.message.security import MessageSecurity
    from speed.node.group import Families, Family
    from speed.node.remote import Across, Protected
    from speed.wire.spc import Progress

    Toward = Engine | Across | Family

Function = TypeVar("Function", bound=Callable[..., Any])
Handler = Callable[["Message"], object]
HandlerFunction = TypeVar("HandlerFunction", bound=Callable[..., object])


def _tell_callee(error: SpeedError, target: str, service: str) -> None:
    """Have the error of a call name whom it was made to: of a family the member, where there was one."""
    if error.node is None or not is_family(target):
        error.node = target
    error.service = service


class Verbs(StreamVerbs):
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
    _budgets: dict[str, RetryBudget]
    """Of what is tried again, by target."""
    _families: Families | None

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

    # --- calls ---
    def call(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
        returns: Any = None,
        retry: Retry | None = None,
        key: str | None = None,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> Any:
        """Call a service of another node, here or of another host (``billing@hostb``), and return its result.

        Of a family, ``pricing.*``, one node is called: with the fewest calls of this node under way, of equals one
        after the other; with a ``key`` the same one for the same key. Another one is, where it did not begin the call.
        ``timeout`` in seconds (default 30) is the deadline on both sides. With ``views`` bytes in the result are
        read-only memoryviews of memory that lives as long as they do. With ``returns``, a type as services declare
        them, the result is one: ``returns=Receipt``, ``list[Decimal]``. With ``retry`` it is tried again while
        ``timeout`` lasts. ``on_progress(progress)`` hears, on this thread, how far the service says it is
        (``request.progress``). Raises UnknownNodeError, AccessDeniedError,
        NodeLeftError, InboxFullError, WireError for a result that is no such value, or the CallError the other side
        reported.
        """
        target, service = text("node", target), text("service", service)
        read = None if returns is None else result_reader(returns)
        request = CallRequest(target, service, by_name(arguments), in_seconds(timeout), traceparent, views, read)
        toward = self._toward(target, key)
        try:
            if on_progress is not None:
                return self._call_with_progress(on_progress, request, retry)
            return toward.call(request) if retry is None else self._repeated(toward, request, retry)
        except SpeedError as error:
            _tell_callee(error, target, service)
            declared = as_declared(error)
            if declared is error:
                raise
            raise declared from None

    def _repeated(self, toward: Toward, request: CallRequest, retry: Retry) -> Any:
        attempts = self._attempts(request.target, request.timeout, retry)
        call: Callable[[CallRequest], Any] = toward.call
        if retry.hedge_seconds is not None:
            call = partial(cast("Family", toward).hedged, seconds=retry.hedge_seconds, may_hedge=attempts.may_hedge)
        while True:
            try:
                result = call(request._replace(timeout=attempts.left))
            except SpeedError as error:
                with place_given_up():
                    time.sleep(attempts.pause(error))
            else:
                attempts.succeeded()
                return result

    def _attempts(self, target: str, timeout: float, retry: Any) -> Attempts:
        if not isinstance(retry, Retry):
            raise ConfigurationError(f"retry must be a speed.Retry, not {type(retry).__name__}")
        if retry.hedge_seconds is not None and not is_family(target):
            raise ConfigurationError("hedge_seconds asks another node of a family: call one, such as 'pricing.*'")
        return Attempts(retry, timeout, self._budgets.setdefault(target, RetryBudget()))

    def submit(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
        returns: Any = None,
        key: str | None = None,
    ) -> Future[Any]:
        """Start a call; its Future ends with the result or the error of ``call``. Calls start in order.

        ``cancel()`` withdraws the call. It is True only if nothing was written; else the Future ends with what the
        other side says: CallWithdrawnError, or a result that came first. Callbacks of the Future may call and wait: a
        worker of this node runs them.
        """
        target, service = text("node", target), text("service", service)
        read = None if returns is None else result_reader(returns)
        request = CallRequest(target, service, by_name(arguments), in_seconds(timeout), traceparent, views, read)
        try:
            return self._toward(target, key).submit(request)
        except SpeedError as error:
            _tell_callee(error, target, service)
            raise

    def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Round trip to a live node in seconds, by HEARTBEAT. Raises as ``call`` does."""
        return self._toward(target).ping(text("node", target), in_seconds(timeout))

    def services(self, target: str, *, timeout: float = 5.0) -> list[str]:
        """Names of the services of ``target`` that this node may call, by DISCOVERY."""
        return list(self._toward(target).discover(text("node", target), "SERVICES", in_seconds(timeout))["services"])

    def describe(self, target: str, service: str | None = None, *, timeout: float = 5.0) -> list[Description]:
        """What the services of ``target`` take and give that this node may call, or ``service`` alone, by DISCOVERY.

        Raises ServiceNotFoundError for a service that is not there, InvalidArgumentsError if ``target`` is of a version
        that does not describe.
        """
        answer = self._toward(target).discover(text("node", target), "DESCRIBE", in_seconds(timeout))
        return described(target, answer["services"], None if service is None else text("service", service))

    def info(self, target: str, *, timeout: float = 5.0) -> dict[str, Any]:
        """What ``target`` says about itself: language, version, pid, fabrics, services."""
        return self._toward(target).discover(text("node", target), "INFO", in_seconds(timeout))

    def stats(self, target: str | None = None, *, timeout: float = 5.0) -> dict[str, Any]:
        """Counters of ``target``, or of this node without one."""
        if target is None:
            return self._engine.stats()
        return self._toward(target).discover(text("node", target), "STATS", in_seconds(timeout))

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
            return self._toward(target, key).send(request)
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
    def subscribe(self, pattern: str, type_or_handler: Callable[[Message], object]) -> Callable[[Message], object]: ...
    @overload
    def subscribe(self, pattern: str, type_or_handler: Any, handler: HandlerFunction) -> HandlerFunction: ...
    @overload
    def subscribe(self, pattern: str, type_or_handler: Any = None) -> Callable[[HandlerFunction], HandlerFunction]: ...
    def subscribe(self, pattern: str, type_or_handler: Any = None, handler: Any = None) -> Any:
        """Handle events whose topic matches ``pattern`` (a topic, ``orders.*`` or ``*``); also a decorator.

        With a type, as in ``subscribe("orders.*", OrderCreated, handler)``, ``message.payload`` is one: a protobuf
        class, a dataclass, a class with ``model_validate``, or a plain type such as ``list[int]``. What is none is
        refused before the handler; a type that cannot be checked is a ConfigurationError here. Of a batch each payload
        is a message, if all are such. Publishers must be allowed. The subscription is published before this returns.
        """
        kind = type_or_handler
        if handler is None and kind is not None and not is_type(kind):
            kind, handler = None, function("the handler of events", kind)
        if handler is None:
            return lambda decorated: self.subscribe(pattern, kind, decorated)
        handle = function("the handler of events", handler)
        if kind is not None:
            with lazily.guard:
                from speed.node.guard import typed

            handle = typed(kind, handler)
        handle = self._loop.settled(handle)
        self._engine.subscribe(pattern, self._opening.opening(handle))
        return handler

    def on_batch(self, handler: BatchHandler, topics: Iterable[str] = ()) -> BatchHandler:
        """Handle messages, and events of ``topics`` (patterns), many at a time, in order for each sender.

        They are acknowledged and finished when ``handler(messages)`` returned; it may return a mapping of places in
        the batch to errors, and those are refused. If it raises, the batch is handed over again after a moment; when
        the node is closed meanwhile, it waits for the next start. After a crash what was not finished comes again,
        with the same ``sequence``. With it, the node has no other handler.
        """
        handle = self._loop.settled(function("the handler of batches", handler))
        self._engine.on_batch(texts("topics", topics), self._opening.opening_batches(handle))
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

    def _toward(self, target: Any, key: str | None = None) -> Toward:
        if is_family(target):
            return self._family(target, key)
        if key is not None:
            raise ConfigurationError("key chooses among the nodes of a family: name one, such as 'pricing.*'")
        if not isinstance(target, str) or "@" not in target:
            return self._engine
        with lazily.guard:
            from speed.node.remote import Across  # few nodes have to do with other hosts

        return Across(self._engine, lambda: self._guarded or self._make_protected())

    def _family(self, target: str, key: str | None = None) -> Family:
        with lazily.guard:
            from speed.node.group import Families, Family  # few nodes call families

        if self._families is None:
            self._families = Families(self._engine, self.name)
        return Family(self._families, target, key)

    def _make_protected(self) -> Protected:
        with lazily.guard:
            from speed.node.remote import Protected

        return Protected(self._engine, self.name, self._namespace, self._security)


STARTING_SECONDS = 5.0
"""How long at most a node that allows nobody yet is asked again."""


def call_when_allowed(node: Verbs, target: str, service: str, arguments: dict[str, Any], timeout: float) -> Any:
    """The answer of a node that may just have started: while it allows nobody, it is asked again."""
    ends = time.monotonic() + min(checked_seconds("timeout", timeout), STARTING_SECONDS)
    while True:
        try:
            return node.call(target, service, arguments, timeout=timeout)
        except AccessDeniedError as error:
            outwait(node, target, ends, error)


def outwait(node: Verbs, target: str, ends: float, error: AccessDeniedError) -> None:
    """Until ``target`` allows this node; raises ``error`` if it goes on so: then it never did, or does no more."""
    left = ends - time.monotonic()
    if left <= 0 or _allows_others(node, target):
        raise error
    try:
        node.wait_for(target, timeout=left)
    except UnknownNodeError:
        raise error from None


def _allows_others(node: Verbs, target: str) -> bool:
    """Whether it says whom it allows, and this node is not among them: to wait would change nothing."""
    entry = next((one for one in node.nodes() if one.name == target), None)
    return entry is not None and bool(entry.allow) and not granted(entry, node.name)
