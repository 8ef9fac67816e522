"""SPC payloads: requests and responses as msgpack maps with the RFC's names (S-1, S-2)."""

from __future__ import annotations

from typing import Any, NamedTuple

from speed.errors import InvalidNameError, UnserialisableError, WireError
from speed.wire.limits import MAX_REQUEST_ID_BYTES
from speed.wire.names import check_node_name, check_service_name
from speed.wire.value import check_sound, is_flat, pack, unpack_map, unpack_unchecked_map

_TEXT = frozenset({str})
_REQUEST_FIELDS = 5


class WireRequest(NamedTuple):
    """One request as received; ``deadline_ms`` is Unix time."""

    request_id: str
    service: str
    arguments: dict[str, Any]
    caller: str
    deadline_ms: int
    traceparent: str | None


class WireResponse(NamedTuple):
    """One response as received; exactly one of result and the error fields is meant."""

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
    """The payload of an SPC_REQUEST; UnserialisableError names the argument."""
    if not _TEXT.issuperset(map(type, arguments)):
        odd = next(name for name in arguments if type(name) is not str)
        raise UnserialisableError(f"arguments has a name of type {type(odd).__name__}: use str")
    request = {
        "requestId": request_id,
        "service": service,
        "arguments": arguments,
        "caller": caller,
        "deadline": deadline_ms,
    }
    if traceparent is not None:
        request["traceparent"] = traceparent
    try:
        return pack(request, "request", sound=is_flat(arguments.values()) and type(service) is str)
    except UnserialisableError as error:
        raise UnserialisableError(str(error).removeprefix("request.")) from None


def decode_request(payload: bytes | memoryview) -> WireRequest:
    """Check and read an SPC_REQUEST; WireError BAD_PAYLOAD names the field."""
    values = unpack_unchecked_map(payload, "request")
    get = values.get
    service: Any = get("service")
    arguments, caller, deadline, traceparent = get("arguments"), get("caller"), get("deadline"), get("traceparent")
    fields = _REQUEST_FIELDS if traceparent is None else _REQUEST_FIELDS + 1
    if len(values) != fields or type(arguments) is not dict or not is_flat(arguments.values()):
        check_sound(values, "request")
    try:
        check_service_name(service)
        check_node_name(caller)
    except (InvalidNameError, TypeError):
        raise WireError("BAD_PAYLOAD", "service or caller is no name") from None
    if type(arguments) is not dict or not _TEXT.issuperset(map(type, arguments)):
        raise WireError("BAD_PAYLOAD", "arguments is no map with text keys")
    if type(deadline) is not int or not 0 <= deadline < 2**63:
        raise WireError("BAD_PAYLOAD", "deadline is no Unix time in ms")
    if traceparent is not None and type(traceparent) is not str:
        raise WireError("BAD_PAYLOAD", "traceparent is no text")
    return WireRequest(_checked_id(get("requestId")), service, arguments, str(caller), deadline, traceparent)


def _checked_id(request_id: Any) -> str:
    if type(request_id) is not str or not 0 < len(request_id.encode()) <= MAX_REQUEST_ID_BYTES:
        raise WireError("BAD_PAYLOAD", "requestId is no text of 1 to 64 bytes")
    return request_id


def readable_request_id(payload: bytes | memoryview) -> str | None:
    """The id of a request that breaks another rule, so that its caller can be told; None if it has none."""
    try:
        request_id = unpack_map(payload, "request").get("requestId")
        return _checked_id(request_id)
    except WireError:
        return None


def encode_success(request_id: str, result: Any) -> bytes:
    """The payload of a successful SPC_RESPONSE."""
    response = {"requestId": request_id, "status": "SUCCESS", "result": result}
    return pack(response, "response", sound=is_flat((result,)))


def encode_error(request_id: str, code: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    """The payload of an SPC_RESPONSE that reports an error of ``codes.json``."""
    response = {"requestId": request_id, "status": "ERROR", "errorCode": code, "errorMessage": message}
    if details:
        try:
            return pack({**response, "details": details}, "details")
        except UnserialisableError:
            pass  # the error itself matters more than what it carries
    return pack({**response, "errorMessage": message.encode(errors="replace").decode()})


def decode_response(payload: bytes | memoryview) -> WireResponse:
    """Check and read an SPC_RESPONSE; WireError BAD_PAYLOAD names the field."""
    values = unpack_unchecked_map(payload, "response")
    if not is_flat(values.values()) or not _TEXT.issuperset(map(type, values)):
        check_sound(values, "response")
    request_id = _checked_id(values.get("requestId"))
    status = values.get("status")
    if status == "SUCCESS":
        return WireResponse(request_id, True, values.get("result"), "", "", {})
    if status != "ERROR":
        raise WireError("BAD_PAYLOAD", "status is neither SUCCESS nor ERROR")
    code, message, details = values.get("errorCode"), values.get("errorMessage", ""), values.get("details")
    if type(code) is not str or not code or type(message) is not str or type(details) not in (dict, type(None)):
        raise WireError("BAD_PAYLOAD", "errorCode, errorMessage or details has a wrong type")
    return WireResponse(request_id, False, None, code, message, details or {})
