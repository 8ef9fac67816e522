"""Large payloads in slots: the head in the lane, and the pieces in the slot (L-28)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from scripts.vectors.fixed import KEY, flipped, patched
from speed.wire.cursor import SlotHead, SlotPieces

PIECE = 65536
SLOT_KEY = sha256(KEY).digest()


def pattern(size: int) -> bytes:
    """Byte ``i`` is ``i`` modulo 251, which divides no piece."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def slot(payload: bytes, key: bytes = SLOT_KEY) -> bytes:
    """What a slot holds of a payload."""
    pieces = SlotPieces(key, len(payload))
    return b"".join(pieces.seal(index, payload) for index in range(pieces.count))


def slots() -> dict[str, Any]:
    """Heads, and payloads in pieces."""
    return {
        "about": "L-28. `heads` are plaintexts of envelopes with the flag SLOTTED. A payload of `payloads` has byte "
        "i = i modulo 251; `slot` is what its slot holds, `slot_sha256` the hash of that. `invalid_pieces` open as "
        "nothing: `hex` is read at the place of piece `index` under `key`. `choices` (L-29): the slots of a link as "
        "[number, file bytes, whether it is free], the bytes that the payload `needs`, and those that the window "
        "leaves for the free ones with the one that is taken; `slot` (0: none), how long it is then, and what is "
        "`removed` in order.",
        "heads": [
            {
                "name": name,
                "bug": bug,
                "number": number,
                "payload_bytes": size,
                "key": SLOT_KEY.hex(),
                "hex": head(number, size).hex(),
            }
            for name, bug, number, size in (
                ("smallest", "order of fields", 1, 1),
                ("last slot", "a bound off by one", 16, 65536),
                ("largest", "a size of 16 bits", 3, 67108864),
            )
        ],
        "invalid_heads": _invalid_heads(),
        "payloads": [_payload(size) for size in (1, 100, PIECE, PIECE + 1, 3 * PIECE - 1)],
        "invalid_pieces": _invalid_pieces(),
        "choices": _choices(),
    }


def head(number: int, size: int) -> bytes:
    return SlotHead(number, size, SLOT_KEY).encode()


def _invalid_heads() -> list[dict[str, str]]:
    good = head(1, 100)
    cases = {
        "empty": ("length unchecked", b""),
        "cut": ("length unchecked", good[:-1]),
        "longer": ("length unchecked", good + b"\0"),
        "slot 0": ("numbers begin at 1", patched(good, 3, b"\0")),
        "slot 17": ("any number of files", patched(good, 3, b"\x11")),
        "not zero": ("reserved bytes unchecked", patched(good, 7, b"\x01")),
        "no bytes": ("a payload without a piece", patched(good, 15, b"\0")),
        "beyond the limit": ("memory without bound", patched(good, 8, (67108865).to_bytes(8, "big"))),
    }
    return [{"name": name, "bug": bug, "hex": data.hex()} for name, (bug, data) in cases.items()]


def _payload(size: int) -> dict[str, Any]:
    data = slot(pattern(size))
    told = {"slot": data.hex()} if size <= 100 else {}
    return {
        "payload_bytes": size,
        "key": SLOT_KEY.hex(),
        "slot_bytes": len(data),
        **told,
        "slot_sha256": sha256(data).hexdigest(),
    }


def _invalid_pieces() -> list[dict[str, Any]]:
    sealed = slot(pattern(100))
    other = slot(pattern(100), sha256(OTHER_PAYLOAD).digest())

    def bad(name: str, bug: str, data: bytes, index: int = 0) -> dict[str, Any]:
        return {"name": name, "bug": bug, "key": SLOT_KEY.hex(), "index": index, "hex": data.hex()}

    return [
        bad("altered", "tag unchecked", flipped(sealed, 50)),
        bad("tag altered", "tag compared in part", flipped(sealed, 115)),
        bad("cut", "length taken from the file", sealed[:-1]),
        bad("of another payload", "what lay there before passes", other),
        bad("at another place", "pieces swapped", sealed, 1),
        bad("never written", "zeros pass", bytes(116)),
    ]


OTHER_PAYLOAD = b"another payload"


Known = tuple[int, int, bool]
"""Number, file bytes, whether it is free."""
ALL_IN_USE = tuple((number, 10, False) for number in range(1, 17))


def _choices() -> list[dict[str, Any]]:
    def taken(
        name: str, bug: str, known: tuple[Known, ...], needs: int, room: int, slot: int, length: int, *removed: int
    ) -> dict[str, Any]:
        return {
            "name": name,
            "bug": bug,
            "slots": [list(one) for one in known],
            "needs": needs,
            "room": room,
            "slot": slot,
            "file_bytes": length,
            "removed": list(removed),
        }

    far = 1 << 40
    two = ((1, 900, True), (2, 150, True))
    return [
        taken("the first", "numbers from 0", (), 100, 1000, 1, 100),
        taken("as long as needed", "made anew", ((1, 100, True),), 100, 1000, 1, 100),
        taken("the shortest that is long enough", "the first", ((1, 150, True), (2, 120, True)), 100, 1000, 2, 120),
        taken("twice as long", "a bound off by one", ((1, 200, True),), 100, 1000, 1, 200),
        taken("more than twice as long", "a giant for a dwarf", ((1, 201, True),), 100, 1000, 2, 100),
        taken("the longest grows", "the first grows", ((1, 50, True), (2, 90, True)), 100, 1000, 2, 100),
        taken("one of two equals", "order of the table", ((2, 120, True), (1, 120, True)), 100, 1000, 1, 120),
        taken("in use", "overwritten", ((1, 100, False),), 100, 1000, 2, 100),
        taken("a gap", "the number behind the last", ((1, 10, False), (3, 10, False)), 100, 1000, 2, 100),
        taken("all in use", "a number beyond", ALL_IN_USE, 100, far, 0, 0),
        taken("no number is left", "none", (*ALL_IN_USE[1:], (1, 900, True)), 100, far, 1, 100),
        taken("no room beside another", "beyond the window", two, 100, 1000, 2, 150, 1),
        taken("just room beside another", "a bound off by one", two, 100, 1050, 2, 150),
        taken(
            "the longest goes first",
            "all of them go",
            ((1, 300, True), (2, 500, True), (3, 100, True), (4, 20, True)),
            100,
            420,
            3,
            100,
            2,
        ),
        taken("cut for want of room", "counted by its payload", ((1, 190, True),), 100, 150, 1, 100),
        taken("an empty lane takes any", "nothing is sent", ((1, 50, True), (2, 60, True)), 100, 80, 2, 100, 1),
    ]
