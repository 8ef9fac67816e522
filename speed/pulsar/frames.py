"""Addresses and frames of Pulsar's WebSocket protocol: text in, text out; and what can go wrong with a Pulsar.

PulsarError
├── PulsarConnectionError
├── PulsarRefusedError
├── PulsarTimeoutError
└── UnreadableError
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote, urlencode

from speed.errors import ConfigurationError, SpeedError

# generated from registry_spec/codes.json by scripts/generate


class PulsarError(SpeedError):
    """A Pulsar, or a message from it, is not as its protocol says."""

    code = "PULSAR"


class PulsarConnectionError(PulsarError):
    """The server cannot be reached, or ended the connection.

    What was being published may be kept or not.
    """

    code = "PULSAR_CONNECTION"


class PulsarRefusedError(PulsarError):
    """The server refuses a connection or a message; the text holds its status or its reason."""

    code = "PULSAR_REFUSED"


class PulsarTimeoutError(PulsarError, TimeoutError):
    """The server did not answer in time, or did not read what was sent.

    What was being published may be kept or not.
    """

    code = "PULSAR_TIMEOUT"


# end of what is generated


class UnreadableError(PulsarError):
    """A received message cannot be decrypted, uncompressed or split; ``__cause__`` says why.

    ``message`` is the message as it came, so that it can be acknowledged or refused.
    """

    code = "PULSAR_UNREADABLE"
    message: Any = None


DOMAINS = ("persistent", "non-persistent")
SUBSCRIPTION_TYPES = ("Exclusive", "Failover", "Shared", "Key_Shared")


@dataclass(frozen=True)
class EncryptionContext:
    """How a payload is encrypted; ``batch_size`` is None for what is no batch."""

    keys: dict[str, bytes]
    iv: bytes
    compression: str
    uncompressed_bytes: int
    batch_size: int | None


@dataclass(frozen=True)
class ServerDelivery:
    """One message as the server delivers it."""

    message_id: str
    payload: bytes = field(repr=False)
    properties: dict[str, str]
    key: str | None
    publish_time: str
    event_time_ms: int
    redelivery_count: int
    encryption: EncryptionContext | None


def topic_path(topic: str) -> str:
    """``public/default/orders``, also behind ``persistent://`` or ``non-persistent://``, as part of an address."""
    domain, found, name = topic.rpartition("://")
    parts = name.split("/", 2)
    if len(parts) != 3 or not all(parts) or (domain if found else "persistent") not in DOMAINS:
        raise ConfigurationError(f"{topic[:200]!r} is no topic: give tenant/namespace/topic, as public/default/orders")
    return "/".join([domain or "persistent", *(quote(part, safe="") for part in parts)])


def address(server: str, kind: str, path: str, parameters: Mapping[str, str]) -> str:
    """The address of a ``producer``, ``consumer`` or ``reader``."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"{server.rstrip('/')}/ws/v2/{kind}/{path}{query}"


def encryption_keys(wrapped: Mapping[str, bytes]) -> str:
    """The parameter that names the data key's wrapped forms, before it becomes part of an address."""
    keys = {name: {"keyValue": _text(value), "metadata": {}} for name, value in wrapped.items()}
    return _text(json.dumps(keys).encode())


def publish(payload: bytes, context: str, fields: Mapping[str, Any]) -> str:
    """The frame that publishes ``payload``; of ``fields``, what is None is left out."""
    fields = {name: value for name, value in fields.items() if value is not None}
    return json.dumps({"payload": _text(payload), "context": context, **fields})


def command(kind: str | None, message_id: str | None = None) -> str:
    """``negativeAcknowledge`` and the like; None acknowledges."""
    fields = {"type": kind, "messageId": message_id}
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def parse(frame: str | bytes) -> dict[str, Any]:
    """The object in a frame of the server. PulsarError for anything else."""
    try:
        found = json.loads(frame)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PulsarError("the server sent a frame that is no JSON object: is this a Pulsar?")
    return found


def published_id(answer: Mapping[str, Any]) -> str:
    """The id of a message that is kept. PulsarRefusedError if it is not."""
    if answer.get("result") == "ok":
        return str(answer.get("messageId", ""))
    reason = str(answer.get("errorMsg", ""))[:500]
    raise PulsarRefusedError(f"the server did not take the message: {str(answer.get('result'))[:100]}: {reason}")


def delivery(frame: Mapping[str, Any]) -> ServerDelivery:
    """The message in a parsed frame. PulsarError for what is malformed."""
    try:
        context = frame.get("encryptionContext")
        return ServerDelivery(
            _of(str, frame["messageId"]),
            b64decode(frame.get("payload") or "", validate=True),
            {_of(str, name): _of(str, value) for name, value in (frame.get("properties") or {}).items()},
            None if frame.get("key") is None else _of(str, frame["key"]),
            str(frame.get("publishTime", "")),
            _event_time(frame.get("eventTime")),
            _of(int, frame.get("redeliveryCount", 0)),
            None if context is None else _context(context),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PulsarError("the server delivered a message that is not as its protocol says") from None


def _context(context: Mapping[str, Any]) -> EncryptionContext:
    keys = {_of(str, name): b64decode(one["keyValue"], validate=True) for name, one in context["keys"].items()}
    size = context.get("batchSize")
    return EncryptionContext(
        keys,
        b64decode(context["param"], validate=True),
        _of(str, context.get("compressionType") or "NONE"),
        _of(int, context.get("uncompressedMessageSize") or 0),
        None if size is None else _of(int, size),
    )


def time_text(time_ms: int) -> str:
    """Unix milliseconds as Pulsar reads them."""
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds")


def _event_time(text: Any) -> int:
    """Pulsar writes a time as text; a number is taken too."""
    if not text:
        return 0
    if isinstance(text, int):
        return text
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def _of(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _text(data: bytes) -> str:
    return b64encode(data).decode()
