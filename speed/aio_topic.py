"""Durable topics for asyncio: ``node.aio.topic("orders")``. What is not here is as in ``speed.topic``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from speed.core.topic_messages import due_ms, outgoing
from speed.errors import AccessDeniedError, ApplicationError, ConfigurationError
from speed.topic import Topic
from speed.topic_consumer import Consumer
from speed.topic_host import (
    AWAY,
    GRACE_SECONDS,
    PAUSE_SECONDS,
    WAIT_SECONDS,
    TopicMessage,
    is_unknown,
    outwait,
)
from speed.wire.seconds import checked_seconds
from speed.wire.value import pack

if TYPE_CHECKING:
    from speed.node import Node


async def _asked(node: Node, host: str, service: str, arguments: dict[str, Any], timeout: float) -> Any:
    """Like ``speed.topic_host.asked``."""
    ends = time.monotonic() + min(checked_seconds("timeout", timeout), GRACE_SECONDS)
    while True:
        try:
            return await node.aio.call(host, f"topics.{service}", arguments, timeout=timeout)
        except AccessDeniedError as error:
            await asyncio.to_thread(outwait, node, host, ends, error)


class AsyncTopic:
    """A durable topic for asyncio; made by ``node.aio.topic(name)``."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self.name, self.host = topic.name, topic.host

    async def _call(self, service: str, arguments: Mapping[str, Any], timeout: float = 30.0) -> Any:
        return await _asked(self._topic._node, self.host, service, dict(arguments), timeout)

    async def publish(self, payload: Any, *, timeout: float = 30.0, **how: Any) -> int | None:
        """Like ``Topic.publish``."""
        due = due_ms(how.pop("deliver_after", None), how.pop("deliver_at_ms", None), int(time.time() * 1000))
        producer, sequence = how.pop("producer", ""), how.pop("sequence", 0)
        one = outgoing(pack(payload, "payload"), how.pop("key", None), how.pop("properties", None), due, sequence)
        if how:
            raise ConfigurationError(f"publish does not know {', '.join(sorted(how))}")
        answer = await self._call("publish", {"topic": self.name, "messages": [one], "producer": producer}, timeout)
        return None if answer["offsets"][0] < 0 else int(answer["offsets"][0])

    async def consumer(self, subscription: str, **options: Any) -> AsyncConsumer:
        """Like ``Topic.consumer``, without ``on_message``: ``async for message in await topic.consumer(…)``."""
        return AsyncConsumer(await asyncio.to_thread(self._topic.consumer, subscription, **options))


class AsyncConsumer:
    """One consumer of a subscription, for asyncio: ``async for message in consumer``. For one task at a time."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.topic, self.subscription, self.name = consumer.topic, consumer.subscription, consumer.name

    @cached_property
    def _lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    async def _call(self, service: str, arguments: Mapping[str, Any], timeout: float = 30.0) -> Any:
        own = self._consumer
        return await _asked(own._node, own._host, service, dict(arguments), timeout)

    async def receive(self, timeout: float | None = None) -> TopicMessage | None:
        """Like ``Consumer.receive``. Cancelled, it loses nothing."""
        ends = None if timeout is None else time.monotonic() + checked_seconds("timeout", timeout)
        async with self._lock:
            while (message := self._consumer._fetched.next()) is None:
                left = WAIT_SECONDS if ends is None else ends - time.monotonic()
                if not await self._fetch(max(0.0, min(left, WAIT_SECONDS))) and ends and time.monotonic() >= ends:
                    return None
            return message

    async def _fetch(self, seconds: float) -> bool:
        fetched = self._consumer._fetched
        try:
            began = time.monotonic()
            if fetched.take(await self._call("receive", fetched.question(seconds), seconds + GRACE_SECONDS)):
                return True
            if time.monotonic() - began >= PAUSE_SECONDS:
                return False
        except AWAY:
            pass
        except ApplicationError as error:
            if not is_unknown(error):
                raise
            await asyncio.to_thread(self._consumer._join_again)
            return False
        await asyncio.sleep(min(seconds, PAUSE_SECONDS))
        return False

    async def __aiter__(self) -> AsyncIterator[TopicMessage]:
        while (message := await self.receive()) is not None:
            yield message

    async def acknowledge(self, *messages: TopicMessage) -> int:
        """Like ``Consumer.acknowledge``."""
        what = self._consumer._fetched.acknowledgement(messages, until=False)
        return int((await self._call("acknowledge", what))["acknowledged"])

    async def acknowledge_until(self, message: TopicMessage) -> int:
        """Like ``Consumer.acknowledge_until``."""
        what = self._consumer._fetched.acknowledgement([message], until=True)
        return int((await self._call("acknowledge", what))["acknowledged"])

    async def reject(self, *messages: TopicMessage, delay: float | None = None) -> int:
        """Like ``Consumer.reject``."""
        return int((await self._call("reject", self._consumer._fetched.rejection(messages, delay)))["rejected"])

    async def close(self) -> None:
        """Like ``Consumer.close``."""
        await asyncio.to_thread(self._consumer.close)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
