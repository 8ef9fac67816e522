"""Where each key of a TOML text stands: tomllib says what a document means, not where.

The scan relies on the document being valid TOML (tomllib parsed it before), so it needs only enough of
the grammar to tell keys from the inside of multi-line values.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KeyPath = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=(.*)$""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_STRING = re.compile(r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|#.*')
_SYNTAX_LINE = re.compile(r"\(at line (\d+)")
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){100}""")
_DIGITS = re.compile(r"\d[\d_]*")


class TomlSyntaxError(ValueError):
    """The text is not TOML; ``line`` is where reading stopped."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse(text: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The document and the line (from 1) of every key and table header in it.

    Tables of an array are numbered: ``("process", 0, "name")``. Raises TomlSyntaxError.
    """
    if long := _LONG_KEY.search(text):  # tomllib takes the square of its parts in memory
        raise TomlSyntaxError("a key has too many parts", 1 + text.count("\n", 0, long.start()))
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _SYNTAX_LINE.search(message)
        line = int(found.group(1)) if found else max(1, len(text.splitlines()))
        raise TomlSyntaxError(message, line) from None
    except RecursionError:
        raise TomlSyntaxError("lists or tables are nested too deep", _deepest_line(text)) from None
    except ValueError:  # Python makes no number of so many digits
        raise TomlSyntaxError("a number has too many digits", _longest_number_line(text)) from None
    return document, key_lines(text)


def _deepest_line(text: str) -> int:
    return _first_line(text, lambda line: line.count("[") + line.count("{"))


def _longest_number_line(text: str) -> int:
    return _first_line(text, lambda line: max(map(len, _DIGITS.findall(line)), default=0))


def _first_line(text: str, most: Callable[[str], int]) -> int:
    """Number of the first line that has the most of something."""
    lines = text.splitlines()
    return 1 + max(range(len(lines)), key=lambda number: most(lines[number]))


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line number of every key path and table header of a valid TOML ``text``."""
    lines: dict[KeyPath, int] = {}
    arrays: dict[KeyPath, int] = {}
    table: KeyPath = ()
    value = _OpenValue()
    for number, line in enumerate(text.splitlines(), 1):
        if value.continues(line):
            continue
        if header := _HEADER.match(line):
            table = _table_path(_parts(header.group(2)), header.group(1) == "[[", arrays)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(table + _parts(key.group(1)), number)
            value.begins(key.group(2))
    return lines


def _parts(dotted: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _table_path(parts: KeyPath, is_array: bool, arrays: dict[KeyPath, int]) -> KeyPath:
    """Path of a table header with the index of each array of tables that it passes."""
    path: KeyPath = ()
    for position, part in enumerate(parts):
        path += (part,)
        if is_array and position == len(parts) - 1:
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path += (arrays[path],)
    return path


class _OpenValue:
    """Follows a value over its lines: open brackets and open multi-line strings."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""

    def begins(self, text: str) -> None:
        self._feed(text)

    def continues(self, line: str) -> bool:
        """Whether ``line`` belongs to the value that an earlier line began."""
        if not self._depth and not self._quote:
            return False
        self._feed(line)
        return True

    def _feed(self, text: str) -> None:
        while True:
            if self._quote:
                end = text.find(self._quote)
                if end < 0:
                    return
                text, self._quote = text[end + 3 :], ""
            token = _STRING.search(text)
            self._count(text[: token.start()] if token else text)
            if token is None or token.group().startswith("#"):
                return
            if token.group() in ('"""', "'''"):
                self._quote = token.group()
            text = text[token.end() :]

    def _count(self, plain: str) -> None:
        self._depth += plain.count("[") + plain.count("{") - plain.count("]") - plain.count("}")
