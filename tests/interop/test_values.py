"""The type table (W-15) between every pair of languages: what is sent is what comes back, kind and all."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from speed.columns import from_values
from tests.interop.harness import Agent
from tests.interop.languages import CHOSEN, pairs
from tests.interop.values import from_json, same, to_json

Between = Callable[..., tuple[Agent, Agent]]


def _nested(depth: int) -> Any:
    value: Any = "core"
    for level in range(depth):
        value = {"level": level, "inner": value} if level % 2 else [value]
    return value


VALUES: dict[str, Any] = {
    "nil": None,
    "booleans": [True, False],
    "small integers": [0, 1, -1, 127, 128, -32, -33, 255, 256, 65_535, 65_536],
    "integers around 2^31 and 2^32": [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32],
    "integers around 2^53": [2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1],
    "int64 limits": [2**63 - 1, -(2**63)],
    "uint64 limits": [2**63, 2**64 - 1],
    "floats": [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, 5e-324, 1.7976931348623157e308, 2.0**53],
    "NaN": math.nan,
    "infinities": [math.inf, -math.inf],
    "one as integer, float and boolean": [1, 1.0, True],
    "text": ["", "a", "grüße", "日本語", "🚀", "line\nbreak", "nul\x00inside", "é"],
    "long text": "ä" * 70_000,
    "bytes": [b"", b"\x00", bytes(range(256)), b"text"],
    "long bytes": bytes(70_000),
    "text beside the same bytes": ["abc", b"abc"],
    "empty containers": [[], {}, [[]], {"a": {}}],
    "long array": list(range(70_000)),
    "map in its order": {"z": 1, "a": 2, "m": 3},
    "integer keys": {0: "a", -1: "b", 2**63 - 1: "c", 2**64 - 1: "d", -(2**63): "e"},
    "integer key beside its text": {1: "number", "1": "text"},
    "nested maps": {"a": {"b": {"c": [{"d": 1.5}, {2: b"x"}]}}},
    "columns": {
        "whole": from_values([1, None, -(2**63)]),
        "float": from_values([0.1, None, math.inf]),
        "bool": from_values([True, None, False] * 9),
        "text": from_values(["grüße", None, ""]),
        "bytes": from_values([b"\xff", None]),
        "instants": from_values([datetime(2026, 11, 20, tzinfo=timezone.utc), None]),
        "decimals": from_values([Decimal("1.25"), None], precision=9, scale=2),
        "empty": from_values([], "utf8"),
    },
    "columns of times": {
        "dates": from_values([date(2026, 11, 20), None, date(1, 1, 1)]),
        "times": from_values([time(23, 59, 59, 999_999), None]),
        "local": from_values([datetime.fromisoformat("2026-11-20T12:30"), None]),
        "durations": from_values([timedelta(microseconds=-1), None]),
        "months": from_values([14, None, -(2**31)], "months"),
    },
    "columns in columns": {
        "lists": from_values([["grüße", None], None, []]),
        "structs": from_values([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
        "maps": from_values([{"a": 1.5}, None, {}]),
        "in each other": from_values([[{"m": {7: [date(2026, 1, 1)]}, "d": Decimal("1.5")}, None], None]),
        "no row": from_values([], "list"),
        "30 deep": from_values([_nested(30)]),
    },
    "thirty levels": _nested(30),
    "instants": [
        datetime(1970, 1, 1, tzinfo=timezone.utc),
        datetime(2026, 11, 20, 12, 30, 59, 123_456, tzinfo=timezone.utc),
        datetime(2106, 2, 7, 6, 28, 16, tzinfo=timezone.utc),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc),
        datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=timezone.utc),
        datetime(1, 1, 1, tzinfo=timezone.utc),
    ],
}


@pytest.mark.parametrize("name", VALUES)
def test_the_json_of_the_agents_loses_nothing(name: str) -> None:
    """The test's own tool: what it cannot say it could not check."""
    assert same(from_json(to_json(VALUES[name])), VALUES[name])


@pytest.mark.parametrize("name", VALUES)
@pairs("calls")
def test_a_value_there_and_back(between: Between, source: str, target: str, name: str) -> None:
    """W-15: as an argument and as a result."""
    caller, server = between(source, target)
    back = caller.call(server, "echo", {"data": VALUES[name]})
    assert same(back, VALUES[name]), f"{_short(VALUES[name])} came back as {_short(back)}"


@pairs("sends to")
def test_every_value_in_a_message(between: Between, source: str, target: str) -> None:
    """M-10, W-15: text and bytes travel under their own content types, all else as msgpack."""
    caller, server = between(source, target)
    for name, value in VALUES.items():
        caller.ask("send", target=server.name, payload=value, timeout=10)
        payload = server.ask("receive", timeout=10)["payload"]
        assert same(payload, value), f"{name}: {_short(value)} arrived as {_short(payload)}"
    for value in ("", b"", "plain", b"raw", 7):
        caller.ask("send", target=server.name, payload=value, timeout=10)
        assert same(server.ask("receive", timeout=10)["payload"], value)
    server.ask("finish")


@pytest.mark.parametrize("source", [name for name in CHOSEN if name != "cpp"])  # C++ has no such integers
@pytest.mark.parametrize("value", [2**64, -(2**63) - 1], ids=["2^64", "below -2^63"])
def test_an_integer_beyond_64_bits_is_refused_by_its_sender(between: Between, source: str, value: int) -> None:
    """W-17: UNSERIALISABLE; nothing is converted silently."""
    caller, server = between(source, source)
    error = caller.refusal("call", target=server.name, service="echo", arguments={"data": value})
    assert error.code == "UNSERIALISABLE"


@pytest.mark.parametrize("source", CHOSEN)
def test_a_value_nested_too_deep_is_refused_by_its_sender(between: Between, source: str) -> None:
    """W-16, W-17: UNSERIALISABLE, since no reader would take it."""
    caller, server = between(source, source)
    error = caller.refusal("call", target=server.name, service="echo", arguments={"data": _nested(40)})
    assert error.code == "UNSERIALISABLE"


def _short(value: Any) -> str:
    return repr(value)[:300]
