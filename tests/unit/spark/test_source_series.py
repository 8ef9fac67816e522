"""Many messages written quickly are those that each is alone, and ids of repeatable work (M-2, M-13)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.errors import WireError
from speed.message.writing import MessageIds, encode_message
from speed.spark.source.rows import MessageSeries
from speed.wire.value import encode_content
from tests.vectors import load

ID = "018f0000-0000-7000-8000-000000000001"


def message(payload: Any = b"x", **said: Any) -> bytes:
    fields = {"topic": "flights.ua", "namespace": "default", "message_id": ID, "published_at_ms": 1_700_000_000_000}
    return encode_message(payload, **{**fields, **said})


@pytest.mark.parametrize("size", [0, 1, 115, 125, 126, 127, 128, 16_380, 20_000])
def test_a_series_writes_the_bytes_that_each_message_has_alone(size: int) -> None:
    """M-2."""
    payload = b"p" * size
    said = {"topic": "a.b", "namespace": "default", "priority": 3, "publisher_id": "etl"}
    series = MessageSeries(encode_content(b""), 1_700_000_000_000, **said)
    assert series.encode(ID.encode(), payload) == message(payload, **said)
    assert series.encode(ID.encode(), payload) == message(payload, **said)


def test_a_series_of_very_many_sizes_remembers_some_of_them_and_writes_all() -> None:
    """M-2."""
    series = MessageSeries(encode_content(b""), 1_700_000_000_000, topic="flights.ua", namespace="default")
    for size in range(4097):
        data = series.encode(ID.encode(), bytes(size))
    assert data == series.encode(ID.encode(), bytes(4096)) == message(bytes(4096))


@pytest.mark.parametrize("case", load("messages")["repeated_ids"], ids=lambda case: case["message_id"])
def test_ids_of_work_that_is_done_again_match_the_vectors(case: dict[str, Any]) -> None:
    """M-13."""
    assert MessageIds(*case["names"]).take(case["number"], 1) == [case["message_id"].encode()]


def test_ids_of_one_work_count_its_messages() -> None:
    """M-13."""
    first, second = MessageIds("batch", "run", "0").take(4095, 2)
    assert first[:-12] == second[:-12]
    assert (first[-12:], second[-12:]) == (b"000000000fff", b"000000001000")
    assert first == b"4ba12347-a61e-8817-9212-000000000fff"  # SHA-256 begins 4ba12347 a61e 6817 5212


def test_a_work_has_no_ids_for_more_messages_than_an_id_can_count() -> None:
    """M-13."""
    ids = MessageIds("batch", "run", "0")
    assert ids.take((1 << 48) - 1, 1)[0].endswith(b"-ffffffffffff")
    with pytest.raises(WireError, match="2\\^48"):
        ids.take((1 << 48) - 1, 2)
