"""Values in the types that Spark declares (V-5), and rows of them as values (V-6)."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from struct import pack, unpack
from typing import Any

from scripts.vectors.columns import tagged_row

TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38,0)",
    "string",
    "binary",
    "timestamp",
    "timestamp_ntz",
    "date",
    "array<int>",
    "array<double>",
    "array<string>",
    "map<string,int>",
    "map<int,int>",
    "struct<a:int>",
)
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_DECIMALS = ("decimal(10,2)", "decimal(38,0)")
_INSTANT = datetime(2023, 11, 14, 22, 13, 20, 123456, timezone.utc)
_FIRST = datetime(1, 1, 1, tzinfo=timezone.utc)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc)


def _single(number: float) -> float:
    rounded: float = unpack(">f", pack(">f", number))[0]
    return rounded


def _each(types: tuple[str, ...], value: Any) -> dict[str, Any]:
    return {declared: tagged_row(value) for declared in types}


def _map(**members: Any) -> dict[str, Any]:
    return {"map": [[name, tagged_row(value)] for name, value in members.items()]}


def _numbers(value: Any, whole: tuple[str, ...], floats: tuple[str, ...], decimals: tuple[str, ...]) -> dict[str, Any]:
    """What a number becomes in the types that hold it."""
    held = _each(whole, None if not whole else int(value)) | _each(floats, float(value) if floats else None)
    if "float" in held:
        held["float"] = tagged_row(_single(float(value)))
    return held | _each(decimals, Decimal(repr(value)) if isinstance(value, float) else Decimal(value))


def _cases() -> list[tuple[str, str, Any, dict[str, Any]]]:
    """Name, bug, value, and what it becomes by declared type; refused by all others."""
    nan, infinite = float("nan"), float("-inf")
    one = tagged_row(1)
    return [
        ("null", "a default in its place", None, dict.fromkeys(TYPES)),
        ("true", "true as 1.0", True, {"boolean": True}),
        ("1", "an integer as a moment or a day", one, _numbers(1, _WHOLE, _FLOATS, _DECIMALS)),
        ("300", "high bits cut off", tagged_row(300), _numbers(300, _WHOLE[1:], _FLOATS, _DECIMALS)),
        ("2^31", "high bits cut off", tagged_row(1 << 31), _numbers(1 << 31, ("bigint",), _FLOATS, _DECIMALS[1:])),
        (
            "1700000000",
            "seconds as microseconds",
            tagged_row(1_700_000_000),
            _numbers(1_700_000_000, _WHOLE[2:], _FLOATS, _DECIMALS[1:]),
        ),
        ("19000", "days since 1970", tagged_row(19000), _numbers(19000, _WHOLE[1:], _FLOATS, _DECIMALS)),
        ("2^53 + 1", "digits lost", tagged_row(2**53 + 1), _numbers(2**53 + 1, ("bigint",), (), _DECIMALS[1:])),
        ("2^63", "negative", tagged_row(2**63), _numbers(2**63, (), _FLOATS, _DECIMALS[1:])),
        ("1.0", "", tagged_row(1.0), _numbers(1.0, _WHOLE, _FLOATS, _DECIMALS[:1]) | _each(_DECIMALS[1:], Decimal(1))),
        ("1.5", "cut off", tagged_row(1.5), _numbers(1.5, (), _FLOATS, _DECIMALS[:1])),
        ("1.125", "rounded", tagged_row(1.125), _numbers(1.125, (), _FLOATS, ())),
        ("0.1", "its binary digits", tagged_row(0.1), _numbers(0.1, (), _FLOATS, _DECIMALS[:1])),
        (
            "2^53 + 2 as a float",
            "one of several integers",
            tagged_row(9007199254740994.0),
            _numbers(9007199254740994.0, (), _FLOATS, ()) | _each(_DECIMALS[1:], Decimal(9007199254740994)),
        ),
        ("1e300", "infinity", tagged_row(1e300), {"double": tagged_row(1e300)}),
        ("NaN", "null, or a number", tagged_row(nan), _each(_FLOATS, nan)),
        ("-infinity", "a number", tagged_row(infinite), _each(_FLOATS, infinite)),
        (
            "decimal 0.10",
            "",
            tagged_row(Decimal("0.10")),
            _numbers(0.1, (), _FLOATS, ()) | {"decimal(10,2)": tagged_row(Decimal("0.10"))},
        ),
        ("decimal 7.00", "", tagged_row(Decimal("7.00")), _numbers(7, _WHOLE, _FLOATS, _DECIMALS)),
        (
            "decimal of 20 digits",
            "digits lost",
            tagged_row(Decimal(12345678901234567890)),
            _each(_DECIMALS[1:], Decimal(12345678901234567890)),
        ),
        ("text", "a list of letters", "urgent", {"string": "urgent"}),
        ("digits", "text read as a number", "1", {"string": "1"}),
        ("a date in text", "text looked into", "2026-11-25", {"string": "2026-11-25"}),
        ("bytes", "bytes as text, or as a list of numbers", tagged_row(b"ab"), {"binary": tagged_row(b"ab")}),
        ("instant", "its day, its zone cut off", tagged_row(_INSTANT), {"timestamp": tagged_row(_INSTANT)}),
        ("first instant", "an overflow", tagged_row(_FIRST), {"timestamp": tagged_row(_FIRST)}),
        ("last instant", "an overflow", tagged_row(_LAST), {"timestamp": tagged_row(_LAST)}),
        (
            "local time",
            "a zone added",
            {"local": "2026-11-25T23:59:59"},
            {"timestamp_ntz": {"local": "2026-11-25T23:59:59"}},
        ),
        ("date", "midnight in some zone", {"date": "2026-11-25"}, {"date": {"date": "2026-11-25"}}),
        ("list of integers", "", [one], {"array<int>": [one], "array<double>": [tagged_row(1.0)]}),
        (
            "integers and floats",
            "an item cut off",
            [one, tagged_row(2.5), None],
            {"array<double>": [tagged_row(1.0), tagged_row(2.5), None]},
        ),
        ("list of texts", "", ["a", ""], {"array<string>": ["a", ""]}),
        ("list of pairs", "a list as a map", [["a", one]], {}),
        ("empty list", "", [], {kind: [] for kind in ("array<int>", "array<double>", "array<string>")}),
        ("map of text", "", _map(a=1), {"map<string,int>": _map(a=1), "struct<a:int>": _map(a=1)}),
        ("map of a float", "an item cut off", _map(a=1.5), {}),
        ("map of other text", "", _map(b=1), {"map<string,int>": _map(b=1), "struct<a:int>": {"map": [["a", None]]}}),
        (
            "map of integers",
            "keys as text",
            {"map": [[one, one]]},
            {"map<int,int>": {"map": [[one, one]]}, "struct<a:int>": {"map": [["a", None]]}},
        ),
    ]


def _written() -> list[dict[str, Any]]:
    """One row of each type, as it is written."""
    one = tagged_row(1)
    single = tagged_row(_single(0.1))
    held: list[tuple[str, Any, Any]] = [
        ("boolean", True, True),
        ("tinyint", one, one),
        ("smallint", one, one),
        ("int", one, one),
        ("bigint", one, one),
        ("float", single, single),
        ("double", tagged_row(0.1), tagged_row(0.1)),
        ("string", "é", "é"),
        ("binary", tagged_row(b"\xff"), tagged_row(b"\xff")),
        ("timestamp", tagged_row(_FIRST), tagged_row(_FIRST)),
        ("timestamp", tagged_row(_LAST), tagged_row(_LAST)),
        ("array<int>", [one, None], [one, None]),
        ("map<string,int>", _map(a=1), _map(a=1)),
        ("map<int,int>", {"map": [[one, one]]}, {"map": [[one, one]]}),
        ("struct<a:int>", _map(a=1), _map(a=1)),
    ]
    cases = [
        {
            "name": f"{declared} written",
            "bug": "a value changed on its way",
            "declared": declared,
            "value": value,
            "written": written,
        }
        for declared, value, written in held
    ]
    refused = ("decimal(10,2)", "decimal(38,0)", "date", "timestamp_ntz")
    return cases + [
        {"name": f"{declared} refused", "bug": "written as another kind", "declared": declared} for declared in refused
    ]


def declared() -> dict[str, Any]:
    """Every kind of value in every declared type."""
    cells = []
    for name, bug, value, held in _cases():
        for wanted in TYPES:
            cell = {"name": f"{name} as {wanted}", "bug": bug or "refused", "value": value, "declared": wanted}
            cells.append(cell | ({"becomes": held[wanted]} if wanted in held else {"refused": True}))
    return {
        "about": "V-5, V-6. A `value` where Spark declares a type `becomes` a value of it, or is refused. A value of "
        "a declared type is `written` so to a message; without `written` its column is refused before anything runs. "
        '`{"local": text}` is a date and time without a zone, `{"date": text}` a date.',
        "cells": cells,
        "written": _written(),
    }
