"""What clients and gateway say to each other, as JSON, with the ids of messages as clients see them. Pure.

The ledger stands for the topic (its lane), the entry is the offset.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import msgspec

from speed.errors import UnserialisableError, WireError
from speed.gateway import encryption
from speed.gateway.encryption import EncryptionContext, Sealing
from speed.wire.limits import MAX_TOPIC_KEY_BYTES, MAX_TOPIC_PROPERTIES
from speed.wire.records import VARINT, read_varint, varint, walk
from speed.wire.topic import decode
from speed.wire.value import pack, unpack

# Ids of messages as clients see them: Base64 of Pulsar's ``MessageIdData``. Pure.

MAX_TEXT = 512
MAX_NUMBER_BYTES = 10


class MessageId(NamedTuple):
    """A place in a topic."""

    ledger: int
    entry: int

    def text(self) -> str:
        """As clients get it."""
        data = b"\x08" + varint(self.ledger) + b"\x10" + varint(self.entry)
        return b64encode(data).decode()


REPEATED = MessageId((1 << 64) - 1, (1 << 64) - 1)
"""Of a message that was kept before."""


def ledger_of(lane: str) -> int:
    """The number of a topic: half of its lane's id, which changes when the topic is made anew."""
    return int(lane[:16], 16) >> 1


def read(text: str) -> MessageId:
    """ValueError for what is no id."""
    if len(text) > MAX_TEXT:
        raise ValueError("longer than any id")
    try:
        data = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise ValueError("not Base64") from None
    found = _numbers(data)
    if 1 not in found or 2 not in found:
        raise ValueError("without ledger or entry")
    return MessageId(found[1], found[2])


def _numbers(data: bytes) -> dict[int, int]:
    """The numbers of a message of protobuf by field; all else is passed over."""
    try:
        return {
            field: read_varint(data, begin, MAX_NUMBER_BYTES)[0]
            for field, kind, _, begin, _ in walk(data)
            if kind == VARINT
        }
    except WireError as error:
        raise ValueError(str(error)) from None


NOT_SUBSCRIBED, NOT_JSON, NOT_WRITTEN, NOT_AUTHENTICATED, NOT_ALLOWED, NOT_ENCODED, UNKNOWN = 2, 3, 4, 5, 6, 7, 8
"""Why a message was not kept: N of ``send-error:N``, as Pulsar numbers them."""
RESERVED = "pulsar."
"""What the names of the gateway's own properties begin with."""
EVENT_TIME = "pulsar.eventTime"
OWN_PROPERTIES = 2
MAX_TIME_MS = 1 << 50
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Scalar = str | int | float | bool | None
"""Where text is expected, other scalars are taken as the text that JSON writes."""


