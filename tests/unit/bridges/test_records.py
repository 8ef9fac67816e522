"""Records of durable topics as messages, and messages as records."""

from __future__ import annotations

import datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.bridges.topic_ends import Messages, record_of
from speed.errors import WireError
from speed.message.errors import NotAvailableError
from speed.message.view import MessageView
from speed.message.writing import encode_message, with_security, with_signature
from speed.wire.topic import MESSAGE, TOMBSTONE, KeptMessage, RecordHead, encode
from speed.wire.value import pack, unpack

LANE = "0123456789abcdef" * 2
HOST = "speedd.topics"
NOW_MS = 1_718_000_000_000
VALUES = ("text", "ü" * 300, b"bytes", b"\x00" * 300, {"a": [1, None, True]}, 17, -1.5, None, [], "", b"")


def messages(lane: str = LANE) -> Messages:
    return Messages(lane, "orders", "default", HOST)


def kept(payload: bytes, *, kind: int = MESSAGE, publisher: str = "shop", **about: Any) -> KeptMessage:
    return KeptMessage(RecordHead(kind), {"publisher": publisher, **about}, payload)


def message_of(one: KeptMessage, offset: int = 5, recorded_ms: int = NOW_MS) -> MessageView:
    message_id, data = messages().message(one, offset, recorded_ms)
    view = MessageView(data).validate()
    assert view.message_id == message_id
    return view


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_record_becomes_a_message_with_its_value(value: Any) -> None:
    """B-13."""
    view = message_of(kept(pack(value)))
    assert view.payload == value
    assert (view.topic, view.namespace, view.publisher_id) == ("orders", "default", "shop")
    assert view.published_at_ms == NOW_MS
    assert view.to_bytes() == encode_message(
        value,
        topic="orders",
        namespace="default",
        message_id=view.message_id,
        published_at_ms=NOW_MS,
        publisher_id="shop",
    )


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_was_packed(value: Any) -> None:
    """B-13."""
    record = record_of(message_of(kept(pack(value))), "k", "", keep="payload")
    assert (record["payload"], record["key"]) == (pack(value), "k")


def test_properties_are_labels_and_come_back() -> None:
    """B-13."""
    view = message_of(kept(pack(1), properties={"region": "eu"}))
    assert view.labels == {"region": "eu"}
    record = record_of(view, None, "", keep="payload")
    assert record["properties"] == {"region": "eu", "bridge.id": view.message_id, "bridge.publisher": "shop"}
    assert "key" not in record


def test_a_tombstone_stays_one() -> None:
    """B-13."""
    view = message_of(kept(b"", kind=TOMBSTONE, key="k"))
    assert view.payload is None
    assert record_of(view, "k", "", keep="payload")["tombstone"] is True
    assert "tombstone" not in record_of(view, None, "", keep="payload")


def test_a_record_without_a_publisher_names_none() -> None:
    """B-13."""
    assert message_of(kept(pack(1), publisher="")).publisher_id is None


@given(st.integers(0, 1 << 34), st.integers(1, 1000))
def test_ids_are_those_of_version_7_and_grow_with_offsets(offset: int, more: int) -> None:
    """B-13."""
    made = messages()
    first, second = made.message_id(offset, NOW_MS), made.message_id(min(offset + more, (1 << 34) - 1), NOW_MS)
    assert UUID(first).version == 7
    assert first <= second
    assert first < made.message_id(0, NOW_MS + 1)
    assert first == messages().message_id(offset, NOW_MS)


def test_two_lanes_have_other_ids() -> None:
    """B-13."""
    assert messages().message_id(5, NOW_MS) != messages("f" * 32).message_id(5, NOW_MS)


def test_the_id_of_a_record_is_that_of_the_contract() -> None:
    """B-13: the SHA-256 of the lane's bytes begins with 22 3e 0a 16 0a."""
    assert messages().message_id(1, 0x0190163D8694) == "0190163d-8694-7000-8000-01223e0a160a"


@pytest.mark.parametrize("recorded_ms", [1, (1 << 35) - 1, 1 << 35, (1 << 42) - 1, 1 << 42])
def test_a_clock_that_is_decades_off_is_believed(recorded_ms: int) -> None:
    """B-13."""
    view = message_of(kept(pack({"a": 1})), recorded_ms=recorded_ms)
    assert (view.published_at_ms, view.payload) == (recorded_ms, {"a": 1})


def test_many_publishers_are_not_all_remembered() -> None:
    made = messages()
    for number in range(1100):
        _, data = made.message(kept(pack(1), publisher=f"p{number}"), number, NOW_MS)
        assert MessageView(data).publisher_id == f"p{number}"
    assert len(made._forms) <= 1024


