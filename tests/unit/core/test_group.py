"""Which node of a family is asked next, when another one is, and what is tried again: S-40, S-41."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import speed.errors
from speed.core.calls import choose, difference, passes_on
from speed.engine.options import RetryBudget, backoff, may_repeat
from speed.errors import Execution, SpeedError
from tests.vectors import case_name, load

VECTORS = load("groups")
KINDS: dict[str, Any] = {
    kind.code: kind for kind in vars(speed.errors).values() if isinstance(kind, type) and issubclass(kind, SpeedError)
}


def error_of(case: dict[str, Any]) -> SpeedError:
    error: SpeedError = KINDS[case["code"]]("as it was")
    error.execution = Execution(case["execution"])
    return error


@pytest.mark.parametrize("case", VECTORS["choices"], ids=case_name)
def test_a_member_is_chosen_as_the_vectors_say(case: dict[str, Any]) -> None:
    assert choose(case["members"], case["under_way"], case["last"], case["key"]) == case["gives"]


@pytest.mark.parametrize("case", VECTORS["passed_on"], ids=case_name)
def test_another_member_is_asked_as_the_vectors_say(case: dict[str, Any]) -> None:
    assert passes_on(error_of(case)) is case["gives"]


@pytest.mark.parametrize("case", VECTORS["repeated"], ids=case_name)
def test_a_call_is_repeated_as_the_vectors_say(case: dict[str, Any]) -> None:
    assert may_repeat(error_of(case), idempotent=case["idempotent"]) is case["gives"]


@pytest.mark.parametrize("case", VECTORS["budgets"], ids=case_name)
def test_a_budget_is_spent_and_earned_as_the_vectors_say(case: dict[str, Any]) -> None:
    budget = RetryBudget()
    steps = [budget.failed() if step == "failed" else budget.succeeded(case["budget"]) for step in case["steps"]]
    assert steps == case["gives"]


@pytest.mark.parametrize("case", VECTORS["pauses"], ids=case_name)
def test_pauses_double_as_the_vectors_say(case: dict[str, Any]) -> None:
    assert backoff(case["backoff_ms"] / 1000, case["made"]) == pytest.approx(case["gives_ms"] / 1000)


def test_when_one_of_ten_members_goes_only_its_keys_move() -> None:
    members = [f"pricing.{number}" for number in range(10)]
    keys = [f"customer {number}" for number in range(1000)]
    before = {key: choose(members, {}, "", key) for key in keys}
    after = {key: choose(members[1:], {}, "", key) for key in keys}
    moved = [key for key in keys if before[key] != after[key]]
    assert {before[key] for key in moved} == {"pricing.0"}
    assert max(Counter(before.values()).values()) < 150


def described(**about: Any) -> list[dict[str, Any]]:
    return [{"name": "quote", "version": "1", "parameters": {"type": "object"}, **about}]


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        (described(), ""),
        (described(version="2"), "'pricing.1' and 'pricing.2' differ: 'quote' has version '1' and '2'"),
        (described(parameters=None), "'pricing.1' and 'pricing.2' differ: 'quote' is not described alike"),
        ([], "'pricing.1' and 'pricing.2' differ: 'quote' is a service of one of them alone"),
    ],
)
def test_what_differs_between_members_is_named(theirs: list[dict[str, Any]], says: str) -> None:
    assert difference({"pricing.1": described(), "pricing.2": theirs}) == says
