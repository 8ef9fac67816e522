"""A producer: what it sends is kept in its order, and answered in its order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from speed.core import counters
from speed.errors import SpeedError
from speed.gateway import frames
from speed.gateway.connection import TRY_AGAIN, ClientConnection, TopicClient, set_within, start_task
from speed.gateway.encryption import Sealer, Sealing
from speed.gateway.frames import MessageId, PublishRefusedError
from speed.gateway.settings import HEAVY_SECONDS, MAX_PENDING_BYTES, Counters
from speed.topics.backend import unix_ms
from speed.topics.subscription import SubscriptionError

_NUMBERS = {"DENIED": frames.NOT_ALLOWED, "INVALID_ARGUMENTS": frames.NOT_ENCODED}


class _Pending(NamedTuple):
    """One frame that is to be answered: with a message to be kept, or why there is none."""

    context: str | None
    message: dict[str, Any] | None
    refusal: PublishRefusedError | None


class ProducerPlace(NamedTuple):
    """Who publishes where, and how."""

    caller: str
    topic: str
    name: str
    sealer: Sealer
    first_sequence: int
    max_pending: int


class ProducerConversation:
    """One reads, one publishes: what came while a batch was written is the next batch, one write each."""

    def __init__(
        self, topics: TopicClient, counters: Counters, place: ProducerPlace, done: Callable[[], None] = lambda: None
    ) -> None:
        """``done`` is called at the end."""
        self._topics, self._counters, self._place, self._done = topics, counters, place, done
        self._sequence = place.first_sequence
        self._pending: deque[_Pending] = deque()
        self._bytes = 0
        self._came, self._went = asyncio.Event(), asyncio.Event()
        self._is_closing = False

    async def run(self, connection: ClientConnection) -> None:
        publishing = start_task(connection, self._publish_all(connection))
        try:
            async for data in connection.frames():
                self._take(data, await self._place.sealer.current())
                connection.weigh(len(data))
                while (self._is_full or connection.is_heavy) and not publishing.done():
                    self._went.clear()
                    await set_within(self._went, HEAVY_SECONDS)
        except SpeedError as error:
            await connection.end(TRY_AGAIN, f"{error.code}: no data key can be had")
        finally:
            self._is_closing = True
            self._came.set()
            await publishing

    async def close(self) -> None:
        """Its name is free again."""
        self._done()

    @property
    def _is_full(self) -> bool:
        return len(self._pending) >= self._place.max_pending or self._bytes >= MAX_PENDING_BYTES

    def _take(self, data: str | bytes, sealing: Sealing | None) -> None:
        context = None
        try:
            publication = frames.read_publication(data)
            context = frames.text_of(publication.context)
            pending = _Pending(context, frames.message_of(publication, sealing, unix_ms()), None)
        except PublishRefusedError as error:
            pending = _Pending(context, None, error)
        self._pending.append(pending)
        self._bytes += len(data)
        self._came.set()

    async def _publish_all(self, connection: ClientConnection) -> None:
        """Until the connection is closed and everything that came is kept; replies to nobody are dropped."""
        is_there = True
        try:
            while self._pending or not self._is_closing:
                size = self._bytes
                replies = await self._kept(self._batch())
                is_there = is_there and await connection.tell(*replies)
                connection.weigh(-size)
                self._went.set()
                if not self._pending:
                    await self._came.wait()
                self._came.clear()
        finally:
            self._went.set()

    def _batch(self) -> list[_Pending]:
        batch = list(self._pending)
        self._pending.clear()
        self._bytes = 0
        return batch

    async def _kept(self, batch: list[_Pending]) -> list[str]:
        """Keep a batch by one write, or none of it; the replies."""
        messages = [self._numbered(one.message) for one in batch if one.message is not None]
        try:
            ids = iter(await self._publish(messages) if messages else [])
        except SubscriptionError as error:
            failed = PublishRefusedError(_NUMBERS.get(error.code, frames.NOT_WRITTEN), str(error))
            batch = [one._replace(message=None, refusal=one.refusal or failed) for one in batch]
            ids = iter(())
        refused = [one for one in batch if one.refusal is not None]
        self._counters.count(counters.GATEWAY_MESSAGES_PUBLISHED, len(batch) - len(refused))
        self._counters.count(counters.GATEWAY_MESSAGES_REFUSED, len(refused))
        return [
            frames.kept(next(ids), one.context) if one.refusal is None else frames.not_kept(one.refusal, one.context)
            for one in batch
        ]

    def _numbered(self, message: dict[str, Any]) -> dict[str, Any]:
        """With the producer's next sequence, if repetitions are to be recognised."""
        if self._sequence:
            message["sequence"] = self._sequence
            self._sequence += 1
        return message

    async def _publish(self, messages: list[dict[str, Any]]) -> list[MessageId]:
        place = self._place
        named = {"producer": place.name} if place.name else {}
        answer = await self._topics.ask(place.caller, "publish", topic=place.topic, messages=messages, **named)
        ledger = frames.ledger_of(answer["lane"])
        ids = [MessageId(ledger, one) for one in answer["offsets"]]
        for place in answer["repeated"]:
            ids[place] = frames.REPEATED
        return ids
