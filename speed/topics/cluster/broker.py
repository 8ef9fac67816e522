"""A Pulsar cluster: its client, its admin API, what is wrong with them (D-20, D-24), and what messages are there."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from speed.errors import ConfigurationError, StorageError, WireError
from speed.topics.backend import StoredMessage
from speed.topics.subscription import SubscriptionError
from speed.wire.topic import DEAD_LETTER, MAX_ATTEMPTS, MESSAGE, TOMBSTONE, RecordHead, decode, encode, key_hash
from speed.wire.value import pack, unpack

if TYPE_CHECKING:
    import pulsar


# Pulsar's admin API over HTTP: what its clients cannot do (D-20).

SECONDS = 5.0
"""How long an answer may take."""
MAX_ANSWER_BYTES = 16 << 20
MAX_REASON = 300


class NotThereError(SubscriptionError):
    """What was asked for does not exist."""

    def __init__(self, text: str) -> None:
        super().__init__("UNKNOWN_TOPIC", f"Pulsar has no such thing: {text}")


class ConflictError(SubscriptionError):
    """It is there already, or in use."""

    def __init__(self, text: str) -> None:
        super().__init__("TAKEN", f"Pulsar refuses this now: {text}")


class Admin:
    """Of one namespace. Thread-safe.

    Args:
        url: of the admin API, ``http://host:8080``.
        namespace: ``tenant/namespace``.
        token: gives the token to send; empty for none.
        trusted: a file of certificates that are trusted for https; None for those of the system.

    Raises ConfigurationError for such a file that cannot be read.
    Methods raise StorageError if no answer comes, SubscriptionError DENIED if the cluster refuses the token.
    """

    def __init__(self, url: str, namespace: str, token: Callable[[], str], trusted: str | None = None) -> None:
        self._base, self.namespace, self._token = f"{url.rstrip('/')}/admin/v2/", namespace, token
        handlers: list[Any] = [ProxyHandler({})]
        if url.startswith("https"):
            handlers.append(HTTPSHandler(context=_context(trusted)))
        self._opener = build_opener(*handlers)

    def topics(self) -> list[str]:
        """Names of all persistent topics, those with partitions as their partitions."""
        begins = f"persistent://{self.namespace}/"
        found = self._ask("GET", f"persistent/{self.namespace}")
        return [one[len(begins) :] for one in found if one.startswith(begins)]

    def policies(self) -> dict[str, Any]:
        """Those of the namespace."""
        return dict(self._ask("GET", f"namespaces/{self.namespace}"))

    def get(self, topic: str, what: str, **query: str) -> Any:
        """What is said of a topic. Raises NotThereError."""
        return self._ask("GET", self._path(topic, what), query=query)

    def put(self, topic: str, what: str, body: Any = None) -> None:
        """Make something of a topic, or itself. Raises NotThereError, ConflictError."""
        self._ask("PUT", self._path(topic, what), body)

    def post(self, topic: str, what: str, body: Any = None) -> None:
        """Change something of a topic. Raises NotThereError, ConflictError."""
        self._ask("POST", self._path(topic, what), body)

    def delete(self, topic: str, what: str = "", **query: str) -> None:
        """Remove something of a topic, or itself. Raises NotThereError, ConflictError."""
        self._ask("DELETE", self._path(topic, what), query=query)

    def _path(self, topic: str, what: str) -> str:
        return f"persistent/{self.namespace}/{quote(topic, safe='')}{'/' if what else ''}{what}"

    def _ask(self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None) -> Any:
        url = self._base + path + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310 - checked settings
        if token := self._token():
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                return _value(answer.read(MAX_ANSWER_BYTES))
        except HTTPError as error:
            with error:
                raise _refusal(error) from None
        except (OSError, URLError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise StorageError(f"the admin API of Pulsar does not answer: {reason}; try again") from None


def _context(trusted: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=trusted)
    except OSError as error:
        raise ConfigurationError(f"certificates cannot be read from {trusted}: {error}") from None


def _value(data: bytes) -> Any:
    return json.loads(data) if data else None


def _refusal(error: HTTPError) -> Exception:
    """What an answer with an error means."""
    reason = _reason(error)
    if error.code == 404:
        return NotThereError(reason)
    if error.code in (409, 412):
        return ConflictError(reason)
    if error.code in (401, 403):
        return SubscriptionError("DENIED", f"Pulsar refuses the host: {reason}; check its token")
    text = f"the admin API of Pulsar answers {error.code}: {reason}; try again"
    return StorageError(text) if error.code in (502, 503, 504) else SubscriptionError("NOT_WRITTEN", text)


def _reason(error: HTTPError) -> str:
    try:
        reason = json.loads(error.read(MAX_ANSWER_BYTES))["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        reason = error.reason
    return str(reason)[:MAX_REASON]


OPERATION_SECONDS = 5
"""How long a broker may take to answer."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 8.0
"""How long a cluster that did not answer is not asked again; doubled each time."""


