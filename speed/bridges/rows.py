"""A message as protobuf JSON, for PostgreSQL's JSONB, and back (B-6)."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any, NamedTuple

from speed.errors import WireError
from speed.wire import lazily
from speed.wire.message import MessageView
from speed.wire.message.reader import MOST_KINDS, MessageReader
from speed.wire.message.view import parse_records
from speed.wire.message.writing import frame_of
from speed.wire.records import LENGTH_DELIMITED, walk

_PAYLOAD_FIELD = 99
_ZERO, _INSTEAD = "\\u0000", "\\ufffd"


class RowWriter:
    """Writes messages as JSON, those that are like others before them in one step. Thread-safe."""

    def __init__(self) -> None:
        self._reader = MessageReader()
        self._forms: dict[MessageView, _Form | None] = {}
        """By the first message that is written so."""

    def json_of(self, envelope: bytes) -> str:
        """The JSON of a message. A zero character, which JSONB has no place for, is U+FFFD. Raises WireError."""
        view, first = self._reader.compare(envelope)
        form = None if first is None else self._form(first)
        return _without_zeros(_json_of(view) if form is None else form.text(view))

    def _form(self, first: MessageView) -> _Form | None:
        try:
            return self._forms[first]
        except KeyError:
            if len(self._forms) >= MOST_KINDS:
                self._forms.clear()
            self._forms[first] = form = _form_of(first)
            return form


class _Form(NamedTuple):
    """The JSON of messages that differ in id, time and payload alone."""

    begin: str
    between: str
    end: str

    def text(self, view: MessageView) -> str:
        payload = b64encode(view.payload_bytes).decode()
        return f"{self.begin}{_id_of(view)}{self.between}{_time_of(view)}{self.end}{payload}{_END}"


_PAYLOAD, _END = '"payload":{"value":"', '"}}'


def _form_of(first: MessageView) -> _Form | None:
    """None where something else looks like id or time."""
    text = _json_of(first)
    begin, *others = text[: text.rindex(_PAYLOAD) + len(_PAYLOAD)].split(_id_of(first))
    if len(others) != 1:
        return None
    between, *rest = others[0].split(_time_of(first))
    return _Form(begin, between, rest[0]) if len(rest) == 1 else None


def _id_of(view: MessageView) -> str:
    return f'"messageId":{json.dumps(view.message_id)}'


def _time_of(view: MessageView) -> str:
    return f'"publishedAtMs":"{view.published_at_ms}"'


def _json_of(view: MessageView) -> str:
    envelope = view.to_bytes()
    told = lazily.load("google.protobuf.json_format").MessageToDict(_head(envelope))
    payload = {"value": b64encode(view.payload_bytes).decode()}
    if view.type_url:
        payload["typeUrl"] = view.type_url
    told["payload"] = payload
    return json.dumps(told, separators=(",", ":"))


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
    if _ZERO not in text:
        return text
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


__all__ = ["RowWriter", "bytes_of"]
