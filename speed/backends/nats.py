"""NATS with JetStream: a message is one of a subject, which is its topic (B-1).

nats-py runs on an event loop; it connects anew by itself, and forgets then what it asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from nats import errors
from nats.aio.client import Client
from nats.js import api
from nats.js import errors as js_errors

from speed.backends.address import UNTRUSTED, Address, is_untrusted, tls_context
from speed.backends.backend import (
    EVERY,
    MAX_AT_ONCE,
    REFRESH_SECONDS,
    BackendAwayError,
    BackendError,
    BackendFullError,
    BackendRefusedError,
    Delivered,
    Loop,
    Namespaces,
    Outgoing,
    TakesAll,
    nats_durable,
    nats_filter,
    nats_stream,
    nats_subjects,
    too_large,
)
from speed.backends.records import data_and_headers, delivered_of_nats

Result = TypeVar("Result")

MAX_PENDING = 4000
"""Messages of all threads that are sent and not confirmed."""
PULL_MESSAGES = 256
PULL_SECONDS = 30.0
MAX_ACK_PENDING = 10_000
_ANSWER_SECONDS = 5.0
_OTHERS = ("KV_", "OBJ_", "$")
"""Streams that JetStream makes for what are no messages."""
_GIVEN_BACK = b'-NAK {"delay": 200000000}'
"""After 0.2 seconds, when somebody may ask: servers of version 2.9 mix up what comes again while nobody does, and send
it a lease later."""
_FULL = frozenset({10002, 10023, 10028, 10047, 10077})
_TOO_LARGE_CODE = 10054
_REFUSALS = {
    10058: "the stream: there is another one of its name",
    10065: "to make a stream for the subject: another one has some of its subjects",
    10026: "another stream",
    10027: "another stream",
    10148: "another position for the group",
    10013: "another position for the group",
}


def error_of(error: BaseException, noted: BaseException | None = None) -> Exception:
    """What an error of nats-py means; texts that name an account or a subject are not told."""
    name = type(error).__name__
    if is_untrusted(error):
        return BackendRefusedError(f"NATS: {UNTRUSTED}")
    if _is_refusal(error):
        return BackendRefusedError("NATS refuses the credentials")
    if isinstance(error, errors.MaxPayloadError):
        return too_large("max_payload of the server")
    if isinstance(error, js_errors.APIError) and error.err_code:
        return _of_jetstream(error.err_code, error.code or 0)
    if noted is not None and "permissions" in str(noted).lower():
        return BackendRefusedError("NATS refuses a subject to this user: check its permissions, those of $JS.API too")
    return BackendAwayError(f"NATS does not answer ({name}): try again")


def _of_jetstream(code: int, status: int) -> Exception:
    if code in _FULL:
        return BackendFullError(f"JetStream has no room ({code}): its limits, or those of the stream, are reached")
    if code == _TOO_LARGE_CODE:
        return too_large("max_msg_size of the stream")
    if code in _REFUSALS:
        return BackendRefusedError(f"JetStream refuses {_REFUSALS[code]} ({code})")
    if status == 503:
        return BackendAwayError(f"JetStream does not answer ({code}): try again")
    return BackendError(f"JetStream: {code}")


def _is_refusal(error: BaseException | None) -> bool:
    text = str(error).lower()
    return isinstance(error, errors.AuthorizationError) or "authorization" in text or "authentication" in text


class NatsBackend(TakesAll):
    """One account. Streams are made where no stream takes a topic."""

    has_groups = True
    max_at_once = MAX_AT_ONCE
    takes_ahead = True

    def __init__(self, address: Address, max_message_bytes: int) -> None:
        self._address = address
        self._tls = tls_context(address)
        self._loop = Loop("NATS")
        self._client: Any = None
        self._context: Any = None
        self._turn: asyncio.Lock | None = None
        self._changed: asyncio.Event
        """The connection is there again, or closed."""
        self._noted: BaseException | None = None
        """The last error that came by itself."""
        self._streams: set[str] = set()
        """Topics that a stream takes."""
        self.connections = 0
        """Grows with each connection, and when one is lost: what was asked for on another is forgotten."""

    # --- the connection; on the loop ---

    async def connected(self) -> Any:
        """The client, once it is connected."""
        if self._turn is None:
            self._turn, self._changed = asyncio.Lock(), asyncio.Event()
        async with self._turn:
            if self._client is None or self._client.is_closed:
                self._client = await self._connect()
                self._context = self._client.jetstream(timeout=_ANSWER_SECONDS)
                self._streams.clear()
            while not self._client.is_connected:
                if self._client.is_closed:
                    raise error_of(self._noted or errors.ConnectionClosedError())
                self._changed.clear()
                await self._changed.wait()
            return self._client

    async def _connect(self) -> Any:
        refusing: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._noted = None

        async def note(error: Exception) -> None:
            self._noted = error
            if (_is_refusal(error) or is_untrusted(error)) and not refusing.done():
                refusing.set_result(error)  # a reset of the connection may follow, and says less

        async def lost() -> None:
            self.connections += 1  # at once: nats-py listens on the next one before it tells of it

        async def again() -> None:
            self._changed.set()

        async def closed() -> None:
            self._changed.set()

        client = Client()
        callbacks: dict[str, Any] = {
            "error_cb": note,
            "disconnected_cb": lost,
            "reconnected_cb": again,
            "closed_cb": closed,
        }
        connecting: asyncio.Future[Any] = asyncio.ensure_future(client.connect(**self._settings(), **callbacks))
        waited: set[asyncio.Future[Any]] = {connecting, refusing}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise refusing.result()
            await connecting
        except (errors.Error, OSError) as error:
            raise error_of(error) from None
        finally:
            refusing.cancel()
            connecting.cancel()
        self.connections += 1
        return client

    def _settings(self) -> dict[str, Any]:
        address = self._address
        scheme = "tls" if address.tls else "nats"
        own: dict[str, Any] = {"tls": self._tls} if self._tls else {}
        password = address.password()
        if address.user and password:
            own |= {"user": address.user, "password": password}
        elif address.user or password:
            own["token"] = address.user or password
        return {
            **own,
            "servers": [f"{scheme}://{host}:{port}" for host, port in address.hosts],
            "name": "speed",
            "connect_timeout": 2,
            "reconnect_time_wait": 0.2,
            "max_reconnect_attempts": -1,
            "ping_interval": 10,
        }

    # --- publishing ---

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        """Positions are sequences of streams."""
        self._noted = None
        try:
            return self._loop.run(self._publish(messages), timeout)
        except BackendAwayError:
            if self._noted is not None:
                raise error_of(errors.TimeoutError(), self._noted) from None
            raise

    async def _publish(self, messages: Sequence[Outgoing]) -> list[str]:
        await self.connected()
        for topic in {message.topic for message in messages} - self._streams:
            await self.make_stream(topic)
            self._streams.add(topic)
        sending = _NatsSending()
        try:
            await self._send(sending, messages)
            return await sending.confirmed(len(messages))
        except (errors.Error, js_errors.Error, OSError) as error:
            self._streams.clear()  # one may have been removed
            raise error_of(error, self._noted) from None

    async def _send(self, sending: _NatsSending, messages: Sequence[Outgoing]) -> None:
        """Answers come to places of one inbox; nats-py's own way tells no refusals of JetStream."""
        inbox = self._client.new_inbox()
        answers = await self._client.subscribe(f"{inbox}.*", cb=sending.answer)
        sending.end = answers.unsubscribe
        for place, message in enumerate(messages):
            if place - sending.answered >= MAX_PENDING:
                await sending.caught_up(place - MAX_PENDING // 2)
            data, headers = data_and_headers(message)
            await self._client.publish(message.topic, data, reply=f"{inbox}.{place}", headers=headers)

    async def make_stream(self, topic: str) -> None:
        """Make the stream of a topic, unless there is one."""
        try:
            if not await self.streams_of(topic):
                await self._context.add_stream(name=nats_stream(topic), subjects=nats_subjects(topic))
        except (errors.Error, js_errors.Error, OSError) as error:
            raise error_of(error, self._noted) from None

    async def streams_of(self, subjects: str) -> list[str]:
        """Names of all streams that take some of these subjects."""
        names: list[str] = []
        while True:
            request = json.dumps({"subject": subjects, "offset": len(names)}).encode()
            answer = await self._client.request("$JS.API.STREAM.NAMES", request, timeout=_ANSWER_SECONDS)
            response = json.loads(answer.data)
            if "error" in response:
                raise _of_jetstream(response["error"].get("err_code", 0), response["error"].get("code", 0))
            page = response.get("streams") or []
            names += page
            if not page or len(names) >= response["total"]:
                return [name for name in names if not name.startswith(_OTHERS)]

    # --- the rest ---

    def run(self, coroutine: Coroutine[Any, Any, Result], timeout: float) -> Result:
        """What it returns, on the loop of this connection."""
        return self._loop.run(coroutine, timeout)

    @property
    def context(self) -> Any:
        """JetStream, once it is connected."""
        return self._context

    async def made_at(self, stream: str) -> str:
        """What tells a stream from one of its name that was removed before."""
        answer = await self._client.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=_ANSWER_SECONDS)
        return str(json.loads(answer.data).get("created", ""))

    def subscribe(
        self, pattern: str, group: str, start: str, *, alone: bool = False, namespaces: Namespaces = EVERY
    ) -> NatsSubscription:
        """Join when first asked for messages."""
        lease = float(self._address.options["lease_seconds"])
        return NatsSubscription(self, self._loop, pattern, namespaces.group(group), start, lease, alone=alone)

    def ping(self, timeout: float) -> None:
        """Ask for a sign of life."""
        self._loop.run(self._ping(), timeout)

    async def _ping(self) -> None:
        client = await self.connected()
        try:
            await client.flush(_ANSWER_SECONDS)
        except (errors.Error, OSError) as error:
            raise error_of(error) from None

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            try:
                self._loop.run(self._client.close(), 2.0)
            except BackendError:
                pass  # the server is away
        self._loop.close()


