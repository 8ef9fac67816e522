"""What was found, as text and as the tables of docs/figures.md."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contenders.table import PAIRS, PEERS, SPEEDS, Peer
from section import write_section

PAGE = Path(__file__).resolve().parents[1] / "docs" / "figures.md"
PLOT = PAGE.parent / "plots" / "bench.svg"
PICTURES = {
    "Round trips, rates and sizes of all contenders": PLOT,
    "Cost of a call over nodes, backlog and calls made": PLOT.with_stem("bench-growth"),
    "Threads, pairs of languages, start-up, crowds, disks": PLOT.with_stem("bench-cases"),
}
"""What they show -> where they are drawn; those of the cases only where cases were measured."""
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
ROUND_TRIP_US = "{:,.1f}"
WHOLE = "{:,.0f}"

COLUMNS = (
    ("p50 µs", "small_p50_us", ROUND_TRIP_US, 8),
    ("p99 µs", "small_p99_us", ROUND_TRIP_US, 8),
    ("CPU µs", "cpu_us", ROUND_TRIP_US, 7),
    ("busy µs", "loaded_p50_us", WHOLE, 8),
    ("1 MiB µs", "large_p50_us", WHOLE, 9),
    ("calls/s", "pipelined_per_second", WHOLE, 8),
    ("sent/s", "one_way_per_second", WHOLE, 9),
    ("batched/s", "batched_per_second", WHOLE, 10),
    ("start ms", "start_ms", WHOLE, 9),
    ("idle %", "idle_percent", "{:.2f}", 7),
    ("MB", "resident_mb", WHOLE, 5),
)
"""(heading, key, format, width)"""
LEGEND = (
    "A call and its answer carry 200 bytes each: median, 99th percentile, processor time of both sides, median while "
    "every core is busy with something else; 1 MiB: median. calls/s: from one thread, all under way at once. Of the "
    "server: from its start until it is ready, processor time and memory while nobody asks it anything."
)

TWINS = (
    "In brackets round trip and processor time as ratios: to a twin, a pair in memory asked in the same rounds for "
    "which nothing grew, and where something grows also to the first row of its kind; of each the best of 15 rounds' "
    "medians. A verdict on growth takes the larger ratio."
)

SIZES = (
    ("16 B", "bytes_16_p50_us"),
    ("200 B", "small_p50_us"),
    ("4 KiB", "kib_4_p50_us"),
    ("64 KiB", "kib_64_p50_us"),
    ("1 MiB", "large_p50_us"),
    ("16 MiB", "mib_16_p50_us"),
)
THREADS = (
    ("1 thread", "pipelined_per_second"),
    ("4", "pipelined_4_per_second"),
    ("16", "pipelined_16_per_second"),
)


PAIR_NAMES = {(one, other): f"speed.{one}-{other}" for one in SPEEDS for other in SPEEDS} | {
    ("python", "python"): "speed",
    ("cpp", "cpp"): "speed.cpp",
    ("java", "java"): "speed.java",
}
"""(caller's language, service's language) -> contender; all nine."""


def describe(peer: Peer) -> dict[str, str]:
    """Title, version and protection."""
    version = platform.python_version() if peer.language == "python" else ""
    if peer.library is not None:
        version = importlib.metadata.version(peer.library)
    return {"title": peer.title, "version": version, "protection": peer.protection}


def text(found: dict[str, Any]) -> str:
    machine = found["machine"]
    python = f"Python {machine['python']}, {machine['cpus']} CPUs, load {machine['load']}, files in {machine['files']}"
    headings = "".join(f" {heading:>{width}}" for heading, _, _, width in COLUMNS)
    lines = [python, "", f"{'':30} {'version':9}{headings}  protection"]
    for row in found["contenders"].values():
        cells = "".join(f" {_cell(row, key, form):>{width}}" for _, key, form, width in COLUMNS)
        lines.append(f"{row['title']:30} {row['version']:9}{cells}  {row['protection']}")
    lines += [f"{PEERS[name].title:30} left out: {reason}" for name, reason in found["left_out"].items()]
    lines.append("")
    for row in found["verdicts"]:
        measured = f"{_value(row['measured'])}{_why(row)}"
        lines.append(f"{row['verdict']:12} {row['what']:42} {row['target']:>8}  {measured}".rstrip())
    return "\n".join([*lines, *map(case_line, found.get("cases", ()))])


def case_line(row: dict[str, Any]) -> str:
    """One case as one line."""
    title = f"{PEERS[row['contender']].title}: {row['case']}"
    return f"{title:80} {row.get('failed') or _number(row)}"


def _number(row: dict[str, Any]) -> str:
    number = f"{row['value']:,.{row['decimals']}f} {row['unit']}".rstrip()
    return f"{number} ({row['ratio']:.2f}, {row['cpu_ratio']:.2f})" if "ratio" in row else number


def _cell(row: dict[str, Any], key: str, form: str) -> str:
    return "" if row.get(key) is None else form.format(row[key])


def _value(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else str(value or "")


def _table(heading: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A Markdown table, numbers to the right; nothing without rows."""
    body = [f"| {' | '.join(cells)} |" for cells in rows]
    return ["", f"| {' | '.join(heading)} |", "|---|" + "---:|" * (len(heading) - 1), *body] if body else []


