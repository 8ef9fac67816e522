"""Descriptions and segments of one lane of a journal (J-2 to J-6)."""

from __future__ import annotations

from typing import Any

from scripts.vectors.fixed import ACCEPTED, FOREIGN, NONCE, OLD, RING, SOURCE, TIME, flipped, patched
from speed.wire.envelope import make_sequence
from speed.wire.journal import BLOCK_HEADER_BYTES, Entry, SegmentKeys, Subject, seal_description
from speed.wire.seal import Keyring

SUBJECT = Subject("topic", "orders.created", SOURCE)
LANE = RING.journal_id(SUBJECT.name())
FIRST = 40


def entry(number: int, message: bytes, *, later_ms: int = 0, flags: int = 0) -> Entry:
    return Entry(make_sequence(3, number), TIME + later_ms, flags, message)


def block(
    first: int, *entries: Entry, ring: Keyring = RING, lane: bytes = LANE, segment: int = FIRST, salt: int = 0
) -> bytes:
    """``salt`` makes the nonce one of its own."""
    return SegmentKeys(ring, lane, segment).seal(first, entries, NONCE[:-1] + bytes([salt]))


def journal() -> dict[str, Any]:
    """The lane of events ``orders.created`` of analytics."""
    one = block(40, entry(5, b"first"), entry(7, b"", later_ms=2, flags=1), salt=1)
    two = block(42, entry(8, b"third", later_ms=9), salt=2)
    seen = [
        {"offset": 40, "sequence": f"{make_sequence(3, 5):016x}", "ms": TIME, "flags": 0, "message": b"first".hex()},
        {"offset": 41, "sequence": f"{make_sequence(3, 7):016x}", "ms": TIME + 2, "flags": 1, "message": ""},
        {
            "offset": 42,
            "sequence": f"{make_sequence(3, 8):016x}",
            "ms": TIME + 9,
            "flags": 0,
            "message": b"third".hex(),
        },
    ]

    def ends(name: str, bug: str, data: bytes, count: int, ended: str) -> dict[str, Any]:
        return {
            "name": name,
            "bug": bug,
            "hex": data.hex(),
            "records": seen[:count],
            "end": FIRST + count,
            "ended": ended,
        }

    other = RING.journal_id(SUBJECT._replace(source="etl.1").name())
    return {
        "about": "J-2 to J-6. `lane` is the lane's id; each segment's name has offset `first`.",
        "accepted_keys": ACCEPTED,
        "lane": LANE.hex(),
        "first": FIRST,
        "subject": SUBJECT._asdict(),
        "valid": _valid(),
        "invalid": _invalid(),
        "segments": [
            ends("empty", "an empty segment taken for damage", b"", 0, "clean"),
            ends("two blocks", "field order", one + two, 3, "clean"),
            ends("cut in the header", "half a header taken for damage", one + two[:63], 2, "torn"),
            ends("cut in the body", "half a block read", one + two[:-1], 2, "torn"),
            ends("zeros", "what power cut off taken for damage", one + bytes(200), 2, "torn"),
            ends("length raised", "damage taken for a cut", one + patched(two, 44, b"\x00\x00\x10\x1d"), 2, "damaged"),
            ends("bit of the ciphertext", "tag unchecked", one + flipped(two, BLOCK_HEADER_BYTES), 2, "damaged"),
            ends("bit of the tag", "tag cut short", one + flipped(two, len(two) - 1), 2, "damaged"),
            ends("garbage behind", "garbage cut off", one + b"\x01" * 64, 2, "damaged"),
            ends("same block twice", "offsets unchecked", one + one, 2, "damaged"),
            ends(
                "block of another segment", "one key a lane", one + block(42, entry(8, b"x"), segment=0), 2, "damaged"
            ),
            ends("block of another lane", "one key for all", one + block(42, entry(8, b"x"), lane=other), 2, "damaged"),
            ends(
                "foreign key", "key tried", one + block(42, entry(8, b"x"), ring=Keyring((FOREIGN,))), 2, "unknown key"
            ),
        ],
    }


def _valid() -> list[dict[str, Any]]:
    older = Keyring((OLD,))
    return [
        {"name": "description", "bug": "basic form", "hex": seal_description(SUBJECT, LANE, RING, NONCE).hex()},
        {
            "name": "older key",
            "bug": "only the first key opens",
            "hex": seal_description(SUBJECT, LANE, older, NONCE).hex(),
        },
    ]


def _invalid() -> list[dict[str, Any]]:
    good = seal_description(SUBJECT, LANE, RING, NONCE)

    def bad(name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": data.hex()}

    def sealed(subject: Subject) -> bytes:
        return seal_description(subject, LANE, RING, NONCE)

    return [
        bad("empty", "length unchecked", b""),
        bad("cut", "tag optional", good[:-1]),
        bad("magic", "magic unchecked", patched(good, 0, b"SPJB")),
        bad("version", "version unchecked", patched(good, 4, b"\x02")),
        bad("reserved", "reserved bytes unchecked", patched(good, 7, b"\x01")),
        bad("bit flipped", "tag unchecked", flipped(good, 30)),
        bad("other lane", "description moved", seal_description(SUBJECT, bytes(16), RING, NONCE)),
        bad("too long", "length unbounded", sealed(SUBJECT._replace(subject="x" * 1100))),
        bad("unknown kind", "kind unchecked", sealed(SUBJECT._replace(kind="queue"))),
        bad("pattern for a topic", "subject unchecked", sealed(SUBJECT._replace(subject="orders.*"))),
        bad("path for a source", "name unchecked", sealed(SUBJECT._replace(source="../x"))),
    ]
