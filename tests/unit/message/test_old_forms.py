"""Messages in forms that are older than the envelope are recognised, and others are not (M-36)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.message.old_forms import (
    OldMessage,
    is_envelope,
    of_kafka,
    of_nats,
    of_postgresql,
    of_redis,
    payload_bytes,
    recognise,
)
from speed.wire.message import MessageView, encode_message, new_message_id
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
    assert {**payload, "metadata": metadata, "extensions_hex": extensions, "schema": found.schema} == expected


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
