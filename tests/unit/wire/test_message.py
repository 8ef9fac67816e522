"""Messages: rules M-1 to M-14 of registry_spec/messages.md."""

from __future__ import annotations

import json
import tracemalloc
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speed.errors import UnserialisableError, WireError
from speed.wire import message_pb2
from speed.wire.message import (
    MessageView,
    encode_message,
    make_traceparent,
    new_message_id,
    parse_traceparent,
)
from speed.wire.records import varint, walk

pb: Any = message_pb2
VECTORS = json.loads((Path(__file__).parents[3] / "registry_spec" / "vectors" / "messages.json").read_text())
BASE: dict[str, Any] = {
    "topic": "orders.created",
    "namespace": "default",
    "message_id": "0190-1",
    "published_at_ms": 1_700_000_000_000,
}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
values = st.recursive(
    scalars | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


topics = st.sampled_from(["orders.created", "message", "0" * 36, "x-1.y_2"])


@given(
    topic=topics,
    namespace=st.text(min_size=1, max_size=20),
    published_at_ms=st.integers(1, 2**63 - 1),
    priority=st.none() | st.integers(0, 10),
    ttl_seconds=st.none() | st.integers(0, 2**40),
    publisher_id=st.none() | st.text(max_size=20),
    payload=st.binary(max_size=300) | st.text(max_size=20),
)
def test_a_head_made_from_an_earlier_one_has_the_bytes_that_protobuf_gives(payload: Any, **fields: Any) -> None:
    """M-2, M-4."""
    identity = new_message_id(1, bytes(range(16)))
    for _ in range(2):
        view = MessageView(encode_message(payload, message_id=identity, **fields)).validate()
        head = view.to_bytes()[: next(start for field, _, start, *_ in walk(view.to_bytes()) if field == 99)]
        assert pb.MessageEnvelope.FromString(head).SerializeToString() == head
        assert (view.message_id, view.topic, view.published_at_ms) == (identity, *map(fields.get, TOLD))
        assert (view.namespace, view.ttl_seconds) == (fields["namespace"], fields["ttl_seconds"] or 0)


TOLD = ("topic", "published_at_ms")


@pytest.mark.parametrize("field", ["priority", "ttl_seconds", "topic", "namespace"])
def test_a_field_of_another_kind_is_refused_although_a_right_one_is_remembered(field: str) -> None:
    """M-5."""
    fields = {**BASE, "message_id": new_message_id(1, bytes(16)), "priority": 1, "ttl_seconds": 1}
    encode_message(b"", **fields)
    with pytest.raises(WireError, match=field):
        encode_message(b"", **{**fields, field: [1]})


def observed(view: MessageView) -> dict[str, Any]:
    """Everything a view tells, in the form of the vectors' ``expected``."""
    told: dict[str, Any] = {
        "topic": view.topic,
        "namespace": view.namespace,
        "message_id": view.message_id,
        "published_at_ms": view.published_at_ms,
        "priority": view.priority,
        "ttl_seconds": view.ttl_seconds,
        "content_type": view.content_type,
        "content_encoding": view.content_encoding,
        "payload_hex": view.payload_bytes.hex(),
        "correlation_id": view.correlation_id,
        "causality_parent": view.causality_parent,
        "traceparent": view.traceparent,
        "publisher_id": view.publisher_id,
        "labels": view.labels or None,
        "baggage": view.baggage or None,
        "extensions_hex": {key: data.hex() for key, data in view.extensions.items()} or None,
    }
    return {key: value for key, value in told.items() if value is not None}


def refused(data: bytes) -> str:
    """The reason of the rejection of ``data``."""
    with pytest.raises(WireError) as caught:
        MessageView(data).validate()
    assert caught.value.reason == "BAD_MESSAGE"
    return str(caught.value)


def with_field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


@pytest.mark.parametrize("case", VECTORS["valid"], ids=lambda case: case["name"])
def test_every_valid_vector_reads_as_written_and_is_kept_byte_for_byte(case: dict[str, Any]) -> None:
    """M-1 to M-12: each vector names the bug it catches."""
    data = bytes.fromhex(case["hex"])
    view = MessageView(data).validate()
    expected = {key: value for key, value in case["expected"].items() if key != "type_url"}
    assert observed(view) == expected, case["bug"]
    assert view.to_bytes() == data


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=lambda case: case["name"])
def test_every_invalid_vector_is_rejected_and_the_field_named(case: dict[str, Any]) -> None:
    """M-4, M-5, M-6, M-8, M-9, M-10."""
    assert refused(bytes.fromhex(case["hex"])).startswith(f"BAD_MESSAGE: {case['field']}: "), case["bug"]


