"""Durable topics and bridges carry the trace of their publishers, and handlers continue it (D-29, B-13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import speed
from speed.bridges.topic_ends import Messages, record_of
from speed.message.view import MessageView
from speed.wire.limits import MAX_TOPIC_PROPERTIES
from speed.wire.topic import MESSAGE, KeptMessage, RecordHead, traced
from speed.wire.value import pack
from tests.system.topics import PATIENCE, TopicSite, started

pytestmark = pytest.mark.system

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    yield from started(tmp_path_factory.mktemp("traces"))


@pytest.fixture
def node(site: TopicSite) -> Iterator[speed.Node]:
    """It may do anything with the topic."""
    with site.node() as node:
        yield node


@pytest.fixture
def orders(node: speed.Node, request: pytest.FixtureRequest) -> speed.Topic:
    topic = node.topic(f"t.{abs(hash(request.node.name))}")
    topic.create()
    return topic


def handled(topic: speed.Topic, handle: Callable[[speed.TopicMessage], Any], publish: Callable[[], object]) -> Any:
    """What a handler gives for what was published."""
    given: Queue[Any] = Queue()
    with topic.consumer("billing", start="latest", on_message=lambda message: given.put(handle(message))):
        publish()
        return given.get(timeout=PATIENCE)


def test_a_handler_runs_under_the_trace_of_the_publisher(orders: speed.Topic) -> None:
    def publish() -> None:
        with speed.trace(TRACE):
            orders.publish({"total": 12})

    assert handled(orders, lambda message: (message.traceparent, speed.current_trace()), publish) == (TRACE, TRACE)


def test_a_batch_and_an_awaited_message_carry_it_too(node: speed.Node, orders: speed.Topic) -> None:
    with speed.trace(TRACE):
        orders.publish_batch([1, 2])
        asyncio.run(node.aio.topic(orders.name).publish(3))
    reader = orders.reader("earliest")
    found = [reader.receive(timeout=PATIENCE) for _ in range(3)]
    assert [one.traceparent for one in found if one is not None] == [TRACE] * 3


def test_what_the_program_says_counts_over_the_trace_at_hand(orders: speed.Topic) -> None:
    def publish() -> None:
        with speed.trace(TRACE):
            orders.publish(1, properties={"traceparent": OTHER})

    assert handled(orders, lambda message: message.traceparent, publish) == OTHER


@pytest.mark.parametrize("text", ["", "x", "00-0-0-01", TRACE.upper(), "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_text_that_is_no_traceparent_is_no_trace(orders: speed.Topic, text: str) -> None:
    def publish() -> None:
        orders.publish(1, properties={"traceparent": text})

    assert handled(orders, lambda message: (message.traceparent, speed.current_trace()), publish) == (None, None)


def test_without_a_trace_nothing_is_written_beside_a_message(orders: speed.Topic) -> None:
    assert handled(orders, lambda message: dict(message.properties), lambda: orders.publish(1)) == {}


def test_a_message_with_all_properties_that_there_may_be_goes_without() -> None:
    full = {f"p{number}": "" for number in range(MAX_TOPIC_PROPERTIES)}
    assert traced(full, TRACE) == full
    assert traced({}, TRACE) == {"traceparent": TRACE}
    assert traced(None, None) is None


def test_spans_of_handlers_are_children_of_the_span_that_published(orders: speed.Topic) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("shop")

    def handle(_message: speed.TopicMessage) -> None:
        with tracer.start_as_current_span("bill"):
            pass

    def publish() -> None:
        with tracer.start_as_current_span("order"):
            orders.publish(1)

    handled(orders, handle, publish)
    found = {one.name: one for one in spans.get_finished_spans()}
    parent, order = found["bill"].parent, found["order"].context
    assert parent is not None
    assert order is not None
    assert parent.span_id == order.span_id
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_dead_letter_keeps_the_trace_of_its_message(node: speed.Node, orders: speed.Topic) -> None:
    with orders.consumer("once", start="earliest", max_deliveries=1, dead_letter=True) as consumer:
        assert consumer.receive(timeout=0.1) is None
        with speed.trace(TRACE):
            orders.publish("poison")
        message = consumer.receive(timeout=PATIENCE)
        assert message is not None
        consumer.reject(message)
        consumer.receive(timeout=0.5)
    letter = node.topic(f"{orders.name}-once-DLQ").reader("earliest").receive(timeout=PATIENCE)
    assert letter is not None
    assert (letter.payload, letter.traceparent) == ("poison", TRACE)


def test_a_bridge_carries_it_out_of_a_topic_and_into_one() -> None:
    """B-13: the property is the trace of the message, and no label; the other way round as well."""
    about = {"publisher": "shop", "properties": {"traceparent": TRACE, "region": "eu"}}
    kept = KeptMessage(RecordHead(MESSAGE), about, pack({"total": 12}))
    _, data = Messages("00" * 16, "orders", "public/default", "speedd.topics").message(kept, 7, 1_700_000_000_000)
    view = MessageView(data).validate()
    assert (view.traceparent, view.labels) == (TRACE, {"region": "eu"})
    record = record_of(view, None, "", keep="payload")
    assert record["properties"]["traceparent"] == TRACE
    assert record["properties"]["region"] == "eu"


def test_a_trace_of_a_record_that_is_none_goes_on_as_no_trace() -> None:
    kept = KeptMessage(RecordHead(MESSAGE), {"properties": {"traceparent": "nonsense"}}, pack(1))
    _, data = Messages("00" * 16, "orders", "public/default", "speedd.topics").message(kept, 7, 1_700_000_000_000)
    view = MessageView(data).validate()
    assert (view.traceparent, view.labels) == (None, {})
