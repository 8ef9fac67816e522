"""The public ``Node`` (design section 9): its verbs and their documentation. An engine does the work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from speed.core.services import Service
from speed.engine import Engine, make_engine
from speed.errors import NodeClosedError
from speed.runtime import fork
from speed.runtime.message import is_large
from speed.runtime.options import Options, seconds
from speed.wire.entry import Entry
from speed.wire.limits import HEARTBEAT_SECONDS, LANE_WINDOW_BYTES, LEASE_SECONDS

if TYPE_CHECKING:
    from speed.aio import AsyncNode
    from speed.runtime.batches import BatchHandler
    from speed.runtime.message import Message
    from speed.segment import Limits

Function = TypeVar("Function", bound=Callable[..., Any])
Handler = Callable[["Message"], object]

DRAIN_SECONDS = 10.0  # how long ``close`` waits for work in flight


class Node:
    """One participant: found by others under its name, reached by those it allows.

    Args:
        name: unique among live nodes of ``root``; 1 to 128 characters (W-1).
        root: communication directory; default ``$SPEED_ROOT``, else a directory of this user.
        key: key file; default ``$SPEED_KEY``, else ``<root>/speed.key``.
        fabrics: labels for listing and filtering; they decide nothing.
        lease_seconds, heartbeat_seconds: a silent node is offline after the lease, of three heartbeats and more.
        workers: threads for services and handlers.
        durability: ``"process"`` survives a killed process, ``"disk"`` also a power cut (refused on tmpfs).
        allow: grants from the first moment. A node with services grants by ``allow()`` once it has them:
            ``wait_for`` then ends when they can be called.
        namespace: written into the metadata of messages.
        bell: ``"auto"`` rings where the filesystem can, ``"polling"`` never does (L-22).
        max_lane_bytes: what may wait in a receiver's lane before a sender waits (L-6).
        spin_seconds: how long a reader polls after activity before it sleeps. Default 200 µs, or 0 on a single core.
        segment_limits: what may be kept of payloads that come in segments (``speed.segment.Limits``, G-15).
        engine: ``"native"`` runs on the C++ core (built by ``scripts/native``), ``"python"`` needs nothing;
            ``"auto"`` is what ``$SPEED_ENGINE`` says, else native where it is built. ``node.engine`` tells.

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
        bell: str = "auto",
        max_lane_bytes: int = LANE_WINDOW_BYTES,
        spin_seconds: float | None = None,
        segment_limits: Limits | None = None,
        engine: str = "auto",
    ) -> None:
        self._forked = False
        self._closed = False
        self._lock = threading.Lock()
        options = Options(
            name=name,
            root=root,
            key=key,
            fabrics=tuple(fabrics),
            lease_seconds=lease_seconds,
            heartbeat_seconds=heartbeat_seconds,
            workers=workers,
            durability=durability,
            allow=tuple(allow),
            namespace=namespace,
            bell=bell,
            max_lane_bytes=max_lane_bytes,
            spin_seconds=spin_seconds,
            segment_limits=segment_limits,
        )
        self._engine: Engine = make_engine(engine, options)
        self.name = name
        self.root = self._engine.root
        self.engine = self._engine.kind
        fork.track(self)

    @cached_property
    def aio(self) -> AsyncNode:
        """The same verbs for asyncio: ``await node.aio.call(…)``."""
        from speed.aio import AsyncNode  # asyncio costs 10 ms to import; most nodes never await

        return AsyncNode(self)

    # --- access ---
    def allow(self, *patterns: str) -> None:
        """Let nodes write here: names, or families such as ``"etl.*"``; published before this returns (A-2)."""
        self._engine.allow(patterns)

    def deny(self, *patterns: str) -> None:
        """Take grants back; envelopes not yet dispatched are discarded (A-4)."""
        self._engine.deny(patterns)

    def allowed(self) -> tuple[str, ...]:
        """The grants in force."""
        return self._engine.allowed()

    # --- services ---
    def register(self, name: str, service: Service | Callable[..., Any], allow: Iterable[str] | None = None) -> None:
        """Offer ``service``: an object with ``invoke(request)``, or a function whose parameters are checked.

        ``allow`` narrows who may call it. Raises ServiceExistsError, InvalidNameError, ConfigurationError.
        """
        self._engine.register(name, service, allow)

    def service(self, name: str, allow: Iterable[str] | None = None) -> Callable[[Function], Function]:
        """Decorator form of ``register``."""

        def decorate(function: Function) -> Function:
            self.register(name, function, allow)
            return function

        return decorate

    # --- calls ---
    def call(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> Any:
        """Call a service of another node and return its result (RFC 7).

        ``timeout`` in seconds (default 30) is the deadline on both sides. Raises UnknownNodeError,
        AccessDeniedError, NodeLeftError, InboxFullError, or the CallError the other side reported.
        """
        return self._engine.call(target, service, arguments or {}, seconds(timeout), traceparent)

    def submit(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
    ) -> Future[Any]:
        """Start a call; its Future ends with the result or the error of ``call``. Calls start in order.

        A small request behind more than 8 unanswered ones to the same node leaves together with others, with
        the next answer or when a result is waited for, at the latest after two milliseconds; an error of its
        writing then ends its Future. Never with ``durability="disk"``.
        """
        return self._engine.submit(target, service, arguments or {}, seconds(timeout), traceparent)

    def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Round trip to a live node in seconds, by HEARTBEAT. Raises as ``call`` does."""
        return self._engine.ping(target, seconds(timeout))

    def services(self, target: str, *, timeout: float = 5.0) -> list[str]:
        """Names of the services of ``target`` that this node may call, by DISCOVERY."""
        return list(self._engine.discover(target, "SERVICES", seconds(timeout))["services"])

    def info(self, target: str, *, timeout: float = 5.0) -> dict[str, Any]:
        """What ``target`` says about itself: language, version, pid, fabrics, services."""
        return self._engine.discover(target, "INFO", seconds(timeout))

    def stats(self, target: str | None = None, *, timeout: float = 5.0) -> dict[str, Any]:
        """Counters of ``target``, or of this node without one."""
        if target is None:
            return self._engine.stats()
        return self._engine.discover(target, "STATS", seconds(timeout))

    # --- messages and events ---
    def send(
        self,
        target: str,
        payload: Any,
        *,
        ack: bool = False,
        timeout: float = 5.0,
        on_progress: Callable[[int, int], object] | None = None,
        **options: Any,
    ) -> str:
        """Send one message; returns its message id.

        It is in the receiver's lane when this returns, as durable as the node's ``durability``. With ``ack`` it waits
        until the receiver's handler returned, or it waits for ``receive`` (and no crash loses it any more). ``timeout``
        in seconds bounds the wait for room and acknowledgement. ``options`` are metadata: topic, priority, … (M-n).

        ``payload`` may be an open binary file. What no envelope holds (64 MiB) goes in segments, in little memory; with
        each, ``timeout`` begins anew and ``on_progress(written, total)`` is called (bytes). SegmentsLostError, with
        ``ack``, if the receiver gave it up (G-18 to G-20).
        """
        if is_large(payload):
            return self._engine.send_large(target, payload, ack, seconds(timeout), options, on_progress)
        return self._engine.send(target, payload, ack, seconds(timeout), options)

    def send_all(self, target: str, payloads: Iterable[Any], *, timeout: float = 5.0, **options: Any) -> None:
        """Send many messages in their order, up to 64 in one write and one ring.

        As ``send`` without ``ack``; one ``send`` behind them can ask for it, since they are handled in order. On an
        error the messages of the failed write and those after it were not accepted, but for what a StorageError
        counts (L-5). A payload that cannot be encoded takes at most the 63 before it with it.
        """
        self._engine.send_all(target, payloads, seconds(timeout), options)

    def forward(
        self, target: str, messages: Sequence[bytes], *, event: bool = False, ack: bool = False, timeout: float = 5.0
    ) -> None:
        """Send encoded messages (M-1) in their order exactly as they are, with the ids they have; as events or not.

        As ``send_all``; with ``ack`` the last one is acknowledged as by ``send``, and so were those before it. They
        are not looked at here: a receiver refuses what is no message.
        """
        self._engine.forward(target, messages, event, ack, seconds(timeout))

    def segment(self, target: str, segment_size: int | None, *, parity_rate: float = 0.0) -> None:
        """Send all payloads to ``target`` in segments of ``segment_size`` bytes at most, as a bridge may need.

        With ``parity_rate`` what it loses is recovered (G-5); the size is then a multiple of 64. None ends it.
        """
        self._engine.cut(target, segment_size, parity_rate)

    def on_message(self, handler: Handler) -> Handler:
        """Handle messages on the workers, in order for each sender. One handler a node."""
        self._engine.on_message(handler)
        return handler

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message, None after ``timeout`` seconds; finishes the one returned before."""
        return self._engine.receive(timeout)

    def messages(self) -> Iterator[Message]:
        """Messages one after the other until the node is closed; each is finished when the next is asked for."""
        while True:
            try:
                message = self.receive()
            except NodeClosedError:
                return
            if message is not None:
                yield message

    def publish(self, topic: str, payload: Any, *, timeout: float = 5.0, **options: Any) -> int:
        """Send an event to every node that subscribes to ``topic`` and allows this one; returns how many got it.

        A node that cannot take it now is counted (``events_undelivered``) and does not stop the others.
        """
        return self._engine.publish(topic, payload, seconds(timeout), options)

    def subscribe(self, pattern: str, handler: Handler | None = None) -> Any:
        """Handle events whose topic matches ``pattern`` (a topic, ``orders.*`` or ``*``); also a decorator.

        Publishers must be allowed as for messages. It is published before this returns.
        """
        if handler is None:
            return lambda function: (self.subscribe(pattern, function), function)[1]
        self._engine.subscribe(pattern, handler)
        return handler

    def on_batch(self, handler: BatchHandler, topics: Iterable[str] = ()) -> BatchHandler:
        """Handle messages, and events of ``topics`` (patterns), many at a time, in order for each sender.

        They are acknowledged and finished when ``handler(messages)`` returned; it may return a mapping of places in
        the batch to errors, and those are refused. If it raises, the batch is handed over again after a moment; when
        the node is closed meanwhile, it waits for the next start. After a crash what was not finished comes again,
        with the same ``sequence``. With it, the node has no other handler.
        """
        self._engine.on_batch(tuple(topics), handler)
        return handler

    # --- other nodes ---
    def nodes(self, fabric: str | None = None) -> list[Entry]:
        """Live nodes, sorted by name; with ``fabric`` only those that carry the label."""
        return [entry for entry in self._engine.nodes() if fabric is None or fabric in entry.fabrics]

    def wait_for(self, target: str, *, timeout: float = 10.0) -> Entry:
        """Wait until ``target`` is live and allows this node. Raises UnknownNodeError after ``timeout`` seconds."""
        return self._engine.wait_for(target, seconds(timeout))

    def on_join(self, handler: Callable[[Entry], object]) -> Callable[[Entry], object]:
        """Call ``handler(entry)`` when another node joins."""
        self._engine.on_join(handler)
        return handler

    def on_leave(self, handler: Callable[[Entry], object]) -> Callable[[Entry], object]:
        """Call ``handler(entry)`` when another node leaves, dies or is replaced."""
        self._engine.on_leave(handler)
        return handler

    def remove_stale(self) -> list[str]:
        """Remove the entries of nodes that are gone, never their claims (R-13); returns their names."""
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
        """Leave in the order of RFC 6.4.6: finish, remove the entry, tell others. Again, or in a fork: nothing."""
        with self._lock:
            if self._closed or self._forked:
                return
            self._closed = True
        self._engine.close(drain_seconds)

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after_fork_in_child(self) -> None:
        self._forked = True
        self._lock = threading.Lock()
        self._engine.abandon()

    def __reduce__(self) -> Any:
        raise TypeError("a Node is never pickled: send its name, and make a Node where it is needed")

    def __repr__(self) -> str:
        state = "forked" if self._forked else "closed" if self.closed else "open"
        return f"<speed.Node {self.name!r} generation={self.generation} {self.engine} {state}>"
