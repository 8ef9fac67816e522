"""``speed.opentelemetry``: spans around calls, services, publishing and handlers; they join up, here and by OTLP."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import speed
import speed.opentelemetry
from speed.spark.functions import ServiceUse
from speed.spark.nodes import CallSettings, NodeSettings, worker_node
from tests.system.conftest import ENGINES

Make = Callable[..., speed.Node]
pytestmark = pytest.mark.system
PATIENCE = 60.0
SECRET = "do-not-tell"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SERVICE = """
import sys, speed, speed.opentelemetry
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
with speed.Node("billing", root=sys.argv[1], allow=["shop"]) as node:
    speed.opentelemetry.instrument(node, provider)
    node.register("tax", lambda amount: amount * 2)
    print("up", flush=True)
    sys.stdin.read()
provider.shutdown()
"""


class Spans:
    """What a provider of this test recorded."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracer = self.provider.get_tracer("test")

    def of(self, name: str, kind: SpanKind | None = None) -> ReadableSpan:
        """The one of a name."""
        (found,) = (one for one in self.all() if one.name == name and kind in (None, one.kind))
        return found

    def all(self) -> tuple[ReadableSpan, ...]:
        return self._memory.get_finished_spans()


@pytest.fixture
def spans() -> Spans:
    return Spans()


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@pytest.fixture(params=ENGINES)
def pair(node: Make, spans: Spans, request: pytest.FixtureRequest) -> tuple[speed.Node, speed.Node]:
    """A service and who calls it, both with spans."""
    made = node("billing", engine=request.param, allow=["shop"]), node("shop", engine=request.param)
    for one in made:
        speed.opentelemetry.instrument(one, spans.provider)
    return made


Pair = tuple[speed.Node, speed.Node]


def test_a_call_has_a_span_at_each_end_and_what_they_do_lies_within(pair: Pair, spans: Spans) -> None:
    billing, shop = pair

    @billing.service("tax")
    def tax(amount: int) -> int:
        with spans.tracer.start_as_current_span("compute"):
            return amount * 2

    with spans.tracer.start_as_current_span("order"):
        shop.call("billing", "tax", {"amount": 1}, timeout=20)
    client, server = spans.of("billing/tax", SpanKind.CLIENT), spans.of("billing/tax", SpanKind.SERVER)
    assert parent_of(client) == id_of(spans.of("order"))
    assert parent_of(server) == id_of(client)
    assert parent_of(spans.of("compute")) == id_of(server)
    assert parent_of(spans.of("order")) is None
    assert server.attributes == {
        "rpc.system.name": "speed",
        "rpc.method": "billing/tax",
        "speed.caller": "shop",
    }


def test_futures_coroutines_and_async_services_join_up_too(pair: Pair, spans: Spans) -> None:
    billing, shop = pair

    async def tax(amount: int) -> int:
        await asyncio.sleep(0)
        with spans.tracer.start_as_current_span("compute"):
            return amount * 2

    billing.register("tax", tax)
    with spans.tracer.start_as_current_span("submitted"):
        shop.submit("billing", "tax", {"amount": 1}, timeout=20).result(20)

    async def awaited() -> None:
        with spans.tracer.start_as_current_span("awaited"):
            await shop.aio.call("billing", "tax", {"amount": 1}, timeout=20)

    asyncio.run(awaited())
    for way in ("submitted", "awaited"):
        trace_id = spans.of(way).context.trace_id
        found = [one for one in spans.all() if one.context is not None and one.context.trace_id == trace_id]
        assert sorted(one.kind.name for one in found) == ["CLIENT", "INTERNAL", "INTERNAL", "SERVER"]


