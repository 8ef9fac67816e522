"""What a program asks of a node when it is made, and of its verbs: the same for every engine."""

from __future__ import annotations

import math
import os
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from random import uniform
from time import monotonic
from typing import Any, NamedTuple

from speed.core.access import AccessPolicy
from speed.engine import node_options
from speed.errors import (
    CallTimeoutError,
    ConfigurationError,
    DurabilityError,
    Execution,
    NodeLeftError,
    NodeStartingError,
    SpeedError,
    UnknownNodeError,
)
from speed.wire import lazily, names
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
            with lazily.guard:
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


# Calls that are repeated.

_TRANSIENT = (UnknownNodeError, NodeLeftError, NodeStartingError)
"""With these a later attempt may succeed."""
_PERHAPS_RUN = (NodeLeftError, CallTimeoutError)
MOST_BACKOFF_SECONDS = 5.0
_BUDGET_TOKENS = 10.0


def may_repeat(error: BaseException, *, idempotent: bool) -> bool:
    """Whether another attempt may be made after ``error``, and may succeed.

    What was not begun may always be repeated, what may have run only where the service is ``idempotent``.
    """
    if isinstance(error, _TRANSIENT) and error.execution is Execution.NOT_BEGUN:
        return True
    return idempotent and isinstance(error, _PERHAPS_RUN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a call is tried, while its timeout lasts: ``node.call(…, retry=speed.Retry(attempts=5))``.

    A call is tried again when its node is gone, left, or starts, and it was not begun. What may have run is tried again
    only for a service that may run twice.

    Args:
        attempts: in all, the first one included; 1 or more.
        backoff_seconds: pause before the second attempt; each further one is twice as long, up to 5 s, and varies by a
            fifth, so that callers do not come all at once; 0 or more.
        idempotent: the service may run twice for one call.
        budget: how much of an attempt each call that succeeds earns, so that retries never multiply the load of a node
            that is in trouble: each that fails takes one of 10 away, and below 5 nothing is tried again; above 0 to 1,
            None for no such bound. What was earned is a node's, for each target.
        hedge_seconds: of a family of nodes, ask a second one where the first has not answered after this time, and take
            what comes first; it counts as one that failed. Only for ``idempotent``; None for never, else 0 or more.

    Raises ConfigurationError for numbers out of these ranges.
    """

    attempts: int = 3
    backoff_seconds: float = 0.1
    idempotent: bool = False
    budget: float | None = 0.1
    hedge_seconds: float | None = None

    def __post_init__(self) -> None:
        _check_count("attempts", self.attempts, 1, None)
        _check_span("backoff_seconds", self.backoff_seconds, 0.0, 1e6)
        if self.budget is not None:
            _check_span("budget", self.budget, 1e-6, 1.0)
        if self.hedge_seconds is not None:
            _check_span("hedge_seconds", self.hedge_seconds, 0.0, 1e6)
            if not self.idempotent:
                raise ConfigurationError("hedge_seconds needs idempotent=True: the service may run twice for one call")


def backoff(first_seconds: float, made: int) -> float:
    """The pause when so many attempts were made, before it is varied."""
    return min(MOST_BACKOFF_SECONDS, first_seconds * 2.0 ** min(made - 1, 32))


class RetryBudget:
    """What calls of one target have earned (as gRFC A6 has it). Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens = _BUDGET_TOKENS

    def succeeded(self, earned: float) -> None:
        with self._lock:
            self._tokens = min(_BUDGET_TOKENS, self._tokens + earned)

    def failed(self) -> bool:
        """Take one away; whether there is enough left to try again."""
        with self._lock:
            self._tokens = max(0.0, self._tokens - 1.0)
            return self._tokens > _BUDGET_TOKENS / 2


class Attempts:
    """The attempts of one call; one thread or task uses it."""

    def __init__(self, retry: Retry, timeout: float, budget: RetryBudget) -> None:
        """``timeout`` in seconds is for all of them."""
        self._retry, self._budget = retry, budget
        self._until = monotonic() + timeout
        self._made = 0

    @property
    def left(self) -> float:
        """Seconds for the next one."""
        return max(0.0, self._until - monotonic())

    def succeeded(self) -> None:
        """The call has its result."""
        self._budget.succeeded(self._retry.budget or 0.0)

    def may_hedge(self) -> bool:
        """Whether a second node may be asked beside the first; that costs as much as a failure."""
        return self._budget.failed() or self._retry.budget is None

    def pause(self, error: SpeedError) -> float:
        """Seconds to wait before the next one; ``error`` itself where none is made."""
        retry = self._retry
        self._made += 1
        if not may_repeat(error, idempotent=retry.idempotent):
            raise error
        has_budget = self._budget.failed() or retry.budget is None
        pause = backoff(retry.backoff_seconds, self._made) * uniform(0.8, 1.2)
        if not has_budget or self._made >= retry.attempts or pause >= self.left:
            raise error
        return pause


class CallRequest(NamedTuple):
    """One call that a node makes, as interceptors see it; ``request._replace(arguments=…)`` is one like it.

    Attributes:
        target: name of the node that is called.
        service: name of the service.
        arguments: by name.
        timeout: in seconds.
        traceparent: of the trace that it is given; None: that of the work at hand.
    """

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
