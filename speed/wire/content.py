"""Payload values <-> payload bytes: types inferred, named and decoded (rules M-8, M-9, M-10)."""

from __future__ import annotations

from typing import Any, NamedTuple

from speed.errors import UnserialisableError, WireError
from speed.wire import lazily
from speed.wire.limits import MAX_JSON_DEPTH
from speed.wire.value import pack, unpack

UNSPECIFIED, PROTOBUF, JSON, AVRO, CUSTOM = 0, 1, 2, 3, 99
MSGPACK_TYPE = "application/msgpack"
TEXT_TYPE = "text/plain"
BYTES_TYPE = "application/octet-stream"
PROTOBUF_TYPE = "application/protobuf"
BATCH_TYPE = "application/x-speed-batch"
TYPE_URL_PREFIX = "type.googleapis.com/"

CONTENT_TYPES = {PROTOBUF: PROTOBUF_TYPE, JSON: "application/json", AVRO: "application/avro"}
CONTENT_ENCODINGS = {0: "none", 1: "gzip", 2: "snappy", 3: "zstd", 4: "lz4"}
ENCODING_NUMBERS = {text: number for number, text in CONTENT_ENCODINGS.items()}
_MSGPACK_KINDS = frozenset([dict, list, tuple, bool, int, float, type(None)])
_NUMBER_OF = {text: number for number, text in CONTENT_TYPES.items()}


class Content(NamedTuple):
    """A payload ready to be framed: content type (number, custom text), type URL and the bytes."""

    number: int
    custom: str | None
    type_url: str | None
    data: bytes | bytearray | memoryview


def encode_content(payload: Any, content_type: str | None = None) -> Content:
    """The bytes of ``payload`` and their inferred type; if that is given it must be bytes or str.

    Raises UnserialisableError for a value outside the type table.
    """
    if content_type is not None:
        return _encode_declared(payload, content_type)
    if type(payload) in _MSGPACK_KINDS:  # most are
        return Content(CUSTOM, MSGPACK_TYPE, None, pack(payload, "payload"))
    if isinstance(payload, str):
        return Content(CUSTOM, TEXT_TYPE, None, _utf8(payload))
    if isinstance(payload, bytes | bytearray | memoryview):
        return Content(CUSTOM, BYTES_TYPE, None, _flat(payload))
    if is_protobuf(payload):
        return Content(PROTOBUF, None, TYPE_URL_PREFIX + payload.DESCRIPTOR.full_name, payload.SerializeToString())
    return Content(CUSTOM, MSGPACK_TYPE, None, pack(payload, "payload"))


def is_protobuf(payload: Any) -> bool:
    """Whether it is a message of protobuf."""
    return getattr(type(payload), "DESCRIPTOR", None) is not None and hasattr(payload, "SerializeToString")


def decode_content(content_type: str, type_url: str, data: memoryview) -> Any:
    """The value of ``data``; types without a decoder here come back as bytes.

    Raises WireError(BAD_MESSAGE) when the bytes are not of the type they claim.
    """
    try:
        if content_type == MSGPACK_TYPE:
            return _unpack(data)
        if content_type == TEXT_TYPE:
            return str(data, "utf-8")
        if content_type == PROTOBUF_TYPE:
            return _parse_protobuf(type_url, bytes(data))
        if content_type == CONTENT_TYPES[JSON]:
            return lazily.load("speed.wire.json_text").read_json(bytes(data), MAX_JSON_DEPTH)
    except (ValueError, RecursionError) as error:
        raise WireError("BAD_MESSAGE", f"payload: is not valid {content_type}: {error}") from error
    return bytes(data)


def content_type_text(number: int, custom: str) -> str:
    """The media type of an enum number; absent means bytes, a number of a later version ``unknown/<n>``."""
    if number == CUSTOM:
        return custom
    if number == UNSPECIFIED:
        return BYTES_TYPE
    return CONTENT_TYPES.get(number) or f"unknown/{number}"


def content_encoding_text(number: int, custom: str) -> str:
    """The name of an encoding number, ``none`` when absent."""
    if number == CUSTOM:
        return custom
    return CONTENT_ENCODINGS.get(number) or f"unknown/{number}"


def _encode_declared(payload: Any, content_type: str) -> Content:
    if isinstance(payload, str):
        payload = _utf8(payload)
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise UnserialisableError(f"payload: content_type {content_type!r} needs bytes or str")
    number = _NUMBER_OF.get(content_type, CUSTOM)
    if number == PROTOBUF:
        raise UnserialisableError("payload: give the protobuf message itself, its type URL must travel too")
    return Content(number, content_type if number == CUSTOM else None, None, _flat(payload))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnserialisableError(f"payload: text cannot be UTF-8: {error}") from error


def _flat(data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """``data`` such that len() counts bytes; copies only a memoryview that is not contiguous."""
    if not isinstance(data, memoryview):
        return data
    return data.cast("B") if data.c_contiguous and data.nbytes else data.tobytes()


def _parse_protobuf(type_url: str, data: bytes) -> Any:
    """The message if its type is linked into this process, else the google.protobuf.Any itself."""
    pool = lazily.load("google.protobuf.descriptor_pool").Default()
    factory = lazily.load("google.protobuf.message_factory")
    decode_error = lazily.load("google.protobuf.message").DecodeError
    try:
        descriptor = pool.FindMessageTypeByName(type_url.rpartition("/")[2])
    except KeyError:
        return lazily.load("google.protobuf.any_pb2").Any(type_url=type_url, value=data)
    try:
        return factory.GetMessageClass(descriptor).FromString(data)
    except decode_error as error:
        raise ValueError(f"{type_url}: {error}") from error


def _unpack(data: memoryview) -> Any:
    try:
        return unpack(data, "payload")
    except WireError as error:
        raise ValueError(str(error)) from error
