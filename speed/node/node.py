"""The public ``Node``: its verbs and their documentation. An engine does the work, or ``Protected`` and ``Across``."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

from speed.core.hints import by_name, each, function, is_type, number, several, text, texts
from speed.core.services import Service, as_service
from speed.engine import threads
from speed.engine.api import Engine, make_engine
from speed.engine.event_loop import Awaited, EventLoop, Receiving, is_async
from speed.engine.message import Published, publish_each
from speed.engine.options import ON_FULL, Options, in_seconds
from speed.engine.tracing import with_trace
from speed.errors import ConfigurationError, NodeClosedError, SpeedError
from speed.node.guard import Opening
from speed.wire.entry import Entry
from speed.wire.limits import HEARTBEAT_SECONDS, LANE_WINDOW_BYTES, LEASE_SECONDS
from speed.wire.names import local_grants
from speed.wire.text import checked_seconds
from speed.wire.value import Content, is_protobuf

if TYPE_CHECKING:
    from speed.aio import AsyncNode
    from speed.engine.message import BatchHandler, Message
    from speed.message.security import MessageSecurity, PublishOptions
    from speed.node.protection import Protected
    from speed.node.remote import Across
    from speed.node.topic import Topic
    from speed.segment import Limits


Function = TypeVar("Function", bound=Callable[..., Any])
Handler = Callable[["Message"], object]

DRAIN_SECONDS = 10.0  # how long ``close`` waits for work in flight


class Node:
    """One participant: found by others under its name, reached by those it allows.

    Used as ``with`` or ``async with`` it closes at the end; ``node.aio`` has the same verbs for asyncio.

    Args:
        name: unique among live nodes of ``root``; 1 to 128 characters.
        root: communication directory; default ``$SPEED_ROOT``, else a directory of this user.
        key: key file; default ``$SPEED_KEY``, else ``<root>/speed.key``.
        fabrics: labels for listing and filtering; they decide nothing.
        lease_seconds, heartbeat_seconds: a silent node is offline after the lease, of three heartbeats and more.
        workers: threads for services and handlers.
        durability: ``"process"`` survives a killed process, ``"disk"`` also a power cut (refused on tmpfs).
        allow: grants from the first moment. A node with services grants by ``allow()`` once it has them:
            ``wait_for`` then ends when they can be called.
        starting: others wait, within their timeouts, until the program has set up its services and says ``ready()``.
        namespace: written into the metadata of messages; those of others are not handed out here.
        accept_namespaces: further ones whose messages are; ``"*"`` for all.
        bell: ``"auto"`` rings where the filesystem can, ``"polling"`` never does.
        max_lane_bytes: what may wait in a receiver's lane before a sender waits.
        max_open_files: descriptors for lanes and links of others; default half of what there are, at most 8,192.
        spin_seconds: how long the native engine's reader polls after activity; default 200 µs, or 0 on a single core.
        segment_limits: what may be kept of payloads that come in segments (``speed.segment.Limits``).
        engine: ``"native"`` runs on the C++ core, which wheels bring; ``"python"`` needs nothing;
            ``"auto"`` is what ``$SPEED_ENGINE`` says, else native where it is built. ``node.engine`` tells.
        on_error: of a message whose handler raises: ``"dead-letter"`` keeps it aside for `speed dead`, ``"retry"``
            hands it over again after a pause, ``"drop"`` counts and logs it.
        max_deliveries: how often a message is begun at most, processes that died over it included.
        ephemeral: the name will not come back: once the node is gone, all that is left of it is removed.
        security: how messages are signed, encrypted and checked; without it none is.

    Raises: NameTakenError, KeyFileError, RootError, InvalidNameError, DurabilityError, ConfigurationError.

    All public methods are thread-safe. In a forked child they raise ForkedNodeError.
    """

    def __init__(
        self,
        name: str,
        root: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        *,
        fabrics: Iterable[str] = (),
        lease_seconds: float = LEASE_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        workers: int = 4,
        durability: str = "process",
        allow: Iterable[str] = (),
        namespace: str = "default",
        accept_namespaces: Iterable[str] = (),
        bell: str = "auto",
        max_lane_bytes: int = LANE_WINDOW_BYTES,
        max_open_files: int | None = None,
        spin_seconds: float | None = None,
        segment_limits: Limits | None = None,
        engine: str = "auto",
        security: MessageSecurity | None = None,
        on_error: str = "dead-letter",
        max_deliveries: int = 5,
        ephemeral: bool = False,
        starting: bool = False,
    ) -> None:
        self._forked = False
        self._closed = True  # until it runs
        self._lock = threading.RLock()  # a signal handler may close the node that this thread closes
        options = Options(
            name=name,
            root=root,
            key=key,
            fabrics=texts("fabrics", fabrics),
            lease_seconds=lease_seconds,
            heartbeat_seconds=heartbeat_seconds,
            workers=workers,
            durability=durability,
            allow=local_grants(texts("allow", allow)),
            namespace=namespace,
            accept_namespaces=texts("accept_namespaces", accept_namespaces),
            bell=bell,
            max_lane_bytes=max_lane_bytes,
            max_open_files=max_open_files,
            spin_seconds=spin_seconds,
            segment_limits=segment_limits,
            on_error=on_error,
            max_deliveries=max_deliveries,
            ephemeral=ephemeral,
            starting=starting,
        )
        if security is not None:
            from speed.message.security import check_security

            check_security(security)
        threads.prepare()
        self._loop = EventLoop(name)
        self._engine: Engine = make_engine(engine, options)
        self.name = name
        self._namespace = namespace
        self._security = security
        self._guarded: Protected | None = None if security is None else self._make_protected()
        self._opening: Opening = self._guarded or Opening(self._engine)
        self.root = self._engine.root
        self.engine = self._engine.kind
        threads.track(self)
        self._closed = False

    @classmethod
    def instance(cls, family: str, **options: Any) -> Node:
        """A node for one of several processes that run the same program: ``Node.instance("web")`` is ``web.3f2a91c0``.

        Each gets a name of its own, which does not come back (``ephemeral``); others grant and address the family,
        ``web.*``. For prefork servers, notebooks and pods: make it after a fork. ``options`` are those of ``Node``.
        """
        return cls(f"{text('family', family)}.{os.urandom(4).hex()}", ephemeral=True, **options)

    @cached_property
    def aio(self) -> AsyncNode:
        """The same verbs for asyncio: ``await node.aio.call(…)``."""
        from speed.aio import AsyncNode  # asyncio costs 10 ms to import; most nodes never await

        return AsyncNode(self)

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
    ) -> None:
        """Offer ``service``: an object with ``invoke(request)``, or a function whose parameters are checked.

        ``allow`` narrows who may call it. A request is begun once at most, even if its process is killed; with
        ``idempotent`` the caller's node sends one that was begun and not answered to the next process of this name,
        where it sees ``request.redelivered``. Either may be ``async``. A parameter with the type hint ``memoryview``
        gets a view of bytes, not a copy. Raises ServiceExistsError, InvalidNameError, ConfigurationError.
        """
        awaited = Awaited(as_service(name, service), self._loop) if is_async(service) else service
        self._engine.register(name, awaited, None if allow is None else local_grants(texts("allow", allow)), idempotent)

    def service(
        self, name: str, allow: Iterable[str] | None = None, *, idempotent: bool = False
    ) -> Callable[[Function], Function]:
        """Decorator form of ``register``."""

        def decorate(function: Function) -> Function:
            self.register(name, function, allow, idempotent=idempotent)
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
    ) -> Any:
        """Call a service of another node, here or of another host (``billing@hostb``), and return its result.

        ``timeout`` in seconds (default 30) is the deadline on both sides. With ``views`` bytes in the result are
        read-only memoryviews of memory that lives as long as they do. Raises UnknownNodeError, AccessDeniedError,
        NodeLeftError, InboxFullError, or the CallError the other side reported.
        """
        target, service = text("node", target), text("service", service)
        named, seconds = by_name(arguments), in_seconds(timeout)
        try:
            return self._toward(target).call(target, service, named, seconds, traceparent, views)
        except SpeedError as error:
            error.node, error.service = target, service
            raise

    def submit(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
    ) -> Future[Any]:
        """Start a call; its Future ends with the result or the error of ``call``. Calls start in order.

        ``cancel()`` withdraws the call. It is True only if nothing was written; else the Future ends with what the
        other side says: CallWithdrawnError, or a result that came first. Callbacks of the Future may call and wait: a
        worker of this node runs them.
        """
        target, service = text("node", target), text("service", service)
        named, seconds = by_name(arguments), in_seconds(timeout)
        try:
            return self._toward(target).submit(target, service, named, seconds, traceparent, views)
        except SpeedError as error:
            error.node, error.service = target, service
            raise

    def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Round trip to a live node in seconds, by HEARTBEAT. Raises as ``call`` does."""
        return self._toward(target).ping(text("node", target), in_seconds(timeout))

    def services(self, target: str, *, timeout: float = 5.0) -> list[str]:
        """Names of the services of ``target`` that this node may call, by DISCOVERY."""
        return list(self._toward(target).discover(text("node", target), "SERVICES", in_seconds(timeout))["services"])

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
        **metadata: Any,
    ) -> str:
        """Send one message; returns its message id.

        It is in the receiver's lane when this returns, as durable as the node's ``durability``. With ``ack`` it
        waits until its handler returned, or until it waits there for the program to take it: then the id's
        ``waiting`` is true. A crash of either side no longer loses it. ``timeout`` in seconds bounds the wait for
        room and acknowledgement. ``metadata`` is topic, priority, ttl_seconds, correlation_id, labels, …, or
        stands in ``options``, which also say how the message is encrypted, signed and described. Raises MessageError
        for keys, algorithms, schema and classification; then nothing was sent.

        ``payload`` may be an open binary file. What no envelope holds (64 MiB) goes in segments, in little memory; with
        each, ``timeout`` begins anew and ``on_progress(written, total)`` is called (bytes). SegmentsLostError, with
        ``ack``, if the receiver gave it up. What is sent after it is handled after it, unless ``unordered``. It is
        neither signed nor encrypted: asked for, that is NotAvailableError.
        """
        target = text("node", target)
        metadata, protected = self._described(options, payload, metadata)
        seconds = in_seconds(timeout)
        if protected is None:
            return self._toward(target).send(target, payload, ack, seconds, metadata, on_progress, unordered)
        message_id, data = protected.encode(payload, options, metadata)
        self._toward(target).forward(target, (data,), False, ack, seconds)
        return message_id

    def send_all(self, target: str, payloads: Iterable[Any], *, timeout: float = 5.0, **metadata: Any) -> None:
        """Send many messages in their order, up to 64 in one write and one ring.

        As ``send`` without ``ack``; one ``send`` behind them can ask for it, since they are handled in order. On
        an error the messages of the write that failed, and those after it, were not accepted, except those that
        a StorageError counts. A payload that cannot be encoded takes at most the 63 before it with it.
        """
        target, payloads = text("node", target), several("payloads", payloads)
        metadata, protected = self._described(None, None, metadata)
        if protected is None:
            self._toward(target).send_all(target, payloads, in_seconds(timeout), metadata)
            return
        encoded = [protected.encode(payload, None, metadata)[1] for payload in payloads]
        self._toward(target).forward(target, encoded, False, False, in_seconds(timeout))

    def send_batch(self, target: str, payloads: Iterable[Any], **how: Any) -> str:
        """Send many payloads as one message, with one id, one acknowledgement and one handling.

        ``how`` is as of ``send``. The receiver finds them in ``message.payloads``.
        """
        from speed.message.compression import encode_batch

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
        **metadata: Any,
    ) -> Published:
        """Send an event to every node that subscribes to ``topic`` and allows this one; returns how many got it.

        The number knows their names (``delivered``) and why others did not get it (``failed``: name to code, those
        that do not allow this node included). Who has room gets it at once; ``timeout`` bounds the wait for all others
        together, and ``on_full="drop"`` does not wait for them. ``options`` and ``metadata`` are as of ``send``.
        """
        if on_full not in ON_FULL:
            raise ConfigurationError(f"on_full is {on_full!r}; use 'wait' or 'drop'")
        metadata, protected = self._described(options, payload, metadata)
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
        from speed.message.compression import encode_batch, encode_batches

        if payloads is not None:
            return self.publish(topic, encode_batch(several("payloads", payloads)), **how)
        return publish_each(self.publish, encode_batches(several("pairs", topic)), **how)

    def segment(self, target: str, segment_size: int | None, *, parity_rate: float = 0.0) -> None:
        """Send all payloads to ``target`` in segments of ``segment_size`` bytes at most, as a bridge may need.

        With ``parity_rate`` what it loses is recovered; the size is then a multiple of 64. None ends it.
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

    def subscribe(self, pattern: str, type_or_handler: Any = None, handler: Handler | None = None) -> Any:
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

    # --- topics ---
    def topic(self, name: str, *, host: str = "speedd.topics") -> Topic:
        """A durable topic, whose messages are kept for subscriptions; nothing is asked of its host yet.

        ``host`` is the node of the speedd that has ``[topics]``: its name and ``.topics``.
        """
        from speed.node.topic import Topic

        return Topic(self, text("topic", name), text("host", host))

    # --- other nodes ---
    def nodes(self, fabric: str | None = None) -> list[Entry]:
        """Live nodes, sorted by name; with ``fabric`` only those that carry the label."""
        return [entry for entry in self._engine.nodes() if fabric is None or fabric in entry.fabrics]

    def wait_for(self, target: str, *, timeout: float = 10.0) -> Entry:
        """Wait until ``target`` is live and allows this node. Raises UnknownNodeError after ``timeout`` seconds."""
        return self._engine.wait_for(text("node", target), in_seconds(timeout))

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

    def close(self, *, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Leave: finish the work in hand, remove the entry, tell others. Again, or in a fork: nothing.

        From a service, handler or callback it waits for nothing: a message counts as handled, no request is answered.
        """
        checked_seconds("drain_seconds", drain_seconds)
        with self._lock:
            if self._closed or self._forked:
                return
            self._closed = True
        if (aio := self.__dict__.get("aio")) is not None:
            aio._finish_in_hand()
        try:
            self._engine.close(0.0 if self._loop.is_here else drain_seconds)
        finally:  # also if a signal interrupted it
            if self._guarded is not None:
                self._guarded.end()
            if (aio := self.__dict__.get("aio")) is not None:
                aio._stop()
            self._loop.stop()

    def __del__(self) -> None:
        if not self.__dict__.get("_closed", True) and not self._forked and not sys.is_finalizing():
            warnings.warn(f"{self!r} was dropped and runs on: close it", ResourceWarning, source=self, stacklevel=2)

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Node:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aio.close()

    def _after_fork_in_child(self) -> None:
        self._forked = True
        self._lock = threading.RLock()
        self._engine.abandon()
        if (aio := self.__dict__.get("aio")) is not None:
            aio._begin()

    def __reduce__(self) -> Any:
        raise TypeError("a Node is never pickled: send its name, and make a Node where it is needed")

    def __repr__(self) -> str:
        state = "forked" if self._forked else "closed" if self.closed else "open"
        return f"<speed.Node {self.name!r} generation={self.generation} {self.engine} {state}>"

    def _described(
        self, options: PublishOptions | None, payload: Any, metadata: dict[str, Any]
    ) -> tuple[dict[str, Any], Protected | None]:
        """All metadata of a message, and who writes it; None if the engine itself can."""
        asked = {} if options is None else options.metadata()
        told = with_trace({**asked, **metadata}, None if options is None else options.trace_context)
        is_plain = type(payload) is not Content and (options is None or options.is_plain)
        if not is_plain or (self.engine == "native" and is_protobuf(payload)):  # the core knows no classes of Python
            return told, self._guarded or self._make_protected()
        if self._guarded is not None and self._guarded.protects:
            return told, self._guarded
        if "parent_span_id" not in told:
            return told, None
        from speed.engine.message import is_large  # imported by those who send only

        if not is_large(payload):
            return told, self._guarded or self._make_protected()
        del told["parent_span_id"]  # in segments, a message carries what every engine writes
        return told, None

    def _toward(self, target: Any) -> Engine | Across:
        if not isinstance(target, str) or "@" not in target:
            return self._engine
        from speed.node.remote import Across  # few nodes have to do with other hosts

        return Across(self._engine, lambda: self._guarded or self._make_protected())

    def _make_protected(self) -> Protected:
        from speed.node.protection import Protected

        return Protected(self._engine, self.name, self._namespace, self._security)
