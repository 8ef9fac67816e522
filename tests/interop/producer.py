"""Makes the bytes of the vectors from what they are made of: one JSON object a line, ``{"kind", "name", "hex"}``.

``speed-vectors`` in C++ and ``speed.tool.Vectors`` in Java do the same. Authenticated kinds are made with the first
accepted key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from speed.message.writing import encode_message
from speed.wire import spc
from speed.wire.cursor import Cursor, Fence, Unfinished, encode_cursor, encode_fence
from speed.wire.entry import Entry, encode_entry
from speed.wire.envelope import counter_of, generation_of
from speed.wire.seal import LinkSealer
from speed.wire.value import pack
from tests.interop.decoding import LANE_KEYS, RING, SOURCE, TARGET
from tests.vectors import load, placed, value_of

Made = tuple[str, str, bytes]


def envelopes() -> Iterator[Made]:
    for case in load("envelopes")["valid"]:
        sequence, payload, nonce = (
            int(case["sequence"], 16),
            bytes.fromhex(case["payload"]),
            bytes.fromhex(case["nonce"]),
        )
        sealer = LinkSealer(RING, SOURCE, TARGET, generation_of(sequence))
        counter = counter_of(sequence)
        sealed = sealer.seal(case["type"], case["flags"], counter, case["timestamp_ms"], payload, nonce)
        yield "envelope", case["name"], bytes(sealed)


def entries() -> Iterator[Made]:
    for case in load("entries")["valid"]:
        yield "entry", case["name"], encode_entry(entry_of(case["entry"]), RING.registry_key)


def entry_of(fields: dict[str, Any]) -> Entry:
    """The entry that a vector describes."""
    named = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    del named["node_id"]  # it follows from the name
    return Entry(**named)


def cursors() -> Iterator[Made]:
    for case in load("cursors")["cursors_valid"]:
        fields = case["cursor"]
        unfinished = tuple(Unfinished(**_numbers(placed(one))) for one in fields["unfinished"])
        cursor = Cursor(**{**_numbers(placed(fields)), "unfinished": unfinished})
        yield "cursor", case["name"], encode_cursor(cursor, LANE_KEYS[0])
    for case in load("cursors")["fences_valid"]:
        yield "fence", case["name"], encode_fence(Fence(**placed(case["fence"])), LANE_KEYS[0])


def _numbers(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with their 64-bit numbers read from hexadecimal text."""
    return {key: int(value, 16) if isinstance(value, str) else value for key, value in fields.items()}


def values() -> Iterator[Made]:
    for case in load("values")["valid"]:
        yield "value", case["name"], pack(value_of(case["value"]))


def payloads() -> Iterator[Made]:
    for case in load("payloads")["valid"]:
        fields = value_of(case["fields"])
        yield case["kind"], case["name"], _PAYLOADS[case["kind"]](fields)


def _request(fields: dict[str, Any]) -> bytes:
    whole = spc.encode_request(
        fields["requestId"],
        fields["service"],
        fields["arguments"],
        fields["caller"],
        fields["generation"],
        fields["deadline"],
        fields.get("traceparent"),
        (fields["bootId"], fields["bootDeadline"]) if "bootId" in fields else None,
    )
    return spc.encode_again(whole, fields["generation"], repeated=True) if fields.get("repeated") else whole


def _response(fields: dict[str, Any]) -> bytes:
    if fields["status"] == "SUCCESS":
        return spc.encode_success(fields["requestId"], fields["result"])
    code, message = fields["errorCode"], fields["errorMessage"]
    return spc.encode_error(fields["requestId"], code, message, fields.get("details"))


_PAYLOADS = {"request": _request, "response": _response, "control": spc.encode}


def messages() -> Iterator[Made]:
    """The messages with all metadata that a writer sets; others hold what only a reader must know."""
    for case in load("messages")["valid"]:
        expected = case["expected"]
        if case["name"] in ("bytes", "everything"):
            metadata = {key: expected[key] for key in ("topic", "namespace", "message_id", "published_at_ms")}
            yield "message", case["name"], encode_message(bytes.fromhex(expected["payload_hex"]), **metadata)


def main() -> None:
    for make in (envelopes, entries, cursors, values, payloads, messages):
        for kind, name, data in make():
            print(json.dumps({"kind": kind, "name": name, "hex": data.hex()}))


if __name__ == "__main__":
    main()
