"""What a message says, read by itself (M-5, M-12)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.errors import WireError
from speed.spark.source.heads import parse_message
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


@pytest.mark.parametrize("data", [message(ID), message(TIME), message(ID, TIME, payload=b""), b""], ids=bytes.hex)
def test_a_message_without_id_time_or_payload_is_refused(data: bytes) -> None:
    """M-5."""
    with pytest.raises(WireError, match="required"):
        parse_message(data)


def test_labels_are_read_whatever_stands_beside_them() -> None:
    """M-12."""
    entry = with_field(6, with_field(1, b"a") + with_field(2, b"1") + b"\x18\x01")
    assert parse_message(message(ID, TOPIC, TIME, payload=with_field(3, entry) + PAYLOAD)).head.labels == (("a", "1"),)


@pytest.mark.parametrize("said", [{"correlation_id": "c"}, {"causality_parent": "p"}, {"traceparent": TRACE}], ids=str)
def test_what_a_message_alone_says_is_not_looked_for_in_others(said: dict[str, Any]) -> None:
    assert parse_message(encode_message(b"value", **BASE)).head.is_common()
    assert not parse_message(encode_message(b"value", **BASE, **said)).head.is_common()
