"""Payloads of envelopes that are no messages: requests, responses, and those of control (S-1, S-2, S-11, S-12).

The reading thread of a node reads the *head* of a request, which is small, and no more than the id of a response.
Arguments and results are decoded by whoever wants them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack

from speed.errors import InvalidNameError, UnserialisableError, WireError
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import (
    GENERATION_BITS,
    MAX_CONTROL_BYTES,
    MAX_DETAILS_BYTES,
    MAX_ERROR_CHARACTERS,
    MAX_HEAD_BYTES,
    MAX_REQUEST_ID_BYTES,
    MAX_SUMMARY_CHARACTERS,
    MAX_WITHDRAWN_IDS,
)
from speed.wire.names import check_node_name, check_service_name
from speed.wire.value import check_sound, is_flat, pack, unpack, unpack_map, unpack_unchecked_map

_TEXT = frozenset({str})
_MAYBE_TEXT = frozenset({str, type(None)})
_MAYBE_FLAG = frozenset({bool, type(None)})
_ID_BYTES = 256
"""A first key and an id of the longest kind lie within so many bytes."""
_MAX_TIME = 1 << 63
MAX_CREDIT = 1 << 53
"""Items or bytes that can be granted in all."""


class StreamOffer(NamedTuple):
    """What travels beside a call (S-27): the credit of its caller, and what that one sends and wants."""

    items: int = 0
    bytes: int = 0
    sends: bool = False
    progress: bool = False

    @property
    def wants_items(self) -> bool:
        return self.items > 0 and self.bytes > 0

    def travelling(self) -> dict[str, Any]:
        """As a map of the request, without what says nothing."""
        return {name: value for name, value in self._asdict().items() if value}


class RequestHead(NamedTuple):
    """What stands before the arguments of a request.

    ``generation`` is that of the receiver that it is for. ``repeated``: an earlier one may have run this call.
    ``deadline_ms`` is Unix time; ``boot_deadline_ms`` is the same moment by the boot clock of the boot ``boot_id``,
    empty where the caller did not say. The arguments begin at byte ``arguments_at`` of the payload.
    """

    request_id: str
    service: str
    caller: str
    generation: int
    deadline_ms: int
    boot_id: str
    boot_deadline_ms: int
    traceparent: str | None
    repeated: bool
    arguments_at: int
    stream: StreamOffer | None = None


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
    generation: int,
    deadline_ms: int,
    traceparent: str | None = None,
    boot_deadline: tuple[str, int] | None = None,
    stream: StreamOffer | None = None,
) -> bytes:
    """The payload of an SPC_REQUEST; ``boot_deadline`` is a boot id and ms of its boot clock.

    UnserialisableError names the argument.
    """
    if not _TEXT.issuperset(map(type, arguments)):
        odd = next(name for name in arguments if type(name) is not str)
        raise UnserialisableError(f"arguments has a name of type {type(odd).__name__}: use str")
    request: dict[str, Any] = {
        "requestId": request_id,
        "service": service,
        "caller": caller,
        "generation": generation,
        "deadline": deadline_ms,
    }
    if boot_deadline is not None:
        request["bootId"], request["bootDeadline"] = boot_deadline
    if traceparent is not None:
        request["traceparent"] = traceparent
    if stream is not None:
        request["stream"] = stream.travelling()
    request["arguments"] = arguments
    try:
        return pack(request, "request", sound=stream is None and is_flat(arguments.values()) and type(service) is str)
    except UnserialisableError as error:
        raise UnserialisableError(str(error).removeprefix("request.")) from None


def encode_again(payload: bytes | memoryview, generation: int, *, repeated: bool) -> bytes:
    """The same request for another generation of its receiver; ``repeated``: an earlier one may have run it."""
    values, arguments_at = _head_values(payload)
    values["generation"] = generation
    if repeated:
        values["repeated"] = True
    head: bytes = pack({**values, "arguments": None})
    return head[:-1] + bytes(payload[arguments_at:])  # nil is one byte


def decode_head(payload: bytes | memoryview) -> RequestHead:
    """Check and read all of an SPC_REQUEST but its arguments; WireError BAD_PAYLOAD names the field."""
    values, arguments_at = _head_values(payload)
    service, caller = values.get("service"), values.get("caller")
    try:
        check_service_name(service)
        check_node_name(caller)
    except (InvalidNameError, TypeError):
        raise WireError("BAD_PAYLOAD", "service or caller is no name") from None
    generation, repeated = values.get("generation"), values.get("repeated")
    if type(generation) is not int or not 1 <= generation < 1 << GENERATION_BITS:
        raise WireError("BAD_PAYLOAD", "generation is none")
    if type(repeated) not in (bool, type(None)):
        raise WireError("BAD_PAYLOAD", "repeated is neither true nor false")
    boot_id, boot_deadline, traceparent = values.get("bootId"), values.get("bootDeadline"), values.get("traceparent")
    if not _MAYBE_TEXT.issuperset((type(boot_id), type(traceparent))):
        raise WireError("BAD_PAYLOAD", "bootId or traceparent is no text")
    boot_ms = 0 if boot_deadline is None else _checked_time(boot_deadline, "bootDeadline")
    is_on_boot = boot_id is not None and boot_deadline is not None
    return RequestHead(
        _checked_id(values.get("requestId")),
        str(service),
        str(caller),
        generation,
        _checked_time(values.get("deadline"), "deadline"),
        str(boot_id) if is_on_boot else "",
        boot_ms if is_on_boot else 0,
        traceparent,
        bool(repeated),
        arguments_at,
        _stream_offer(values.get("stream")),
    )


def _stream_offer(value: Any) -> StreamOffer | None:
    if value is None:
        return None
    if type(value) is not dict:
        raise WireError("BAD_PAYLOAD", "stream is no map")
    items, size = (0 if value.get(key) is None else _checked_credit(value[key]) for key in ("items", "bytes"))
    sends, progress = value.get("sends"), value.get("progress")
    if not _MAYBE_FLAG.issuperset((type(sends), type(progress))):
        raise WireError("BAD_PAYLOAD", "sends or progress of stream is neither true nor false")
    return StreamOffer(items, size, bool(sends), bool(progress))


def _checked_credit(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_CREDIT:
        raise WireError("BAD_PAYLOAD", "a credit is no integer from 0 to 2^53")
    return value


def _head_values(payload: bytes | memoryview) -> tuple[dict[str, Any], int]:
    """The keys before ``arguments``, and where its value begins."""
    head = bytes(payload[:MAX_HEAD_BYTES])
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=MAX_HEAD_BYTES)
    unpacker.feed(head)
    values: dict[str, Any] = {}
    try:
        count = unpacker.read_map_header()
        for left in range(count, 0, -1):
            key = unpacker.unpack()
            if key == "arguments":
                if left > 1:
                    raise WireError("BAD_PAYLOAD", "something stands behind arguments")
                check_sound(values, "request")
                return values, unpacker.tell()
            if key in values:
                raise WireError("BAD_PAYLOAD", "a key stands twice")
            values[key] = unpacker.unpack()
    except (WireError, RecursionError):
        raise
    except Exception as error:
        why = f"the head of a request is no map, or above {MAX_HEAD_BYTES} bytes: {type(error).__name__}"
        raise WireError("BAD_PAYLOAD", why) from None
    raise WireError("BAD_PAYLOAD", "a request without arguments")


def decode_arguments(payload: bytes | memoryview, head: RequestHead) -> dict[str, Any]:
    """The arguments of a request whose head was read; WireError BAD_PAYLOAD unless they are a map with text keys."""
    arguments = unpack(memoryview(payload)[head.arguments_at :], "arguments", depth=1)
    if type(arguments) is not dict or not _TEXT.issuperset(map(type, arguments)):
        raise WireError("BAD_PAYLOAD", "arguments is no map with text keys")
    return arguments


def decode_request(payload: bytes | memoryview) -> tuple[RequestHead, dict[str, Any]]:
    """Head and arguments of an SPC_REQUEST."""
    head = decode_head(payload)
    return head, decode_arguments(payload, head)


def _checked_id(request_id: Any) -> str:
    if type(request_id) is not str or not 0 < len(request_id.encode()) <= MAX_REQUEST_ID_BYTES:
        raise WireError("BAD_PAYLOAD", "requestId is no text of 1 to 64 bytes")
    return request_id


def _checked_time(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value < _MAX_TIME:
        raise WireError("BAD_PAYLOAD", f"{what} is no time in ms")
    return value


def readable_request_id(payload: bytes | memoryview) -> str | None:
    """The id that a request or response begins with; None if it begins with anything else."""
    unpacker = msgpack.Unpacker(max_buffer_size=_ID_BYTES)
    unpacker.feed(bytes(payload[:_ID_BYTES]))
    try:
        if unpacker.read_map_header() and unpacker.unpack() == "requestId":
            return _checked_id(unpacker.unpack())
    except Exception:
        return None
    return None


def full_request_id(caller: str, request_id: str) -> str:
    """The id that a service sees: unique among all callers (S-3)."""
    return f"{caller}/{request_id}"


def encode_success(request_id: str, result: Any) -> bytes:
    """The payload of a successful SPC_RESPONSE."""
    response = {"requestId": request_id, "status": "SUCCESS", "result": result}
    try:
        return pack(response, "response", sound=is_flat((result,)))
    except UnserialisableError as error:  # it names the place within the whole answer, which no program sees
        raise UnserialisableError(str(error).removeprefix("response.")) from None


def encode_error(request_id: str, code: str, message: Any, details: Any = None) -> bytes:
    """The payload of an SPC_RESPONSE that reports an error, whatever a service made of its text and details (S-3).

    What cannot be sent of it is left out, and the text says so.
    """
    text = "" if message is None else str(message)
    packed, why = _packed_details(details)
    text = text[: MAX_ERROR_CHARACTERS - len(why)].encode(errors="replace").decode() + why
    response = {"requestId": request_id, "status": "ERROR", "errorCode": code, "errorMessage": text}
    return pack(response) if packed is None else pack({**response, "details": packed}, "details")


def _packed_details(details: Any) -> tuple[dict[str, Any] | None, str]:
    """Details as they can be sent, and what the text has to say of others."""
    if not details:
        return None, ""
    try:
        plain = dict(details)
        if len(pack(plain, "details")) <= MAX_DETAILS_BYTES:
            return plain, ""
    except Exception:  # a mapping of the program's own: any exception may come out of it
        return None, " (its details have no representation, and are left out)"
    return None, " (its details are too large, and are left out)"


def decode_response(payload: bytes | memoryview) -> WireResponse:
    """Check and read an SPC_RESPONSE; WireError BAD_PAYLOAD names the field."""
    values = unpack_unchecked_map(payload, "response")
    if next(iter(values), None) != "requestId":
        raise WireError("BAD_PAYLOAD", "a response does not begin with a requestId of 1 to 64 bytes")
    request_id = _checked_id(values["requestId"])
    if not is_flat(values.values()) or not _TEXT.issuperset(map(type, values)):
        check_sound(values, "response")
    status = values.get("status")
    if status == "SUCCESS":
        return WireResponse(request_id, True, values.get("result"), "", "", {})
    if status != "ERROR":
        raise WireError("BAD_PAYLOAD", "status is neither SUCCESS nor ERROR")
    code, message, details = values.get("errorCode"), values.get("errorMessage", ""), values.get("details")
    if type(code) is not str or not code or type(message) is not str or type(details) not in (dict, type(None)):
        raise WireError("BAD_PAYLOAD", "errorCode, errorMessage or details has a wrong type")
    return WireResponse(request_id, False, None, code, message, details or {})


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


def is_look(type_: int, body: dict[str, Any]) -> bool:
    """Whether a question is one that an observer may ask without a grant: a ping, or for figures (A-7)."""
    return type_ == EnvelopeType.HEARTBEAT or (type_ == EnvelopeType.DISCOVERY and body.get("op") == "STATS")


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


def encode_error_envelope(
    code: str, message: str, *, sequence: int | None = None, request_id: str | None = None
) -> bytes:
    """An ERROR about the envelope or request that is named; what of its text has no representation is replaced."""
    body: dict[str, Any] = {"errorCode": code, "errorMessage": message.encode(errors="replace").decode()}
    if sequence is not None:
        body["sequence"] = sequence
    if request_id is not None:
        body["requestId"] = request_id
    return pack(body)


# Envelopes of a stream (S-28).


class StreamPart(NamedTuple):
    """One STREAM envelope without its items, which begin at byte ``items_at``; one of the last three is meant."""

    request_id: str
    number: int | None = None
    """How many items went before these."""
    items: int = 0
    last: bool = False
    items_at: int = 0
    credit: tuple[int, int] | None = None
    """Items and bytes, all that was granted."""
    progress: Progress | None = None


class Progress(NamedTuple):
    """How far a call is, as its service says.

    Attributes:
        done: how much is done, from 0.
        total: how much there is; None where the service does not know.
        note: a few words, maybe empty.
    """

    done: float
    total: float | None = None
    note: str = ""


def encode_items(request_id: str, number: int, packed: list[bytes], *, last: bool = False) -> bytes:
    """Items that are packed already."""
    front: dict[str, Any] = {"requestId": request_id, "number": number}
    if last:
        front["last"] = True
    packer = msgpack.Packer(autoreset=False)
    packer.pack_map_header(len(front) + 1)
    for key, value in front.items():
        packer.pack(key)
        packer.pack(value)
    packer.pack("items")
    packer.pack_array_header(len(packed))
    return b"".join((packer.bytes(), *packed))


def encode_credit(request_id: str, items: int, size: int) -> bytes:
    """All that was granted since the call began."""
    return pack({"requestId": request_id, "creditItems": items, "creditBytes": size})


def encode_progress(request_id: str, done: float, total: float | None, note: str) -> bytes:
    """A report; what of its note is too long or has no representation is left out."""
    text = note[:MAX_SUMMARY_CHARACTERS].encode(errors="replace").decode()
    return pack({"requestId": request_id, "done": done, "total": total, "note": text})


def decode_stream(payload: bytes | memoryview) -> StreamPart:
    """Check and read a STREAM envelope but for its items; WireError BAD_PAYLOAD."""
    unpacker = msgpack.Unpacker(max_buffer_size=MAX_HEAD_BYTES)
    unpacker.feed(bytes(payload[:MAX_HEAD_BYTES]))
    try:
        count = unpacker.read_map_header()
        if unpacker.unpack() != "requestId":
            raise WireError("BAD_PAYLOAD", "a stream envelope does not begin with a requestId")
        request_id = _checked_id(unpacker.unpack())
        kind = unpacker.unpack()
        if kind == "number":
            return _items_part(unpacker, request_id, count)
        values = {kind: unpacker.unpack()}
        for _ in range(count - 2):
            key = unpacker.unpack()
            values[key] = unpacker.unpack()
    except WireError:
        raise
    except Exception as error:
        raise WireError("BAD_PAYLOAD", f"a stream envelope cannot be read: {type(error).__name__}") from None
    if unpacker.tell() != len(payload):
        raise WireError("BAD_PAYLOAD", "something stands behind a stream envelope")
    return _control_part(request_id, kind, values)


def _items_part(unpacker: Any, request_id: str, count: int) -> StreamPart:
    number = _checked_credit(unpacker.unpack())
    key = unpacker.unpack()
    last = key == "last"
    if last:
        if unpacker.unpack() is not True:
            raise WireError("BAD_PAYLOAD", "last of a stream envelope is not true")
        key = unpacker.unpack()
    if key != "items" or count != 3 + last:
        raise WireError("BAD_PAYLOAD", "items are not what ends a stream envelope")
    items = unpacker.read_array_header()
    return StreamPart(request_id, number, items, last, unpacker.tell())


def _control_part(request_id: str, kind: str, values: dict[str, Any]) -> StreamPart:
    if kind == "creditItems":
        credit = _checked_credit(values["creditItems"]), _checked_credit(values.get("creditBytes"))
        return StreamPart(request_id, credit=credit)
    done, total, note = values.get("done"), values.get("total"), values.get("note")
    if kind != "done" or not _is_amount(done) or not (total is None or _is_amount(total)):
        raise WireError("BAD_PAYLOAD", "a stream envelope holds neither items, nor credit, nor progress")
    if type(note) is not str or len(note) > MAX_SUMMARY_CHARACTERS:
        raise WireError("BAD_PAYLOAD", "the note of a progress is no short text")
    return StreamPart(request_id, progress=Progress(done, total, note))  # type: ignore[arg-type]


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < _MAX_TIME


def decode_items(payload: bytes | memoryview, part: StreamPart) -> list[Any]:
    """The items of an envelope whose front was read; WireError BAD_PAYLOAD."""
    items = unpack_map(payload, "a stream envelope")["items"]
    if len(items) != part.items:
        raise WireError("BAD_PAYLOAD", "an envelope has other items than it says")
    return items  # type: ignore[no-any-return]
