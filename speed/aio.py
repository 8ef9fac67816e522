"""The asyncio face of a node: the same verbs, awaited. A thin adapter over the threads; no loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from speed.runtime.calls import CallFuture
from speed.runtime.message import Message

if TYPE_CHECKING:
    from speed.node import Node

_RECEIVE_SLICE_SECONDS = 0.25


class AsyncNode:
    """Reached as ``node.aio``; usable from any event loop, several at once. Cancelling abandons the answer."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def call(
        self, target: str, service: str, arguments: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """Like ``Node.call``."""
        future = self._node.submit(target, service, arguments, timeout=timeout)
        if isinstance(future, CallFuture):
            future.callbacks_are_brief = True  # they wake the loop, even while all workers wait for it
        return await asyncio.wrap_future(future)

    async def send(self, target: str, payload: Any, *, ack: bool = False, timeout: float = 5.0, **how: Any) -> str:
        """Like ``Node.send``, options included; a wait for room or acknowledgement does not block the loop."""
        return await asyncio.to_thread(lambda: self._node.send(target, payload, ack=ack, timeout=timeout, **how))

    async def publish(self, topic: str, payload: Any, *, timeout: float = 5.0, **how: Any) -> int:
        """Like ``Node.publish``, options included."""
        return await asyncio.to_thread(lambda: self._node.publish(topic, payload, timeout=timeout, **how))

    async def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Like ``Node.ping``."""
        return await asyncio.to_thread(lambda: self._node.ping(target, timeout=timeout))

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Like ``Node.receive``; waits in short slices so that cancelling never loses a message."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            left = _RECEIVE_SLICE_SECONDS if deadline is None else deadline - loop.time()
            slice_seconds = max(0.0, min(left, _RECEIVE_SLICE_SECONDS))
            waiting = asyncio.ensure_future(asyncio.to_thread(self._node.receive, slice_seconds))
            message = await asyncio.shield(waiting)
            if message is not None or left <= 0:
                return message

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
