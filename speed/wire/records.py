"""Protobuf records walked without a parser: where each field of a message lies (rule M-4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from speed.errors import WireError

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5
_MAX_TAG_BYTES = 5
_MAX_LENGTH_BYTES = 5
_MAX_VARINT_BYTES = 10
_MAX_FIELD = (1 << 29) - 1

Parts: TypeAlias = Mapping[int, "Parts"]
"""The fields of a message that are messages themselves, with their own such fields."""

# generated from registry_spec/proto by scripts/generate


class MessageEnvelope:
    METADATA: Final = 1
    SECURITY: Final = 2
    OBSERVABILITY: Final = 3
    SCHEMA: Final = 4
    EXTENSIONS: Final = 97
    PAYLOAD: Final = 99


class MessageMetadata:
    MESSAGE_ID: Final = 1
    TOPIC: Final = 2
    NAMESPACE: Final = 3
    PUBLISHED_AT_MS: Final = 4
    CONTENT_TYPE: Final = 5
    PRIORITY: Final = 6
    TTL_SECONDS: Final = 7
    CONTENT_ENCODING: Final = 8
    CORRELATION_ID: Final = 9
    CAUSALITY_PARENT: Final = 10
    CONTENT_TYPE_CUSTOM: Final = 11
    CONTENT_ENCODING_CUSTOM: Final = 12
    UNCOMPRESSED_BYTES: Final = 13


class SecurityContext:
    PUBLISHER_ID: Final = 1
    PUBLISHER_TEAM: Final = 2
    AUTH_TOKEN: Final = 3
    SIGNATURE: Final = 4
    SIGNATURE_ALGORITHM: Final = 5
    ENCRYPTION: Final = 6
    CONTAINS_PII: Final = 7
    DATA_CLASSIFICATION: Final = 8
    SIGNATURE_KEY_ID: Final = 9


class EncryptionMetadata:
    KEY_ID: Final = 1
    ENCRYPTION_TYPE: Final = 2
    ALGORITHM: Final = 3
    PUBLIC_KEY_ID: Final = 4
    IV: Final = 5
    AAD: Final = 6
    ENCAPSULATED_KEY: Final = 7
    ALGORITHM_PARAMS: Final = 8
    RECIPIENTS: Final = 9


class EncryptionRecipient:
    KEY_ID: Final = 1
    ENCAPSULATED_KEY: Final = 2
    WRAPPED_KEY: Final = 3


class ObservabilityContext:
    TRACE_ID: Final = 1
    SPAN_ID: Final = 2
    PARENT_SPAN_ID: Final = 3
    TRACE_FLAGS: Final = 4
    BAGGAGE: Final = 5
    LABELS: Final = 6


class SchemaContext:
    SCHEMA_URL: Final = 1
    SCHEMA_VERSION: Final = 2
    SCHEMA_FORMAT: Final = 3
    SCHEMA_HASH: Final = 4
    SCHEMA_NAME: Final = 5
    COMPATIBILITY_MODE: Final = 6
    DEPRECATED_FIELDS_USED: Final = 7


class SegmentMessageProto:
    ENTIRE_MESSAGE_HASH: Final = 1
    DATA_SEGMENT_INDEX: Final = 2
    DATA_SEGMENT_COUNT: Final = 3
    PAYLOAD: Final = 4
    PARITY_SEGMENT_INDEX: Final = 5
    PARITY_SEGMENT_COUNT: Final = 6
    IS_PARITY: Final = 7
    UNORDERED: Final = 8


class ProtobufAny:
    TYPE_URL: Final = 1
    VALUE: Final = 2


class MapEntry:
    KEY: Final = 1
    VALUE: Final = 2


class ContentType:
    UNSPECIFIED: Final = 0
    PROTOBUF: Final = 1
    JSON: Final = 2
    AVRO: Final = 3
    CUSTOM: Final = 99


class ContentEncoding:
    NONE: Final = 0
    GZIP: Final = 1
    SNAPPY: Final = 2
    ZSTD: Final = 3
    LZ4: Final = 4
    CUSTOM: Final = 99


class EncryptionType:
    UNSPECIFIED: Final = 0
    SYMMETRIC: Final = 1
    ASYMMETRIC: Final = 2
    POST_QUANTUM: Final = 3
    HYBRID: Final = 4


MESSAGE_PARTS: Final[Parts] = {1: {}, 2: {6: {9: {}}}, 3: {5: {}, 6: {}}, 4: {}, 97: {}}
"""The fields of a MessageEnvelope that are messages themselves, but for its payload."""
# end of what is generated


def walk(data: bytes | memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield (field number, wire type, record start, value start, record end) of each top-level record.

    Offsets are in bytes from the start of ``data``. Values of length-delimited fields exclude the length.
    Raises WireError(BAD_MESSAGE) for truncated records, field number 0, over-long varints and groups.
    """
    position, size = 0, len(data)
    while position < size:
        start = position
        tag, position = data[position], position + 1
        if tag > 0x7F:
            tag, position = read_varint(data, start, _MAX_TAG_BYTES)
        field, wire_type = tag >> 3, tag & 7
        if not 0 < field <= _MAX_FIELD:
            raise _broken(f"field number {field} at byte {start}")
        value = position
        if wire_type == LENGTH_DELIMITED:
            length, value = data[position] if position < size else 0x80, position + 1
            if length > 0x7F:
                length, value = read_varint(data, position, _MAX_LENGTH_BYTES)
            position = value + length
        elif wire_type == VARINT:
            _, position = read_varint(data, position, _MAX_VARINT_BYTES)
        elif wire_type in (FIXED32, FIXED64):
            position += 4 if wire_type == FIXED32 else 8
        else:
            raise _broken(f"wire type {wire_type} of field {field} at byte {start}")
        if position > size:
            raise _broken(f"field {field} at byte {start} is truncated")
        yield field, wire_type, start, value, position


