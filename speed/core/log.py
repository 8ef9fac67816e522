"""The package's loggers: what others wrote forges no line of a log, and acts on no terminal (W-19).

Handlers and filters are the program's code. One that fails costs its line, never what the line was about (S-24).
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from speed.wire.text import harmless, harmless_lines

MAX_VALUE_CHARACTERS = 4096


def _always() -> bool:
    return True


exits_pass: Callable[[], bool] = _always
"""Whether an exit on this thread is the program's. The runtime says so: of the main thread alone."""

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class Log(_Adapter):
    """A logger whose calls raise nothing, but what ends the program: an exit in the main thread."""

    def __init__(self, found: logging.Logger) -> None:
        super().__init__(found, {})
        self._has_failed = False

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        try:
            self.logger.log(level, msg, *args, stacklevel=2, **kwargs)
        except Exception as error:
            self._failed(error)
        except BaseException as error:
            if exits_pass():
                raise
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Say once that lines are missing."""
        if self._has_failed or not logging.raiseExceptions or sys.stderr is None:
            return
        self._has_failed = True
        with contextlib.suppress(Exception):
            text = f"a handler of the log {self.logger.name} failed ({type(error).__name__}): lines are missing there"
            print(text, file=sys.stderr)


def logger(name: str) -> Log:
    """The logger of this name, with all values made harmless. No module asks ``logging`` itself."""
    found = logging.getLogger(name)
    if _HARMLESS not in found.filters:
        found.addFilter(_HARMLESS)
    return _logs.setdefault(name, Log(found))


class _Harmless(logging.Filter):
    """Looks at values only: the text that they stand in is ours, and handlers may group by it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, Mapping):
            record.args = {key: _shown(value) for key, value in record.args.items()}
        else:
            record.args = tuple(map(_shown, record.args or ()))
        if record.exc_info and record.exc_info[1] and not record.exc_text:
            record.exc_text = traceback_lines(record.exc_info[1])
        return True


def _shown(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    try:
        return harmless(str(value), MAX_VALUE_CHARACTERS)
    except BaseException:  # its text is the program's code
        return f"<{type(value).__name__} without a text>"


def traceback_lines(error: BaseException) -> str:
    """Where an exception came from. Its lines are indented: none looks like the beginning of an entry of a log."""
    text = harmless_lines("".join(traceback.format_exception(error)).rstrip("\n"))
    return "\n".join(f"  {line}" for line in text.split("\n"))


_HARMLESS = _Harmless()
_logs: dict[str, Log] = {}
