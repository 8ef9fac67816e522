"""Messages whose payload is not held: their front is that of any message, and what lies about it is refused (G-18)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.engine.large_payload import Front, LargeMessageView, large_front
from speed.errors import WireError
from speed.message.view import MessageView
from speed.message.writing import encode_message
from speed.wire import names
from speed.wire.records import varint
from tests.unit.wire.messages import BASE, pb, with_field

PAYLOAD = bytes(range(256)) * 4
URL = with_field(1, b"type.googleapis.com/x")
HEAD = large_front(0, **BASE)[:-5]
"""All records before the payload's: tag and length take five bytes of an empty one."""


class Content:
    def read_all(self) -> bytes:
        return PAYLOAD


def record(fields: bytes, size: int | None = None) -> bytes:
    return b"\x9a\x06" + varint(len(fields) if size is None else size) + fields


def view(message: bytes) -> LargeMessageView:
    front = Front(message[: len(message) - len(PAYLOAD) + 10], len(message))
    return LargeMessageView(front.without_value(), len(message), Content(), lambda: message)


def test_the_front_of_a_large_message_is_that_of_the_same_message_written_whole() -> None:
    """M-2."""
    said: dict[str, Any] = {"priority": 3, "labels": {"region": "eu"}, **BASE}
    assert large_front(len(PAYLOAD), **said) + PAYLOAD == encode_message(PAYLOAD, **said)


@pytest.mark.parametrize("url", [b"", URL], ids=["no type", "a type URL"])
@pytest.mark.parametrize("cut", [0, 700], ids=["whole", "cut within the payload"])
def test_a_payload_begins_where_its_value_does(url: bytes, cut: int) -> None:
    message = HEAD + record(url + with_field(2, PAYLOAD))
    front = Front(message[: len(message) - cut], len(message))
    assert message[front.start :] == PAYLOAD
    assert front.without_value() == HEAD + record(url + with_field(2, b""))


@pytest.mark.parametrize(
    "message",
    [
        HEAD,
        HEAD + record(with_field(2, PAYLOAD)) + HEAD,
        HEAD + record(with_field(2, PAYLOAD) + b"\x08\x01"),
        HEAD + record(with_field(3, PAYLOAD)),
        HEAD + record(with_field(2, PAYLOAD), 5000),
    ],
    ids=["no payload", "a record behind it", "a field behind the value", "no value", "another length"],
)
def test_a_payload_that_is_not_last_is_refused(message: bytes) -> None:
    """G-18."""
    with pytest.raises(WireError, match="not the last"):
        Front(message, len(message))


def test_bytes_are_given_as_what_reads_them_and_in_memory_where_they_are_asked_for() -> None:
    message = encode_message(PAYLOAD, **BASE)
    large = view(message)
    assert large.validate() is large
    assert isinstance(large.payload, Content)
    assert (large.size, large.to_bytes()) == (len(message), message)
    assert large.payload_bytes == PAYLOAD


def test_what_has_to_be_decoded_is_read() -> None:
    message = encode_message(PAYLOAD, content_type="application/x-special", **BASE)
    assert view(message).payload == PAYLOAD


def test_a_token_is_given_only_to_who_asks_for_it() -> None:
    """M-27."""
    security = pb.SecurityContext(auth_token="secret").SerializeToString()
    found = MessageView(encode_message(b"", security=security, **BASE))
    assert found.auth_token == "secret"
    assert not found.security.HasField("auth_token")


def test_an_encoding_of_another_name_is_custom_and_a_field_that_no_schema_has_is_refused() -> None:
    """M-9, M-29."""
    assert MessageView(encode_message(b"", content_encoding="x-own", **BASE)).content_encoding == "x-own"
    with pytest.raises(WireError, match="colour"):
        encode_message(b"", schema={"colour": "red"}, **BASE)


def test_in_a_directory_of_segments_only_their_files_are_ours() -> None:
    """G-14."""
    assert names.is_segment_file(names.shards_name(bytes(16)))
    assert names.is_segment_file(names.SEGMENT_INDEX)
    assert not names.is_segment_file("foreign")
