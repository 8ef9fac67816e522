"""Which messages lie so that others are read with them (M-2, M-4)."""

from __future__ import annotations

import pytest

from speed.message.reader import shape_of
from speed.message.view import MessageView
from speed.message.writing import encode_message
from speed.wire.records import varint
from tests.unit.wire.messages import BASE, ID, PAYLOAD, TIME, TOPIC, message_of, with_field


def test_the_shape_of_a_message_is_itself_without_id_time_and_payload() -> None:
    data = encode_message(b"value", **BASE)
    view, shape = MessageView(data), shape_of(data)
    assert shape is not None
    message_id, time = view.message_id.encode(), varint(view.published_at_ms)
    assert data == shape.before + message_id + shape.between + time + shape.after + data[shape.end :]
    assert data.endswith(bytes(view.payload_bytes))


@pytest.mark.parametrize(
    "data",
    [
        message_of(ID),
        message_of(TIME),
        message_of(ID, TIME, payload=b""),
        b"",
        message_of(ID, ID, TIME),
        message_of(ID, TIME) + PAYLOAD,
        PAYLOAD + message_of(ID, TIME, payload=b""),
        message_of(TIME, ID),
        message_of(ID, TIME, payload=b"\x9a\x86\x00" + PAYLOAD[2:]),
        message_of(ID, b"\x20" + b"\xff" * 5 + b"\x80" * 4 + b"\x00"),
        message_of(with_field(2, b"t" * 1024), ID, TIME),
    ],
    ids=[
        "no time",
        "no id",
        "no payload",
        "nothing",
        "the id twice",
        "the payload twice",
        "the payload first",
        "the time before the id",
        "a tag longer than needed",
        "a time longer than needed",
        "a head longer than any",
    ],
)
def test_a_message_that_lies_in_another_way_than_writers_write_has_no_shape(data: bytes) -> None:
    """M-4."""
    assert shape_of(data) is None


def test_a_message_in_the_usual_order_has_a_shape_whatever_else_it_says() -> None:
    assert shape_of(message_of(ID, TOPIC, TIME)) is not None
