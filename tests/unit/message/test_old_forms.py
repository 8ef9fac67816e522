"""Messages in forms that are older than the envelope are recognised, taken over and written (M-36, M-39, M-40)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import UnserialisableError, WireError
from speed.message.old_forms import (
    OldMessage,
    SourcePosition,
    is_envelope,
    of_kafka,
    of_nats,
    of_postgresql,
    of_redis,
    old_form,
    old_message_id,
    payload_bytes,
    recognise,
    take_over,
)
from speed.message.view import MessageView
from speed.message.writing import encode_message, new_message_id
from tests.vectors import case_name, load

VECTORS = load("old_forms")


def bytes_of(headers: dict[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in headers.items()}


def check(found: OldMessage | None, expected: dict[str, Any] | None) -> None:
    if expected is None:
        assert found is None
        return
    assert found is not None
    metadata = dict(found.metadata)
    extensions = {name: value.hex() for name, value in metadata.pop("extensions", {}).items()}
    is_bytes = isinstance(found.payload, bytes)
    payload = {"payload_hex": found.payload.hex()} if is_bytes else {"payload": found.payload}
    assert {**payload, "metadata": metadata, "extensions_hex": extensions, "schema": found.schema} == {
        name: value for name, value in expected.items() if name != "beside"
    }
    assert found.is_duplicate == expected.get("beside", False)


@pytest.mark.parametrize("case", VECTORS["kafka"], ids=case_name)
def test_a_record_of_kafka_is_told_by_its_headers(case: dict[str, Any]) -> None:
    check(of_kafka(bytes.fromhex(case["value_hex"]), bytes_of(case["headers"])), case["expected"])


@pytest.mark.parametrize("case", VECTORS["nats"], ids=case_name)
def test_a_message_of_nats_is_told_by_its_headers(case: dict[str, Any]) -> None:
    check(of_nats(bytes.fromhex(case["value_hex"]), bytes_of(case["headers"])), case["expected"])


@pytest.mark.parametrize("case", VECTORS["redis"], ids=case_name)
def test_a_text_of_redis_is_told_by_its_members(case: dict[str, Any]) -> None:
    check(of_redis(case["text"].encode()), case["expected"])
    check(recognise(case["text"].encode()), case["expected"])


@pytest.mark.parametrize("case", VECTORS["postgresql"], ids=case_name)
def test_a_row_of_postgresql_is_told_by_its_columns(case: dict[str, Any]) -> None:
    check(of_postgresql(case["row"]), case["expected"])
    check(recognise(json.dumps(case["row"]).encode()), case["expected"])


@pytest.mark.parametrize("case", VECTORS["envelopes"], ids=case_name)
def test_an_envelope_is_told_from_all_else(case: dict[str, Any]) -> None:
    assert is_envelope(bytes.fromhex(case["hex"])) is case["is_envelope"]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ({"value": "raw", "headers": {"schema-id": "123"}}, "kafka"),
        ({"data": "raw", "headers": {"Nats-Msg-Id": "1"}}, "nats"),
        ({"value": "raw", "headers": {"other": "123"}}, None),
        ({"value": 1, "headers": {"schema-id": "123"}}, None),
        ({"value": "raw", "headers": ["schema-id"]}, None),
        ({"value": "raw", "headers": {"schema-id": 123}}, None),
        ("text", None),
    ],
)
def test_what_tools_write_down_as_json_is_recognised(text: Any, form: str | None) -> None:
    found = recognise(json.dumps(text).encode())
    assert (None if found is None else found.form) == form


def test_a_header_that_is_no_text_is_left_out() -> None:
    found = of_kafka(b"raw", {"schema-id": b"\xff", "timestamp": b"1"})
    assert found is not None
    assert found.metadata == {"published_at_ms": 1000}


@pytest.mark.parametrize("case", VECTORS["taken_over"], ids=case_name)
def test_an_old_message_becomes_the_same_envelope_each_time(case: dict[str, Any]) -> None:
    data, place = (
        bytes.fromhex(case["data_hex"]),
        SourcePosition(case["backend"], case["topic"], case["position"], case["stored_at_ms"]),
    )
    read = {"kafka": of_kafka, "nats": of_nats}.get(case["backend"])
    old = of_redis(data) if read is None else read(data, bytes_of(case["headers"]))
    assert old is not None
    taken = take_over(old, data, place, "default")
    assert taken.envelope.hex() == case["envelope_hex"]
    view = MessageView(taken.envelope).validate()
    assert taken[1:] == (view.topic, view.message_id, view.published_at_ms, view.traceparent)
    assert take_over(old, data, place, "other").envelope != taken.envelope


def test_places_and_bytes_make_different_ids() -> None:
    places = [
        SourcePosition("redis", "a", "1-0"),
        SourcePosition("redis", "a", "1-1"),
        SourcePosition("redis", "b", "1-0"),
        SourcePosition("kafka", "a", "1-0"),
    ]
    ids = {old_message_id(place, data, 1) for place in places for data in (b"", b"x")}
    assert len(ids) == 8
    assert old_message_id(SourcePosition("r", "ab", "c"), b"", 1) != old_message_id(
        SourcePosition("r", "a", "bc"), b"", 1
    )
    assert old_message_id(places[0], b"", 1 << 50).startswith("ffffffff-ffff-7")


def test_a_topic_that_no_envelope_takes_is_refused() -> None:
    old = of_redis(b'{"payload": 1}')
    assert old is not None
    with pytest.raises(WireError, match="topic"):
        take_over(old, b"", SourcePosition("redis", "a:b", "1-0"), "default")


@pytest.mark.parametrize("case", VECTORS["both_forms"], ids=case_name)
def test_a_message_is_written_in_the_old_form_and_recognised_as_one_beside(case: dict[str, Any]) -> None:
    old = old_form(case["form"], bytes.fromhex(case["envelope_hex"]))
    assert (old.data.hex(), dict(old.headers)) == (case["data_hex"], case["headers"])
    found = {
        "kafka": lambda: of_kafka(old.data, bytes_of(dict(old.headers))),
        "nats": lambda: of_nats(old.data, bytes_of(dict(old.headers))),
        "redis": lambda: of_redis(old.data),
        "postgresql": lambda: of_postgresql(
            {"topic": "orders", "payload": json.loads(old.data), "metadata": dict(old.headers)}
        ),
    }[case["form"]]()
    assert found is not None
    assert (found.is_duplicate, found.metadata["message_id"]) == (True, "m-1")


def test_what_json_has_no_word_for_is_not_written_as_json() -> None:
    for payload in (b"\x00", float("nan")):
        message = encode_message(payload, message_id="m-1", topic="a", namespace="n", published_at_ms=1)
        with pytest.raises(UnserialisableError, match="JSON"):
            old_form("redis", message)


def test_a_payload_that_is_hidden_has_no_old_form() -> None:
    message = encode_message(
        b"x", message_id="m-1", topic="a", namespace="n", published_at_ms=1, content_encoding="gzip"
    )
    with pytest.raises(WireError, match="content_encoding"):
        old_form("kafka", message)


@given(st.binary(max_size=100), st.dictionaries(st.sampled_from(["trace-id", "timestamp", "schema-id"]), st.binary()))
def test_what_is_taken_over_can_always_be_written_as_an_envelope(value: bytes, headers: dict[str, bytes]) -> None:
    found = of_kafka(value, headers)
    if found is None:
        return
    given_: dict[str, Any] = {"published_at_ms": 1, "message_id": new_message_id(1, bytes(16)), "topic": "orders"}
    data, content_type = payload_bytes(found)
    how = {**given_, "namespace": "default", **found.metadata, "schema": found.schema}
    view = MessageView(encode_message(data, content_type=content_type, **how)).validate()
    assert bytes(view.payload_bytes) == value


def test_a_value_of_json_goes_on_as_json() -> None:
    found = of_redis(b'{"payload": {"name": "J\xc3\xbcrgen"}}')
    assert found is not None
    assert payload_bytes(found) == ('{"name": "Jürgen"}'.encode(), "application/json")
