"""The console as speedd runs it: one thread with a loop, what requests may do, and what they are answered."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from speed.console import ConsoleSettings, Doorkeeper, is_own_host, is_own_page
from speed.console.collector import History, RootCollector
from speed.console.hosted import ConsoleActions, HostedViews, JournalSearch
from speed.console.views import ConsoleSources, NotFoundError, Views, shown
from speed.core.log import logger
from speed.errors import ConfigurationError, InvalidArgumentsError, InvalidNameError, SpeedError, WireError
from speed.fs.keyfile import KeySource
from speed.gateway.settings import MAX_TURNED_AWAY
from speed.observe.backlogs import LaneWatch
from speed.observe.exposition import Door
from speed.topics.subscription import SubscriptionError
from speed.wire.text import MAX_SPAN_SECONDS, read_json

MAX_STREAMS: Final = 32
"""Pages that are told of each look; a page that nobody sees has no stream."""
MAX_CONNECTIONS: Final = 128
VIEW_THREADS: Final = 4
VIEW_SECONDS: Final = 30.0
MAX_BODY_BYTES: Final = 1 << 20
MAX_JSON_DEPTH: Final = 32
MAX_SEARCH_CHARS: Final = 200
HEAD_SECONDS: Final = 10.0
"""A connection that has no whole request for so long is closed."""
BEAT_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 3.0
KEY_HEADER: Final = "x-speed-key"
PAGE: Final = Path(__file__).parent / "page"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
Answer = Callable[[Request], Awaitable[ASGIApp]]

log = logger("speed.console")
_quiet = logger("speed.console.uvicorn").logger
_quiet.setLevel(logging.ERROR)  # it has a line for each request that is refused: strangers fill no log


class RefusedError(Exception):
    """A request that is not answered: ``status`` of HTTP, and a text for people."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ConsoleApp:
    """Answers requests. For one loop; what may take time runs on threads of its own."""

    def __init__(
        self,
        settings: ConsoleSettings,
        views: Views,
        hosted: HostedViews,
        actions: ConsoleActions,
        collector: RootCollector,
    ) -> None:
        self._settings, self._views, self._hosted, self._acting = settings, views, hosted, actions
        self._collector = collector
        self._doorkeeper = Doorkeeper(settings.session_seconds)
        self._threads = ThreadPoolExecutor(VIEW_THREADS, "speed-console-view")
        self._streams = 0
        self._closing = False
        self._files = {f"/{path.name}": (_KINDS[path.suffix], path.read_bytes()) for path in PAGE.iterdir()}
        opened = {"/": self._file, "/enter": self._enter, **dict.fromkeys(self._files, self._file)}
        routes = [Route(path, self._opened(answer)) for path, answer in opened.items()]
        routes += [Route(f"/api/{path}", self._checked(answer)) for path, answer in self._reads().items()]
        routes += [
            Route(f"/api/{path}", self._checked(answer, acts=True), methods=["POST"])
            for path, answer in self._actions().items()
        ]
        self.served = Starlette(routes=routes)

    def token(self) -> str:
        """Of an address that lets one browser in. Thread-safe."""
        return self._doorkeeper.token()

    def close(self) -> None:
        """End all streams at their next look or beat. Thread-safe."""
        self._closing = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def _scheme(self) -> str:
        return "https" if self._settings.certificate else "http"

    # --- what there is ---

    def _reads(self) -> dict[str, Answer]:
        views, hosted = self._views, self._hosted
        return {
            "topics": self._viewed(lambda _: hosted.topics()),
            "topics/{name}": self._viewed(
                lambda request: hosted.messages(request.path_params["name"], _start(request))
            ),
            "journal": self._viewed(lambda request: hosted.journal(_search(request.query_params))),
            "events": self._events,
            "overview": self._viewed(lambda _: views.overview()),
            "services": self._viewed(lambda _: views.services()),
            "bridges": self._viewed(lambda _: views.bridges()),
            "doctor": self._viewed(lambda _: views.doctor()),
            "nodes/{name}": self._viewed(lambda request: views.node(request.path_params["name"])),
            "describe/{name}": self._viewed(lambda request: views.description(request.path_params["name"])),
            "history": self._viewed(lambda request: views.history(*_named(request.query_params, "node", "service"))),
        }

    def _actions(self) -> dict[str, Answer]:
        return {"leave": self._leave, **{name: self._acted(act) for name, act in self._acting.all().items()}}

    # --- who may ---

    def _opened(self, answer: Answer) -> Answer:
        """``answer`` for whoever knows the name of this host; it holds nothing of the root."""

        async def opened_answer(request: Request) -> ASGIApp:
            try:
                self._host(request)
                return await answer(request)
            except RefusedError as error:
                return Response(f"{error}\n", error.status, HEADERS, "text/plain")

        return opened_answer

    def _checked(self, answer: Answer, *, acts: bool = False) -> Answer:
        """``answer`` for browsers that were let in, and for pages of the console."""

        async def checked(request: Request) -> ASGIApp:
            try:
                self._check_page(request, acts=acts)
                if not self._doorkeeper.knows(*self._secrets(request)):
                    raise RefusedError(401, "this browser is not let in, or no longer: see `speedd console`")
                return await answer(request)
            except RefusedError as error:
                return _json({"error": str(error)}, error.status)

        return checked

    def _check_page(self, request: Request, *, acts: bool) -> None:
        host = self._host(request)
        origins, sites = request.headers.getlist("origin"), request.headers.getlist("sec-fetch-site")
        if not is_own_page(origins, sites, scheme=self._scheme, host=host, acts=acts):
            raise RefusedError(403, "pages of elsewhere are not answered")

    def _host(self, request: Request) -> str:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not is_own_host(hosts[0], self._settings):
            raise RefusedError(403, "the console is not served under this name: see `hosts` of [console]")
        return hosts[0]

    def _secrets(self, request: Request) -> tuple[str, str]:
        return request.cookies.get(self._cookie_name(request), ""), request.headers.get(KEY_HEADER, "")

    def _cookie_name(self, request: Request) -> str:
        """One for each port: browsers send cookies to all ports of a host."""
        return f"speed-console-{(request.scope.get('server') or ('', 0))[1]}"

    # --- answers ---

    async def _file(self, request: Request) -> Response:
        kind, data = self._files["/index.html" if request.url.path == "/" else request.url.path]
        return Response(data, headers={**HEADERS, "Content-Type": kind})

    async def _enter(self, request: Request) -> Response:
        """Let a browser in by its token; its page takes the key from what is answered."""
        entry = self._doorkeeper.enter(request.query_params.get("token", ""))
        if entry is None:
            kind, data = self._files["/refused.html"]
            return Response(data, 403, headers={**HEADERS, "Content-Type": kind})
        kind, data = self._files["/enter.html"]
        response = Response(data.replace(b"{{key}}", entry.key.encode()), headers={**HEADERS, "Content-Type": kind})
        response.set_cookie(
            self._cookie_name(request),
            entry.cookie,
            max_age=int(self._settings.session_seconds),
            httponly=True,
            samesite="strict",
            secure=self._scheme == "https",
        )
        return response

    async def _leave(self, request: Request) -> Response:
        self._doorkeeper.leave(self._secrets(request)[0])
        response = _json({})
        response.delete_cookie(self._cookie_name(request))
        return response

    def _viewed(self, view: Callable[[Request], Any]) -> Answer:
        """The value of a view, made on a thread."""

        async def answer(request: Request) -> Response:
            return await self._made(partial(view, request))

        return answer

    def _acted(self, act: Callable[[Mapping[str, Any]], Any]) -> Answer:
        """What an action gives, if actions are allowed."""

        async def answer(request: Request) -> Response:
            if not self._settings.actions:
                raise RefusedError(403, "this console looks only: see `actions` of [console]")
            return await self._made(partial(act, await _body(request)))

        return answer

    async def _made(self, make: Callable[[], Any]) -> Response:
        loop = asyncio.get_running_loop()
        try:
            return _json(await asyncio.wait_for(loop.run_in_executor(self._threads, make), VIEW_SECONDS))
        except NotFoundError as error:
            return _json({"error": str(error)}, 404)
        except asyncio.TimeoutError:
            return _json({"error": f"there is no answer after {VIEW_SECONDS:g} s"}, 504)
        except (InvalidArgumentsError, InvalidNameError) as error:
            return _json({"error": str(error), "code": error.code}, 400)
        except (SpeedError, SubscriptionError) as error:
            return _json({"error": str(error), "code": error.code}, 502)
        except OSError as error:
            return _json({"error": f"{error.strerror}: see the view `doctor`"}, 502)

    async def _events(self, _request: Request) -> ASGIApp:
        if self._streams >= MAX_STREAMS:
            raise RefusedError(503, "too many pages look at this root: close some")
        return self._stream

    async def _stream(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """The number of each look, and a sign of life between them, until the page or the console is gone."""
        self._streams += 1
        new, gone = asyncio.Event(), asyncio.ensure_future(_until_gone(receive))
        headers = {**HEADERS, "Content-Type": "text/event-stream"}.items()
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": raw})
            with self._collector.watched(partial(_set_in, asyncio.get_running_loop(), new)):
                text = ": here\n\n"
                while not self._closing and not gone.done():
                    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                    is_new = await _is_set_within(new, gone, BEAT_SECONDS)
                    text = f"event: look\ndata: {self._collector.look.number}\n\n" if is_new else ": here\n\n"
        finally:
            self._streams -= 1
            gone.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _is_set_within(event: asyncio.Event, gone: asyncio.Future[None], seconds: float) -> bool:
    """Whether ``event`` is set in time; also false when ``gone`` is done first."""
    waiting = asyncio.ensure_future(event.wait())
    either: set[asyncio.Future[Any]] = {waiting, gone}
    await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    is_set = event.is_set()
    event.clear()
    return is_set


def _set_in(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """On any thread."""
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        pass  # the loop has ended


async def _body(request: Request) -> dict[str, Any]:
    """An object of JSON, not larger than a page has reason to send. Raises RefusedError."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise RefusedError(415, "a request that acts is application/json")
    try:
        found = read_json(await asyncio.wait_for(_read(request), HEAD_SECONDS), MAX_JSON_DEPTH)
    except asyncio.TimeoutError:
        raise RefusedError(408, f"the request is not whole after {HEAD_SECONDS:g} s") from None
    except (ValueError, WireError) as error:
        raise RefusedError(400, f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise RefusedError(400, "a request that acts is an object")
    return found


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY_BYTES:
            raise RefusedError(413, f"a request has at most {MAX_BODY_BYTES} bytes")
    return bytes(data)


def _start(request: Request) -> int | str:
    """Where reading a topic begins: an offset, ``earliest``, or among the newest."""
    text = request.query_params.get("from", "newest")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def _search(parameters: Mapping[str, str]) -> JournalSearch:
    subject, source, text = (parameters.get(name, "")[:MAX_SEARCH_CHARS] for name in ("subject", "source", "text"))
    try:
        seconds = min(max(1.0, float(parameters.get("since", "3600"))), MAX_SPAN_SECONDS)  # also of nan
    except ValueError:
        seconds = 3600.0
    return JournalSearch(subject.strip() or "*", source.strip() or "*", text.strip(), seconds)


def _named(parameters: Mapping[str, str], *names: str) -> tuple[str, ...]:
    return tuple(parameters.get(name, "") for name in names)


def _json(value: Any, status: int = 200) -> Response:
    data = json.dumps(shown(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Response(data, status, HEADERS, "application/json")


class BrowserConnection(H11Protocol):
    """One connection; who does not ask in time is not waited for."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _quiet

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._seen: Any = None
        self._patience = self.loop.call_later(HEAD_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle = self.cycle
        is_idle = cycle is None or cycle.response_complete
        if is_idle and cycle is self._seen:
            self.transport.close()
            return
        self._seen = cycle if is_idle else self._seen
        self._patience = self.loop.call_later(HEAD_SECONDS, self._look)


class Console:
    """Serves from when it is made until ``close``.

    Raises ConfigurationError when it cannot listen, or a file of its settings cannot be used.
    """

    def __init__(self, settings: ConsoleSettings, around: ConsoleSources) -> None:
        self._settings = settings
        self._failure: Exception | None = None
        history = History(settings.history)
        self._door = _door(settings)
        self.port: int = self._door.getsockname()[1]
        hosted = HostedViews(around)
        self._collector = RootCollector(
            around.node,
            LaneWatch(around.node.root, KeySource(around.key).keyring, around.node.name),
            lambda: [*around.troubles(), *hosted.findings()],
            history,
            around.gateway,
        )
        views = Views(around, self._collector, history, actions=settings.actions)
        self._app = ConsoleApp(settings, views, hosted, ConsoleActions(around), self._collector)
        try:
            self._server = _server(settings, self._app)
        except BaseException:
            self._end()
            raise
        self._thread = threading.Thread(target=self._run, name="speed-console", daemon=True)
        self._thread.start()

    def address(self) -> str:
        """An address that lets one browser in, once and within ten minutes. Thread-safe."""
        scheme = "https" if self._settings.certificate else "http"
        name = f"[{self._settings.address}]" if ":" in self._settings.address else self._settings.address
        return f"{scheme}://{name}:{self.port}/enter?token={self._app.token()}"

    @property
    def has_failed(self) -> bool:
        """Whether it ended though nobody closed it: nothing is served any more."""
        return self._failure is not None

    def close(self) -> None:
        """End what is under way, which may take a few seconds."""
        self._app.close()
        self._server.should_exit = True
        self._thread.join(2 * CLOSE_SECONDS)
        self._end()

    def _end(self) -> None:
        self._door.close()
        self._collector.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._door])
        except Exception as error:
            self._failure = error
            log.error("the console ended", exc_info=error)


def _door(settings: ConsoleSettings) -> Door:
    """A connection waits in it until it is served."""
    try:
        door = Door(settings.address, settings.port, MAX_CONNECTIONS + MAX_TURNED_AWAY)
        door.listen(MAX_CONNECTIONS)
    except OSError as error:
        where = f"{settings.address}:{settings.port}"
        raise ConfigurationError(f"the console cannot listen on {where}: {error.strerror or error}") from None
    return door


def _server(settings: ConsoleSettings, app: ConsoleApp) -> uvicorn.Server:
    """Raises ConfigurationError."""
    config = uvicorn.Config(
        app.served,
        http=BrowserConnection,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=int(CLOSE_SECONDS),
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.private_key,
    )
    if problem := tls_problem(settings):
        raise ConfigurationError(problem)
    return uvicorn.Server(config)


def tls_problem(settings: ConsoleSettings) -> str:
    """Why certificate and key cannot be used; empty if they can, or are not wanted."""
    if settings.certificate is None:
        return ""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certificate, settings.private_key)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return f"the console's certificate or private_key cannot be used: {reason}"
    return ""
