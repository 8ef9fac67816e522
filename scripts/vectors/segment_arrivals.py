"""What a receiver makes of segments as they come (G-12, G-13, G-15, G-16)."""

from __future__ import annotations

from typing import Any

from scripts.vectors.segment_cases import BY_NAME
from speed.errors import WireError
from speed.segment import Assembler, Limits, Segment, write_segment

LIMITS = {
    "max_segmented_bytes": "payload_bytes",
    "max_reconstructions": "reconstructions",
    "max_sender_reconstructions": "sender_reconstructions",
    "max_buffered_bytes": "buffered_bytes",
    "max_sender_buffered_bytes": "sender_buffered_bytes",
}
"""Name in limits.json -> name in the code."""


class Story:
    """A receiver, and what came to it."""

    def __init__(self, name: str, bug: str, **limits: int) -> None:
        self.written: dict[str, Any] = {
            "name": name,
            "bug": bug,
            **({"limits": limits} if limits else {}),
            "arrivals": [],
        }
        self._assembler = Assembler(Limits(**{LIMITS[key]: value for key, value in limits.items()}))

    def slots(self, of: str, *slots: int, sender: str = "a", at: float = 0) -> Story:
        for slot in slots:
            data = write_segment(BY_NAME[of].segments()[slot])
            self._take({"from": sender, "at": at, "of": of, "slot": slot}, sender, data, at, of)
        return self

    def bytes(self, data: bytes, sender: str = "a", at: float = 0) -> Story:
        self._take({"from": sender, "at": at, "hex": data.hex()}, sender, data, at, "")
        return self

    def _take(self, arrival: dict[str, Any], sender: str, data: bytes, at: float, of: str) -> None:
        try:
            verdict, payload = self._assembler.receive(sender, data, at)
        except WireError as error:
            verdict, payload = error.reason, None
        if payload is not None and of:
            assert payload == BY_NAME[of].payload()
            arrival["payload"] = of
        if not at:
            del arrival["at"]
        self.written["arrivals"].append(arrival | {"verdict": verdict})


def arrivals() -> list[dict[str, Any]]:
    """All stories with their verdicts."""
    return [story.written for story in (*_losses(), *_repeats(), *_contradictions(), *_bounds())]


def _losses() -> list[Story]:
    four, wide = "a short last segment", "leopard 226+28"
    return [
        Story("in order", "parity waited for").slots(four, 0, 1, 2, 3, 4),
        Story("backwards", "an order expected").slots(four, 5, 4, 3, 2),
        Story("first segments lost", "data shards mixed up").slots(four, 4, 2, 5, 3),
        Story("last segment lost", "the padding delivered").slots(four, 0, 1, 2, 4),
        Story("last two lost", "the padding delivered").slots(four, 0, 1, 5, 4),
        Story("only parity", "a data segment needed").slots("leopard 2+2", 3, 2),
        Story("more parity than data", "shapes that the reference does not make refused").slots(
            "three and five", 7, 3, 5
        ),
        Story("one too few", "delivered with a hole").slots(four, 0, 4, 5),
        Story("XOR", "single parity transformed").slots("leopard 8+1", *range(1, 8), 8),
        Story("a parity segment alone", "the padding delivered").slots("one byte with parity", 1),
        Story("parity of nothing", "an empty payload not found").slots("empty with parity", 1),
        Story("the last copy", "k = 1 transformed instead of copied").slots("three copies of one segment", 3),
        Story("28 lost in the wide field", "the fields mixed up").slots(wide, *range(28, 254)),
        Story("last lost in the wide field", "the fields mixed up").slots(
            "short last of the wide field", *range(225), 253
        ),
        Story("31 lost of 255", "an index of 8 bits that is signed").slots("255 segments", *range(31, 255)),
        Story("zeros recovered", "trailing zeros cut off").slots("zeros at the end", 0, 1, 2, 5),
        Story("only zeros lost", "a length of 0 tried first").slots("a last segment of zeros", 0, 1, 2, 4),
        Story("all zeros", "the shortest length taken").slots("all zeros", 0, 3, 4),
        Story("one segment of zeros", "the shortest length taken").slots("one segment of zeros", 1),
        Story("no bytes", "an empty payload not delivered").slots("empty", 0),
    ]


