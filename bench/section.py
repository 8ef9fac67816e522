"""Sections of a page that a program writes."""

from __future__ import annotations

from pathlib import Path


def write_section(path: Path, begin: str, end: str, text: str) -> None:
    """Replace what stands between the markers; ValueError when they are not there."""
    before, found_begin, rest = path.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{path.name} has no {begin} … {end}")
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")
