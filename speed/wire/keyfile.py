"""The text of a key file (rules W-20 to W-22). Messages name the mistake and its line, never the content."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

from speed.errors import KeyFileError
from speed.wire.limits import KEY_BYTES, MAX_KEYS

FIRST_LINE = b"SPEED-KEY-V1"
MAX_KEY_FILE_BYTES = 4096

_ENCODED_BYTES = 44


def parse_key_file(text: bytes) -> tuple[bytes, ...]:
    """Return the keys of a key file, the sealing one first (rule W-20).

    Raises:
        KeyFileError: what is wrong and in which line.
    """
    if len(text) > MAX_KEY_FILE_BYTES:
        raise KeyFileError(
            f"the key file has {len(text)} bytes, at most {MAX_KEY_FILE_BYTES}: not a key file"
        )
    lines = [line[:-1] if line.endswith(b"\r") else line for line in text.split(b"\n")]
    if lines[0] != FIRST_LINE:
        raise KeyFileError(f"line 1 of the key file must be {FIRST_LINE.decode()}")
    if len(lines) < 3 or lines[1]:
        raise KeyFileError("line 2 of the key file must be blank, and line 3 hold a key")
    while lines and not lines[-1]:
        lines.pop()
    keys = tuple(_parse_key(line, number) for number, line in enumerate(lines[2:], start=3))
    return _checked(keys)


def _parse_key(line: bytes, number: int) -> bytes:
    if not line:
        raise KeyFileError(
            f"line {number} of the key file is blank; keys stand on lines that follow each other"
        )
    try:
        key = b64decode(line, validate=True)
    except ValueError:
        raise KeyFileError(f"line {number} of the key file is not Base64") from None
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"line {number} of the key file holds {len(key)} bytes instead of {KEY_BYTES}")
    if len(line) != _ENCODED_BYTES or b64encode(key) != line:
        raise KeyFileError(f"line {number} of the key file is not canonical Base64")
    return key


def _checked(keys: tuple[bytes, ...]) -> tuple[bytes, ...]:
    if not keys:
        raise KeyFileError("the key file holds no key; line 3 must be Base64 of 32 bytes")
    if len(keys) > MAX_KEYS:
        raise KeyFileError(f"the key file holds {len(keys)} keys, at most {MAX_KEYS}: remove the oldest")
    for index, key in enumerate(keys):
        if key in keys[:index]:
            raise KeyFileError(
                f"line {index + 3} of the key file repeats the key of line {keys.index(key) + 3}"
            )
    return keys


def format_key_file(keys: Sequence[bytes]) -> bytes:
    """Return the text of a key file; the first key seals (rule W-20).

    Raises:
        KeyFileError: no key, too many, a repeated one, or one that is not 32 bytes.
    """
    for number, key in enumerate(keys, start=1):
        if len(key) != KEY_BYTES:
            raise KeyFileError(f"key {number} has {len(key)} bytes instead of {KEY_BYTES}")
    lines = [FIRST_LINE, b"", *(b64encode(key) for key in _checked(tuple(keys)))]
    return b"\n".join(lines) + b"\n"


def rotate(keys: Sequence[bytes], new: bytes) -> tuple[bytes, ...]:
    """Return keys that seal with ``new`` and still accept the former ones, up to MAX_KEYS (rule W-22)."""
    if len(new) != KEY_BYTES:
        raise KeyFileError(f"the new key has {len(new)} bytes instead of {KEY_BYTES}")
    return _checked((new, *keys)[:MAX_KEYS])
