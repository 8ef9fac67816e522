"""A Pulsar cluster: its client, its admin API, and what is wrong with them (D-20, D-24)."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from speed.errors import ConfigurationError, StorageError
from speed.topics.subscription import SubscriptionError

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
