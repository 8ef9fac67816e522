"""A node in Python: its parts, started in the order of RFC 6.3 and stopped in the order of RFC 6.4.6."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from speed.core import counters
from speed.core.access import AccessPolicy, granted
from speed.core.calls import PendingCalls, checked_answer
from speed.core.log import logger
from speed.core.services import Service, ServiceOptions
from speed.engine import threads
from speed.engine.message import BatchHandler
from speed.engine.options import Options
from speed.engine.python.calls import Calls, Outbox
from speed.engine.python.context import Context, Peers, Waker
from speed.engine.python.delivery import Delivery, Handler
from speed.engine.python.dispatch import Dispatch, Introspection
from speed.engine.python.links import Answers, Links, wait_for
from speed.engine.python.reader import Protocol
from speed.engine.python.registrar import Registrar, Sweeper
from speed.engine.python.serving import Serving
from speed.engine.python.settling import Settling, Withdrawals
from speed.engine.workers import WorkerPool
from speed.errors import (
    ConfigurationError,
    DurabilityError,
    ForkedNodeError,
    IdentityCopiedError,
    NodeClosedError,
    RootError,
    SpeedError,
)
from speed.fs.bell import Bell
from speed.fs.committed import fence_lanes
from speed.fs.inbox import Inbox
from speed.fs.keyfile import KeySource, default_key, default_root
from speed.fs.registration import Won, register
from speed.fs.registry import Registry
from speed.fs.root import Filesystem, check_root, filesystem_of, observers_of, prepare_root
from speed.fs.sweep import sweep
from speed.wire import lazily, names, spc
from speed.wire.entry import Entry
from speed.wire.envelope import EnvelopeType
from speed.wire.identities import fingerprint_in
from speed.wire.seal import Keyring

if TYPE_CHECKING:
    from speed.engine.python.segments import Segments
    from speed.segment.reassembly import Limits


log = logger("speed.node")

JOIN_SECONDS = 5.0


# The parts of a node, and how they begin and end.


@dataclass(slots=True)
class Parts:
    """All parts of one running node, and how they end."""

    context: Context
    links: Links
    calls: Calls
    outbox: Outbox
    serving: Serving
    delivery: Delivery
    introspection: Introspection
    pool: WorkerPool
    protocol: Protocol
    registrar: Registrar
    dispatch: Dispatch
    settling: Settling

    def stop(self, reason: SpeedError, drain_seconds: float) -> None:
        """Leave in order (T-13); what is in flight gets ``drain_seconds``."""
        context = self.context
        if context.failure is not None:
            return  # the name was lost: everything has ended already
        with contextlib.suppress(SpeedError):  # without a word it leaves all the same
            context.registration.update(status="leaving")
        self.pool.leave()
        self.delivery.stop_waiting()
        try:
            self.pool.drain(drain_seconds)
        finally:  # one that a signal interrupts ends the node all the same
            self._leave(reason)

    def _leave(self, reason: SpeedError) -> None:
        context = self.context
        for work in self.pool.close():
            self.serving.refuse_leaving(work.item.call)
        self.delivery.finish_in_hand()
        self._end(reason, self._leave_registry)
        self._say_leave()
        self._close_links()
        if context.registration.entry.ephemeral:
            self._forget()

    def _leave_registry(self) -> None:
        registration = self.context.registration
        if registration.entry.ephemeral:
            registration.expire()
        else:
            registration.remove()

    def _forget(self) -> None:
        """What is left of a name that will not come back goes now, but for what lies in the inboxes of others."""
        try:
            sweep(self.context.registry, self.context.name)
        except (OSError, SpeedError):
            self.context.stats.count(counters.SWEEPS_FAILED)  # others do it later

    def abort(self, reason: SpeedError) -> None:
        """The name is lost: end at once and write nothing more. A program that is told finds the node ended."""
        self.context.shutdown.begin(reason)
        self.registrar.tell_lost(reason)
        self._end(reason, lambda: None)
        self._close_links()

    def _close_links(self) -> None:
        """Close the links, and notify those who wait for the end of a call."""
        self.links.close()
        self.calls.tell_rest()

    def _end(self, reason: SpeedError, leave_registry: Callable[[], None]) -> None:
        """Stop all threads, fail all who wait, release the lanes and what was kept, and only then the name.

        A successor may read the same lanes from the moment that the name is free.
        """
        context = self.context
        context.shutdown.begin(reason)
        self.serving.cancel_all()
        context.pending.fail_all(reason)
        self.settling.stop()
        self.delivery.wake_receivers()
        self.pool.stop()
        self.protocol.stop(JOIN_SECONDS)
        self.protocol.close()
        self.dispatch.close()
        self.links.end()
        leave_registry()
        self.protocol.release_bell()
        self.registrar.stop(JOIN_SECONDS)
        context.registration.release()

    def _say_leave(self) -> None:
        """Tell every node that this one wrote to and that still allows it; the registry tells the rest."""
        payload = spc.encode({"op": "LEAVE"})
        for link in self.links.opened():
            try:
                entry = self.context.registry.live(link.target)
                if entry is not None and grants(entry, self.context.name):
                    link.say_leave(payload)
            except (SpeedError, OSError):
                self.context.stats.count(counters.LEAVE_NOTICES_UNDELIVERED)

    def abandon(self) -> None:
        """In a forked child: close descriptors, write nothing, join nothing."""
        self.protocol.abandon()
        self.links.abandon()
        self.context.registration.abandon()


def grants(entry: Entry, name: str) -> bool:
    """Whether the published grants of ``entry`` cover ``name`` (A-3)."""
    return granted(entry, name)


def start(options: Options) -> Parts:
    """Claim the name, publish the entry, start the threads."""
    try:
        context, bell, inbox = _register(options)
    except OSError as error:
        raise RootError(f"cannot use the root: {error.strerror}; choose another, or see `speed root doctor`") from error
    with contextlib.ExitStack() as undo:
        undo.callback(_withdraw, context, bell, inbox)
        try:
            parts = _begin(options, context, bell, inbox, undo)
        except (OSError, RuntimeError) as error:  # too many open files, or threads
            raise ConfigurationError(f"cannot start {options.name!r}: {error}: raise the limits of its user") from error
        undo.pop_all()
    return parts


def _withdraw(context: Context, bell: Bell | None, inbox: Inbox) -> None:
    """Nobody must find the entry of a node that does not run (R-5)."""
    context.registration.remove()
    inbox.close()
    if bell is not None:
        bell.close()


def _begin(
    options: Options,
    context: Context,
    bell: Bell | None,
    inbox: Inbox,
    undo: contextlib.ExitStack,
) -> Parts:
    """Make the parts and start the threads; ``undo`` ends those that began if another cannot."""
    pool = WorkerPool(options.name, options.workers)
    links = Links(context)
    withdrawals = Withdrawals(context, links)
    calls = Calls(context, links, pool, withdrawals)
    answers = Answers(context, links)

    def lost(error: SpeedError) -> None:
        parts.abort(error)

    serving = Serving(context, links, pool, answers, partial(_lost_by_worker, context, lost))
    delivery = Delivery(context, pool)
    settling = Settling(context, calls.send_again)
    calls.settling = settling

    def each_lease() -> None:
        links.close_gone_links()
        links.release_slots()

    sweeper = Sweeper(context, options.lease_seconds, each_lease, ephemeral=options.ephemeral)

    def left(name: str) -> None:
        protocol.node_left(name)
        sweeper.gone(name)

    registrar = Registrar(
        context,
        options.heartbeat_seconds,
        lost,
        left,
        pool.submit,
        serving.callers,
        serving.forget_older,
        lambda name: protocol.node_replaced(name),  # noqa: PLW0108 (it is made below)
        sweeper,
    )
    introspection = Introspection(context, serving.services, pool)
    dispatch = Dispatch(
        context,
        links,
        calls,
        settling,
        serving,
        delivery,
        pool,
        introspection.answer,
        registrar.notice_left,
        partial(_segments, context, pool, options.segment_limits),
    )
    protocol = Protocol(context, bell, inbox, dispatch, answers, withdrawals, delivery.dead.look, sweeper.gone)
    calls.replaced = protocol.node_replaced
    undo.callback(_end_threads, context, pool, protocol, registrar)
    parts = Parts(
        context,
        links,
        calls,
        Outbox(context, links, calls),
        serving,
        delivery,
        introspection,
        pool,
        protocol,
        registrar,
        dispatch,
        settling,
    )
    _connect(parts)
    return parts


def _lost_by_worker(context: Context, lost: Callable[[SpeedError], None], error: SpeedError) -> None:
    """A worker found that another process has the name; the end of the node would wait for it."""
    context.registration.lose()
    threading.Thread(target=lost, args=(error,), name=f"speed-{context.name}-abort", daemon=True).start()


def _connect(parts: Parts) -> None:
    """Let the parts know of each other and start the threads."""
    context, protocol = parts.context, parts.protocol
    parts.introspection.senders = protocol.senders
    parts.introspection.lane_counts = protocol.counts
    parts.links.on_open(protocol.watch_reader)
    with contextlib.suppress(SpeedError):  # they are looked at again with each scan
        parts.delivery.dead.start()
    protocol.start()
    parts.registrar.start()
    if os.path.isdir(names.segments_dir(context.root, context.name)):
        parts.dispatch.segments()


def _end_threads(context: Context, pool: WorkerPool, protocol: Protocol, registrar: Registrar) -> None:
    context.stopping.set()
    pool.stop()
    for stop in (protocol.stop, registrar.stop):
        with contextlib.suppress(RuntimeError):  # one that did not begin cannot be waited for
            stop(JOIN_SECONDS)
    protocol.close()


def _segments(context: Context, pool: WorkerPool, limits: Limits | None, dispatch: Dispatch) -> Segments:
    with lazily.guard:
        from speed.engine.python.segments import Segments  # most nodes never see a segment

    return Segments(context, pool, limits, dispatch)


def _register(options: Options) -> tuple[Context, Bell | None, Inbox]:
    """Look at root and key, claim the name, prepare the inbox before anyone can see the entry."""
    policy = AccessPolicy(options.allow)
    root = os.path.abspath(os.fspath(options.root) if options.root is not None else default_root())
    key = os.fspath(options.key) if options.key is not None else default_key(root)
    check_root(root)  # before the key: why that is out of reach is told by the root
    keys = KeySource(key)
    peers = None if options.identity is None else Peers(root, os.path.abspath(os.fspath(options.identity)), policy)
    _check_grants(policy, peers)
    prepare_root(root)
    _let_look(policy, root)
    filesystem = filesystem_of(root)
    registry = Registry(root, keys.keyring, late_ms=int(filesystem.late_seconds * 1000), is_prepared=True)
    check_not_copied = partial(_check_not_copied, registry, options.name, peers)
    check_not_copied()
    durable = _durable(options.durability, root, filesystem.is_memory)
    polling = options.bell == "polling" or _lacks_bells(root, filesystem)
    prepared: list[tuple[Bell | None, Inbox]] = []
    try:
        registration = register(
            registry,
            options.name,
            lease_ms=int(options.lease_seconds * 1000),
            heartbeat_ms=int(options.heartbeat_seconds * 1000),
            fabrics=options.fabrics,
            allow=policy.allowed(),
            ephemeral=options.ephemeral,
            starting=options.starting,
            identity="" if peers is None else peers.card(options.name),
            identities=policy.identities(),
            observers=policy.observers(),
            before_publish=lambda won: prepared.append(
                _prepare(root, options, won, keys.keyring, polling, filesystem, peers)
            ),
            after_publish=check_not_copied,  # of two that start at once, each sees the other by now
        )
    except BaseException:
        for bell, _ in prepared:
            if bell is not None:
                bell.close()
        raise
    bell, inbox = prepared[-1]
    context = Context(
        name=options.name,
        id=names.node_id(options.name),
        root=root,
        namespace=options.namespace,
        accept_namespaces=options.accepted,
        keys=keys,
        generation=registration.entry.generation,
        durable=durable,
        polling=polling,
        window_bytes=options.max_lane_bytes,
        registry=registry,
        registration=registration,
        policy=policy,
        pending=PendingCalls(threads.lock("pending")),
        waker=Waker(bell, names.node_id(options.name)),
        peers=peers,
        boot_id=registration.entry.boot_id,
        on_error=options.on_error,
        max_deliveries=options.max_deliveries,
        max_open_files=options.open_files,
    )
    return context, bell, inbox


def _check_grants(policy: AccessPolicy, peers: Peers | None) -> None:
    """ConfigurationError for grants of identities that this node could not tell (I-8)."""
    if peers is None and policy.identities():
        raise ConfigurationError("a grant with a fingerprint needs a node with an identity: give it `identity=FILE`")


def _let_look(policy: AccessPolicy, root: str) -> None:
    """Observers are those of the root's owner (A-7); a file that does not count names none."""
    try:
        policy.observe(observers_of(root))
    except ConfigurationError as error:
        log.warning("%s", error)


