"""What is shown of texts of others (W-19)."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.wire.text import harmless, harmless_json, harmless_lines
from tests.vectors import case_name, load

VECTORS = load("harmless")
ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
any_text = st.text(st.characters(exclude_categories=()))


def acting(text: str) -> list[str]:
    return [one for one in text if unicodedata.category(one) in ACTING]


@pytest.mark.parametrize("case", VECTORS["texts"] + VECTORS["cut"], ids=case_name)
def test_what_acts_is_shown_by_its_number(case: dict[str, Any]) -> None:
    assert harmless(case["text"], case.get("max_chars")) == case["shown"]


def test_a_lone_half_of_a_pair_is_shown_by_its_number() -> None:
    assert harmless("file\udc9b") == "file\\udc9b"


@given(any_text, st.integers(0, 20))
def test_no_text_acts_once_it_is_harmless(text: str, most: int) -> None:
    assert acting(harmless(text)) == []
    assert len(harmless(text, most)) <= 10 * most + 1


@given(any_text)
def test_what_is_harmless_stays_as_it_is(text: str) -> None:
    assert harmless(harmless(text)) == harmless(text)


@given(any_text)
def test_lines_are_kept_where_they_may_be(text: str) -> None:
    assert acting(harmless_lines(text)) == ["\n"] * text.count("\n")


@given(st.dictionaries(any_text, st.lists(any_text)))
def test_json_says_the_same_and_acts_no_more(value: Any) -> None:
    text = harmless_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert set(acting(text)) <= {"\n"}
    assert json.loads(text) == json.loads(json.dumps(value))
