"""Where metrics are read: at an address that is scraped, and in a file that is kept fresh.

What is read is rendered at most once in a second, however often somebody asks. The port answers only who comes by an
address of this host or shows the token; it serves a bounded number of connections, each for a few seconds.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import ipaddress
import logging
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from speed.core.log import logger
from speed.errors import ConfigurationError, SpeedError
from speed.fs.open import opened, unlink_quietly
from speed.fs.root import UntrustedPathError, followed
from speed.observe.metrics import UNIX, split_listen, write_textfile

FRESH_SECONDS = 1.0
"""For so long a text that was rendered is good."""
MAX_SCRAPERS = 16
"""Connections at once."""
REQUEST_SECONDS = 20.0
"""A request that takes longer to arrive and to be answered is ended: Prometheus waits for ten seconds by itself."""
TRIAL_SECONDS = 1.0
CLOSE_SECONDS = 2.0
START_SECONDS = 10.0
LEAST_TOKEN, MOST_TOKEN = 16, 4096
"""Bytes of a token: fewer can be guessed."""
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_OTHERS_CHANGE = 0o027
"""A token that others read, or that a group writes, is none."""

log = logger("speed.metrics")
_quiet = logger("speed.metrics.websockets")
_quiet.setLevel(logging.CRITICAL)  # it has a line for each request that it does not like: strangers fill no log


class RenderedOnce:
    """A text that is rendered at most once in ``fresh_seconds``. Thread-safe: whoever asks meanwhile waits for it."""

    def __init__(
        self,
        render: Callable[[], str],
        fresh_seconds: float = FRESH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._render, self._fresh_seconds, self._clock = render, fresh_seconds, clock
        self._lock = threading.Lock()
        self._text = ""
        self._until = float("-inf")

    def get(self) -> str:
        """The text; what ``render`` raises is raised to each who asks."""
        with self._lock:
            if self._clock() >= self._until:
                self._text = self._render()
                self._until = self._clock() + self._fresh_seconds
            return self._text


# The listening socket: it lets in no more than are served, also before TLS has begun.


class Door(socket.socket):
    """Listens on one address; a connection beyond ``limit`` is closed as soon as it is made.

    A server of asyncio shows a connection only when its TLS handshake is complete. Whoever begins none would take
    descriptors from the whole process until then.
    """

    def __init__(self, address: str, port: int, limit: int) -> None:
        """Binds. Raises OSError."""
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        super().__init__(family, kind, protocol)
        self._limit = limit
        self._inside: WeakSet[socket.socket] = WeakSet()
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind(place)
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """As of a socket; ConnectionAbortedError for a connection that was closed at once."""
        connection, peer = super().accept()
        if len(self._inside) >= self._limit:
            self._inside = WeakSet(one for one in self._inside if one.fileno() >= 0)
        if len(self._inside) >= self._limit:
            connection.close()
            raise ConnectionAbortedError
        self._inside.add(connection)
        return connection, peer


def is_own_host(host: str, known: Sequence[str] = ()) -> bool:
    """Whether ``host`` (with or without a port) is an address, ``localhost``, or one of ``known``.

    A page of elsewhere can have its own name lead here: it comes by that name.
    """
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower() in {"localhost", *(one.lower() for one in known)}
    return True


def read_token(path: Path) -> bytes:
    """The token in a file that nobody else reads. Raises ConfigurationError; what stands in the file is not told."""
    try:
        fd = opened(followed(str(path)), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except UntrustedPathError as error:
        raise ConfigurationError(error.with_cure("keep the token elsewhere")) from None
    except OSError as error:
        raise ConfigurationError(f"the token file {path} cannot be read: {error.strerror}") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
            raise ConfigurationError(f"the token file {path} is no regular file of this user or root: make it anew")
        if status.st_mode & _OTHERS_CHANGE:
            raise ConfigurationError(f"others can read or change the token file {path}: run `chmod 600 {path}`")
        token = os.read(fd, MOST_TOKEN + 1).strip()
    except OSError as error:
        raise ConfigurationError(f"the token file {path} cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    if not LEAST_TOKEN <= len(token) <= MOST_TOKEN or not token.isascii():
        raise ConfigurationError(f"the token file {path} holds no token of {LEAST_TOKEN} to {MOST_TOKEN} characters")
    return token


class MetricsServer:
    """Answers ``GET /metrics`` from when it is made until ``close``, on a thread of its own.

    Args:
        listen: ``host:port``, or ``unix:/path``.
        page: renders what is answered, on a thread.
        token_file: what whoever asks must show, as ``Authorization: Bearer``; the file is read again each time.

    Raises ConfigurationError when it cannot listen.
    """

    def __init__(self, listen: str, page: Callable[[], str], token_file: Path | None = None) -> None:
        self._listen, self._page, self._token_file = listen, page, token_file
        self._started = threading.Event()
        self._failure: Exception | None = None
        self.address = listen
        """Where it listens; with the port that was found, where 0 was asked for."""
        self._socket = _listening(listen)
        self._thread = threading.Thread(target=self._run, name="speedd-metrics", daemon=True)
        self._thread.start()
        if not self._started.wait(START_SECONDS) or self._failure is not None:
            raise ConfigurationError(f"metrics cannot be served on {listen}: {self._failure or 'it takes too long'}")

    def close(self) -> None:
        """Serve no more."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(2 * CLOSE_SECONDS)
        if self._listen.startswith(UNIX):
            unlink_quietly(split_listen(self._listen)[0])

    @property
    def trouble(self) -> str:
        """Why nothing is served any more; empty while it is."""
        return "" if self._failure is None else f"metrics are not served: {self._failure}"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._failure = error
            log.error("metrics are not served any more", exc_info=error)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        from websockets.asyncio.server import serve, unix_serve

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._rendering = ThreadPoolExecutor(1, "speedd-metrics-page")
        is_unix = self._listen.startswith(UNIX)
        options: dict[str, Any] = {
            "process_request": self._answer,
            "open_timeout": REQUEST_SECONDS,
            "close_timeout": CLOSE_SECONDS,
            "server_header": None,
            "logger": _quiet,
            "sock": self._socket,
        }
        try:
            async with unix_serve(_no_conversation, **options) if is_unix else serve(_no_conversation, **options):
                if not is_unix:
                    host, port = self._socket.getsockname()[:2]
                    self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                self._started.set()
                await self._stop.wait()
        finally:
            self._rendering.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, connection: Any, request: Any) -> Any:
        """One page; everything else is refused, and nothing tells why a token is wrong."""
        path = request.path.partition("?")[0]
        if refusal := self._refusal(request.headers):
            return connection.respond(*refusal)
        if path != "/metrics":
            return connection.respond(404, "there is /metrics\n")
        try:
            text = await asyncio.get_running_loop().run_in_executor(self._rendering, self._page)
        except SpeedError as error:
            return connection.respond(503, f"{error.code}\n")
        response = connection.respond(200, text)
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = OPENMETRICS
        response.headers["Cache-Control"] = "no-store"
        return response

    def _refusal(self, headers: Any) -> tuple[int, str] | None:
        """Status and text for who may not read; None for who may."""
        if self._token_file is None:
            host = headers.get_all("Host")
            is_here = len(host) == 1 and (self._listen.startswith(UNIX) or is_own_host(host[0]))
            return None if is_here else (403, "come by an address of this host\n")
        given = headers.get_all("Authorization")
        try:
            token = read_token(self._token_file)
        except ConfigurationError as error:
            log.warning("metrics are refused to everybody: %s", error)
            return 503, "the token cannot be checked\n"
        shown = given[0].partition(" ")[2].strip().encode("utf-8", "replace") if len(given) == 1 else b""
        is_bearer = len(given) == 1 and given[0][:7].lower() == "bearer "
        return None if is_bearer and hmac.compare_digest(shown, token) else (401, "a token is needed\n")


