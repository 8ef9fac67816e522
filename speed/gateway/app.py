"""Who may begin what: from a request to a conversation, or to an answer."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from speed.core.log import logger
from speed.errors import SpeedError
from speed.gateway.addresses import Address, TopicNames, split
from speed.gateway.connection import Connection, Conversation, Gate
from speed.gateway.consumer import Consumer, ConsumerPlace, Membership
from speed.gateway.encryption import ByClient
from speed.gateway.held_keys import HeldKeys, HeldSealer, Sealer
from speed.gateway.limits import MAX_TOPICS_EACH
from speed.gateway.opener import Opener
from speed.gateway.parameters import (
    ConsumerParameters,
    ProducerParameters,
    consumer_parameters,
    producer_parameters,
    reader_parameters,
)
from speed.gateway.producer import Producer, ProducerPlace
from speed.gateway.reader import Reader
from speed.gateway.refusal import RefusedError, refused
from speed.gateway.settings import GatewaySettings
from speed.gateway.tokens import Guest, Guests
from speed.gateway.topics import Topics
from speed.gateway.window import Window
from speed.message.errors import KeyUnavailableError
from speed.topics.subscription import SubscriptionError
from speed.wire import names

log = logger("speed.gateway")

RIGHTS = {"producer": "publish", "consumer": "consume", "reader": "consume"}
_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"


class PingPong:
    """Answers pings, as every connection does; what is said is passed over."""

    async def run(self, connection: Connection) -> None:
        async for _ in connection.frames():
            pass

    async def close(self) -> None:
        """Nothing is held."""


class App:
    """Answers requests and begins conversations. For one loop."""

    def __init__(self, settings: GatewaySettings, gate: Gate, topics: Topics, guests: Guests, held: HeldKeys) -> None:
        self._settings, self._gate, self._topics, self._guests, self._held = settings, gate, topics, guests, held
        self._names = TopicNames(settings.namespace)
        self._producers: set[tuple[str, str, str]] = set()
        """Topic and name of the producers that are here: each name once."""
        self._is_ready: Callable[[], bool] = lambda: True
        self._others: Callable[[], list[str]] = list

    def ready_if(self, is_ready: Callable[[], bool]) -> None:
        """Ask ``is_ready`` whether the topics are served."""
        self._is_ready = is_ready

    def also(self, others: Callable[[], list[str]]) -> None:
        """Have ``/metrics`` answer with these lines too; asked on a thread of the topics."""
        self._others = others

    async def answer(self, connection: Connection, request: Request) -> Response | None:
        """What to answer; None begins the conversation that ``connection`` now has."""
        try:
            self._check_host(request.headers)
            if "websocket" not in request.headers.get("Upgrade", "").lower():
                return await self._page(connection, request)
            self._check_origin(request.headers)
            await self._begin(connection, request)
        except RefusedError as error:
            self._gate.counters.count("gateway_handshakes_refused")
            return connection.respond(error.status, f"{error}\n")
        return None

    # --- where from ---

    def _check_host(self, headers: Headers) -> None:
        """A page of elsewhere can have its own name lead here: only addresses and known names are answered."""
        given = headers.get_all("Host")
        if len(given) != 1 or not _is_known(given[0], self._settings.hosts):
            raise RefusedError(403, "this host is not served under that name: see `hosts` of [gateway]")

    def _check_origin(self, headers: Headers) -> None:
        given = headers.get_all("Origin")
        scheme = "https" if self._settings.certificate else "http"
        allowed = {f"{scheme}://{headers['Host']}", *self._settings.origins}
        if any(one not in allowed for one in given):
            raise RefusedError(403, "pages of that origin may not connect: see `origins` of [gateway]")

    # --- conversations ---

    async def _begin(self, connection: Connection, request: Request) -> None:
        guest, address = self._known(request)
        if guest.has_token:
            connection.hold(f"token {guest.name}")
        connection.expires = guest.expires
        # To its end, also when the handshake takes too long: what was joined must be left again.
        await asyncio.shield(self._gate.begin(self._open_for(connection, guest, address)))

    async def _open_for(self, connection: Connection, guest: Guest, address: Address) -> None:
        connection.give(await self._opened(guest, address))

    def _known(self, request: Request) -> tuple[Guest, Address]:
        """Who asks for what. Who is not known learns nothing else."""
        _, parameters = split(request.path)
        guest = self._guests.know(request.headers.get_all("Authorization"), parameters)
        return guest, self._names.address(request.path)

    async def _opened(self, guest: Guest, address: Address) -> Conversation:
        for topic in address.topics:
            self._check(guest, RIGHTS[address.role], topic)
        if address.role == "producer":
            return await self._producer(guest, address)
        if address.role == "consumer":
            return await self._consumer(guest, address)
        return await self._reader(guest, address) if address.role == "reader" else PingPong()

    def _check(self, guest: Guest, right: str, topic: str) -> None:
        try:
            self._topics.check(guest.name, right, topic)
        except SubscriptionError as error:
            raise refused(error) from None

    async def _producer(self, guest: Guest, address: Address) -> Producer:
        (topic,) = address.topics
        asked = producer_parameters(address.parameters)
        if asked.name and not names.is_node_name(asked.name):
            raise RefusedError(400, "producerName has letters, digits, '_', '-' and '.' only, at most 128")
        sealer = await self._sealer(asked, topic)
        here = (topic, guest.name, asked.name)
        if asked.name and here in self._producers:
            raise RefusedError(409, "TAKEN: a producer of this name is connected to the topic")
        if asked.discarded:
            text = "a producer of topic %s encrypts its messages itself: %s have no effect"
            log.warning(text, topic, ", ".join(asked.discarded))
        self._producers.add(here)
        place = ProducerPlace(guest.name, topic, asked.name, sealer, asked.first_sequence, asked.most_pending)
        return Producer(self._topics, self._gate.counters, place, lambda: self._producers.discard(here))

    async def _sealer(self, asked: ProducerParameters, topic: str) -> Sealer:
        """What the producer's messages are encrypted with; keys of the gateway are had before it is accepted."""
        if not isinstance(asked.keys, tuple):
            return Sealer(ByClient(asked.keys) if asked.keys else None)
        unknown = next((name for name in asked.keys if name not in self._held), None)
        if unknown is not None:
            raise RefusedError(400, f"encryptionKeys: there is no key {unknown[:64]!r}: see `keys` of [gateway]")
        sealer = HeldSealer(self._held, asked.keys, topic)
        try:
            await sealer.current()
        except KeyUnavailableError:
            raise RefusedError(503, "the keys cannot be had now: try again later") from None
        except SpeedError as error:
            raise RefusedError(403, f"{error.code}: the keys may not be used for this topic") from None
        return sealer

    async def _consumer(self, guest: Guest, address: Address) -> Consumer:
        asked = consumer_parameters(address.parameters)
        topics = address.topics or await self._matching(guest, address.pattern)
        place = ConsumerPlace(
            guest.name, address.subscription, _own_name(asked.name), _terms(asked), asked.reject_delay_ms
        )
        memberships = [
            Membership(self._topics, place, topic, self._dead_letter(asked, topic, address.subscription))
            for topic in topics
        ]
        window = Window(asked.queue_size, is_pulling=asked.is_pulling, late_seconds=asked.ack_timeout_ms / 1000)
        opener = Opener(self._held, asked.failure_action, self._gate.counters)
        consumer = Consumer(self._topics, self._gate.counters, memberships, window, opener)
        await consumer.open()
        return consumer

    def _dead_letter(self, asked: ConsumerParameters, topic: str, subscription: str) -> str:
        if not asked.max_deliveries:
            return ""
        return self._names.of_text(asked.dead_letter) if asked.dead_letter else f"{topic}-{subscription}-DLQ"

    async def _matching(self, guest: Guest, pattern: str) -> Sequence[str]:
        """The topics of a pattern that the client may consume, as they are now."""
        listed = await self._topics.ask(guest.name, "list")
        found = []
        for name in self._names.matching(pattern, [row["topic"] for row in listed if "broken" not in row]):
            try:
                self._topics.check(guest.name, "consume", name)
            except SubscriptionError:
                continue
            found.append(name)
        if not 0 < len(found) <= MAX_TOPICS_EACH:
            raise RefusedError(404, f"topicsPattern covers {len(found)} topics: 1 to {MAX_TOPICS_EACH} are served")
        return found

    async def _reader(self, guest: Guest, address: Address) -> Reader:
        (topic,) = address.topics
        asked = reader_parameters(address.parameters)
        window = Window(asked.queue_size, is_pulling=asked.is_pulling)
        opener = Opener(self._held, asked.failure_action, self._gate.counters)
        reader = Reader(self._topics, self._gate.counters, guest.name, topic, asked.start, window, opener)
        await reader.open()
        return reader

    # --- plain requests ---

    async def _page(self, connection: Connection, request: Request) -> Response:
        path = request.path.partition("?")[0]
        if path == "/health":
            return _said(connection, 200, _JSON, b'{"status":"up"}')
        if path == "/ready":
            is_ready = self._is_ready()
            return _said(connection, 200 if is_ready else 503, _JSON, b"true" if is_ready else b"false")
        parts, parameters = split(request.path)
        guest = self._guests.know(request.headers.get_all("Authorization"), parameters)
        if path == "/metrics":
            now = {"connections": self._gate.clients.connections, "clients": len(self._gate.clients)}
            others = "".join(f"{line}\n" for line in await self._topics.run(self._others))
            return _said(connection, 200, _TEXT, (self._gate.counters.text(**now) + others).encode())
        if parts[:2] == ["admin", "v2"]:
            return _said(connection, 200, _JSON, msgspec.json.encode(self._administered(guest, parts[2:])))
        if parts[:1] == ["ws"]:
            raise RefusedError(426, "this address is for WebSocket clients")
        raise RefusedError(404, "there is nothing here")

    def _administered(self, guest: Guest, parts: list[str]) -> Any:
        """What clients of Pulsar ask before they begin."""
        if parts == ["clusters"]:
            return ["speed"]
        if len(parts) > 4 and parts[0] == "persistent" and parts[-1] == "partitions":
            topic = self._names.of(parts[1], parts[2], "/".join(parts[3:-1]))
            for right in ("publish", "consume"):
                try:
                    self._topics.check(guest.name, right, topic)
                except SubscriptionError as error:
                    why = error
                else:
                    return {"partitions": 0}
            raise refused(why)
        raise RefusedError(404, "topics are administered by `speed topic`")


def _terms(asked: ConsumerParameters) -> dict[str, Any]:
    return {
        "type": asked.type,
        "durable": asked.is_durable,
        "max_deliveries": asked.max_deliveries,
        "ack_timeout_ms": asked.ack_timeout_ms,
    }


def _own_name(asked: str) -> str:
    """A name that no other consumer has; the one that was asked for is its beginning, where it can be."""
    own = f"{asked}-{uuid4().hex[:12]}"
    return own if names.is_node_name(own) else f"ws-{uuid4().hex[:12]}"


def _is_known(host: str, known: Sequence[str]) -> bool:
    """Whether ``host`` (with or without a port) is an address, ``localhost``, or one of ``known``."""
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower() in {"localhost", *(one.lower() for one in known)}
    return True


def _said(connection: Connection, status: int, kind: str, body: bytes) -> Response:
    response = connection.respond(status, body.decode())
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = kind
    return response
