"""Conversations with clients: consumers and readers of topics, what they settle, and producers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from speed.core import counters
from speed.errors import SpeedError
from speed.gateway import frames
from speed.gateway.connection import (
    BAD_POLICY,
    FAILED,
    NORMAL,
    TRY_AGAIN,
    ClientConnection,
    DeliveryWindow,
    Membership,
    TopicClient,
    set_within,
    start_task,
)
from speed.gateway.encryption import HeldKeys, Sealer, Sealing
from speed.gateway.frames import ClientDelivery, MessageId, PublishRefusedError
from speed.gateway.settings import (
    HEAVY_SECONDS,
    KEYS_AWAY_SECONDS,
    LEAST_REST_SECONDS,
    LOOK_SECONDS,
    MAX_AT_ONCE,
    MAX_PENDING_BYTES,
    MAX_SETTLEMENTS,
    TAKEN_SECONDS,
    Counters,
    HandshakeError,
    refused,
)
from speed.message.errors import KeyUnavailableError
from speed.topics.backend import unix_ms
from speed.topics.subscription import SubscriptionError

CONSUME = "CONSUME"


class Fate(Enum):
    """What becomes of a message."""

    SENT = "it is sent"
    HIDDEN = "FAIL"
    """It is not sent, and not acknowledged either."""
    DISCARDED = "DISCARD"
    """It is acknowledged, and not sent."""


class Opener:
    """Opens messages for one consumer or reader; without any keys they are sent as they are."""

    def __init__(self, held: HeldKeys, action: str, counters: Counters) -> None:
        """``action`` is FAIL, DISCARD or CONSUME."""
        self._held, self._action, self._counters = held, action, counters
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Wait for no more keys."""
        self._ended.set()

    async def open(self, topic: str, row: Sequence[Any], message: ClientDelivery) -> Fate:
        """Open ``message``, which is the host's ``row`` of ``topic``; while its keys are away it waits for them."""
        context = message.encryption_context
        if not self._held or isinstance(context, msgspec.UnsetType):
            return Fate.SENT
        while not self._ended.is_set():
            try:
                message.payload = await self._held.opened(topic, row[2], context, message.payload)
            except KeyUnavailableError:
                if self._action == CONSUME:
                    return Fate.SENT
                await set_within(self._ended, KEYS_AWAY_SECONDS)
            except SpeedError:
                self._counters.count(counters.GATEWAY_MESSAGES_UNOPENED)
                return Fate.SENT if self._action == CONSUME else Fate(self._action)
            else:
                message.encryption_context = msgspec.UNSET
                return Fate.SENT
        return Fate.HIDDEN