class _NatsSending:
    """Messages that were sent and are not confirmed."""

    def __init__(self) -> None:
        self.positions: dict[int, str] = {}
        self.answered = 0
        self.failure: Exception | None = None
        self.end: Callable[[], Awaitable[None]] | None = None
        self._something = asyncio.Event()

    async def answer(self, message: Any) -> None:
        """Called by nats-py."""
        self.answered += 1
        response = json.loads(message.data or b"{}")
        if "seq" in response and "error" not in response:
            self.positions[int(message.subject.rpartition(".")[2])] = str(response["seq"])
        elif self.failure is None:
            failed = response.get("error", {"code": 503})  # nobody listens: there is no stream
            self.failure = _of_jetstream(failed.get("err_code", 0), failed.get("code", 0))
        self._something.set()

    async def caught_up(self, count: int) -> None:
        """Until so many are answered."""
        while self.answered < count and self.failure is None:
            self._something.clear()
            await self._something.wait()
        if self.failure is not None:
            raise self.failure

    async def confirmed(self, count: int) -> list[str]:
        """Their positions, once all are answered."""
        try:
            await self.caught_up(count)
        finally:
            assert self.end is not None
            await self.end()
        return [self.positions[place] for place in range(count)]


class _Pull:
    """What was asked of one stream and has not come yet."""

    def __init__(self) -> None:
        self.missing = 0
        self.until = 0.0

    def is_due(self, now: float) -> bool:
        """Whether to ask again."""
        return self.missing <= 0 or now >= self.until


