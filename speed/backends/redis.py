"""Redis: a message is an entry of a stream, whose key is the topic, or goes to who listens on a channel (B-1, B-7)."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import redis
from redis import exceptions

from speed.backends.address import UNTRUSTED, Address, is_untrusted
from speed.backends.backend import (
    EVERY,
    MAX_AT_ONCE,
    REFRESH_SECONDS,
    BackendAwayError,
    BackendError,
    BackendFullError,
    BackendRefusedError,
    Checkpoint,
    Delivered,
    Namespaces,
    Outgoing,
    TakesAll,
    too_large,
)
from speed.core.log import logger
from speed.errors import ConfigurationError

log = logger("speed.bridges")

MAX_CLAIMED = 100
SCAN_COUNT = 1000
OLD_FIELD = "data"
"""Of an entry in the old form; the only field of one that others wrote is read under any name."""
_ANSWER_SECONDS = 10.0
_JOIN_SECONDS = 2.0
_MAX_SEQUENCE = 1 << 20
_PLACED = """
local there, is_other = {}, false
for at = 1, #KEYS do
  there[at] = redis.call('GET', KEYS[at]) or '0'
  is_other = is_other or tonumber(there[at]) ~= tonumber(string.sub(ARGV[2], 20 * at - 19, 20 * at))
