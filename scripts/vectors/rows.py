"""What services of rows answer (C-7, C-8)."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from scripts.vectors.columns import tagged_row

_SAMPLES: dict[str, list[Any]] = {
    "int64": [2**53 + 1, None, -1],
    "float64": [0.1, None, float("inf")],
    "bool": [True, None, False],
    "utf8": ["Größe", None, ""],
    "binary": [b"\xff\x00", None, b""],
    "timestamp": [
        datetime(2026, 11, 25, 1, 2, 3, 4, timezone.utc),
        None,
        datetime(1969, 12, 31, 23, tzinfo=timezone.utc),
    ],
    "decimal": [Decimal("-12.500000000000000001"), None, Decimal(10) ** 19],
    "date": [date(2026, 11, 25), None, date(1, 1, 1)],
    "time": [time(23, 59, 59, 1), None, time(0)],
    "local_timestamp": [
        datetime.fromisoformat("2026-11-25T01:02:03.000004"),
        None,
        datetime.fromisoformat("1969-12-31"),
    ],
    "duration": [timedelta(microseconds=-5), None, timedelta(days=1)],
    "months": [14, None, -(2**31)],
    "list": [[["a", None], []], None, [None]],
}
_DECLARED = frozenset({"decimal", "date", "time", "local_timestamp", "duration", "months"})
_ECHO = {"echo": "a"}


def column(kind: str, rows: list[Any], scale: int = 18) -> dict[str, Any]:
    if kind == "float64":
        rows = [None if row is None else float(row) for row in rows]
    scaled = {"precision": 38, "scale": scale} if kind == "decimal" else {"precision": 0, "scale": 0}
    return {"kind": kind, **scaled, "rows": [tagged_row(row) for row in rows]}


def raises(text: str) -> dict[str, Any]:
    return {"raises": text}


def says(code: str, text: str = "so it is") -> dict[str, Any]:
    return {"says": [code, text]}


def a_map(**members: Any) -> dict[str, Any]:
    return {"map": [[name, tagged_row(value)] for name, value in members.items()]}


def rows() -> dict[str, Any]:
    """Services of rows."""

    def good(
        name: str, bug: str, answers: list[Any], result: Any, declares: str | None = None, **a: Any
    ) -> dict[str, Any]:
        return {"name": name, "bug": bug, "declares": declares, "arguments": a, "answers": answers, "result": result}

    def bad(
        name: str,
        bug: str,
        answers: list[Any],
        code: str,
        row: int,
        names: str = "",
        declares: str | None = None,
        **a: Any,
    ) -> dict[str, Any]:
        error = {"code": code, "row": row, "begins": f"row {row}: ", "names": names}
        return {"name": name, "bug": bug, "declares": declares, "arguments": a, "answers": answers, "error": error}

    def declared(kind: str) -> str | None:
        return kind if kind in _DECLARED else None

    def echoed(kind: str, sample: list[Any]) -> dict[str, Any]:
        same = column(kind, sample)
        return good(f"{kind} echoed", "a value changed on its way", [_ECHO] * 3, same, declared(kind), a=same)

    def constant(kind: str, sample: list[Any]) -> dict[str, Any]:
        made = column(kind, sample)
        return good(f"{kind} made", "a kind of result missing", made["rows"], made, declared(kind))

    one, two, half = ({"int": "1"}, {"int": "2"}, tagged_row(2.5))
    failed, refused = "EXECUTION_FAILED", "INVALID_ARGUMENTS"
    numbers = column("int64", [1, None])
    return {
        "about": "C-7, C-8. The service has a column `row` beside `arguments`: 0, 1, … For row n it does `answers[n]`: "
        "it answers with that value, with the argument that `echo` names, with the integer that `take` names, which "
        "takes no null; it throws what it has of its own with the text of `raises`, or answers with the error `says`. "
        "`declares` is the kind of column that it declares. `error.begins` is how the text of the error begins, and "
        "`error.names` stands in it.",
        "valid": [
            *(echoed(kind, sample) for kind, sample in _SAMPLES.items()),
            *(constant(kind, sample) for kind, sample in _SAMPLES.items()),
            good(
                "lists of numbers",
                "a kind for each row",
                [[one], None, [None, two]],
                column("list", [[1], None, [None, 2]]),
            ),
            good(
                "maps of one kind within maps",
                "a field for each key",
                [a_map(m={"a": 1, "b": None}), a_map(m={"c": 0.5}), a_map(m={})],
                {"columns": [["m", column("map", [{"a": 1.0, "b": None}, {"c": 0.5}, {}])]]},
            ),
            good(
                "maps of several kinds within maps",
                "a map of text",
                [a_map(s={"a": 1, "b": "x"}), a_map(s=None), a_map(s={"b": None, "c": [True]})],
                {
                    "columns": [
                        [
                            "s",
                            column(
                                "struct",
                                [{"a": 1, "b": "x", "c": None}, None, {"a": None, "b": None, "c": [True]}],
                            ),
                        ]
                    ]
                },
            ),
            good(
                "maps by numbers in lists",
                "a field called 7",
                [[{"map": [[{"int": "7"}, [one]]]}]],
                column("list", [[{7: [1]}]]),
            ),
            good("nulls first", "the kind of a null", [None, None, one], column("int64", [None, None, 1])),
            good("nulls alone", "a column of no kind", [None, None], column("float64", [None, None])),
            good(
                "integers, floats declared", "declaration ignored", [one, half], column("float64", [1, 2.5]), "float64"
            ),
            good("float, then integer", "no float of an integer", [half, one], column("float64", [2.5, 1])),
            good(
                "integers, decimals declared",
                "an integer refused",
                [one, {"decimal": "0.1"}],
                column("decimal", [Decimal(1), Decimal("0.1")]),
                "decimal",
            ),
            good(
                "19 digits behind the point",
                "digits lost, or refused",
                [one, {"decimal": "0." + "0" * 18 + "1"}],
                column("decimal", [Decimal(1), Decimal("1e-19")], 19),
                "decimal",
            ),
            good(
                "38 digits before the point",
                "refused though the type of the column is not declared",
                [{"decimal": "-" + "9" * 38}, None, {"decimal": "1.00"}],
                column("decimal", [Decimal("-" + "9" * 38), None, Decimal(1)], 0),
                "decimal",
            ),
            good(
                "an empty map among maps",
                "a map taken for the value of its key",
                [a_map(), a_map(a=1)],
                {"columns": [["a", column("int64", [None, 1])]]},
            ),
            good(
                "maps",
                "keys of the first map only",
                [a_map(b=1, a="x"), None, a_map(a="z", c=0.5)],
                {
                    "columns": [
                        ["b", column("int64", [1, None, None])],
                        ["a", column("utf8", ["x", None, "z"])],
                        ["c", column("float64", [None, None, 0.5])],
                    ]
                },
            ),
        ],
        "invalid": [
            bad("raises", "the row untold", [one, raises("no"), one], failed, 1, "no"),
            bad("raises in two rows", "the last row told", [one, raises("no"), raises("yes")], failed, 1, "no"),
            bad("its own code", "the code lost", [one, one, says("OUT_OF_STOCK")], "OUT_OF_STOCK", 2, "so it is"),
            bad("refuses its arguments", "the code lost", [says(refused)], refused, 0, "so it is"),
            bad("another code", "a code that is not the service's", [one, says("TIMEOUT")], failed, 1, "so it is"),
            bad("no code", "a code that nobody may give", [says("bad code!")], failed, 0, "bad code!"),
            bad("null that is not taken", "whose fault it is", [{"take": "a"}] * 2, refused, 1, "a", None, a=numbers),
            bad("integers, then float", "a float cut", [one, half], failed, 1),
            bad("integer, then boolean", "true taken for 1", [one, True], failed, 1),
            bad("integer, then text", "a text read", [two, "2"], failed, 1),
            bad("2^63", "a wrong sign", [one, {"int": str(2**63)}], failed, 1),
            bad("2^53 + 1 as a float", "digits lost", [half, {"int": str(2**53 + 1)}], failed, 1),
            bad(
                "10^20 beside 19 digits",
                "digits lost",
                [one, {"decimal": "1" + "0" * 20}, {"decimal": "0." + "0" * 18 + "1"}],
                failed,
                1,
                "",
                "decimal",
            ),
            bad("10^38", "decimal overflow", [None, {"decimal": "1" + "0" * 38}], failed, 1, "", "decimal"),
            bad("an item of another kind", "the first row told", [[one], None, [one, "2"]], failed, 2),
            bad(
                "an item of a map of another kind",
                "the row of an entry told",
                [a_map(m={"a": 1, "b": "x"}), a_map(m={"a": "y"})],
                failed,
                1,
                "the result 'm'",
            ),
            bad("list, then number", "one item taken for a list", [[one], one], failed, 1),
            bad("map, then number", "a row lost", [a_map(a=1), one], failed, 1),
            bad(
                "a misfit within maps",
                "the row of a column",
                [a_map(a=1), a_map(b=1), a_map(a="x")],
                failed,
                2,
                "the result 'a'",
            ),
        ],
    }
