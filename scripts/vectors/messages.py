"""Messages: the payload of MESSAGE and EVENT (M-n)."""

from __future__ import annotations

from typing import Any

from google.protobuf.any_pb2 import Any as ProtoAny

from scripts.vectors import payloads
from scripts.vectors.json_texts import json_payloads
from speed.message import message_pb2
from speed.message.writing import MessageIds, encode_message, new_message_id
from speed.wire.records import varint

pb: Any = message_pb2
ID = new_message_id(1_700_000_000_123, bytes(range(16)))
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BASE: dict[str, Any] = {"topic": "orders.created", "namespace": "default", "message_id": ID}
BASE["published_at_ms"] = 1_700_000_000_123
SEEN: dict[str, Any] = {
    **BASE,
    "priority": 5,
    "ttl_seconds": 0,
    "content_type": "application/octet-stream",
    "content_encoding": "none",
    "payload_hex": b"hello".hex(),
}


def metadata(**changes: Any) -> bytes:
    """Metadata of the base message; None removes a field."""
    fields = {**BASE, "content_type": 99, "content_type_custom": "application/octet-stream", **changes}
    present = {key: value for key, value in fields.items() if value is not None}
    return bytes(pb.MessageMetadata(**present).SerializeToString())


def record(field: int, data: bytes) -> bytes:
    """One length-delimited record."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def any_value(data: bytes, type_url: str = "") -> bytes:
    """A serialized google.protobuf.Any."""
    return bytes(ProtoAny(type_url=type_url, value=data).SerializeToString())


HELLO = record(99, any_value(b"hello"))
META = record(1, metadata())


def valid() -> list[dict[str, Any]]:
    """Messages every reader accepts: what they decode to, and the bug each one catches."""

    def case(name: str, bug: str, data: bytes, **expected: Any) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": data.hex(), "expected": {**SEEN, **expected}}

    msgpack = {"content_type": "application/msgpack"}
    full = encode_message(
        {"amount": 1000},
        **BASE,
        priority=8,
        ttl_seconds=60,
        correlation_id="req-1",
        causality_parent="parent-1",
        traceparent=TRACE,
        publisher_id="billing",
        labels={"region": "eu"},
        baggage={"tenant": "a"},
        extensions={"x-retry": b"3"},
    )
    everything = {
        "priority": 8,
        "ttl_seconds": 60,
        "correlation_id": "req-1",
        "causality_parent": "parent-1",
        "traceparent": TRACE,
        "publisher_id": "billing",
        "labels": {"region": "eu"},
        "baggage": {"tenant": "a"},
        "extensions_hex": {"x-retry": "33"},
        "payload_hex": "81a6616d6f756e74cd03e8",
        **msgpack,
    }
    entry = record(1, b"x-a") + record(2, b"3") + b"\x18\x01"
    bad_trace = pb.ObservabilityContext(trace_id="0" * 32, span_id=TRACE[36:52], trace_flags=1)
    return [
        case("bytes", "basic frame", encode_message(b"hello", **BASE)),
        case(
            "empty bytes",
            "an empty value taken for an absent payload",
            encode_message(b"", **BASE),
            payload_hex="",
        ),
        case("empty any", "an Any without a value field refused", META + record(99, b""), payload_hex=""),
        case(
            "text",
            "UTF-8",
            encode_message("h\u00e9", **BASE),
            content_type="text/plain",
            payload_hex="68c3a9",
        ),
        case("map", "msgpack content type", encode_message({"a": 1}, **BASE), payload_hex="81a16101", **msgpack),
        case("everything", "a field number mixed up", full, **everything),
        case(
            "json",
            "enum content type",
            encode_message(b"{}", **BASE, content_type="application/json"),
            content_type="application/json",
            payload_hex="7b7d",
        ),
        case(
            "protobuf",
            "type_url not carried",
            encode_message(pb.SchemaContext(schema_name="A"), **BASE),
            content_type="application/protobuf",
            payload_hex="2a0141",
            type_url="type.googleapis.com/speed.message.v1.SchemaContext",
        ),
        case("priority zero", "zero not read as 5", record(1, metadata(priority=0)) + HELLO),
        case(
            "unspecified type",
            "absent content type refused",
            record(1, metadata(content_type=None, content_type_custom=None)) + HELLO,
        ),
        case(
            "unknown content type",
            "a later enum number refused",
            record(1, metadata(content_type=42)) + HELLO,
            content_type="unknown/42",
        ),
        case(
            "custom ignored",
            "content_type_custom read although the type is JSON",
            record(1, metadata(content_type=2)) + HELLO,
            content_type="application/json",
        ),
        case(
            "gzip",
            "encoding number",
            record(1, metadata(content_encoding=1)) + HELLO,
            content_encoding="gzip",
        ),
        case(
            "lz4",
            "encoding number",
            record(1, metadata(content_encoding=4, uncompressed_bytes=5)) + HELLO,
            content_encoding="lz4",
        ),
        case(
            "custom encoding",
            "field 12",
            record(1, metadata(content_encoding=99, content_encoding_custom="br")) + HELLO,
            content_encoding="br",
        ),
        case(
            "unknown fields",
            "unknown fields refused",
            META
            + record(50, b"later")
            + varint(51 << 3)
            + b"\x07"
            + varint(52 << 3 | 5)
            + b"abcd"
            + varint(53 << 3 | 1)
            + b"abcdefgh"
            + HELLO,
        ),
        case("payload first", "order of records relied upon", HELLO + META),
        case(
            "metadata twice",
            "records replaced, not merged",
            META + record(1, pb.MessageMetadata(topic="later.topic").SerializeToString()) + HELLO,
            topic="later.topic",
        ),
        case("payload twice", "first payload wins", META + record(99, any_value(b"old")) + HELLO),
        case(
            "value twice",
            "first value of the Any wins",
            META + record(99, any_value(b"old") + any_value(b"hello")),
        ),
        case("payload field as varint", "wire type not looked at", META + varint(99 << 3) + b"\x01" + HELLO),
        case(
            "long length varint",
            "non-minimal varint refused",
            META + b"\x9a\x06\x87\x80\x00" + any_value(b"hello"),
        ),
        case(
            "number in ten bytes",
            "bit 63 taken from the ninth byte",
            record(1, metadata() + b"\x38\xbc" + b"\x80" * 8 + b"\x00") + HELLO,
            ttl_seconds=60,
        ),
        case(
            "number above 64 bits",
            "more than the low 64 bits looked at",
            record(1, metadata() + b"\x38\xbc" + b"\x80" * 8 + b"\x02") + HELLO,
            ttl_seconds=60,
        ),
        case(
            "unknown field in a map's entry",
            "the entry dropped",
            record(97, entry) + record(3, record(5, entry)) + record(3, record(6, entry)) + META + HELLO,
            extensions_hex={"x-a": "33"},
            baggage={"x-a": "3"},
            labels={"x-a": "3"},
        ),
        case(
            "zero trace id",
            "an invalid trace rejects the message",
            META + record(3, bad_trace.SerializeToString()) + HELLO,
        ),
    ]


def written() -> list[dict[str, Any]]:
    """What a writer is given, and the exact bytes: every record in the order of its number, the payload last (M-2)."""

    def case(name: str, bug: str, value: Any, **fields: Any) -> dict[str, Any]:
        data = encode_message(value, **writer_fields({**BASE, **fields}))
        return {
            "name": name,
            "bug": bug,
            "value": payloads.tagged(value),
            "fields": {**BASE, **fields},
            "hex": data.hex(),
        }

    return [
        case("bytes", "an inferred type that is not written", b"hello"),
        case("no bytes", "an empty value left out", b""),
        case("text", "bytes and text confused", "h\u00e9"),
        case("map", "another form of an integer", {"amount": 1000, "rate": 0.25}),
        case("nil", "nil taken for an absent payload", None),
        case("list", "a list without a type", [1, "a", True]),
        case("long", "a length in one byte", b"x" * 300),
        case("topic and namespace", "defaults written", b"", topic="a.b-c_d", namespace="finance"),
        case("priority and time to live", "numbers in one byte", b"", priority=10, ttl_seconds=86_400),
        case("correlation", "two fields exchanged", b"", correlation_id="req-1", causality_parent="parent-1"),
        case("present and empty", "an empty text not written", b"", correlation_id=""),
        case("publisher", "security before metadata", b"", publisher_id="billing"),
        case("trace", "flags as text", b"", traceparent=TRACE),
        case("labels and baggage", "two maps exchanged", b"", labels={"region": "eu"}, baggage={"tenant": "a"}),
        case("extension", "extensions behind the payload", b"hello", extensions_hex={"x-retry": "33"}),
    ]


def writer_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a case as a writer takes them: extensions are bytes, which JSON has none of."""
    extensions = {key: bytes.fromhex(value) for key, value in fields.get("extensions_hex", {}).items()}
    return {**{key: value for key, value in fields.items() if key != "extensions_hex"}, "extensions": extensions}