end
if is_other then return there end
for at = 3, #ARGV, 4 do
  local fields = {'envelope', ARGV[at + 1]}
  if ARGV[at + 2] ~= '' then fields[3], fields[4] = 'key', string.sub(ARGV[at + 2], 2) end
  if ARGV[at + 3] ~= '' then fields[#fields + 1] = 'hops' fields[#fields + 1] = ARGV[at + 3] end
  redis.call('XADD', ARGV[at], '*', unpack(fields))
end
for at = 1, #KEYS do redis.call('SET', KEYS[at], string.sub(ARGV[1], 20 * at - 19, 20 * at)) end
return {}
"""
"""A script ends at the first command that fails, so a place is never kept without the messages before it.

What an attempt before it did, whose answer was lost, it finds in the places: however late the server ran that.
"""
_GONE = ("NOGROUP", "UNBLOCKED", "no such key", "ERR no such key")
_CREDENTIALS = frozenset({"WRONGPASS", "NOAUTH", "NOPERM", "DENIED"})


def _error(error: Exception) -> Exception:
    """What an error of redis-py means; its text may hold a command, so only its first word is told."""
    text = str(error)
    word = text.split(" ", 1)[0][:32] if text[:1].isupper() else ""
    if is_untrusted(error):
        return BackendRefusedError(f"Redis: {UNTRUSTED}")
    if isinstance(error, (exceptions.AuthenticationError, exceptions.NoPermissionError)) or word in _CREDENTIALS:
        return BackendRefusedError("Redis refuses the credentials, or what this user may not do")
    if isinstance(error, exceptions.OutOfMemoryError) or word in ("OOM", "MISCONF"):
        return BackendFullError(f"Redis has no room ({word or 'OOM'}): its memory or its disk is full")
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.ReadOnlyError, OSError)):
        return BackendAwayError(f"Redis does not answer ({type(error).__name__}): try again")
    if word in ("LOADING", "TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS"):
        return BackendAwayError(f"Redis is not ready ({word}): try again")
    if word == "WRONGTYPE":
        return BackendRefusedError("Redis has something else than a stream under the name of the topic")
    if "bulk length" in text or "Protocol error" in text:
        return too_large("proto-max-bulk-len of the server")
    return BackendError(f"Redis: {word or type(error).__name__}")


@contextmanager
def asking() -> Iterator[None]:
    """Errors of redis-py as what they mean."""
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        raise _error(error) from None


class RedisBackend(TakesAll):
    """One database, as streams or, with ``form=pubsub``, as channels."""

    max_at_once = MAX_AT_ONCE
    takes_ahead = True

    def __init__(self, address: Address, max_message_bytes: int) -> None:
        self._address = address
        self.has_groups = address.options["form"] == "streams"
        self._lock = threading.Lock()
        self._client: Any = None

    def client(self) -> Any:
        """Connects anew by itself; each thread that asks has a connection of its own meanwhile."""
        with self._lock:
            if self._client is None:
                self._client = redis.Redis(**self._settings())
            return self._client

    def _settings(self) -> dict[str, Any]:
        address = self._address
        if len(address.hosts) != 1:
            raise ConfigurationError("an address of redis has one host")
        host, port = address.hosts[0]
        own: dict[str, Any] = {"ssl": True, "ssl_ca_certs": address.options["trusted"] or None} if address.tls else {}
        return {
            **own,
            "host": host,
            "port": port,
            "db": int(address.place or 0),
            "username": address.user or None,
            "password": address.password() or None,
            "socket_timeout": _ANSWER_SECONDS,
            "socket_connect_timeout": _ANSWER_SECONDS / 2,
            "retry": redis.retry.Retry(redis.backoff.NoBackoff(), 0),
            "protocol": 2,
        }

    def forget(self) -> None:
        """Read the credentials again with the next connection."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        """Positions are ids of entries; of channels, how many listened."""
        pipeline = self.client().pipeline(transaction=False)
        for message in messages:
            if self.has_groups:
                pipeline.xadd(message.topic, _fields(message))
            else:
                pipeline.publish(message.topic, message.envelope if message.old is None else message.old.data)
        try:
            with asking():
                answers = _tried(lambda: pipeline.execute(raise_on_error=False), timeout)
                failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
                if failed is not None:
                    raise failed
        except BackendRefusedError:
            self.forget()
            raise
        return [answer.decode() if isinstance(answer, bytes) else str(answer) for answer in answers]

    @property
    def keeps_places(self) -> bool:
        """Channels keep nothing."""
        return bool(self.has_groups)

    def publish_at(self, messages: Sequence[Outgoing], places: Sequence[Checkpoint], timeout: float) -> dict[str, int]:
        """One script, which the server keeps whole or not at all. Should a command of it fail, those before it hold."""
        words: list[Any] = [
            "".join(f"{place.next:020d}" for place in places),
            "".join(f"{place.before:020d}" for place in places),
        ]
        for one in messages:
            words += (one.topic, one.envelope, "" if one.key is None else f"+{one.key}", one.hops)
        keys = [_place_key(place) for place in places]
        try:
            with asking():
                there = _tried(lambda: self.client().eval(_PLACED, len(keys), *keys, *words), timeout)
        except BackendRefusedError:
            self.forget()
            raise
        return {place.lane: int(number) for place, number in zip(places, there, strict=False)}

    def next_of(self, place: Checkpoint, timeout: float) -> int:
        """Read its key."""
        with asking():
            return int(_tried(lambda: self.client().get(_place_key(place)), timeout) or 0)

    def subscribe(
        self, pattern: str, group: str, start: str, *, alone: bool = False, namespaces: Namespaces = EVERY
    ) -> RedisSubscription | RedisListener:
        """Join when first asked for messages."""
        if not self.has_groups:
            return RedisListener(self, pattern)
        lease = float(self._address.options["lease_seconds"])
        return RedisSubscription(self, pattern, namespaces.group(group), start, lease, alone=alone)

    def ping(self, timeout: float) -> None:
        """Ask for a sign of life."""
        try:
            with asking():
                _tried(self.client().ping, timeout)
        except BackendRefusedError:
            self.forget()
            raise

    def close(self) -> None:
        """End the connections."""
        self.forget()


def _tried(ask: Callable[[], Any], timeout: float) -> Any:
    """The answer; a server that is not there yet is asked again until the time is over."""
    deadline, pause = monotonic() + timeout, threading.Event()
    while True:
        try:
            return ask()
        except exceptions.ConnectionError as error:
            if not isinstance(_error(error), BackendAwayError) or monotonic() + 0.1 >= deadline or not _refused(error):
                raise
            pause.wait(0.1)


def _refused(error: Exception) -> bool:
    """Whether nobody listened: then nothing was sent, and nothing comes twice."""
    return isinstance(error.__cause__ or error.__context__, ConnectionRefusedError)


def _fields(message: Outgoing) -> dict[str, Any]:
    fields: dict[str, Any] = {"envelope": message.envelope} if message.old is None else {OLD_FIELD: message.old.data}
    if message.key is not None:
        fields["key"] = message.key
    if message.hops:
        fields["hops"] = message.hops
    return fields


def _place_key(place: Checkpoint) -> str:
    return f"speed:bridge:{place.bridge}:{place.lane}"


class RedisSubscription:
    """A consumer of a group in each stream of a pattern."""

    def __init__(
        self, backend: RedisBackend, pattern: str, group: str, start: str, lease_seconds: float, *, alone: bool
    ) -> None:
        self._backend, self._pattern, self._group, self._lease = backend, pattern, group, lease_seconds
        self._start = "$" if start == "latest" else "0"
        self._name = group if alone else f"{os.getpid()}-{os.urandom(6).hex()}"
        self._left: dict[str, str] = {}
        """Streams in which there may be something that this consumer was given and does not have, and behind what:
        of one that is alone what a life before it had, and of all what an answer held that was lost."""
        self._held: set[tuple[str, str]] = set()
        """What was handed out and is not acknowledged."""
        self._is_alone = alone
        self._streams: dict[str, str] = {}
        """Those that have the group; read as XREADGROUP wants them."""
        self._look_again = 0.0
        self._claim_again = 0.0
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None
        self._positions: dict[str, str] = {}

    @property
    def _alive(self) -> str:
        return _alive(self._group, self._name)

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """What dead consumers left comes first."""
        deadline = monotonic() + timeout
        client = self._backend.client()
        try:
            with asking():
                while True:
                    found = self._come(client, limit, deadline - monotonic())
                    if found or monotonic() >= deadline:
                        return found
        except BackendError as error:
            self._left = dict.fromkeys(self._streams, "0")
            if isinstance(error, BackendRefusedError):
                self._backend.forget()
            raise

    def _come(self, client: Any, limit: int, seconds: float) -> list[Delivered]:
        """A stream that was removed meanwhile is made again."""
        try:
            self._prepare(client)
            claimed = [] if self._is_alone else self._claimed(client, limit)
            return claimed or self._own(client, limit) or self._new(client, limit, seconds)
        except exceptions.ResponseError as error:
            if not str(error).startswith(_GONE):
                raise
            self._streams.clear()
            self._look_again = 0.0
            return []

    def _prepare(self, client: Any) -> None:
        if self._renewing is None:
            self._say_alive(client)
            self._renewing = threading.Thread(target=self._renew, name="speed-redis-lease", daemon=True)
            self._renewing.start()
        now = monotonic()
        if now >= self._look_again:
            for stream in streams_of(client, self._pattern):
                self._join(client, stream)
            self._start = "0"  # what comes later is read from its beginning
            self._look_again = now + REFRESH_SECONDS

    def _join(self, client: Any, stream: str) -> None:
        """Make the group where it is not there."""
        if stream in self._streams:
            return
        try:
            client.xgroup_create(stream, self._group, self._start, mkstream=True)
        except exceptions.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._streams[stream] = ">"
        if self._is_alone:
            self._left[stream] = "0"

    def _own(self, client: Any, limit: int) -> list[Delivered]:
        """Messages that were delivered before this life and not acknowledged; they come before new ones."""
        while self._left:
            stream, after = next(iter(self._left.items()))
            answer = client.xreadgroup(self._group, self._name, {stream: after}, count=limit)
            entries = answer[0][1] if answer else []
            if not entries:
                del self._left[stream]
                continue
            self._left[stream] = entries[-1][0].decode()
            lost = [entry for entry in entries if entry[1] and (stream, entry[0].decode()) not in self._held]
            if lost:
                return [self._delivered(stream.encode(), entry, 2) for entry in lost]
        return []

    def _new(self, client: Any, limit: int, seconds: float) -> list[Delivered]:
        """What nobody in the group has had. Waits in the server, at most a second."""
        wait_ms = int(min(max(seconds, 0.0), 1.0) * 1000)
        if not self._streams:
            self._ended.wait(wait_ms / 1000)
            return []
        answer = client.xreadgroup(self._group, self._name, self._streams, count=limit, block=wait_ms or None)
        return [self._delivered(name, entry, 1) for name, entries in answer for entry in entries]

    def _claimed(self, client: Any, limit: int) -> list[Delivered]:
        """What is pending at consumers that are dead; looked for every third of a lease."""
        now = monotonic()
        if now < self._claim_again:
            return []
        found: list[Delivered] = []
        for stream in self._streams:
            for consumer in client.xinfo_consumers(stream, self._group):
                name = consumer["name"].decode()
                if consumer["pending"] and name != self._name and not client.exists(_alive(self._group, name)):
                    found += self._taken(client, stream, name, min(limit, MAX_CLAIMED) - len(found))
        if len(found) < min(limit, MAX_CLAIMED):
            self._claim_again = now + self._lease / 3
        return found

    def _taken(self, client: Any, stream: str, dead: str, limit: int) -> list[Delivered]:
        if limit <= 0:
            return []
        pending = client.xpending_range(stream, self._group, "-", "+", limit, consumername=dead)
        counts = {one["message_id"]: one["times_delivered"] + 1 for one in pending}
        if not counts:
            return []
        # Two that claim at once: the idle time of what was claimed begins anew, so one of them gets it.
        idle = min(one["time_since_delivered"] for one in pending)
        taken = client.xclaim(stream, self._group, self._name, idle, list(counts))
        return [self._delivered(stream.encode(), entry, counts.get(entry[0], 2)) for entry in taken if entry[1]]

    def _delivered(self, stream: bytes, entry: tuple[bytes, Any], deliveries: int) -> Delivered:
        one = delivered_of(stream, entry, deliveries)
        self._positions[one.topic] = one.position
        self._held.add(one.handle)
        return one

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """One request for each stream, all at once."""
        by_stream: dict[str, list[str]] = defaultdict(list)
        for one in delivered:
            by_stream[one.handle[0]].append(one.handle[1])
        pipeline = self._backend.client().pipeline(transaction=False)
        for stream, places in by_stream.items():
            pipeline.xack(stream, self._group, *places)
        with asking():
            pipeline.execute()
        self._held.difference_update(one.handle for one in delivered)

    def positions(self) -> dict[str, str]:
        """The last entry that came, by stream; the server knows which of those before are acknowledged."""
        return dict(self._positions)

    # --- the lease ---

    def _renew(self) -> None:
        while not self._ended.wait(self._lease / 3):
            try:
                with asking():
                    self._say_alive(self._backend.client())
            except BackendError as error:
                log.debug("a lease in Redis was not renewed: %s", error.code)

    def _say_alive(self, client: Any) -> None:
        client.set(self._alive, "1", px=int(self._lease * 1000))

    def close(self) -> None:
        """What is held comes again to others."""
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join(_JOIN_SECONDS)
            try:
                with asking():
                    self._leave(self._backend.client())
            except BackendError:
                pass  # the lease ends by itself

    def _leave(self, client: Any) -> None:
        client.delete(self._alive)
        for stream in self._streams:
            mine = [one for one in client.xinfo_consumers(stream, self._group) if one["name"] == self._name.encode()]
            if mine and not mine[0]["pending"]:
                client.xgroup_delconsumer(stream, self._group, self._name)


def streams_of(client: Any, pattern: str) -> list[str]:
    """Streams that a pattern covers."""
    if pattern != "*" and not pattern.endswith(".*"):
        return [pattern]
    found = client.scan_iter(match=pattern, count=SCAN_COUNT, _type="STREAM")
    return [name.decode("utf-8", "replace") for name in found]


def delivered_of(stream: bytes, entry: tuple[bytes, Any], deliveries: int = 1) -> Delivered:
    """An entry of a stream as it is handed on."""
    fields = dict(entry[1] or {})
    topic, place = stream.decode("utf-8", "replace"), entry[0].decode()
    unix_ms, _, number = place.partition("-")
    key, hops = fields.pop(b"key", None), fields.pop(b"hops", b"")
    only = next(iter(fields.values())) if len(fields) == 1 else b""
    return Delivered(
        topic,
        None if key is None else key.decode("utf-8", "replace"),
        fields.get(b"envelope", only),
        place,
        int(unix_ms) * _MAX_SEQUENCE + min(int(number), _MAX_SEQUENCE - 1),
        deliveries,
        (topic, place),
        stored_at_ms=int(unix_ms),
        lane=topic if int(number) < _MAX_SEQUENCE - 1 else "",
        hops=hops.decode("utf-8", "replace"),
    )


def _alive(group: str, name: str) -> str:
    return f"speed:alive:{group}:{name}"


class RedisListener:
    """Who listens on channels; what passes while it is away is missed."""

    def __init__(self, backend: RedisBackend, pattern: str) -> None:
        self._backend, self._pattern = backend, pattern
        self._listening: Any = None

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """The first waits, the others are those that are there."""
        found: list[Delivered] = []
        deadline = monotonic() + timeout
        try:
            with asking():
                listening = self._opened()
                while len(found) < limit:
                    left = 0.0 if found else max(0.0, deadline - monotonic())
                    message = listening.get_message(timeout=left)
                    if message is None and (found or monotonic() >= deadline):
                        break
                    if message is not None and message["type"] in ("message", "pmessage"):
                        found.append(
                            Delivered(message["channel"].decode("utf-8", "replace"), None, message["data"], "")
                        )
        except BackendError:
            self.close()
            raise
        return found

    def _opened(self) -> Any:
        if self._listening is None:
            listening = self._backend.client().pubsub()
            if self._pattern == "*" or self._pattern.endswith(".*"):
                listening.psubscribe(self._pattern)
            else:
                listening.subscribe(self._pattern)
            self._listening = listening
        return self._listening

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """Nothing comes again."""

    def positions(self) -> dict[str, str]:
        """Nothing has a place."""
        return {}

    def close(self) -> None:
        """Listen no more."""
        listening, self._listening = self._listening, None
        if listening is not None:
            try:
                listening.close()
            except (exceptions.RedisError, OSError):
                pass  # the server is away


__all__ = ["RedisBackend"]
