"""What writers make of a value and its fields: the same bytes in every language (M-2, M-5, M-6, M-10)."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.vectors.messages import BASE, pb, writer_fields
from speed.errors import WireError
from speed.message.view import MessageView
from speed.message.writing import encode_message
from tests.vectors import case_name, load, value_of

VECTORS = load("messages")


@pytest.mark.parametrize("case", VECTORS["written"], ids=case_name)
def test_a_message_is_written_with_the_stated_bytes(case: dict[str, Any]) -> None:
    written = encode_message(value_of(case["value"]), **writer_fields(case["fields"]))
    assert written.hex() == case["hex"]


@pytest.mark.parametrize("case", VECTORS["not_written"], ids=case_name)
def test_a_message_with_a_wrong_field_is_not_written(case: dict[str, Any]) -> None:
    with pytest.raises(WireError) as refused:
        encode_message(None, **writer_fields(case["fields"]))
    assert (refused.value.reason, case["field"] in str(refused.value)) == ("BAD_MESSAGE", True)


PARENT = "00f067aa0ba902b7"


def traced(**how: Any) -> MessageView:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", **how}
    return MessageView(encode_message(b"", **{**BASE, **trace}))


def test_the_span_that_a_trace_is_part_of_is_written_beside_it() -> None:
    """M-11."""
    assert traced(parent_span_id=PARENT).parent_span_id == PARENT
    assert traced().parent_span_id is None
    assert MessageView(encode_message(b"", **BASE, parent_span_id=PARENT)).parent_span_id is None


@pytest.mark.parametrize("bad", ["", "0" * 16, PARENT.upper(), PARENT[1:]])
def test_a_parent_that_is_no_span_id_is_not_written_and_absent_for_a_reader(bad: str) -> None:
    """M-11."""
    with pytest.raises(WireError, match="parent_span_id"):
        traced(parent_span_id=bad)
    said = pb.MessageEnvelope.FromString(bytes(traced().data))
    said.observability.parent_span_id = bad
    assert MessageView(said.SerializeToString()).parent_span_id is None
