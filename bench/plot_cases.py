"""Two more pictures: growth as curves, and every other case: threads, pairs of languages, start-up, crowds, disks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contenders.table import PAIRS, PEERS, SPEEDS, is_speed
from plot import BAR_INCHES, SIZED, bars, pyplot, quiet, save
from report import PAIR_NAMES, ROUND_TRIP_US, THREADS, WHOLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = {
    "nodes": "nodes running",
    "waiting_server": "MiB unread in another lane of the receiver",
    "waiting_client": "MiB unread in the caller's inbox",
    "calls": "calls made before",
}
LEAST = 0.01
"""Of what a logarithmic scale shows."""
FLAT = 1.3
"""What a target allows."""
INCHES_A_BAR, LEGEND_INCHES = 0.17, 0.25
Draw = Callable[["Axes"], None]
Panel = tuple[float, Draw]
"""Height in inches, and what draws it."""
Band = tuple[float, list[Draw]]
"""What stands side by side."""
WIDTH = 12


def draw_all(found: dict[str, Any], path: Path) -> None:
    """Beside `path`: its name with ``-growth`` and ``-cases``; each only if it has something to show."""
    rows = [row for row in found.get("cases", ()) if "failed" not in row]
    if curves := [row for row in rows if row.get("curve")]:
        draw_growth(curves, path.with_stem(f"{path.stem}-growth"))
    alone = {name: row for name, row in found["contenders"].items() if name not in PAIRS}
    bands = [
        *pairwise([*threads_panel(alone), *pairs_panel(found["contenders"])]),
        *own_band(alone),
        *pairwise(case_panels([row for row in rows if not (row.get("curve") or row["figure"].startswith("growth"))])),
    ]
    if bands:
        draw_bands(bands, path.with_stem(f"{path.stem}-cases"))


def pairwise(panels: list[Panel]) -> list[Band]:
    """Two beside each other, as high as the higher one."""
    two = [panels[begin : begin + 2] for begin in range(0, len(panels), 2)]
    return [(max(height for height, _ in row), [draw for _, draw in row]) for row in two]


def draw_growth(rows: list[dict[str, Any]], path: Path) -> None:
    """One small picture a curve, one line a contender: round trip whole, processor time dashed."""
    figure, grid = pyplot().subplots(2, 2, figsize=(9, 6.4), sharey=True, layout="constrained")
    for axes, (curve, title) in zip(grid.flat, CURVES.items(), strict=True):
        for name in dict.fromkeys(row["contender"] for row in rows):
            points = [row for row in rows if row["curve"] == curve and row["contender"] == name]
            at = range(len(points))
            colour, label = SIZED[name], short(name)
            axes.plot(at, [row["ratio"] for row in points], "-o", color=colour, label=label, markersize=4)
            axes.plot(at, [row["cpu_ratio"] for row in points], "--", color=colour, linewidth=1)
        axes.axhline(FLAT, color="#c1121f", linewidth=0.8, linestyle=":")
        at = list(dict.fromkeys(row["at"] for row in rows if row["curve"] == curve))
        axes.set_xticks(range(len(at)), [f"{value:,.0f}" for value in at])
        axes.set_xlabel(title)
        axes.grid(visible=True, axis="y", color="#e6e8eb")
        quiet(axes)
    grid[0, 0].set_ylim(bottom=0)
    grid[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle("Cost of a call / before anything grew, beside a twin: round trip (line), processor time (dashed)")
    save(figure, path)


def draw_bands(bands: list[Band], path: Path) -> None:
    heights = [height for height, _ in bands]
    figure = pyplot().figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(bands), 1, height_ratios=heights, squeeze=False)
    for part, (_, draws) in zip(parts.flat, bands, strict=True):
        for axes, draw in zip(part.subplots(1, len(draws), squeeze=False).flat, draws, strict=True):
            draw(axes)
            quiet(axes)
    save(figure, path)


def short(name: str) -> str:
    return PEERS[name].title.removeprefix("SPEED node.call, ").removeprefix("SPEED ")


def threads_panel(contenders: dict[str, Any]) -> list[Panel]:
    """Pipelined calls over caller threads."""
    rows = {name: row for name, row in contenders.items() if name in SIZED and THREADS[-1][1] in row}

    def draw(axes: Axes) -> None:
        for name, row in rows.items():
            style = {"linewidth": 2.2, "marker": "o"} if is_speed(name) else {"linewidth": 1.2, "linestyle": "--"}
            points = [(number, row[key]) for number, (_, key) in zip((1, 4, 16), THREADS, strict=True) if key in row]
            axes.plot(*zip(*points, strict=True), color=SIZED[name], label=row["title"], markersize=4, **style)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks((1, 4, 16), [label for label, _ in THREADS])
        axes.set_title("Pipelined calls a second over threads; higher is better", loc="left")
        axes.set_ylim(bottom=axes.get_ylim()[0] / 5)  # room for the legend
        axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower left")

    return [(3.6, draw)] if rows else []


def pairs_panel(contenders: dict[str, Any]) -> list[Panel]:
    """A bar for each of the nine pairs of languages."""
    if not PAIRS.keys() <= contenders.keys():
        return []
    found = {
        f"{SPEEDS[one][0]} to {SPEEDS[other][0]}": contenders[name]["small_p50_us"]
        for (one, other), name in PAIR_NAMES.items()
        if "small_p50_us" in contenders.get(name, {})
    }
    return [bar_panel(found, "Round trip of 200 bytes, µs: caller to service", ROUND_TRIP_US)]


def bar_panel(found: dict[str, float], title: str, form: str) -> Panel:
    def draw(axes: Axes) -> None:
        drawn = axes.barh(list(found), list(found.values()), color="#1f6f9f", height=0.72)
        axes.bar_label(drawn, [form.format(value) for value in found.values()], padding=3, fontsize=8)
        axes.invert_yaxis()
        axes.set_title(title, loc="left")

    return BAR_INCHES * len(found) + 0.9, draw


def own_band(contenders: dict[str, Any]) -> list[Band]:
    """What each server costs while nobody asks it anything; the names stand on the left."""
    kinds = (
        ("start_ms", "Server: start until ready, ms", WHOLE),
        ("resident_mb", "Idle: memory, MB", WHOLE),
        ("idle_percent", "Idle: % of a core", "{:.2f}"),
    )
    ordered = sorted(contenders.items(), key=lambda item: -item[1]["start_ms"])

    def drawn(key: str, title: str, form: str) -> Draw:
        def draw(axes: Axes) -> None:
            bars(axes, ordered, [max(row[key], LEAST) for _, row in ordered], form)
            axes.set_title(title, loc="left")
            if key != kinds[0][0]:
                axes.set_yticks([])

        return draw

    return [(BAR_INCHES * len(ordered) + 0.9, [drawn(*kind) for kind in kinds])] if contenders else []


def case_panels(rows: list[dict[str, Any]]) -> list[Panel]:
    """One panel a unit, in it each case with a bar for each contender."""
    units = dict.fromkeys(row["unit"] for row in rows)
    return [case_panel([row for row in rows if row["unit"] == unit], unit) for unit in units]


def case_panel(rows: list[dict[str, Any]], unit: str) -> Panel:
    names = list(dict.fromkeys(row["contender"] for row in rows))
    labels = list(dict.fromkeys(row["case"] for row in rows))
    thickness = 0.8 / len(names)

    def draw(axes: Axes) -> None:
        for number, name in enumerate(names):
            own = [row for row in rows if row["contender"] == name]
            places = [labels.index(row["case"]) + number * thickness for row in own]
            drawn = axes.barh(
                places, [row["value"] for row in own], thickness * 0.9, color=SIZED[name], label=short(name)
            )
            numbers = [f"{row['value']:,.{row['decimals']}f}" for row in own]
            axes.bar_label(drawn, numbers, padding=3, fontsize=7)
        axes.set_yticks([place + 0.4 - thickness / 2 for place in range(len(labels))], labels, fontsize=8)
        axes.set_ylim(len(labels) - 0.1, -0.2 - LEGEND_INCHES / INCHES_A_BAR / len(names))
        axes.set_xscale("log" if unit else "linear")
        axes.margins(x=0.15)
        axes.set_title(f"SPEED's own cases, {unit or 'ratios'}", loc="left")
        axes.legend(frameon=False, fontsize=7, loc="upper right", ncols=len(names), columnspacing=1, handlelength=1)

    return INCHES_A_BAR * len(names) * len(labels) + LEGEND_INCHES + 0.8, draw
