"""Which messages lie so that others of the same head are read with them (M-2, M-4, M-5)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.errors import WireError
from speed.spark.source.heads import parse_message, shape_of
from speed.wire.message import encode_message
from speed.wire.records import varint
from tests.unit.wire.messages import BASE, TRACE, with_field

ID = with_field(1, b"0190-1")
TIME = b"\x20" + varint(1_700_000_000_000)
TOPIC = with_field(2, b"orders.created")
PAYLOAD = with_field(99, with_field(2, b"value"))


def message(*parts: bytes, payload: bytes = PAYLOAD) -> bytes:
    """A message whose metadata is made of ``parts``."""
    return with_field(1, b"".join(parts)) + payload


def shape_alone(data: bytes) -> Any:
    return shape_of(data, parse_message(data).head)


def test_the_shape_of_a_message_is_itself_without_id_time_and_payload() -> None:
    data = encode_message(b"value", **BASE)
    parsed, shape = parse_message(data), shape_alone(data)
    time = varint(parsed.published_at_ms)
    assert data == shape.before + parsed.message_id + shape.between + time + shape.after + data[shape.end :]
    assert data.endswith(parsed.payload)


@pytest.mark.parametrize("said", [{"correlation_id": "c"}, {"causality_parent": "p"}, {"traceparent": TRACE}], ids=str)
def test_what_a_message_alone_says_is_no_shape(said: dict[str, Any]) -> None:
    assert shape_alone(encode_message(b"value", **BASE, **said)) is None


@pytest.mark.parametrize("data", [message(ID), message(TIME), message(ID, TIME, payload=b""), b""], ids=bytes.hex)
def test_a_message_without_id_time_or_payload_is_refused(data: bytes) -> None:
    """M-5."""
    with pytest.raises(WireError, match="required"):
        parse_message(data)


@pytest.mark.parametrize(
    "data",
    [
        message(ID, ID, TIME),
        message(ID, TIME) + PAYLOAD,
        PAYLOAD + message(ID, TIME, payload=b""),
        message(TIME, ID),
        message(ID, TIME, payload=b"\x9a\x86\x00" + PAYLOAD[2:]),
        message(ID, b"\x20" + b"\xff" * 5 + b"\x80" * 4 + b"\x00"),
        message(with_field(2, b"t" * 1024), ID, TIME),
    ],
    ids=[
        "the id twice",
        "the payload twice",
        "the payload first",
        "the time before the id",
        "a tag longer than needed",
        "a time longer than needed",
        "a head longer than any",
    ],
)
def test_a_message_that_lies_in_another_way_than_writers_write_is_read_alone(data: bytes) -> None:
    """M-4."""
    assert shape_alone(data) is None


def test_a_message_in_the_usual_order_has_a_shape_whatever_else_it_says() -> None:
    assert shape_alone(message(ID, TOPIC, TIME)) is not None


def test_labels_are_read_whatever_stands_beside_them() -> None:
    """M-12."""
    entry = with_field(6, with_field(1, b"a") + with_field(2, b"1") + b"\x18\x01")
    assert parse_message(message(ID, TOPIC, TIME, payload=with_field(3, entry) + PAYLOAD)).head.labels == (("a", "1"),)
