"""Columns (C-1 to C-5)."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from struct import pack
from typing import Any

import msgpack

from scripts.vectors.payloads import tagged
from speed.wire.column import BINARY, BOOL, DECIMAL, FLOAT64, INT64, TIMESTAMP, UTF8, from_values
from speed.wire.limits import COLUMN_EXTENSION
from speed.wire.value import pack as pack_value


def body(number: int, rows: int, *parts: bytes, validity: int = 0, precision: int = 0, scale: int = 0) -> bytes:
    """A body as C-2 lays it out, right or wrong."""
    filled = (part + bytes(-len(part) % 8) for part in parts)
    return pack("<BBBBI", number, validity, precision, scale, rows) + b"".join(filled)


def value(data: bytes) -> bytes:
    return bytes(msgpack.packb(msgpack.ExtType(COLUMN_EXTENSION, data)))


def offsets(*positions: int) -> bytes:
    return pack(f"<{len(positions)}I", *positions)


def tagged_row(row: Any) -> Any:
    return {"decimal": f"{row:f}"} if isinstance(row, Decimal) else tagged(row)


def columns() -> dict[str, Any]:
    """Columns as values."""

    def good(name: str, bug: str, kind: str, rows: list[Any], precision: int = 0, scale: int = 0) -> dict[str, Any]:
        made = from_values(rows, kind, precision=precision, scale=scale)
        return {
            "name": name,
            "bug": bug,
            "hex": pack_value(made).hex(),
            "kind": kind,
            "precision": precision,
            "scale": scale,
            "rows": [tagged_row(row) for row in rows],
        }

    def bad(name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": value(data).hex()}

    utc = timezone.utc
    eight = pack("<q", 1)
    return {
        "about": "C-1 to C-5. `hex` is the whole value; `rows` are its values, null for a null row.",
        "valid": [
            good("int64", "numbers through a double", "int64", [0, -1, 2**53 + 1, -(2**63), 2**63 - 1]),
            good("float64", "wrong order of bytes", "float64", [0.1, -0.0, float("inf"), -1e300]),
            good("NaN is not null", "null told by NaN", "float64", [float("nan"), None]),
            good("bool", "bits from the wrong end", "bool", [True, False, False, True, True, False, True, False, True]),
            good("utf8", "offsets counted in characters", "utf8", ["a", "", "Größe 😀", "z"]),
            good("binary", "bytes and text confused", "binary", [b"\xff\x00", b"", b"a"]),
            good(
                "timestamp", "milliseconds read", "timestamp", [datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=utc)]
            ),
            good("before 1970", "unsigned time", "timestamp", [datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=utc)]),
            good("decimal", "scale ignored", "decimal", [Decimal("123.45"), Decimal("-0.01"), Decimal("0.00")], 9, 2),
            good("wide decimal", "64 bits only", "decimal", [Decimal(10**38 - 1), Decimal(1 - 10**38)], 38, 0),
            good("nulls among int64", "validity from the wrong end", "int64", [None, 1, None, None, 2, 3, 4, 5, None]),
            good("nulls among utf8", "null taken for empty", "utf8", [None, "", "b", None]),
            good("nulls among bool", "null taken for false", "bool", [None, False, True]),
            good("only nulls", "a kind guessed from the first row", "float64", [None, None]),
            good("no row", "division by the number of rows", "int64", []),
            good("no row of utf8", "the one offset of no row", "utf8", []),
            good("eight rows", "a byte too many at full bytes", "bool", [True] * 8),
            good("64 rows with a null", "a byte too many at full bytes", "int64", [None, *range(63)]),
        ],
        "also_read": [
            {
                "name": "validity without a null",
                "bug": "validity taken for a null",
                "hex": value(body(INT64, 1, b"\x01", eight, validity=1)).hex(),
                "kind": "int64",
                "precision": 0,
                "scale": 0,
                "rows": [{"int": "1"}],
            },
            {
                "name": "something in a null row",
                "bug": "a null row read or checked",
                "hex": value(body(FLOAT64, 2, b"\x01", pack("<dd", 1.0, float("nan")), validity=1)).hex(),
                "kind": "float64",
                "precision": 0,
                "scale": 0,
                "rows": [{"float": pack(">d", 1.0).hex()}, None],
            },
        ],
        "invalid": [
            bad("nothing", "empty body", b""),
            bad("cut header", "reads past the end", b"\x01\x00\x00\x00\x00\x00\x00"),
            bad("kind 0", "kind unchecked", body(0, 1, eight)),
            bad("kind 8", "kind unchecked", body(8, 1, eight)),
            bad("validity 2", "flag taken for true", body(INT64, 1, b"\x01", eight, validity=2)),
            bad("no data", "reads past the end", body(INT64, 1)),
            bad("lying rows", "allocates what a length claims", body(INT64, 2**32 - 1, eight)),
            bad("lying rows of utf8", "rows + 1 overflows", body(UTF8, 2**32 - 1, eight)),
            bad("eight bytes more", "rest ignored", body(INT64, 1, eight, eight)),
            bad("one byte more", "rest ignored", body(INT64, 1, eight) + b"\x00"),
            bad("not filled", "length of the last part unchecked", body(BOOL, 1, b"\x01")[:-1]),
            bad("filled with something", "filling unchecked", body(BOOL, 1, b"\x01\x00\x01")),
            bad("bits behind the last row", "bits unchecked", body(BOOL, 3, b"\x09")),
            bad("validity behind the last row", "bits unchecked", body(INT64, 1, b"\x03", eight, validity=1)),
            bad("no offsets", "reads past the end", body(UTF8, 1)),
            bad("first offset 1", "offset unchecked", body(UTF8, 1, offsets(1, 2), b"ab")),
            bad("descending offsets", "negative length", body(BINARY, 2, offsets(0, 2, 1), b"a")),
            bad("offset behind the bytes", "reads past the end", body(BINARY, 1, offsets(0, 9), b"a")),
            bad("last offset 2^32-1", "a negative length", body(BINARY, 1, offsets(0, 2**32 - 1), b"a")),
            bad("bytes behind the last offset", "rest ignored", body(BINARY, 1, offsets(0, 1), b"ab")),
            bad("not UTF-8", "text unchecked", body(UTF8, 1, offsets(0, 2), b"\xff\xfe")),
            bad(
                "an offset inside a character",
                "only the whole is checked",
                body(UTF8, 2, offsets(0, 1, 2), "ä".encode()),
            ),
            bad("a character cut at the end", "text unchecked", body(UTF8, 1, offsets(0, 1), b"\xc3")),
            bad("precision 0", "precision unchecked", body(DECIMAL, 1, bytes(16))),
            bad("precision 39", "precision unchecked", body(DECIMAL, 1, bytes(16), precision=39)),
            bad("scale above precision", "scale unchecked", body(DECIMAL, 1, bytes(16), precision=2, scale=3)),
            bad("a precision of int64", "header unchecked", body(INT64, 1, eight, precision=1)),
            bad("a scale of a timestamp", "header unchecked", body(TIMESTAMP, 1, eight, scale=1)),
        ],
    }