def not_written() -> list[dict[str, Any]]:
    """Fields with which nothing is written, and the one that the error names."""

    def case(name: str, bug: str, field: str, **fields: Any) -> dict[str, Any]:
        return {"name": name, "bug": bug, "fields": {**BASE, **fields}, "field": field}

    return [
        case("no message id", "an id that nobody can repeat", "message_id", message_id=""),
        case("long message id", "checked by readers only", "message_id", message_id="x" * 129),
        case("topic with slash", "a topic that is a path", "topic", topic="a/b"),
        case("topic with empty part", "a pattern that never matches", "topic", topic="a..b"),
        case("long topic", "checked by readers only", "topic", topic="x" * 256),
        case("long namespace", "checked by readers only", "namespace", namespace="x" * 129),
        case("no time", "a message that was never published", "published_at_ms", published_at_ms=0),
        case("priority 11", "checked by readers only", "priority", priority=11),
        case("negative time to live", "a message that has expired already", "ttl_seconds", ttl_seconds=-1),
    ]


def invalid() -> list[dict[str, Any]]:
    """Messages every reader rejects with BAD_MESSAGE."""

    def case(name: str, field: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "field": field, "bug": bug, "hex": data.hex()}

    def changed(name: str, field: str, bug: str, **changes: Any) -> dict[str, Any]:
        return case(name, field, bug, record(1, metadata(**changes)) + HELLO)

    too_long = b"\xff" * 10 + b"\x01"
    return [
        case("empty", "metadata", "empty message accepted", b""),
        case("no metadata", "metadata", "metadata not required", HELLO),
        changed("no message id", "message_id", "not required", message_id=None),
        changed("long message id", "message_id", "unbounded", message_id="x" * 129),
        changed("no topic", "topic", "not required", topic=None),
        changed("topic with slash", "topic", "topic used as a path", topic="../orders"),
        changed("topic with empty part", "topic", "empty part accepted", topic="orders..created"),
        changed("topic with newline", "topic", "a regular expression with $", topic="orders\n"),
        changed("long topic", "topic", "unbounded", topic="x" * 256),
        changed("no namespace", "namespace", "not required", namespace=None),
        changed("long namespace", "namespace", "characters counted, not bytes", namespace="\u00e9" * 65),
        changed("no time", "published_at_ms", "not required", published_at_ms=None),
        changed("negative time", "published_at_ms", "negative accepted", published_at_ms=-1),
        changed("priority 11", "priority", "no upper bound", priority=11),
        changed("negative priority", "priority", "no lower bound", priority=-1),
        changed("negative ttl", "ttl_seconds", "negative accepted", ttl_seconds=-1),
        changed("custom without name", "content_type_custom", "not required", content_type_custom=None),
        changed("custom encoding without name", "content_encoding_custom", "not required", content_encoding=99),
        case("no payload", "payload", "payload not required", META),
        case(
            "protobuf without type url",
            "payload.type_url",
            "type_url not required",
            record(1, metadata(content_type=1)) + HELLO,
        ),
        case(
            "type url not UTF-8",
            "payload.type_url",
            "text not checked",
            META + record(99, b"\x0a\x01\xff\x12\x00"),
        ),
        case("topic not UTF-8", "records", "text not checked", record(1, b"\x12\x02\xc3\x28") + HELLO),
        case("truncated payload", "records", "short read accepted", (META + HELLO)[:-1]),
        case("truncated metadata", "records", "short read accepted", META[:-1]),
        case("truncated tag", "records", "short read accepted", META + HELLO + b"\x9a"),
        case(
            "value longer than its Any",
            "records",
            "inner length not checked",
            META + record(99, b"\x12\x06hello"),
        ),
        case("length 2^63-1", "records", "length overflows", META + b"\x9a\x06" + b"\xff" * 8 + b"\x7f"),
        case("length -1", "records", "length read as signed", META + b"\x9a\x06" + b"\xff" * 9 + b"\x01"),
        case("varint of 11 bytes", "records", "endless varint", META + HELLO + b"\x98\x03" + too_long),
        case("field number 0", "records", "field 0 accepted", META + HELLO + b"\x02\x00"),
        case("wire type 3", "records", "group accepted", META + HELLO + b"\x93\x03\x94\x03"),
        case("length of six bytes", "records", "endless length", META + b"\x9a\x06\x80\x80\x80\x80\x80\x00"),
        *(
            case(f"{name} in {part}", "records", "left to the protobuf library", record(number, data) + META + HELLO)
            for part, number in (("metadata", 1), ("extensions", 97), ("the payload", 99))
            for name, data in (
                ("group", b"\x93\x03\x94\x03"),
                ("field number 0", b"\x02\x00"),
                ("length of six bytes", b"\x92\x03\x80\x80\x80\x80\x80\x00"),
                ("tag of six bytes", b"\x90\x83\x80\x80\x80\x00\x01"),
                ("tag above 32 bits", b"\x90\x83\x80\x80\x40\x01"),
                ("truncated record", b"\x92\x03\x02a"),
            )
        ),
        case(
            "group in a label",
            "records",
            "only the first level checked",
            META + record(3, record(6, b"\x93\x03\x94\x03")) + HELLO,
        ),
        *(
            case(
                f"{name} of a recipient",
                "records",
                "only the levels above checked",
                record(2, record(6, record(9, data))) + META + HELLO,
            )
            for name, data in (("group", b"\x93\x03\x94\x03"), ("key id not UTF-8", b"\x0a\x02\xc3\x28"))
        ),
        case("signature key id not UTF-8", "records", "text not checked", record(2, b"\x4a\x01\xff") + META + HELLO),
        case("wire type 6", "records", "reserved wire type skipped", META + HELLO + b"\x96\x03"),
    ]


