"""The asyncio face of a node: the same verbs, awaited. It never blocks the loop, and has threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, Any, overload

from speed.runtime.futures import CallFuture
from speed.runtime.in_hand import InHand
from speed.runtime.message import Message
from speed.runtime.options import in_seconds
from speed.runtime.published import Published
from speed.runtime.receiving import Fetched
from speed.runtime.threads import Threads
from speed.runtime.workers import place_given_up
from speed.wire.entry import Entry

if TYPE_CHECKING:
    from speed.aio_topic import AsyncTopic
    from speed.node import Node


class AsyncNode:
    """Reached as ``node.aio``; usable from any event loop, several at once.

    Every verb of ``Node`` is there: those that may wait are awaited, and those that only say what is to happen
    (``register``, ``on_message``, …) are those of ``Node`` itself. A cancelled ``call`` is withdrawn; any other verb
    that has begun goes on, and its outcome is dropped. ``async with node.aio`` closes the node at the end.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._begin()
        self.register, self.unregister, self.service = node.register, node.unregister, node.service
        self.on_message, self.on_batch, self.subscribe = node.on_message, node.on_batch, node.subscribe
        self.on_join, self.on_leave, self.on_lost = node.on_join, node.on_leave, node.on_lost
        self.allowed, self.segment = node.allowed, node.segment
        self.name, self.root, self.engine = node.name, node.root, node.engine

    def _begin(self) -> None:
        """Also in a forked child: the threads are the parent's, and the node says so to who asks for new ones."""
        self._starts = Threads(self._node.name, "start")
        self._threads = Threads(self._node.name, "await")
        self._receiving = self._node._receiving()
        self._in_hand = InHand()

    # --- calls ---

    async def call(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
    ) -> Any:
        """Like ``Node.call``; calls to one node start in order."""
        begin = _within(timeout, self._node.submit)
        with place_given_up():
            starting = self._starts.run(target, begin, target, service, arguments, traceparent=traceparent, views=views)
            try:
                future = await asyncio.wrap_future(starting)
            except asyncio.CancelledError:
                starting.add_done_callback(_withdraw)
                raise
            if isinstance(future, CallFuture):
                future.callbacks_are_brief = True  # they wake the loop, even while all workers wait for it
            return await asyncio.wrap_future(future)

    def submit(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
    ) -> asyncio.Task[Any]:
        """Start a call; the task ends with its result. Cancelled, it withdraws the call."""
        call = self.call(target, service, arguments, timeout=timeout, traceparent=traceparent, views=views)
        return asyncio.get_running_loop().create_task(call)

    async def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Like ``Node.ping``."""
        return await self._run(timeout, self._node.ping, target)  # type: ignore[no-any-return]

    async def services(self, target: str, *, timeout: float = 5.0) -> list[str]:
        """Like ``Node.services``."""
        return await self._run(timeout, self._node.services, target)  # type: ignore[no-any-return]

    async def info(self, target: str, *, timeout: float = 5.0) -> dict[str, Any]:
        """Like ``Node.info``."""
        return await self._run(timeout, self._node.info, target)  # type: ignore[no-any-return]

    async def stats(self, target: str | None = None, *, timeout: float = 5.0) -> dict[str, Any]:
        """Like ``Node.stats``."""
        return await self._run(timeout, self._node.stats, target)  # type: ignore[no-any-return]

    # --- messages and events ---

    async def send(self, target: str, payload: Any, *, ack: bool = False, timeout: float = 5.0, **how: Any) -> str:
        """Like ``Node.send``, options included; a wait for room or acknowledgement does not block the loop."""
        return await self._run(timeout, self._node.send, target, payload, ack=ack, **how)  # type: ignore[no-any-return]

    async def send_all(self, target: str, payloads: Iterable[Any], *, timeout: float = 5.0, **metadata: Any) -> None:
        """Like ``Node.send_all``; another thread goes through ``payloads``."""
        await self._run(timeout, self._node.send_all, target, payloads, **metadata)

    async def send_batch(self, target: str, payloads: Iterable[Any], *, timeout: float = 5.0, **how: Any) -> str:
        """Like ``Node.send_batch``; another thread goes through ``payloads``."""
        return await self._run(timeout, self._node.send_batch, target, payloads, **how)  # type: ignore[no-any-return]

    async def forward(
        self, target: str, messages: Sequence[bytes], *, event: bool = False, ack: bool = False, timeout: float = 5.0
    ) -> None:
        """Like ``Node.forward``."""
        await self._run(timeout, self._node.forward, target, messages, event=event, ack=ack)

    async def publish(self, topic: str, payload: Any, *, timeout: float = 5.0, **how: Any) -> Published:
        """Like ``Node.publish``, options included."""
        return await self._run(timeout, self._node.publish, topic, payload, **how)  # type: ignore[no-any-return]

    @overload
    async def publish_batch(self, topic: str, payloads: Iterable[Any], **how: Any) -> Published: ...
    @overload
    async def publish_batch(self, topic: Iterable[tuple[str, Any]], **how: Any) -> dict[str, Published]: ...
    async def publish_batch(self, topic: Any, payloads: Any = None, *, timeout: float = 5.0, **how: Any) -> Any:
        """Like ``Node.publish_batch``; another thread goes through ``payloads``."""
        return await self._run(timeout, self._node.publish_batch, topic, payloads, **how)

    def topic(self, name: str, *, host: str = "speedd.topics") -> AsyncTopic:
        """Like ``Node.topic``."""
        from speed.aio_topic import AsyncTopic

        return AsyncTopic(self._node.topic(name, host=host))

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Like ``Node.receive``. Cancelled, it leaves the message for the next one who asks."""
        for message in self._in_hand.over():
            self._threads.run(None, message.done)  # a commit may wait for the disk
        with place_given_up():
            fetched = await self._fetched(None if timeout is None else in_seconds(timeout))
        return None if fetched is None else self._in_hand.give(fetched.message)

    async def _fetched(self, timeout: float | None) -> Fetched | None:
        if timeout is not None and timeout <= 0:
            return await asyncio.wrap_future(self._threads.run(None, self._receiving.fetch_at_once))
        asked = self._receiving.ask()
        try:
            await asyncio.wait((waiting := asyncio.wrap_future(asked),), timeout=timeout)
            return None if asked.cancel() else await waiting
        except asyncio.CancelledError:
            asked.cancel()
            asked.add_done_callback(self._receiving.put_back)
            raise

    async def messages(self) -> AsyncIterator[Message]:
        """Like ``Node.messages``: ends when the node is closed."""
        from speed.errors import NodeClosedError

        while True:
            try:
                message = await self.receive()
            except NodeClosedError:
                return
            if message is not None:
                yield message

    # --- access and other nodes ---

    async def allow(self, *patterns: str) -> None:
        """Like ``Node.allow``."""
        await self._wait(self._node.allow, *patterns)

    async def ready(self) -> None:
        """Like ``Node.ready``."""
        await self._wait(self._node.ready)

    async def deny(self, *patterns: str) -> None:
        """Like ``Node.deny``."""
        await self._wait(self._node.deny, *patterns)

    async def nodes(self, fabric: str | None = None) -> list[Entry]:
        """Like ``Node.nodes``."""
        return await self._wait(self._node.nodes, fabric)  # type: ignore[no-any-return]

    async def wait_for(self, target: str, *, timeout: float = 10.0) -> Entry:
        """Like ``Node.wait_for``."""
        return await self._run(timeout, self._node.wait_for, target)  # type: ignore[no-any-return]

    async def remove_stale(self) -> list[str]:
        """Like ``Node.remove_stale``."""
        return await self._wait(self._node.remove_stale)  # type: ignore[no-any-return]

    # --- life ---

    @property
    def generation(self) -> int:
        """As of ``Node``."""
        return self._node.generation

    @property
    def closed(self) -> bool:
        """As of ``Node``."""
        return self._node.closed

    async def close(self, **how: Any) -> None:
        """Like ``Node.close``, options included: it waits for work in flight without blocking the loop."""
        if not self._node.closed:
            await self._wait(self._node.close, **how)

    async def __aenter__(self) -> AsyncNode:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, timeout: float, verb: Any, *arguments: Any, **named: Any) -> Any:
        """A verb on another thread, to end in time however long it waits for its turn."""
        return await self._wait(_within(timeout, verb), *arguments, **named)

    async def _wait(self, verb: Any, *arguments: Any, **named: Any) -> Any:
        with place_given_up():
            return await asyncio.wrap_future(self._threads.run(None, verb, *arguments, **named))

    def _finish_in_hand(self) -> None:
        """On close what ``receive`` returned last counts as handled."""
        for message in self._in_hand.all():
            message.done()

    def _stop(self) -> None:
        """The node is closed."""
        self._receiving.stop()
        self._starts.stop()
        self._threads.stop()


def _within(timeout: float | None, verb: Callable[..., Any]) -> Callable[..., Any]:
    """``verb``, to end in time however long it waits for its turn."""
    deadline = monotonic() + in_seconds(timeout)
    return lambda *arguments, **named: verb(*arguments, timeout=max(0.0, deadline - monotonic()), **named)


def _withdraw(starting: Future[Any]) -> None:
    """A call was cancelled while it was written: one that was is withdrawn."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().cancel()
