"""What a backend does, whichever it is: messages are published and confirmed, consumed by a group and acknowledged.

BackendError
├── BackendAwayError
├── BackendRefusedError
└── BackendFullError

A backend connects when it is first asked, so it can be made while its server is away, and connects anew after a
failure. All methods raise BackendAwayError, BackendRefusedError, BackendFullError and, of others, BackendError;
PayloadTooLargeError for what the server does not take.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, unquote

from speed.errors import InvalidNameError, PayloadTooLargeError, SpeedError
from speed.message.view import DEFAULT_NAMESPACE, MessageView
from speed.message.writing import without_token
from speed.wire.names import check_topic

if TYPE_CHECKING:
    from speed.message.old_forms import OldForm


# generated from registry_spec/codes.json by scripts/generate


class BackendError(SpeedError):
    """A backend did not do what it was asked.

    No credentials, keys or payloads are ever in the text.
    """

    code = "BACKEND"


class BackendAwayError(BackendError, ConnectionError):
    """The backend cannot be reached, or did not answer in time.

    What was being published may be kept or not.
    """

    code = "BACKEND_AWAY"


class BackendRefusedError(BackendError):
    """The backend refuses the credentials, the name or the operation."""

    code = "BACKEND_REFUSED"


class BackendFullError(BackendError):
    """The backend has no room for the message."""

    code = "BACKEND_FULL"


# end of what is generated


# How names of SPEED are written where a backend does not take them, and read again (B-2). Pure.

MAX_KAFKA_TOPIC = 249
MAX_NATS_TOKEN = 128
MAX_NATS_DURABLE = 200
_ESCAPE = ".."
"""Two dots are in no topic of SPEED, and a topic of Kafka may have them."""
_HEX = 64
KEPT_OF_KAFKA = MAX_KAFKA_TOPIC - len(_ESCAPE) - _HEX
"""How much of a topic stands in a name that is shortened."""
_NATS = str.maketrans({".": "=", "*": "+"})
"""A server of NATS formats names of consumers, so they have no ``%``."""
_VISIBLE = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_LAST_DAY_MS = 253_402_300_799_000
EVENTS, MANIFESTS = "events/", "manifests/"
"""Where messages and manifests lie in S3."""


def kafka_topic(topic: str) -> str:
    """The topic of Kafka that holds a topic: itself, unless Kafka keeps such names for itself or they are too long."""
    escaped = _ESCAPE + topic if topic.startswith("__") else topic
    if len(escaped) <= MAX_KAFKA_TOPIC:
        return escaped
    return f"{topic[:KEPT_OF_KAFKA]}{_ESCAPE}{_hash(topic)}"


def topic_of_kafka(name: str) -> str | None:
    """The topic that ``kafka_topic`` wrote so; None for others' names, and for what it shortened: its messages tell."""
    topic = name[len(_ESCAPE) :] if name.startswith(f"{_ESCAPE}__") else name
    try:
        check_topic(topic)
    except InvalidNameError:
        return None
    return topic if kafka_topic(topic) == name else None


def kafka_filter(pattern: str) -> str:
    """The topic of Kafka, or an expression for its topics, which librdkafka knows by its first character."""
    if pattern == "*":
        return r"^(\.\.__|_?[A-Za-z0-9-]|_$|_\.).*"
    if not pattern.endswith(".*"):
        return kafka_topic(pattern)
    first = pattern[:-1][:KEPT_OF_KAFKA]
    escaped = (f"..{first}" if first.startswith("__") else first).replace(".", r"\.")
    return f"^{escaped}[A-Za-z0-9_-].*"


def may_hold_in_kafka(pattern: str, name: str) -> bool:
    """Whether a topic of Kafka may hold topics of a pattern: of a name that was shortened, its messages tell."""
    wanted = kafka_filter(pattern)
    return bool(re.match(wanted, name)) if wanted.startswith("^") else name == wanted


def nats_stream(topic: str) -> str:
    """The stream that is made for a topic, if no stream takes it: one for all topics with the same first part."""
    first = topic.split(".", 1)[0]
    return f"speed-{first}" if len(first) <= MAX_NATS_TOKEN else f"speed-{first[:MAX_NATS_TOKEN]}={_hash(first)}"


def nats_subjects(topic: str) -> list[str]:
    """What the stream of ``nats_stream`` takes."""
    first = topic.split(".", 1)[0]
    return [first, f"{first}.>"]


def nats_filter(pattern: str) -> str:
    """The subjects that a pattern covers."""
    return ">" if pattern == "*" else f"{pattern[:-1]}>" if pattern.endswith(".*") else pattern


def nats_durable(group: str, pattern: str) -> str:
    """The consumer of JetStream that keeps the position of a group in a pattern."""
    name = f"{group}+{pattern}".translate(_NATS)
    return name if len(name) <= MAX_NATS_DURABLE else f"{name[: MAX_NATS_DURABLE - _HEX - 1]}+{_hash(name)}"


