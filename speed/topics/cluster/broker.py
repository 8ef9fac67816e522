"""The connection to a Pulsar cluster: its client, its admin API, and what is wrong with them (D-24)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speed.errors import ConfigurationError, StorageError
from speed.topics.cluster.admin import Admin
from speed.topics.subscription import SubscriptionError

if TYPE_CHECKING:
    import pulsar

OPERATION_SECONDS = 5
"""How long a broker may take to answer."""
FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.5, 8.0
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
    def asked(self) -> Iterator[None]:
        """Around what asks the cluster. Raises StorageError if it does not answer, at once if it lately did not.

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
                self._pause = min(2 * self._pause, MOST_PAUSE_SECONDS)

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
