"""Large payloads in slots (L-28, L-29): the vectors."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from scripts.vectors.slots import pattern
from speed.core.lane import choose_slot
from speed.errors import WireError
from speed.wire.cursor import SlotHead, SlotPieces
from tests.vectors import case_name, load

VECTORS = load("slots")


@pytest.mark.parametrize("case", VECTORS["heads"], ids=case_name)
def test_a_slot_head_is_written_and_read_back(case: dict[str, Any]) -> None:
    head = SlotHead(case["number"], case["payload_bytes"], bytes.fromhex(case["key"]))
    assert head.encode().hex() == case["hex"]
    assert SlotHead.decode(bytes.fromhex(case["hex"])) == head


@pytest.mark.parametrize("case", VECTORS["invalid_heads"], ids=case_name)
def test_a_slot_head_that_breaks_the_rules_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(WireError) as raised:
        SlotHead.decode(bytes.fromhex(case["hex"]))
    assert raised.value.reason == "BAD_SLOT"


def test_a_slot_head_does_not_show_its_key() -> None:
    assert repr(SlotHead(1, 100, b"k" * 32)) == "<SlotHead 1: 100 bytes>"


@pytest.mark.parametrize("case", VECTORS["payloads"], ids=lambda case: f"{case['payload_bytes']} bytes")
def test_a_payload_is_cut_into_pieces_and_put_together(case: dict[str, Any]) -> None:
    payload = pattern(case["payload_bytes"])
    pieces = SlotPieces(bytes.fromhex(case["key"]), len(payload))
    slot = b"".join(pieces.seal(index, payload) for index in range(pieces.count))
    assert len(slot) == pieces.slot_bytes == case["slot_bytes"]
    assert sha256(slot).hexdigest() == case["slot_sha256"]
    read = bytearray(len(payload))
    for index in range(pieces.count):
        offset, size = pieces.place(index)
        assert pieces.open(index, memoryview(slot)[offset : offset + size], memoryview(read))
    assert read == payload


@pytest.mark.parametrize("case", VECTORS["invalid_pieces"], ids=case_name)
def test_nothing_else_passes_for_a_piece(case: dict[str, Any]) -> None:
    pieces = SlotPieces(bytes.fromhex(case["key"]), 200_000)
    assert not pieces.open(case["index"], bytes.fromhex(case["hex"]), memoryview(bytearray(200_000)))


@pytest.mark.parametrize("case", VECTORS["choices"], ids=case_name)
def test_a_payload_goes_into_the_slot_that_wastes_least(case: dict[str, Any]) -> None:
    free = {number: size for number, size, is_free in case["slots"] if is_free}
    used = {number for number, _, is_free in case["slots"] if not is_free}
    choice = choose_slot(free, used, case["needs"], case["room"])
    if choice is None:
        assert case["slot"] == 0
    else:
        assert choice == (case["slot"], case["file_bytes"], tuple(case["removed"]))
