"""Many payloads in one message (M-30)."""

from __future__ import annotations

from struct import pack
from typing import Any

from scripts.vectors.payloads import tagged
from speed.message.algorithms import MAX_BATCH_PAYLOADS
from speed.message.options import encode_batch, encode_batches, split_batch
from speed.wire.value import BATCH_TYPE, PROTOBUF_TYPE

LONGEST_KIND = "x" * 256
URL = "type.googleapis.com/google.protobuf.Timestamp"


def batches() -> dict[str, Any]:
    """What writers write, what readers read of it, and what they refuse."""
    return {
        "about": "Rule M-30. `hex` is the value of a message of the content type "
        f"{BATCH_TYPE}. `written`: `payloads` are values as in values.json, each written as it would travel alone. "
        "`read`: `parts` are the content type, the type URL and the bytes of each payload. `refused` is BAD_BATCH. "
        "`topics`: what becomes of payloads for several topics, given as pairs.",
        "written": [_written(*case) for case in _WRITTEN],
        "read": [_read(*case) for case in _READ],
        "refused": [{"bug": bug, "hex": data.hex()} for bug, data in _REFUSED],
        "topics": [_topics(*case) for case in _TOPICS],
    }


def _part(kind: str | bytes, data: bytes) -> bytes:
    kind = kind if isinstance(kind, bytes) else kind.encode()
    return pack(">I", len(kind)) + kind + pack(">I", len(data)) + data


def _batch(count: int, *parts: bytes) -> bytes:
    return pack(">I", count) + b"".join(parts)


_PART = _part("text/plain", b"a")
_WRITTEN: list[tuple[str, list[Any]]] = [
    ("no payload taken for no batch", []),
    ("one payload sent as no batch", [1]),
    ("the order of payloads lost", [3, 1, 2]),
    ("payloads given one content type", [{"a": 1}, "text", b"\x00\xff", None, [1, 2.5], True]),
    ("a length counted in characters", ["ä€"]),
    ("an empty payload left out", ["", b"", {}]),
]
_READ: list[tuple[str, bytes]] = [
    ("a content type that has no decoder refused", _batch(1, _part("application/avro", b"avro"))),
    ("the longest content type refused", _batch(1, _part(LONGEST_KIND, b"x"))),
    (
        "the type URL taken for a part of the content type",
        _batch(1, _part(f"{PROTOBUF_TYPE};type_url={URL}", b"\x08\x07")),
    ),
    ("parameters of another type taken for a type URL", _batch(1, _part("text/csv;type_url=a", b"x"))),
]
_REFUSED: list[tuple[str, bytes]] = [
    ("nothing taken for an empty batch", b""),
    ("a truncated number read", b"\x00\x00\x00"),
    ("memory allocated for a number that lies", _batch(0xFFFFFFFF, _PART)),
    ("a number above the bound believed", _batch(MAX_BATCH_PAYLOADS + 1, *(_part("x", b"") for _ in range(9)))),
    ("fewer payloads than the number says", _batch(2, _PART)),
    ("what follows the last payload passed over", _batch(1, _PART, b"\x00")),
    ("more payloads than the number says passed over", _batch(1, _PART, _PART)),
    ("a content type that is empty", _batch(1, _part("", b"abcd"))),
    ("a content type above 256 bytes", _batch(1, _part(LONGEST_KIND + "x", b"x"))),
    ("a content type read past the end", _batch(1, pack(">I", 200) + b"text/plain")),
    ("a content type that is not UTF-8", _batch(1, _part(b"\xff\xfe", b"x"))),
    ("a payload read past the end", _batch(1, _part("text/plain", b"")[:-4] + pack(">I", 2) + b"a")),
    ("a length whose sum wraps around", _batch(1, _part("text/plain", b"")[:-4] + pack(">I", 0xFFFFFFFF) + b"a")),
    ("a truncated length", _batch(1, _part("text/plain", b"")[:-2])),
    ("a batch in a batch opened", _batch(1, _part(BATCH_TYPE, _batch(0)))),
    ("a protobuf message without its type", _batch(1, _part(PROTOBUF_TYPE, b""))),
    ("a protobuf message with an empty type URL", _batch(1, _part(f"{PROTOBUF_TYPE};type_url=", b""))),
]
_TOPICS: list[tuple[str, list[tuple[str, Any]]]] = [
    ("topics sorted, and payloads mixed", [("orders.paid", 1), ("orders.made", 2), ("orders.paid", 3)]),
    ("nothing published as an empty batch", []),
]


def _written(bug: str, payloads: list[Any]) -> dict[str, Any]:
    return {"bug": bug, "payloads": tagged(payloads), "hex": bytes(encode_batch(payloads).data).hex()}


def _read(bug: str, data: bytes) -> dict[str, Any]:
    parts = [
        {"content_type": part.content_type, "type_url": part.type_url, "hex": part.data.hex()}
        for part in split_batch(memoryview(data))
    ]
    return {"bug": bug, "hex": data.hex(), "parts": parts}


def _topics(bug: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = [{"topic": topic, "hex": bytes(content.data).hex()} for topic, content in encode_batches(pairs).items()]
    return {"bug": bug, "pairs": [[topic, tagged(value)] for topic, value in pairs], "batches": made}
