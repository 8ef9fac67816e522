"""What a message says, read by itself (M-5, M-12)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.errors import WireError
from speed.message.writing import encode_message
from speed.spark.source.scan import parse_message
from tests.unit.wire.messages import BASE, ID, PAYLOAD, TIME, TOPIC, TRACE, message_of, with_field


@pytest.mark.parametrize(
    "data", [message_of(ID), message_of(TIME), message_of(ID, TIME, payload=b""), b""], ids=bytes.hex
)
def test_a_message_without_id_time_or_payload_is_refused(data: bytes) -> None:
    """M-5."""
    with pytest.raises(WireError, match="required"):
        parse_message(data)


def test_labels_are_read_whatever_stands_beside_them() -> None:
    """M-12."""
    entry = with_field(6, with_field(1, b"a") + with_field(2, b"1") + b"\x18\x01")
    assert parse_message(message_of(ID, TOPIC, TIME, payload=with_field(3, entry) + PAYLOAD)).head.labels == (
        ("a", "1"),
    )


@pytest.mark.parametrize("said", [{"correlation_id": "c"}, {"causality_parent": "p"}, {"traceparent": TRACE}], ids=str)
def test_what_a_message_alone_says_is_not_looked_for_in_others(said: dict[str, Any]) -> None:
    assert parse_message(encode_message(b"value", **BASE)).head.is_common()
    assert not parse_message(encode_message(b"value", **BASE, **said)).head.is_common()
