"""The trace of a message: what the program says, the active span of OpenTelemetry, or what is being handled (M-11)."""

from __future__ import annotations

import io
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import speed
from speed import PublishOptions

Make = Callable[..., speed.Node]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PARENT = "00f067aa0ba902b7"
tracer = TracerProvider().get_tracer("test")


def pair(make: Make) -> tuple[speed.Node, speed.Node]:
    return make("billing"), make("analytics", allow=["billing"])


def received(node: speed.Node) -> Any:
    message = node.receive(timeout=20)
    assert message is not None
    return message.metadata


def traceparent(span: trace.Span) -> str:
    told = span.get_span_context()
    return f"00-{told.trace_id:032x}-{told.span_id:016x}-{told.trace_flags:02x}"


def test_a_traceparent_text_is_a_trace_context(make: Make) -> None:
    billing, analytics = pair(make)
    billing.send("analytics", 1, options=PublishOptions(trace_context=TRACE))
    assert received(analytics).traceparent == TRACE


def test_a_span_and_its_context_are_trace_contexts_wherever_they_are_given(make: Make) -> None:
    billing, analytics = pair(make)
    span = tracer.start_span("publish")
    billing.send("analytics", 1, options=PublishOptions(trace_context=span))
    billing.send("analytics", 1, options=PublishOptions(trace_context=span.get_span_context()))
    billing.send("analytics", 1, options=PublishOptions(trace_context=span.get_span_context()))
    assert [received(analytics).traceparent for _ in range(3)] == [traceparent(span)] * 3


def test_a_context_brings_its_baggage_and_what_the_program_says_counts_over_it(make: Make) -> None:
    billing, analytics = pair(make)
    span = tracer.start_span("publish")
    given = baggage.set_baggage("tenant", "a", trace.set_span_in_context(span, context.Context()))
    given = baggage.set_baggage("region", "eu", given)
    billing.send("analytics", 1, options=PublishOptions(trace_context=given, baggage={"region": "us"}))
    view = received(analytics)
    assert view.traceparent == traceparent(span)
    assert view.baggage == {"tenant": "a", "region": "us"}


def test_a_span_context_without_ids_is_no_trace(make: Make) -> None:
    billing, analytics = pair(make)
    billing.send("analytics", 1, options=PublishOptions(trace_context=trace.INVALID_SPAN_CONTEXT))
    assert received(analytics).traceparent is None


def test_what_is_no_trace_context_is_refused(make: Make) -> None:
    billing, _ = pair(make)
    with pytest.raises(speed.ConfigurationError, match="trace_context is int"):
        billing.send("analytics", 1, options=PublishOptions(trace_context=7))


def test_the_active_span_is_continued_with_the_span_that_it_is_part_of(make: Make) -> None:
    billing, analytics = pair(make)
    with tracer.start_as_current_span("request") as outer, tracer.start_as_current_span("publish") as inner:
        assert speed.current_trace() == traceparent(inner)
        billing.send("analytics", 1)
        billing.send_all("analytics", [2])
    for _ in range(2):
        view = received(analytics)
        assert view.traceparent == traceparent(inner)
        assert view.parent_span_id == f"{outer.get_span_context().span_id:016x}"


def test_an_event_continues_the_active_span(make: Make) -> None:
    billing, analytics = pair(make)
    seen: Queue[str | None] = Queue()
    analytics.subscribe("*", lambda message: seen.put(message.metadata.traceparent))
    with tracer.start_as_current_span("publish") as span:
        billing.publish("orders", 1)
    assert seen.get(timeout=20) == traceparent(span)


def test_a_call_continues_the_active_span(make: Make) -> None:
    billing, analytics = pair(make)
    analytics.register("trace", speed.current_trace)
    billing.wait_for("analytics")
    with tracer.start_as_current_span("call") as span:
        assert billing.call("analytics", "trace", timeout=20) == traceparent(span)


def test_a_trace_that_the_program_sets_counts_over_the_span_around_it_and_not_over_one_inside(make: Make) -> None:
    with tracer.start_as_current_span("request"):
        with speed.trace(TRACE):
            assert speed.current_trace() == TRACE
            with tracer.start_as_current_span("inside") as inner:
                assert speed.current_trace() == traceparent(inner)
        with speed.trace(None):
            assert speed.current_trace() is None


def test_what_the_program_says_of_a_message_counts_over_the_active_span(make: Make) -> None:
    billing, analytics = pair(make)
    with tracer.start_as_current_span("request"):
        billing.send("analytics", 1, options=PublishOptions(traceparent=TRACE, parent_span_id=PARENT))
    view = received(analytics)
    assert (view.traceparent, view.parent_span_id) == (TRACE, PARENT)


def test_a_large_payload_continues_the_active_span(make: Make) -> None:
    billing, analytics = pair(make)
    with tracer.start_as_current_span("request"), tracer.start_as_current_span("send") as span:
        billing.send("analytics", io.BytesIO(b"content"))
    view = received(analytics)
    assert (view.traceparent, view.parent_span_id) == (traceparent(span), None)


def parents(provider_spans: list[Any]) -> dict[str, str]:
    """Of each span that ended: the name of it, and its remote parent as a traceparent."""
    return {
        span.name: f"{span.context.trace_id:032x}-{span.parent.span_id:016x}"
        for span in provider_spans
        if span.parent is not None and span.parent.is_remote
    }


def test_a_span_begun_in_a_service_or_handler_is_a_child_of_the_callers_span(make: Make) -> None:
    """Of functions, of services that ask for the request, of coroutines and of handlers alike."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    own = provider.get_tracer("service")
    billing, analytics = make("billing", allow=["analytics"]), make("analytics")
    handled: Queue[None] = Queue()

    def plain() -> str:
        with own.start_as_current_span("plain"):
            return traceparent(trace.get_current_span())

    def asking(request: speed.Request) -> None:
        own.start_span("asking").end()

    async def awaiting() -> None:
        own.start_span("awaiting").end()

    for service in (plain, asking, awaiting):
        billing.register(service.__name__, service)
    billing.on_message(lambda message: (own.start_span("handler").end(), handled.put(None)))
    with tracer.start_as_current_span("job") as span:
        assert analytics.call("billing", "plain")[3:35] == f"{span.get_span_context().trace_id:032x}"
        analytics.call("billing", "asking")
        analytics.call("billing", "awaiting")
        analytics.send("billing", 1)
        handled.get(timeout=20)
        told = span.get_span_context()
    expected = f"{told.trace_id:032x}-{told.span_id:016x}"
    assert parents(exporter.get_finished_spans()) == dict.fromkeys(("plain", "asking", "awaiting", "handler"), expected)


def test_what_a_service_calls_in_turn_belongs_to_its_own_span(make: Make) -> None:
    billing, analytics = make("billing", allow=["analytics"]), make("analytics", allow=["billing"])
    analytics.register("leaf", lambda: speed.current_trace())

    def middle() -> tuple[str, str]:
        with tracer.start_as_current_span("middle") as span:
            return traceparent(span), billing.call("analytics", "leaf")

    billing.register("middle", middle)
    with tracer.start_as_current_span("job"):
        own, leaf = analytics.call("billing", "middle")
    assert own == leaf
