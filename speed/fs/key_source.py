"""The key file of a running node: looked at again, and its keys taken, while the node goes on (W-20)."""

from __future__ import annotations

import os
import threading
from time import monotonic

from speed.errors import KeyFileError
from speed.fs.keyfile import load_key_file, read_keys

PAUSE_SECONDS = 1.0
"""Between two looks that others can bring about: a stranger names as many keys as it likes."""


class KeySource:
    """A key file, and the keyring that follows it. Thread-safe. KeyFileError if the file is not sound at first."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._lock = threading.Lock()
        self._next = 0.0
        self.keyring = load_key_file(self._path)
        self.keyring.look = self.look_soon

    def look(self) -> KeyFileError | None:
        """Take the keys that are in the file now; what is wrong with it, if the keys of before go on."""
        with self._lock:
            self._next = monotonic() + PAUSE_SECONDS
            try:
                self.keyring.take(read_keys(self._path))
            except KeyFileError as error:
                return error
        return None

    def look_soon(self) -> None:
        """The same, unless somebody looked just before."""
        if monotonic() >= self._next:
            self.look()