def test_what_is_said_of_records_is_read_once_and_not_remembered_without_end() -> None:
    made = messages()
    for number in range(1100):
        one = kept(pack(number), publisher=f"p{number}", key="k")
        assert made.kept(encode(*one)) == made.kept(encode(*one)) == one
    assert len(made._read) <= 1024


def test_messages_of_one_millisecond_differ_in_id_and_payload() -> None:
    """B-13."""
    made = messages()
    views = [MessageView(made.message(kept(pack({"n": number})), number, NOW_MS)[1]) for number in range(3)]
    assert [view.payload for view in views] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert len({view.message_id for view in views}) == 3
    assert {view.published_at_ms for view in views} == {NOW_MS}


# --- what a bridge recorded ---


def came(envelope: bytes, hops: str = "0123456789abcdef", keep: str = "payload") -> KeptMessage:
    record = record_of(MessageView(envelope), None, hops, keep=keep)
    return kept(record["payload"], publisher=HOST, properties=record["properties"])


def message(value: Any = "x", **metadata: Any) -> bytes:
    head = {"topic": "orders", "namespace": "n", "message_id": "m-1", "published_at_ms": NOW_MS, "publisher_id": "till"}
    return encode_message(value, **{**head, **metadata})


def test_what_a_bridge_brought_keeps_its_id_its_publisher_and_its_hops() -> None:
    """B-13, B-16."""
    one = came(message(labels={"region": "eu", "bridge.hops": "forged"}))
    assert messages().is_own(one)
    assert messages().whole(one) is None
    view = message_of(one)
    assert (view.message_id, view.publisher_id, view.labels) == ("m-1", "till", {"region": "eu"})
    assert messages().hops(one) == "0123456789abcdef"


def test_what_others_write_in_the_name_of_a_bridge_does_not_count() -> None:
    """B-13."""
    forged = {"bridge.id": "m-1", "bridge.publisher": "till", "bridge.hops": "0" * 16, "bridge.message": "1", "a": "b"}
    one = kept(pack(message()), publisher="shop", properties=forged)
    view = message_of(one)
    assert view.message_id == messages().message_id(5, NOW_MS)
    assert (view.publisher_id, view.labels) == ("shop", {"a": "b"})
    assert not messages().is_own(one)


def test_a_whole_message_is_kept_and_goes_on_byte_for_byte() -> None:
    """B-13."""
    signed = with_signature(message(), b"s" * 64)
    one = came(signed, keep="message")
    assert messages().whole(one) == signed
    assert unpack(one.payload) == signed


def test_a_record_that_says_it_is_a_message_and_is_none_is_refused() -> None:
    """B-13."""
    with pytest.raises(WireError, match="BAD_MESSAGE"):
        messages().whole(kept(pack(1), publisher=HOST, properties={"bridge.message": "1"}))


def test_a_message_without_hops_or_publisher_says_none() -> None:
    """B-13."""
    bare = encode_message("x", topic="orders", namespace="n", message_id="m-1", published_at_ms=NOW_MS)
    assert record_of(MessageView(bare), None, "", keep="payload")["properties"] == {"bridge.id": "m-1"}


@pytest.mark.parametrize(
    ("envelope", "match"),
    [
        (with_signature(message(), b"s" * 64), "signed"),
        (with_security(message(), b"\x32\x00"), "signed or encrypted"),
        (message(b"x", content_encoding="gzip"), "compressed"),
    ],
    ids=["signed", "encrypted", "compressed"],
)
def test_what_is_no_plain_value_is_refused(envelope: bytes, match: str) -> None:
    """B-13."""
    with pytest.raises(NotAvailableError, match=match):
        record_of(MessageView(envelope), None, "", keep="payload")


@pytest.mark.parametrize(
    ("value", "content_type", "recorded"),
    [
        (b'{"a": 1}', "application/json", {"a": 1}),
        (b"avro", "application/avro", b"avro"),
        (b"png", "image/png", b"png"),
        (datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), None, None),
    ],
)
def test_other_types_are_recorded_as_values_or_bytes(value: Any, content_type: str | None, recorded: Any) -> None:
    """B-13."""
    record = record_of(MessageView(message(value, content_type=content_type)), None, "", keep="payload")
    assert unpack(record["payload"]) == (value if recorded is None else recorded)


def test_a_payload_that_is_not_of_its_type_is_refused() -> None:
    """B-13."""
    with pytest.raises(WireError, match="BAD_MESSAGE"):
        record_of(MessageView(message(b"{", content_type="application/json")), None, "", keep="payload")
