"""Who can change a directory is told by its owner, mode and access lists (R-28)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.fs.open import Step, Who, judge_root, judge_step
from tests.vectors import case_name, load

VECTORS = load("trust")


def judged(case: dict[str, Any]) -> tuple[Step, Who]:
    lists = tuple(bytes.fromhex(one) for one in case["lists"])
    step = Step(case["owner"], case["group"], int(case["mode"], 8), lists)
    return step, Who(case["user"], frozenset(case["groups"]))


@pytest.mark.parametrize("case", VECTORS["steps"], ids=case_name)
def test_a_step_of_a_way_is_trusted_if_only_root_and_this_user_can_change_it(case: dict[str, Any]) -> None:
    assert judge_step(*judged(case)).value == case["verdict"]


@pytest.mark.parametrize("case", VECTORS["roots"], ids=case_name)
def test_a_root_is_private_or_a_groups_that_was_asked_for(case: dict[str, Any]) -> None:
    assert judge_root(*judged(case), inside=case["inside"]).value == case["verdict"]
