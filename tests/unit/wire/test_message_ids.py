"""Trace contexts and ids of messages: rules M-11 and M-13 of registry_spec/messages.md."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import WireError
from speed.message.view import MessageView
from speed.message.writing import MessageIds, encode_message, new_message_id
from speed.wire.text import parse_traceparent
from tests.unit.wire.messages import BASE, VECTORS


@pytest.mark.parametrize("text", VECTORS["traceparents"]["valid"])
def test_a_valid_traceparent_is_parsed_and_carried(text: str) -> None:
    """M-11."""
    parsed = parse_traceparent(text)
    assert str(parsed) == "00" + text[2:55]
    assert MessageView(encode_message(b"", **BASE, traceparent=text)).validate().traceparent == str(parsed)


@pytest.mark.parametrize("text", VECTORS["traceparents"]["invalid"])
def test_an_invalid_traceparent_is_refused(text: str) -> None:
    """M-11."""
    with pytest.raises(WireError, match="BAD_MESSAGE: traceparent: "):
        parse_traceparent(text)


@given(st.text(max_size=60) | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True))
def test_traceparent_texts_are_parsed_or_refused_and_nothing_else(text: str) -> None:
    """M-11."""
    try:
        assert str(parse_traceparent(text))[2:] == text[2:55]
    except WireError as error:
        assert error.reason == "BAD_MESSAGE"


@pytest.mark.parametrize("case", VECTORS["message_ids"], ids=lambda case: case["message_id"])
def test_message_ids_match_the_vectors(case: dict[str, Any]) -> None:
    """M-13."""
    made = new_message_id(case["unix_ms"], bytes.fromhex(case["random_hex"]))
    assert made == case["message_id"]


@given(st.integers(0, 2**48 - 1), st.binary(min_size=16, max_size=16))
def test_message_ids_are_uuids_of_version_seven_that_begin_with_the_time(unix_ms: int, raw: bytes) -> None:
    """M-13."""
    made = UUID(new_message_id(unix_ms, raw))
    assert (made.version, made.variant, made.int >> 80) == (7, "specified in RFC 4122", unix_ms)


@pytest.mark.parametrize(("unix_ms", "raw"), [(0, b""), (-1, bytes(16)), (2**48, bytes(16))])
def test_a_message_id_is_not_made_from_bad_parts(unix_ms: int, raw: bytes) -> None:
    """M-13."""
    with pytest.raises(WireError, match="message_id"):
        new_message_id(unix_ms, raw)


def test_one_part_of_a_work_makes_at_most_2_to_the_48_messages() -> None:
    """M-13: their numbers are the last 48 bits."""
    ids = MessageIds("work")
    assert ids.take((1 << 48) - 1, 1)[0].endswith(b"-ffffffffffff")
    with pytest.raises(WireError, match="BAD_MESSAGE: message_id"):
        ids.take(1 << 48, 1)
