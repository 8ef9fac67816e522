"""A message as protobuf JSON, for PostgreSQL's JSONB, and back (B-6)."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from speed.errors import WireError
from speed.wire import lazily
from speed.wire.message import MessageView
from speed.wire.message.view import parse_records
from speed.wire.message.writing import frame_of
from speed.wire.records import LENGTH_DELIMITED, walk

_PAYLOAD_FIELD = 99
_ZERO, _INSTEAD = "\\u0000", "\\ufffd"


def json_of(envelope: bytes) -> str:
    """The JSON of a valid message. A zero character, which JSONB has no place for, is U+FFFD."""
    view = MessageView(envelope)
    told = lazily.load("google.protobuf.json_format").MessageToDict(_head(envelope))
    payload = {"value": b64encode(view.payload_bytes).decode()}
    if view.type_url:
        payload["typeUrl"] = view.type_url
    told["payload"] = payload
    text = json.dumps(told, separators=(",", ":"))
    return _without_zeros(text) if _ZERO in text else text


def _head(envelope: bytes) -> Any:
    """All but the payload, whose Any protobuf would look into."""
    records = [
        envelope[start:end]
        for field, wire_type, start, _, end in walk(envelope)
        if field != _PAYLOAD_FIELD or wire_type != LENGTH_DELIMITED
    ]
    return parse_records(b"".join(records))


def _without_zeros(text: str) -> str:
    """A backslash that is escaped itself is left alone."""
    return "\\\\".join(part.replace(_ZERO, _INSTEAD) for part in text.split("\\\\"))


def bytes_of(text: str) -> bytes:
    """The message of a row that others wrote as JSON; WireError(BAD_MESSAGE) for what is none."""
    formats = lazily.load("google.protobuf.json_format")
    envelope = lazily.load("speed.wire.message.message_pb2").MessageEnvelope
    try:
        told = json.loads(text)
        payload = told.pop("payload", {})
        head = formats.ParseDict(told, envelope(), ignore_unknown_fields=True).SerializeToString()
        value = b64decode(payload.get("value", ""), validate=True)
        url = str(payload.get("typeUrl", ""))
    except (formats.ParseError, ValueError, AttributeError, TypeError, RecursionError):
        raise WireError("BAD_MESSAGE", "records: the row has no bytes, and its JSON is no MessageEnvelope") from None
    return bytes(head + frame_of(len(value), url) + value)


__all__ = ["bytes_of", "json_of"]
