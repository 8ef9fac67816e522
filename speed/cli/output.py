"""What commands print: JSON for programs, tables for people. rich is imported for tables only.

No other module of the command line prints: names, texts and files of others act on no terminal (W-19).
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterable, Sequence
from typing import Any

import click

from speed.wire.harmless import harmless, harmless_json, harmless_lines


def as_json(value: Any, *, indent: int | None = None) -> str:
    """``value`` as JSON. Bytes become Base64 text and times ISO text: JSON has neither."""
    return harmless_json(json.dumps(_plain(value), indent=indent, ensure_ascii=False, default=str))


def echo(text: str, *, error: bool = False) -> None:
    """One line for people, on stdout or stderr."""
    click.echo(harmless(text), err=error)


def echo_json(value: Any, *, error: bool = False) -> None:
    """One line for programs."""
    click.echo(as_json(value), err=error)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
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
        click.echo(harmless_lines(value))
    else:
        click.echo(as_json(value, indent=2))


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