@dataclass(frozen=True)
class Cluster:
    """How a cluster is reached."""

    url: str
    """``pulsar://host:6650`` or ``pulsar+ssl://host:6651``."""
    admin: str
    """``http://host:8080`` or ``https://host:8443``."""
    namespace: str = "public/default"
    token_file: str | None = None
    """A file with the token that the host shows; it is read again for each connection."""
    trusted: str | None = None
    """A file of certificates that are trusted for TLS, instead of those of the system."""

    def token(self) -> str:
        """What the file says; empty without one. Raises StorageError."""
        if self.token_file is None:
            return ""
        try:
            with open(self.token_file, encoding="ascii") as file:
                return file.read(65536).strip()
        except (OSError, ValueError) as error:
            raise StorageError(f"the token of Pulsar cannot be read from {self.token_file}: {error}") from None


class Broker:
    """Thread-safe. It connects when it is first used, so it can be made while the cluster is away.

    Raises ConfigurationError if Pulsar's client is not installed.
    """

    def __init__(self, cluster: Cluster) -> None:
        try:
            import pulsar
        except ImportError:
            raise ConfigurationError("backend needs its client: install speed-ipc[pulsar-backend]") from None
        self.cluster = cluster
        self.admin = Admin(cluster.admin, cluster.namespace, cluster.token, cluster.trusted)
        self.trouble = ""
        """What is wrong; empty if the last question was answered."""
        self._lock = threading.Lock()
        self._pause, self._not_before = FIRST_PAUSE_SECONDS, 0.0
        self._failed = pulsar.exceptions.PulsarException
        self.client = _client(cluster)

    def topic(self, name: str) -> str:
        """The whole name of a topic."""
        return f"persistent://{self.cluster.namespace}/{name}"

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Guard a request to the cluster. Raises StorageError if it does not answer, at once if it lately did not.

        Its other refusals come as SubscriptionError.
        """
        if time.monotonic() < self._not_before:
            raise StorageError(self.trouble)
        try:
            yield
        except StorageError as error:
            self._note(str(error))
            raise
        except self._failed as error:
            raise self.refusal(type(error).__name__) from None
        except Exception:
            self._note("")  # another refusal is an answer
            raise
        else:
            self._note("")

    def refusal(self, name: str) -> Exception:
        """What the name of an error of Pulsar means here. One that is not known is taken for silence."""
        if name in _REFUSALS:
            code, text = _REFUSALS[name]
            return SubscriptionError(code, text)
        self._note(f"Pulsar does not answer, or not to this host ({name}); try again")
        return StorageError(self.trouble)

    def _note(self, trouble: str) -> None:
        with self._lock:
            self.trouble = trouble
            if not trouble:
                self._pause, self._not_before = FIRST_PAUSE_SECONDS, 0.0
            else:
                self._not_before = time.monotonic() + self._pause
                self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)

    def close(self) -> None:
        """End the connection. What is under way fails."""
        self.client.shutdown()


_DENIED = "DENIED", "Pulsar refuses the host: check its token, and what its role may do in the namespace"
_FULL = "FULL", "the quota of the topic's backlog is used up: consume it, or raise the quota in Pulsar"
_BUSY = "NOT_WRITTEN", "another host, or another program, publishes under this producer's name now; try again"
_REFUSALS = {
    "AlreadyClosed": ("NOT_WRITTEN", "Pulsar closed what this went through; try again"),
    "AuthenticationError": _DENIED,
    "AuthorizationError": _DENIED,
    "ErrorGettingAuthenticationData": _DENIED,
    "ConsumerBusy": ("TAKEN", "another host, or another program, has this subscription, alone or as another type"),
    "MessageTooBig": ("INVALID_ARGUMENTS", "the message is larger than the cluster takes: its maxMessageSize"),
    "ProducerBlockedQuotaExceededError": _FULL,
    "ProducerBlockedQuotaExceededException": _FULL,
    "ProducerBusy": _BUSY,
    "ProducerFenced": _BUSY,
    "TopicNotFound": ("UNKNOWN_TOPIC", "the topic is not there any more"),
    "TopicTerminated": ("DENIED", "the topic was ended in Pulsar: nothing can be published to it"),
}
"""Answers of a cluster that is there: code and text."""


def _client(cluster: Cluster) -> pulsar.Client:
    """It says nothing by itself: it would write to standard output, and what is wrong comes as an error as well."""
    import _pulsar
    import pulsar

    def token() -> str:
        try:
            return cluster.token()
        except StorageError:  # on a thread that must not fail: the admin API tells
            return ""

    return pulsar.Client(
        cluster.url,
        authentication=pulsar.AuthenticationToken(token) if cluster.token_file else None,
        operation_timeout_seconds=OPERATION_SECONDS,
        connection_timeout_ms=OPERATION_SECONDS * 1000,
        tls_trust_certs_file_path=cluster.trusted,
        tls_validate_hostname=True,
        stats_interval_in_seconds=0,
        logger=pulsar.FileLogger(_pulsar.LoggerLevel.Error, os.devnull),
    )


# A message of a durable topic as one of Pulsar, and back (D-21, D-22): so a program that uses Pulsar's own client reads
# what a node published, and a node what such a program did. Pure.

LEDGER_BITS, ENTRY_BITS, BATCH_BITS = 31, 24, 8


class MessagePosition(NamedTuple):
    """Where a message lies, in the order of its topic. ``batch`` is -1 of one that is alone in its entry."""

    ledger: int
    entry: int
    batch: int = -1

    @property
    def offset(self) -> int:
        """63 bits. Raises SubscriptionError UNSUPPORTED if a part needs more than its share."""
        ledger, entry, batch = self.ledger, max(self.entry, 0), max(self.batch, 0)
        if ledger >> LEDGER_BITS or entry >> ENTRY_BITS or batch >> BATCH_BITS:
            text = f"the message {ledger}:{entry}:{batch} of Pulsar has no offset: its numbers are too large; "
            todo = f"batches of other producers may hold {1 << BATCH_BITS} messages, and ledgers {1 << ENTRY_BITS}"
            raise SubscriptionError("UNSUPPORTED", text + todo)
        return (ledger << ENTRY_BITS | entry) << BATCH_BITS | batch

    @classmethod
    def of(cls, offset: int) -> MessagePosition:
        """The first place that an offset may mean."""
        entry = offset >> BATCH_BITS
        batch = offset & (1 << BATCH_BITS) - 1
        return cls(entry >> ENTRY_BITS, entry & (1 << ENTRY_BITS) - 1, batch or -1)

    @classmethod
    def read(cls, text: str) -> MessagePosition:
        """Of ``ledger:entry``, as Pulsar's statistics write it. ValueError for anything else."""
        ledger, entry = text.split(":")[:2]
        return cls(int(ledger), int(entry))

    @property
    def next_entry(self) -> MessagePosition:
        """The entry that comes next, if its ledger goes on."""
        return MessagePosition(self.ledger, self.entry + 1)


