"""The payloads of SPC_REQUEST and SPC_RESPONSE: msgpack maps (rules S-1 to S-4)."""

from __future__ import annotations

from typing import Any, NamedTuple

from speed.errors import UnserialisableError, WireError
from speed.wire.limits import MAX_NAME_BYTES, MAX_REQUEST_ID_BYTES, MAX_VALUE_DEPTH
from speed.wire.value import check, pack_checked, unpack

SUCCESS = "SUCCESS"
ERROR = "ERROR"

_INNER_DEPTH = MAX_VALUE_DEPTH - 1
_STR_ONLY = frozenset({str})
_MAX_DEADLINE = (1 << 63) - 1


class WireRequest(NamedTuple):
    """A decoded request; ``deadline_ms`` is Unix time."""

    request_id: str
    service: str
    arguments: dict[str, Any]
    caller: str
    deadline_ms: int
    traceparent: str | None


class WireResponse(NamedTuple):
    """A decoded response: ``result`` when ``ok``, else the three error fields."""

    request_id: str
    ok: bool
    result: Any
    error_code: str
    error_message: str
    details: dict[str, Any]


def encode_request(
    request_id: str,
    service: str,
    arguments: dict[str, Any],
    caller: str,
    deadline_ms: int,
    traceparent: str | None = None,
) -> bytes:
    """Return the payload of a request (rule S-1).

    Raises:
        UnserialisableError: naming the argument that has no representation.
    """
    if type(arguments) is not dict or not _STR_ONLY.issuperset(map(type, arguments)):
        arguments = _named(arguments)
    check(arguments, "arguments", _INNER_DEPTH)
    fields = {
        "requestId": request_id,
        "service": service,
        "arguments": arguments,
        "caller": caller,
        "deadline": deadline_ms,
    }
    if traceparent is not None:
        fields["traceparent"] = traceparent
    return pack_checked(fields, {"arguments": arguments})


def _named(arguments: Any) -> dict[str, Any]:
    """Return the arguments as a plain dict, or say what is wrong with their names."""
    try:
        named = dict(arguments)
    except (TypeError, ValueError) as error:
        raise UnserialisableError(f"arguments must be a mapping, not {type(arguments).__name__}") from error
    for key in named:
        if not isinstance(key, str):
            raise UnserialisableError(f"arguments has a key of type {type(key).__name__}; names are str")
    return named


def decode_request(data: bytes) -> WireRequest:
    """Parse the payload of a request (rule S-2).

    Raises:
        WireError: BAD_PAYLOAD.
    """
    fields = _fields(data)
    arguments, deadline = fields.get("arguments"), fields.get("deadline")
    if type(arguments) is not dict or not _STR_ONLY.issuperset(map(type, arguments)):
        raise WireError("BAD_PAYLOAD", "arguments is not a map with str keys")
    if type(deadline) is not int or not 0 <= deadline <= _MAX_DEADLINE:
        raise WireError("BAD_PAYLOAD", "deadline is not an integer from 0 to 2^63-1")
    traceparent = fields.get("traceparent")
    return WireRequest(
        request_id(fields),
        _name(fields, "service"),
        arguments,
        _name(fields, "caller"),
        deadline,
        traceparent if type(traceparent) is str else None,
    )


def encode_success(request_id: str, result: Any) -> bytes:
    """Return the payload of a successful response (rule S-3).

    Raises:
        UnserialisableError: naming the path below ``result``.
    """
    check(result, "result", _INNER_DEPTH)
    return pack_checked({"requestId": request_id, "status": SUCCESS, "result": result}, {"result": result})


def encode_error(request_id: str, code: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    """Return the payload of an error response; ``code`` is an `spc` code of codes.json (rule S-3)."""
    details = details or {}
    check(details, "details", _INNER_DEPTH)
    fields = {
        "requestId": request_id,
        "status": ERROR,
        "errorCode": code,
        "errorMessage": message,
        "details": details,
    }
    return pack_checked(fields, {"errorMessage": message, "details": details})


def decode_response(data: bytes) -> WireResponse:
    """Parse the payload of a response (rule S-4).

    Raises:
        WireError: BAD_PAYLOAD.
    """
    fields = _fields(data)
    status = fields.get("status")
    if status == SUCCESS:
        if "result" not in fields:
            raise WireError("BAD_PAYLOAD", "a successful response without result")
        return WireResponse(request_id(fields), True, fields["result"], "", "", {})
    if status != ERROR:
        raise WireError("BAD_PAYLOAD", "status is neither SUCCESS nor ERROR")
    code, message, details = (
        fields.get("errorCode"),
        fields.get("errorMessage", ""),
        fields.get("details", {}),
    )
    if type(code) is not str or not code or type(message) is not str or type(details) is not dict:
        raise WireError("BAD_PAYLOAD", "errorCode, errorMessage or details has a wrong type")
    return WireResponse(request_id(fields), False, None, code, message, details)


def _fields(data: bytes) -> dict[Any, Any]:
    fields = unpack(data)
    if type(fields) is not dict:
        raise WireError("BAD_PAYLOAD", "the payload is not a map")
    return fields


def request_id(fields: dict[Any, Any]) -> str:
    """Return the checked ``requestId`` of a payload's fields (rule S-1)."""
    text = fields.get("requestId")
    if type(text) is not str or not 1 <= len(text.encode()) <= MAX_REQUEST_ID_BYTES:
        raise WireError("BAD_PAYLOAD", f"requestId is not a str of 1 to {MAX_REQUEST_ID_BYTES} bytes")
    return text


def _name(fields: dict[Any, Any], key: str) -> str:
    text = fields.get(key)
    if type(text) is not str or not 1 <= len(text) <= MAX_NAME_BYTES:
        raise WireError("BAD_PAYLOAD", f"{key} is not a str of 1 to {MAX_NAME_BYTES} bytes")
    return text
