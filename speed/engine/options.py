"""What a program asks of a node when it is made, and of its verbs: the same for every engine."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from speed.core.access import AccessPolicy
from speed.engine import node_options
from speed.errors import ConfigurationError, DurabilityError
from speed.wire import names
from speed.wire.limits import MAX_NAMESPACE_BYTES, MAX_OPEN_FILES

MAX_LEASE_SECONDS = 10_000_000
WRITE_MESSAGES = 64
"""Messages that share a write and a ring at most."""
_MAX_COUNT = (1 << 63) - 1
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(node_options.NodeOptions):
    """The arguments of ``Node``, as given."""

    name: str

    def check(self) -> None:
        """Refuse what no engine could use, before anything is touched.

        Raises InvalidNameError for the name and the grants, DurabilityError, and ConfigurationError for all else.
        """
        names.check_node_name(self.name)
        AccessPolicy(self.allow)
        for namespace in (self.namespace, *self.accept_namespaces):
            check_namespace(namespace)
        self._check_kinds()
        self._check_bounds()
        if self.segment_limits is not None:
            from speed.segment.reassembly import Limits

            _check_kind("segment_limits", self.segment_limits, (Limits,), "speed.segment.Limits")
            self.segment_limits.check()

    def _check_kinds(self) -> None:
        for what in node_options.PATHS:
            _check_kind(what, getattr(self, what), (str, os.PathLike, type(None)), "a path")
        for what in node_options.FLAGS:
            _check_kind(what, getattr(self, what), (bool,), "True or False")
        for what, choices in node_options.CHOICES.items():
            error = DurabilityError if what == "durability" else ConfigurationError
            _check_choice(what, getattr(self, what), choices, error)

    def _check_bounds(self) -> None:
        """Of all numbers; those that are left to the engine are None."""
        for what in node_options.SECONDS:
            _check_seconds(what, getattr(self, what))
        for what, counts in node_options.COUNTS.items():
            if not self._is_left(what):
                _check_count(what, getattr(self, what), *counts)
        for what, span in node_options.SPANS.items():
            if not self._is_left(what):
                _check_span(what, getattr(self, what), *span)

    def _is_left(self, what: str) -> bool:
        return what in node_options.LEFT_OPEN and getattr(self, what) is None

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


def _check_count(what: str, count: int, least: int, most: int | None) -> None:
    if type(count) is not int or count < least or (most is not None and count > most):
        possible = f"{least} or more" if most is None else f"{least} to {most}"
        raise ConfigurationError(f"{what} is {count!r}; use {possible}")
    if count > _MAX_COUNT:
        raise ConfigurationError(f"{what} is {count!r}; use {_MAX_COUNT} or less")


def _check_choice(
    what: str, chosen: str, choices: tuple[str, ...], error: type[ConfigurationError] = ConfigurationError
) -> None:
    if chosen not in choices:
        raise error(f"{what} is {chosen!r}; use one of {', '.join(map(repr, choices))}")


def _check_span(what: str, seconds: float, shortest: float, longest: float | None) -> None:
    if not isinstance(seconds, int | float) or not shortest <= seconds <= (longest or math.inf):
        raise ConfigurationError(f"{what} is {seconds!r}; use {shortest} to {longest}")


class CallRequest(NamedTuple):
    """One call, as ``Node`` has checked it; ``timeout`` in seconds."""

    target: str
    service: str
    arguments: dict[str, Any]
    timeout: float
    traceparent: str | None = None
    views: bool = False
    """Whether bytes of the result are memoryviews."""
    read: Callable[[Any], Any] | None = None
    """Makes of the result what the caller asked for; raises what the caller gets instead."""


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
