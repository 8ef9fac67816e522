"""Payloads of messages: rules M-2 and M-8 to M-10 of registry_spec/messages.md."""

from __future__ import annotations

import tracemalloc
from datetime import datetime, timezone
from typing import Any

import pytest

from speed.errors import UnserialisableError, WireError
from speed.message.view import MessageView
from speed.message.writing import encode_message
from speed.wire.value import decode_content
from tests.unit.wire.messages import BASE, pb, with_field


@pytest.mark.parametrize(
    ("value", "content_type"),
    [
        ({"a": 1}, "application/msgpack"),
        ([1], "application/msgpack"),
        (None, "application/msgpack"),
        (1.5, "application/msgpack"),
        (datetime(2025, 1, 2, tzinfo=timezone.utc), "application/msgpack"),
        ("text", "text/plain"),
        (b"bytes", "application/octet-stream"),
        (pb.SchemaContext(schema_name="Order"), "application/protobuf"),
    ],
)
def test_the_content_type_follows_the_value(value: Any, content_type: str) -> None:
    """M-10."""
    view = MessageView(encode_message(value, **BASE)).validate()
    assert view.content_type == content_type
    assert view.payload == value


@pytest.mark.parametrize("buffer", [bytearray(b"abcd"), memoryview(b"abcd"), memoryview(b"a-b-c-d")[::2]])
def test_any_buffer_travels_as_bytes(buffer: Any) -> None:
    """M-10."""
    assert MessageView(encode_message(buffer, **BASE)).payload == b"abcd"


def test_a_buffer_of_wide_items_is_measured_in_bytes() -> None:
    """M-2: the record's length counts bytes, not items."""
    wide = memoryview(bytes(16)).cast("Q")
    assert MessageView(encode_message(wide, **BASE)).validate().payload == bytes(16)


@pytest.mark.parametrize("value", [object(), {"a": 1j}, 2**64, "\ud800", {"a": "\ud800"}])
def test_a_value_outside_the_type_table_is_refused_by_the_writer(value: Any) -> None:
    """M-10."""
    with pytest.raises(UnserialisableError):
        encode_message(value, **BASE)


def test_a_declared_content_type_takes_ready_bytes() -> None:
    """M-8."""
    view = MessageView(encode_message('{"a": 1}', **BASE, content_type="application/json")).validate()
    assert (view.content_type, view.payload) == ("application/json", {"a": 1})
    other = MessageView(encode_message(b"\x00", **BASE, content_type="image/png")).validate()
    assert (other.content_type, other.payload) == ("image/png", b"\x00")
    with pytest.raises(UnserialisableError):
        encode_message({"a": 1}, **BASE, content_type="application/json")
    with pytest.raises(UnserialisableError):
        encode_message(b"", **BASE, content_type="application/protobuf")


@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("application/msgpack", b"\xc1"),
        ("application/msgpack", b"\x01\x02"),
        ("application/msgpack", b""),
        ("application/msgpack", b"\x91" * 100_000),
        ("text/plain", b"\xff"),
        ("application/json", b"{"),
        ("application/json", b"\xff\xfe"),
        ("application/json", b"[" * 100_000),
    ],
)
def test_a_payload_that_is_not_its_content_type_fails_only_when_decoded(content_type: str, data: bytes) -> None:
    """M-10."""
    view = MessageView(encode_message(data, **BASE, content_type=content_type)).validate()
    assert bytes(view.payload_bytes) == data
    with pytest.raises(WireError, match="BAD_MESSAGE: payload: "):
        _ = view.payload


def test_an_unknown_protobuf_type_comes_out_as_any() -> None:
    """M-10."""
    url = "type.googleapis.com/not.linked.Here"
    metadata = pb.MessageMetadata(**BASE, content_type=1).SerializeToString()
    whole = pb.MessageEnvelope()
    whole.payload.type_url, whole.payload.value = url, b"abc"
    view = MessageView(with_field(1, metadata) + whole.SerializeToString()).validate()
    assert (view.payload.type_url, view.payload.value) == (url, b"abc")


@pytest.mark.parametrize(
    "head",
    [
        pb.MessageEnvelope(metadata=pb.MessageMetadata(**BASE, content_encoding=1)),
        pb.MessageEnvelope(
            metadata=pb.MessageMetadata(**BASE),
            security=pb.SecurityContext(encryption=pb.EncryptionMetadata(key_id="k")),
        ),
    ],
    ids=["gzip", "encrypted"],
)
def test_an_encoded_or_encrypted_payload_is_handed_out_as_bytes_only(head: Any) -> None:
    """M-9."""
    head.payload.value = b"opaque"
    view = MessageView(head.SerializeToString()).validate()
    assert bytes(view.payload_bytes) == b"opaque"
    with pytest.raises(WireError, match="read payload_bytes"):
        _ = view.payload


def test_the_payload_is_found_without_a_copy() -> None:
    """M-2: the view's payload is a window on the received buffer."""
    data = encode_message(bytes(1 << 20), **BASE)
    view = MessageView(data).validate()
    assert view.payload_bytes.obj is data
    assert len(view.payload_bytes) == 1 << 20


def test_reading_metadata_costs_nothing_that_grows_with_the_payload() -> None:
    """M-2: metadata, validation and finding the payload of 4 MiB allocate a few KiB."""
    view = MessageView(encode_message(bytes(4 << 20), **BASE))
    tracemalloc.start()
    view.validate()
    assert len(view.payload_bytes) == 4 << 20
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 10


def test_metadata_is_read_although_the_payload_is_garbage() -> None:
    """M-2, M-10: metadata and payload do not depend on each other."""
    metadata = with_field(1, pb.MessageMetadata(**BASE).SerializeToString())
    view = MessageView(metadata + with_field(99, b"\xff\xff"))
    assert view.topic == "orders.created"
    with pytest.raises(WireError):
        view.validate()


def test_a_field_of_a_later_version_beside_the_payload_is_passed_by() -> None:
    """M-4."""
    record = b"\x1a\x01z" + b"\x0a\x01u" + b"\x12\x02hi"
    data = with_field(1, pb.MessageMetadata(**BASE).SerializeToString()) + with_field(99, record)
    view = MessageView(data)
    assert (view.payload_bytes, view.payload) == (b"hi", b"hi")


def test_a_protobuf_payload_of_a_type_unknown_here_comes_as_it_travelled() -> None:
    """M-10: the program may know what to do with it."""
    unknown = decode_content("application/protobuf", "type.googleapis.com/elsewhere.Order", memoryview(b"\x08\x01"))
    assert (unknown.type_url, unknown.value) == ("type.googleapis.com/elsewhere.Order", b"\x08\x01")


def test_a_protobuf_payload_that_is_none_of_its_type_is_refused() -> None:
    """M-10."""
    known = "type.googleapis.com/" + pb.SchemaContext.DESCRIPTOR.full_name
    with pytest.raises(WireError, match="BAD_MESSAGE"):
        decode_content("application/protobuf", known, memoryview(b"\xff"))
