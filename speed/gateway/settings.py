"""What a gateway is told, and how far clients can make anything grow. No sockets; times are passed in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from speed.topics.subscription import SubscriptionError

TOKEN_ALGORITHMS = ("HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")

MAX_HELD_KEYS = 64
"""Names of keys that the gateway encrypts and decrypts with."""


@dataclass(frozen=True)
class GatewaySettings:
    """``[gateway]``: the topics of speedd for WebSocket clients, by the WebSocket API of Pulsar."""

    name: str | None = None
    """Who connects acts with the grants of this name. Not with tokens: their subject is the name."""
    address: str = "127.0.0.1"
    """The address that is listened on."""
    port: int = 8080
    """The port that is listened on; 0 is any that is free."""
    namespace: str = "public/default"
    """Tenant and namespace that are left out: there, a topic has the name that SPEED knows."""
    certificate: Path | None = None
    """File of the certificate chain (PEM). With it, only TLS is spoken."""
    private_key: Path | None = None
    """File of the certificate's key (PEM)."""
    hosts: tuple[str, ...] = ()
    """Names under which clients may reach the gateway, besides ``localhost`` and addresses."""
    origins: tuple[str, ...] = ()
    """Pages of other origins that may connect, as ``https://shop.example``."""
    issuer: str | None = None
    """Who issues tokens. With it, each client needs one."""
    audience: str | None = None
    """For whom tokens must be."""
    keys: dict[str, str] = field(default_factory=dict)
    """Keys to encrypt and decrypt with for clients: for each name the URI of its key provider, or ``pem:///PATH``."""
    max_connections: int = 512
    """Connections at once."""
    max_connections_per_client: int = 128
    """Connections at once from one address, and of one token's subject."""
    max_frames_per_second: int = 10_000
    """Frames a second that one client may send; it is slowed down beyond that, and cut when it is ten seconds ahead."""
    handshake_seconds: float = 30.0
    """A connection whose handshake takes longer is ended."""
    ping_seconds: float = 30.0
    """How often each client is asked whether it is there, and how long it has to answer."""


@dataclass(frozen=True)
class TokenKeySettings:
    """``[[token_key]]``: a key that tokens for the gateway are verified with."""

    id: str
    """The ``kid`` that tokens name."""
    algorithm: str
    """The algorithm of its tokens."""
    file: Path
    """The public key (PEM); the secret itself where the algorithm begins with ``HS``."""


# Why a request is not granted, as HTTP says it.

_STATUS = {
    "INVALID_ARGUMENTS": 400,
    "DENIED": 403,
    "UNKNOWN_TOPIC": 404,
    "UNKNOWN_SUBSCRIPTION": 404,
    "TAKEN": 409,
    "FULL": 429,
    "NOT_WRITTEN": 503,
}


class HandshakeError(Exception):
    """A handshake that fails: ``status`` of HTTP, and a text for people."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def refused(error: SubscriptionError) -> HandshakeError:
    """What the host of the topics refused."""
    return HandshakeError(_STATUS.get(error.code, 500), f"{error.code}: {error}")


# What a gateway counts; for one thread.


class Counters:
    """Counters that only grow, and what is there now."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def all(self) -> dict[str, int]:
        """All that grow, by their names. For any thread."""
        return dict(self._counts)

    def text(self, **now: int) -> str:
        """All of them, and ``now``, as Prometheus reads them."""
        lines = [f"speed_{name}_total {value}" for name, value in sorted(self._counts.items())]
        lines += [f"speed_gateway_{name} {value}" for name, value in now.items()]
        return "\n".join([*lines, ""])