class PublishRefusedError(Exception):
    """A message that is not kept; ``number`` is that of ``send-error``."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class Publication(msgspec.Struct, rename="camel"):
    """What a producer sends; what it does not know is passed over."""

    payload: Scalar = None
    properties: dict[str, Scalar] | None = None
    context: Scalar = None
    key: Scalar = None
    replication_clusters: list[Scalar] | None = None
    event_time: Scalar = None
    deliver_at: Scalar = None
    deliver_after_ms: int | None = None
    encryption_param: Scalar = None
    compression_type: Scalar = None
    uncompressed_message_size: int | None = None


class Command(msgspec.Struct, rename="camel"):
    """What a consumer or reader sends."""

    type: Scalar = None
    message_id: Scalar = None
    permit_messages: int | None = None


class _Kept(msgspec.Struct, rename="camel", omit_defaults=True):
    result: str
    message_id: str | None = None
    error_msg: str | None = None
    context: str | None = None


class _Reply(_Kept, rename="camel"):
    error_code: int = msgspec.field(default_factory=int)
    """Always there, as Pulsar writes it."""
    schema_version: int = msgspec.field(default_factory=int)


class ClientDelivery(msgspec.Struct, rename="camel"):
    """One message as consumers and readers get it."""

    message_id: str
    payload: bytes
    properties: dict[str, str]
    publish_time: str
    redelivery_count: int
    event_time: str | msgspec.UnsetType = msgspec.UNSET
    key: str | msgspec.UnsetType = msgspec.UNSET
    encryption_context: EncryptionContext | msgspec.UnsetType = msgspec.UNSET


_publication = msgspec.json.Decoder(Publication)
_command = msgspec.json.Decoder(Command)
_write = msgspec.json.Encoder().encode
END_OF_TOPIC = '{"endOfTopic":false}'
"""A topic of SPEED has no end."""


def text_of(value: Scalar) -> str | None:
    """The text of a scalar; None of null."""
    return value if value is None or isinstance(value, str) else _write(value).decode()


def read_publication(data: str | bytes) -> Publication:
    """Raises PublishRefusedError."""
    try:
        return _publication.decode(data)
    except (ValueError, RecursionError):
        raise PublishRefusedError(NOT_JSON, "the frame is no JSON object of a message") from None


def read_command(data: str | bytes) -> Command:
    """Raises ValueError."""
    try:
        return _command.decode(data)
    except (ValueError, RecursionError):
        raise ValueError("the frame is no JSON object of a command") from None


def message_of(publication: Publication, sealing: Sealing | None, now_ms: int) -> dict[str, Any]:
    """The message as the host of the topics takes it. Raises PublishRefusedError."""
    try:
        payload, own = _sealed(publication, sealing)
        message: dict[str, Any] = {"payload": pack(payload)}
        if (key := text_of(publication.key)) is not None:
            message["key"] = _key(key)
        if properties := {**_properties(publication.properties or {}), **own}:
            message["properties"] = properties
        if due := _due(publication, now_ms):
            message["due_ms"] = due
        return message
    except (ValueError, UnserialisableError) as error:
        raise PublishRefusedError(NOT_ENCODED, str(error)) from None


def _payload(value: Scalar) -> bytes:
    if (text := text_of(value)) is None:
        raise ValueError("payload is missing")
    try:
        return encryption.decoded(text)
    except ValueError:
        raise ValueError("payload is not Base64") from None


def _key(key: str) -> str:
    if len(key.encode()) > MAX_TOPIC_KEY_BYTES:
        raise ValueError(f"key has more than {MAX_TOPIC_KEY_BYTES} bytes")
    return key


def _properties(given: Mapping[str, Scalar]) -> dict[str, str]:
    if len(given) > MAX_TOPIC_PROPERTIES - OWN_PROPERTIES:
        raise ValueError(f"{len(given)} properties: at most {MAX_TOPIC_PROPERTIES - OWN_PROPERTIES}")
    properties: dict[str, str] = {}
    for name, value in given.items():
        text = text_of(value)
        if text is None:
            raise ValueError("the value of a property is null")
        if name.startswith(RESERVED):
            raise ValueError(f"names of properties that begin with {RESERVED!r} are the gateway's own")
        properties[name] = text
    return properties


def _sealed(publication: Publication, sealing: Sealing | None) -> tuple[bytes, dict[str, str]]:
    """The payload as it is kept, and the properties that the gateway keeps beside it."""
    payload = _payload(publication.payload)
    own: dict[str, str] = {}
    if publication.event_time is not None:
        own[EVENT_TIME] = str(_time_ms(publication.event_time, "eventTime"))
    if sealing is not None:
        payload, context = sealing.seal(
            payload,
            text_of(publication.encryption_param),
            text_of(publication.compression_type),
            publication.uncompressed_message_size,
        )
        own[encryption.PROPERTY] = encryption.written(context)
    return payload, own


def _time_ms(value: Scalar, what: str) -> int:
    try:
        moment: datetime = msgspec.convert(text_of(value), datetime)
    except msgspec.ValidationError:
        moment = _EPOCH.replace(tzinfo=None)
    if moment.tzinfo is None:
        raise ValueError(f"{what} is no time such as 2026-01-31T12:00:00.000+01:00")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _due(publication: Publication, now_ms: int) -> int:
    """When it is to be delivered, in Unix ms; 0 at once."""
    if publication.deliver_at is not None:
        due = _time_ms(publication.deliver_at, "deliverAt")
    elif publication.deliver_after_ms is not None:
        due = now_ms + publication.deliver_after_ms
    else:
        return 0
    if due > MAX_TIME_MS:
        raise ValueError("the message would be delivered too late: never")
    return due if due > now_ms else 0


def kept(message_id: MessageId, context: str | None) -> str:
    """The reply to a message that is kept."""
    return _write(_Reply("ok", message_id=message_id.text(), context=context)).decode()


def not_kept(error: PublishRefusedError, context: str | None) -> str:
    """The reply to one that is not."""
    return _write(_Reply(f"send-error:{error.number}", error_msg=str(error), context=context)).decode()


def delivery(ledger: int, row: Sequence[Any]) -> ClientDelivery:
    """One message; ``row`` is what the host gave."""
    offset, attempts, recorded_ms, data = row
    _, about, payload = decode(data)
    properties = dict(about.get("properties", {}))
    event_time = _moment(properties.pop(EVENT_TIME, ""))
    content = plain(unpack(payload)) if payload else b""
    context = encryption.kept(properties.pop(encryption.PROPERTY, None))
    if context is not None and context.compression_type == encryption.COMPRESSIONS[0]:
        context.uncompressed_message_size = len(content)
    return ClientDelivery(
        MessageId(ledger, offset).text(),
        content,
        properties,
        _iso(recorded_ms),
        max(0, attempts - 1),
        event_time or msgspec.UNSET,
        about.get("key", msgspec.UNSET),
        context or msgspec.UNSET,
    )


def written(message: ClientDelivery) -> str:
    """A message as it is sent."""
    return _write(message).decode()


def plain(value: Any) -> bytes:
    """The payload of a message of SPEED as bytes: bytes as they are, text as UTF-8, anything else as JSON."""
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str)


def _iso(unix_ms: int) -> str:
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=unix_ms)  # noqa: DTZ001 - in UTC, which the letter says
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def _moment(text: str) -> str:
    """The time in a property; empty for what others put there."""
    try:
        return _iso(int(text))
    except (ValueError, OverflowError):
        return ""
