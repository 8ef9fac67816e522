"""Readers of records are compiled: what they take, and what they say of what they do not take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgspec
import pytest

from speed.core.hints import compile_hint
from speed.core.readers import Misfit

ODD = 'it\'s "quoted" {x}\n\\ \u202e'
Odd = TypedDict("Odd", {ODD: int, "class": "list[int]", "": str}, total=False)  # type: ignore[misc]


@dataclass(kw_only=True)
class Leaf:
    names: dict[str, int] = field(default_factory=dict)
    size: float
    make: int = 5


@dataclass
class Tree:
    value: int
    leaf: Leaf
    children: list[Tree] = field(default_factory=list)
    calls: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.calls += 1
        if self.value < 0:
            raise ValueError("secret")


def misfit_of(kind: Any, value: Any) -> str:
    with pytest.raises(Misfit) as raised:
        compile_hint(kind, "it").take(value)
    return raised.value.text("it")


def test_a_record_has_its_defaults_and_holds_others_of_its_kind() -> None:
    leaf = {"size": 1, "unknown": 1}
    made = compile_hint(Tree, "it").take({"value": 1, "leaf": leaf, "children": [{"value": 2, "leaf": leaf}]})
    assert made == Tree(1, Leaf(size=1), [Tree(2, Leaf(size=1))])
    assert made.children[0].calls == 1


@dataclass(init=False)
class Turned:
    low: int
    high: int

    def __init__(self, high: int, low: int, *rest: int) -> None:
        self.low, self.high = low, high


@dataclass
class Mixed:
    first: int
    named: int = field(kw_only=True)
    last: int


class Renamed(msgspec.Struct, rename="camel"):
    first_one: int
    other_one: int = 5


@pytest.mark.parametrize(
    ("kind", "form", "made"),
    [
        (Turned, {"low": 1, "high": 2}, Turned(low=1, high=2)),
        (Mixed, {"first": 1, "named": 2, "last": 3}, Mixed(1, 3, named=2)),
        (Renamed, {"firstOne": 1}, Renamed(1, 5)),
    ],
)
def test_each_field_of_a_record_reaches_its_own_parameter(kind: Any, form: Any, made: Any) -> None:
    assert compile_hint(kind, "it").take(form) == made


def test_keys_may_be_any_text() -> None:
    read = compile_hint(Odd, "it").take
    assert read({ODD: 1, "class": [2], "": "x", "other": 3}) == {ODD: 1, "class": [2], "": "x"}
    assert read({}) == {}
    assert misfit_of(Odd, {ODD: "x"}) == f"it.{ODD} must be int, not str"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"leaf": {"size": 1}}, "it must be a map with 'value', not one without it"),
        ({"value": "1", "leaf": {"size": 1}}, "it.value must be int, not str"),
        ({"value": True, "leaf": {"size": 1}}, "it.value must be int, not bool"),
        ({"value": 1, "leaf": {"size": "1"}}, "it.leaf.size must be float, not str"),
        ({"value": 1, "leaf": {"size": 1, "names": {"a": "b"}}}, "it.leaf.names[…] must be int, not str"),
        (
            {"value": 1, "leaf": {"size": 1}, "children": [{}]},
            "it.children[0] must be a map with 'value', not one without it",
        ),
        ({"value": 1, "leaf": {"size": 1}, "children": [5]}, "it.children[0] must be Tree, not int"),
        ({"value": -1, "leaf": {"size": 1}}, "it is no Tree (ValueError)"),
        ([], "it must be Tree, not list"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path_and_never_by_its_value(value: Any, told: str) -> None:
    assert misfit_of(Tree, value) == told


def test_what_is_wrong_deep_inside_lists_is_read_once() -> None:
    seen = []

    @dataclass
    class Counted:
        x: int

        def __post_init__(self) -> None:
            seen.append(self.x)

    kind: Any = Counted
    value: Any = {"x": 1}
    for _ in range(20):
        kind, value = list[kind], [value, 5]
    with pytest.raises(Misfit):
        compile_hint(kind, "it").take(value)
    assert len(seen) <= 1
