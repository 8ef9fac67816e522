"""A message as data and headers of NATS (B-1), and one of JetStream as it is handed on."""

from __future__ import annotations

from typing import Any

from speed.bridges.backend import Delivered, Outgoing
from speed.bridges.names import header_text, text_of_header


def data_and_headers(message: Outgoing) -> tuple[bytes, dict[str, str]]:
    """What is sent, and its headers."""
    if message.old is not None:
        return message.old.data, {name: header_text(text) for name, text in message.old.headers.items()}
    return message.envelope, _headers(message)


def _headers(message: Outgoing) -> dict[str, str]:
    message_id = header_text(message.message_id)
    headers = {"Prism-Envelope-Version": "1", "Prism-Message-ID": message_id, "Nats-Msg-Id": message_id}
    if message.trace_id is not None:
        headers["Prism-Trace-ID"] = message.trace_id
    if message.key is not None:
        headers["Prism-Key"] = header_text(message.key)
    if message.hops:
        headers["Prism-Hops"] = message.hops
    return headers


def delivered_of(message: Any, lane: str = "") -> Delivered:
    """A message of JetStream as it is handed on."""
    told, headers = message.metadata, message.headers or {}
    key = headers.get("Prism-Key")
    return Delivered(
        message.subject,
        None if key is None else text_of_header(key),
        message.data,
        f"{told.stream}:{told.sequence.stream}",
        told.sequence.stream,
        told.num_delivered,
        message.reply,
        {name: text.encode() for name, text in headers.items()},
        int(told.timestamp.timestamp() * 1000),
        lane,
        headers.get("Prism-Hops", ""),
    )
