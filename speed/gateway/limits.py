"""What clients can make grow, and how far. No sockets; times are passed in."""

from __future__ import annotations

from typing import Final

from speed.gateway.refusal import RefusedError

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
MOST_OWED_SECONDS: Final = 10.0
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
MOST_AT_ONCE: Final = 100
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


class Pace:
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
        self.pace = Pace(frames_per_second)


class Clients:
    """All clients that have connections; one without any is forgotten."""

    def __init__(self, most: int, most_each: int, frames_per_second: int) -> None:
        self._most, self._most_each, self._rate = most, most_each, frames_per_second
        self._known: dict[str, Client] = {}
        self.connections = 0

    def enter(self, who: str) -> Client:
        """Count a connection of the address ``who``. Raises RefusedError 503 or 429; then it is not counted."""
        if self.connections >= self._most:
            raise RefusedError(503, "too many connections: try again later")
        client = self.hold(who)
        self.connections += 1
        return client

    def leave(self, who: str) -> None:
        """It ended."""
        self.connections -= 1
        self.release(who)

    def hold(self, who: str) -> Client:
        """Count a connection of ``who`` alone, as of a token's subject. Raises RefusedError 429."""
        client = self._known.get(who) or Client(self._rate)
        if client.connections >= self._most_each:
            raise RefusedError(429, "too many connections of this client: close some")
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
