"""The public ``Node``: the verbs, on an engine of its own, with ``aio`` and topics."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from speed.core.hints import text, texts
from speed.engine import Engine, make_engine, threads
from speed.engine.event_loop import EventLoop
from speed.engine.options import Options
from speed.node.guard import Opening
from speed.node.verbs import Verbs
from speed.wire.limits import HEARTBEAT_SECONDS, LANE_WINDOW_BYTES, LEASE_SECONDS
from speed.wire.names import local_grants
from speed.wire.text import checked_seconds

if TYPE_CHECKING:
    from speed.aio import AsyncNode
    from speed.message.security import MessageSecurity
    from speed.node.protection import Protected
    from speed.node.topic import Topic
    from speed.segment import Limits

DRAIN_SECONDS = 10.0  # how long ``close`` waits for work in flight


class Node(Verbs):
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

        return AsyncNode(self, self.close)

    # --- topics ---
    def topic(self, name: str, *, host: str = "speedd.topics") -> Topic:
        """A durable topic, whose messages are kept for subscriptions; nothing is asked of its host yet.

        ``host`` is the node of the speedd that has ``[topics]``: its name and ``.topics``.
        """
        from speed.node.topic import Topic

        return Topic(self, text("topic", name), text("host", host))

    # --- life ---
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
