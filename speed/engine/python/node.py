"""The Python engine of ``Node``: composition and life cycle; the work is done by its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from speed.core.calls import checked_answer
from speed.core.services import Service, ServiceOptions
from speed.engine import threads
from speed.engine.message import BatchHandler
from speed.engine.options import Options
from speed.engine.python import outbox, start
from speed.engine.python.delivery import Handler
from speed.errors import ForkedNodeError, NodeClosedError
from speed.wire.entry import Entry
from speed.wire.envelope import EnvelopeType


class PythonEngine:
    """A node in pure Python. All methods are thread-safe; in a forked child they raise ForkedNodeError."""

    kind = "python"

    def __init__(self, options: Options) -> None:
        self._lock = threads.lock("node")
        parts = self._parts = start.start(options)
        self._context = parts.context
        self.name, self.root = options.name, parts.context.root
        # What one part does by itself is asked of that part.
        self.call, self.submit = parts.calls.call, parts.calls.submit
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
                self._context.registration.update(allow=policy.allowed(), deny=policy.denied())
            except BaseException:
                undo()  # no grant is in force that nobody can see
                raise
        self._parts.protocol.look_again()

    def deny(self, patterns: tuple[str, ...]) -> None:
        self._context.check_open()
        policy = self._context.policy
        with self._lock:
            policy.deny(*patterns)
            self._context.registration.update(allow=policy.allowed(), deny=policy.denied())

    def allowed(self) -> tuple[str, ...]:
        return self._context.policy.allowed()

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
        from speed.engine.python.segments import link_splitter  # most nodes never cut anything

        splitter = None if segment_size is None else link_splitter(segment_size, parity_rate)
        self._parts.links.cut(target, splitter)

    def subscribe(self, pattern: str, handler: Handler) -> None:
        self._context.check_open()
        with self._lock:
            patterns = self._parts.delivery.subscribe(pattern, handler)
            self._context.registration.update(subscriptions=patterns)

    def on_batch(self, patterns: tuple[str, ...], handler: BatchHandler) -> None:
        self._context.check_open()
        with self._lock:
            self._parts.delivery.on_batch(handler, patterns)
            self._context.registration.update(subscriptions=patterns)

    # --- other nodes ---

    def nodes(self) -> list[Entry]:
        self._context.check_open()
        return [entry for entry in self._context.registry.live_entries() if entry.status == "online"]

    def wait_for(self, target: str, timeout: float) -> Entry:
        self._context.check_open()
        return outbox.wait_for(self._context, target, timeout)

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
