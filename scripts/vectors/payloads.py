"""Values (W-15 to W-17) and the payloads of calls and control envelopes (S-1, S-2, S-11, S-12)."""

from __future__ import annotations

from datetime import datetime, timezone
from struct import pack
from typing import Any

import msgpack

from scripts.vectors.fixed import SOURCE, TIME
from speed.wire import spc
from speed.wire.envelope import make_sequence
from speed.wire.value import pack as pack_value

DESCRIPTIONS = [
    {
        "name": "tax",
        "summary": "What is due on an amount.",
        "version": "2",
        "streaming": False,
        "idempotent": True,
        "columns": False,
        "parameters": {
            "type": "object",
            "properties": {
                "amount": {"type": "string", "format": "decimal"},
                "day": {"type": "string", "format": "date"},
            },
            "required": ["amount"],
            "additionalProperties": False,
        },
        "result": {"type": "string", "format": "decimal"},
    },
    {"name": "undeclared", "summary": "", "version": "", "streaming": False, "idempotent": False, "columns": False},
]


def tagged(value: Any) -> Any:
    """A value as JSON can say it: see "Values in vectors" in registry_spec/README.md."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": pack(">d", value).hex()}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, datetime):
        whole = value.replace(microsecond=0)
        return {"timestamp": [str(int(whole.timestamp())), value.microsecond * 1000]}
    if isinstance(value, dict):
        return {"map": [[tagged(key), tagged(item)] for key, item in value.items()]}
    return [tagged(item) for item in value]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def values() -> dict[str, Any]:
    """Values of the type table."""

    def good(name: str, bug: str, value: Any) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": pack_value(value).hex(), "value": tagged(value)}

    def bad(name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": data.hex()}

    utc = timezone.utc
    return {
        "about": "W-15 to W-17. `hex` is what the reference writes; a reader accepts every valid msgpack of the value.",
        "valid": [
            good("nil", "absent and nil confused", None),
            good("false", "false taken for 0", False),
            good("true", "true taken for 1", True),
            good("zero", "0 taken for false", 0),
            good("-2^63", "lowest int64", -(2**63)),
            good("2^63", "uint64 read as negative", 2**63),
            good("2^64-1", "uint64 through a double", 2**64 - 1),
            good("2^53+1", "integers through a double", 2**53 + 1),
            good("float", "float32 written", 0.1),
            good("whole float", "1.0 turned into 1", 1.0),
            good("negative zero", "sign of zero lost", -0.0),
            good("infinity", "infinity refused", float("inf")),
            good("text", "length in characters instead of bytes", "Größe 😀"),
            good("zero in text", "cut at the zero byte", "a\x00b"),
            good("bytes", "bytes and text confused", b"\xff\x00"),
            good("empty bytes", "bytes and text confused", b""),
            good("array", "nested arrays", [1, [2, []], "x"]),
            good("map", "order of keys lost", {"b": 1, "a": {"c": None}}),
            good("int keys", "int keys turned into text", {1: "a", -1: "b", 2**63: "c"}),
            good("instant", "timestamp 32", datetime(2023, 11, 14, 22, 13, 20, tzinfo=utc)),
            good("microseconds", "timestamp 64", datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=utc)),
            good(
                "before 1970",
                "timestamp 96, floor of negative fractions",
                datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=utc),
            ),
            good("32 deep", "limit off by one", nested(32)),
        ],
        "also_read": [
            {"name": "float32", "bug": "only float64 read", "hex": "ca3fc00000", "value": tagged(1.5)},
            {"name": "wide int", "bug": "only the shortest form read", "hex": "d30000000000000005", "value": tagged(5)},
            {"name": "wide text", "bug": "only the shortest form read", "hex": "db0000000161", "value": "a"},
        ],
        "invalid": [
            bad("nothing", "empty input", b""),
            bad("two values", "rest ignored", b"\x01\x02"),
            bad("cut text", "reads past the end", b"\xa5abc"),
            bad("lying array", "allocates what a length claims", b"\xdd\xff\xff\xff\xff"),
            bad("reserved byte", "0xc1 skipped", b"\xc1"),
            bad("not UTF-8", "invalid text passed on", b"\xa2\xff\xfe"),
            bad("33 deep", "limit off by one", msgpack.packb(nested(33))),
            bad("5,000 deep", "stack overflow", b"\x91" * 5_000 + b"\xc0"),
            bad("bytes key", "keys are text or int", b"\x81\xc4\x01a\x01"),
            bad("nil key", "keys are text or int", b"\x81\xc0\x01"),
            bad("true key", "true taken for the key 1", b"\x81\xc3\x01"),
            bad("float key", "keys are text or int", b"\x81\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\x01"),
            bad(
                "float key beside the whole number it equals",
                "keys merged before they are checked",
                b"\x82\x01\xa1a\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\x01",
            ),
            bad("true as a key beside 1", "keys merged before they are checked", b"\x82\x01\xa1a\xc3\x01"),
            bad("array key", "unhashable key", b"\x81\x90\x01"),
            bad("extension 2", "unknown extensions passed on", b"\xd4\x02\x00"),
            bad("year 10000", "what one language cannot say", b"\xc7\x0c\xff" + pack(">Iq", 0, 253_402_300_800)),
            bad("before year 1", "what one language cannot say", b"\xc7\x0c\xff" + pack(">Iq", 0, -62_135_596_801)),
            bad("the last second of 64 bits", "overflow", b"\xc7\x0c\xff" + pack(">Iq", 0, 2**63 - 1)),
            bad("2^30 - 1 nanoseconds", "nanoseconds unchecked", b"\xd7\xff" + b"\xff" * 8),
            bad("short timestamp", "length of a timestamp unchecked", b"\xd5\xff\x00\x00"),
        ],
    }


def raw(**fields: Any) -> bytes:
    return bytes(msgpack.packb({key: value for key, value in fields.items() if value is not ...}))


_FILL = 3992
"""So long a text fills the head of the request below to 4,096 bytes."""


def _twice(ask: dict[str, Any]) -> bytes:
    """A request that names its service twice."""
    whole = raw(**ask)
    end_of_id = 1 + len(raw(requestId=ask["requestId"])[1:])
    return bytes([0x87]) + whole[1:end_of_id] + raw(service="other")[1:] + whole[end_of_id:]


def payloads() -> dict[str, Any]:
    """Payloads of requests, responses and control envelopes."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    ask: dict[str, Any] = {
        "requestId": "7.1",
        "service": "calculateTax",
        "caller": SOURCE,
        "generation": 7,
        "deadline": TIME,
        "arguments": {"amount": 1000},
    }
    boot = ("0f0e0d0c-0b0a-4908-8706-050403020100", 987654)

    unsaid = {"requestId": "7.1", "status": "ERROR", "errorCode": "TIMEOUT"}
    failed = {**unsaid, "errorMessage": "late"}
    strange = {"op": 7, "requestId": "7.3"}
    succeeded = {"requestId": "7.1", "status": "SUCCESS", "result": None}

    def deep(depth: int) -> dict[str, Any]:
        """Arguments with a value of so many containers in each other."""
        return {"amount": nested(depth)}

    ask_deep = {**ask, "arguments": deep(30)}

    def turned(*first: str) -> dict[str, Any]:
        """The request with some keys before the others of its head."""
        return {**{key: ask[key] for key in first}, **ask}

    def good(kind: str, name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {
            "kind": kind,
            "name": name,
            "bug": bug,
            "hex": data.hex(),
            "fields": tagged(msgpack.unpackb(data, strict_map_key=False)),
        }

    def bad(kind: str, name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"kind": kind, "name": name, "bug": bug, "hex": data.hex()}

    def also(kind: str, name: str, bug: str, data: bytes, meaning: dict[str, Any]) -> dict[str, Any]:
        return {**bad(kind, name, bug, data), "fields": tagged(meaning)}

    def asked(**changes: Any) -> bytes:
        """A request with changes; new keys stand before the arguments."""
        head = {key: value for key, value in {**ask, **changes}.items() if key != "arguments"}
        return raw(**head, arguments=changes.get("arguments", ask["arguments"]))

    def request(name: str, bug: str, **changes: Any) -> dict[str, Any]:
        payload = asked(**changes)
        return {**bad("request", name, bug, payload), "answered": spc.readable_request_id(payload)}

    def broken(name: str, bug: str, fields: dict[str, Any]) -> dict[str, Any]:
        payload = raw(**fields)
        return {**bad("request", name, bug, payload), "answered": spc.readable_request_id(payload)}

    def response(name: str, bug: str, **fields: Any) -> dict[str, Any]:
        return bad("response", name, bug, raw(**fields))

    return {
        "about": "S-1 request, S-2 response, S-11 ack, heartbeat, error, S-12 discovery. Values as in values.json.",
        "valid": [
            good(
                "request",
                "request",
                "basic form",
                spc.encode_request("7.1", "calculateTax", {"amount": 1000}, SOURCE, 7, TIME),
            ),
            good("request", "no arguments", "empty map refused", spc.encode_request("7.1", "now", {}, SOURCE, 7, TIME)),
            good("request", "trace", "traceparent lost", spc.encode_request("7.1", "now", {}, SOURCE, 7, TIME, trace)),
            good(
                "request",
                "boot deadline",
                "keys in another order",
                spc.encode_request("7.1", "now", {}, SOURCE, 7, TIME, trace, boot),
            ),
            good(
                "request",
                "sent again",
                "repeated lost, or at another place",
                spc.encode_again(spc.encode_request("7.1", "now", {"n": 1}, SOURCE, 6, TIME, trace), 7, repeated=True),
            ),
            good("request", "highest generation", "24 bits off by one", asked(generation=(1 << 24) - 1)),
            good("request", "unknown key", "new keys refused", asked(priority=3)),
            good("request", "longest id", "64 bytes off by one", asked(requestId="i" * 64)),
            good("response", "result", "basic form", spc.encode_success("7.1", {"tax": 180.0})),
            good("response", "nil result", "nil taken for no result", spc.encode_success("7.1", None)),
            good(
                "response", "error", "basic form", spc.encode_error("7.1", "TIMEOUT", "too late", {"phase": "queued"})
            ),
            good(
                "response",
                "error without details",
                "details required",
                spc.encode_error("7.1", "INTERNAL_ERROR", "oops"),
            ),
            good(
                "response",
                "code of a service",
                "code of a service not told from an unknown one",
                spc.encode_error("7.1", "app/OUT_OF_STOCK", "none left", {"left": 0}),
            ),
            good(
                "response",
                "error of a call that the service made",
                "the wrong caller blamed",
                spc.encode_error(
                    "7.1",
                    "EXECUTION_FAILED",
                    "stock: no such article",
                    {"cause": "INVALID_ARGUMENTS", "node": "stock", "service": "find"},
                ),
            ),
            good("response", "unknown code", "closed set of codes", spc.encode_error("7.1", "OUT_OF_TEA", "no")),
            good("control", "ack", "basic form", spc.encode_ack(make_sequence(16777215, 9))),
            good("control", "heartbeat", "basic form", spc.encode({"requestId": "7.2"})),
            good("control", "info", "basic form", spc.encode({"op": "INFO", "requestId": "7.3"})),
            good(
                "control",
                "refusal by id",
                "only sequences read",
                spc.encode_error_envelope("INVALID_ARGUMENTS", "no", request_id="7.3"),
            ),
            good("control", "describe", "basic form", spc.encode({"op": "DESCRIBE", "requestId": "7.3"})),
            good(
                "control",
                "descriptions",
                "a service that declares nothing described as one that takes nothing",
                spc.encode({"op": "DESCRIBE", "requestId": "7.3", "result": {"services": DESCRIPTIONS}}),
            ),
            good("control", "leave", "request id required", spc.encode({"op": "LEAVE"})),
            good(
                "control",
                "withdraw",
                "basic form",
                spc.encode({"op": "WITHDRAW", "requestIds": ["7.1", "7.4"]}),
            ),
            good(
                "control",
                "ack of a message that nothing takes yet",
                "unknown keys refused",
                spc.encode({"sequence": make_sequence(7, 2), "waiting": True}),
            ),
            good(
                "control",
                "reply",
                "basic form",
                spc.encode({"op": "SERVICES", "requestId": "7.3", "result": {"services": ["now"]}}),
            ),
            good(
                "control",
                "refusal",
                "basic form",
                spc.encode_error_envelope("EXECUTION_FAILED", "no", sequence=make_sequence(7, 1)),
            ),
        ],
        "also_read": [
            also(
                "request",
                "keys in another order",
                "an order demanded",
                raw(**turned("requestId", "deadline", "caller")),
                ask,
            ),
            also(
                "request",
                "requestId last of the head",
                "an order demanded",
                raw(**turned("service", "caller", "generation", "deadline", "requestId")),
                ask,
            ),
            also(
                "request", "arguments 31 deep", "depth counted from the arguments", asked(arguments=deep(30)), ask_deep
            ),
            also("request", "integer key", "refused", bytes([0x87, 1, 2]) + raw(**ask)[1:], ask),
            also("request", "longest head", "4,096 bytes off by one", asked(padding="p" * _FILL), ask),
            also("request", "nil trace", "nil taken for a value", asked(traceparent=None), ask),
            also("request", "boot id alone", "half a deadline believed", asked(bootId=boot[0]), ask),
            also("request", "boot time alone", "half a deadline believed", asked(bootDeadline=1), ask),
            also("request", "not repeated", "false refused", asked(repeated=False), ask),
            also("response", "nil details", "nil taken for a value", raw(**failed, details=None), failed),
            also("response", "no result", "field required", raw(requestId="7.1", status="SUCCESS"), succeeded),
            also("response", "no message", "field required", raw(**unsaid), failed | {"errorMessage": ""}),
            also("control", "number op", "refused as a payload", raw(**strange), strange),
            also("control", "nil id", "nil taken for a value", raw(op="LEAVE", requestId=None), {"op": "LEAVE"}),
        ],
        "invalid": [
            {**bad("request", "no map", "type unchecked", msgpack.packb([1])), "answered": None},
            broken("bad, and requestId not first", "an id looked for", {**turned("service"), "deadline": -1}),
            request("no id", "missing field", requestId=...),
            request("empty id", "empty id", requestId=""),
            request("long id", "length unchecked", requestId="i" * 65),
            request("long id in bytes", "characters counted instead of bytes", requestId="é" * 33),
            request("number id", "types converted", requestId=7),
            request("no service", "missing field", service=...),
            request("bad service", "name unchecked", service="a/b"),
            request("bad caller", "name unchecked", caller="../x"),
            request("no caller", "missing field", caller=...),
            request("no arguments", "missing field", arguments=...),
            request("array arguments", "positional arguments", arguments=[1]),
            request("int names", "names of arguments are text", arguments={1: 2}),
            request("no deadline", "a request that never ends", deadline=...),
            request("float deadline", "types converted", deadline=1.5),
            request("negative deadline", "sign unchecked", deadline=-1),
            request("deadline 2^63", "overflow", deadline=2**63),
            request("no generation", "a request for any life of its server", generation=...),
            request("nil generation", "a request for any life of its server", generation=None),
            request("generation 0", "range unchecked", generation=0),
            request("generation 2^24", "range unchecked", generation=1 << 24),
            request("text generation", "types converted", generation="7"),
            request("true as generation", "true is 1", generation=True),
            request("number repeated", "types converted", repeated=1),
            request("number trace", "types unchecked", traceparent=1),
            request("number boot id", "types unchecked", bootId=1, bootDeadline=1),
            request("float boot time", "types converted", bootId=boot[0], bootDeadline=1.5),
            request("number boot id alone", "types unchecked", bootId=1),
            request("negative boot time alone", "sign unchecked", bootDeadline=-1),
            request("negative boot time", "sign unchecked", bootId=boot[0], bootDeadline=-1),
            request("arguments 32 deep", "depth counted from the arguments", arguments=deep(31)),
            request("head too long", "decodes what nobody asked for", padding="p" * (_FILL + 1)),
            request("extension in the head", "decodes what nobody asked for", padding=msgpack.ExtType(1, b"")),
            request("bytes as a key of arguments", "names of arguments are text", arguments={b"a": 1}),
            broken("arguments first", "decodes them before it knows who asks", {"arguments": {}, **ask}),
            broken("a key behind the arguments", "reads on", {**ask, "priority": 3}),
            {
                **bad("request", "service twice", "the last one runs, the first one was checked", _twice(ask)),
                "answered": "7.1",
            },
            {
                **bad("request", "a byte behind the arguments", "reads on", raw(**ask) + b"\xc0"),
                "answered": "7.1",
            },
            {
                **bad("request", "cut arguments", "counted as read", raw(**ask)[:-1]),
                "answered": "7.1",
            },
            response("no status", "missing field", requestId="7.1", result=1),
            response("lower case status", "case folded", requestId="7.1", status="success", result=1),
            response("no id", "missing field", status="SUCCESS", result=1),
            response("id last", "decodes a result that nobody waits for", status="SUCCESS", result=1, requestId="7.1"),
            response("no code", "missing field", requestId="7.1", status="ERROR", errorMessage="x"),
            response("empty code", "an error without a name", requestId="7.1", status="ERROR", errorCode=""),
            response(
                "array details", "type unchecked", requestId="7.1", status="ERROR", errorCode="TIMEOUT", details=[]
            ),
            response("nil code", "nil taken for text", requestId="7.1", status="ERROR", errorCode=None),
            response("nil message", "nil taken for text", **unsaid, errorMessage=None),
            bad("control", "no map", "type unchecked", b"\x01"),
            bad("control", "text sequence", "types converted", raw(sequence="1")),
            bad("control", "negative sequence", "sign unchecked", raw(sequence=-1)),
            bad("control", "number id", "types converted", raw(requestId=1)),
            bad("control", "long id", "length unchecked", raw(requestId="i" * 65)),
        ],
    }
