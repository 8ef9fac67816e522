"""What a node tells of its work: the trace context at hand (rule S-13), and log lines in bounded number."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import wraps
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from speed.core.log import Log
from speed.engine import threads
from speed.errors import ConfigurationError, WireError
from speed.wire import lazily
from speed.wire.text import TraceParent, parse_traceparent

# The trace context of the work at hand: set around services and handlers, read by calls and sends (rule S-13).

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

current_traceparent: ContextVar[str | None] = ContextVar("speed_traceparent", default=None)
_surrounding: ContextVar[Any] = ContextVar("speed_surrounding", default=None)
"""The span of OpenTelemetry that was active when the program set a trace: older than that trace."""


def current_trace() -> str | None:
    """The W3C traceparent of the work at hand: of the request or message that is being handled, else None.

    A span of OpenTelemetry that was begun since, and is active, counts before it.

    Calls and sends carry it on. Coroutines, tasks and ``asyncio.to_thread`` have it by themselves; a thread of your
    own has it through ``traced``.
    """
    span = _active_span()
    if span is None:
        return current_traceparent.get()
    traceparent: str = _of_span(span)["traceparent"]
    return traceparent


@contextmanager
def trace(traceparent: str | None) -> Iterator[None]:
    """Work inside belongs to this trace: ``with speed.trace(request.headers.get("traceparent")): …``.

    With None it belongs to none; so it does with text that is no traceparent, as W3C asks of whoever receives one.
    """
    token = current_traceparent.set(traceparent if _is_valid(traceparent) else None)
    around = _surrounding.set(_active_span() or _surrounding.get())
    try:
        yield
    finally:
        _surrounding.reset(around)
        current_traceparent.reset(token)


@contextmanager
def continued(traceparent: str | None) -> Iterator[None]:
    """A request or message that came in: what its service or handler does belongs to its trace.

    Where the program uses OpenTelemetry, spans that it begins there are children of the span that the other side had.
    """
    if traceparent is None:
        yield
        return
    token = current_traceparent.set(traceparent)
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        try:
            yield
        finally:
            current_traceparent.reset(token)
        return
    parent = _remote_parent(api, traceparent)
    around = _surrounding.set(parent)
    try:
        with api.use_span(parent, record_exception=False, set_status_on_exception=False):
            yield
    finally:
        _surrounding.reset(around)
        current_traceparent.reset(token)


def _remote_parent(api: Any, traceparent: str) -> Any:
    """The span of another process, for OpenTelemetry."""
    given = parse_traceparent(traceparent)
    flags = api.TraceFlags(given.flags)
    return api.NonRecordingSpan(api.SpanContext(int(given.trace_id, 16), int(given.span_id, 16), True, flags))


def _is_valid(traceparent: str | None) -> bool:
    try:
        return traceparent is not None and bool(parse_traceparent(traceparent))
    except WireError:
        return False


def traced(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """``function`` for another thread, in the context of this moment: its calls belong to the trace at hand.

    ``Thread(target=speed.traced(work))``, ``pool.submit(speed.traced(work), 1)``. May be called any number of times.
    """
    context = copy_context()

    @wraps(function)
    def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return context.copy().run(function, *arguments, **named)

    return run


def with_trace(metadata: dict[str, Any], trace_context: Any = None) -> dict[str, Any]:
    """Message metadata with the trace that the message belongs to.

    That is what ``trace_context`` or the metadata say: W3C text, or a context, span or span context of OpenTelemetry;
    else the active span of OpenTelemetry, if there is one. ConfigurationError for a context that is none of these.
    """
    if trace_context is not None:
        fields = _trace_of(trace_context)
    elif "traceparent" in metadata or (span := _active_span()) is None:
        return metadata
    else:
        fields = _of_span(span)
    if "baggage" in fields:
        fields["baggage"] = {**fields["baggage"], **(metadata.get("baggage") or {})}
    return {**metadata, **fields}


def _trace_of(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        return {"traceparent": given}
    if hasattr(given, "get_span_context"):
        return _of_span(given)
    if hasattr(given, "trace_flags"):
        return _of_span_context(given)
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"trace_context is {type(given).__name__}; use W3C text, or a span or context of OpenTelemetry"
        )
    traceparent, baggage = traceparent_of(given)
    return {"traceparent": traceparent, "baggage": baggage}


def _of_span(span: Any) -> dict[str, Any]:
    parent = getattr(span, "parent", None)  # of spans that are recorded
    fields = {} if parent is None else {"parent_span_id": f"{parent.span_id:016x}"}
    return {**_of_span_context(span.get_span_context()), **fields}


def _of_span_context(context: Any) -> dict[str, Any]:
    """Nothing for a context without ids."""
    if not context.is_valid:
        return {}
    return {"traceparent": str(TraceParent(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags))}


def _active_span() -> Any:
    """The span that OpenTelemetry has at hand and that was begun after the trace at hand, if any; else None.

    Who has one has imported OpenTelemetry: it is not imported for those who do not use it.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    span = api.get_current_span()
    is_newer = span is not _surrounding.get()
    return span if is_newer and span.get_span_context().is_valid else None