@pytest.mark.parametrize("case", VECTORS["valid"], ids=lambda case: case["name"])
def test_a_standard_protobuf_parser_reads_the_same_message(case: dict[str, Any]) -> None:
    """M-4: the hand-made walk and protobuf's own parser agree, repeated records included."""
    whole = pb.MessageEnvelope.FromString(bytes.fromhex(case["hex"]))
    assert whole.payload.value.hex() == case["expected"]["payload_hex"]
    assert whole.payload.type_url == case["expected"].get("type_url", "")
    assert whole.metadata.topic == case["expected"]["topic"]


@given(values)
@example({1: "int keys"})
def test_what_is_sent_is_what_arrives(value: Any) -> None:
    """M-10."""
    view = MessageView(encode_message(value, **BASE)).validate()
    assert view.payload == value


@given(
    priority=st.none() | st.integers(0, 10),
    ttl=st.none() | st.integers(0, 2**63 - 1),
    correlation=st.none() | st.text(),
    labels=st.dictionaries(st.text(), st.text(), max_size=3),
    extensions=st.dictionaries(st.text(), st.binary(), max_size=3),
)
def test_all_metadata_survives(
    priority: int | None,
    ttl: int | None,
    correlation: str | None,
    labels: dict[str, str],
    extensions: dict[str, bytes],
) -> None:
    """M-5, M-6, M-12."""
    data = encode_message(
        b"",
        **BASE,
        priority=priority,
        ttl_seconds=ttl,
        correlation_id=correlation,
        labels=labels,
        baggage=labels,
        extensions=extensions,
    )
    view = MessageView(memoryview(data)).validate()
    assert (view.priority, view.ttl_seconds, view.correlation_id) == (priority or 5, ttl or 0, correlation)
    assert (view.labels, view.baggage, view.extensions) == (labels, labels, extensions)


@given(st.binary(max_size=200))
@example(b"\x9a\x06" + b"\xff" * 9 + b"\x01")
def test_arbitrary_bytes_are_read_or_rejected_and_nothing_else(data: bytes) -> None:
    """M-4."""
    try:
        observed(MessageView(data).validate())
    except WireError as error:
        assert error.reason == "BAD_MESSAGE"


@given(st.data())
def test_a_damaged_message_is_read_or_rejected_and_nothing_else(data: st.DataObject) -> None:
    """M-4: every single changed byte."""
    good = bytearray(encode_message({"a": [1, 2]}, **BASE, traceparent=TRACE, labels={"k": "v"}))
    good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        view = MessageView(bytes(good)).validate()
        observed(view)
        _ = view.payload
    except WireError as error:
        assert error.reason == "BAD_MESSAGE"


def test_every_cut_message_is_rejected() -> None:
    """M-4, M-5: a prefix never passes for a message."""
    whole = encode_message(b"some bytes", **BASE)
    for size in range(len(whole)):
        refused(whole[:size])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"message_id": ""}, "message_id"),
        ({"message_id": 7}, "message_id"),
        ({"message_id": "\ud800"}, "message_id"),
        ({"topic": ""}, "topic"),
        ({"topic": "a/b"}, "topic"),
        ({"namespace": ""}, "namespace"),
        ({"published_at_ms": 0}, "published_at_ms"),
        ({"published_at_ms": 2**63}, "published_at_ms"),
        ({"priority": 11}, "priority"),
        ({"priority": -1}, "priority"),
        ({"ttl_seconds": -1}, "ttl_seconds"),
        ({"correlation_id": 5}, "correlation_id"),
        ({"traceparent": "00-x"}, "traceparent"),
        ({"publisher_id": 5}, "publisher_id"),
        ({"labels": {"a": 1}}, "labels"),
        ({"baggage": {1: "a"}}, "baggage"),
        ({"extensions": {"a": "text"}}, "extensions"),
        ({"content_type": ""}, "content_type_custom"),
    ],
)
def test_the_writer_refuses_what_a_reader_would_reject(change: dict[str, Any], field: str) -> None:
    """M-5: checked on both sides."""
    with pytest.raises(WireError, match=f"BAD_MESSAGE: {field}: "):
        encode_message(b"", **{**BASE, **change})


