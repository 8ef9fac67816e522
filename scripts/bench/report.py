"""A report as text, as the README's table, and as a plot."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

from contenders.table import PEERS, Peer

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

COLUMNS = (
    ("p50 µs", "small_p50_us", 1, 8),
    ("p99 µs", "small_p99_us", 1, 8),
    ("1 MiB µs", "large_p50_us", 0, 9),
    ("calls/s", "pipelined_per_second", 0, 8),
    ("sent/s", "one_way_per_second", 0, 9),
    ("batched/s", "batched_per_second", 0, 10),
)
"""(heading, key, decimals, width)"""


def describe(peer: Peer) -> dict[str, str]:
    """Title, version and protection."""
    version = platform.python_version() if peer.language == "python" else ""
    if peer.library is not None:
        version = importlib.metadata.version(peer.library)
    return {"title": peer.title, "version": version, "protection": peer.protection}


def text(report: dict[str, Any]) -> str:
    machine = report["machine"]
    python = f"Python {machine['python']}, {machine['cpus']} CPUs, load {machine['load']}, files in {machine['files']}"
    headings = "".join(f" {heading:>{width}}" for heading, _, _, width in COLUMNS)
    lines = [python, "", f"{'':30} {'version':9}{headings}  protection"]
    for row in report["contenders"].values():
        cells = "".join(f" {_cell(row.get(key), decimals):>{width}}" for _, key, decimals, width in COLUMNS)
        lines.append(f"{row['title']:30} {row['version']:9}{cells}  {row['protection']}")
    lines += [f"{PEERS[name].title:30} left out: {reason}" for name, reason in report["left_out"].items()]
    lines.append("")
    for row in report["verdicts"]:
        lines.append(f"{row['verdict']:12} {row['what']:38} {row['target']:>8}  {_value(row['measured'])}".rstrip())
    for row in report.get("cases", ()):
        lines.append(f"{row['case']:58} {row['value']:>14,.{row['decimals']}f} {row['unit']}")
    return "\n".join(lines)


def _cell(value: Any, decimals: int) -> str:
    return "" if value is None else f"{value:,.{decimals}f}"


def _value(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else str(value or "")


def markdown(report: dict[str, Any], command: str) -> str:
    """What stands in the README: the machine, the figures, and every target that is not reached."""
    machine = report["machine"]
    today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    where = f"on {machine['cpus']} CPUs, {machine['system']}, Python {machine['python']}, files in `{machine['files']}`"
    lines = [
        f"`{command}` {where}, load {machine['load']:g}, {today}:",
        "",
        f"| | {' | '.join(heading for heading, *_ in COLUMNS)} | protection |",
        f"|---|{'---:|' * len(COLUMNS)}---|",
    ]
    for row in report["contenders"].values():
        cells = " | ".join(_cell(row.get(key), decimals) for _, key, decimals, _ in COLUMNS)
        lines.append(f"| {row['title']} | {cells} | {row['protection']} |")
    reached = [row for row in report["verdicts"] if row["verdict"] == "PASS"]
    lines += ["", f"{len(reached)} of {len(report['verdicts'])} targets reached. Not reached or not measured:"]
    lines += [
        f"- {row['what']} {row['target']}: {_value(row['measured']) or row['verdict']}"
        for row in report["verdicts"]
        if row["verdict"] != "PASS"
    ] or ["none."]
    for row in report.get("cases", ()):
        if row is report["cases"][0]:
            lines += ["", "| case | |", "|---|---:|"]
        lines.append(f"| {row['case']} | {row['value']:,.{row['decimals']}f} {row['unit']} |")
    return "\n".join(lines)


def write_readme(report: dict[str, Any], command: str, path: Path = README) -> None:
    """Replace what stands between the markers; ValueError when they are not there."""
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path.name} has no {BEGIN} … {END}")
    path.write_text(f"{before}{BEGIN}\n{markdown(report, command)}\n{END}{after}")


def plot(report: dict[str, Any], path: Path) -> None:
    """Bars of the small call's median and 99th percentile, SPEED in its own colour."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = sorted(report["contenders"].items(), key=lambda item: -item[1]["small_p50_us"])
    titles = [row["title"] for _, row in rows]
    colours = ["#2a6f97" if name.startswith("speed") else "#b8b8b8" for name, _ in rows]
    figure, axes = plt.subplots(figsize=(8, 0.6 + 0.4 * len(rows)), layout="constrained")
    axes.barh(titles, [row["small_p50_us"] for _, row in rows], color=colours)
    axes.scatter([row["small_p99_us"] for _, row in rows], titles, marker="|", color="black", label="p99", zorder=2)
    axes.set_xscale("log")
    axes.set_xlabel("round trip of 200 bytes, µs: median (bar) and 99th percentile (mark)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)