def traceparents() -> dict[str, list[str]]:
    """Texts for M-11; of a later version the first 55 characters count."""
    return {
        "valid": [TRACE, TRACE[:-2] + "00", TRACE[:-2] + "ff", "cc" + TRACE[2:], "cc" + TRACE[2:] + "-more"],
        "invalid": [
            "",
            TRACE.upper(),
            "ff" + TRACE[2:],
            TRACE + "-more",
            TRACE[:-1],
            "cc" + TRACE[2:] + "more",
            "00-" + "0" * 32 + TRACE[35:],
            TRACE[:36] + "0" * 16 + "-01",
            TRACE.replace("-", "_"),
            " " + TRACE[1:],
            "00-" + "g" * 32 + TRACE[35:],
            TRACE[:-2] + "0x",
            TRACE + "\n",
        ],
    }


def messages() -> dict[str, Any]:
    """Messages with what a reader sees in them, trace contexts, message ids."""
    ids = [
        {"unix_ms": ms, "random_hex": rnd.hex(), "message_id": new_message_id(ms, rnd)}
        for ms, rnd in ((0, bytes(16)), (1_700_000_000_123, bytes(range(16))), ((1 << 48) - 1, b"\xff" * 16))
    ]
    works: tuple[tuple[list[str], int], ...] = (
        (["batch", "run", "0"], 0),
        (["stream", "f\u00fcr \u65e5\u672c", "", "7"], 4096),
        (["x" * 128], (1 << 48) - 1),
    )
    repeated = [
        {"names": names, "number": number, "message_id": MessageIds(*names).take(number, 1)[0].decode()}
        for names, number in works
    ]
    return {
        "about": "Rules M-n. Keys missing in `expected` are absent in the message; `field` is what the error names. "
        "`written` is what a writer makes of `value` (as in values.json) and `fields`; in `not_written` it refuses.",
        "valid": valid(),
        "invalid": invalid(),
        "written": written(),
        "not_written": not_written(),
        "json_payloads": json_payloads(),
        "traceparents": traceparents(),
        "message_ids": ids,
        "repeated_ids": repeated,
    }