def group_name(group: str, namespace: str) -> str:
    """What a group of a namespace is called: the groups of two namespaces do not share their messages."""
    return group if namespace == DEFAULT_NAMESPACE else f"{_plain(namespace)}+{group}"


def _plain(text: str) -> str:
    """Letters, digits, ``_`` and ``-`` as they are, and ``=`` with two digits for every other byte."""
    return quote(text, safe="").replace(".", "%2E").replace("~", "%7E").replace("%", "=")


def header_text(text: str) -> str:
    """``text`` in visible ASCII: where a header takes no more, and a line break would begin another one."""
    return quote(text, safe=_VISIBLE)


def text_of_header(text: str) -> str:
    """What ``header_text`` was given."""
    return unquote(text)


def s3_key(topic: str, message_id: str, published_at_ms: int) -> str:
    """The object that holds a message."""
    return f"{s3_day(published_at_ms)}{topic}/{quote(message_id, safe='')}.bin"


def s3_manifest(topic: str, manifest_id: str, unix_ms: int) -> str:
    """The object that names the objects of a batch, written at that time."""
    return f"{s3_day(unix_ms, MANIFESTS)}{topic}/{manifest_id}.json"


def s3_day(unix_ms: int, root: str = EVENTS) -> str:
    """Where the objects of a day (UTC) begin."""
    day = datetime.fromtimestamp(min(unix_ms, _LAST_DAY_MS) / 1000, timezone.utc)
    return f"{root}{day.year:04d}/{day.month:02d}/{day.day:02d}/"


def s3_parts(key: str, root: str = EVENTS) -> tuple[str, str] | None:
    """Topic and id of a message, or of a manifest; None for others' objects."""
    parts, end = key.split("/"), ".json" if root == MANIFESTS else ".bin"
    if len(parts) != 6 or f"{parts[0]}/" != root or not parts[5].endswith(end):
        return None
    try:
        return check_topic(parts[4]), unquote(parts[5][: -len(end)])
    except InvalidNameError:
        return None


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


# An event loop on a thread of its own, for libraries that have no other way.

Result = TypeVar("Result")
END_SECONDS = 2.0


class Loop:
    """Started when first used. Thread-safe."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = False

    def run(self, coroutine: Coroutine[Any, Any, Result], timeout: float) -> Result:
        """What it returns; BackendAwayError if that takes longer than ``timeout`` seconds."""
        try:
            loop = self._started()
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, max(timeout, 0.0)), loop)
        try:
            return future.result(timeout + END_SECONDS)
        except (asyncio.TimeoutError, TimeoutError, CancelledError):
            future.cancel()
            raise BackendAwayError(f"{self._backend} did not answer in time: try again") from None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_over:
                raise BackendError(f"the connection to {self._backend} was closed: make another one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                name = f"speed-{self._backend}-loop"
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=name, daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Cancel what is under way, and end the thread."""
        with self._lock:
            self._is_over = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(END_SECONDS)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()


MAX_MESSAGE_BYTES = 1 << 20
"""Unless more is asked for: what Kafka and NATS take as they come."""
MAX_AT_ONCE = 2000
"""Of a bridge, unless a backend is slow with so many."""
MAX_BATCH_MESSAGES = 4096
"""Of one ``publish`` of a backend."""
MAX_BATCH_BYTES = 64 << 20
MAX_HELD_MESSAGES = 4096
"""What one subscription may have and not acknowledge."""
REFRESH_SECONDS = 5.0
"""How soon new topics of a pattern are seen."""
START = ("latest", "earliest")


