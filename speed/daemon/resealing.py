"""Sealing journal and topics anew on a thread of its own, whenever the keys have changed (J-16)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from speed.errors import SpeedError
from speed.fs.key_source import KeySource
from speed.journal.reseal import Resealed
from speed.wire.seal import Keys

MOST_TOLD = 20
"""Files that are named because something in them stays as it is; the others are counted."""


class Resealing:
    """Looks at the keys when it is asked to.

    Args:
        sources: what is sealed anew: each begins a run over its files.
        keys: the key file, which somebody else looks at before each look of this one.
    """

    def __init__(self, sources: Sequence[Callable[[], Iterator[Resealed]]], keys: KeySource, log: Any) -> None:
        self._sources, self._keys, self._log = sources, keys, log
        self._done: Keys | None = None
        """The keys under whose first one everything is sealed."""
        self._failed = ""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin if keys changed since everything was sealed anew, and it is not under way."""
        is_running = self._thread is not None and self._thread.is_alive()
        if self._done is self._keys.keyring.now or is_running or not self._sources:
            return
        self._thread = threading.Thread(target=self._run, name="speed-reseal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Walk over everything until the keys are the same before and behind a walk."""
        counts = Counter(files=0, bytes=0, troubles=0)
        try:
            while self._done is not (now := self._keys.keyring.now):
                if not self._walked(counts):
                    return
                self._keys.look()
                if now is self._keys.keyring.now:
                    self._done, self._failed = now, ""
        except SpeedError as error:
            if str(error) != self._failed:  # it is tried again with each look
                self._log.error("sealing_anew_failed", code=error.code, reason=str(error))
            self._failed = str(error)
        else:
            if counts["files"] or counts["troubles"]:
                self._log.info("sealed_anew", **counts)

    def _walked(self, counts: Counter[str]) -> bool:
        """Whether a walk came to its end."""
        for one in chain.from_iterable(source() for source in self._sources):
            if self._closing.is_set():
                return False
            counts.update(files=bool(one.size), bytes=one.size, troubles=bool(one.trouble))
            if one.trouble and counts["troubles"] <= MOST_TOLD:
                self._log.warning("not_sealed_anew", file=one.path, reason=one.trouble)
        return True

    def close(self) -> None:
        """End; what is left is for the next start."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
