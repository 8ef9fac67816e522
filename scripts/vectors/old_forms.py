"""Messages as they were before there was an envelope (M-36), taken over (M-39), and beside envelopes (M-40)."""

from __future__ import annotations

from typing import Any

from speed.message import old_forms as forms
from speed.message.old_forms import SourcePosition, old_form, take_over
from speed.message.writing import encode_message

ENVELOPE = encode_message(
    b"hello", topic="orders.created", namespace="default", message_id="m-1", published_at_ms=1_697_200_000_000
)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def old_forms() -> dict[str, Any]:
    """Each case with what a reader makes of it; null where it is no message of that form."""
    return {
        "about": "Rules M-36, M-39, M-40. `headers` are texts; `value_hex` are bytes; `text` and `row` are JSON. "
        "`expected` is null where the reader of that form does not recognise it. `payload_hex` or `payload` is what "
        "was found. `beside`: an envelope was published with it.",
        "kafka": [_kafka(*case) for case in _KAFKA],
        "nats": [_nats(*case) for case in _NATS],
        "redis": [_redis(*case) for case in _REDIS],
        "postgresql": [_row(*case) for case in _ROWS],
        "taken_over": [_taken_over(*case) for case in _TAKEN_OVER],
        "both_forms": [_both(*case) for case in _BOTH],
        "envelopes": [
            {"bug": "an envelope taken for an old form", "hex": ENVELOPE.hex(), "is_envelope": True},
            {"bug": "text taken for an envelope", "hex": b'{"payload": 1}'.hex(), "is_envelope": False},
            {"bug": "an envelope without its payload", "hex": ENVELOPE[:-9].hex(), "is_envelope": False},
            {"bug": "nothing at all", "hex": "", "is_envelope": False},
        ],
    }


_KAFKA: list[tuple[str, dict[str, str], bytes]] = [
    (
        "a header left out",
        {"schema-id": "123", "correlation-id": "abc-456", "timestamp": "1697200000", "schema-version": "v2"},
        b"raw",
    ),
    ("a trace that is none of W3C lost", {"trace-id": "trace-123"}, b"\x00\xff"),
    ("a traceparent kept as plain text", {"trace-id": TRACE}, b""),
    ("milliseconds taken for seconds", {"timestamp": "1697200000123"}, b"raw"),
    ("a time that is none", {"timestamp": "yesterday"}, b"raw"),
    ("the new headers taken for old ones", {"prism-message-id": "m-1", "prism-topic": "orders"}, b"raw"),
    ("any record taken for an old one", {}, b"raw"),
    ("a message beside its envelope taken over", {"timestamp": "1697200000", "prism-message-id": "m-1"}, b"raw"),
]
_NATS: list[tuple[str, dict[str, str], bytes]] = [
    (
        "a header left out",
        {"Nats-Msg-Id": "xyz-789", "X-Schema-URL": "github.com/acme/orders", "X-Trace-ID": "trace-123"},
        b"raw",
    ),
    ("names of headers compared with their case", {"nats-msg-id": "xyz-789"}, b"raw"),
    ("an id that no envelope takes", {"Nats-Msg-Id": "x" * 1000}, b"raw"),
    ("any message taken for an old one", {"Content-Type": "text/plain"}, b"raw"),
]
_REDIS: list[tuple[str, str]] = [
    (
        "a member of meta left out",
        '{"meta": {"schema": "v2", "ts": 1697200000, "trace_id": "t-1"}, "payload": {"a": 1}}',
    ),
    ("meta asked for", '{"payload": [1, "two", null]}'),
    ("a payload of nothing taken for none", '{"payload": null}'),
    ("a fraction of a second lost", '{"meta": {"ts": 1697200000.25}, "payload": 1}'),
    ("a member of its own taken for the form", '{"payload": 1, "amount": 2}'),
    ("no payload", '{"meta": {"schema": "v2"}}'),
    ("meta that is no map", '{"meta": "v2", "payload": 1}'),
    ("a list", "[1]"),
    ("no JSON", "payload"),
    ("a boolean taken for a time", '{"meta": {"ts": true}, "payload": 1}'),
    ("a text beside its envelope taken over", '{"meta": {"message_id": "m-1", "ts": 1697200000}, "payload": 1}'),
    ("an empty id taken for one", '{"meta": {"message_id": ""}, "payload": 1}'),
]
_ROWS: list[tuple[str, dict[str, Any]]] = [
    ("a column left out", {"topic": "orders", "payload": {"a": 1}, "metadata": {"schema_version": "v2"}}),
    ("columns that the database adds", {"id": 7, "topic": "orders", "payload": 1, "metadata": None}),
    ("a number taken for no version", {"topic": "orders", "payload": 1, "metadata": {"schema_version": 2}}),
    ("the new table taken for the old one", {"id": 7, "topic": "orders", "envelope": {}, "consumed": False}),
    ("metadata that is no map", {"topic": "orders", "payload": 1, "metadata": "v2"}),
    ("a topic that is no text", {"topic": 7, "payload": 1, "metadata": {}}),
    ("a row beside its envelope taken over", {"topic": "orders", "payload": 1, "metadata": {"message_id": "m-1"}}),
]