class ConsumerConversation:
    """One reads commands, one settles, one sends; each by its own events."""

    def __init__(
        self,
        topics: TopicClient,
        counters: Counters,
        memberships: Sequence[Membership],
        window: DeliveryWindow,
        opener: Opener,
    ) -> None:
        self._topics, self._counters, self._window = topics, counters, window
        self._memberships, self._opener = memberships, opener
        self._names = [one.topic for one in memberships]
        self._wake, self._settle, self._settled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_closing = False

    async def open(self) -> None:
        """Join all. Raises HandshakeError; then none is joined."""
        self._topics.listen(self._names, self._wake)
        now = asyncio.get_running_loop().time
        ends = now() + TAKEN_SECONDS
        try:
            for one in self._memberships:
                while not await self._joined(one, ends - now()):
                    pass
        except SubscriptionError as error:
            await self.close()
            raise refused(error) from None

    async def _joined(self, membership: Membership, seconds: float) -> bool:
        """Whether it is joined; who has the subscription now may be leaving."""
        self._wake.clear()
        try:
            await membership.join()
        except SubscriptionError as error:
            if error.code != "TAKEN" or seconds <= 0:
                raise
            await set_within(self._wake, seconds)
            return False
        return True

    async def run(self, connection: ClientConnection) -> None:
        sending = start_task(connection, self._send_all(connection))
        settling = start_task(connection, self._settle_all(connection))
        try:
            async for data in connection.frames():
                if not await self._take(connection, data):
                    break
        finally:
            self._is_closing = True
            self._opener.end()
            self._wake.set()
            self._settle.set()
            await asyncio.wait([sending, settling])
        sending.result()
        settling.result()

    async def close(self) -> None:
        """Leave everything."""
        self._topics.unlisten(self._names, self._wake)
        for one in self._memberships:
            try:
                await one.leave()
            except SubscriptionError:
                pass  # it is gone, with all its consumers

    # --- commands ---

    async def _take(self, connection: ClientConnection, data: str | bytes) -> bool:
        """Whether the conversation goes on."""
        try:
            command = frames.read_command(data)
            if command.type == "isEndOfTopic":
                return await connection.tell(frames.END_OF_TOPIC)
            if command.type == "unsubscribe":
                return await self._unsubscribe(connection)
            if command.type == "permit":
                self._window.permit(command.permit_messages or 0)
            else:
                message = frames.read(frames.text_of(command.message_id) or "")
                self._note(message, is_rejected=command.type == "negativeAcknowledge")
        except ValueError as error:
            await connection.end(BAD_POLICY, str(error)[:100])
            return False
        self._wake.set()
        while sum(one.waits for one in self._memberships) >= MAX_SETTLEMENTS and not self._is_closing:
            self._settled.clear()
            await self._settled.wait()
        return True

    def _note(self, message: MessageId, *, is_rejected: bool) -> None:
        membership = next((one for one in self._memberships if one.ledger == message.ledger), None)
        is_known = self._window.settle(message)
        if membership is None:
            self._counters.count(counters.GATEWAY_ACKNOWLEDGEMENTS_REFUSED)
            return
        if is_rejected:
            membership.rejected.add(message.entry)
        else:
            (membership.acknowledged if is_known else membership.strange).add(message.entry)
        self._settle.set()

    async def _unsubscribe(self, connection: ClientConnection) -> bool:
        self._is_closing = True
        try:
            await self.close()
            for one in self._memberships:
                await one.unsubscribe()
        except SubscriptionError as error:
            await connection.end(BAD_POLICY, f"{error.code}: not unsubscribed")
        else:
            await connection.end(NORMAL, "unsubscribed")
        return False

    async def _settle_all(self, connection: ClientConnection) -> None:
        while not self._is_closing:
            self._settle.clear()
            for one in self._memberships:
                await self._settled_of(connection, one)
            self._settled.set()
            await self._settle.wait()
        for one in self._memberships:
            await self._settled_of(connection, one)
        self._settled.set()

    async def _settled_of(self, connection: ClientConnection, membership: Membership) -> None:
        try:
            if membership.waits:
                await membership.settle()
        except SubscriptionError as error:
            self._counters.count(counters.GATEWAY_ACKNOWLEDGEMENTS_REFUSED)
            if error.code != "INVALID_ARGUMENTS" and not self._is_closing:
                self._is_closing = True
                await connection.end(FAILED, f"{error.code}: not acknowledged")

    # --- messages ---

    async def _send_all(self, connection: ClientConnection) -> None:
        now = asyncio.get_running_loop().time
        try:
            while not self._is_closing:
                self._wake.clear()
                sent = [await self._send_some(connection, one, now) for one in self._memberships]
                if not any(sent):
                    await self._rest(connection)
        except SubscriptionError as error:
            if not self._is_closing:
                await connection.end(BAD_POLICY, f"{error.code}: nothing more is delivered")

    async def _send_some(self, connection: ClientConnection, membership: Membership, now: Callable[[], float]) -> bool:
        """What is there of one topic, as far as there is room; whether that was anything."""
        room = 0 if connection.is_heavy else min(self._window.room(now()), MAX_AT_ONCE)
        rows = await membership.fetch(room) if room > 0 else []
        connection.weigh(sum(len(row[3]) for row in rows))
        for row in rows:
            message = frames.delivery(membership.ledger, row)
            fate = await self._opener.open(membership.topic, row, message)
            if self._is_closing:
                return False
            if fate is Fate.SENT:
                self._window.sent(MessageId(membership.ledger, row[0]), now())
                if not await connection.tell(frames.written(message)):
                    return False
                self._counters.count(counters.GATEWAY_MESSAGES_DELIVERED)
            elif fate is Fate.DISCARDED:
                membership.acknowledged.add(row[0])
                self._settle.set()
            membership.unseen.remove(row[0])
            connection.weigh(-len(row[3]))
        return bool(rows)

    async def _rest(self, connection: ClientConnection) -> None:
        """Until something may be new, or due."""
        if self._is_closing:
            return
        now = asyncio.get_running_loop().time()
        if connection.is_heavy:
            events = [HEAVY_SECONDS]
        elif self._window.room(now) > 0:
            events = [await one.until_event() for one in self._memberships]
        else:
            events = [late] if (late := self._window.until_late(now)) is not None else []
        await set_within(self._wake, max(LEAST_REST_SECONDS, min([LOOK_SECONDS, *events])))


