"""The public ``Node``: the verbs, on an engine of its own, with ``aio`` and topics."""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from speed.core.hints import checked_seconds, text, texts
from speed.engine import Engine, make_engine, threads
from speed.engine.event_loop import EventLoop
from speed.engine.options import Options, Retry
from speed.node.guard import Opening
from speed.node.verbs import Verbs
from speed.wire import lazily
from speed.wire.names import local_grants

Interface = TypeVar("Interface")

if TYPE_CHECKING:
    from speed.aio import AsyncNode
    from speed.message.security import MessageSecurity
    from speed.node.remote import Protected
    from speed.node.topic import Topic
    from speed.segment import Limits

DRAIN_SECONDS = 10.0  # how long ``close`` waits for work in flight
DROPPED_SECONDS = 1.0  # the same of a node that was dropped at a prompt


def _shell() -> Any:
    """IPython's, which is a notebook's too; None where this process has none."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def _collect_after_cell() -> None:
    """A node that was awaited is in a circle with ``node.aio``, and goes only with the collector."""
    if (shell := _shell()) is not None:

        def collect(*_: object) -> None:
            shell.events.unregister("post_run_cell", collect)
            gc.collect()

        shell.events.register("post_run_cell", collect)


class Node(Verbs):
    """One participant: found by others under its name, reached by those it allows.

    Used as ``with`` or ``async with`` it closes at the end; ``node.aio`` has the same verbs for asyncio.

    Args:
        name: unique among live nodes of ``root``; 1 to 128 characters.
        root: communication directory; without it ``$SPEED_ROOT``, else a directory of this user.
        key: key file; without it ``$SPEED_KEY``, else ``speed.key`` in the root.
        fabrics: labels for listing and filtering; they decide nothing.
        allow: grants from the first moment on; a node with services grants once it has them, and who waits for it can
            call them then; names, or families such as ``etl.*``.
        lease_seconds: a silent node is offline after the lease; more than three heartbeats.
        heartbeat_seconds: how often the node says that it is there; above 0.
        workers: services and handlers at once; 1 to 256.
        durability: ``"disk"``: survive a power cut, not only a killed process; refused where files live in memory.
        ephemeral: the name will not come back: once the node is gone and what it wrote is read, nothing of it stays.
            For programs that run once under a name made for that.
        starting: not at once open for calls: who calls it, or is not granted to write yet, waits until ``ready``, at
            most its timeout. For programs that set up services and grants first.
        bell: ``"polling"``: never ring, as where there are no FIFOs.
        namespace: in the metadata of messages; those of others are not handed out here; 1 to 128 bytes.
        accept_namespaces: further ones whose messages are; ``"*"`` for all.
        spin_seconds: how long a reader polls after activity before it sleeps; Python has 0 where there is one core, its
            own engine and Java do not poll; 0 to 0.01 s.
        on_error: what becomes of a message whose handler failed: ``"dead-letter"``, it is kept, for ``speed dead``;
            ``"retry"``, it is tried again, up to ``max_deliveries`` times in all; then it is kept; ``"drop"``, it is
            counted, logged and gone.
        max_deliveries: how often one message is begun, processes that died over it included, before it is given up; 1
            to 1,000,000.
        max_lane_bytes: what may wait in a receiver's lane before a sender waits; 1 or more.
        max_open_files: what may be open for lanes that are read and links that are written, together; others rest, and
            open their files again when they are used. Without it, half of what the process may open when the node
            starts, at most 8192; 1 or more.
        identity: identity file of this node alone (``speed key identity new``): its links with other identities open
            for nobody else.
        segment_limits: what may be kept of payloads that come in segments.
        security: how messages are signed, encrypted and checked; without it they are handed out as they came, for a
            program that checks them itself.
        engine: ``"native"`` runs on the C++ core, which wheels bring; ``"python"`` needs nothing;
            ``"auto"`` is what ``$SPEED_ENGINE`` says, else native where it is built. ``node.engine`` tells.

    Raises: NameTakenError, KeyFileError, RootError, InvalidNameError, DurabilityError, ConfigurationError.

    All public methods are thread-safe. In a forked child they raise ForkedNodeError.
    """

    def __init__(
        self,
        name: str,
        # generated from registry_spec/options.json by scripts/generate
        root: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        *,
        engine: str = "auto",
        fabrics: Iterable[str] = (),
        allow: Iterable[str] = (),
        lease_seconds: float = 30.0,
        heartbeat_seconds: float = 5.0,
        workers: int = 4,
        durability: str = "process",
        ephemeral: bool = False,
        starting: bool = False,
        bell: str = "auto",
        namespace: str = "default",
        accept_namespaces: Iterable[str] = (),
        spin_seconds: float | None = None,
        on_error: str = "dead-letter",
        max_deliveries: int = 5,
        max_lane_bytes: int = 67_108_864,
        max_open_files: int | None = None,
        identity: str | os.PathLike[str] | None = None,
        segment_limits: Limits | None = None,
        security: MessageSecurity | None = None,
    ) -> None:
        options = Options(
            name=name,
            root=root,
            key=key,
            fabrics=texts("fabrics", fabrics),
            allow=local_grants(texts("allow", allow)),
            lease_seconds=lease_seconds,
            heartbeat_seconds=heartbeat_seconds,
            workers=workers,
            durability=durability,
            ephemeral=ephemeral,
            starting=starting,
            bell=bell,
            namespace=namespace,
            accept_namespaces=texts("accept_namespaces", accept_namespaces),
            spin_seconds=spin_seconds,
            on_error=on_error,
            max_deliveries=max_deliveries,
            max_lane_bytes=max_lane_bytes,
            max_open_files=max_open_files,
            identity=identity,
            segment_limits=segment_limits,
        )
        # end of what is generated
        self._forked = False
        self._budgets, self._families = {}, None
        self._closes_when_dropped = False
        self._closed = True  # until it runs
        self._lock = threading.RLock()  # a signal handler may close the node that this thread closes
        if security is not None:
            with lazily.guard:
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
        In a notebook or at a prompt one that is dropped, as when its cell is run again, is closed by itself.
        """
        node = cls(f"{text('family', family)}.{os.urandom(4).hex()}", ephemeral=True, **options)
        if hasattr(sys, "ps1") or _shell() is not None:
            node._closes_when_dropped = True
            _collect_after_cell()
        return node

    @cached_property
    def aio(self) -> AsyncNode:
        """The same verbs for asyncio: ``await node.aio.call(…)``."""
        with lazily.guard:
            from speed.aio import AsyncNode  # asyncio costs 10 ms to import; most nodes never await

        return AsyncNode(self, self.close)

    def client(
        self,
        protocol: Callable[..., Interface],
        target: str,
        *,
        timeout: float | None = None,
        retry: Retry | None = None,
        alike: bool = False,
    ) -> Interface:
        """The services of ``target`` as the methods of ``protocol``, a ``typing.Protocol``: arguments and results.

        ``timeout`` and ``retry`` are those of ``call``, for each method; one that is ``async`` is awaited. Methods are
        checked against what ``target`` describes when the first is called: ConfigurationError for one that is no
        service of it, or takes other parameters. Of a family, ``pricing.*``, the members may differ, which a warning
        tells once; with ``alike`` that is a ConfigurationError too, as is a class that no client is made of.
        """
        with lazily.guard:
            from speed.node.client import Client

        return Client(self, lambda: self.aio, protocol, text("node", target), timeout, retry, alike)  # type: ignore[return-value]

    # --- topics ---
    def topic(self, name: str, *, host: str = "speedd.topics") -> Topic:
        """A durable topic, whose messages are kept for subscriptions; nothing is asked of its host yet.

        ``host`` is the node of the speedd that has ``[topics]``: its name and ``.topics``.
        """
        with lazily.guard:
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
        if self.__dict__.get("_closed", True) or self._forked or sys.is_finalizing():
            return
        if self._closes_when_dropped:  # on a thread: whoever drops it waits for nothing
            close = partial(self.close, drain_seconds=DROPPED_SECONDS)
            threading.Thread(target=close, name=f"speed-dropped-{self.name}").start()
        else:
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
