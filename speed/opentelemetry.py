"""Spans of OpenTelemetry around calls, services, publishing and handlers, for programs that ask for them.

Traces join up without this module: whatever a program begins in a service or handler is a child of the span that the
other side had. This adds a span for each call, at both ends, and for each message::

    import speed.opentelemetry

    speed.opentelemetry.instrument(node)                      # before its services are registered
    node.subscribe("orders.*", speed.opentelemetry.handler(bill))

Only the API of OpenTelemetry is used (``pip install 'speed-ipc[tracing]'``): the program chooses SDK and exporter.
Spans have names, codes and ids; no argument, payload, key or text of an error is in them.

Spans come by interceptors; the trace itself does not. Messages and events carry it too, and pass no interceptor, and
it is a context of the thread that runs a service, which what stands behind the ``yield`` of an interceptor may not be.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from speed import CallRequest, Message, Node, Request, TopicMessage, __version__, current_trace
from speed.engine.tracing import trace_context_of
from speed.errors import ApplicationError, SpeedError
from speed.wire.text import TraceParent

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

Handler = TypeVar("Handler", bound=Callable[..., Any])
SYSTEM = "speed"


def instrument(node: Node, tracer_provider: TracerProvider | None = None) -> None:
    """Have a span around each call that ``node`` makes from now on, and around each service that it runs.

    Attempts of ``retry=`` have one each. That of a stream lasts until its last item, or until it is closed. Without
    ``tracer_provider`` the global one is used. Raises ConfigurationError once a service is registered. Not to be called
    twice for one node.
    """
    tracer = _tracer(tracer_provider)

    def around_service(request: Request) -> Generator[Request, Any, None]:
        method = f"{node.name}/{request.service}"
        attributes = {**_of_method(method), "speed.caller": request.caller}
        with _current(tracer, method, SpanKind.SERVER, attributes):
            yield request

    def around_call(request: CallRequest) -> Generator[CallRequest, Any, None]:
        # Another thread may run what stands behind the yield: this span is made current for nobody.
        method = f"{request.target}/{request.service}"
        span = tracer.start_span(method, _parent(request.traceparent), SpanKind.CLIENT, _of_method(method))
        try:
            yield _under(span, request)
        except BaseException as error:
            _fail(span, error)
            raise
        finally:
            span.end()

    node.intercept_services(around_service)
    node.intercept_calls(around_call)


def handler(function: Handler, tracer_provider: TracerProvider | None = None) -> Handler:
    """``function`` with a span around each message that it handles; also a decorator. It may be ``async``.

    For handlers of ``on_message``, ``subscribe`` and ``Topic.consumer``.
    """
    tracer = _tracer(tracer_provider)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def handle_later(message: Any, *more: Any) -> Any:
            with _processing(tracer, message):
                return await function(message, *more)

        return cast(Handler, handle_later)

    @wraps(function)
    def handle(message: Any, *more: Any) -> Any:
        with _processing(tracer, message):
            return function(message, *more)

    return cast(Handler, handle)


@contextmanager
def publishing(destination: str, tracer_provider: TracerProvider | None = None) -> Iterator[Span]:
    """A span around what publishes or sends: ``with publishing("orders"): topic.publish(order)``.

    The messages carry it; ``destination`` is the topic, or the node.
    """
    attributes = _of_messages("send", destination)
    with _current(_tracer(tracer_provider), f"send {destination}", SpanKind.PRODUCER, attributes) as span:
        yield span


@contextmanager
def task_of_spark(
    make_provider: Callable[[], TracerProvider], method: str, traceparent: str, attributes: dict[str, Any]
) -> Iterator[str]:
    """A span around what one task of Spark calls, below ``traceparent``; gives the traceparent of its calls.

    It is current for nobody: tasks are generators, which others run in between. The provider ends with the task, so
    that what it recorded is exported before the worker may be ended.
    """
    provider = make_provider()
    span = _tracer(provider).start_span(f"task {method}", _parent(traceparent), attributes=_of_method(method))
    span.set_attributes(attributes)
    try:
        yield _traceparent_of(span) or traceparent
    except GeneratorExit:  # Spark has rows enough
        raise
    except BaseException as error:
        _fail(span, error)
        raise
    finally:
        span.end()
        shutdown = getattr(provider, "shutdown", None)  # of the SDK; the API has none
        if shutdown is not None:
            shutdown()


def _tracer(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("speed", __version__, provider)


@contextmanager
def _current(tracer: Tracer, name: str, kind: SpanKind, attributes: dict[str, Any]) -> Iterator[Span]:
    """A span that is current, and fails with what is raised inside; the text of an error is not told."""
    with tracer.start_as_current_span(
        name, _parent(None), kind, attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            _fail(span, error)
            raise


@contextmanager
def _processing(tracer: Tracer, message: Any) -> Iterator[Span]:
    is_message = isinstance(message, Message | TopicMessage)
    destination = message.topic if is_message else ""
    attributes = _of_messages("process", destination)
    if isinstance(message, Message):
        attributes["messaging.message.id"] = message.message_id
    with _current(tracer, f"process {destination}".rstrip(), SpanKind.CONSUMER, attributes) as span:
        yield span


def _parent(given: str | None) -> Any:
    """The context of a trace that is no span of this program; None where the active span is the parent."""
    traceparent = given or current_trace()
    active = trace.get_current_span().get_span_context()
    if traceparent is None or traceparent.split("-")[2] == f"{active.span_id:016x}":
        return None
    return trace_context_of(traceparent, {})


def _under(span: Span, request: CallRequest) -> CallRequest:
    """The request with the trace of a span; as it was where nobody records spans."""
    traceparent = _traceparent_of(span)
    return request if traceparent is None else request._replace(traceparent=traceparent)


def _traceparent_of(span: Span) -> str | None:
    """None where nobody records spans."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return str(TraceParent(*ids, int(context.trace_flags)))


def _of_method(method: str) -> dict[str, Any]:
    return {"rpc.system.name": SYSTEM, "rpc.method": method}


def _of_messages(operation: str, destination: str) -> dict[str, Any]:
    named = {"messaging.destination.name": destination} if destination else {}
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        **named,
    }


def _fail(span: Span, error: BaseException) -> None:
    code = error.code if isinstance(error, SpeedError) else type(error).__name__
    if isinstance(error, ApplicationError):
        span.set_attribute("rpc.response.status_code", code)
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR))
