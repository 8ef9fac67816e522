"""What the tests of messages share: vectors, the least a message says, a field made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from speed.message import message_pb2
from speed.wire.records import varint

pb: Any = message_pb2
VECTORS = json.loads((Path(__file__).parents[3] / "registry_spec" / "vectors" / "messages.json").read_text())
BASE: dict[str, Any] = {
    "topic": "orders.created",
    "namespace": "default",
    "message_id": "0190-1",
    "published_at_ms": 1_700_000_000_000,
}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def with_field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


ID = with_field(1, b"0190-1")
TIME = b"\x20" + varint(1_700_000_000_000)
TOPIC = with_field(2, b"orders.created")
PAYLOAD = with_field(99, with_field(2, b"value"))


def message_of(*parts: bytes, payload: bytes = PAYLOAD) -> bytes:
    """A message whose metadata is made of ``parts``."""
    return with_field(1, b"".join(parts)) + payload
