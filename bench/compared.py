"""The short table of README.md and docs/index.md, from the same run as the tables of docs/figures.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from section import write_section

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
BEGIN, END = "<!-- compared:begin -->", "<!-- compared:end -->"
ROWS = (
    ("ZeroMQ with CURVE encryption, Python", "zeromq", "speed.native"),
    ("ZeroMQ with CURVE encryption, C++", "curve.cpp", "speed.cpp"),
    ("gRPC without TLS, Python", "grpc", "speed.native"),
    ("gRPC without TLS, C++", "grpc.cpp", "speed.cpp"),
    ("gRPC without TLS, Java", "grpc.java", "speed.java"),
    ("Arrow Flight without TLS, Python", "flight", "speed.native"),
)
"""What readers call it, that contender, and SPEED in the same language."""
COLUMNS = (
    ("200 bytes", "small_p50_us"),
    ("1 MiB", "large_p50_us"),
    ("200 bytes, all cores busy", "loaded_p50_us"),
)


def table(found: dict[str, Any]) -> str:
    """Time of a call as a multiple of SPEED's; rows of contenders that were not measured are left out."""
    contenders = found["contenders"]
    lines = [
        f"| the other library | {' | '.join(heading for heading, _ in COLUMNS)} |",
        "|---|" + "---:|" * len(COLUMNS),
    ]
    for title, other, own in ROWS:
        if other in contenders and own in contenders:
            cells = (_ratio(contenders[other].get(key), contenders[own].get(key)) for _, key in COLUMNS)
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratio(other: float | None, own: float | None) -> str:
    if not other or not own:
        return ""
    ratio = other / own
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def write_pages(found: dict[str, Any]) -> None:
    """Write the table of each page; ValueError when its markers are not there."""
    for page in PAGES:
        write_section(page, BEGIN, END, table(found))
