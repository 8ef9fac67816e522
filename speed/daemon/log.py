"""The one structured log of speedd: a JSON object a line, its own events and its processes' output."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, TextIO

import structlog

from speed.daemon.harmless import harmless

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class LogFile:
    """The file behind the log, which can be opened again after it was rotated away. A plain text sink."""

    def __init__(self, path: Path | None) -> None:
        """``path`` None: stderr. Raises OSError."""
        self._path = path
        self._file: TextIO = sys.stderr
        self.reopen()

    def reopen(self) -> None:
        """Write to the file that now has the name. Raises OSError; the old file then stays in use."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Not world-readable: the output of services may tell what they work on.
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        old, self._file = self._file, os.fdopen(fd, "a", encoding="utf-8", buffering=1)
        if old is not sys.stderr:
            old.close()

    def write(self, text: str) -> None:
        try:
            self._file.write(text)
        except (OSError, ValueError):
            pass  # a full disk must not stop the services that are logged

    def flush(self) -> None:
        try:
            self._file.flush()
        except (OSError, ValueError):
            pass


def _harmless_texts(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Each text of a line, wherever it came from, is bounded and obeyed by no terminal."""
    return {key: harmless(value) if isinstance(value, str) else value for key, value in event.items()}


def open_log(sink: LogFile, level: str, **fixed: Any) -> Any:
    """A logger that writes JSON lines to ``sink``; ``fixed`` stands in every line."""
    return structlog.wrap_logger(
        structlog.PrintLogger(sink),  # type: ignore[arg-type]
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _harmless_texts,
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        **fixed,
    ).bind()
