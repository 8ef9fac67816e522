"""The gateway as speedd runs it: one thread with a loop, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

from websockets.asyncio.server import Server, ServerConnection, serve

from speed.core.log import logger
from speed.errors import ConfigurationError
from speed.gateway.app import App, log
from speed.gateway.connection import FAILED, GOING_AWAY, NORMAL, Connection, Gate, beside
from speed.gateway.counters import Counters
from speed.gateway.door import Door
from speed.gateway.held_keys import HeldKeys
from speed.gateway.limits import CLOSE_SECONDS, MAX_FRAME_BYTES, MAX_FRAMES_WAITING, MAX_TURNED_AWAY, Clients
from speed.gateway.settings import GatewaySettings, TokenKeySettings
from speed.gateway.tokens import Guests
from speed.gateway.topics import Hosted, Topics

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
        counters = Counters()
        clients = Clients(settings.max_connections, settings.max_connections_per_client, settings.max_frames_per_second)
        gate = Gate(settings, clients, counters, self._begin)
        topics = Topics(self._host, self._name)
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
            create_connection=cast(type[ServerConnection], partial(Connection, gate=gate)),
            process_request=cast(Any, app.answer),
            compression=None,
            server_header=None,
            open_timeout=settings.handshake_seconds,
            ping_interval=None,  # `Connection.watch` asks: this one waits for who does not read
            close_timeout=CLOSE_SECONDS,
            max_size=MAX_FRAME_BYTES,
            max_queue=MAX_FRAMES_WAITING,
            logger=_quiet,
            ssl=self._tls,
            ssl_handshake_timeout=settings.handshake_seconds if self._tls else None,
        )
        return server

    async def _converse(self, connection: Connection) -> None:
        """What is said on one connection, to its end."""
        conversation = connection.conversation
        assert conversation is not None
        connection.is_running = True
        watching = [beside(connection, work) for work in (connection.watch(), connection.expire())]
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
        open_now = cast("set[Connection]", set(server.connections))
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