def _check_not_copied(registry: Registry, name: str, peers: Peers | None) -> None:
    """IdentityCopiedError where another node lives with this identity (I-7)."""
    if peers is None:
        return
    for entry in registry.live_entries():
        if entry.name != name and fingerprint_in(entry) == peers.fingerprint:
            raise IdentityCopiedError(f"{entry.name!r} lives with this identity: make one for each node")


def _prepare(
    root: str,
    options: Options,
    won: Won,
    keyring: Keyring,
    polling: bool,
    filesystem: Filesystem,
    peers: Peers | None,
) -> tuple[Bell | None, Inbox]:
    """Bell and inbox, and fences behind all that older generations of this name wrote (L-18)."""
    name = options.name
    inbox = Inbox(
        root,
        name,
        won.generation,
        keyring,
        ephemeral=options.ephemeral,
        is_remote=filesystem.is_remote,
        late_seconds=filesystem.late_seconds,
        identity=None if peers is None else lambda: peers.identity,
    )
    inbox.prepare()
    if won.former:
        fence_lanes(root, name, won.generation, keyring)
    return None if polling else Bell.open_own(names.bell_path(root, name)), inbox


def _lacks_bells(root: str, filesystem: Filesystem) -> bool:
    """Whether lanes must be polled here (L-22); says so."""
    if filesystem.supports_fifo and not filesystem.is_remote:
        return False
    why = f"lies on {filesystem.kind}, a remote filesystem" if filesystem.is_remote else "has no FIFOs"
    log.warning("%s %s: lanes are polled, which is slower", root, why)
    return True


