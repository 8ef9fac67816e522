"""Columns (C-1 to C-5, C-9)."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from struct import pack
from typing import Any

import msgpack

from scripts.vectors.payloads import tagged
from speed.wire.cells import from_values
from speed.wire.column import BINARY, BOOL, DATE, DECIMAL, FLOAT64, INT64, LIST, MAP, MONTHS, STRUCT, TIMESTAMP, UTF8
from speed.wire.limits import COLUMN_EXTENSION, MAX_COLUMN_DEPTH
from speed.wire.value import pack as pack_value


def body(number: int, rows: int, *parts: bytes, validity: int = 0, precision: int = 0, scale: int = 0) -> bytes:
    """A body as C-2 lays it out, right or wrong."""
    filled = (part + bytes(-len(part) % 8) for part in parts)
    return pack("<BBBBI", number, validity, precision, scale, rows) + b"".join(filled)


def value(data: bytes) -> bytes:
    return bytes(msgpack.packb(msgpack.ExtType(COLUMN_EXTENSION, data)))


def offsets(*positions: int) -> bytes:
    return pack(f"<{len(positions)}I", *positions)


def nested(depth: int) -> bytes:
    """Lists in lists around no row, ``depth`` bodies in all."""
    inner = body(INT64, 0)
    for _ in range(depth - 1):
        inner = body(LIST, 0, offsets(0)) + inner
    return inner


def struct(names: list[str], *fields: bytes, rows: int = 1) -> bytes:
    ends = [len("".join(names[:at]).encode()) for at in range(len(names) + 1)]
    return body(STRUCT, rows) + body(UTF8, len(names), offsets(*ends), "".join(names).encode()) + b"".join(fields)


def tagged_row(row: Any) -> Any:
    """A row as JSON can say it."""
    if isinstance(row, Decimal):
        return {"decimal": f"{row:f}"}
    if isinstance(row, datetime) and row.tzinfo is None:
        return {"local": row.isoformat()}
    if isinstance(row, date) and not isinstance(row, datetime):
        return {"date": row.isoformat()}
    if isinstance(row, time):
        return {"time": row.isoformat()}
    if isinstance(row, timedelta):
        return {"duration": str(row // timedelta(microseconds=1))}
    if isinstance(row, list):
        return [tagged_row(item) for item in row]
    if isinstance(row, dict):
        return {"map": [[tagged_row(key), tagged_row(item)] for key, item in row.items()]}
    return tagged(row)


def columns() -> dict[str, Any]:
    """Columns as values."""

    def good(
        name: str, bug: str, kind: str, rows: list[Any], precision: int = 0, scale: int = 0, spark: str = ""
    ) -> dict[str, Any]:
        made = from_values(rows, kind, precision=precision, scale=scale)
        return {
            "name": name,
            "bug": bug,
            "hex": pack_value(made).hex(),
            "kind": kind,
            "precision": precision,
            "scale": scale,
            "type": made.type_name,
            "spark": spark or _SPARK.get(kind, f"decimal({precision},{scale})"),
            "rows": [tagged_row(row) for row in rows],
        }

    def bad(name: str, bug: str, data: bytes) -> dict[str, Any]:
        return {"name": name, "bug": bug, "hex": value(data).hex()}

    utc = timezone.utc
    eight = pack("<q", 1)
    return {
        "about": "C-1 to C-5, C-9. `hex` is the whole value; `rows` are its values, null for a null row. `type` is the "
        "kind with what lies in it, `spark` the type of Spark that a column of it is sent from.",
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
            good("date", "eight bytes a row", "date", [date(1970, 1, 2), None, date(1, 1, 1), date(9999, 12, 31)]),
            good("an odd number of dates", "filling forgotten", "date", [date(1969, 12, 31)]),
            good("time", "nanoseconds read", "time", [time(23, 59, 59, 999999), time(0), None]),
            good(
                "local timestamp",
                "a zone added",
                "local_timestamp",
                [datetime.fromisoformat("2026-11-25T23:59:59.000001"), None],
            ),
            good("duration", "milliseconds read", "duration", [timedelta(days=-1, microseconds=1), None, timedelta(0)]),
            good("months", "eight bytes a row", "months", [14, None, -1, 2**31 - 1]),
            good("list", "offsets of bytes", "list", [[1, None], None, [], [3]], spark="array<bigint>"),
            good("list of text", "inner text unchecked", "list", [["a", "Größe"], [None]], spark="array<string>"),
            good("lists in lists", "depth 1 only", "list", [[[True], None, []], None], spark="array<array<boolean>>"),
            good(
                "struct",
                "fields mixed up",
                "struct",
                [{"a": 1, "größe": "x"}, None, {"a": None, "größe": None}],
                spark="struct<a:bigint,größe:string>",
            ),
            good("map", "order lost", "map", [{"b": 1.5, "a": None}, None, {}], spark="map<string,double>"),
            good("map of numbers", "keys of text only", "map", [{7: date(2026, 1, 1)}], spark="map<bigint,date>"),
            good(
                "all in each other",
                "the next body read from the wrong place",
                "list",
                [[{"m": [{1: "x"}], "d": Decimal("1.500000000000000000"), "t": [time(1)]}, None], None, []],
                spark="array<struct<m:array<map<bigint,string>>,d:decimal(38,18),t:array<time(6)>>>",
            ),
            good(
                "variant",
                "a type of its own expected",
                "struct",
                [{"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}, None],
                spark="variant",
            ),
            good("no row of lists", "the body of no item missing", "list", [], spark="array<double>"),
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
            {
                "name": "items of a null row",
                "bug": "items of a null row refused, or given to the next row",
                "hex": value(
                    body(LIST, 2, b"\x02", offsets(0, 1, 2), validity=1) + body(INT64, 2, pack("<qq", 7, 8))
                ).hex(),
                "kind": "list",
                "precision": 0,
                "scale": 0,
                "rows": [None, [{"int": "8"}]],
            },
            {
                "name": "32 bodies in each other",
                "bug": "the outermost not counted",
                "hex": value(nested(MAX_COLUMN_DEPTH)).hex(),
                "kind": "list",
                "precision": 0,
                "scale": 0,
                "rows": [],
            },
        ],
        "invalid": [
            bad("nothing", "empty body", b""),
            bad("cut header", "reads past the end", b"\x01\x00\x00\x00\x00\x00\x00"),
            bad("kind 0", "kind unchecked", body(0, 1, eight)),
            bad("kind 16", "kind unchecked", body(16, 1, eight)),
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
            bad("a precision of a list", "header unchecked", body(LIST, 0, offsets(0), precision=1) + body(INT64, 0)),
            bad("eight bytes for one date", "eight bytes a row", body(DATE, 1, eight + eight)),
            bad("months filled with something", "filling unchecked", body(MONTHS, 1, eight)[:-1] + b"\x01"),
            bad("a list without items", "reads past the end", body(LIST, 1, offsets(0, 1))),
            bad(
                "a list of too few items",
                "rows of items unchecked",
                body(LIST, 1, offsets(0, 2)) + body(INT64, 1, eight),
            ),
            bad(
                "a list of too many items",
                "rows of items unchecked",
                body(LIST, 1, offsets(0, 0)) + body(INT64, 1, eight),
            ),
            bad(
                "descending offsets of items",
                "a negative length",
                body(LIST, 2, offsets(0, 1, 0)) + body(INT64, 0),
            ),
            bad("a list that begins at 1", "offset unchecked", body(LIST, 1, offsets(1, 1)) + body(INT64, 1, eight)),
            bad("lying rows of lists", "rows + 1 overflows", body(LIST, 2**32 - 1, offsets(0))),
            bad(
                "lying items",
                "allocates what a length claims",
                body(LIST, 1, offsets(0, 2**32 - 1)) + body(INT64, 2**32 - 1),
            ),
            bad(
                "inner text that is not UTF-8",
                "only the outermost is checked",
                body(LIST, 1, offsets(0, 1)) + body(UTF8, 1, offsets(0, 1), b"\xff"),
            ),
            bad("33 bodies in each other", "depth unchecked", nested(MAX_COLUMN_DEPTH + 1)),
            bad("thousands in each other", "a stack that overflows", nested(1000)),
            bad("a struct without fields", "rows of nothing", body(STRUCT, 2**32 - 1) + body(UTF8, 0, offsets(0))),
            bad(
                "a struct with names of numbers",
                "kind of names unchecked",
                body(STRUCT, 1) + body(INT64, 1, eight) + body(INT64, 1, eight),
            ),
            bad(
                "a struct with a name that is null",
                "names may be null",
                body(STRUCT, 1) + body(UTF8, 1, b"\x00", offsets(0, 0), validity=1) + body(INT64, 1, eight),
            ),
            bad("a field twice", "the last one wins", struct(["a", "a"], body(INT64, 1, eight), body(INT64, 1, eight))),
            bad("a field too few", "reads past the end", struct(["a", "b"], body(INT64, 1, eight))),
            bad("a field too many", "rest ignored", struct(["a"], body(INT64, 1, eight), body(INT64, 1, eight))),
            bad("a field of other rows", "rows of fields unchecked", struct(["a"], body(INT64, 0))),
            bad(
                "keys with a null",
                "keys may be null",
                body(MAP, 1, offsets(0, 1)) + body(INT64, 1, b"\x00", eight, validity=1) + body(INT64, 1, eight),
            ),
            bad(
                "keys with validity and without a null",
                "a null key expected later",
                body(MAP, 1, offsets(0, 1)) + body(INT64, 1, b"\x01", eight, validity=1) + body(INT64, 1, eight),
            ),
            bad("a map without values", "reads past the end", body(MAP, 1, offsets(0, 1)) + body(INT64, 1, eight)),
            bad(
                "a map with fewer values than keys",
                "rows of values unchecked",
                body(MAP, 1, offsets(0, 1)) + body(INT64, 1, eight) + body(INT64, 0),
            ),
        ],
    }


_SPARK = {
    "int64": "bigint",
    "float64": "double",
    "bool": "boolean",
    "utf8": "string",
    "binary": "binary",
    "timestamp": "timestamp",
    "date": "date",
    "time": "time(6)",
    "local_timestamp": "timestamp_ntz",
    "duration": "interval day to second",
    "months": "interval year to month",
}
