"""Log lines that others decide the number of: one of a kind in ten seconds or more, with how many were left out."""

from __future__ import annotations

from time import monotonic

from speed.core.log import Log
from speed.runtime import locks

AGAIN_SECONDS = 10.0
_MAX_KINDS = 1024
"""Of kinds some name a node; what is beyond shares one."""


class Said:
    """When each kind of line was written last. Thread-safe; nothing is logged under its lock."""

    def __init__(self) -> None:
        self._lock = locks.lock("said")
        self._kinds: dict[str, tuple[float, int]] = {}

    def failed(self, logger: Log, doing: str, error: Exception) -> None:
        """Write that something failed, with its traceback, unless that was written just before."""
        left_out = self._left_out(f"failed {doing}")
        if left_out is not None:
            more = f" ({left_out} times more since the last such line)" if left_out else ""
            logger.error("%s failed%s", doing, more, exc_info=error)

    def warn(self, logger: Log, kind: str, text: str, *arguments: object, seconds: float = AGAIN_SECONDS) -> None:
        """Write ``text % arguments`` as a warning, unless a line of this kind was written in the last ``seconds``."""
        left_out = self._left_out(kind, seconds)
        if left_out is None:
            return
        if left_out:
            text += " (and %d like it since the last such line)"
            arguments = (*arguments, left_out)
        logger.warning(text, *arguments)

    def _left_out(self, kind: str, seconds: float = AGAIN_SECONDS) -> int | None:
        """How many lines were left out before this one; None if this one is, too."""
        now = monotonic()
        with self._lock:
            if kind not in self._kinds and len(self._kinds) >= _MAX_KINDS:
                kind = ""
            until, left_out = self._kinds.get(kind, (0.0, 0))
            if now < until:
                self._kinds[kind] = until, left_out + 1
                return None
            self._kinds[kind] = now + seconds, 0
            return left_out
