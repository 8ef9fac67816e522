"""Consumers and readers: messages of topics, opened or not, so many at a time, and what a consumer settles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from speed.core import counters
from speed.errors import SpeedError
from speed.gateway import frames
from speed.gateway.connection import BAD_POLICY, FAILED, NORMAL, ClientConnection, TopicClient, set_within, start_task
from speed.gateway.encryption import HeldKeys
from speed.gateway.frames import ClientDelivery, MessageId
from speed.gateway.settings import (
    HEAVY_SECONDS,
    KEYS_AWAY_SECONDS,
    LEAST_REST_SECONDS,
    LOOK_SECONDS,
    MAX_AT_ONCE,
    MAX_PERMITS,
    MAX_SETTLEMENTS,
    TAKEN_SECONDS,
    Counters,
    HandshakeError,
    refused,
)
from speed.message.errors import KeyUnavailableError
from speed.topics.subscription import SubscriptionError

# How many messages a consumer or reader may be sent now. No sockets, no clock.


class DeliveryWindow:
    """What a client has and did not settle, and its permits.

    Args:
        size: messages that it may have at once.
        is_pulling: whether it asks for each message; ``size`` is no bound then.
        late_seconds: after so long a message is not counted any more, as the host gives it to others; 0 for never.
    """

    def __init__(self, size: int, *, is_pulling: bool, late_seconds: float = 0.0) -> None:
        self._size, self._is_pulling, self._late = size, is_pulling, late_seconds
        self._permits = 0
        self._open: dict[MessageId, float] = {}

    def room(self, now: float) -> int:
        """How many more it may be sent."""
        if self._is_pulling:
            return self._permits
        while self._late and self._open and next(iter(self._open.values())) + self._late <= now:
            del self._open[next(iter(self._open))]
        return self._size - len(self._open)

    def until_late(self, now: float) -> float | None:
        """Seconds until the oldest message is not counted any more; None if that never comes."""
        if not self._late or not self._open:
            return None
        return max(0.0, next(iter(self._open.values())) + self._late - now)

    def permit(self, count: int) -> None:
        """It asks for so many."""
        self._permits = min(self._permits + max(0, count), MAX_PERMITS)

    def sent(self, message: MessageId, now: float) -> None:
        """It has one more."""
        self._open.pop(message, None)
        self._open[message] = now
        if self._is_pulling:
            self._permits -= 1
            self._forget()

    def _forget(self) -> None:
        """Who pulls is not bound by what it has: it may acknowledge what is not known here any more."""
        while len(self._open) > self._size:
            del self._open[next(iter(self._open))]

    def settle(self, message: MessageId) -> bool:
        """It acknowledged or refused a message; whether it had it."""
        return self._open.pop(message, None) is not None


# What happens with an encrypted message: it is opened, or its ``cryptoFailureAction`` decides.

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


class ConsumerPlace(NamedTuple):
    """Who consumes as what; ``terms`` are those of ``topics.subscribe``."""

    caller: str
    subscription: str
    consumer: str
    terms: Mapping[str, Any]
    reject_delay_ms: int


class Membership:
    """One topic of a consumer."""

    def __init__(self, topics: TopicClient, place: ConsumerPlace, topic: str, dead_letter: str) -> None:
        self.topic = topic
        self._topics, self._place, self._dead_letter = topics, place, dead_letter
        self._who = {"topic": topic, "subscription": place.subscription}
        self._got = 0
        self._lane = ""
        self.is_joined = False
        self.unseen: list[int] = []
        """Offsets that were fetched and not sent."""
        self.acknowledged: set[int] = set()
        self.strange: set[int] = set()
        """Acknowledged, and not sent on this connection: such as were sent on one before."""
        self.rejected: set[int] = set()

    @property
    def ledger(self) -> int:
        """The number that stands for the topic in ids."""
        return frames.ledger_of(self._lane)

    async def _ask(self, service: str, **arguments: Any) -> Any:
        return await self._topics.ask(self._place.caller, service, **self._who, **arguments)

    async def join(self) -> None:
        """Raises SubscriptionError."""
        aside = {"dead_letter": self._dead_letter} if self._dead_letter else {}
        answer = await self._ask("subscribe", consumer=self._place.consumer, **self._place.terms, **aside)
        self._lane, self._got, self.is_joined = answer["lane"], 0, True

    async def fetch(self, most: int) -> Sequence[Sequence[Any]]:
        """Messages that are there now. Raises SubscriptionError."""
        try:
            answer = await self._ask("receive", consumer=self._place.consumer, most=most, got=self._got)
        except SubscriptionError as error:
            if error.code != "NOT_JOINED" or not self.is_joined:
                raise
            await self.join()  # the node of this name left: what it had comes again
            return []
        self._got = answer["batch"]
        rows: list[Sequence[Any]] = answer["messages"]
        self.unseen = [row[0] for row in rows]
        return rows

    async def until_event(self) -> float:
        """Seconds after which something may be due."""
        return await self._topics.until_event(self.topic, self._place.subscription)

    async def settle(self) -> None:
        """Tell the host what was settled: one write for what was sent here, and one for the rest.

        Raises SubscriptionError; what was never delivered is refused alone.
        """
        known, strange, rejected = self.acknowledged, self.strange, self.rejected
        self.acknowledged, self.strange, self.rejected = set(), set(), set()
        if rejected:
            delay = self._place.reject_delay_ms
            await self._ask("reject", consumer=self._place.consumer, offsets=sorted(rejected), delay_ms=delay)
        for offsets in (known, strange):
            if offsets:
                await self._ask("acknowledge", lane=self._lane, offsets=sorted(offsets))

    @property
    def waits(self) -> int:
        """How many settlements the host does not know yet."""
        return len(self.acknowledged) + len(self.strange) + len(self.rejected)

    async def leave(self) -> None:
        """Its messages go to others; what was not sent counts as never delivered."""
        if self.is_joined:
            self.is_joined = False
            await self._ask("leave", consumer=self._place.consumer, unseen=self.unseen)

    async def unsubscribe(self) -> None:
        """Remove the subscription; one that is not durable went with this consumer. Raises SubscriptionError."""
        if self._place.terms["durable"]:
            await self._ask("unsubscribe")


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
