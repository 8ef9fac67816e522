"""Payloads and how they are cut: shapes of the reference's library, and those that find mistakes (G-4 to G-10)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from speed.segment import Segment
from speed.segment.form import Memory
from speed.segment.parity import Shape, cut


@dataclass(frozen=True)
class Case:
    """A payload made by the formula of the file, and its shape."""

    name: str
    bug: str
    rows: int
    row_bytes: int
    bytes: int
    parity: int
    segment_size: int
    zeros_from: int | None = None
    reference: bool = False

    def payload(self) -> bytes:
        data = b"".join(_row(row, self.row_bytes) for row in range(self.rows))[: self.bytes]
        kept = self.bytes if self.zeros_from is None else self.zeros_from
        return data[:kept] + bytes(self.bytes - kept)

    @cache  # noqa: B019 - a few cases, for as long as the program runs
    def segments(self) -> list[Segment]:
        count = max(1, -(-self.bytes // self.segment_size))
        return list(cut(Memory(self.payload()), Shape(self.bytes, self.segment_size, count, self.parity)))


def _row(row: int, size: int) -> bytes:
    out = bytearray()
    for column in range(size):
        x = (row * 2654435761 + column * 40503 + 12345) & 0xFFFFFFFF
        x ^= x >> 15
        x = (x * 2246822519) & 0xFFFFFFFF
        out.append((x ^ (x >> 13)) & 255)
    return bytes(out)


def _reference(data: int, parity: int, size: int = 64) -> Case:
    bug = "parity of the wide field" if (data, parity) == (226, 28) else "parity that Leopard-RS does not make"
    return Case(f"leopard {data}+{parity}", bug, data, size, data * size, parity, size, reference=True)


def _shape(name: str, bug: str, size: int, count: int, parity: int, segment_size: int = 64, zeros: int = 0) -> Case:
    return Case(name, bug, count, segment_size, size, parity, segment_size, size - zeros if zeros else None)


_REFERENCES = (
    *((1, 1, 64), (2, 1, 64), (2, 2, 64), (3, 2, 64), (4, 2, 128), (5, 3, 64), (8, 1, 64), (8, 2, 64), (10, 3, 64)),
    *((16, 2, 64), (17, 3, 64), (32, 4, 64), (64, 8, 64), (100, 13, 64), (128, 16, 64), (200, 25, 64), (226, 28, 64)),
)

CASES = (
    *(_reference(*shape) for shape in _REFERENCES),
    _shape("empty", "no segment for a payload of no bytes", 0, 1, 0),
    _shape("empty with parity", "parity of an empty payload", 0, 1, 1),
    _shape("one byte", "the last segment sent padded", 1, 1, 0),
    _shape("one byte with parity", "parity of the unpadded segment", 1, 1, 1),
    _shape("a segment", "a second, empty segment", 64, 1, 0),
    _shape("a segment and a byte", "the rest forgotten", 65, 2, 1),
    _shape("odd segments", "a size that is no multiple of 64 refused without parity", 250, 25, 0, 10),
    _shape("a short last segment", "the last segment taken for as long as the others", 200, 4, 2),
    _shape("three copies of one segment", "k = 1 transformed instead of copied", 50, 1, 3),
    _shape("three and five", "more parity than data", 180, 3, 5),
    _shape("short last of the wide field", "words across the padding", 226 * 64 - 30, 226, 28),
    _shape(
        "wide with two units", "low and high bytes apart by the whole shard, not by the unit", 225 * 128, 225, 29, 128
    ),
    _shape("255 segments", "one segment too many", 224 * 64 - 1, 224, 31),
    _shape("255 data segments", "254 taken for the most", 255, 255, 0, 1),
    _shape("zeros at the end", "trailing zeros cut off with the padding", 250, 4, 2, 64, 40),
    _shape("a last segment of zeros", "a length of 0 tried first", 200, 4, 2, 64, 60),
    _shape("all zeros", "the shortest length taken without the hash", 150, 3, 2, 64, 150),
    _shape("one segment of zeros", "k = 1: a length of 0 not tried", 40, 1, 1, 64, 40),
    _shape("two with the size of others", "another payload of the same size", 100, 2, 0, 64, 30),
)
BY_NAME = {case.name: case for case in CASES}
