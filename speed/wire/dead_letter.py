"""A dead letter as bytes: what is known of a message that could not be handled, and its payload, sealed (S-18)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from speed.errors import WireError
from speed.wire.limits import DEAD_LETTER_CHUNK_BYTES, KEY_ID_BYTES, MAX_SEGMENTED_BYTES, NONCE_BYTES, TAG_BYTES
from speed.wire.seal import Keyring
from speed.wire.value import pack, unpack_map

CHUNK_BYTES = DEAD_LETTER_CHUNK_BYTES
"""Of the payload in one chunk."""
_HEADER = Struct(">4sB3x8s8s")
_PLACE = Struct(">IB")
_LENGTH = Struct(">I")
_MAX_SEALED_BYTES = CHUNK_BYTES + NONCE_BYTES + TAG_BYTES
_KINDS = ("MESSAGE", "EVENT")

Draw = Callable[[int], bytes]
Read = Callable[[int], bytes]
"""Reads so many bytes of a file, fewer only at its end."""


class DeadLetter(NamedTuple):
    """What is known of it. ``timestamp_ms`` is the envelope's, ``died_at_ms`` when it was given up, both Unix ms."""

    type: str
    source: str
    sequence: int
    timestamp_ms: int
    deliveries: int
    error_code: str
    error_message: str
    died_at_ms: int
    payload_bytes: int


_NAMES = (
    "type",
    "source",
    "sequence",
    "timestamp",
    "deliveries",
    "errorCode",
    "errorMessage",
    "diedAt",
    "payloadBytes",
)


def write_letter(
    letter: DeadLetter, payload: Iterable[bytes], keyring: Keyring, node_id: bytes, draw: Draw
) -> Iterator[bytes]:
    """The bytes of its file, piece by piece; ``payload`` comes in pieces of ``CHUNK_BYTES``, the last one shorter."""
    key_id = keyring.key_id
    header = _HEADER.pack(b"SPDL", 1, key_id, draw(8))
    aead = keyring.dead_letters_aead(key_id, node_id)
    yield header
    chunk, number = pack(dict(zip(_NAMES, letter, strict=True)), "dead letter"), 0
    for piece in payload:
        yield _sealed(aead, header, number, False, chunk, draw)
        chunk, number = piece, number + 1
    yield _sealed(aead, header, number, True, chunk, draw)


def _sealed(aead: Any, header: bytes, number: int, is_last: bool, chunk: bytes, draw: Draw) -> bytes:
    nonce = draw(NONCE_BYTES)
    sealed = nonce + aead.encrypt(nonce, chunk, header + _PLACE.pack(number, is_last))
    return _LENGTH.pack(len(sealed)) + bytes(sealed)


def read_letter(read: Read, keyring: Keyring, node_id: bytes) -> tuple[DeadLetter, Iterator[bytes]]:
    """What is known of a letter, and its payload piece by piece.

    WireError, also from the pieces: BAD_PAYLOAD for what is no letter or was altered or cut, UNKNOWN_KEY.
    """
    header = read(_HEADER.size)
    if len(header) != _HEADER.size or header[:8] != b"SPDL\x01\0\0\0":
        raise WireError("BAD_PAYLOAD", "no dead letter of version 1")
    aead = keyring.dead_letters_aead(header[8 : 8 + KEY_ID_BYTES], node_id)
    sealed = _next_sealed(read)
    following = _next_sealed(read)
    letter = _letter_of(_opened(aead, header, 0, following is None, sealed))
    return letter, _pieces(read, aead, header, following, letter.payload_bytes)


def _pieces(read: Read, aead: Any, header: bytes, sealed: bytes | None, payload_bytes: int) -> Iterator[bytes]:
    number, left = 1, payload_bytes
    while sealed is not None:
        following = _next_sealed(read)
        piece = _opened(aead, header, number, following is None, sealed)
        number, left, sealed = number + 1, left - len(piece), following
        yield piece
    if left:
        raise WireError("BAD_PAYLOAD", "a dead letter whose payload has another size than it says")


def _next_sealed(read: Read) -> bytes | None:
    length = read(_LENGTH.size)
    if not length:
        return None
    size = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else 0
    sealed = read(size) if NONCE_BYTES + TAG_BYTES <= size <= _MAX_SEALED_BYTES else b""
    if not sealed or len(sealed) != size:
        raise WireError("BAD_PAYLOAD", "a dead letter that is cut, or no chunk where one should be")
    return sealed


def _opened(aead: Any, header: bytes, number: int, is_last: bool, sealed: bytes | None) -> bytes:
    if sealed is None:
        raise WireError("BAD_PAYLOAD", "a dead letter without a word")
    try:
        opened: bytes = aead.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], header + _PLACE.pack(number, is_last))
    except Exception:
        raise WireError("BAD_PAYLOAD", "a chunk of a dead letter was altered, moved or cut off") from None
    return opened


def _letter_of(data: bytes) -> DeadLetter:
    values = unpack_map(data, "dead letter")
    letter = DeadLetter(*(values.get(name) for name in _NAMES))  # type: ignore[arg-type]
    texts = (letter.type, letter.source, letter.error_code, letter.error_message)
    numbers = (letter.sequence, letter.timestamp_ms, letter.deliveries, letter.died_at_ms, letter.payload_bytes)
    is_text = all(type(text) is str for text in texts) and letter.type in _KINDS
    if not is_text or not all(type(number) is int and 0 <= number < 1 << 64 for number in numbers):
        raise WireError("BAD_PAYLOAD", "a dead letter lacks a field, or one has a wrong type")
    if letter.payload_bytes > MAX_SEGMENTED_BYTES:
        raise WireError("BAD_PAYLOAD", "a dead letter says that its payload is larger than any")
    return letter
