"""What the tests of slots share: payloads that lie in slots, sealed as any sender would."""

from __future__ import annotations

from pathlib import Path

from speed.wire import names
from speed.wire.cursor import SlotHead, SlotPieces
from speed.wire.envelope import FLAG_SLOTTED
from speed.wire.limits import SLOT_PIECE_BYTES, TAG_BYTES
from tests.fs.lanes import Lane, sealed

KEY = bytes(range(100, 132))
STRIDE = SLOT_PIECE_BYTES + TAG_BYTES
PAYLOAD = bytes(range(256)) * 600
"""Three pieces: two whole ones and a rest."""


def pieces_of(payload: bytes, key: bytes = KEY) -> list[bytes]:
    pieces = SlotPieces(key, len(payload))
    return [pieces.seal(index, payload) for index in range(pieces.count)]


def head(counter: int, payload: bytes = PAYLOAD, *, number: int = 1, key: bytes = KEY, generation: int = 1) -> bytes:
    """The envelope of a payload in a slot."""
    plaintext = SlotHead(number, len(payload), key).encode()
    return sealed(counter, plaintext, generation, flags=FLAG_SLOTTED)


def slot_path(lane: Lane, number: int = 1, generation: int = 1) -> Path:
    return lane.path / names.slot_name(generation, number)


def fill(lane: Lane, written: int = 3, payload: bytes = PAYLOAD, number: int = 1, generation: int = 1) -> Path:
    """A slot that is long enough, with so many pieces in it."""
    lane.path.mkdir(mode=0o700, exist_ok=True)
    pieces = pieces_of(payload)
    path = slot_path(lane, number, generation)
    path.write_bytes(b"".join(pieces[:written]).ljust(sum(map(len, pieces)), b"\0"))
    return path


def put_piece(path: Path, index: int, payload: bytes = PAYLOAD) -> None:
    """Write one piece as its sender does."""
    with path.open("r+b") as slot:
        slot.seek(index * STRIDE)
        slot.write(pieces_of(payload)[index])
