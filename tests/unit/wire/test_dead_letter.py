"""Dead letters (S-18)."""

from __future__ import annotations

import io
from typing import Any

import pytest

from speed.errors import WireError
from speed.fs.dead_letters import CHUNK_BYTES, DeadLetter, read_letter, write_letter
from speed.wire.names import node_id
from speed.wire.seal import Keyring
from tests.vectors import case_name, load

VECTORS = load("dead_letters")
RING = Keyring(tuple(bytes.fromhex(key) for key in VECTORS["accepted_keys"]))
NODE = node_id(VECTORS["node"])


def read(data: bytes) -> tuple[DeadLetter, bytes]:
    letter, pieces = read_letter(io.BytesIO(data).read, RING, NODE)
    return letter, b"".join(pieces)


@pytest.mark.parametrize("case", VECTORS["valid"], ids=case_name)
def test_a_published_letter_is_read(case: dict[str, Any]) -> None:
    """S-18."""
    fields = {**case["letter"], "sequence": int(case["letter"]["sequence"], 16)}
    assert read(bytes.fromhex(case["hex"])) == (DeadLetter(**fields), bytes.fromhex(case["payload_hex"]))


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=case_name)
def test_a_broken_letter_is_refused(case: dict[str, Any]) -> None:
    """S-18."""
    with pytest.raises(WireError) as refusal:
        read(bytes.fromhex(case["hex"]))
    assert refusal.value.reason == "BAD_PAYLOAD"


@pytest.mark.parametrize("case", VECTORS["unknown_key"], ids=case_name)
def test_a_letter_of_an_unknown_key_says_so(case: dict[str, Any]) -> None:
    """S-18."""
    with pytest.raises(WireError) as refusal:
        read(bytes.fromhex(case["hex"]))
    assert refusal.value.reason == "UNKNOWN_KEY"


def test_a_payload_of_many_chunks_is_read_back() -> None:
    """S-18."""
    pieces = [bytes([number]) * CHUNK_BYTES for number in range(3)] + [b"end"]
    letter = DeadLetter("EVENT", "a", 1, 2, 3, "X", "", 4, sum(map(len, pieces)))
    written = b"".join(write_letter(letter, pieces, RING, NODE, bytes))
    assert read(written) == (letter, b"".join(pieces))


@pytest.mark.parametrize("at", range(0, 200, 7))
def test_no_byte_of_a_letter_can_change(at: int) -> None:
    """S-18."""
    data = bytearray.fromhex(VECTORS["valid"][0]["hex"])
    data[at % len(data)] ^= 1
    with pytest.raises(WireError):
        read(bytes(data))


def test_a_payload_larger_than_any_is_not_believed() -> None:
    """S-18."""
    letter = DeadLetter("MESSAGE", "a", 1, 2, 3, "X", "", 4, (1 << 30) + 1)
    with pytest.raises(WireError, match="larger than any"):
        read(b"".join(write_letter(letter, [], RING, NODE, bytes)))
