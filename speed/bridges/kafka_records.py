"""A message as a record of Kafka (B-1), and a record as it is handed on."""

from __future__ import annotations

from typing import Any

from speed.bridges.backend import Delivered, Outgoing
from speed.bridges.names import topic_of_kafka

_HOPS = "prism-hops"


def value_and_headers(message: Outgoing) -> tuple[bytes, list[tuple[str, str]]]:
    """What the record holds, and its headers."""
    if message.old is not None:
        return message.old.data, list(message.old.headers.items())
    return message.envelope, _headers(message)


def _headers(message: Outgoing) -> list[tuple[str, str]]:
    headers = [
        ("prism-envelope-version", "1"),
        ("prism-message-id", message.message_id),
        ("prism-topic", message.topic),
    ]
    if message.trace_id is not None:
        headers.append(("prism-trace-id", message.trace_id))
    if message.hops:
        headers.append((_HOPS, message.hops))
    return headers


def hops_of(record: Any) -> str:
    """Anybody may have written that."""
    found = next((value for name, value in record.headers() or () if name == _HOPS), None)
    return (found or b"").decode("utf-8", "replace")


def delivered_of(record: Any, lane: str = "", hops: str = "") -> Delivered:
    """A record as it is handed on."""
    offset = record.offset()
    return Delivered(
        topic_of_kafka(record.topic()) or "",
        _key(record.key()),
        record.value() or b"",
        f"{record.partition()}:{offset}",
        offset,
        handle=(record.topic(), record.partition(), offset),
        headers={name: value or b"" for name, value in record.headers() or ()},
        stored_at_ms=max(0, record.timestamp()[1]),
        lane=lane,
        hops=hops,
    )


def _key(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "replace")