OWN = "speed."
"""How the names of the host's own properties begin."""
_TEXTS = ("publisher", "producer", "owner")
_NUMBERS = ("sequence", "due", "attempts")
MAX_NUMBER = (1 << 63) - 1


class PulsarRecord(NamedTuple):
    """What Pulsar gets; ``payload`` is None of a tombstone."""

    payload: bytes | None
    key: str | None
    properties: dict[str, str]
    sequence: int


def outgoing(record: bytes) -> PulsarRecord:
    """Of the record of a message. Raises SubscriptionError INVALID_ARGUMENTS for what Pulsar cannot say."""
    head, about, payload = decode(record)
    properties = dict(about.get("properties", {}))
    if about.get("key") == "":
        raise _wrong("an empty key is none in Pulsar: leave it out, or give another one")
    taken = next((name for name in properties if name.startswith(OWN)), None)
    if taken is not None:
        raise _wrong(f"property {taken!r}: names that begin with {OWN!r} are the host's own")
    properties.update({OWN + name: about[name] for name in _TEXTS if about.get(name)})
    numbers = {"sequence": head.sequence, "due": head.due_ms, "attempts": head.attempts}
    properties.update({OWN + name: str(number) for name, number in numbers.items() if number})
    if head.type == DEAD_LETTER:
        topic, offset, subscription = about["origin"]
        properties[OWN + "origin"] = f"{topic} {offset} {subscription}"
    return PulsarRecord(None if head.type == TOMBSTONE else payload, about.get("key"), properties, head.sequence)


