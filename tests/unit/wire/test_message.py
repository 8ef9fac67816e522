"""Messages: rules M-1 to M-14 of registry_spec/messages.md."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speed.errors import WireError
from speed.message.view import MessageView
from speed.message.writing import encode_message, new_message_id
from speed.wire.records import plain_records, walk
from tests.unit.wire.messages import BASE, TRACE, VECTORS, pb, with_field

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


def test_every_cut_and_every_flipped_bit_of_a_head_is_judged_as_by_the_long_way() -> None:
    """M-4: the short way over heads that writers make must not see what ``walk`` would not."""
    message = encode_message(b"hello", **BASE, publisher_id="b" * 127, priority=3)
    altered = [message[:size] for size in range(len(message))]
    for place in range(len(message)):
        altered += [message[:place] + bytes([message[place] ^ 1 << bit]) + message[place + 1 :] for bit in range(8)]
    for data in altered:
        if ends_whole(data):  # then one more, unknown record changes nothing, but takes the long way
            assert outcome(data) == outcome(data + b"\x98\x03\x01"), data.hex()
        else:
            assert outcome(data) == "refused: records", data.hex()


def outcome(data: bytes) -> str:
    """What a reader sees: the metadata and the payload, or the field that is refused."""
    try:
        view = MessageView(data).validate()
    except WireError as error:
        return f"refused: {str(error).split(': ')[1]}"
    return f"{view.topic} {view.message_id} {view.publisher_id} {bytes(view.payload_bytes).hex()}"


def ends_whole(data: bytes) -> bool:
    """Whether the top level is a sequence of whole records."""
    try:
        list(walk(data))
    except WireError:
        return False
    return True


def test_a_message_knows_its_size() -> None:
    data = encode_message(b"value", **BASE)
    assert MessageView(data).size == len(data)


@pytest.mark.parametrize("cut", [b"\x08\x80", b"\x08" + b"\x80" * 12], ids=["at its end", "by its length"])
def test_a_number_that_does_not_end_is_no_plain_record(cut: bytes) -> None:
    """M-4."""
    plain = b"\x10\x01"
    assert plain_records(plain + cut) == len(plain)


def test_of_a_map_every_form_of_an_entry_is_read() -> None:
    """M-4, M-12: what is absent is empty, what is repeated is merged, and what has another wire type is unknown."""
    key, one, two = with_field(1, b"k"), with_field(2, b"1"), with_field(2, b"2")
    for entry, expected in (
        (key + one + with_field(3, b"later"), {"k": "1"}),
        (key + one + two, {"k": "2"}),
        (one, {"": "1"}),
        (key, {"k": ""}),
        (key + one + b"\x10\x05", {"k": "1"}),
        (b"", {"": ""}),
    ):
        maps = with_field(3, with_field(5, entry)) + with_field(3, with_field(6, entry)) + with_field(97, entry)
        view = MessageView(maps + encode_message(b"x", **BASE)).validate()
        assert (view.labels, view.baggage) == (expected, expected)
        assert {name: value.decode() for name, value in view.extensions.items()} == expected
    later = with_field(3, with_field(6, key + one)) + with_field(3, with_field(6, key + two + b"\x18\x01"))
    assert MessageView(later + encode_message(b"x", **BASE)).validate().labels == {"k": "2"}


def test_an_entry_of_a_map_whose_text_is_no_utf_8_is_refused() -> None:
    """M-4."""
    for entry in (with_field(1, b"\xff") + b"\x18\x01", with_field(1, b"k") + with_field(2, b"\xff") + b"\x18\x01"):
        assert "UTF-8" in refused(with_field(3, with_field(6, entry)) + encode_message(b"x", **BASE))


def test_what_says_of_security_only_its_publisher_is_told_from_what_may_say_more() -> None:
    plain = encode_message(1, **BASE)
    published = encode_message(1, publisher_id="billing", traceparent=TRACE, **BASE)
    assert all(MessageView(data).has_publisher_only for data in (plain, published))
    level = with_field(2, with_field(8, b"restricted"))
    for data in (
        level + published,
        published + level,
        published + with_field(99, b"") + level,
        published + b"\x92\x00" + level[1:],
        with_field(50, b"") + published,
        with_field(2, with_field(1, b"a") + with_field(8, b"restricted")) + plain,
        b"",
    ):
        assert not MessageView(data).has_publisher_only
