"""What a conversation stands on: its connection, with bounds; the host of the topics, asked on threads; memberships."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from speed.core import counters
from speed.gateway import frames
from speed.gateway.frames import MessageId
from speed.gateway.settings import (
    CLOCK_SECONDS,
    CLOSE_SECONDS,
    MAX_CLIENT_BYTES,
    MAX_LINE_BYTES,
    MAX_OWED_SECONDS,
    MAX_PERMITS,
    MAX_PONGS_WAITING,
    Client,
    Clients,
    Counters,
    GatewaySettings,
    HandshakeError,
    RateLimit,
)
from speed.topics.subscription import SubscriptionError

# The host of the topics, for a loop of asyncio: asked on threads, and listened to.

THREADS = 4
"""One lock is around all topics: more would wait for it."""


class Hosted(Protocol):
    """What is asked of the host."""

    def ask(self, caller: str, service: str, **arguments: Any) -> Any:
        """Raises SubscriptionError."""

    def check(self, caller: str, right: str, topic: str) -> None:
        """Raises SubscriptionError."""

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with the name of a topic whenever something may be new there."""

    def unwatch(self, callback: Callable[[str], None]) -> None:
        """Call it no more."""

    def until_event(self, topic: str, subscription: str) -> float:
        """Seconds after which something may be due without anybody's doing."""


