"""Cursor, fence and deliveries files: L-14, L-18, L-25."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.errors import WireError
from speed.wire.cursor import (
    FENCE_BYTES,
    MAX_CURSOR_BYTES,
    Cursor,
    Fence,
    Unfinished,
    decode_cursor,
    decode_deliveries,
    decode_fence,
    encode_cursor,
    encode_deliveries,
    encode_fence,
)
from speed.wire.names import node_id
from speed.wire.seal import Keyring
from tests.vectors import case_name, load, placed

VECTORS = load("cursors")
RING = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"]))
LANE_KEYS = RING.lane_keys(node_id(VECTORS["source"]), node_id(VECTORS["target"]))
u32, u63, u64 = (st.integers(0, 2**bits - 1) for bits in (32, 63, 64))
unfinished_lists = st.lists(st.builds(Unfinished, u64, u32, u32, u63, st.booleans()), max_size=64).map(tuple)
cursors = st.builds(Cursor, u32, u32, u32, u64, u64, unfinished_lists, st.booleans(), st.booleans())


def cursor_of(fields: dict[str, Any]) -> Cursor:
    unfinished = tuple(
        Unfinished(**{**placed(one), "sequence": int(one["sequence"], 16)}) for one in fields["unfinished"]
    )
    return Cursor(**{**placed(fields), "last_sequence": int(fields["last_sequence"], 16), "unfinished": unfinished})


@pytest.mark.parametrize("case", VECTORS["cursors_valid"], ids=case_name)
def test_a_published_cursor_is_read_and_written_alike(case: dict[str, Any]) -> None:
    """L-14."""
    data, cursor = bytes.fromhex(case["hex"]), cursor_of(case["cursor"])
    assert decode_cursor(data, LANE_KEYS) == cursor
    assert case.get("only_read") or encode_cursor(cursor, LANE_KEYS[0]) == data


@pytest.mark.parametrize("case", VECTORS["cursors_invalid"], ids=case_name)
def test_a_broken_cursor_is_refused(case: dict[str, Any]) -> None:
    """L-14, L-15: then the next older one counts."""
    with pytest.raises(WireError) as refusal:
        decode_cursor(bytes.fromhex(case["hex"]), LANE_KEYS)
    assert refusal.value.reason == "BAD_CURSOR"


@pytest.mark.parametrize("case", VECTORS["fences_valid"], ids=case_name)
def test_a_published_fence_is_read_and_written_alike(case: dict[str, Any]) -> None:
    """L-18."""
    data, fence = bytes.fromhex(case["hex"]), Fence(**placed(case["fence"]))
    assert decode_fence(data, LANE_KEYS) == fence
    assert encode_fence(fence, LANE_KEYS[0]) == data
    assert len(data) == FENCE_BYTES


@pytest.mark.parametrize("case", VECTORS["fences_invalid"], ids=case_name)
def test_a_broken_fence_is_refused(case: dict[str, Any]) -> None:
    """L-18."""
    with pytest.raises(WireError) as refusal:
        decode_fence(bytes.fromhex(case["hex"]), LANE_KEYS)
    assert refusal.value.reason == "BAD_FENCE"


@given(cursors)
def test_every_cursor_is_read_back(cursor: Cursor) -> None:
    """L-14."""
    data = encode_cursor(cursor, LANE_KEYS[0])
    assert decode_cursor(data, LANE_KEYS) == cursor
    assert len(data) == 80 + 24 * len(cursor.unfinished) <= MAX_CURSOR_BYTES


@given(cursors, cursors)
def test_a_shorter_cursor_written_over_a_longer_one_is_read(before: Cursor, after: Cursor) -> None:
    """L-15: one pwrite, without truncation."""
    old, new = encode_cursor(before, LANE_KEYS[0]), encode_cursor(after, LANE_KEYS[0])
    assert decode_cursor(new + old[len(new) :], LANE_KEYS) == after


@given(cursors, st.data())
def test_no_changed_byte_of_a_cursor_passes(cursor: Cursor, data: st.DataObject) -> None:
    """L-15: a torn or altered cursor fails its MAC."""
    file = bytearray(encode_cursor(cursor, LANE_KEYS[0]))
    file[data.draw(st.integers(0, len(file) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        decode_cursor(bytes(file), LANE_KEYS)


@given(st.builds(Fence, u32, u32, u32, u64), st.integers(0, FENCE_BYTES - 1), st.integers(1, 255))
def test_every_fence_is_read_back_and_no_changed_byte_passes(fence: Fence, position: int, change: int) -> None:
    """L-18."""
    file = bytearray(encode_fence(fence, LANE_KEYS[0]))
    assert decode_fence(bytes(file), LANE_KEYS) == fence
    file[position] ^= change
    with pytest.raises(WireError):
        decode_fence(bytes(file), LANE_KEYS)


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda tail: b"SPDC\x01\x00" + tail))
def test_garbage_is_no_cursor_and_no_fence(garbage: bytes) -> None:
    """L-14, L-18."""
    with pytest.raises(WireError):
        decode_cursor(garbage, LANE_KEYS)
    with pytest.raises(WireError):
        decode_fence(garbage, LANE_KEYS)


@pytest.mark.parametrize("case", VECTORS["deliveries_valid"], ids=case_name)
def test_published_deliveries_are_read_and_written_alike(case: dict[str, Any]) -> None:
    """L-25."""
    data = bytes.fromhex(case["hex"])
    deliveries = {int(one["sequence"], 16): one["count"] for one in case["deliveries"]}
    assert decode_deliveries(data, LANE_KEYS) == deliveries
    assert encode_deliveries(deliveries, LANE_KEYS[0]) == data


@pytest.mark.parametrize("case", VECTORS["deliveries_invalid"], ids=case_name)
def test_broken_deliveries_are_refused(case: dict[str, Any]) -> None:
    """L-25."""
    with pytest.raises(WireError) as refusal:
        decode_deliveries(bytes.fromhex(case["hex"]), LANE_KEYS)
    assert refusal.value.reason == "BAD_CURSOR"
