"""The vectors of many payloads in one message (M-30)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.message.errors import BatchError
from speed.message.options import encode_batch, encode_batches, split_batch
from tests.vectors import case_name, load, value_of

VECTORS = load("batches")


@pytest.mark.parametrize("case", VECTORS["written"], ids=case_name)
def test_payloads_are_written_as_each_would_travel_alone(case: dict[str, Any]) -> None:
    """M-30."""
    assert bytes(encode_batch(value_of(case["payloads"])).data).hex() == case["hex"]


@pytest.mark.parametrize("case", VECTORS["read"], ids=case_name)
def test_each_payload_is_read_with_its_own_type(case: dict[str, Any]) -> None:
    """M-30."""
    parts = list(split_batch(memoryview(bytes.fromhex(case["hex"]))))
    expected = [(part["content_type"], part["type_url"], part["hex"]) for part in case["parts"]]
    assert [(part.content_type, part.type_url, part.data.hex()) for part in parts] == expected


@pytest.mark.parametrize("case", VECTORS["refused"], ids=case_name)
def test_a_batch_that_lies_is_refused(case: dict[str, Any]) -> None:
    """M-30."""
    with pytest.raises(BatchError) as refused:
        list(split_batch(memoryview(bytes.fromhex(case["hex"]))))
    assert refused.value.code == "BAD_BATCH"


@pytest.mark.parametrize("case", VECTORS["topics"], ids=case_name)
def test_payloads_for_several_topics_become_one_batch_of_each(case: dict[str, Any]) -> None:
    """M-30."""
    made = encode_batches([(topic, value_of(value)) for topic, value in case["pairs"]])
    assert [(topic, bytes(content.data).hex()) for topic, content in made.items()] == [
        (batch["topic"], batch["hex"]) for batch in case["batches"]
    ]