class TopicClient:
    """For one loop; made in it. ``close`` ends the threads."""

    def __init__(self, host: Hosted, name: str) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, f"{name}-topics")
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._changed: set[str] = set()
        host.watch(self._notified)

    def check(self, caller: str, right: str, topic: str) -> None:
        """Raises SubscriptionError DENIED, UNKNOWN_TOPIC, DAMAGED."""
        self._host.check(caller, right, topic)

    async def ask(self, caller: str, service: str, **arguments: Any) -> Any:
        """What a service of the host answers to ``caller``. Raises SubscriptionError."""
        return await self.run(self._host.ask, caller, service, **arguments)

    async def until_event(self, topic: str, subscription: str) -> float:
        """Seconds after which something may be due."""
        return float(await self.run(self._host.until_event, topic, subscription))

    async def run(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call it on one of the threads."""
        return await self._loop.run_in_executor(self._threads, partial(call, *arguments, **named))

    def listen(self, topics: Iterable[str], event: asyncio.Event) -> None:
        """Set ``event`` whenever something may be new in one of ``topics``."""
        for topic in topics:
            self._waiting.setdefault(topic, set()).add(event)

    def unlisten(self, topics: Iterable[str], event: asyncio.Event) -> None:
        """No longer."""
        for topic in topics:
            waiting = self._waiting.get(topic, set())
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(topic, None)

    def _notified(self, topic: str) -> None:
        """On any thread, the host's lock held: one call into the loop for all that comes before it runs."""
        if topic not in self._waiting or topic in self._changed:
            return
        self._changed.add(topic)
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            pass  # the loop has ended

    def _wake(self) -> None:
        changed = list(self._changed)
        self._changed.difference_update(changed)
        for event in [event for topic in changed for event in self._waiting.get(topic, ())]:
            event.set()

    def close(self) -> None:
        """Wait for what is asked, and ask no more."""
        self._host.unwatch(self._notified)
        self._threads.shutdown()


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until ``event`` is set, at most for so long."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass


BAD_POLICY, GOING_AWAY, NORMAL, FAILED, TRY_AGAIN = 1008, 1001, 1000, 1011, 1013
"""Codes of closing."""
_REQUEST = re.compile(rb"GET [^ ]+ HTTP/1\.1\r?")


class Conversation(Protocol):
    """What is said on a connection that was accepted. It ends, and ``close`` is called, however that happens."""

    async def run(self, connection: ClientConnection) -> None: ...

    async def close(self) -> None: ...


def start_task(connection: ClientConnection, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run work while the connection is read. If the work fails, the connection ends."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda done: connection.cut() if done.cancelled() or done.exception() else None)
    return task


@dataclass(frozen=True)
class Gate:
    """What all connections share."""

    settings: GatewaySettings
    clients: Clients
    counters: Counters
    begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    """Have something done to its end, whatever becomes of the connection."""


class ClientConnection(ServerConnection):
    """A connection of websockets that a client cannot make grow, and that ends when the client is not there."""

    def __init__(self, *arguments: Any, gate: Gate, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._gate = gate
        self.conversation: Conversation | None = None
        self.is_running = self._is_lost = False
        self.expires = float("inf")
        """When its token expires, in Unix seconds."""
        self._who: list[str] = []
        """As whom it is counted: its address, and the subject of its token."""
        self._client: Client | None = None
        self._refusal: HandshakeError | None = None
        self._line: bytearray | None = bytearray()
        self._is_over = False
        self._bytes = 0
        self._heard = self.loop.time()
        """When the client said something, or began to be listened to again."""
        self._is_listening = False
        self._unread_since: float | None = None
        """Since when the client has not read what was sent; None if it has."""
        self._pongs = 0
        self._others = RateLimit(gate.settings.max_frames_per_second)
        """Of frames that carry no message of their own, which the reading of messages does not slow down."""

    # --- bounds ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        who = str(peer[0]) if peer else ""
        try:
            self._client = self._gate.clients.enter(who)
            self._who = [who]
            self._gate.counters.count(counters.GATEWAY_CONNECTIONS)
        except HandshakeError as refused:
            self._gate.counters.count(counters.GATEWAY_CONNECTIONS_REFUSED)
            self._turn_away(refused)

    def _turn_away(self, refusal: HandshakeError) -> None:
        """Answer when it has asked, so that it gets the answer."""
        self._refusal = refusal
        self.loop.call_later(CLOSE_SECONDS, self.cut)

    def hold(self, who: str) -> None:
        """Count it as that of ``who`` too. Raises HandshakeError 429."""
        self._client = self._gate.clients.hold(who)
        self._who.append(who)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._is_lost = True
        if self._client is not None:
            self._client.bytes -= self._bytes
        if self._who:
            address, *subjects = self._who
            self._gate.clients.leave(address)
            for one in subjects:
                self._gate.clients.release(one)
        self._abandon()

    def give(self, conversation: Conversation) -> None:
        """What is to be said on it, if it is accepted and still there."""
        self.conversation = conversation
        if self._is_lost:
            self._abandon()

    def _abandon(self) -> None:
        """Close a conversation that never began."""
        if self.conversation is not None and not self.is_running:
            self._gate.begin(self.conversation.close())
            self.conversation = None

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None and not self._is_over:
            self._refuse(self._refusal.status, str(self._refusal))
        if self._is_over or (self._line is not None and not self._is_sound(self._line, data)):
            return
        self._heard = self.loop.time()
        super().data_received(data)

    def _is_sound(self, line: bytearray, data: bytes) -> bool:
        """Whether the first line is one, as far as it came; what is none is told so."""
        line += data[: MAX_LINE_BYTES + 1]
        first, end, _ = line.partition(b"\n")
        if len(first) > MAX_LINE_BYTES:
            self._refuse(414, f"the address has more than {MAX_LINE_BYTES} bytes")
        elif end and not _REQUEST.fullmatch(first):
            self._refuse(400, "only GET of HTTP/1.1 is served")
        elif end:
            self._line = None
        return not self._is_over

    def _refuse(self, status: int, text: str) -> None:
        """Answer before there is a request."""
        self._is_over = True
        body = text.encode()
        head = f"HTTP/1.1 {status} Refused\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame) and not self._is_over:
            self._count(event)
        if not self._is_over:
            super().process_event(event)

    def _count(self, frame: Frame) -> None:
        now = self.loop.time()
        assert self._client is not None
        self._client.pace.count(now)
        if frame.opcode is Opcode.PING and self._unread_since is not None:
            self._pongs += 1
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY) or not frame.fin:
            self._others.count(now)
        is_far_ahead = self._client.pace.owed(now) > MAX_OWED_SECONDS or self._others.owed(now)
        if is_far_ahead or self._pongs > MAX_PONGS_WAITING:
            self._gate.counters.count(counters.GATEWAY_CONNECTIONS_CUT)
            self.cut()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since, self._pongs = None, 0

    def cut(self) -> None:
        """End it at once, whatever is on its way."""
        self._is_over = True
        self.transport.abort()

    # --- for conversations ---

    def weigh(self, size: int) -> None:
        """So many bytes more, or fewer, wait in memory for this client."""
        if self._client is not None and not self._is_lost:
            self._bytes += size
            self._client.bytes += size

    @property
    def is_heavy(self) -> bool:
        """Whether so much waits for this client that nothing may be added."""
        return self._client is not None and self._client.bytes >= MAX_CLIENT_BYTES

    async def frames(self) -> AsyncIterator[str | bytes]:
        """What the client sends, no faster than it may; ends when the connection does."""
        assert self._client is not None
        try:
            while True:
                self._heard, self._is_listening = self.loop.time(), True
                frame = await self.recv()
                self._is_listening = False
                if time.time() >= self.expires:
                    return
                yield frame
                if owed := self._client.pace.owed(self.loop.time()):
                    await self._closed_within(owed)
        except ConnectionClosed:
            return

    async def tell(self, *texts: str) -> bool:
        """Send each text by one write, and wait while the client does not read; False when it is gone."""
        try:
            async with self.send_context():
                for text in texts:
                    self.protocol.send_text(text.encode())
        except ConnectionClosed:
            return False
        return True

    async def watch(self) -> None:
        """Ask the client again and again whether it is there, and end the connection if not."""
        seconds = self._gate.settings.ping_seconds
        while not await self._closed_within(seconds):
            await self._ask(seconds)

    async def expire(self) -> None:
        """End the connection when the client's token expires."""
        while (left := self.expires - time.time()) > 0:
            if await self._closed_within(min(left, CLOCK_SECONDS)):
                return
        self._gate.counters.count(counters.GATEWAY_CONNECTIONS_EXPIRED)
        await self.end(BAD_POLICY, "the token has expired")

    async def _closed_within(self, seconds: float) -> bool:
        """Wait for so long, or until it is closed, which is told."""
        try:
            await asyncio.wait_for(self.wait_closed(), seconds)
        except asyncio.TimeoutError:
            pass
        return self._is_lost

    async def _ask(self, seconds: float) -> None:
        """Whether the client is there."""
        with suppress(ConnectionClosed):
            if not await self._answered_within(seconds) and self._is_deaf(seconds):
                self._gate.counters.count(counters.GATEWAY_CONNECTIONS_DEAF)
                self.cut()

    async def _answered_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._answered(), seconds)
        except asyncio.TimeoutError:
            self.pending_pings.clear()
            return False
        return True

    def _is_deaf(self, seconds: float) -> bool:
        """Whether no answer came by the client's doing: it reads nothing, or says nothing though it is listened to."""
        before = self.loop.time() - seconds
        if self._unread_since is not None:
            return self._unread_since <= before
        return self._is_listening and self._heard <= before

    async def _answered(self) -> None:
        await (await self.ping())

    async def end(self, code: int = NORMAL, reason: str = "") -> None:
        """Close it; the other side may take a few seconds for that, and no more."""
        try:
            await asyncio.wait_for(self.close(code, reason), CLOSE_SECONDS)
        except asyncio.TimeoutError:
            self.cut()


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