class Outgoing(NamedTuple):
    """One message on its way, without a token. Times are Unix milliseconds."""

    topic: str
    key: str | None
    envelope: bytes
    message_id: str
    published_at_ms: int
    trace_id: str | None
    hops: str = ""
    """Where it was before, beside the message (B-16)."""
    old: OldForm | None = None
    """To be written in place of the envelope, for readers of the older form."""

    @classmethod
    def of(cls, envelope: bytes, key: str | None = None) -> Outgoing:
        """WireError(BAD_MESSAGE) for what is no message."""
        envelope = without_token(envelope)
        view = MessageView(envelope).validate()
        fields = view.topic, view.message_id, view.published_at_ms, view.traceparent
        return cls.made(envelope, key, *fields)

    @classmethod
    def made(
        cls, envelope: bytes, key: str | None, topic: str, message_id: str, unix_ms: int, traceparent: str | None
    ) -> Outgoing:
        """Of what its maker knows."""
        trace_id = traceparent.split("-")[1] if traceparent else None
        return cls(topic, key, envelope, message_id, unix_ms, trace_id)

    def __repr__(self) -> str:
        return f"<Outgoing {self.message_id} to {self.topic}>"


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a subscription got: bytes that may be a message, or anything.

    Attributes:
        topic: where it lay; empty where only the message tells.
        position: its place, as the backend writes it.
        sequence: a number that grows within a topic of one partition; 0 where there is none.
        deliveries: how often it was delivered, this time included; 1 where nobody counts.
        handle: what the backend needs to acknowledge it.
        headers: of Kafka and NATS, as they came; of a row in the old form its other columns, as JSON.
        stored_at_ms: when the backend stored it, in Unix milliseconds; 0 where it does not tell.
        lane: in what ``sequence`` grows without late-comers (B-14); empty where nothing does.
        hops: where the message was, as it stands beside it; anybody may have written that.
    """

    topic: str
    key: str | None = field(repr=False)
    envelope: bytes = field(repr=False)
    position: str
    sequence: int = 0
    deliveries: int = 1
    handle: Any = field(default=None, repr=False)
    headers: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    stored_at_ms: int = 0
    lane: str = ""
    hops: str = ""


class Namespaces(NamedTuple):
    """Whose messages a subscription takes: of its ``own`` namespace, and of ``others``; ``*`` is all of them (M-34)."""

    own: str = DEFAULT_NAMESPACE
    others: frozenset[str] = frozenset()

    def take(self, namespace: str) -> bool:
        """Whether messages of it are taken."""
        return namespace == self.own or namespace in self.others or _ALL in self.others

    def group(self, group: str) -> str:
        """What the group is called in the backend (B-2)."""
        return group_name(group, self.own)

    @property
    def listed(self) -> list[str] | None:
        """Those that are taken, its own first; None for all."""
        return None if _ALL in self.others else [self.own, *sorted(self.others)]


_ALL = "*"
EVERY = Namespaces(others=frozenset([_ALL]))


class Checkpoint(NamedTuple):
    """How far ``bridge`` has come in a lane of its source: ``next`` is the number that comes next.

    ``topic`` is where the messages of the lane go, ``before`` the number that the bridge believes to be there.
    """

    bridge: str
    lane: str
    topic: str
    next: int
    before: int = 0


class Health(NamedTuple):
    """Whether a backend answers: in how many seconds, or what is wrong."""

    is_up: bool
    seconds: float
    trouble: str = ""


class BackendSubscription(Protocol):
    """One consumer of a group. For one thread at a time."""

    def receive(self, limit: int, timeout: float) -> list[Delivered]:
        """What comes within ``timeout`` seconds, at most so many; what was delivered and is held comes once only."""

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """When it returns, they do not come again; those of a connection that was lost meanwhile may."""

    def positions(self) -> dict[str, str]:
        """Where the group stands, by topic or partition, as far as this consumer knows."""

    def close(self) -> None:
        """Leave the group; what is held comes again, to others at once."""


class SharedSubscription(BackendSubscription, Protocol):
    """One whose group is shared by several namespaces."""

    def leave(self, delivered: Sequence[Delivered]) -> None:
        """They are of another namespace: who takes that gets them."""


class Backend(Protocol):
    """Thread-safe."""

    @property
    def has_groups(self) -> bool:
        """Whether messages are kept for groups. If not, who is not there misses them."""

    @property
    def max_at_once(self) -> int:
        """How many messages take it seconds, and not minutes."""

    @property
    def takes_ahead(self) -> bool:
        """Whether what was taken is acknowledged for good while more is held."""

    def unfit(self, message: Outgoing) -> str:
        """Why a message can never be published here: `BAD_KEY`, `BAD_ID`; empty if it can."""

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        """Their positions, once all are confirmed, within ``timeout`` seconds."""

    def subscribe(
        self, pattern: str, group: str, start: str, *, alone: bool = False, namespaces: Namespaces = EVERY
    ) -> BackendSubscription:
        """Join ``group``; it is made at ``start`` if it is not there. Connects when first asked for messages.

        Messages of other namespaces than ``namespaces`` may come as well. Each namespace has the group for itself, so
        they may be acknowledged; a SharedSubscription leaves them.

        ``alone``: it is the one member, ever: what it held when it was killed comes first, in its order (B-14).
        """

    def ping(self, timeout: float) -> None:
        """Returns once the server answered."""

    def close(self) -> None:
        """End the connection. What is under way fails."""


class PlacingBackend(Backend, Protocol):
    """One that can keep a place together with the messages before it (B-14)."""

    @property
    def keeps_places(self) -> bool:
        """Whether it does, as its address asks."""

    def publish_at(self, messages: Sequence[Outgoing], places: Sequence[Checkpoint], timeout: float) -> dict[str, int]:
        """Messages and places, all or none; once they are confirmed. Without places as ``publish``.

        Nothing is published where a place has another number than ``before``: an earlier attempt was kept, though its
        answer was lost. Returns the numbers that are there then, by lane.
        """

    def next_of(self, place: Checkpoint, timeout: float) -> int:
        """What ``publish_at`` said last of the lane of ``place``; 0 if that is not known."""


class TakesAll:
    """A backend in which nothing is unfit."""

    def unfit(self, message: Outgoing) -> str:
        """Nothing is."""
        return ""


def too_large(limit: str) -> PayloadTooLargeError:
    """For what a server does not take."""
    return PayloadTooLargeError(f"the message is larger than the backend takes: raise {limit}, or send less")
