"""What writers make of a value and its fields: the same bytes in every language (M-2, M-5, M-6, M-10)."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.vectors.messages import writer_fields
from speed.errors import WireError
from speed.wire.message import encode_message
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
