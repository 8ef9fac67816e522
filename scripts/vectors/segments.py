"""Segments, parity and reconstruction (G-n)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from scripts.vectors.segment_arrivals import arrivals
from scripts.vectors.segment_cases import CASES, Case
from speed.segment import keccak256, read_segment, write_segment
from speed.wire.records import varint

ABOUT = (
    "Rules G-n. A payload has `rows` rows of `row_bytes` bytes, of which the first `bytes` count, and zeros from "
    "`zeros_from` on. `sizes`: the segment size that is asked for, and the one `used` (absent: it is refused). "
    "Row i, byte j: x = (i * 2654435761 + j * 40503 + 12345) mod 2^32; x ^= x >> 15; "
    "x = (x * 2246822519) mod 2^32; x ^= x >> 13; byte = x and 255. `cut`: `segments_sha256` is of all segments one "
    "behind the other, data first; `segments` are they; `parity` is the parity shards. `reference` marks shapes whose "
    "parity was compared with that of Leopard-RS. `arrivals`: segments come in this order, `at` so many seconds (0 if "
    "absent), slot `slot` of the cut `of`, or `hex`; `verdict` is that of G-13 or the code of the refusal; `payload` "
    "names the cut whose payload is then delivered. `limits` are others than those of limits.json."
)
_PAYLOAD = b"\x22\x05hello"


def segments() -> dict[str, Any]:
    """The whole file."""
    return {
        "about": ABOUT,
        "hashes": [
            {"name": name, "bug": bug, "hex": data.hex(), "hash": keccak256(data).hex()} for name, bug, data in HASHED
        ],
        "sizes": [_size(*case) for case in SIZES],
        "cut": [_cut(case) for case in CASES],
        "also_read": [_read(name, bug, data) for name, bug, data in ALSO_READ],
        "invalid": list(_invalid()),
        "arrivals": arrivals(),
    }


HASHED = (
    ("nothing", "the padding of SHA-3 used", b""),
    ("abc", "lanes in the wrong byte order", b"abc"),
    ("one byte short of a block", "both padding bytes in one place", bytes(range(135))),
    ("a block", "padding forgotten where the data fills a block", bytes(range(136))),
    ("two blocks and a bit", "state not carried on", bytes(range(256)) + bytes(17)),
)


def _cut(case: Case) -> dict[str, Any]:
    written = [write_segment(segment) for segment in case.segments()]
    first = read_segment(written[0])
    return {
        "name": case.name,
        "bug": case.bug,
        "segment_size": case.segment_size,
        "payload": {"rows": case.rows, "row_bytes": case.row_bytes, "bytes": case.bytes}
        | ({} if case.zeros_from is None else {"zeros_from": case.zeros_from}),
        "data_segment_count": first.data_count,
        "parity_segment_count": first.parity_count,
        "hash": first.hash.hex(),
        "reference": case.reference,
        "segments_sha256": sha256(b"".join(written)).hexdigest(),
        "parity": [bytes(segment.payload).hex() for segment in case.segments() if segment.is_parity],
        **({"segments": [data.hex() for data in written]} if len(written) < 5 else {}),
    }


SIZES = (
    ("no multiple of 64, with parity", "refused, or cut at what parity cannot be made of", 1000, 0.125, 960),
    ("a multiple of 64, with parity", "one unit too few", 960, 0.125, 960),
    ("the least, with parity", "cut at 0", 127, 1, 64),
    ("below the least, with parity", "cut at 0", 63, 0.125, None),
    ("no multiple of 64, without parity", "cut down though nothing asks for it", 1000, 0, 1000),
    ("the least, without parity", "64 asked for", 1, 0, 1),
    ("nothing", "a size of 0 taken", 0, 0, None),
)
"""Segment sizes that are asked for, and at which a payload is cut (G-4)."""


def _size(name: str, bug: str, asked: int, parity_rate: float, used: int | None) -> dict[str, Any]:
    return {"name": name, "bug": bug, "asked": asked, "parity_rate": parity_rate} | ({"used": used} if used else {})


def _read(name: str, bug: str, data: bytes) -> dict[str, Any]:
    segment = asdict(read_segment(data))
    fields = {
        key: bytes(value).hex() if isinstance(value, bytes | memoryview) else value for key, value in segment.items()
    }
    return {"name": name, "bug": bug, "hex": data.hex(), "segment": fields}


def form(
    digest: bytes = bytes(range(32)),
    data: tuple[int, int] = (0, 2),
    parity: tuple[int, int] = (0, 0),
    is_parity: int = 0,
    payload: bytes = _PAYLOAD,
) -> bytes:
    """The bytes of a segment, valid or not; the numbers are (index, count), the payload a whole record."""
    numbers = {2: data[0], 3: data[1], 5: parity[0], 6: parity[1], 7: is_parity}
    record = {field: varint(field << 3) + varint(value) for field, value in numbers.items() if value}
    head = b"\x0a" + varint(len(digest)) + digest
    return head + record.get(2, b"") + record.get(3, b"") + payload + b"".join(record.get(at, b"") for at in (5, 6, 7))


_SHARD = b"\x22\x40" + bytes(64)
ALSO_READ = (
    ("fields in another order", "fields expected in the order of their numbers", form()[34:] + form()[:34]),
    ("an unknown field", "unknown fields refused", form() + b"\x4a\x03abc"),
    ("unordered", "what comes behind it waits all the same", form() + b"\x40\x01"),
    ("zeros written", "a field that is 0 refused because a writer leaves it out", form() + b"\x28\x00\x30\x00\x38\x00"),
    ("a field twice", "the first taken, not the last", form() + b"\x10\x01"),
    ("a hash twice", "two hashes joined", b"\x0a\x01a" + form()),
    (
        "a bool of 64 bits",
        "only the low 32 bits of a bool looked at",
        form(parity=(0, 1), payload=_SHARD) + b"\x38\x80\x80\x80\x80\x10",
    ),
    (
        "a number of 64 bits",
        "a number above 2^32 refused, where protobuf keeps its low 32 bits",
        form(data=(1 << 32 | 1, 2)),
    ),
    ("a field of another wire type", "an unexpected wire type refused instead of skipped", form() + b"\x12\x02ab"),
    ("an empty payload", "a payload of no bytes refused", form(data=(0, 1), payload=b"")),
    ("255 segments", "254 taken for the most", form(data=(0, 200), parity=(0, 55))),
)


def _invalid() -> Iterator[dict[str, Any]]:
    for name, bug, field, data in INVALID:
        yield {"name": name, "bug": bug, "hex": data.hex(), "error": "BAD_SEGMENT", "field": field}


INVALID = (
    ("nothing", "an empty envelope taken for a segment", "entire_message_hash", b""),
    ("truncated", "bytes beyond the end read", "records", form()[:-1]),
    (
        "a length beyond the end",
        "memory reserved for a length that is not there",
        "records",
        form()[:-7] + b"\x22\xff\xff\xff\xff\x07",
    ),
    ("a group", "a group skipped instead of refused", "records", form() + b"\x43\x44"),
    ("field number 0", "a field number that none has", "records", form() + b"\x00\x00"),
    ("no hash", "a missing hash read as zeros", "entire_message_hash", form()[34:]),
    ("a hash of 31 bytes", "any length taken", "entire_message_hash", form(bytes(31))),
    ("a hash of 33 bytes", "a longer hash cut", "entire_message_hash", form(bytes(33))),
    ("no data segments", "a division by 0", "data_segment_count", form(data=(0, 0))),
    (
        "no data segments but parity",
        "parity of nothing",
        "data_segment_count",
        form(data=(0, 0), parity=(0, 1), is_parity=1, payload=_SHARD),
    ),
    ("256 segments", "256 allowed: the source says both", "parity_segment_count", form(data=(0, 256))),
    ("256 with parity", "only data segments counted", "parity_segment_count", form(data=(0, 228), parity=(0, 28))),
    (
        "counts that overflow",
        "k + m computed in 32 bits",
        "parity_segment_count",
        form(data=(0, 2), parity=(0, (1 << 32) - 1)),
    ),
    ("parity without a count", "an index into no shards", "parity_segment_count", form(is_parity=1, payload=_SHARD)),
    ("index = count", "one beyond the last", "data_segment_index", form(data=(2, 2))),
    (
        "a huge index",
        "an index that is negative as a signed number",
        "data_segment_index",
        form(data=((1 << 32) - 1, 2)),
    ),
    (
        "parity index = count",
        "one beyond the last parity",
        "parity_segment_index",
        form(parity=(1, 1), is_parity=1, payload=_SHARD),
    ),
    (
        "parity with a data index",
        "a combination that is not permitted",
        "data_segment_index",
        form(data=(1, 2), parity=(0, 1), is_parity=1, payload=_SHARD),
    ),
    ("data with a parity index", "a combination that is not permitted", "parity_segment_index", form(parity=(1, 2))),
    ("an empty segment of two", "a slot filled with nothing", "payload", form(payload=b"")),
    ("empty parity", "a shard of no bytes", "payload", form(parity=(0, 1), is_parity=1, payload=b"")),
    (
        "parity of 65 bytes",
        "a shard that is no whole number of units",
        "payload",
        form(parity=(0, 1), is_parity=1, payload=b"\x22\x41" + bytes(65)),
    ),
)
