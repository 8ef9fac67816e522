"""What clients say, as messages of the host, and what they are told."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.gateway import encryption, frames
from speed.gateway.encryption import ByClient, EncryptedKey, EncryptionContext
from speed.gateway.frames import MessageId, PublishRefusedError, message_of, read_command, read_publication
from speed.wire.topic import RecordHead, encode
from speed.wire.value import pack, unpack

NOW = 1_000_000


def message(**frame: Any) -> dict[str, Any]:
    found = message_of(read_publication(json.dumps({"payload": "eA==", **frame})), None, NOW)
    assert unpack(found.pop("payload")) == b"x"
    return found


def number(**frame: Any) -> int:
    with pytest.raises(PublishRefusedError) as error:
        message_of(read_publication(json.dumps({"payload": "eA==", **frame})), None, NOW)
    return error.value.number


def test_a_message_has_only_what_was_said() -> None:
    assert message() == {}
    assert message(key="k", properties={"a": "b"}, context="c") == {"key": "k", "properties": {"a": "b"}}


def test_scalars_are_taken_as_their_text() -> None:
    assert message(key=5, properties={"a": True, "b": 1.5}) == {"key": "5", "properties": {"a": "true", "b": "1.5"}}
    assert frames.text_of(None) is None
    assert frames.text_of("a") == "a"
    assert message(payload="eA") == {}


def test_a_message_that_its_client_encrypted_keeps_its_context() -> None:
    keys = {"anna": EncryptedKey("eA==", {})}
    frame = {"payload": "", "encryptionParam": "cGFyYW0=", "compressionType": "ZSTD", "uncompressedMessageSize": 4}
    found = message_of(read_publication(json.dumps(frame)), ByClient(keys), NOW)
    assert encryption.kept(found["properties"]["pulsar.encryption"]) == EncryptionContext(keys, "cGFyYW0=", "ZSTD", 4)
    with pytest.raises(PublishRefusedError, match="encryptionParam") as error:
        message_of(read_publication('{"payload":""}'), ByClient(keys), NOW)
    assert error.value.number == 7


def test_a_time_is_kept_in_milliseconds() -> None:
    assert message(eventTime="1970-01-01T01:00:00.001+01:00") == {"properties": {"pulsar.eventTime": "1"}}


@pytest.mark.parametrize(
    ("frame", "due"),
    [
        ({"deliverAfterMs": 5}, {"due_ms": NOW + 5}),
        ({"deliverAfterMs": 0}, {}),
        ({"deliverAfterMs": -1}, {}),
        ({"deliverAt": "1970-01-01T00:16:41Z"}, {"due_ms": 1_001_000}),
        ({"deliverAt": "1970-01-01T00:00:00Z"}, {}),
    ],
)
def test_a_message_may_be_delivered_later(frame: dict[str, Any], due: dict[str, int]) -> None:
    assert message(**frame) == due


@pytest.mark.parametrize(
    "frame",
    [
        {"payload": None},
        {"payload": "x y"},
        {"payload": 1.5},
        {"key": "ä" * 513},
        {"properties": {"a": None}},
        {"properties": {"pulsar.x": "1"}},
        {"properties": {str(one): "" for one in range(63)}},
        {"eventTime": "yesterday"},
        {"eventTime": "2026-01-01T00:00:00"},
        {"eventTime": 5},
        {"deliverAfterMs": 1 << 62},
        {"deliverAt": "9999-12-31T00:00:00"},
    ],
)
def test_what_cannot_be_kept_is_error_7(frame: dict[str, Any]) -> None:
    assert number(**frame) == 7


@pytest.mark.parametrize(
    "data", ["", "{", "[]", '""', "null", '{"payload":{}}', '{"properties":[]}', "[" * 9999, b"\xff"]
)
def test_what_is_no_message_is_error_3(data: str | bytes) -> None:
    with pytest.raises(PublishRefusedError) as error:
        read_publication(data)
    assert error.value.number == 3


@given(st.text() | st.binary())
def test_any_frame_is_a_message_or_refused(data: str | bytes) -> None:
    try:
        message_of(read_publication(data), None, NOW)
    except PublishRefusedError:
        pass


def test_commands_are_read_and_what_is_none_is_refused() -> None:
    assert read_command('{"type":"permit","permitMessages":3,"more":[]}').permit_messages == 3
    for data in ("", "[]", '{"permitMessages":"x"}', "[" * 9999):
        with pytest.raises(ValueError, match="command"):
            read_command(data)


def test_replies_are_written_as_pulsar_writes_them() -> None:
    assert frames.kept(MessageId(0, 3), "5") == (
        '{"result":"ok","messageId":"CAAQAw==","context":"5","errorCode":0,"schemaVersion":0}'
    )
    assert json.loads(frames.not_kept(PublishRefusedError(7, "why"), None)) == {
        "result": "send-error:7",
        "errorMsg": "why",
        "errorCode": 0,
        "schemaVersion": 0,
    }


def delivered(value: Any, attempts: int = 1, **about: Any) -> dict[str, Any]:
    data = encode(RecordHead(), {"publisher": "p", **about}, b"" if value is None else pack(value))
    found: dict[str, Any] = json.loads(frames.written(frames.delivery(0, [3, attempts, 1500, data])))
    return found


def test_a_delivery_says_what_is_known() -> None:
    assert delivered(b"x", 3, key="k", properties={"a": "b", "pulsar.eventTime": "2500"}) == {
        "messageId": "CAAQAw==",
        "payload": "eA==",
        "properties": {"a": "b"},
        "publishTime": "1970-01-01T00:00:01.500Z",
        "redeliveryCount": 2,
        "eventTime": "1970-01-01T00:00:02.500Z",
        "key": "k",
    }


@pytest.mark.parametrize("text", ["x", "9" * 30, ""])
def test_a_property_that_is_no_time_is_left_out(text: str) -> None:
    assert "eventTime" not in delivered(b"x", properties={"pulsar.eventTime": text})


def test_a_context_without_a_batch_says_so() -> None:
    kept = encryption.written(EncryptionContext({"a": EncryptedKey("eA==", {})}, "cGFyYW0="))
    assert delivered(b"x", properties={"pulsar.encryption": kept})["encryptionContext"] == {
        "keys": {"a": {"keyValue": "eA==", "metadata": {}}},
        "param": "cGFyYW0=",
        "compressionType": "NONE",
        "uncompressedMessageSize": 1,
        "batchSize": None,
    }


@pytest.mark.parametrize(
    ("value", "data"),
    [(b"x", b"x"), ("grün", "grün".encode()), ({"a": [1, None]}, b'{"a":[1,null]}'), (1.5, b"1.5"), (None, b"")],
)
def test_payloads_of_speed_become_bytes(value: Any, data: bytes) -> None:
    assert b64decode(delivered(value)["payload"]) == data
    assert frames.plain(Odd()) == b'"odd"'


class Odd:
    def __str__(self) -> str:
        return "odd"