def _wrong(text: str) -> SubscriptionError:
    return SubscriptionError("INVALID_ARGUMENTS", text)


def record(payload: bytes | None, key: str, properties: Mapping[str, str]) -> bytes:
    """The record of a message of Pulsar; ``payload`` None is a tombstone, an empty ``key`` is none.

    The payload of one that no host published is its bytes.
    """
    own = {name[len(OWN) :]: text for name, text in properties.items() if name.startswith(OWN)}
    numbers = {name: _number(own.get(name, "")) for name in _NUMBERS}
    about: dict[str, Any] = {name: own[name] for name in _TEXTS if name in own}
    about.setdefault("publisher", "")
    about.update({"key": key} if key else {})
    others = {name: text for name, text in properties.items() if not name.startswith(OWN)}
    about.update({"properties": others} if others else {})
    origin = _origin(own.get("origin", ""))
    about.update({"origin": origin} if origin else {})
    kind = DEAD_LETTER if origin else TOMBSTONE if payload is None and key else MESSAGE
    attempts = min(numbers["attempts"], MAX_ATTEMPTS)
    head = RecordHead(kind, attempts, key_hash(key) if key else 0, numbers["due"], numbers["sequence"])
    if payload is None:
        payload = b""
    elif "publisher" not in own or not _is_value(payload):
        payload = pack(payload)
    return encode(head, about, payload)


def _number(text: str) -> int:
    """0 for what no host wrote."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_NUMBER else 0


def _origin(text: str) -> list[Any]:
    parts = text.split(" ")
    return [parts[0], _number(parts[1]), parts[2]] if len(parts) == 3 else []


def _is_value(payload: bytes) -> bool:
    """Other bytes would stop every consumer that gets them."""
    try:
        if payload:
            unpack(payload)
    except WireError:
        return False
    return True


class ReceivedRecord(NamedTuple):
    """A message, and where it lies."""

    place: MessagePosition
    stored: StoredMessage


def received(message: pulsar.Message) -> ReceivedRecord:
    """Raises SubscriptionError UNSUPPORTED for one that has no offset."""
    id_ = message.message_id()
    place = MessagePosition(id_.ledger_id(), id_.entry_id(), id_.batch_index())
    payload = None if message.has_null_value() else message.data()
    try:
        key, properties = message.partition_key(), message.properties()
    except UnicodeDecodeError:  # of another program: it comes without what is no text
        key, properties = "", {}
    return ReceivedRecord(
        place, StoredMessage(place.offset, message.publish_timestamp(), record(payload, key, properties))
    )