class NatsSubscription:
    """A member of the group: it pulls from the group's consumer in each stream. All of it runs on the loop."""

    def __init__(
        self,
        backend: NatsBackend,
        loop: Loop,
        pattern: str,
        group: str,
        start: str,
        lease_seconds: float,
        *,
        alone: bool,
    ) -> None:
        self._backend, self._loop = backend, loop
        self._pattern, self._start, self._lease = pattern, start, lease_seconds
        self._durable = nats_durable(group, pattern)
        self._is_alone = alone
        self._consumers: dict[str, str] = {}
        """The consumer that is used, by stream."""
        self._lanes: dict[str, str] = {}
        """Of one that is alone: its streams, and what tells each from one of its name before."""
        self._arrived: deque[Any] = deque()
        self._held: set[str] = set()
        """Where to acknowledge what is neither acknowledged nor given up, arrived messages included."""
        self._something: asyncio.Event | None = None
        self._connection = 0
        self._inbox = ""
        self._subscription: Any = None
        self._pulls: dict[str, _Pull] = {}
        self._names: list[str] = []
        self._look_again = 0.0
        self._renewing: Any = None
        self._positions: dict[str, str] = {}

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """BackendAwayError if the server cannot be reached in that time."""
        return self._loop.run(self._receive(limit, timeout), timeout + _ANSWER_SECONDS)

    async def _receive(self, limit: int, timeout: float) -> list[Delivered]:
        now = asyncio.get_running_loop().time
        deadline = now() + timeout
        try:
            await asyncio.wait_for(self._open(), max(timeout, 0.5))
            while not self._arrived and now() < deadline:
                await self._ask(limit, now())
                await self._wait(min(deadline, self._look_again) - now())
        except asyncio.TimeoutError:
            raise BackendAwayError("NATS did not answer in time: try again") from None
        except (errors.Error, js_errors.Error, OSError) as error:
            raise error_of(error) from None
        return [self._delivered(self._arrived.popleft()) for _ in range(min(limit, len(self._arrived)))]

    async def _wait(self, seconds: float) -> None:
        assert self._something is not None
        self._something.clear()
        try:
            await asyncio.wait_for(self._something.wait(), max(0.0, min(seconds, 1.0)))
        except asyncio.TimeoutError:
            pass

    async def _open(self) -> None:
        """Listen on this connection, and renew what is held."""
        client = await self._backend.connected()
        if self._something is None:
            self._something = asyncio.Event()
            self._renewing = asyncio.ensure_future(self._renew())
        if self._connection != self._backend.connections:
            for pull in self._pulls.values():
                pull.missing = 0
            self._connection = self._backend.connections
            if self._is_alone:
                await self._begin_anew()
        if self._subscription is None or self._subscription._conn is not client:
            self._inbox = client.new_inbox()
            self._subscription = await client.subscribe(f"{self._inbox}.*", cb=self._come)
            self._names, self._pulls, self._look_again = [], {}, 0.0

    async def _begin_anew(self) -> None:
        """What was on its way comes again, in its order; nothing that was asked for before comes any more."""
        listening, self._subscription = self._subscription, None
        if listening is not None:
            await listening.unsubscribe()
        self._held.clear()
        self._arrived.clear()

    async def _ask(self, limit: int, now: float) -> None:
        """Pull from each stream that owes nothing."""
        client = await self._backend.connected()
        if now >= self._look_again:
            await self._look()
            self._look_again = now + REFRESH_SECONDS
        for place, name in enumerate(self._names):
            pull = self._pulls[name]
            if pull.is_due(now):
                pull.missing, pull.until = min(limit, PULL_MESSAGES), now + PULL_SECONDS
                request = {"batch": pull.missing, "expires": int(PULL_SECONDS * 1e9)}
                subject = f"$JS.API.CONSUMER.MSG.NEXT.{name}.{self._consumers[name]}"
                await client.publish(subject, json.dumps(request).encode(), reply=f"{self._inbox}.{place}")

    async def _look(self) -> None:
        """Find the streams of the pattern; each new one gets the group's consumer."""
        subjects = nats_filter(self._pattern)
        if not self._names and self._pattern != "*":
            await self._backend.make_stream(self._pattern.removesuffix(".*"))
        for name in await self._backend.streams_of(subjects):
            if name not in self._pulls:
                await self._make_consumer(name, subjects)
                self._names.append(name)
                self._pulls[name] = _Pull()
        self._start = "earliest"  # what comes later is read from its beginning

    async def _make_consumer(self, stream: str, subjects: str) -> None:
        if self._is_alone:
            self._lanes[stream] = await self._backend.made_at(stream)
            self._consumers[stream] = await self._own_consumer(stream, subjects)
            return
        self._consumers[stream] = self._durable
        if await self._info(stream, self._durable) is None:
            new = self._start == "latest"
            policy = api.DeliverPolicy.NEW if new else api.DeliverPolicy.ALL
            await self._add(stream, subjects, self._durable, deliver_policy=policy)

    async def _own_consumer(self, stream: str, subjects: str) -> str:
        """Another one than on the connection before (B-14): that may owe something, which servers send after what is
        new, or be asked for something whose answer would go astray.

        The other is made before the first is removed, so a position is always there.
        """
        names = self._durable, f"{self._durable}=2"
        found = {name: info for name in names if (info := await self._info(stream, name)) is not None}
        if not found:
            policy = api.DeliverPolicy.NEW if self._start == "latest" else api.DeliverPolicy.ALL
            await self._add(stream, subjects, names[0], deliver_policy=policy)
            return names[0]
        current = max(found, key=lambda name: (found[name].ack_floor.stream_seq, found[name].created))
        other = next(name for name in names if name != current)
        if other in found:
            await self._backend.context.delete_consumer(stream, other)
        after = found[current].ack_floor.stream_seq
        begin = {"deliver_policy": api.DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": after + 1}
        await self._add(stream, subjects, other, **begin)
        await self._backend.context.delete_consumer(stream, current)
        return other

    async def _info(self, stream: str, name: str) -> Any:
        try:
            return await self._backend.context.consumer_info(stream, name)
        except js_errors.NotFoundError:
            return None

    async def _add(self, stream: str, subjects: str, name: str, **begin: Any) -> None:
        config = api.ConsumerConfig(
            durable_name=name,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=self._lease,
            max_ack_pending=MAX_ACK_PENDING,
            filter_subject=None if subjects == ">" else subjects,
            **begin,
        )
        await self._backend.context.add_consumer(stream, config)

    async def _come(self, message: Any) -> None:
        """Called by nats-py, for messages and for the end of a pull.

        What comes for one that is alone after its connection was lost lacks what was on its way then: it comes again.
        """
        if self._is_alone and self._connection != self._backend.connections:
            return
        pull = self._pulls.get(self._names[int(message.subject.rpartition(".")[2])]) if not message.reply else None
        if pull is not None:
            pull.missing = 0
        elif message.reply:
            metadata = message.metadata
            owed = self._pulls.get(metadata.stream)
            if owed is not None:
                owed.missing -= 1
            if message.reply not in self._held:
                self._held.add(message.reply)
                self._arrived.append(message)
        if self._something is not None:
            self._something.set()

    def _delivered(self, message: Any) -> Delivered:
        metadata = message.metadata
        self._positions[metadata.stream] = str(metadata.sequence.stream + 1)
        lane = f"{metadata.stream}/{self._lanes[metadata.stream]}" if metadata.stream in self._lanes else ""
        return delivered_of_nats(message, lane)

    async def _renew(self) -> None:
        """Tell the server, as long as this process lives, that what is held is worked on."""
        while True:
            await asyncio.sleep(self._lease / 3)
            await self._say([*self._held], b"+WPI")

    async def _say(self, replies: Sequence[str], word: bytes) -> None:
        try:
            client = await self._backend.connected()
            for reply in replies:
                await client.publish(reply, word)
        except (BackendError, errors.Error, OSError):
            pass  # what the server did not hear comes again

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """Returns when the server has read it."""
        self._loop.run(self._acknowledge([one.handle for one in delivered]), _ANSWER_SECONDS)

    async def _acknowledge(self, replies: Sequence[str]) -> None:
        client = await self._backend.connected()
        try:
            for reply in replies:
                await client.publish(reply, b"+ACK")
            await client.flush(_ANSWER_SECONDS)
        except (errors.Error, OSError) as error:
            raise error_of(error) from None
        self._held.difference_update(replies)

    def positions(self) -> dict[str, str]:
        """Behind the last message that came, by stream; the server knows which of those before are acknowledged."""
        return dict(self._positions)

    def close(self) -> None:
        """Give back what is held."""
        try:
            self._loop.run(self._close(), _ANSWER_SECONDS)
        except BackendError:
            pass  # it comes again when the lease ends

    async def _close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        if self._subscription is not None:
            try:
                client = await self._backend.connected()
                await self._subscription.unsubscribe()  # before: what is given back goes to whoever asked
                await client.flush(_ANSWER_SECONDS)
                await self._say([*self._held], _GIVEN_BACK)
                await client.flush(_ANSWER_SECONDS)
            except (errors.Error, OSError):
                pass  # the server is away
        self._held.clear()
        self._arrived.clear()


__all__ = ["NatsBackend"]
