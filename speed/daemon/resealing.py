"""Sealing journal and topics anew on a thread of its own, whenever the keys have changed (J-16)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from speed.errors import SpeedError
from speed.journal.reseal import Resealed
from speed.wire.seal import Keyring, Keys

MOST_TOLD = 20
"""Files that are named because something in them stays as it is; the others are counted."""


class Resealing:
    """Looks at the keys when it is asked to.

    Args:
        sources: what is sealed anew: each begins a run over its files.
        keyring: follows the key file.
    """

    def __init__(self, sources: Sequence[Callable[[], Iterator[Resealed]]], keyring: Keyring, log: Any) -> None:
        self._sources, self._keyring, self._log = sources, keyring, log
        self._done: Keys | None = None
        """The keys under which everything is sealed."""
        self._failed = ""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin a run if keys changed since the last one that ended well, and none is under way."""
        is_running = self._thread is not None and self._thread.is_alive()
        if self._done is self._keyring.now or is_running or not self._sources:
            return
        self._thread = threading.Thread(target=self._run, args=(self._keyring.now,), name="speed-reseal", daemon=True)
        self._thread.start()

    def _run(self, now: Keys) -> None:
        try:
            if self._resealed():
                self._done, self._failed = now, ""
        except SpeedError as error:
            if str(error) != self._failed:  # it is tried again with each look
                self._log.error("sealing_anew_failed", code=error.code, reason=str(error))
            self._failed = str(error)

    def _resealed(self) -> bool:
        """Whether the run came to its end."""
        files = size = troubles = 0
        for one in chain.from_iterable(source() for source in self._sources):
            if self._closing.is_set():
                return False
            files, size, troubles = files + bool(one.size), size + one.size, troubles + bool(one.trouble)
            if one.trouble and troubles <= MOST_TOLD:
                self._log.warning("not_sealed_anew", file=one.path, reason=one.trouble)
        if files or troubles:
            self._log.info("sealed_anew", files=files, bytes=size, troubles=troubles)
        return True

    def close(self) -> None:
        """End; what is left is for the next start."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
