"""The text of a key file (W-14; RFC 3.3): ``SPEED-KEY-V1``, a blank line, Base64 keys, newest first."""

from __future__ import annotations

import base64
import binascii

from speed.errors import KeyFileError
from speed.wire.limits import KEY_BYTES, MAX_KEYS

FIRST_LINE = "SPEED-KEY-V1"
_FIX = "make one with `speed key new`"


def parse_key_file(text: bytes) -> tuple[bytes, ...]:
    """The keys of a key file, the sealing one first; KeyFileError names the line, never its content."""
    try:
        lines = [line.rstrip(" \t\r") for line in text.decode("ascii").split("\n")]
    except UnicodeDecodeError:
        raise KeyFileError(f"the key file is no text; {_FIX}") from None
    if lines[0] != FIRST_LINE:
        raise KeyFileError(f"line 1 of the key file is not {FIRST_LINE}; {_FIX}")
    if len(lines) < 2 or lines[1]:
        raise KeyFileError(f"line 2 of the key file is not blank; {_FIX}")
    keys = tuple(_parse_key(line, number) for number, line in enumerate(lines[2:], start=3) if line)
    if not keys:
        raise KeyFileError(f"the key file has no key after line 2; {_FIX}")
    if len(keys) > MAX_KEYS or len(set(keys)) != len(keys):
        raise KeyFileError(f"the key file has more than {MAX_KEYS} keys or one twice; {_FIX}")
    return keys


def _parse_key(line: str, number: int) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        raise KeyFileError(f"line {number} of the key file is not Base64; {_FIX}") from None
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"line {number} of the key file has {len(key)} bytes, not {KEY_BYTES}; {_FIX}")
    if base64.b64encode(key).decode() != line:
        raise KeyFileError(f"line {number} of the key file is not the canonical Base64 of its key; {_FIX}")
    return key


def format_key_file(keys: tuple[bytes, ...]) -> bytes:
    """The text that ``parse_key_file`` reads back."""
    lines = [FIRST_LINE, "", *(base64.b64encode(key).decode() for key in keys)]
    return ("\n".join(lines) + "\n").encode()


def rotate(keys: tuple[bytes, ...], new: bytes, keep: int = 1) -> tuple[bytes, ...]:
    """Put ``new`` first and keep ``keep`` older keys, accepted while the rotation lasts."""
    return (new, *keys[:keep])
