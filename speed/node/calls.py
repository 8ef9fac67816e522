"""The verbs of a node that ask another one: calls, and the questions that every node answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from speed.core.access import granted
from speed.core.hints import by_name, checked_seconds, in_seconds, text
from speed.core.services import as_declared, result_reader
from speed.core.signatures import Description, described
from speed.engine import Engine
from speed.engine.interceptors import InterceptedFuture, Interceptors, checked, through
from speed.engine.options import Attempts, CallRequest, Retry, RetryBudget
from speed.engine.workers import place_given_up
from speed.errors import AccessDeniedError, ConfigurationError, SpeedError, UnknownNodeError
from speed.node.streaming import StreamVerbs, name_callee
from speed.wire import lazily
from speed.wire.names import is_family

if TYPE_CHECKING:
    from speed.node.group import Families, Family
    from speed.node.remote import Across, Protected
    from speed.wire.entry import Entry
    from speed.wire.spc import Progress

    Toward = Engine | Across | Family

InterceptorFunction = TypeVar("InterceptorFunction", bound=Callable[..., Any])


def _as_declared(error: SpeedError, request: CallRequest) -> SpeedError:
    """The error of a call, which says where it comes from, as the class that the program declares for it."""
    name_callee(error, request.target, request.service)
    return as_declared(error)


class CallVerbs(StreamVerbs):
    """What a node asks of others."""

    name: str
    _engine: Engine
    _guarded: Protected | None
    _around_calls: Interceptors = ()
    _budgets: dict[str, RetryBudget]
    """Of what is tried again, by target."""
    _families: Families | None

    def _make_protected(self) -> Protected:
        raise NotImplementedError

    def intercept_calls(self, interceptor: InterceptorFunction) -> InterceptorFunction:
        """Run ``interceptor`` around each attempt of a call that this node makes from now on; also a decorator.

        As ``intercept_services``, with a ``speed.CallRequest``. Of ``submit`` and ``aio`` another thread may run what
        stands behind its ``yield``; of a stream that is when it ends, and its result is that beside its items.
        """
        self._around_calls = (*self._around_calls, checked(interceptor))
        return interceptor

    def call(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
        returns: Any = None,
        retry: Retry | None = None,
        key: str | None = None,
        on_progress: Callable[[Progress], object] | None = None,
    ) -> Any:
        """Call a service of another node, here or of another host (``billing@hostb``), and return its result.

        Of a family, ``pricing.*``, one node is called: with the fewest calls of this node under way, of equals one
        after the other; with a ``key`` the same one for the same key. Another one is, where it did not begin the call.
        ``timeout`` in seconds (default 30) is the deadline on both sides. With ``views`` bytes in the result are
        read-only memoryviews of memory that lives as long as they do. With ``returns``, a type as services declare
        them, the result is one: ``returns=Receipt``, ``list[Decimal]``. With ``retry`` it is tried again while
        ``timeout`` lasts. ``on_progress(progress)`` hears, on this thread, how far the service says it is
        (``request.progress``). Raises UnknownNodeError, AccessDeniedError,
        NodeLeftError, InboxFullError, WireError for a result that is no such value, or the CallError the other side
        reported.
        """
        target, service = text("node", target), text("service", service)
        read = None if returns is None else result_reader(returns)
        request = CallRequest(target, service, by_name(arguments), in_seconds(timeout), traceparent, views, read)
        toward = self._toward(target, key)
        try:
            if on_progress is not None:
                call = partial(self._call_with_progress, on_progress, retry=retry, key=key)
                return self._around(call)(request)
            if retry is None:
                return self._around(toward.call)(request)
            return self._repeated(toward, request, retry)
        except SpeedError as error:
            raise _as_declared(error, request) from None

    def _around(self, call: Callable[[CallRequest], Any]) -> Callable[[CallRequest], Any]:
        """The call between the interceptors, which see errors as the program declares them."""
        if not self._around_calls:
            return call

        def called(request: CallRequest) -> Any:
            try:
                return call(request)
            except SpeedError as error:
                raise _as_declared(error, request) from None

        return partial(through, self._around_calls, called)

    def _repeated(self, toward: Toward, request: CallRequest, retry: Retry) -> Any:
        attempts = self._attempts(request.target, request.timeout, retry)
        call: Callable[[CallRequest], Any] = toward.call
        if retry.hedge_seconds is not None:
            call = partial(cast("Family", toward).hedged, seconds=retry.hedge_seconds, may_hedge=attempts.may_hedge)
        call = self._around(call)
        while True:
            try:
                result = call(request._replace(timeout=attempts.left))
            except SpeedError as error:
                with place_given_up():
                    time.sleep(attempts.pause(error))
            else:
                attempts.succeeded()
                return result

    def _attempts(self, target: str, timeout: float, retry: Any) -> Attempts:
        if not isinstance(retry, Retry):
            raise ConfigurationError(f"retry must be a speed.Retry, not {type(retry).__name__}")
        if retry.hedge_seconds is not None and not is_family(target):
            raise ConfigurationError("hedge_seconds asks another node of a family: call one, such as 'pricing.*'")
        return Attempts(retry, timeout, self._budgets.setdefault(target, RetryBudget()))

    def submit(
        self,
        target: str,
        service: str,
        arguments: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,
        traceparent: str | None = None,
        views: bool = False,
        returns: Any = None,
        key: str | None = None,
    ) -> Future[Any]:
        """Start a call; its Future ends with the result or the error of ``call``. Calls start in order.

        ``cancel()`` withdraws the call. It is True only if nothing was written; else the Future ends with what the
        other side says: CallWithdrawnError, or a result that came first. Callbacks of the Future may call and wait: a
        worker of this node runs them.
        """
        target, service = text("node", target), text("service", service)
        read = None if returns is None else result_reader(returns)
        request = CallRequest(target, service, by_name(arguments), in_seconds(timeout), traceparent, views, read)
        submit = self._toward(target, key).submit
        try:
            if self._around_calls:
                return InterceptedFuture(self._around_calls, submit, request)
            return submit(request)
        except SpeedError as error:
            name_callee(error, target, service)
            raise

    def ping(self, target: str, *, timeout: float = 5.0) -> float:
        """Round trip to a live node in seconds, by HEARTBEAT. Raises as ``call`` does."""
        return self._toward(target).ping(text("node", target), in_seconds(timeout))

    def services(self, target: str, *, timeout: float = 5.0) -> list[str]:
        """Names of the services of ``target`` that this node may call, by DISCOVERY."""
        return list(self._toward(target).discover(text("node", target), "SERVICES", in_seconds(timeout))["services"])

    def describe(self, target: str, service: str | None = None, *, timeout: float = 5.0) -> list[Description]:
        """What the services of ``target`` take and give that this node may call, or ``service`` alone, by DISCOVERY.

        Raises ServiceNotFoundError for a service that is not there, InvalidArgumentsError if ``target`` is of a version
        that does not describe.
        """
        answer = self._toward(target).discover(text("node", target), "DESCRIBE", in_seconds(timeout))
        return described(target, answer["services"], None if service is None else text("service", service))

    def info(self, target: str, *, timeout: float = 5.0) -> dict[str, Any]:
        """What ``target`` says about itself: language, version, pid, fabrics, services."""
        return self._toward(target).discover(text("node", target), "INFO", in_seconds(timeout))

    def stats(self, target: str | None = None, *, timeout: float = 5.0) -> dict[str, Any]:
        """Counters of ``target``, or of this node without one."""
        if target is None:
            return self._engine.stats()
        return self._toward(target).discover(text("node", target), "STATS", in_seconds(timeout))

    def _stats_of(self, targets: Sequence[str], timeout: float) -> dict[str, dict[str, Any] | None]:
        """Counters of many, asked at once: one that hangs holds up none. None of one that does not answer in time."""
        return dict(zip(targets, self._engine.discover_each(targets, "STATS", timeout), strict=True))

    def _toward(self, target: Any, key: str | None = None) -> Toward:
        if is_family(target):
            return self._family(target, key)
        if key is not None:
            raise ConfigurationError("key chooses among the nodes of a family: name one, such as 'pricing.*'")
        if not isinstance(target, str) or "@" not in target:
            return self._engine
        with lazily.guard:
            from speed.node.remote import Across  # few nodes have to do with other hosts

        return Across(self._engine, lambda: self._guarded or self._make_protected())

    def _family(self, target: str, key: str | None = None) -> Family:
        with lazily.guard:
            from speed.node.group import Families, Family  # few nodes call families

        if self._families is None:
            self._families = Families(self._engine, self.name)
        return Family(self._families, target, key)


class Caller(Protocol):
    """What is needed of a node to wait for one that starts."""

    name: str

    def call(self, target: str, service: str, arguments: dict[str, Any], /, *, timeout: float) -> Any: ...
    def nodes(self) -> list[Entry]: ...
    def wait_for(self, target: str, /, *, timeout: float) -> Entry: ...


STARTING_SECONDS = 5.0
"""How long at most a node that allows nobody yet is asked again."""


def call_when_allowed(node: Caller, target: str, service: str, arguments: dict[str, Any], timeout: float) -> Any:
    """The answer of a node that may just be starting: until it serves, it is asked again."""
    ends = time.monotonic() + min(checked_seconds("timeout", timeout), STARTING_SECONDS)
    while True:
        try:
            return node.call(target, service, arguments, timeout=timeout)
        except AccessDeniedError as error:
            ends = outwait(node, target, ends, error)


def outwait(node: Caller, target: str, ends: float, error: AccessDeniedError) -> float:
    """Wait until ``target`` serves and allows this node; raises ``error`` if it serves and does not, or never does.

    Returns until when the next such error may be waited for: not at all where it allowed this node at once, as when
    that was published just now, and to ask once more is enough.
    """
    left = ends - time.monotonic()
    if left <= 0:
        raise error
    entry = next((one for one in node.nodes() if one.name == target), None)
    if entry is not None:
        if granted(entry, node.name):
            return 0.0
        raise error
    try:
        node.wait_for(target, timeout=left)
    except UnknownNodeError:
        raise error from None
    return ends
