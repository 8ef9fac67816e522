"""Messages read together, as arrays, say what each says alone (M-2 to M-11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speed.errors import WireError
from speed.message.view import MessageView
from speed.message.writing import encode_message
from speed.spark.source.scan import BatchRowError, MessageHead, MessageScan, Scanned, parse_message
from speed.wire.records import varint
from tests.thorough import examples

ID = "018f0000-0000-7000-8000-000000000001"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Said = tuple[MessageHead, bytes, int, bytes]


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


def scanned(scan: MessageScan, messages: Sequence[bytes]) -> Scanned:
    return scan.read(b"".join(messages), np.array([len(one) for one in messages], np.int64))


def read(scan: MessageScan, messages: Sequence[bytes]) -> list[Said]:
    """Message by message."""
    found = scanned(scan, messages)
    heads = [found.heads[kind] for kind in found.kinds]
    ids, payloads = found.message_ids.to_pylist(), found.payloads.to_pylist()
    return list(zip(heads, ids, found.published_at_ms.tolist(), payloads, strict=True))


def says(said: Said, data: bytes) -> bool:
    """Whether that is what a reader of this message alone is told."""
    head, message_id, published_at_ms, payload = said
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


@settings(max_examples=examples(200))
@given(st.lists(MESSAGES, min_size=1, max_size=30))
def test_messages_read_together_say_what_each_says_alone(messages: list[bytes]) -> None:
    scan = MessageScan()
    for _ in range(2):  # the second time every head is known
        assert all(map(says, read(scan, messages), messages))


@settings(max_examples=examples(500))
@given(st.data())
def test_a_message_altered_anywhere_is_read_as_alone_or_refused(data: st.DataObject) -> None:
    """Others, which were not altered, taught the scan its head before, and lie beside it."""
    scan = MessageScan()
    known = message(b"0123456789", publisher_id="p")
    read(scan, [known])
    altered = bytearray(known)
    altered[data.draw(st.integers(0, len(known) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(altered[: data.draw(st.integers(len(known) - 2, len(known)))])
    try:
        alone = parse_message(cut)
    except WireError:
        with pytest.raises(BatchRowError):
            read(scan, [known, cut, known])
        return
    assert read(scan, [known, cut, known])[1] == alone


@pytest.mark.parametrize("size", [0, 1, 123, 124, 125, 126, 127, 128, 129, 16_376, 16_380, 16_384, 70_000, 2_097_150])
def test_a_payload_of_any_size_is_found_without_parsing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """M-2."""
    scan = MessageScan()
    read(scan, [message(b"0123456789")])
    monkeypatch.setattr("speed.spark.source.scan.parse_message", None)
    payload = bytes(range(256)) * (size // 256) + b"\x12" * (size % 256)
    found = read(scan, [message(b""), message(payload), message(b"x")])
    assert [said[3] for said in found] == [b"", payload, b"x"]


@pytest.mark.parametrize("frame", [varint(0) + b"\x12" + varint(3), b"\x85\x00\x12" + varint(3), b"\x05\x12\x83\x00"])
def test_lengths_that_are_written_otherwise_are_read_as_alone_or_refused(frame: bytes) -> None:
    scan = MessageScan()
    known = message(b"abc")
    read(scan, [known])
    other = known[: -len(b"\x05\x12\x03abc")] + frame + b"abc"
    try:
        alone = parse_message(other)
    except WireError:
        with pytest.raises(BatchRowError):
            read(scan, [other])
        return
    assert read(scan, [other]) == [alone]


@pytest.mark.parametrize("data", [b"", b"\0", b"garbage", message()[:20]])
def test_bytes_that_are_no_message_are_refused_and_their_place_is_told(data: bytes) -> None:
    with pytest.raises(BatchRowError, match="BAD_MESSAGE") as refused:
        read(MessageScan(), [message(), data, message()])
    assert refused.value.row == 1


def test_a_head_is_told_once_whatever_comes_between() -> None:
    messages = [message(b"x", message_id=f"id-{n:03}", topic="ab"[n % 2]) for n in range(100)]
    found = scanned(MessageScan(), messages)
    assert [head.topic for head in found.heads] == ["a", "b"]
    assert found.kinds.tolist() == [0, 1] * 50


def test_what_is_remembered_is_bounded_whatever_comes() -> None:
    scan = MessageScan()
    messages = [message(b"x" * n, topic=f"t{n}", published_at_ms=n + 1) for n in range(500)]
    assert all(map(says, read(scan, messages), messages))
    assert len(scan._known) <= 16
    read(scan, [message(topic="t", labels={"large": "x" * 5000})])
    assert max(known.shape.end for known in scan._known) <= 1024