MAX_LINE_BYTES: Final = 8192
"""Of a request's first line, the address in it."""
MAX_TURNED_AWAY: Final = 64
"""Connections beyond the bound that wait for being told so; more are closed without a word."""
MAX_FRAME_BYTES: Final = 1 << 20
"""Of a message that a client sends (Pulsar's limit)."""
MAX_FRAMES_WAITING: Final = 4
"""Read from a connection and not yet handled; then no more is read."""
MAX_PONGS_WAITING: Final = 64
"""Answers to the pings of a client that does not read."""
MAX_OWED_SECONDS: Final = 10.0
"""A client that is further ahead of its rate is cut: what it sent waits in memory."""
MAX_PENDING: Final = 1000
"""Messages of one producer that wait to be kept."""
MAX_PENDING_BYTES: Final = 4 << 20
MAX_CLIENT_BYTES: Final = 64 << 20
"""Of messages that wait in memory for one client, on all its connections; then nothing more is read and fetched."""
MAX_QUEUE: Final = 1000
"""Messages that one consumer may have without acknowledging them (Pulsar's limit)."""
MAX_PERMITS: Final = 1 << 31
MAX_SETTLEMENTS: Final = 4096
"""Acknowledgements of one consumer that wait to be kept."""
MAX_AT_ONCE: Final = 100
"""Messages that are fetched at once for one consumer."""
MAX_TOPICS_EACH: Final = 64
"""Topics of one consumer."""
MAX_RECIPIENTS: Final = 16
"""Keys for which one message is encrypted."""
MAX_OPENED_BYTES: Final = 5 << 20
"""Of a message that was decrypted and uncompressed (Pulsar's limit of a message)."""
DATA_KEY_SECONDS: Final = 4 * 3600.0
"""How long the gateway encrypts with one data key, as Pulsar's clients do."""
DATA_KEY_MESSAGES: Final = 1 << 20
KEYS_AWAY_SECONDS: Final = 2.0
"""After which keys are asked for again that could not be had."""
CLOSE_SECONDS: Final = 5.0
"""How long the other side may take to close."""
CLOCK_SECONDS: Final = 60.0
"""How often the clock is looked at that tokens expire by: it may be set."""
TAKEN_SECONDS: Final = 1.0
"""How long a subscription that is taken is waited for: who connects anew may be quicker than its own leaving."""
HEAVY_SECONDS: Final = 0.1
"""After which a client for which too much waits is looked at again."""
LEAST_REST_SECONDS: Final = 0.01
LOOK_SECONDS: Final = 5.0
"""How often who waits for messages looks by itself."""


class RateLimit:
    """Counts against a rate, with one second's worth at once."""

    def __init__(self, per_second: float) -> None:
        self._each = 1 / per_second
        self._until = 0.0

    def count(self, now: float) -> None:
        """One more, at ``now`` (seconds of a clock that never jumps)."""
        self._until = max(self._until, now - 1.0) + self._each

    def owed(self, now: float) -> float:
        """Seconds after which the rate is kept again; 0 if it is."""
        return max(0.0, self._until - now)


class Client:
    """One client, as far as its bounds go: how many connections it has, and how fast it sends."""

    def __init__(self, frames_per_second: int) -> None:
        self.connections = 0
        self.bytes = 0
        """Of messages that wait for it."""
        self.pace = RateLimit(frames_per_second)


class Clients:
    """All clients that have connections; one without any is forgotten."""

    def __init__(self, limit: int, max_each: int, frames_per_second: int) -> None:
        self._limit, self._max_each, self._rate = limit, max_each, frames_per_second
        self._known: dict[str, Client] = {}
        self.connections = 0

    def enter(self, who: str) -> Client:
        """Count a connection of the address ``who``. Raises HandshakeError 503 or 429; then it is not counted."""
        if self.connections >= self._limit:
            raise HandshakeError(503, "too many connections: try again later")
        client = self.hold(who)
        self.connections += 1
        return client

    def leave(self, who: str) -> None:
        """It ended."""
        self.connections -= 1
        self.release(who)

    def hold(self, who: str) -> Client:
        """Count a connection of ``who`` alone, as of a token's subject. Raises HandshakeError 429."""
        client = self._known.get(who) or Client(self._rate)
        if client.connections >= self._max_each:
            raise HandshakeError(429, "too many connections of this client: close some")
        client.connections += 1
        self._known[who] = client
        return client

    def release(self, who: str) -> None:
        """What ``hold`` counted."""
        client = self._known[who]
        client.connections -= 1
        if not client.connections:
            del self._known[who]

    def __len__(self) -> int:
        return len(self._known)
