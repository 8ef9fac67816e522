"""Payloads of ACK, HEARTBEAT, DISCOVERY and ERROR envelopes: small msgpack maps (S-11, S-12)."""

from __future__ import annotations

from typing import Any

from speed.errors import WireError
from speed.wire.limits import MAX_CONTROL_BYTES, MAX_REQUEST_ID_BYTES, MAX_WITHDRAWN_IDS
from speed.wire.value import pack, unpack_map


def encode(body: dict[str, Any]) -> bytes:
    """The payload of a control envelope."""
    return pack(body, "control payload")


def decode(payload: bytes | memoryview, max_bytes: int = MAX_CONTROL_BYTES) -> dict[str, Any]:
    """Check and read a control payload; ``requestId`` and ``sequence`` have their types if present.

    One above ``max_bytes`` is refused unread: it is decoded by the thread that everybody waits for.
    """
    if len(payload) > max_bytes:
        raise WireError("BAD_PAYLOAD", f"a control payload of {len(payload)} bytes; the limit is {max_bytes}")
    body = unpack_map(payload, "control payload")
    request_id, sequence = body.get("requestId"), body.get("sequence")
    if request_id is not None and (
        type(request_id) is not str or not 0 < len(request_id.encode()) <= MAX_REQUEST_ID_BYTES
    ):
        raise WireError("BAD_PAYLOAD", "requestId is no text of 1 to 64 bytes")
    if sequence is not None and (type(sequence) is not int or not 0 <= sequence < 2**64):
        raise WireError("BAD_PAYLOAD", "sequence is no 64-bit integer")
    return body


def encode_ack(sequence: int, *, waiting: bool = False) -> bytes:
    """An acknowledgement of the envelope ``sequence`` of the link; ``waiting``: nothing takes it there yet."""
    return pack({"sequence": sequence, "waiting": True} if waiting else {"sequence": sequence})


def decode_ack(payload: bytes | memoryview) -> tuple[int, bool]:
    """The sequence, and whether the message waits for the program to take it."""
    body = decode(payload)
    sequence = body.get("sequence")
    if type(sequence) is not int:
        raise WireError("BAD_PAYLOAD", "an ACK names no sequence")
    return sequence, body.get("waiting") is True


def request_ids(body: dict[str, Any]) -> list[str]:
    """The requests that a WITHDRAW names; WireError BAD_PAYLOAD for what is no list of 1 to 64 of them."""
    ids = body.get("requestIds")
    if type(ids) is not list or not 0 < len(ids) <= MAX_WITHDRAWN_IDS:
        raise WireError("BAD_PAYLOAD", f"requestIds is no list of 1 to {MAX_WITHDRAWN_IDS}")
    if not all(type(one) is str and 0 < len(one.encode()) <= MAX_REQUEST_ID_BYTES for one in ids):
        raise WireError("BAD_PAYLOAD", "an id of requestIds is no text of 1 to 64 bytes")
    return ids


def encode_error(code: str, message: str, *, sequence: int | None = None, request_id: str | None = None) -> bytes:
    """An ERROR about the envelope or request that is named; what of its text has no representation is replaced."""
    body: dict[str, Any] = {"errorCode": code, "errorMessage": message.encode(errors="replace").decode()}
    if sequence is not None:
        body["sequence"] = sequence
    if request_id is not None:
        body["requestId"] = request_id
    return pack(body)
