"""The asyncio face of a node: the same verbs, awaited. It never blocks the loop, and has threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from speed.runtime.futures import CallFuture
from speed.runtime.message import Message
from speed.runtime.published import Published
from speed.runtime.threads import Threads
from speed.runtime.workers import place_given_up

if TYPE_CHECKING:
    from speed.messaging import Fetched
    from speed.node import Node


class AsyncNode:
    """Reached as ``node.aio``; usable from any event loop, several at once.

    A cancelled ``call`` is withdrawn; any other verb that has begun goes on, and its outcome is dropped.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._threads = Threads(node.name)
        self._in_hand: Message | None = None

    async def call(
        self, target: str, service: str, arguments: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """Like ``Node.call``; calls to one node start in order."""
        with place_given_up():
            starting = self._threads.run(target, self._node.submit, target, service, arguments, timeout=timeout)
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
        return await self._run(self._node.send, target, payload, ack=ack, timeout=timeout, **how)  # type: ignore[no-any-return]

    async def publish(self, topic: str, payload: Any, *, timeout: float = 5.0, **how: Any) -> Published:
        """Like ``Node.publish``, options included."""
        return await self._run(self._node.publish, topic, payload, timeout=timeout, **how)  # type: ignore[no-any-return]

    async def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Like ``Node.ping``."""
        return await self._run(self._node.ping, target, timeout=timeout)  # type: ignore[no-any-return]

    async def _run(self, verb: Any, *arguments: Any, **named: Any) -> Any:
        with place_given_up():
            return await asyncio.wrap_future(self._threads.run(None, verb, *arguments, **named))

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Like ``Node.receive``. Cancelled, it leaves the message for the next one who asks."""
        before, self._in_hand = self._in_hand, None
        fetch = self._node._fetching(timeout)
        fetching: Future[Fetched | None] = self._threads.run(None, fetch, before)
        try:
            fetched = await asyncio.wrap_future(fetching)
        except asyncio.CancelledError:
            fetch.abandon()
            fetching.add_done_callback(fetch.put_back)
            raise
        if fetched is None:
            return None
        self._in_hand = fetched.message
        return fetched.message

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
        message, self._in_hand = self._in_hand, None
        if message is not None:
            message.done()

    def _stop(self) -> None:
        """The node is closed."""
        self._threads.stop()


def _withdraw(starting: Future[Any]) -> None:
    """A call was cancelled while it was written: one that was is withdrawn."""
    if not starting.cancelled() and starting.exception() is None:
        starting.result().cancel()
