"""The asyncio face of a node: the same verbs, awaited. It never blocks the loop, and has threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, Any

from speed.runtime.futures import CallFuture
from speed.runtime.message import Message
from speed.runtime.options import in_seconds
from speed.runtime.published import Published
from speed.runtime.receiving import Fetched, InHand
from speed.runtime.threads import Threads
from speed.runtime.workers import place_given_up

if TYPE_CHECKING:
    from speed.node import Node


class AsyncNode:
    """Reached as ``node.aio``; usable from any event loop, several at once.

    A cancelled ``call`` is withdrawn; any other verb that has begun goes on, and its outcome is dropped.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._begin()

    def _begin(self) -> None:
        """Also in a forked child: the threads are the parent's, and the node says so to who asks for new ones."""
        self._starts = Threads(self._node.name, "start")
        self._threads = Threads(self._node.name, "await")
        self._receiving = self._node._receiving()
        self._in_hand = InHand()

    async def call(
        self, target: str, service: str, arguments: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """Like ``Node.call``; calls to one node start in order."""
        with place_given_up():
            starting = self._starts.run(target, _within(timeout, self._node.submit), target, service, arguments)
            try:
                future = await asyncio.wrap_future(starting)
            except asyncio.CancelledError:
                starting.add_done_callback(_withdraw)
                raise
            if isinstance(future, CallFuture):
                future.callbacks_are_brief = True  # they wake the loop, even while all workers wait for it
            return await asyncio.wrap_future(future)

    async def send(self, target: str, payload: Any, *, ack: bool = False, timeout: float = 5.0, **how: Any) -> str:
        """Like ``Node.send``, options included; a wait for room or acknowledgement does not block the loop."""
        return await self._run(timeout, self._node.send, target, payload, ack=ack, **how)  # type: ignore[no-any-return]

    async def publish(self, topic: str, payload: Any, *, timeout: float = 5.0, **how: Any) -> Published:
        """Like ``Node.publish``, options included."""
        return await self._run(timeout, self._node.publish, topic, payload, **how)  # type: ignore[no-any-return]

    async def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Like ``Node.ping``."""
        return await self._run(timeout, self._node.ping, target)  # type: ignore[no-any-return]

    async def _run(self, timeout: float, verb: Any, *arguments: Any, **named: Any) -> Any:
        with place_given_up():
            return await asyncio.wrap_future(self._threads.run(None, _within(timeout, verb), *arguments, **named))

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Like ``Node.receive``. Cancelled, it leaves the message for the next one who asks."""
        for message in self._in_hand.over():
            self._threads.run(None, message.done)  # a commit may wait for the disk
        with place_given_up():
            fetched = await self._fetched(timeout)
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