def markdown(found: dict[str, Any], command: str) -> str:
    """What stands in docs/figures.md: the machine, all figures, every target with its verdict."""
    machine = found["machine"]
    today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    where = f"on {machine['cpus']} CPUs, {machine['system']}, Python {machine['python']}, files in `{machine['files']}`"
    contenders = found["contenders"]
    alone = {name: row for name, row in contenders.items() if name not in PAIRS}
    lines = [
        f"`{command}` {where}, load {machine['load']:g}, {today}. {LEGEND}",
        "",
        *_pictures(found),
        *_table(
            ["", *(heading for heading, *_ in COLUMNS), "protection"],
            [
                [row["title"], *(_cell(row, key, form) for _, key, form, _ in COLUMNS), row["protection"]]
                for row in alone.values()
            ],
        ),
        *_targets(found["verdicts"]),
        *_sizes(alone),
        *_language_pairs(contenders),
        *_cases(found.get("cases", [])),
        *(f"\n{PEERS[name].title} was left out: {reason}." for name, reason in found["left_out"].items()),
    ]
    return "\n".join(lines)


VERDICTS = {"PASS": "reached", "FAIL": "**NOT reached**"}


def _targets(verdicts: list[dict[str, Any]]) -> list[str]:
    reached = sum(row["verdict"] == "PASS" for row in verdicts)
    rows = [
        [row["what"], row["target"], _value(row["measured"]), VERDICTS.get(row["verdict"], row["verdict"]) + _why(row)]
        for row in verdicts
    ]
    return ["", f"{reached} of {len(verdicts)} targets reached:", *_table(["target", "", "measured", ""], rows)]


def _why(row: dict[str, Any]) -> str:
    return f": {row['why']}" if row["verdict"] == "FAIL" and row["why"] else ""


def _sizes(contenders: dict[str, Any]) -> list[str]:
    rows = [
        [
            row["title"],
            *(_cell(row, key, ROUND_TRIP_US) for _, key in SIZES),
            *(_cell(row, key, WHOLE) for _, key in THREADS),
        ]
        for row in contenders.values()
        if "bytes_16_p50_us" in row
    ]
    heading = ["µs a call of", *(size for size, _ in SIZES), *(f"calls/s, {threads}" for threads, _ in THREADS)]
    return _table(heading, rows)


def _language_pairs(contenders: dict[str, Any]) -> list[str]:
    """Nine pairs; only where two languages met."""
    if not PAIRS.keys() <= contenders.keys():
        return []
    rows = [
        [
            f"from {SPEEDS[one][0]}",
            *(_cell(contenders.get(PAIR_NAMES[one, other], {}), "small_p50_us", ROUND_TRIP_US) for other in SPEEDS),
        ]
        for one in SPEEDS
    ]
    return _table(["µs a call of 200 B", *(f"to {language}" for language, _ in SPEEDS.values())], rows)


def _pictures(found: dict[str, Any]) -> list[str]:
    """Those that this run has drawn."""
    curves = any(row.get("curve") for row in found.get("cases", ()))
    shown = {PLOT: True, PLOT.with_stem("bench-growth"): curves}
    return [f"![{title}]({path.relative_to(PAGE.parent)})" for title, path in PICTURES.items() if shown.get(path, True)]


def _cases(cases: list[dict[str, Any]]) -> list[str]:
    """One row a case, one column a SPEED contender."""
    names = list(dict.fromkeys(row["contender"] for row in cases))
    rows: dict[str, dict[str, str]] = {}
    for row in cases:
        rows.setdefault(row["case"], {})[row["contender"]] = row["failed"] if "failed" in row else _number(row)
    legend = f"\n{TWINS}" if any("ratio" in row for row in cases) else ""
    heading = ["case", *(PEERS[name].title.removeprefix("SPEED node.call, ") for name in names)]
    table = _table(heading, [[case, *(cells.get(name, "") for name in names)] for case, cells in rows.items()])
    return [*([legend] if legend else []), *table]


def write_page(found: dict[str, Any], command: str, path: Path = PAGE) -> None:
    """Write the section; ValueError when its markers are not there."""
    write_section(path, BEGIN, END, markdown(found, command))
