"""Old messages as envelopes (M-39), and messages in the old form beside their envelopes (M-40). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from speed.errors import UnserialisableError
from speed.message.old_forms import BESIDE, KAFKA, NATS, POSTGRESQL, REDIS, OldMessage, payload_bytes
from speed.wire.content import MSGPACK_TYPE, decode_content
from speed.wire.message import MessageView, encode_message, new_message_id
from speed.wire.records import varint

_MAX_ID_MS = (1 << 48) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where an old message lies.

    Attributes:
        backend: ``kafka``, ``nats``, ``redis`` or ``postgres``.
        topic: of SPEED, for a message that names none.
        position: as the backend writes it.
        stored_at_ms: when it was stored, in Unix milliseconds; 0 where the backend does not tell.
    """

    backend: str
    topic: str
    position: str
    stored_at_ms: int = 0


class Taken(NamedTuple):
    """The envelope that an old message became, and what it says; its time is in Unix milliseconds."""

    envelope: bytes
    topic: str
    message_id: str
    published_at_ms: int
    traceparent: str | None


def take_over(old: OldMessage, data: bytes, place: Place, namespace: str) -> Taken:
    """The envelope of an old message that lay at ``place`` as ``data``: the same each time, but for ``namespace``.

    WireError(BAD_MESSAGE) for what no envelope holds, such as another kind of topic.
    """
    payload, content_type = payload_bytes(old)
    told: dict[str, Any] = {"topic": place.topic, "published_at_ms": place.stored_at_ms or 1, **old.metadata}
    if "message_id" not in told:
        told["message_id"] = old_message_id(place, data, told["published_at_ms"])
    envelope = encode_message(payload, content_type=content_type, namespace=namespace, schema=old.schema, **told)
    return Taken(envelope, told["topic"], told["message_id"], told["published_at_ms"], told.get("traceparent"))


def old_message_id(place: Place, data: bytes, published_at_ms: int) -> str:
    """The id of a message that has none: of its time, its place and its bytes."""
    parts = (place.backend.encode(), place.topic.encode(), place.position.encode(), data)
    digest = sha256(b"".join(varint(len(part)) + part for part in parts)).digest()
    return new_message_id(min(published_at_ms, _MAX_ID_MS), digest[:16])


@dataclass(frozen=True, slots=True)
class OldForm:
    """A message in the old form of a backend: bytes, and what stands beside them."""

    data: bytes = field(repr=False)
    headers: Mapping[str, str]
    """Of Kafka and NATS; of PostgreSQL the members of ``metadata``."""


def old_form(backend: str, envelope: bytes) -> OldForm:
    """What is written beside an envelope for who reads the old form only.

    WireError for a payload that is encrypted or compressed, UnserialisableError for one that is no JSON where the form
    is: nobody could read it.
    """
    view = MessageView(envelope)
    if backend == KAFKA:
        return OldForm(_raw(view), _kafka(view))
    if backend == NATS:
        return OldForm(_raw(view), _nats(view))
    if backend == REDIS:
        meta = {"schema": view.schema.schema_version, "ts": view.published_at_ms, "trace_id": view.traceparent}
        told = {BESIDE[REDIS]: view.message_id, **{name: value for name, value in meta.items() if value}}
        return OldForm(_json({"meta": told, "payload": _value(view)}), {})
    version = view.schema.schema_version
    said = {BESIDE[POSTGRESQL]: view.message_id, **({"schema_version": version} if version else {})}
    return OldForm(_json(_value(view)), said)


def _raw(view: MessageView) -> bytes:
    """A value of msgpack as JSON, which others read; all else as it is: what writers of raw values wrote."""
    return _json(_value(view)) if view.content_type == MSGPACK_TYPE else bytes(view.plain_bytes)


def _value(view: MessageView) -> Any:
    return decode_content(view.content_type, view.type_url, view.plain_bytes)


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError):
        raise UnserialisableError(
            "payload: the old form is JSON, which has no word for it: send other values"
        ) from None


def _kafka(view: MessageView) -> dict[str, str]:
    said = {
        "timestamp": str(view.published_at_ms),
        "correlation-id": view.correlation_id,
        "schema-version": view.schema.schema_version,
        "trace-id": view.traceparent,
        BESIDE[KAFKA]: view.message_id,
    }
    return {name: value for name, value in said.items() if value}


def _nats(view: MessageView) -> dict[str, str]:
    said = {
        "Nats-Msg-Id": view.message_id,
        "X-Schema-URL": view.schema.schema_url,
        "X-Trace-ID": view.traceparent,
        BESIDE[NATS]: view.message_id,
    }
    return {name: value for name, value in said.items() if value}


__all__ = ["OldForm", "Place", "Taken", "old_form", "old_message_id", "take_over"]
