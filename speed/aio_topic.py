"""Durable topics for asyncio: ``node.aio.topic("orders")``. What is not here is as in ``speed.topic``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from speed.core.topic_messages import due_ms, outgoing
from speed.errors import AccessDeniedError, ApplicationError, ConfigurationError
from speed.topic import Topic, offsets_of
from speed.topic_consumer import Consumer
from speed.topic_host import (
    AWAY,
    GRACE_SECONDS,
    PAUSE_SECONDS,
    WAIT_SECONDS,
    TopicMessage,
    TopicOffset,
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

    async def publish(self, payload: Any, *, timeout: float = 30.0, **how: Any) -> TopicOffset:
        """Like ``Topic.publish``."""
        due = due_ms(how.pop("deliver_after", None), how.pop("deliver_at_ms", None), int(time.time() * 1000))
        named = {"producer": how.pop("producer", ""), "owner": how.pop("owner", "")}
        sequence = how.pop("sequence", 0)
        one = outgoing(pack(payload, "payload"), how.pop("key", None), how.pop("properties", None), due, sequence)
        if how:
            raise ConfigurationError(f"publish does not know {', '.join(sorted(how))}")
        answer = await self._call("publish", {"topic": self.name, "messages": [one], **named}, timeout)
        return offsets_of(answer)[0]

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

    @cached_property
    def _closed(self) -> asyncio.Event:
        return asyncio.Event()

    async def _call(self, service: str, arguments: Mapping[str, Any], timeout: float = 30.0) -> Any:
        own = self._consumer
        return await _asked(own._node, own._host, service, dict(arguments), timeout)

    async def receive(self, timeout: float | None = None) -> TopicMessage | None:
        """Like ``Consumer.receive``: None at once when the consumer is closed. Cancelled, it loses nothing."""
        fetched = self._consumer._fetched
        if not self._closed.is_set() and not self._lock.locked() and (message := fetched.next()) is not None:
            return message
        receiving = asyncio.ensure_future(self._receive(timeout))
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((receiving, closing), return_when=asyncio.FIRST_COMPLETED)
            return receiving.result() if receiving.done() else None
        except asyncio.CancelledError:
            if receiving.done() and not receiving.cancelled() and receiving.exception() is None:
                fetched.give_back(receiving.result())
            raise
        finally:
            closing.cancel()
            receiving.cancel()

    async def _receive(self, timeout: float | None) -> TopicMessage | None:
        ends = None if timeout is None else time.monotonic() + checked_seconds("timeout", timeout)
        fetched = self._consumer._fetched
        async with self._lock:
            while not self._closed.is_set():
                message = fetched.next()
                if message is not None:
                    return message
                left = WAIT_SECONDS if ends is None else ends - time.monotonic()
                seconds = max(0.0, min(left, WAIT_SECONDS))
                has_some = await (self._begin() if fetched.has_more else self._fetch(seconds))
                if not has_some and ends is not None and time.monotonic() >= ends:
                    return None
        return None

    async def _begin(self) -> bool:
        fetched = self._consumer._fetched
        return await self._told("begin", fetched.beginning(), 0.0, fetched.begun)

    async def _fetch(self, seconds: float) -> bool:
        fetched = self._consumer._fetched
        return await self._told("receive", fetched.question(seconds), seconds, fetched.take)

    async def _told(
        self, service: str, question: Mapping[str, Any], seconds: float, take: Callable[[Mapping[str, Any]], bool]
    ) -> bool:
        try:
            began = time.monotonic()
            if take(await self._call(service, question, seconds + GRACE_SECONDS)):
                return True
            if time.monotonic() - began >= PAUSE_SECONDS:
                return False
        except AWAY:
            pass
        except ApplicationError as error:
            if not is_unknown(error):
                raise
            if not self._consumer._closing.is_set():
                await asyncio.to_thread(self._consumer._join_again)
            return False
        await asyncio.sleep(min(seconds, PAUSE_SECONDS))
        return False

    async def __aiter__(self) -> AsyncIterator[TopicMessage]:
        while (message := await self.receive()) is not None:
            yield message

    async def acknowledge(self, *messages: TopicMessage) -> int:
        """Like ``Consumer.acknowledge``."""
        fetched = self._consumer._fetched
        questions = fetched.acknowledgements(messages)
        return sum([fetched.settled(await self._call("acknowledge", question)) for question in questions])

    async def acknowledge_until(self, message: TopicMessage) -> int:
        """Like ``Consumer.acknowledge_until``."""
        fetched = self._consumer._fetched
        (question,) = fetched.acknowledgements([message], until=True)
        return fetched.settled(await self._call("acknowledge", question))

    async def reject(self, *messages: TopicMessage, delay: float | None = None) -> int:
        """Like ``Consumer.reject``."""
        return int((await self._call("reject", self._consumer._fetched.rejection(messages, delay)))["rejected"])

    async def close(self) -> None:
        """Like ``Consumer.close``: ends whoever awaits messages, at once."""
        self._closed.set()
        await asyncio.to_thread(self._consumer.close)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
