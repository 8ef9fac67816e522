"""JSON as RFC 8259 has it and no more: R-2, M-10."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import WireError
from speed.message.view import MessageView
from speed.message.writing import encode_message
from speed.wire.limits import MAX_JSON_DEPTH
from speed.wire.text import read_json
from tests.unit.wire.messages import BASE, VECTORS
from tests.vectors import case_name

CASES = VECTORS["json_payloads"]
texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\[]{}u'), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def payload_of(data: bytes) -> Any:
    return MessageView(encode_message(data, **BASE, content_type="application/json")).validate().payload


def height(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(height, value.values() if isinstance(value, dict) else value), default=0)


@pytest.mark.parametrize("case", CASES["valid"], ids=case_name)
def test_json_is_decoded(case: dict[str, str]) -> None:
    """M-10."""
    data = bytes.fromhex(case["hex"])
    assert payload_of(data) == json.loads(data)


@pytest.mark.parametrize("case", CASES["invalid"], ids=case_name)
def test_what_only_some_libraries_take_for_json_is_refused(case: dict[str, str]) -> None:
    """M-10."""
    with pytest.raises(WireError, match="BAD_MESSAGE: payload: "):
        payload_of(bytes.fromhex(case["hex"]))


@given(values, st.booleans())
def test_whatever_is_json_is_read_in_any_form_and_its_depth_is_counted(value: Any, is_ascii: bool) -> None:
    """M-10."""
    data = json.dumps(value, ensure_ascii=is_ascii).encode()
    assert read_json(data, MAX_JSON_DEPTH) == value
    depth = height(value)
    assert read_json(data, depth) == value
    if depth:
        with pytest.raises(ValueError, match="deep"):
            read_json(data, depth - 1)


@given(st.text(st.sampled_from('"\\[]{}u,:dD8c1aE+-. '), max_size=24))
def test_nothing_is_read_that_the_library_does_not_read(text: str) -> None:
    try:
        value = read_json(text.encode(), MAX_JSON_DEPTH)
    except ValueError:
        return
    assert value == json.loads(text)


def test_an_error_repeats_nothing_of_the_payload() -> None:
    """M-26."""
    for data in (b"[1e999]", b"[4111e999]", b"1" * 400, b'"4111\\ud800"'):
        with pytest.raises(ValueError, match=r"beyond a double|surrogate") as refused:
            read_json(data, MAX_JSON_DEPTH)
        assert not any(digits in str(refused.value) for digits in ("4111", "999", "d800"))
