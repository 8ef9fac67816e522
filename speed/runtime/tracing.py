"""The trace context of the work at hand: set around services and handlers, read by calls and sends (rule S-13)."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from speed.errors import ConfigurationError
from speed.wire import lazily

current_traceparent: ContextVar[str | None] = ContextVar("speed_traceparent", default=None)


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