def test_a_service_that_calls_another_one_is_in_the_middle(node: Make, pair: Pair, spans: Spans) -> None:
    billing, shop = pair
    rates = node("rates", allow=["billing"])
    speed.opentelemetry.instrument(rates, spans.provider)
    rates.register("rate", lambda: 2)
    billing.register("tax", lambda: billing.call("rates", "rate", timeout=20))
    shop.call("billing", "tax", timeout=20)
    assert parent_of(spans.of("rates/rate", SpanKind.CLIENT)) == id_of(spans.of("billing/tax", SpanKind.SERVER))
    assert parent_of(spans.of("rates/rate", SpanKind.SERVER)) == id_of(spans.of("rates/rate", SpanKind.CLIENT))


def assert_each_is_below_the_one_before(spans: Spans, innermost: str) -> None:
    """The caller's own span, that of its call of ``rows``, that of the service, and the service's own."""
    client, server = spans.of("billing/rows", SpanKind.CLIENT), spans.of("billing/rows", SpanKind.SERVER)
    assert parent_of(client) == id_of(spans.of("order"))
    assert parent_of(server) == id_of(client)
    assert parent_of(spans.of(innermost)) == id_of(server)


def test_a_stream_has_a_span_at_each_end_until_its_last_item(pair: Pair, spans: Spans) -> None:
    billing, shop = pair

    @billing.service("rows")
    def rows() -> Iterator[int]:
        with spans.tracer.start_as_current_span("compute"):
            yield from range(3)

    with spans.tracer.start_as_current_span("order"):
        stream = shop.stream("billing", "rows", timeout=PATIENCE)
    assert "billing/rows" not in [one.name for one in spans.all() if one.kind is SpanKind.CLIENT]
    assert list(stream) == [0, 1, 2]
    assert_each_is_below_the_one_before(spans, "compute")


def test_an_awaited_stream_joins_up_too(pair: Pair, spans: Spans) -> None:
    billing, shop = pair

    @billing.service("rows")
    async def rows() -> AsyncIterator[int]:
        for number in range(3):
            with spans.tracer.start_as_current_span(f"compute {number}"):
                yield number

    async def read() -> list[int]:
        with spans.tracer.start_as_current_span("order"):
            return [row async for row in shop.aio.stream("billing", "rows", timeout=PATIENCE)]

    assert asyncio.run(read()) == [0, 1, 2]
    assert_each_is_below_the_one_before(spans, "compute 2")


def test_a_stream_that_takes_items_is_within_the_span_of_its_caller(pair: Pair, spans: Spans) -> None:
    billing, shop = pair

    @billing.service("add")
    def add(items: Iterator[int]) -> int:
        return sum(items)

    assert shop.stream("billing", "add", items=range(4), timeout=PATIENCE).wait() == 6
    assert parent_of(spans.of("billing/add", SpanKind.SERVER)) == id_of(spans.of("billing/add", SpanKind.CLIENT))


def test_a_stream_that_fails_or_is_closed_has_a_span_that_failed(pair: Pair, spans: Spans) -> None:
    billing, shop = pair

    @billing.service("fail")
    def fail() -> Iterator[int]:
        yield 1
        raise speed.ApplicationError("SOLD_OUT", SECRET)

    @billing.service("rows")
    def rows() -> Iterator[int]:
        yield from range(1000)

    with pytest.raises(speed.ApplicationError):
        list(shop.stream("billing", "fail", timeout=PATIENCE))
    failed = spans.of("billing/fail", SpanKind.CLIENT)
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "SOLD_OUT"
    assert SECRET not in failed.to_json()
    with shop.stream("billing", "rows", timeout=PATIENCE) as stream:
        next(stream)
    closed = spans.of("billing/rows", SpanKind.CLIENT)
    assert closed.attributes is not None
    assert closed.attributes["error.type"] == "WITHDRAWN"


def test_an_error_is_told_by_its_code_and_never_by_its_text(pair: Pair, spans: Spans) -> None:
    billing, shop = pair

    @billing.service("fail")
    def fail(word: str) -> None:
        raise speed.ApplicationError("SOLD_OUT", word)

    with pytest.raises(speed.ApplicationError):
        shop.call("billing", "fail", {"word": SECRET}, timeout=20)
    for kind in (SpanKind.CLIENT, SpanKind.SERVER):
        span = spans.of("billing/fail", kind)
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes is not None
        assert span.attributes["error.type"] == span.attributes["rpc.response.status_code"] == "SOLD_OUT"
        assert SECRET not in span.to_json()