async def _no_conversation(_connection: Any) -> None:
    """Nobody gets here: each request is answered with a page."""


def _listening(listen: str) -> socket.socket:
    """A socket that is bound. Raises ConfigurationError."""
    try:
        place, port = split_listen(listen)
        return _unix_socket(place) if listen.startswith(UNIX) else Door(place, port, MAX_SCRAPERS)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"metrics cannot be served on {listen}: {why}: use another address") from None


def _unix_socket(path: str) -> socket.socket:
    """For this user and the group; what a killed process left is replaced, and nothing else. Raises OSError."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        if _is_left_over(path):
            os.unlink(path)
        before = os.umask(0o117)
        try:
            listening.bind(path)
        finally:
            os.umask(before)
    except OSError:
        listening.close()
        raise
    return listening


def _is_left_over(path: str) -> bool:
    """Whether it is a socket that nobody listens on. Raises OSError EADDRINUSE for anything else that is there."""
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as trial:
        trial.settimeout(TRIAL_SECONDS)
        with suppress(ConnectionRefusedError):
            if is_socket:
                trial.connect(path)
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), path)
    return True


def listen_problem(listen: str) -> str:
    """Why nothing can listen there; empty if it can. Nothing is left there."""
    try:
        bound = _listening(listen)
    except ConfigurationError as error:
        return str(error)
    bound.close()
    if listen.startswith(UNIX):
        unlink_quietly(split_listen(listen)[0])
    return ""


class FreshTextfile:
    """Keeps a file fresh until ``close``, which removes it: nobody reads of a process that is gone.

    Args:
        page: renders what is written, on a thread.
        interval: seconds between two writes.
    """

    def __init__(self, path: str, page: Callable[[], str], interval: float) -> None:
        self._path, self._page, self._interval = path, page, interval
        self.trouble = ""
        """Why the last write failed; empty if it did not."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="speedd-metrics-file", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                write_textfile(self._path, self._page())
                self.trouble = ""
            except SpeedError as error:
                if not self.trouble:
                    log.warning("%s: it is tried again", error)
                self.trouble = str(error)
            if self._closing.wait(self._interval):
                unlink_quietly(self._path)
                return

    def close(self) -> None:
        """Remove the file, and write no more."""
        self._closing.set()
        self._thread.join(CLOSE_SECONDS)
