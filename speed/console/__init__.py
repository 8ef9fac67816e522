"""The console of speedd: what its settings are, and who may look. No server, no clock but the one passed in."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TOKEN_SECONDS: Final = 600.0
"""How long a printed address leads into the console."""
MAX_TOKENS: Final = 16
"""Addresses that are printed and not used yet; a further one takes the place of the oldest."""
MAX_SESSIONS: Final = 64
"""Browsers that are let in; a further one takes the place of the one that came first."""
_SECRET_BYTES = 32


@dataclass(frozen=True)
class ConsoleSettings:
    """``[console]``: a page about this root for a browser. ``speedd console`` prints an address that lets one in."""

    address: str = "127.0.0.1"
    """The address that is listened on. One that other machines reach needs a certificate."""
    port: int = 8090
    """The port that is listened on; 0 is any that is free."""
    hosts: tuple[str, ...] = ()
    """Names under which browsers may reach the console, besides ``localhost`` and ``address``."""
    certificate: Path | None = None
    """File of the certificate chain (PEM). With it, only TLS is spoken."""
    private_key: Path | None = None
    """File of the certificate's key (PEM)."""
    actions: bool = False
    """Whether the console may also act: call services, move subscriptions, retry dead letters."""
    session_seconds: float = 43_200.0
    """How long a browser is let in. It needs a new address then."""
    history: Path | None = None
    """File in which a week of figures is kept, at most 16 MiB; without it the console remembers an hour."""


@dataclass(frozen=True)
class BrowserSession:
    """What a browser is given when it comes in: the value of its cookie, and what its page sends with each request."""

    cookie: str
    key: str


class Doorkeeper:
    """Lets browsers in by an address that works once, and knows them afterwards. Thread-safe.

    A browser sends its cookie to every port of a host. So the cookie is not enough: each request also has a key,
    which only pages of this console can read. It keeps pages of elsewhere from acting, too.
    """

    def __init__(self, session_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._session_seconds, self._clock, self._lock = session_seconds, clock, threading.Lock()
        self._tokens: dict[bytes, float] = {}
        self._sessions: dict[bytes, tuple[bytes, float]] = {}

    def token(self) -> str:
        """A token that lets one browser in."""
        token = secrets.token_urlsafe(_SECRET_BYTES)
        with self._lock:
            _make_room(self._tokens, MAX_TOKENS)
            self._tokens[_digest(token)] = self._clock() + TOKEN_SECONDS
        return token

    def enter(self, token: str) -> BrowserSession | None:
        """None for a token that is wrong, was used, or is too old."""
        session, now = (
            BrowserSession(secrets.token_urlsafe(_SECRET_BYTES), secrets.token_urlsafe(_SECRET_BYTES)),
            self._clock(),
        )
        with self._lock:
            if self._tokens.pop(_digest(token), now) <= now:
                return None
            _make_room(self._sessions, MAX_SESSIONS)
            self._sessions[_digest(session.cookie)] = _digest(session.key), now + self._session_seconds
        return session

    def knows(self, cookie: str, key: str) -> bool:
        """Whether both are of one browser that is still let in."""
        wanted, ends = self._sessions.get(_digest(cookie), (b"", float("-inf")))
        if ends <= self._clock():
            self.leave(cookie)
            return False
        return hmac.compare_digest(wanted, _digest(key))

    def leave(self, cookie: str) -> None:
        """Let this browser in no more."""
        self._sessions.pop(_digest(cookie), None)


def _make_room(kept: dict[bytes, Any], most: int) -> None:
    while len(kept) >= most:
        del kept[next(iter(kept))]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


# Where a request says that it comes from.


def is_own_host(host: str, settings: ConsoleSettings) -> bool:
    """Whether a ``Host`` is a name of the console: a page of elsewhere can have its own name lead here."""
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    known = {"localhost", "127.0.0.1", "::1", settings.address.lower(), *(one.lower() for one in settings.hosts)}
    return name.lower() in known


def is_own_page(origins: Sequence[str], sites: Sequence[str], *, scheme: str, host: str, acts: bool) -> bool:
    """Whether a request comes from a page of this console.

    Args:
        origins, sites: its headers ``Origin`` and ``Sec-Fetch-Site``.
        acts: whether it changes something; then it must say where it comes from.
    """
    if any(one not in ("same-origin", "none") for one in sites):
        return False
    return all(one == f"{scheme}://{host}" for one in origins) and (len(origins) == 1 or not acts)