def _durable(durability: str, root: str, is_memory: bool) -> bool:
    if durability == "disk" and is_memory:
        raise DurabilityError(f"{root} lies in memory: it cannot survive a power cut; use a root on a disk")
    return durability == "disk"


# What `speed.Node` asks of its engine.


class PythonEngine:
    """A node in pure Python. All methods are thread-safe; in a forked child they raise ForkedNodeError."""

    kind = "python"

    def __init__(self, options: Options) -> None:
        parts = self._parts = start(options)
        self._context = parts.context
        self._lock = parts.context.lock
        self.name, self.root = options.name, parts.context.root
        # What one part does by itself is asked of that part.
        self.call, self.submit, self.tell = parts.calls.call, parts.calls.submit, parts.calls.tell
        self.open_stream, self.discover_each = parts.calls.open_stream, parts.calls.discover_each
        self.send, self.send_all = parts.outbox.send, parts.outbox.send_all
        self.forward, self.publish = parts.outbox.forward, parts.outbox.publish
        self.on_message = parts.delivery.on_message
        self.receive, self.fetch = parts.delivery.receive, parts.delivery.fetch
        self.put_back, self.wake_receivers = parts.delivery.put_back, parts.delivery.wake_receivers
        self.on_join, self.on_leave = parts.registrar.on_join, parts.registrar.on_leave
        self.on_lost = parts.registrar.on_lost
        threads.close_at_exit(self)

    # --- access and services ---

    def ready(self) -> None:
        self._context.check_open()
        self._context.registration.ready()

    def allow(self, patterns: tuple[str, ...]) -> None:
        self._context.check_open()
        policy = self._context.policy
        with self._lock:
            undo = policy.undo()
            policy.allow(*patterns)
            try:
                _check_grants(policy, self._context.peers)
                self._context.publish_grants()
            except BaseException:
                undo()  # no grant is in force that nobody can see
                raise
        self._parts.protocol.look_again()

    def deny(self, patterns: tuple[str, ...]) -> None:
        self._context.check_open()
        policy = self._context.policy
        with self._lock:
            policy.deny(*patterns)
            self._context.publish_grants()

    def allowed(self) -> tuple[str, ...]:
        return (*self._context.policy.allowed(), *self._context.policy.identities())

    def register(
        self, name: str, service: Service | Callable[..., Any], allow: Iterable[str] | None, how: ServiceOptions
    ) -> None:
        self._context.check_open()
        with self._lock:
            self._parts.serving.services.register(name, service, allow, how)

    def unregister(self, name: str) -> None:
        self._context.check_open()
        with self._lock:
            self._parts.serving.services.unregister(name)

    # --- calls ---

    def ping(self, target: str, timeout: float) -> float:
        began = monotonic()
        self._parts.calls.ask(target, EnvelopeType.HEARTBEAT, {}, timeout)
        return monotonic() - began

    def discover(self, target: str, operation: str, timeout: float) -> dict[str, Any]:
        answer = self._parts.calls.ask(target, EnvelopeType.DISCOVERY, {"op": operation}, timeout)
        return checked_answer(operation, answer, target)

    def stats(self) -> dict[str, Any]:
        return self._parts.introspection.answer("STATS", self.name) or {}

    # --- messages and events ---

    def cut(self, target: str, segment_size: int | None, parity_rate: float) -> None:
        self._context.check_open()
        with lazily.guard:
            from speed.engine.python.segments import link_splitter  # most nodes never cut anything

        splitter = None if segment_size is None else link_splitter(segment_size, parity_rate)
        self._parts.links.cut(target, splitter)

    def subscribe(self, pattern: str, handler: Handler, shared: bool) -> None:
        self._context.check_open()
        with self._lock:
            patterns = self._parts.delivery.subscribe(pattern, handler, shared)
            self._context.registration.update(
                subscriptions=tuple(patterns), shared=tuple(one for one, is_shared in patterns.items() if is_shared)
            )

    def on_batch(self, patterns: tuple[str, ...], handler: BatchHandler, shared: bool) -> None:
        self._context.check_open()
        with self._lock:
            self._parts.delivery.on_batch(handler, patterns)
            self._context.registration.update(subscriptions=patterns, shared=patterns if shared else ())

    # --- other nodes ---

    def nodes(self) -> list[Entry]:
        self._context.check_open()
        return [entry for entry in self._context.registry.live_entries(sure=True) if entry.status == "online"]

    def wait_for(self, target: str, timeout: float) -> Entry:
        self._context.check_open()
        return wait_for(self._context, target, timeout)

    def remove_stale(self) -> list[str]:
        self._context.check_open()
        return [entry.name for entry in self._context.registry.remove_stale()]

    # --- life ---

    @property
    def generation(self) -> int:
        return self._context.generation

    @property
    def closed(self) -> bool:
        return self._context.failure is not None

    def close(self, drain_seconds: float) -> None:
        threads.run(self._end, drain_seconds)

    def _end(self, drain_seconds: float) -> None:
        try:
            self._parts.stop(NodeClosedError(f"node {self.name!r} was closed"), drain_seconds)
        finally:
            threads.forget_at_exit(self)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's descriptors."""
        self._context.shutdown.reason = ForkedNodeError(
            f"node {self.name!r} belongs to the parent process: make a Node of its own in the child"
        )
        self._lock = threads.lock("node")
        self._parts.abandon()
        threads.forget_at_exit(self)
