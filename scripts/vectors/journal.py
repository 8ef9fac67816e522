"""Descriptions, ends, lanes removed, segments: recorded, rewritten, sealed anew (J-2 to J-6, J-12, J-14 to J-16)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from scripts.vectors.fixed import ACCEPTED, FOREIGN, KEY, NONCE, OLD, RING, SOURCE, TIME, flipped, patched
from speed.wire.envelope import make_sequence
from speed.wire.journal import (
    BLOCK_HEADER_BYTES,
    BlockEntry,
    Description,
    Subject,
    VolumeKeys,
    parse_block_header,
    seal_description,
    seal_end,
    seal_removed,
)
from speed.wire.seal import Keyring

SUBJECT = Subject("topic", "orders.created", SOURCE)
LANE = bytes(range(0x60, 0x70))
BEFORE = bytes(range(0x70, 0x80))
FIRST = 40


def entry(number: int, message: bytes, *, later_ms: int = 0, flags: int = 0) -> BlockEntry:
    return BlockEntry(make_sequence(3, number), TIME + later_ms, flags, message)


def block(
    first: int, *entries: BlockEntry, ring: Keyring = RING, lane: bytes = LANE, segment: int = FIRST, salt: int = 0
) -> bytes:
    """``salt`` makes the nonce one of its own."""
    return VolumeKeys(ring, lane, segment).seal(first, entries, NONCE[:-1] + bytes([salt]))


def rewritten(first: int, kept: dict[int, BlockEntry], salt: int) -> bytes:
    """A block that leaves out all offsets between those that are kept."""
    keys = VolumeKeys(RING, LANE, FIRST)
    return keys.seal_kept(first, list(kept), list(kept.values()), NONCE[:-1] + bytes([salt]))


def reheaded(block: bytes, at: int, value: bytes) -> bytes:
    """A block with another header, which its CRC fits."""
    header = patched(block, at, value)[:60]
    return header + crc32(header).to_bytes(4, "big") + block[BLOCK_HEADER_BYTES:]


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

    def ends(
        name: str, bug: str, data: bytes, count: int, ended: str, *, offsets: Sequence[int] = (40, 41, 42)
    ) -> dict[str, Any]:
        found = [{**record, "offset": offset} for record, offset in zip(seen[:count], offsets, strict=False)]
        end = offsets[count - 1] + 1 if count else FIRST
        return {"name": name, "bug": bug, "hex": data.hex(), "records": found, "end": end, "ended": ended}

    few = rewritten(40, {44: entry(5, b"first"), 49: entry(7, b"", later_ms=2, flags=1)}, salt=3)
    last = rewritten(50, {65: entry(8, b"third", later_ms=9)}, salt=4)

    other = BEFORE
    old = block(40, entry(5, b"first"), entry(7, b"", later_ms=2, flags=1), ring=Keyring((OLD,)), salt=1)
    anew = _anew(old)
    return {
        "about": "J-2 to J-6, J-12, J-14 to J-16. `lane` is the lane's id; each segment's name has offset `first`.",
        "accepted_keys": ACCEPTED,
        "lane": LANE.hex(),
        "first": FIRST,
        "subject": SUBJECT._asdict(),
        "valid": _valid(),
        "invalid": _invalid(),
        "ends_valid": _ends(),
        "ends_invalid": _bad_ends(),
        "removed_valid": _removed(),
        "removed_invalid": _bad_removed(),
        "anew": [
            {"name": "older key", "bug": "another nonce", "hex": old.hex(), "anew": anew.hex()},
            {"name": "once more", "bug": "version counted on", "hex": _anew(one, OLD).hex(), "anew": anew.hex()},
            {"name": "rewritten", "bug": "version of what was recorded", "hex": few.hex(), "anew": _anew(few).hex()},
        ],
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
            ends("rewritten", "left out offsets taken for damage", few + last, 3, "clean", offsets=(44, 49, 65)),
            ends(
                "rewritten, nothing left out",
                "version 3 refused",
                rewritten(40, {40: entry(5, b"first")}, salt=5),
                1,
                "clean",
            ),
            ends(
                "rewritten before a torn block",
                "the end without what is left out",
                few + last[:-1],
                2,
                "torn",
                offsets=(44, 49),
            ),
            ends("more left out", "number in the header not authentic", reheaded(few, 7, b"\x09"), 0, "damaged"),
            ends("rewritten, version taken back", "number not checked", reheaded(few, 4, b"\1"), 0, "damaged"),
            ends("version 1 that leaves out", "number not checked", reheaded(one, 7, b"\1"), 0, "damaged"),
            ends("version 2 that leaves out", "number not checked", reheaded(anew, 7, b"\1"), 0, "damaged"),
            ends("sealed anew, and recorded behind it", "version 2 refused", anew + two, 3, "clean"),
            ends(
                "rewritten, then sealed anew", "version 4 refused", _anew(few) + last, 3, "clean", offsets=(44, 49, 65)
            ),
            ends("older key", "only the first key opens", old + two, 3, "clean"),
            ends("sealed anew, version taken back", "one key for both", reheaded(anew, 4, b"\1"), 0, "damaged"),
            ends("recorded, version put forward", "one key for both", reheaded(one, 4, b"\2"), 0, "damaged"),
            ends("version of tomorrow", "version unchecked", reheaded(one, 4, b"\5"), 0, "damaged"),
            ends(
                "foreign key", "key tried", one + block(42, entry(8, b"x"), ring=Keyring((FOREIGN,))), 2, "unknown key"
            ),
        ],
    }


def _anew(data: bytes, first: bytes = KEY) -> bytes:
    """A block as it is sealed with another key."""
    ring = Keyring((first, *(key for key in (KEY, OLD) if key != first)))
    return VolumeKeys(ring, LANE, FIRST).seal_anew(parse_block_header(data), data)


def _described(subject: Subject = SUBJECT, ring: Keyring = RING, lane: bytes = LANE, **said: Any) -> bytes:
    return seal_description(Description(subject, **said), lane, ring, NONCE)


def _bad(name: str, bug: str, data: bytes) -> dict[str, Any]:
    return {"name": name, "bug": bug, "hex": data.hex()}


def _valid() -> list[dict[str, Any]]:
    def good(name: str, bug: str, data: bytes, *, after: bytes = b"", has_end: bool = True) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": data.hex(), "after": after.hex(), "has_end": has_end}

    return [
        good("description", "basic form", _described()),
        good("older key", "only the first key opens", _described(ring=Keyring((OLD,)))),
        good("after a lane that was cut", "the other lane forgotten", _described(after=BEFORE), after=BEFORE),
        good("version 1", "journals of before refused", _described(has_end=False), has_end=False),
    ]


def _invalid() -> list[dict[str, Any]]:
    good = _described()
    return [
        _bad("empty", "length unchecked", b""),
        _bad("cut", "tag optional", good[:-1]),
        _bad("magic", "magic unchecked", patched(good, 0, b"SPJB")),
        _bad("version", "version unchecked", patched(good, 4, b"\x03")),
        _bad("version taken back", "version not authentic", patched(good, 4, b"\x01")),
        _bad("reserved", "reserved bytes unchecked", patched(good, 7, b"\x01")),
        _bad("bit flipped", "tag unchecked", flipped(good, 30)),
        _bad("other lane", "description moved", _described(lane=bytes(16))),
        _bad("too long", "length unbounded", _described(SUBJECT._replace(subject="x" * 1100))),
        _bad("unknown kind", "kind unchecked", _described(SUBJECT._replace(kind="queue"))),
        _bad("pattern for a topic", "subject unchecked", _described(SUBJECT._replace(subject="orders.*"))),
        _bad("path for a source", "name unchecked", _described(SUBJECT._replace(source="../x"))),
        _bad("after no lane", "length of an id unchecked", _described(after=b"short")),
    ]


def _ends() -> list[dict[str, Any]]:
    return [
        {"name": "end", "bug": "basic form", "hex": seal_end(43, LANE, RING).hex(), "offset": 43},
        {"name": "nothing", "bug": "0 taken for none", "hex": seal_end(0, LANE, RING).hex(), "offset": 0},
        {"name": "older key", "bug": "first key only", "hex": seal_end(43, LANE, Keyring((OLD,))).hex(), "offset": 43},
    ]


def _bad_ends() -> list[dict[str, Any]]:
    good = seal_end(43, LANE, RING)
    return [
        _bad("empty", "length unchecked", b""),
        _bad("zeros", "what power cut off taken for 0", bytes(len(good))),
        _bad("cut", "MAC optional", good[:-1]),
        _bad("longer", "length unchecked", good + b"\0"),
        _bad("magic", "magic unchecked", patched(good, 3, b"R")),
        _bad("version", "version unchecked", patched(good, 4, b"\x02")),
        _bad("reserved", "reserved bytes unchecked", patched(good, 7, b"\x01")),
        _bad("earlier", "offset not authentic", patched(good, 23, b"\x2a")),
        _bad("bit of the MAC", "MAC cut short", flipped(good, len(good) - 1)),
        _bad("other lane", "end moved", seal_end(43, BEFORE, RING)),
    ]


def _removed() -> list[dict[str, Any]]:
    lanes = {LANE: 43, BEFORE: 0}

    def good(name: str, bug: str, lanes: dict[bytes, int]) -> dict[str, Any]:
        listed = [[lane.hex(), offset] for lane, offset in lanes.items()]
        return {"name": name, "bug": bug, "hex": seal_removed(lanes, RING).hex(), "lanes": listed}

    return [good("two lanes", "field order", lanes), good("none", "empty list refused", {})]


def _bad_removed() -> list[dict[str, Any]]:
    good = seal_removed({LANE: 43}, RING)
    return [
        _bad("empty", "length unchecked", b""),
        _bad("cut", "MAC optional", good[:-1]),
        _bad("magic", "magic unchecked", patched(good, 3, b"E")),
        _bad("version", "version unchecked", patched(good, 4, b"\x02")),
        _bad("bit of an id", "ids not authentic", flipped(good, 16)),
        _bad("bit of an offset", "offsets not authentic", flipped(good, 39)),
        _bad("an end", "one key for both", seal_end(43, LANE, RING)),
    ]
