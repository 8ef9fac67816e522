"""The trace context of the work at hand: set around services and handlers, read by calls and sends (rule S-13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import Any, TypeVar

from speed.errors import ConfigurationError, WireError
from speed.wire import lazily
from speed.wire.traceparent import parse_traceparent

Result = TypeVar("Result")

current_traceparent: ContextVar[str | None] = ContextVar("speed_traceparent", default=None)


def current_trace() -> str | None:
    """The W3C traceparent of the work at hand: of the request or message that is being handled, else None.

    Calls and sends carry it on. Coroutines, tasks and ``asyncio.to_thread`` have it by themselves; a thread of your
    own has it through ``traced``.
    """
    return current_traceparent.get()


@contextmanager
def trace(traceparent: str | None) -> Iterator[None]:
    """Work inside belongs to this trace: ``with speed.trace(request.headers.get("traceparent")): …``.

    With None it belongs to none; so it does with text that is no traceparent, as W3C asks of whoever receives one.
    """
    token = current_traceparent.set(traceparent if _is_valid(traceparent) else None)
    try:
        yield
    finally:
        current_traceparent.reset(token)


def _is_valid(traceparent: str | None) -> bool:
    try:
        return traceparent is not None and bool(parse_traceparent(traceparent))
    except WireError:
        return False


def traced(function: Callable[..., Result]) -> Callable[..., Result]:
    """``function`` for another thread, in the context of this moment: its calls belong to the trace at hand.

    ``Thread(target=speed.traced(work))``, ``pool.submit(speed.traced(work), 1)``. May be called any number of times.
    """
    context = copy_context()

    @wraps(function)
    def run(*arguments: Any, **named: Any) -> Result:
        return context.copy().run(function, *arguments, **named)

    return run


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
