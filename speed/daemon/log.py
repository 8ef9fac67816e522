"""The one structured log of speedd: a JSON object a line, its own events and its processes' output."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any

import structlog

from speed.daemon.config import LogSettings
from speed.daemon.host import MAX_LINE_CHARACTERS
from speed.fs.open import make_directories, open_log_file, unlink_quietly, write_all
from speed.wire.text import harmless_json

_DIRECTORY_MODE = 0o750
_FILE_MODE = 0o640
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_HIGHEST = 50


class LogFile:
    """The file behind the log: it is rotated when it is full, and opened again after others rotated it. Thread-safe."""

    def __init__(self, settings: LogSettings) -> None:
        """Without a file: stderr. Raises OSError."""
        self._settings = settings
        self.level = settings.level
        """What is less than this is not written; a reload may change it."""
        self._lock = threading.Lock()
        self._fd = sys.stderr.fileno() if sys.stderr else -1  # a process may have been started without one
        self._size: int | None = None
        """None: this is stderr, which is not rotated."""
        self.reopen()

    def reopen(self) -> None:
        """Write to the file that now has the name. Raises OSError; the old file then stays in use."""
        with self._lock:
            self._reopen()

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        # A full disk must not stop the services that are logged.
        with self._lock, suppress(OSError):
            if self._size and self._size + len(data) > self._settings.max_bytes:
                self._rotate()
            write_all(self._fd, data)
            if self._size is not None:
                self._size += len(data)

    def flush(self) -> None:
        """Everything is written at once."""

    def _reopen(self) -> None:
        path = self._settings.file
        if path is None:
            return
        # Neither is for the world: the output of services may tell what they work on.
        make_directories(str(path.parent), _DIRECTORY_MODE)
        fd = open_log_file(str(path), _FILE_MODE)
        if self._size is not None:
            os.close(self._fd)
        self._fd, self._size = fd, os.fstat(fd).st_size

    def _rotate(self) -> None:
        """Begin a new file; where the old one cannot be kept, it is emptied."""
        path, kept = str(self._settings.file), self._settings.kept_files
        try:
            names = [path, *(f"{path}.{number}" for number in range(1, kept + 1))]
            for newer, older in zip(names[-2::-1], names[:0:-1], strict=True):
                with suppress(FileNotFoundError):
                    os.replace(newer, older)
            self._reopen()
        except OSError:
            pass
        if self._size:
            os.ftruncate(self._fd, 0)
            self._size = 0
        while unlink_quietly(f"{path}.{kept + 1}"):
            kept += 1


class Forwarded(logging.Handler):
    """Puts what libraries and services in speedd's own process log into its log."""

    def __init__(self, log: Any) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, "logged", logger=record.name, text=self.format(record))


def _bounded(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """No text of a line is longer than a line of a service may be."""
    return {key: value[:MAX_LINE_CHARACTERS] if isinstance(value, str) else value for key, value in event.items()}


def _harmless(_logger: Any, _method: str, line: Any) -> str:
    """Services print what others wrote: nothing of it may act where the log is looked at."""
    return harmless_json(line)


def open_log(sink: LogFile, *, all_levels: bool = False, **fixed: Any) -> Any:
    """A logger that writes JSON lines to ``sink``, of its level and above; ``fixed`` stands in every line."""

    def heard(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if all_levels or _LEVELS.get(method, _HIGHEST) >= _LEVELS[sink.level]:
            return event
        raise structlog.DropEvent

    return structlog.wrap_logger(
        structlog.WriteLogger(sink),  # type: ignore[arg-type]
        processors=[
            heard,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _bounded,
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
            _harmless,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS["debug"]),
        **fixed,
    ).bind()
