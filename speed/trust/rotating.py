"""The next key of a file of keys: added when it is due, while no other process changes the file (M-26)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from speed.fs.keyfile import alone_with
from speed.fs.open import replace_private
from speed.message.keys import MessageKey
from speed.message.rotation import is_due, rotated
from speed.trust.providers import FileProvider


def rotate_file(path: str, period_ms: int, overlap_ms: int) -> MessageKey | None:
    """Add a new key, and let older ones end; the new key, None if the newest is younger than the period.

    Raises MessageKeyError and KeyFileError; OSError where the file cannot be written.
    """
    with alone_with(path):
        now_ms = time.time_ns() // 1_000_000
        keys = FileProvider(path).fetch()
        if not is_due(keys, now_ms, period_ms):
            return None
        fresh = rotated(keys, now_ms, overlap_ms)
        write_keys(path, fresh)
    return fresh[-1]


def write_keys(file: str, keys: Sequence[MessageKey]) -> None:
    """The whole set at once, private to this user."""
    replace_private(file, json.dumps([key.to_record() for key in keys], indent=1).encode())