def test_a_call_that_never_left_has_a_span_that_failed(pair: Pair, spans: Spans) -> None:
    _, shop = pair
    with pytest.raises(speed.UnknownNodeError):
        shop.call("nobody", "tax", timeout=20)
    span = spans.of("nobody/tax")
    assert (span.kind, span.status.status_code) == (SpanKind.CLIENT, StatusCode.ERROR)


def test_a_trace_of_a_program_without_spans_is_continued(pair: Pair, spans: Spans) -> None:
    billing, shop = pair
    billing.register("tax", lambda: 1)
    with speed.trace(TRACE):
        shop.call("billing", "tax", timeout=20)
    client = spans.of("billing/tax", SpanKind.CLIENT)
    assert client.context is not None
    assert f"{client.context.trace_id:032x}" == TRACE.split("-")[1]
    assert f"{parent_of(client):016x}" == TRACE.split("-")[2]


def test_a_handler_has_a_span_below_that_of_the_publisher(pair: Pair, spans: Spans) -> None:
    billing, shop = pair
    seen: Queue[Any] = Queue()

    def bill(message: speed.Message) -> None:
        seen.put(message.payload)

    billing.subscribe("orders", speed.opentelemetry.handler(bill, spans.provider))
    shop.wait_for("billing", timeout=PATIENCE)
    with speed.opentelemetry.publishing("orders", spans.provider):
        shop.publish("orders", 1)
    assert seen.get(timeout=PATIENCE) == 1
    billing.close()
    processed = spans.of("process orders")
    assert processed.kind is SpanKind.CONSUMER
    assert parent_of(processed) == id_of(spans.of("send orders", SpanKind.PRODUCER))
    assert processed.attributes is not None
    assert processed.attributes["messaging.destination.name"] == "orders"
    assert processed.attributes["messaging.message.id"]


def test_an_async_handler_stays_one(spans: Spans) -> None:
    async def bill(message: Any) -> Any:
        await asyncio.sleep(0)
        return message

    assert asyncio.run(speed.opentelemetry.handler(bill, spans.provider)("order")) == "order"
    assert spans.of("process").kind is SpanKind.CONSUMER