def test_the_payload_record_comes_last() -> None:
    """M-2."""
    data = encode_message(b"x", **BASE, extensions={"x-a": b"1"}, publisher_id="a", labels={"k": "v"})
    assert [field for field, *_ in walk(data)] == [1, 2, 3, 97, 99]


def test_absent_fields_are_not_written() -> None:
    """M-6."""
    head = pb.MessageEnvelope.FromString(encode_message(b"x", **BASE))
    present = {descriptor.name for descriptor, _ in head.metadata.ListFields()}
    assert present == {*BASE, "content_type", "content_type_custom"}
    assert not (head.HasField("security") or head.HasField("observability") or head.HasField("schema"))


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


@pytest.mark.parametrize("value", [object(), {"a": {1, 2}}, 2**64, "\ud800", {"a": "\ud800"}])
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


def test_unknown_fields_extensions_and_enum_numbers_are_kept() -> None:
    """M-12."""
    data = with_field(77, b"of a later version") + encode_message(b"x", **BASE, extensions={"later": b"1"})
    view = MessageView(data).validate()
    assert view.extensions == {"later": b"1"}
    assert view.to_bytes() == data


def test_a_message_expires_at_its_time_to_live_and_never_without_one() -> None:
    """M-7."""
    mortal = MessageView(encode_message(b"", **BASE, ttl_seconds=2))
    published = BASE["published_at_ms"]
    assert not mortal.is_expired(published + 1999)
    assert mortal.is_expired(published + 2000)
    assert not MessageView(encode_message(b"", **BASE)).is_expired(2**62)


@pytest.mark.parametrize("text", VECTORS["traceparents"]["valid"])
def test_a_valid_traceparent_is_parsed_and_carried(text: str) -> None:
    """M-11."""
    parsed = parse_traceparent(text)
    assert str(parsed) == "00" + text[2:55]
    assert MessageView(encode_message(b"", **BASE, traceparent=text)).validate().traceparent == str(parsed)


@pytest.mark.parametrize("text", VECTORS["traceparents"]["invalid"])
def test_an_invalid_traceparent_is_refused(text: str) -> None:
    """M-11."""
    with pytest.raises(WireError, match="BAD_MESSAGE: traceparent: "):
        parse_traceparent(text)


@given(st.text(max_size=60) | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True))
def test_traceparent_texts_are_parsed_or_refused_and_nothing_else(text: str) -> None:
    """M-11."""
    try:
        assert str(parse_traceparent(text))[2:] == text[2:55]
    except WireError as error:
        assert error.reason == "BAD_MESSAGE"


@given(st.binary(min_size=24, max_size=24).filter(lambda raw: any(raw[:16]) and any(raw[16:])), st.booleans())
def test_a_made_traceparent_parses(raw: bytes, sampled: bool) -> None:
    """M-11."""
    parsed = parse_traceparent(make_traceparent(raw, sampled=sampled))
    assert (parsed.trace_id, parsed.span_id, parsed.flags) == (raw[:16].hex(), raw[16:].hex(), int(sampled))


@pytest.mark.parametrize("raw", [b"", bytes(24), b"\x01" * 16 + bytes(8), b"\x01" * 25])
def test_a_traceparent_is_not_made_from_bad_randomness(raw: bytes) -> None:
    """M-11."""
    with pytest.raises(WireError):
        make_traceparent(raw)


@pytest.mark.parametrize("case", VECTORS["message_ids"], ids=lambda case: case["message_id"])
def test_message_ids_match_the_vectors(case: dict[str, Any]) -> None:
    """M-13."""
    made = new_message_id(case["unix_ms"], bytes.fromhex(case["random_hex"]))
    assert made == case["message_id"]


@given(st.integers(0, 2**48 - 1), st.binary(min_size=16, max_size=16))
def test_message_ids_are_uuids_of_version_seven_that_begin_with_the_time(unix_ms: int, raw: bytes) -> None:
    """M-13."""
    made = UUID(new_message_id(unix_ms, raw))
    assert (made.version, made.variant, made.int >> 80) == (7, "specified in RFC 4122", unix_ms)


@pytest.mark.parametrize(("unix_ms", "raw"), [(0, b""), (-1, bytes(16)), (2**48, bytes(16))])
def test_a_message_id_is_not_made_from_bad_parts(unix_ms: int, raw: bytes) -> None:
    """M-13."""
    with pytest.raises(WireError, match="message_id"):
        new_message_id(unix_ms, raw)
