"""Pulsar's admin API over HTTP: what its clients cannot do (D-20)."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from speed.errors import ConfigurationError, StorageError
from speed.topics.subscription import SubscriptionError

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
        asked = Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310 - checked settings
        if token := self._token():
            asked.add_header("Authorization", f"Bearer {token}")
        try:
            with self._opener.open(asked, timeout=SECONDS) as answer:
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
        told = json.loads(error.read(MAX_ANSWER_BYTES))["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        told = error.reason
    return str(told)[:MAX_REASON]
