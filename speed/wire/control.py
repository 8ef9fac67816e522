"""The payloads of ACK, HEARTBEAT, DISCOVERY and ERROR: msgpack maps (rules W-60 to W-64)."""

from __future__ import annotations

from typing import Any, NamedTuple

from speed.errors import WireError
from speed.wire.spc import request_id as _request_id
from speed.wire.value import pack, unpack

INFO = "INFO"
STATS = "STATS"
SERVICES = "SERVICES"
LEAVE = "LEAVE"
OPERATIONS = (INFO, STATS, SERVICES, LEAVE)

_MAX_SEQUENCE = (1 << 64) - 1


class Discovery(NamedTuple):
    """A discovery request; LEAVE is a notice and has no ``request_id``."""

    op: str
    request_id: str | None


class DiscoveryReply(NamedTuple):
    """What a node answers to a discovery request."""

    request_id: str
    result: dict[Any, Any]


class ErrorNotice(NamedTuple):
    """Why an envelope was refused: by its sequence, its request id, or both."""

    error_code: str
    error_message: str
    sequence: int | None
    request_id: str | None


def encode_ack(sequence: int) -> bytes:
    """Return the payload of an ACK for the envelope of this sequence (rule W-60)."""
    return pack({"sequence": sequence})


def decode_ack(data: bytes) -> int:
    """Return the acknowledged sequence. Raises WireError BAD_PAYLOAD."""
    return _sequence(_fields(data).get("sequence"))


def encode_heartbeat(request_id: str) -> bytes:
    """Return the payload of a HEARTBEAT, of the question and of its answer alike (rule W-61)."""
    return pack({"requestId": request_id})


def decode_heartbeat(data: bytes) -> str:
    """Return the request id of a HEARTBEAT. Raises WireError BAD_PAYLOAD."""
    return _request_id(_fields(data))


def encode_discovery(op: str, request_id: str | None = None) -> bytes:
    """Return the payload of a discovery request; all but LEAVE carry a request id (rule W-62)."""
    fields = {"op": op}
    if request_id is not None:
        fields["requestId"] = request_id
    return pack(fields)


def decode_discovery(data: bytes) -> Discovery:
    """Parse a discovery request; the op may be unknown to this version. Raises WireError BAD_PAYLOAD."""
    fields = _fields(data)
    op = fields.get("op")
    if type(op) is not str:
        raise WireError("BAD_PAYLOAD", "op is not a str")
    if op == LEAVE and "requestId" not in fields:
        return Discovery(op, None)
    return Discovery(op, _request_id(fields))


def encode_discovery_reply(request_id: str, result: dict[str, Any]) -> bytes:
    """Return the payload of a discovery answer, sent with flag REPLY (rule W-63)."""
    return pack({"requestId": request_id, "result": result}, "reply")


def decode_discovery_reply(data: bytes) -> DiscoveryReply:
    """Parse a discovery answer. Raises WireError BAD_PAYLOAD."""
    fields = _fields(data)
    result = fields.get("result")
    if type(result) is not dict:
        raise WireError("BAD_PAYLOAD", "result is not a map")
    return DiscoveryReply(_request_id(fields), result)


def encode_error_notice(
    code: str, message: str, sequence: int | None = None, request_id: str | None = None
) -> bytes:
    """Return the payload of an ERROR envelope (rule W-64)."""
    fields: dict[str, Any] = {"errorCode": code, "errorMessage": message}
    if sequence is not None:
        fields["sequence"] = sequence
    if request_id is not None:
        fields["requestId"] = request_id
    return pack(fields, "notice")


def decode_error_notice(data: bytes) -> ErrorNotice:
    """Parse the payload of an ERROR envelope. Raises WireError BAD_PAYLOAD."""
    fields = _fields(data)
    code, message = fields.get("errorCode"), fields.get("errorMessage", "")
    if type(code) is not str or not code or type(message) is not str:
        raise WireError("BAD_PAYLOAD", "errorCode or errorMessage has a wrong type")
    sequence = _sequence(fields["sequence"]) if "sequence" in fields else None
    request_id = _request_id(fields) if "requestId" in fields else None
    if sequence is None and request_id is None:
        raise WireError("BAD_PAYLOAD", "neither sequence nor requestId says what was refused")
    return ErrorNotice(code, message, sequence, request_id)


def _fields(data: bytes) -> dict[Any, Any]:
    fields = unpack(data)
    if type(fields) is not dict:
        raise WireError("BAD_PAYLOAD", "the payload is not a map")
    return fields


def _sequence(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _MAX_SEQUENCE:
        raise WireError("BAD_PAYLOAD", "sequence is not an integer from 1 to 2^64-1")
    return value
