"""What a program asks of a node when it is made, and of its verbs: the same for every engine."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from speed.core.access import AccessPolicy
from speed.errors import ConfigurationError, DurabilityError
from speed.wire import names
from speed.wire.limits import MAX_NAMESPACE_BYTES, MAX_OPEN_FILES

if TYPE_CHECKING:
    from speed.segment.reassembly import Limits


MAX_WORKERS = 256
MAX_LEASE_SECONDS = 10_000_000
WRITE_MESSAGES = 64
"""Messages that share a write and a ring at most."""
SPIN_SECONDS = 200e-6
"""How long lanes are polled after activity before the reader sleeps: waking a sleeping core costs more (0008)."""
MAX_DELIVERIES_OPTION = 1_000_000
MAX_SPIN_SECONDS = 0.01
DURABILITIES = ("process", "disk")
BELLS = ("auto", "polling")
ON_ERROR = ("dead-letter", "retry", "drop")
ON_FULL = ("wait", "drop")
MESSAGE_OPTIONS = frozenset(
    {
        "topic",
        "priority",
        "ttl_seconds",
        "correlation_id",
        "causality_parent",
        "traceparent",
        "parent_span_id",
        "labels",
        "baggage",
        "extensions",
    }
)
"""Keyword arguments of ``send`` and ``publish`` (messages.md)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of ``Node``, as given."""

    name: str
    root: str | os.PathLike[str] | None
    key: str | os.PathLike[str] | None
    fabrics: tuple[str, ...]
    lease_seconds: float
    heartbeat_seconds: float
    workers: int
    durability: str
    allow: tuple[str, ...]
    namespace: str
    bell: str
    max_lane_bytes: int
    max_open_files: int | None
    spin_seconds: float | None
    segment_limits: Limits | None = None
    on_error: str = "dead-letter"
    max_deliveries: int = 5
    ephemeral: bool = False
    starting: bool = False
    accept_namespaces: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what no engine could use, before anything is touched.

        Raises InvalidNameError for the name and the grants, DurabilityError, and ConfigurationError for all else.
        """
        names.check_node_name(self.name)
        AccessPolicy(self.allow)
        for what, path in (("root", self.root), ("key", self.key)):
            _check_kind(what, path, (str, os.PathLike, type(None)), "a path")
        for namespace in (self.namespace, *self.accept_namespaces):
            check_namespace(namespace)
        for what in ("ephemeral", "starting"):
            _check_kind(what, getattr(self, what), (bool,), "True or False")
        for what in ("lease_seconds", "heartbeat_seconds"):
            _check_seconds(what, getattr(self, what))
        _check_count("workers", self.workers, MAX_WORKERS)
        _check_count("max_deliveries", self.max_deliveries, MAX_DELIVERIES_OPTION)
        _check_count("max_lane_bytes", self.max_lane_bytes)
        if self.max_open_files is not None:
            _check_count("max_open_files", self.max_open_files)
        _check_choice("bell", self.bell, BELLS)
        _check_choice("on_error", self.on_error, ON_ERROR)
        _check_choice("durability", self.durability, DURABILITIES, DurabilityError)
        if self.spin_seconds is not None:
            _check_spin(self.spin_seconds)
        if self.segment_limits is not None:
            from speed.segment.reassembly import Limits

            _check_kind("segment_limits", self.segment_limits, (Limits,), "speed.segment.Limits")
            self.segment_limits.check()

    @property
    def accepted(self) -> frozenset[str]:
        """The namespaces whose messages the program gets: its own, and those it asked for."""
        return frozenset((self.namespace, *self.accept_namespaces))

    @property
    def open_files(self) -> int:
        """Descriptors for lanes and links, as asked or by default."""
        if self.max_open_files is not None:
            return self.max_open_files
        return min(MAX_OPEN_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def _check_seconds(what: str, seconds: float) -> None:
    if not isinstance(seconds, int | float) or not 0 < seconds < MAX_LEASE_SECONDS:
        raise ConfigurationError(f"{what} is {seconds!r}; use a number of seconds above 0, below {MAX_LEASE_SECONDS}")


def _check_kind(what: str, value: Any, kinds: tuple[type, ...], possible: str) -> None:
    if not isinstance(value, kinds):
        raise ConfigurationError(f"{what} is {value!r}; use {possible}")


def check_namespace(namespace: str) -> None:
    """ConfigurationError for what no message has."""
    _check_kind("namespace", namespace, (str,), "text")
    if not 0 < len(namespace.encode()) <= MAX_NAMESPACE_BYTES:
        raise ConfigurationError(f"namespace is {namespace[:64]!r}; use text of 1 to {MAX_NAMESPACE_BYTES} bytes")


def _check_count(what: str, count: int, limit: int | None = None) -> None:
    if type(count) is not int or count < 1 or (limit is not None and count > limit):
        possible = "a positive number" if limit is None else f"1 to {limit}"
        raise ConfigurationError(f"{what} is {count!r}; use {possible}")


def _check_choice(
    what: str, chosen: str, choices: tuple[str, ...], error: type[ConfigurationError] = ConfigurationError
) -> None:
    if chosen not in choices:
        raise error(f"{what} is {chosen!r}; use one of {', '.join(map(repr, choices))}")


def _check_spin(seconds: float) -> None:
    if not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_SPIN_SECONDS:
        raise ConfigurationError(f"spin_seconds is {seconds!r}; use 0 (sleep at once) to {MAX_SPIN_SECONDS}")


class CallRequest(NamedTuple):
    """One call, as ``Node`` has checked it; ``timeout`` in seconds."""

    target: str
    service: str
    arguments: dict[str, Any]
    timeout: float
    traceparent: str | None = None
    views: bool = False
    """Whether bytes of the result are memoryviews."""


class SendRequest(NamedTuple):
    """One message to one node, as ``Node`` has checked it; ``timeout`` in seconds."""

    target: str
    payload: Any
    ack: bool
    timeout: float
    metadata: dict[str, Any]
    progress: Callable[[int, int], object] | None = None
    """Told how much of a payload in segments is written, in bytes."""
    unordered: bool = False
    """Whether what is sent after it may be handled before it."""
