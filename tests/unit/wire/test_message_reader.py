"""A reader that has seen messages before reads others as one that has not (M-2 to M-6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import WireError
from speed.message.reader import MAX_KINDS, MessageReader
from speed.message.view import MessageView
from speed.message.writing import encode_message
from tests.unit.wire.messages import BASE, TRACE, pb

READ = (
    *("message_id", "topic", "namespace", "published_at_ms", "content_type", "content_encoding", "priority"),
    *("ttl_seconds", "correlation_id", "causality_parent", "publisher_id", "traceparent", "labels", "baggage"),
    *("extensions", "has_publisher_only", "is_encrypted", "type_url", "uncompressed_bytes"),
)
TEXT = st.text(max_size=12)
SAID = st.fixed_dictionaries(
    {
        "message_id": st.sampled_from(["a", "0190-1", "0190-2", "\u00fc90-1"]),
        "published_at_ms": st.integers(1, 1 << 62),
    },
    optional={
        "publisher_id": st.sampled_from(["shop", "till"]),
        "correlation_id": st.sampled_from(["c", "d"]),
        "traceparent": st.just(TRACE),
        "labels": st.dictionaries(TEXT, TEXT, max_size=2),
        "extensions": st.dictionaries(TEXT, st.binary(max_size=4), max_size=2),
        "ttl_seconds": st.integers(0, 9),
        "priority": st.integers(1, 10),
    },
)
PAYLOADS = st.sampled_from([None, b"", b"value", "text", {"a": 1}, bytes(200), bytes(20_000)])


def message(number: int = 1, **said: Any) -> bytes:
    return encode_message(f"value {number}", **{**BASE, "message_id": f"0190-{number}", **said})


def told(view: MessageView) -> dict[str, Any]:
    return {
        "payload": bytes(view.payload_bytes),
        "data": view.to_bytes(),
        **{name: getattr(view, name) for name in READ},
    }


def outcome(read: Any, data: bytes) -> Any:
    try:
        return told(read(data))
    except WireError as error:
        return error.reason


@given(st.lists(st.tuples(SAID, PAYLOADS), min_size=1, max_size=12))
def test_what_was_read_before_changes_nothing(messages: list[tuple[dict[str, Any], Any]]) -> None:
    reader = MessageReader()
    for said, payload in messages:
        data = encode_message(payload, **{**BASE, **said})
        assert told(reader.read(data)) == told(MessageView(data).validate())


@given(st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3))
def test_altered_bytes_are_judged_as_by_a_reader_that_has_seen_nothing(at: int, put: bytes, cut: int) -> None:
    reader = MessageReader()
    data = message(publisher_id="shop")
    reader.read(data)
    at %= len(data)
    altered = data[:at] + put + data[at + cut :]
    assert outcome(reader.read, altered) == outcome(lambda one: MessageView(one).validate(), altered)


@pytest.mark.parametrize(
    "time", [b"\x80\x80\x80\x80\x80\x00", b"\x81\x80\x80\x80\x80\x80", b"\x01\x80\x80\x80\x80\x01"]
)
def test_a_time_that_is_none_is_refused_though_the_rest_is_known(time: bytes) -> None:
    reader = MessageReader()
    data = message()
    reader.read(data)
    altered = data.replace(b"\x20" + pb_time(data), b"\x20" + time)
    assert altered != data
    with pytest.raises(WireError):
        reader.read(altered).validate()


@pytest.mark.parametrize("length", [b"", b"\xff", b"\x80\x80\x80\x80\x80\x01"], ids=["none", "cut", "too long"])
def test_a_message_that_ends_in_the_length_of_its_payload_is_refused_though_the_rest_is_known(length: bytes) -> None:
    reader = MessageReader()
    data = message()
    reader.read(data)
    with pytest.raises(WireError):
        reader.read(data[: data.index(b"\x9a\x06") + 2] + length)


def pb_time(data: bytes) -> bytes:
    """The bytes of its time."""
    metadata = pb.MessageMetadata(published_at_ms=MessageView(data).published_at_ms)
    return bytes(metadata.SerializeToString()[1:])


def test_many_publishers_at_once_are_read_right_and_few_of_them_are_remembered() -> None:
    reader = MessageReader()
    for number in range(3 * MAX_KINDS):
        assert reader.read(message(publisher_id=f"shop-{number}")).publisher_id == f"shop-{number}"
    assert len(reader._kinds) == MAX_KINDS


def test_a_long_message_is_not_held() -> None:
    reader = MessageReader()
    reader.read(encode_message(bytes(20_000), **BASE))
    assert reader._kinds == ()


def test_a_message_that_is_read_as_one_of_many_is_valid() -> None:
    reader = MessageReader()
    reader.read(message(1))
    view = reader.read(message(2))
    assert view.validate() is view
    assert (view.message_id, view.payload) == ("0190-2", "value 2")
