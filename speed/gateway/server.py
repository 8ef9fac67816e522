"""The gateway as speedd runs it: one thread with a loop, who clients are, and who may begin what."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from uuid import uuid4

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from speed.core import counters
from speed.core.log import logger
from speed.errors import ConfigurationError, SpeedError
from speed.gateway.connection import (
    FAILED,
    GOING_AWAY,
    NORMAL,
    ClientConnection,
    ConsumerPlace,
    Conversation,
    DeliveryWindow,
    Gate,
    Hosted,
    Membership,
    TopicClient,
    start_task,
)
from speed.gateway.conversations import (
    ConsumerConversation,
    Opener,
    ProducerConversation,
    ProducerPlace,
    ReaderConversation,
)
from speed.gateway.encryption import ByClient, HeldKeys, HeldSealer, Sealer
from speed.gateway.requests import (
    ConsumerParameters,
    ProducerParameters,
    RequestAddress,
    TopicNames,
    consumer_parameters,
    producer_parameters,
    reader_parameters,
    split,
)
from speed.gateway.settings import (
    CLOSE_SECONDS,
    MAX_FRAME_BYTES,
    MAX_FRAMES_WAITING,
    MAX_TOPICS_EACH,
    MAX_TURNED_AWAY,
    Clients,
    Counters,
    GatewaySettings,
    HandshakeError,
    TokenKeySettings,
    refused,
)
from speed.message.errors import KeyUnavailableError, TokenError
from speed.observe.exposition import Door, is_own_host
from speed.topics.subscription import SubscriptionError
from speed.wire import names

# Who a client is: the name that is configured, or the subject of its token.

LEEWAY_SECONDS = 5.0
"""By which an issuer's clock may be ahead; no token is good for longer than it says."""
_BEARER = "Bearer "


@dataclass(frozen=True)
class Guest:
    """A client: whose grants it has, and until when (Unix seconds)."""

    name: str
    expires: float = float("inf")
    has_token: bool = False


class Guests:
    """Knows clients by their tokens, or all by one name.

    Raises ConfigurationError for keys that cannot be.
    """

    def __init__(self, settings: GatewaySettings, keys: Sequence[TokenKeySettings]) -> None:
        self._name = settings.name or ""
        self._verifier = _verifier(settings, keys) if settings.issuer else None

    def know(self, authorization: Sequence[str], parameters: Mapping[str, str]) -> Guest:
        """Raises HandshakeError 401."""
        if self._verifier is None:
            return Guest(self._name)
        token = bearer(authorization, parameters)
        if not token:
            raise HandshakeError(401, "a token is needed: as Authorization: Bearer, or as the parameter token")
        try:
            identity, expires = self._verifier.verify_until(token)
        except TokenError as error:
            raise HandshakeError(401, str(error)) from None
        if expires <= time.time():
            raise HandshakeError(401, "the token has expired")
        if not names.is_node_name(identity.publisher_id):
            raise HandshakeError(401, "the token's subject is no name that grants can have")
        return Guest(identity.publisher_id, expires, has_token=True)


def bearer(authorization: Sequence[str], parameters: Mapping[str, str]) -> str:
    """The token of a request: of its header, and only where there is none of the parameter; empty without one."""
    if authorization:
        header = authorization[0]
        return header[len(_BEARER) :].strip() if header[: len(_BEARER)].lower() == _BEARER.lower() else ""
    return parameters.get("token", "").removeprefix(_BEARER).strip()


def _verifier(settings: GatewaySettings, keys: Sequence[TokenKeySettings]) -> Any:
    from speed.message.audit import TokenKey, TokenVerifier

    return TokenVerifier(
        {one.id: TokenKey(one.algorithm, _key(one)) for one in keys},
        leeway_seconds=LEEWAY_SECONDS,
        audience=settings.audience or "",
        issuer=settings.issuer or "",
    )


