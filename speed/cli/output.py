"""What commands print: JSON for programs, tables for people. rich is imported for tables only.

No other module of the command line prints: names, texts and files of others act on no terminal (W-19).
"""

from __future__ import annotations

import base64
import datetime
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

import click

from speed.errors import WireError
from speed.wire.harmless import ascii_json, harmless, harmless_json, harmless_lines

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def as_json(value: Any, *, indent: int | None = None) -> str:
    """``value`` as JSON. Bytes become Base64 text and times ISO text: JSON has neither.

    Floats that are no numbers are the texts ``NaN``, ``Infinity`` and ``-Infinity``. A map with two keys of one text,
    as 1 and "1", is a list of pairs.
    """
    text = json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False, default=str)
    return harmless_json(text)


def show_what_can_be_shown() -> None:
    """Output shows characters that its encoding has not by their numbers, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def answer_of(node: str) -> Iterator[None]:
    """Where an answer is taken apart. Raises WireError, which names ``node``, for one of another form."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise WireError(
            "BAD_PAYLOAD", f"{node} answered with what is no such answer ({type(error).__name__})"
        ) from error


def echo(text: str, *, error: bool = False) -> None:
    """One line for people, on stdout or stderr."""
    _write(harmless(text), error)


def echo_json(value: Any, *, error: bool = False) -> None:
    """One line for programs."""
    echo_json_text(as_json(value), error=error)


def echo_json_text(text: str, *, error: bool = False) -> None:
    """JSON that ``as_json`` made, with escapes of its own for what the encoding of the output has not."""
    encoding = getattr(sys.stderr if error else sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = ascii_json(text)
    _write(text, error)


def _write(text: str, error: bool = False) -> None:
    """To the stream by its name: click alone takes an output in ASCII for one in UTF-8."""
    click.echo(text, file=sys.stderr if error else sys.stdout)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        plain = {str(key): _plain(item) for key, item in value.items()}
        return plain if len(plain) == len(value) else [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, float) and not isfinite(value):
        return _NOT_FINITE[str(value)]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


def print_value(value: Any, use_json: bool) -> None:
    """One value: compact JSON, or for people text with its lines and JSON with indents."""
    if use_json:
        echo_json(value)
    elif isinstance(value, str):
        _write(harmless_lines(value))
    else:
        echo_json_text(as_json(value, indent=2))


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", empty: str = "") -> None:
    """A table for people; ``empty`` instead of a table without rows."""
    lines = [[str(cell) for cell in row] for row in rows]
    if not lines:
        echo(empty)
        return
    from rich.console import Console

    # Piped output must not be cut at the width of a terminal that is not there.
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 400))
    console.print(table_of(columns, lines, title))


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Any:
    """A rich Table."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(harmless(title)) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    return table


def seconds_text(seconds: float) -> str:
    """A span of time for people, e.g. ``47 µs``, ``3.2 s``, ``2 h 05 min``."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def bytes_text(size: float) -> str:
    """A size for people, e.g. ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
