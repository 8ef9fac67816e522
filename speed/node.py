"""The public ``Node`` (design section 9): its verbs and their documentation. An engine does the work."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from speed.core.services import Service, as_service
from speed.engine import Engine, make_engine
from speed.errors import SpeedError
from speed.messaging import Messaging
from speed.runtime import fork
from speed.runtime.event_loop import Awaited, EventLoop, is_async
from speed.runtime.options import Options, in_seconds
from speed.wire.entry import Entry
from speed.wire.limits import HEARTBEAT_SECONDS, LANE_WINDOW_BYTES, LEASE_SECONDS

if TYPE_CHECKING:
    from speed.aio import AsyncNode
    from speed.segment import Limits
    from speed.trust.security import MessageSecurity

Function = TypeVar("Function", bound=Callable[..., Any])

DRAIN_SECONDS = 10.0  # how long ``close`` waits for work in flight


class Node(Messaging):
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
        max_open_files: descriptors that the lanes and links of others may take; default half of what the process may
            have, at most 8,192. Those that were used longest ago are closed, and opened again when they are used.
        spin_seconds: how long a reader of the native engine polls after activity before it sleeps; default 200 µs, or 0
            on a single core.
        segment_limits: what may be kept of payloads that come in segments (``speed.segment.Limits``, G-15).
        engine: ``"native"`` runs on the C++ core, which wheels bring; ``"python"`` needs nothing;
            ``"auto"`` is what ``$SPEED_ENGINE`` says, else native where it is built. ``node.engine`` tells.
        on_error: what becomes of a message whose handler raises: ``"dead-letter"`` keeps it aside for `speed dead`,
            ``"retry"`` hands it over again after a pause, ``"drop"`` counts and logs it.
        max_deliveries: how often a message is begun at most, processes that died over it included.
        ephemeral: the name will not come back, as that of a worker for one job: nothing waits for the node when it is
            gone, and all that is left of it is removed.
        security: how messages are signed, encrypted and checked (M-18); without it none is.

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
        max_open_files: int | None = None,
        spin_seconds: float | None = None,
        segment_limits: Limits | None = None,
        engine: str = "auto",
        security: MessageSecurity | None = None,
        on_error: str = "dead-letter",
        max_deliveries: int = 5,
        ephemeral: bool = False,
    ) -> None:
        self._forked = False
        self._closed = True  # until it runs
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
            max_open_files=max_open_files,
            spin_seconds=spin_seconds,
            segment_limits=segment_limits,
            on_error=on_error,
            max_deliveries=max_deliveries,
            ephemeral=ephemeral,
        )
        fork.prepare()
        self._loop = EventLoop(name)
        self._engine: Engine = make_engine(engine, options)
        self.name = name
        self._protect(namespace, security)
        self.root = self._engine.root
        self.engine = self._engine.kind
        fork.track(self)
        self._closed = False

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
        ``idempotent`` one that was begun and not answered is begun again by the next process of this name, and sees
        ``request.redelivered``. Either may be ``async``: a loop of the node awaits it.

        Raises ServiceExistsError, InvalidNameError, ConfigurationError.
        """
        awaited = Awaited(as_service(name, service), self._loop) if is_async(service) else service
        self._engine.register(name, awaited, allow, idempotent)

    def service(
        self, name: str, allow: Iterable[str] | None = None, *, idempotent: bool = False
    ) -> Callable[[Function], Function]:
        """Decorator form of ``register``."""

        def decorate(function: Function) -> Function:
            self.register(name, function, allow, idempotent=idempotent)
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
        return self._engine.call(target, service, arguments or {}, in_seconds(timeout), traceparent)

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

        ``cancel()`` withdraws the call. It is True only if nothing was written; else the Future ends with what the
        other side says: CallWithdrawnError, or a result that came first. Callbacks of the Future may call and wait: a
        worker of this node runs them.
        """
        return self._engine.submit(target, service, arguments or {}, in_seconds(timeout), traceparent)

    def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Round trip to a live node in seconds, by HEARTBEAT. Raises as ``call`` does."""
        return self._engine.ping(target, in_seconds(timeout))

    def services(self, target: str, *, timeout: float = 5.0) -> list[str]:
        """Names of the services of ``target`` that this node may call, by DISCOVERY."""
        return list(self._engine.discover(target, "SERVICES", in_seconds(timeout))["services"])

    def info(self, target: str, *, timeout: float = 5.0) -> dict[str, Any]:
        """What ``target`` says about itself: language, version, pid, fabrics, services."""
        return self._engine.discover(target, "INFO", in_seconds(timeout))

    def stats(self, target: str | None = None, *, timeout: float = 5.0) -> dict[str, Any]:
        """Counters of ``target``, or of this node without one."""
        if target is None:
            return self._engine.stats()
        return self._engine.discover(target, "STATS", in_seconds(timeout))

    # --- other nodes ---
    def nodes(self, fabric: str | None = None) -> list[Entry]:
        """Live nodes, sorted by name; with ``fabric`` only those that carry the label."""
        return [entry for entry in self._engine.nodes() if fabric is None or fabric in entry.fabrics]

    def wait_for(self, target: str, *, timeout: float = 10.0) -> Entry:
        """Wait until ``target`` is live and allows this node. Raises UnknownNodeError after ``timeout`` seconds."""
        return self._engine.wait_for(target, in_seconds(timeout))

    def on_join(self, handler: Callable[[Entry], object]) -> Callable[[Entry], object]:
        """Call ``handler(entry)`` when another node joins."""
        self._engine.on_join(self._loop.settled(handler))
        return handler

    def on_leave(self, handler: Callable[[Entry], object]) -> Callable[[Entry], object]:
        """Call ``handler(entry)`` when another node leaves, dies or is replaced."""
        self._engine.on_leave(self._loop.settled(handler))
        return handler

    def on_lost(self, handler: Callable[[SpeedError], object]) -> Callable[[SpeedError], object]:
        """Call ``handler(error)`` when this node has lost its lease: every later operation raises that error."""
        self._engine.on_lost(self._loop.settled(handler))
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
        """Leave in the order of RFC 6.4.6: finish, remove the entry, tell others. Again, or in a fork: nothing.

        From inside a service, handler or callback it does not wait for what it is called from: a message counts as
        handled then, and a request is not answered any more.
        """
        with self._lock:
            if self._closed or self._forked:
                return
            self._closed = True
        if (aio := self.__dict__.get("aio")) is not None:
            aio._finish_in_hand()
        self._engine.close(0.0 if self._loop.is_here else drain_seconds)
        self._end_awaiting()

    def _end_awaiting(self) -> None:
        aio = self.__dict__.get("aio")
        if aio is not None:
            aio._stop()
        self._loop.stop()

    def __del__(self) -> None:
        if not self.__dict__.get("_closed", True) and not self._forked and not sys.is_finalizing():
            warnings.warn(f"{self!r} was dropped and runs on: close it", ResourceWarning, source=self, stacklevel=2)

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after_fork_in_child(self) -> None:
        self._forked = True
        self._lock = threading.Lock()
        self._engine.abandon()
        if (aio := self.__dict__.get("aio")) is not None:
            aio._begin()

    def __reduce__(self) -> Any:
        raise TypeError("a Node is never pickled: send its name, and make a Node where it is needed")

    def __repr__(self) -> str:
        state = "forked" if self._forked else "closed" if self.closed else "open"
        return f"<speed.Node {self.name!r} generation={self.generation} {self.engine} {state}>"