def _repeats() -> list[Story]:
    four, other = "a short last segment", "zeros at the end"
    return [
        Story("a duplicate", "counted twice towards k").slots(four, 0, 0, 1, 1, 2, 0, 3),
        Story("a replay", "delivered twice").slots(four, 0, 1, 2, 3).slots(four, 0, 1, 2, 3, 5),
        Story("a replay of one segment", "delivered twice").slots("one byte", 0, 0),
        Story("interleaved", "one payload at a time")
        .slots(four, 0, 1)
        .slots(other, 0, 1, 2)
        .slots(four, 2, 3)
        .slots(other, 3),
        Story("two senders", "told apart by hash alone")
        .slots(four, 0, 1)
        .slots(four, 2, 3, sender="b")
        .slots(four, 2, 3)
        .slots(four, 4, 5, sender="b"),
        Story("idle too long", "kept for ever").slots(four, 0, 1, 2).slots(four, 3, at=60).slots(four, 0, 1, 2, at=61),
        Story("idle not too long", "age taken for idleness")
        .slots(four, 0)
        .slots(four, 1, at=59)
        .slots(four, 2, 3, at=118),
        Story("forgotten", "completion flags kept for ever")
        .slots("one byte", 0)
        .slots("one byte", 0, at=599)
        .slots("one byte", 0, at=600),
    ]


def _contradictions() -> list[Story]:
    four = "a short last segment"
    base = BY_NAME[four].segments()

    def changed(slot: int, **fields: Any) -> bytes:
        one = base[slot]
        parts = {
            name: getattr(one, name) for name in ("hash", "data_count", "parity_count", "index", "is_parity", "payload")
        }
        return write_segment(Segment(**{**parts, **fields}))

    return [
        Story("another data count", "the last one believed")
        .slots(four, 0)
        .bytes(changed(1, data_count=5))
        .slots(four, 1, 2, 3),
        Story("another parity count", "the last one believed")
        .slots(four, 0)
        .bytes(changed(1, parity_count=3))
        .slots(four, 1, 2, 3),
        Story("another size", "sizes mixed").slots(four, 0).bytes(changed(1, payload=bytes(63))).slots(four, 1, 2, 3),
        Story("another size of parity", "sizes mixed")
        .slots(four, 0)
        .bytes(changed(4, payload=bytes(128)))
        .slots(four, 4, 2, 3),
        Story("a last segment that is too long", "bytes beyond the shard")
        .slots(four, 0)
        .bytes(changed(3, payload=bytes(65)))
        .slots(four, 1, 2, 3),
        Story("shorter than the last", "the size taken from it")
        .slots(four, 3)
        .bytes(changed(0, payload=bytes(7)))
        .slots(four, 0, 1, 2),
        Story("other bytes in a slot", "overwritten")
        .slots(four, 0)
        .bytes(changed(0, payload=bytes(64)))
        .slots(four, 1, 2, 3),
        Story("a wrong hash", "delivered unproven").bytes(changed(0, hash=bytes(32), data_count=1, parity_count=0)),
        Story("wrong bytes", "delivered unproven, or never again")
        .bytes(changed(0, payload=bytes(64)))
        .slots(four, 1, 2, 3)
        .slots(four, 0, 1, 2, 3),
        Story("wrong bytes and parity", "delivered unproven").bytes(changed(0, payload=bytes(64))).slots(four, 1, 2, 4),
        Story("nonsense between", "the reconstruction spoilt").slots(four, 0).bytes(b"\x00").slots(four, 1, 2, 3),
    ]


def _bounds() -> list[Story]:
    four, other, third = "a short last segment", "zeros at the end", "all zeros"
    return [
        Story("too large", "memory for a size that is claimed", max_segmented_bytes=192)
        .slots(four, 0)
        .slots(third, 0, 1, 2),
        Story("too large alone", "no bound for one segment", max_segmented_bytes=63).slots("a segment", 0),
        Story("the sender's oldest goes", "a newer one goes", max_sender_reconstructions=2)
        .slots(four, 0)
        .slots(other, 0)
        .slots(four, 1)
        .slots(third, 0)
        .slots(four, 2, 3)
        .slots(other, 1, 2, 3, 0),
        Story("others keep theirs", "the oldest of all goes", max_reconstructions=3, max_sender_reconstructions=3)
        .slots(four, 0, 1, 2)
        .slots(four, 0, sender="b")
        .slots(other, 0, sender="b")
        .slots(third, 0, sender="b")
        .slots("leopard 3+2", 0, sender="b")
        .slots(four, 3),
        Story("bytes of the sender", "only payloads counted", max_sender_buffered_bytes=192)
        .slots(four, 0, 1)
        .slots(other, 0, 1)
        .slots(four, 2)
        .slots(other, 2),
        Story("no room alone", "everything else evicted first", max_sender_buffered_bytes=130)
        .slots(other, 0)
        .slots(four, 0, 1, 2),
        Story("bytes in total", "the one who holds less evicted", max_buffered_bytes=256)
        .slots(four, 0, sender="b")
        .slots(four, 0, 1)
        .slots(other, 0, 1)
        .slots(four, 1, 2, 3, sender="b"),
    ]