def check_nested(record: bytes | memoryview, parts: Parts) -> None:
    """Hold the messages in a record's value to the same rules: protobuf libraries differ on what breaks them (M-4)."""
    plain = 0 if parts else plain_records(record)
    for field, wire_type, _, value, end in walk(record[plain:] if plain else record):
        if wire_type == LENGTH_DELIMITED and field in parts:
            check_nested(record[value:end], parts[field])


def plain_records(data: bytes | memoryview) -> int:
    """The end of the records that begin ``data`` in the form that writers give them: tag and length of one byte each,
    numbers of any. What follows is for ``walk``, which knows every form and takes three times as long."""
    position, size = 0, len(data)
    while position + 1 < size:
        tag, following = data[position], data[position + 1]
        kind = tag & 7
        if not 7 < tag < 0x80 or kind not in (LENGTH_DELIMITED, VARINT):
            return position
        end = position + 2
        if kind == LENGTH_DELIMITED:
            end += following
            if following > 0x7F or end > size:
                return position
        else:
            while following > 0x7F:
                if end >= size or end - position > _MAX_VARINT_BYTES:
                    return position
                following = data[end]
                end += 1
        position = end
    return position


def begins_value(data: memoryview, field: int) -> int:
    """Where the value begins if ``data`` is one length-delimited record of ``field`` (below 16), its length in at most
    two bytes; else 0."""
    size = len(data)
    if size < 2 or data[0] != field << 3 | LENGTH_DELIMITED:
        return 0
    if data[1] == size - 2 < 0x80:
        return 2
    if size > 2 and data[1] > 0x7F > data[2] and (data[1] & 0x7F | data[2] << 7) == size - 3:
        return 3
    return 0


def read_varint(data: bytes | memoryview, position: int, limit: int) -> tuple[int, int]:
    """The unsigned varint at ``position`` of at most ``limit`` bytes, and the position after it.

    Raises WireError(BAD_MESSAGE) when it is truncated or longer.
    """
    value = shift = 0
    for index in range(position, min(position + limit, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise _broken(f"varint at byte {position} is truncated or longer than {limit} bytes")


def tag_of(field: int, wire_type: int = LENGTH_DELIMITED) -> bytes:
    """What a record of ``field`` begins with."""
    return varint(field << 3 | wire_type)


def varint(value: int) -> bytes:
    """``value`` (>= 0) as a minimal varint."""
    if value <= 0x7F:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _broken(what: str) -> WireError:
    return WireError("BAD_MESSAGE", f"records: {what}")
