"""The Python engine of ``Node``: composition and life cycle; the work is done by its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any

from speed.core.calls import checked_answer
from speed.core.hints import as_views
from speed.core.services import Service
from speed.engine import threads
from speed.engine.futures import Carried
from speed.engine.message import BatchHandler, Message, Published, is_large
from speed.engine.options import Options
from speed.engine.python import outbox, start
from speed.engine.python.delivery import Handler
from speed.errors import ForkedNodeError, NodeClosedError, SpeedError
from speed.wire.entry import Entry
from speed.wire.envelope import EnvelopeType


class PythonEngine:
    """A node in pure Python. All methods are thread-safe; in a forked child they raise ForkedNodeError."""

    kind = "python"

    def __init__(self, options: Options) -> None:
        self._forked = False
        self._lock = threads.lock("node")
        self._parts = start.start(options)
        self._context = self._parts.context
        self.name = options.name
        self.root = self._context.root
        threads.close_at_exit(self)

    # --- access and services ---

    def ready(self) -> None:
        self._check_open()
        self._context.registration.ready()

    def allow(self, patterns: tuple[str, ...]) -> None:
        self._check_open()
        policy = self._context.policy
        with self._lock:
            undo = policy.undo()
            policy.allow(*patterns)
            try:
                self._context.registration.update(allow=policy.allowed())
            except BaseException:
                undo()  # no grant is in force that nobody can see
                raise
        self._parts.protocol.look_again()

    def deny(self, patterns: tuple[str, ...]) -> None:
        self._check_open()
        with self._lock:
            self._context.policy.deny(*patterns)
            self._context.registration.update(allow=self._context.policy.allowed())

    def allowed(self) -> tuple[str, ...]:
        return self._context.policy.allowed()

    def register(
        self, name: str, service: Service | Callable[..., Any], allow: Iterable[str] | None, idempotent: bool
    ) -> None:
        self._check_open()
        with self._lock:
            self._parts.serving.services.register(name, service, allow, idempotent=idempotent)

    def unregister(self, name: str) -> None:
        self._check_open()
        with self._lock:
            self._parts.serving.services.unregister(name)

    # --- calls ---

    def call(
        self, target: str, service: str, arguments: dict[str, Any], timeout: float, traceparent: str | None, views: bool
    ) -> Any:
        self._check_open()
        result = self._parts.calls.call(target, service, arguments, timeout, traceparent)
        return as_views(result) if views else result

    def submit(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any],
        timeout: float,
        traceparent: str | None,
        views: bool,
        carried: Carried | None = None,
    ) -> Future[Any]:
        self._check_open()
        return self._parts.calls.submit(target, service, arguments, timeout, traceparent, views, carried)

    def ping(self, target: str, timeout: float) -> float:
        began = monotonic()
        self._ask(target, EnvelopeType.HEARTBEAT, {}, timeout)
        return monotonic() - began

    def discover(self, target: str, operation: str, timeout: float) -> dict[str, Any]:
        return checked_answer(operation, self._ask(target, EnvelopeType.DISCOVERY, {"op": operation}, timeout), target)

    def stats(self) -> dict[str, Any]:
        return self._parts.introspection.answer("STATS", self.name) or {}

    def _ask(self, target: str, type_: EnvelopeType, body: dict[str, Any], timeout: float) -> Any:
        self._check_open()
        return self._parts.calls.ask(target, type_, body, timeout)

    # --- messages and events ---

    def send(
        self,
        target: str,
        payload: Any,
        ack: bool,
        timeout: float,
        options: dict[str, Any],
        progress: Any,
        unordered: bool,
    ) -> str:
        self._check_open()
        if is_large(payload):
            return self._parts.outbox.send_large(target, payload, ack, timeout, options, progress, unordered)
        return self._parts.outbox.send(target, payload, ack, timeout, options, unordered)

    def cut(self, target: str, segment_size: int | None, parity_rate: float) -> None:
        self._check_open()
        from speed.engine.python.outbox import link_splitter

        self._parts.links.cut(target, None if segment_size is None else link_splitter(segment_size, parity_rate))

    def send_all(self, target: str, payloads: Iterable[Any], timeout: float, options: dict[str, Any]) -> None:
        self._check_open()
        self._parts.outbox.send_all(target, payloads, timeout, options)

    def forward(self, target: str, messages: Sequence[bytes], event: bool, ack: bool, timeout: float) -> None:
        self._check_open()
        self._parts.outbox.forward(target, messages, event, ack, timeout)

    def on_message(self, handler: Handler) -> None:
        self._check_open()
        self._parts.delivery.on_message(handler)

    def receive(self, timeout: float | None) -> Message | None:
        self._check_open()
        return self._parts.delivery.receive(timeout)

    def fetch(self, timeout: float | None, is_abandoned: Callable[[], bool]) -> tuple[Message, Any] | None:
        self._check_open()
        return self._parts.delivery.fetch(timeout, is_abandoned)

    def put_back(self, token: Any) -> None:
        self._parts.delivery.put_back(token)

    def wake_receivers(self) -> None:
        self._parts.delivery.wake_receivers()

    def publish(self, topic: str, payload: Any, timeout: float, on_full: str, options: dict[str, Any]) -> Published:
        self._check_open()
        return self._parts.outbox.publish(topic, payload, timeout, on_full, options)

    def subscribe(self, pattern: str, handler: Handler) -> None:
        self._check_open()
        with self._lock:
            patterns = self._parts.delivery.subscribe(pattern, handler)
            self._context.registration.update(subscriptions=patterns)

    def on_batch(self, patterns: tuple[str, ...], handler: BatchHandler) -> None:
        self._check_open()
        with self._lock:
            self._parts.delivery.on_batch(handler, patterns)
            self._context.registration.update(subscriptions=patterns)

    # --- other nodes ---

    def nodes(self) -> list[Entry]:
        self._check_open()
        return [entry for entry in self._context.registry.live_entries() if entry.status == "online"]

    def wait_for(self, target: str, timeout: float) -> Entry:
        self._check_open()
        return outbox.wait_for(self._context, target, timeout)

    def on_join(self, handler: Callable[[Entry], object]) -> None:
        self._check_open()
        self._parts.registrar.on_join(handler)

    def on_leave(self, handler: Callable[[Entry], object]) -> None:
        self._check_open()
        self._parts.registrar.on_leave(handler)

    def on_lost(self, handler: Callable[[SpeedError], object]) -> None:
        self._check_open()
        self._parts.registrar.on_lost(handler)

    def remove_stale(self) -> list[str]:
        self._check_open()
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
        self._forked = True
        self._lock = threads.lock("node")
        self._parts.abandon()
        threads.forget_at_exit(self)

    def _check_open(self) -> None:
        if self._forked:
            raise ForkedNodeError(
                f"node {self.name!r} belongs to the parent process: make a Node of its own in the child"
            )
        self._context.check_open()