_TAKEN_OVER: list[tuple[str, SourcePosition, bytes, dict[str, str]]] = [
    (
        "an id made anew each time",
        SourcePosition("redis", "orders.created", "1697200000123-0", 1_697_200_000_123),
        b'{"payload": {"a": 1}}',
        {},
    ),
    (
        "the position left out of the id",
        SourcePosition("redis", "orders.created", "1697200000123-1", 1_697_200_000_123),
        b'{"payload": {"a": 1}}',
        {},
    ),
    (
        "the time of the place put before that of the message",
        SourcePosition("kafka", "orders.created", "0:17", 1_697_200_000_999),
        b"raw",
        {"timestamp": "1697200000", "correlation-id": "abc-456"},
    ),
    (
        "a time that nobody tells taken from the clock",
        SourcePosition("kafka", "orders", "1:0"),
        b"raw",
        {"schema-id": "7"},
    ),
    (
        "an id that the message has made anew",
        SourcePosition("nats", "orders.created", "ORDERS:5", 1_697_200_000_123),
        b"raw",
        {"Nats-Msg-Id": "xyz-789"},
    ),
]
_BOTH: list[tuple[str, str, dict[str, Any]]] = [
    ("a text wrapped in JSON", "kafka", {"payload": "hello"}),
    ("the message id not told", "kafka", {"payload": {"a": 1}, "correlation_id": "c-1", "traceparent": TRACE}),
    ("bytes changed", "nats", {"payload": b"\x00\xff"}),
    ("the time in seconds", "redis", {"payload": {"a": 1}, "schema": {"schema_version": "v2"}}),
    ("the version of the schema lost", "postgresql", {"payload": [1], "schema": {"schema_version": "v2"}}),
]
_READ = {"kafka": forms.of_kafka, "nats": forms.of_nats}


def _taken_over(bug: str, place: SourcePosition, data: bytes, headers: dict[str, str]) -> dict[str, Any]:
    read, said = _READ.get(place.backend), {name: text.encode() for name, text in headers.items()}
    old = read(data, said) if read else forms.of_redis(data)
    assert old is not None
    told = {"backend": place.backend, "topic": place.topic, "position": place.position}
    envelope = take_over(old, data, place, "default").envelope
    found = {
        "stored_at_ms": place.stored_at_ms,
        "headers": headers,
        "data_hex": data.hex(),
        "envelope_hex": envelope.hex(),
    }
    return {"bug": bug, **told, **found}


def _both(bug: str, backend: str, told: dict[str, Any]) -> dict[str, Any]:
    head = {
        "topic": "orders.created",
        "namespace": "default",
        "message_id": "m-1",
        "published_at_ms": 1_697_200_000_123,
    }
    envelope = encode_message(**told, **head)
    old = old_form(backend, envelope)
    return {
        "bug": bug,
        "form": backend,
        "envelope_hex": envelope.hex(),
        "data_hex": old.data.hex(),
        "headers": dict(old.headers),
    }


def _kafka(bug: str, headers: dict[str, str], value: bytes) -> dict[str, Any]:
    found = forms.of_kafka(value, {name: text.encode() for name, text in headers.items()})
    return {"bug": bug, "headers": headers, "value_hex": value.hex(), "expected": _told(found)}


def _nats(bug: str, headers: dict[str, str], data: bytes) -> dict[str, Any]:
    found = forms.of_nats(data, {name: text.encode() for name, text in headers.items()})
    return {"bug": bug, "headers": headers, "value_hex": data.hex(), "expected": _told(found)}


def _redis(bug: str, text: str) -> dict[str, Any]:
    return {"bug": bug, "text": text, "expected": _told(forms.of_redis(text.encode()))}


def _row(bug: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"bug": bug, "row": row, "expected": _told(forms.of_postgresql(row))}


def _told(found: forms.OldMessage | None) -> dict[str, Any] | None:
    if found is None:
        return None
    metadata = dict(found.metadata)
    extensions = {name: value.hex() for name, value in metadata.pop("extensions", {}).items()}
    is_bytes = isinstance(found.payload, bytes)
    payload = {"payload_hex": found.payload.hex()} if is_bytes else {"payload": found.payload}
    return {**payload, "metadata": metadata, "extensions_hex": extensions, "schema": found.schema} | (
        {"beside": True} if found.is_duplicate else {}
    )