def _key(settings: TokenKeySettings) -> Any:
    """The key in its file; an algorithm that signs has a public one. Raises ConfigurationError."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        data = settings.file.read_bytes().strip()
        return data if settings.algorithm.startswith("HS") else load_pem_public_key(data)
    except OSError as error:
        raise ConfigurationError(f"the token key {settings.file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigurationError(f"the token key {settings.file} is no public key in PEM") from None


# Who may begin what: from a request to a conversation, or to an answer.

log = logger("speed.gateway")

RIGHTS = {"producer": "publish", "consumer": "consume", "reader": "consume"}
_JSON, _TEXT = "application/json", "text/plain; charset=utf-8"


class PingPong:
    """Answers pings, as every connection does; what is said is passed over."""

    async def run(self, connection: ClientConnection) -> None:
        async for _ in connection.frames():
            pass

    async def close(self) -> None:
        """Nothing is held."""


class App:
    """Answers requests and begins conversations. For one loop."""

    def __init__(
        self, settings: GatewaySettings, gate: Gate, topics: TopicClient, guests: Guests, held: HeldKeys
    ) -> None:
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

    async def answer(self, connection: ClientConnection, request: Request) -> Response | None:
        """What to answer; None begins the conversation that ``connection`` now has."""
        try:
            self._check_host(request.headers)
            if "websocket" not in request.headers.get("Upgrade", "").lower():
                return await self._page(connection, request)
            self._check_origin(request.headers)
            await self._begin(connection, request)
        except HandshakeError as error:
            self._gate.counters.count(counters.GATEWAY_HANDSHAKES_REFUSED)
            return connection.respond(error.status, f"{error}\n")
        return None

    # --- where from ---

    def _check_host(self, headers: Headers) -> None:
        """A page of elsewhere can have its own name lead here: only addresses and known names are answered."""
        given = headers.get_all("Host")
        if len(given) != 1 or not is_own_host(given[0], self._settings.hosts):
            raise HandshakeError(403, "this host is not served under that name: see `hosts` of [gateway]")

    def _check_origin(self, headers: Headers) -> None:
        given = headers.get_all("Origin")
        scheme = "https" if self._settings.certificate else "http"
        allowed = {f"{scheme}://{headers['Host']}", *self._settings.origins}
        if any(one not in allowed for one in given):
            raise HandshakeError(403, "pages of that origin may not connect: see `origins` of [gateway]")

    # --- conversations ---

    async def _begin(self, connection: ClientConnection, request: Request) -> None:
        guest, address = self._known(request)
        if guest.has_token:
            connection.hold(f"token {guest.name}")
        connection.expires = guest.expires
        # To its end, also when the handshake takes too long: what was joined must be left again.
        await asyncio.shield(self._gate.begin(self._open_for(connection, guest, address)))

    async def _open_for(self, connection: ClientConnection, guest: Guest, address: RequestAddress) -> None:
        connection.give(await self._opened(guest, address))

    def _known(self, request: Request) -> tuple[Guest, RequestAddress]:
        """Who asks for what. Who is not known learns nothing else."""
        _, parameters = split(request.path)
        guest = self._guests.know(request.headers.get_all("Authorization"), parameters)
        return guest, self._names.address(request.path)

    async def _opened(self, guest: Guest, address: RequestAddress) -> Conversation:
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

    async def _producer(self, guest: Guest, address: RequestAddress) -> ProducerConversation:
        (topic,) = address.topics
        parameters = producer_parameters(address.parameters)
        if parameters.name and not names.is_node_name(parameters.name):
            raise HandshakeError(400, "producerName has letters, digits, '_', '-' and '.' only, at most 128")
        sealer = await self._sealer(parameters, topic)
        here = (topic, guest.name, parameters.name)
        if parameters.name and here in self._producers:
            raise HandshakeError(409, "TAKEN: a producer of this name is connected to the topic")
        if parameters.discarded:
            text = "a producer of topic %s encrypts its messages itself: %s have no effect"
            log.warning(text, topic, ", ".join(parameters.discarded))
        self._producers.add(here)
        place = ProducerPlace(
            guest.name, topic, parameters.name, sealer, parameters.first_sequence, parameters.max_pending
        )
        return ProducerConversation(self._topics, self._gate.counters, place, lambda: self._producers.discard(here))

    async def _sealer(self, parameters: ProducerParameters, topic: str) -> Sealer:
        """What the producer's messages are encrypted with; keys of the gateway are had before it is accepted."""
        if not isinstance(parameters.keys, tuple):
            return Sealer(ByClient(parameters.keys) if parameters.keys else None)
        unknown = next((name for name in parameters.keys if name not in self._held), None)
        if unknown is not None:
            raise HandshakeError(400, f"encryptionKeys: there is no key {unknown[:64]!r}: see `keys` of [gateway]")
        sealer = HeldSealer(self._held, parameters.keys, topic)
        try:
            await sealer.current()
        except KeyUnavailableError:
            raise HandshakeError(503, "the keys cannot be had now: try again later") from None
        except SpeedError as error:
            raise HandshakeError(403, f"{error.code}: the keys may not be used for this topic") from None
        return sealer

    async def _consumer(self, guest: Guest, address: RequestAddress) -> ConsumerConversation:
        parameters = consumer_parameters(address.parameters)
        topics = address.topics or await self._matching(guest, address.pattern)
        place = ConsumerPlace(
            guest.name, address.subscription, _own_name(parameters.name), _terms(parameters), parameters.reject_delay_ms
        )
        memberships = [
            Membership(self._topics, place, topic, self._dead_letter(parameters, topic, address.subscription))
            for topic in topics
        ]
        window = DeliveryWindow(
            parameters.queue_size, is_pulling=parameters.is_pulling, late_seconds=parameters.ack_timeout_ms / 1000
        )
        opener = Opener(self._held, parameters.failure_action, self._gate.counters)
        consumer = ConsumerConversation(self._topics, self._gate.counters, memberships, window, opener)
        await consumer.open()
        return consumer

    def _dead_letter(self, parameters: ConsumerParameters, topic: str, subscription: str) -> str:
        if not parameters.max_deliveries:
            return ""
        return self._names.of_text(parameters.dead_letter) if parameters.dead_letter else f"{topic}-{subscription}-DLQ"

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
            raise HandshakeError(404, f"topicsPattern covers {len(found)} topics: 1 to {MAX_TOPICS_EACH} are served")
        return found

    async def _reader(self, guest: Guest, address: RequestAddress) -> ReaderConversation:
        (topic,) = address.topics
        parameters = reader_parameters(address.parameters)
        window = DeliveryWindow(parameters.queue_size, is_pulling=parameters.is_pulling)
        opener = Opener(self._held, parameters.failure_action, self._gate.counters)
        reader = ReaderConversation(
            self._topics, self._gate.counters, guest.name, topic, parameters.start, window, opener
        )
        await reader.open()
        return reader

    # --- plain requests ---

    async def _page(self, connection: ClientConnection, request: Request) -> Response:
        path = request.path.partition("?")[0]
        if path == "/health":
            return _response(connection, 200, _JSON, b'{"status":"up"}')
        if path == "/ready":
            is_ready = self._is_ready()
            return _response(connection, 200 if is_ready else 503, _JSON, b"true" if is_ready else b"false")
        parts, parameters = split(request.path)
        guest = self._guests.know(request.headers.get_all("Authorization"), parameters)
        if path == "/metrics":
            now = {"connections": self._gate.clients.connections, "clients": len(self._gate.clients)}
            others = "".join(f"{line}\n" for line in await self._topics.run(self._others))
            return _response(connection, 200, _TEXT, (self._gate.counters.text(**now) + others).encode())
        if parts[:2] == ["admin", "v2"]:
            return _response(connection, 200, _JSON, msgspec.json.encode(self._administered(guest, parts[2:])))
        if parts[:1] == ["ws"]:
            raise HandshakeError(426, "this address is for WebSocket clients")
        raise HandshakeError(404, "there is nothing here")

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
        raise HandshakeError(404, "topics are administered by `speed topic`")