class TraceOfRecords(logging.Handler):
    """The trace that is at hand where a record is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Queue[tuple[str, str | None]] = Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.found.put((record.name, speed.current_trace()))


@pytest.fixture
def records() -> Iterator[TraceOfRecords]:
    handler = TraceOfRecords()
    logging.getLogger("speed").addHandler(handler)
    yield handler
    logging.getLogger("speed").removeHandler(handler)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_log_of_what_failed_is_written_within_its_trace(node: Make, engine: str, records: TraceOfRecords) -> None:
    billing, shop = node("billing", engine=engine, allow=["shop"]), node("shop", engine=engine)

    def fail(*_: Any) -> None:
        raise ValueError("no luck")

    def asks(request: speed.Request) -> None:
        fail(request)

    billing.register("plain", lambda: fail())
    billing.register("asks", asks)
    billing.on_message(fail)
    with speed.trace(TRACE):
        for service in ("plain", "asks"):
            with pytest.raises(speed.ExecutionFailedError):
                shop.call("billing", service, timeout=20)
            assert records.found.get(timeout=PATIENCE) == ("speed.spc", TRACE)
        shop.send("billing", 1)
    assert records.found.get(timeout=PATIENCE) == ("speed.messages", TRACE)


def test_without_an_sdk_nothing_changes(node: Make) -> None:
    billing, shop = node("billing", allow=["shop"]), node("shop")
    for one in (billing, shop):
        speed.opentelemetry.instrument(one)
    billing.register("trace", speed.current_trace)
    assert shop.call("billing", "trace", timeout=20) is None
    with speed.trace(TRACE):
        assert shop.call("billing", "trace", timeout=20) == TRACE


# What a task of Spark calls, as its worker does; without Spark.


def use_of(root: str, **fields: Any) -> ServiceUse:
    settings = NodeSettings(root, None, "etl", "app-1")
    promised = pa.schema([pa.field("twice", pa.int64())])
    use = ServiceUse(settings, CallSettings("geo", "twice"), ("a",), promised, None, None, "use-1", by_row=True)
    return use._replace(counts=SimpleNamespace(add=lambda _: None), traceparent=TRACE, **fields)


def batches_of(number: int) -> Iterator[pa.RecordBatch]:
    return (pa.RecordBatch.from_pydict({"a": [one]}) for one in range(number))


@pytest.fixture
def geo(node: Make, spans: Spans) -> Iterator[speed.Node]:
    made = node("geo", allow=["etl.*"])
    speed.opentelemetry.instrument(made, spans.provider)
    yield made
    worker_node(use_of(made.root).node).close()


def test_a_task_of_spark_has_a_span_below_its_job_and_its_calls_lie_within(geo: speed.Node, spans: Spans) -> None:
    geo.register("twice", lambda a: a * 2)
    answers = use_of(geo.root, make_provider=lambda: spans.provider).answers(batches_of(3))
    assert [arrays[0].to_pylist() for _, arrays in answers] == [[0], [2], [4]]
    task = spans.of("task geo/twice", SpanKind.INTERNAL)
    calls = [one for one in spans.all() if one.kind is SpanKind.SERVER]
    assert f"{parent_of(task):016x}" == TRACE.split("-")[2]
    assert calls
    assert {parent_of(one) for one in calls} == {id_of(task)}
    assert {f"{one.context.trace_id:032x}" for one in spans.all() if one.context} == {TRACE.split("-")[1]}


def test_a_task_that_fails_has_a_span_that_failed(geo: speed.Node, spans: Spans) -> None:
    @geo.service("twice")
    def twice(a: Any) -> Any:
        raise speed.ApplicationError("SOLD_OUT", SECRET)

    with pytest.raises(speed.SpeedError):
        list(use_of(geo.root, make_provider=lambda: spans.provider).answers(batches_of(1)))
    task = spans.of("task geo/twice")
    assert task.status.status_code is StatusCode.ERROR
    assert SECRET not in task.to_json()


def test_tasks_without_spans_carry_the_trace_of_their_job_too(geo: speed.Node, spans: Spans) -> None:
    geo.register("twice", lambda a: a * 2)
    assert len(list(use_of(geo.root).answers(batches_of(1)))) == 1
    assert f"{parent_of(spans.of('geo/twice')):016x}" == TRACE.split("-")[2]


# By OTLP, to a collector.


class Collector(ThreadingHTTPServer):
    """Takes what is exported, as a collector of OpenTelemetry does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Export)
        self.spans: list[Any] = []


class _Export(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        data = gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans += scope.spans
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        serving = threading.Thread(target=server.serve_forever, name="collector")
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def test_two_processes_that_export_by_otlp_make_one_trace(node: Make, spans: Spans, collector: Collector) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    address = f"http://127.0.0.1:{collector.server_port}"
    spans.provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
    shop = node("shop")
    speed.opentelemetry.instrument(shop, spans.provider)
    service = subprocess.Popen(
        [sys.executable, "-c", SERVICE, shop.root],
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert service.stdout is not None
    assert service.stdout.readline() == b"up\n"
    shop.wait_for("billing", timeout=PATIENCE)
    with spans.tracer.start_as_current_span("order"):
        assert shop.call("billing", "tax", {"amount": 1}, timeout=20) == 2
    service.communicate(timeout=PATIENCE)
    found = {one.kind: one for one in collector.spans}
    assert len({one.trace_id for one in collector.spans}) == 1
    server, client = found[2], found[3]  # SPAN_KIND_SERVER and SPAN_KIND_CLIENT
    assert (server.name, server.parent_span_id) == ("billing/tax", client.span_id)
    spans.provider.shutdown()