def trace_context_of(traceparent: str | None, baggage: Mapping[str, str]) -> Any:
    """An OpenTelemetry context; ConfigurationError where its interface is not installed."""
    context = _opentelemetry("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
    found = context.extract({} if traceparent is None else {"traceparent": traceparent})
    set_baggage = _opentelemetry("opentelemetry.baggage").set_baggage
    for name, value in baggage.items():
        found = set_baggage(name, value, found)
    return found


def traceparent_of(context: Any) -> tuple[str | None, dict[str, str]]:
    """The traceparent and the baggage of an OpenTelemetry context."""
    carrier: dict[str, str] = {}
    propagator = _opentelemetry("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
    propagator.inject(carrier, context)
    baggage = _opentelemetry("opentelemetry.baggage").get_all(context)
    return carrier.get("traceparent"), {name: str(value) for name, value in baggage.items()}


def _opentelemetry(module: str) -> Any:
    try:
        return lazily.load(module)
    except ImportError:
        raise ConfigurationError("trace contexts need opentelemetry-api: install speed-ipc[tracing]") from None


AGAIN_SECONDS = 10.0
_MAX_KINDS = 1024
"""Of kinds some name a node; what is beyond shares one."""


class LogLimiter:
    """When each kind of line was written last. Thread-safe; nothing is logged under its lock."""

    def __init__(self) -> None:
        self._lock = threads.lock("limiter")
        self._kinds: dict[str, tuple[float, int]] = {}

    def failed(self, logger: Log, doing: str, error: Exception) -> None:
        """Write that something failed, with its traceback, unless that was written just before."""
        left_out = self._left_out(f"failed {doing}")
        if left_out is not None:
            more = f" ({left_out} times more since the last such line)" if left_out else ""
            logger.error("%s failed%s", doing, more, exc_info=error)

    def warn(self, logger: Log, kind: str, text: str, *arguments: object, seconds: float = AGAIN_SECONDS) -> None:
        """Write ``text % arguments`` as a warning, unless a line of this kind was written in the last ``seconds``."""
        left_out = self._left_out(kind, seconds)
        if left_out is None:
            return
        if left_out:
            text += " (and %d like it since the last such line)"
            arguments = (*arguments, left_out)
        logger.warning(text, *arguments)

    def _left_out(self, kind: str, seconds: float = AGAIN_SECONDS) -> int | None:
        """How many lines were left out before this one; None if this one is, too."""
        now = monotonic()
        with self._lock:
            if kind not in self._kinds and len(self._kinds) >= _MAX_KINDS:
                kind = ""
            until, left_out = self._kinds.get(kind, (0.0, 0))
            if now < until:
                self._kinds[kind] = until, left_out + 1
                return None
            self._kinds[kind] = now + seconds, 0
            return left_out