def _terms(parameters: ConsumerParameters) -> dict[str, Any]:
    return {
        "type": parameters.type,
        "durable": parameters.is_durable,
        "max_deliveries": parameters.max_deliveries,
        "ack_timeout_ms": parameters.ack_timeout_ms,
    }


def _own_name(requested: str) -> str:
    """A name that no other consumer has; the one that was asked for is its beginning, where it can be."""
    own = f"{requested}-{uuid4().hex[:12]}"
    return own if names.is_node_name(own) else f"ws-{uuid4().hex[:12]}"


def _response(connection: ClientConnection, status: int, kind: str, body: bytes) -> Response:
    response = connection.respond(status, body.decode())
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = kind
    return response


START_SECONDS = 30.0
_quiet = logger("speed.gateway.websockets")
_quiet.setLevel(logging.CRITICAL)  # it has a line, and more, for each handshake that fails: strangers fill no log


class Gateway:
    """Serves from when it is made until ``close``.

    Args:
        host: of the topics.
        name: what its threads are called.
        is_ready: whether the topics are served.

    Raises ConfigurationError when it cannot listen, or a file of its settings cannot be used.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        keys: Sequence[TokenKeySettings],
        host: Hosted,
        name: str,
        is_ready: Callable[[], bool],
    ) -> None:
        self._settings, self._host, self._name, self._is_ready = settings, host, name, is_ready
        self._guests = Guests(settings, keys)
        self._tls = tls_context(settings)
        self._held = HeldKeys(settings.keys)
        self._others: Callable[[], list[str]] = list
        self._started: threading.Event = threading.Event()
        self._failure: Exception | None = None
        self._leftovers: set[asyncio.Task[None]] = set()
        self._counters = Counters()
        self._clients = Clients(
            settings.max_connections, settings.max_connections_per_client, settings.max_frames_per_second
        )
        self.port = settings.port
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        if not self._started.wait(START_SECONDS) or self._failure is not None:
            where, why = f"{settings.address}:{settings.port}", self._failure or "it takes too long"
            raise ConfigurationError(f"the gateway cannot listen on {where}: {why}") from self._failure

    def also(self, others: Callable[[], list[str]]) -> None:
        """Have ``/metrics`` answer with these lines too."""
        self._others = others

    def _ask_others(self) -> list[str]:
        return self._others()

    def close(self) -> None:
        """Close all connections, which may take a few seconds, and end."""
        try:
            self._loop.call_soon_threadsafe(self._stop.set)
        except RuntimeError:
            pass  # it has ended
        self._thread.join(3 * CLOSE_SECONDS)

    def figures(self) -> tuple[dict[str, int], dict[str, int]]:
        """What it counted, and what is here now. Thread-safe."""
        now = {"gateway_open_connections": self._clients.connections, "gateway_clients": len(self._clients)}
        return self._counters.all(), now

    @property
    def has_failed(self) -> bool:
        """Whether it ended though nobody closed it: nothing is served any more."""
        return self._failure is not None

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._failure = error
            if self._started.is_set():
                log.error("the gateway ended", exc_info=error)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        settings = self._settings
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        gate = Gate(settings, self._clients, self._counters, self._begin)
        topics = TopicClient(self._host, self._name)
        try:
            app = App(settings, gate, topics, self._guests, self._held)
            app.ready_if(self._is_ready)
            app.also(self._ask_others)
            server = await self._listening(gate, app)
            self.port = next(iter(server.sockets)).getsockname()[1]
            self._started.set()
            await self._stop.wait()
            await self._ended(server)
        finally:
            topics.close()
            self._held.close()

    async def _listening(self, gate: Gate, app: App) -> Server:
        settings = self._settings
        server: Server = await serve(
            cast(Any, self._converse),
            sock=Door(settings.address, settings.port, settings.max_connections + MAX_TURNED_AWAY),
            create_connection=cast(type[ServerConnection], partial(ClientConnection, gate=gate)),
            process_request=cast(Any, app.answer),
            compression=None,
            server_header=None,
            open_timeout=settings.handshake_seconds,
            ping_interval=None,  # `ClientConnection.watch` asks: this one waits for who does not read
            close_timeout=CLOSE_SECONDS,
            max_size=MAX_FRAME_BYTES,
            max_queue=MAX_FRAMES_WAITING,
            logger=_quiet,
            ssl=self._tls,
            ssl_handshake_timeout=settings.handshake_seconds if self._tls else None,
        )
        return server

    async def _converse(self, connection: ClientConnection) -> None:
        """Run the conversation of one connection to its end."""
        conversation = connection.conversation
        assert conversation is not None
        connection.is_running = True
        watching = [start_task(connection, work) for work in (connection.watch(), connection.expire())]
        code = NORMAL
        try:
            await conversation.run(connection)
        except Exception as error:  # a defect of ours ends one connection
            log.error("a connection failed", exc_info=error)
            code = FAILED
        finally:
            await conversation.close()
            await connection.end(code)
            await asyncio.wait(watching)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._leftovers.add(task)
        task.add_done_callback(self._leftovers.discard)
        return task

    async def _ended(self, server: Server) -> None:
        """Listen no more, close what is open, and wait a few seconds for that."""
        open_now = cast("set[ClientConnection]", set(server.connections))
        server.close(close_connections=False)
        await asyncio.gather(*(one.end(GOING_AWAY, "the gateway stops") for one in open_now))
        try:
            await asyncio.wait_for(server.wait_closed(), CLOSE_SECONDS)
        except asyncio.TimeoutError:
            pass  # a handshake that is not complete: the process ends it
        await asyncio.gather(*self._leftovers, return_exceptions=True)


def tls_context(settings: GatewaySettings) -> ssl.SSLContext | None:
    """What TLS needs; None without a certificate. Raises ConfigurationError."""
    if settings.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.certificate, settings.private_key)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"the gateway's certificate or private_key cannot be used: {reason}") from None
    return context