class ReaderConversation:
    """One reads what the client settles, one sends. ``start`` is ``latest``, ``earliest``, or the message before."""

    def __init__(
        self,
        topics: TopicClient,
        counters: Counters,
        caller: str,
        topic: str,
        start: str | MessageId,
        window: DeliveryWindow,
        opener: Opener,
    ) -> None:
        self._topics, self._counters = topics, counters
        self._caller, self._topic, self._start = caller, topic, start
        self._window, self._opener = window, opener
        self._place: str | int = "latest"
        """The offset that is sent next."""
        self._wake = asyncio.Event()
        self._is_closing = False

    async def open(self) -> None:
        """Find the place. Raises HandshakeError."""
        try:
            if isinstance(self._start, MessageId):
                await self._begin_after(self._start)
            else:
                self._place = self._start
            rows = (await self._read(1))["messages"]
        except SubscriptionError as error:
            raise refused(error) from None
        if rows:
            self._place = rows[0][0]
        self._topics.listen([self._topic], self._wake)

    async def _begin_after(self, message: MessageId) -> None:
        lane = (await self._read(1))["lane"]
        if message.ledger != frames.ledger_of(lane):
            raise HandshakeError(400, "messageId is of another topic, or of one that was made anew")
        self._place = message.entry + 1

    async def run(self, connection: ClientConnection) -> None:
        sending = start_task(connection, self._send_all(connection))
        try:
            async for data in connection.frames():
                if not await self._take(connection, data):
                    break
        finally:
            self._is_closing = True
            self._opener.end()
            self._wake.set()
            await sending

    async def close(self) -> None:
        """No longer be told of what is new."""
        self._topics.unlisten([self._topic], self._wake)

    async def _take(self, connection: ClientConnection, data: str | bytes) -> bool:
        """Whether that was a command."""
        try:
            command = frames.read_command(data)
            if command.type == "isEndOfTopic":
                return await connection.tell(frames.END_OF_TOPIC)
            if command.type == "permit":
                self._window.permit(command.permit_messages or 0)
            else:
                self._window.settle(frames.read(frames.text_of(command.message_id) or ""))
        except ValueError as error:
            await connection.end(BAD_POLICY, str(error)[:100])
            return False
        self._wake.set()
        return True

    async def _send_all(self, connection: ClientConnection) -> None:
        now = asyncio.get_running_loop().time
        while not self._is_closing:
            self._wake.clear()
            room = 0 if connection.is_heavy else min(self._window.room(now()), MAX_AT_ONCE)
            try:
                answer = await self._read(room) if room > 0 else {"messages": []}
            except SubscriptionError as error:
                await connection.end(BAD_POLICY, f"{error.code}: the topic cannot be read on")
                return
            if not answer["messages"]:
                await set_within(self._wake, HEAVY_SECONDS if connection.is_heavy else LOOK_SECONDS)
            elif not await self._send(connection, answer, now):
                return

    async def _send(self, connection: ClientConnection, answer: Mapping[str, Any], now: Any) -> bool:
        ledger = frames.ledger_of(answer["lane"])
        connection.weigh(sum(len(row[3]) for row in answer["messages"]))
        for row in answer["messages"]:
            message = frames.delivery(ledger, row)
            fate = await self._opener.open(self._topic, row, message)
            if self._is_closing:
                return False
            if fate is Fate.SENT:
                self._window.sent(MessageId(ledger, row[0]), now())
                if not await connection.tell(frames.written(message)):
                    return False
                self._counters.count(counters.GATEWAY_MESSAGES_DELIVERED)
            self._place = row[0] + 1
            connection.weigh(-len(row[3]))
        return True

    async def _read(self, most: int) -> dict[str, Any]:
        answer = await self._topics.ask(self._caller, "read", topic=self._topic, start=self._place, most=most)
        if not answer["messages"]:
            self._place = answer["next"]
        return dict(answer)


# Who publishes: what it sends is kept in its order, and answered in its order.

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
