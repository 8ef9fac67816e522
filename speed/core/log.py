"""The package's loggers: what others wrote forges no line of a log, and acts on no terminal (W-19)."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

from speed.wire.harmless import harmless, harmless_lines

MAX_VALUE_CHARACTERS = 4096


def logger(name: str) -> logging.Logger:
    """The logger of this name, with all values made harmless. No module asks ``logging`` itself."""
    found = logging.getLogger(name)
    if _HARMLESS not in found.filters:
        found.addFilter(_HARMLESS)
    return found


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
