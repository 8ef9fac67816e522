"""Results: as JSON, and as the table of ``docs/explanation/reliability.md``."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from tests.interop.languages import ROOT

PAGE = ROOT / "docs" / "explanation" / "reliability.md"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"


@dataclass(frozen=True)
class Result:
    """How one scenario went. ``seconds`` are of the wall clock."""

    scenario: str
    command: str
    seed: int
    count: int
    unit: str
    seconds: float
    figures: dict[str, float]
    failures: list[str]
    verdict: str
    machine: str
    date: str

    def row(self) -> str:
        """Its line in the table."""
        told = ", ".join(f"{value:,} {figure}" for figure, value in self.figures.items())
        cells = (
            self.scenario,
            f"{self.verdict} over {self.count:,} {self.unit}",
            told,
            f"{self.seconds:,.0f} s",
            f"`{self.command}`",
            f"{self.date}, {self.machine}",
        )
        return f"| {' | '.join(cells)} |"


def machine() -> str:
    """Cores, architecture and kernel: what a figure depends on, and nothing that names the machine."""
    return f"{os.cpu_count()} cores {platform.machine()}, Linux {'.'.join(platform.release().split('.')[:2])}"


def today() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%d")


def write_json(path: str, results: Iterable[Result]) -> None:
    """All results in one object."""
    told = {"machine": machine(), "date": today(), "results": [asdict(result) for result in results]}
    Path(path).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def update_page(results: Iterable[Result], order: Iterable[str]) -> None:
    """Replace the rows of these scenarios; the others keep what they show. Several runs may do so side by side."""
    with PAGE.open("r+", encoding="utf-8") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        head, rest = page.read().split(BEGIN + "\n")
        table, tail = rest.split(END)
        lines = table.splitlines()
        rows = {line.split("|")[1].strip(): line for line in lines[2:] if line}
        rows |= {result.scenario: result.row() for result in results}
        kept = [rows[name] for name in order if name in rows]
        page.seek(0)
        page.write("\n".join([head + BEGIN, *lines[:2], *kept, END]) + tail)
        page.truncate()
