"""Messages read in bulk say what each says alone, and ids of repeatable work (M-2 to M-13)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speed.errors import WireError
from speed.wire.content import encode_content
from speed.wire.message import MessageView, encode_message
from speed.wire.message_scan import MessageScan
from speed.wire.message_series import MessageIds, MessageSeries
from speed.wire.records import varint
from tests.unit.wire.messages import pb

ID = "018f0000-0000-7000-8000-000000000001"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def message(payload: Any = b"x", **said: Any) -> bytes:
    fields = {"topic": "flights.ua", "namespace": "default", "message_id": ID, "published_at_ms": 1_700_000_000_000}
    return encode_message(payload, **{**fields, **said})


MESSAGES = st.builds(
    message,
    st.binary(max_size=300) | st.text(max_size=20) | st.dictionaries(st.text(max_size=3), st.integers(-9, 9)),
    topic=st.sampled_from(["a", "b", "a.b"]),
    message_id=st.sampled_from([ID, ID[:-1] + "2", "short", "é" * 18]),
    published_at_ms=st.integers(1, 1 << 43),
    priority=st.none() | st.integers(0, 10),
    ttl_seconds=st.none() | st.integers(0, 1 << 40),
    correlation_id=st.none() | st.sampled_from(["", "c"]),
    traceparent=st.none() | st.just(TRACE),
    labels=st.none() | st.just({"x": "y"}),
    publisher_id=st.none() | st.sampled_from(["p", "q"]),
)


def same(scanned: tuple[Any, ...], data: bytes) -> bool:
    head, message_id, published_at_ms, payload = scanned
    view = MessageView(data).validate()
    trace = view.traceparent
    return (
        (message_id.decode(), published_at_ms, payload)
        == (view.message_id, view.published_at_ms, bytes(view.payload_bytes))
        and (head.topic, head.content_type, head.content_encoding)
        == (view.topic, view.content_type, view.content_encoding)
        and (head.priority, head.ttl_seconds or 0, dict(head.labels)) == (view.priority, view.ttl_seconds, view.labels)
        and (head.correlation_id, head.causality_parent) == (view.correlation_id, view.causality_parent)
        and head.trace_id == (trace and trace[3:35])
    )


@settings(max_examples=200)
@given(st.lists(MESSAGES, min_size=1, max_size=30))
def test_messages_read_together_say_what_each_says_alone(messages: list[bytes]) -> None:
    scan = MessageScan()
    for _ in range(2):  # the second time every head is known
        scanned = scan.read(messages)
        assert all(map(same, zip(*scanned, strict=True), messages))


@settings(max_examples=300)
@given(st.data())
def test_a_message_altered_anywhere_is_read_as_alone_or_refused(data: st.DataObject) -> None:
    """One that was not altered taught the scan its head before."""
    scan = MessageScan()
    known = message(b"0123456789", publisher_id="p")
    scan.read([known])
    altered = bytearray(known)
    altered[data.draw(st.integers(0, len(known) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(altered[: data.draw(st.integers(len(known) - 2, len(known)))])
    try:
        MessageView(cut).validate()
    except WireError:
        return  # a node accepts no such message: it is in no journal
    assert same(next(zip(*scan.read([cut]), strict=True)), cut)


@pytest.mark.parametrize("data", [b"", b"\0", b"garbage", message()[:20]])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(WireError, match="BAD_MESSAGE"):
        MessageScan().read([message(), data])


def test_memory_is_bounded_whatever_comes() -> None:
    scan = MessageScan()
    scan.read([message(b"x" * n, topic=f"t{n}", published_at_ms=n + 1) for n in range(5000)])
    assert len(scan._shapes) <= 16
    assert max(len(scan._frames), len(scan._times)) <= 4096


@pytest.mark.parametrize("size", [0, 1, 115, 125, 126, 127, 128, 16_380, 20_000])
def test_a_series_writes_the_bytes_that_each_message_has_alone(size: int) -> None:
    """M-2."""
    payload = b"p" * size
    said = {"topic": "a.b", "namespace": "default", "priority": 3, "publisher_id": "etl"}
    series = MessageSeries(encode_content(b""), 1_700_000_000_000, **said)
    assert series.encode(ID.encode(), payload) == message(payload, **said)
    assert series.encode(ID.encode(), payload) == message(payload, **said)


def test_ids_of_one_work_count_its_messages() -> None:
    """M-13."""
    first, second = MessageIds("batch", "run", "0").take(4095, 2)
    assert first[:-12] == second[:-12]
    assert (first[-12:], second[-12:]) == (b"000000000fff", b"000000001000")
    assert first == b"4ba12347-a61e-8817-9212-000000000fff"  # SHA-256 begins 4ba12347 a61e 6817 5212


KNOWN = message(b"0123456789", publisher_id="p")


def is_read_as_alone(scan: MessageScan, data: bytes) -> bool:
    """Whether the scan reads ``data`` as a node would; what no node accepts may be read, or refused by name."""
    try:
        MessageView(data).validate()
    except WireError:
        with contextlib.suppress(WireError):
            scan.read([data])
        return True
    return same(next(zip(*scan.read([data]), strict=True)), data)


@pytest.mark.parametrize("byte", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_every_byte_of_a_known_message_may_differ(byte: int) -> None:
    """M-4: a byte beside id, time and payload is never taken for that of the known head."""
    scan = MessageScan()
    for at in range(len(KNOWN)):
        scan.read([KNOWN])
        assert is_read_as_alone(scan, KNOWN[:at] + bytes([byte]) + KNOWN[at + 1 :]), at


def payload_record(record: bytes) -> bytes:
    """The known message with another payload record."""
    end = KNOWN.index(b"\x9a\x06") + 2
    return KNOWN[:end] + varint(len(record)) + record


VALUE = b"\x12\x031.5"


@pytest.mark.parametrize(
    "record",
    [
        b"\x0a\x01u" + VALUE,
        VALUE + b"\x1a\x00",
        VALUE + VALUE,
        b"\x12\x83\x80\x001.5",
        b"",
    ],
    ids=["type url first", "a field behind the value", "the value twice", "a long way to write its length", "empty"],
)
def test_a_payload_framed_in_another_way_is_read_as_alone(record: bytes) -> None:
    """M-4: of repeated fields the last counts; unknown ones are ignored."""
    scan = MessageScan()
    scan.read([KNOWN])
    assert is_read_as_alone(scan, payload_record(record))
    assert is_read_as_alone(MessageScan(), payload_record(record))


@pytest.mark.parametrize(
    "data",
    [KNOWN + KNOWN[: KNOWN.index(b"\x9a\x06")], KNOWN + b"\xa2\x06\x00", payload_record(VALUE) * 2],
    ids=["metadata twice", "a record behind the payload", "all twice"],
)
def test_a_message_whose_parts_come_in_another_order_is_read_as_alone(data: bytes) -> None:
    """M-4."""
    scan = MessageScan()
    scan.read([KNOWN])
    assert is_read_as_alone(scan, data)
    assert is_read_as_alone(scan, data)


@pytest.mark.parametrize("lacking", ["message_id", "published_at_ms", "payload"])
def test_a_message_that_lacks_a_part_is_refused(lacking: str) -> None:
    """M-5."""
    envelope = pb.MessageEnvelope.FromString(KNOWN)
    envelope.ClearField(lacking) if lacking == "payload" else envelope.metadata.ClearField(lacking)
    with pytest.raises(WireError, match="is required"):
        MessageScan().read([envelope.SerializeToString()])


def test_a_time_beyond_63_bits_is_never_taken_for_a_known_one() -> None:
    """M-5: protobuf reads it as a negative number."""
    envelope = pb.MessageEnvelope.FromString(KNOWN)
    envelope.metadata.published_at_ms = (1 << 63) - 1
    scan, largest = MessageScan(), envelope.SerializeToString()
    scan.read([largest])
    envelope.metadata.published_at_ms = -1
    negative = envelope.SerializeToString()
    with pytest.raises(WireError, match="BAD_MESSAGE"):
        scan.read([negative])


def test_a_series_remembers_a_bounded_number_of_sizes() -> None:
    """Its memory does not grow with what it is given."""
    said = {"topic": "a.b", "namespace": "default"}
    series = MessageSeries(encode_content(b""), 1_700_000_000_000, **said)
    for size in range(5000):
        series.encode(ID.encode(), bytes(size))
    assert len(series._frames) <= 4096
    assert series.encode(ID.encode(), bytes(4999)) == message(bytes(4999), **said)


def test_one_part_of_a_work_makes_no_more_messages_than_its_ids_can_count() -> None:
    """M-13."""
    ids = MessageIds("batch", "run", "0")
    assert len(ids.take((1 << 48) - 2, 2)) == 2
    with pytest.raises(WireError, match="2\\^48"):
        ids.take((1 << 48) - 1, 2)


def test_a_known_message_may_be_cut_anywhere() -> None:
    """M-4: also within the lengths of its payload."""
    scan = MessageScan()
    for end in range(len(KNOWN)):
        scan.read([KNOWN])
        assert is_read_as_alone(scan, KNOWN[:end]), end
