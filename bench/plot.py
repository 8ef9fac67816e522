"""What was found, as a picture: bars of round trips and of rates, and round trips over the size of the payload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from contenders.table import CURVE, NOTHING, PAIRS, SEALED, is_speed
from report import SIZES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BYTES = (16, 200, 4096, 65_536, 1 << 20, 16 << 20)
COLOURS = {
    SEALED: ("#1f6f9f", "SPEED: encrypted, authorised"),
    CURVE: ("#e09f3e", "encrypted"),
    NOTHING: ("#b9c0c7", "not encrypted"),
    "limit": ("#4a4e54", "the limit: no encryption, no format"),
}
SIZED = {
    "speed": "#5aa9c9",
    "speed.native": "#1f6f9f",
    "speed.cpp": "#0b3c5d",
    "speed.java": "#2a9d8f",
    "zeromq": "#e9b872",
    "curve.cpp": "#d1722a",
    "grpc": "#b9c0c7",
    "grpc.cpp": "#6c757d",
    "grpc.java": "#a08fb5",
}
"""Contenders whose curve is drawn, with its colour; more could not be told apart."""
BAR_INCHES = 0.27


def colour_of(name: str, row: dict[str, Any]) -> str:
    if name.startswith("limit"):
        return COLOURS["limit"][0]
    return COLOURS.get(row["protection"], COLOURS[NOTHING])[0]


def pyplot() -> Any:
    """matplotlib.pyplot, with this bench's style, where nothing is displayed."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update(
        {
            "svg.hashsalt": "speed",
            "svg.fonttype": "none",
            "font.size": 9,
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
        }
    )
    import matplotlib.pyplot as plt

    return plt


def save(figure: Figure, path: Path) -> None:
    """The same figures give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=130)
    pyplot().close(figure)


def draw(found: dict[str, Any], path: Path) -> None:
    """Write the picture; .svg or .png as the name of the file says."""
    contenders = {name: row for name, row in found["contenders"].items() if name not in PAIRS}
    calls = {name: row for name, row in contenders.items() if "small_p50_us" in row}
    rates = {name: row for name, row in contenders.items() if "one_way_per_second" in row}
    sized = {name: contenders[name] for name in SIZED if "bytes_16_p50_us" in contenders.get(name, {})}
    heights = [BAR_INCHES * len(calls) + 1.2, BAR_INCHES * len(rates) + 0.9, 4.2]
    panels = 3 if sized else 2
    figure, axes = pyplot().subplots(
        panels, 1, figsize=(9, sum(heights[:panels])), height_ratios=heights[:panels], layout="constrained"
    )
    draw_calls(axes[0], calls)
    draw_rates(axes[1], rates)
    if sized:
        draw_sizes(axes[2], sized)
    save(figure, path)


def draw_calls(axes: Axes, rows: dict[str, Any]) -> None:
    """Median as bar, from there a line to the 99th percentile, both as numbers."""
    ordered = sorted(rows.items(), key=lambda item: -item[1]["small_p50_us"])
    values = [row["small_p50_us"] for _, row in ordered]
    bars(axes, ordered, values, "")
    for place, (_, row) in enumerate(ordered):
        p50, p99 = row["small_p50_us"], row["small_p99_us"]
        axes.plot([p50, p99], [place, place], "-|", color="#30343a", linewidth=0.8, markersize=7, markevery=[1])
        text = f"{p50:,.1f}  |  {p99:,.0f}"
        axes.annotate(text, (p99, place), (6, 0), textcoords="offset points", va="center", fontsize=8, color="#30343a")
    axes.set_xlim(right=max(row["small_p99_us"] for _, row in ordered) * 6)
    axes.set_title("Round trip of 200 bytes, µs: median (bar), 99th percentile (line)", loc="left")
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=label) for colour, label in COLOURS.values()]
    axes.set_ylim(top=axes.get_ylim()[1] + 1.2)  # room above the shortest bar
    axes.legend(handles=patches, frameon=False, loc="upper right", ncols=len(patches), fontsize=8)


def draw_rates(axes: Axes, rows: dict[str, Any]) -> None:
    """The better of single and batched."""

    def rate(row: dict[str, Any]) -> float:
        return max(row["one_way_per_second"], row.get("batched_per_second", 0.0))

    ordered = sorted(rows.items(), key=lambda item: rate(item[1]))
    bars(axes, ordered, [rate(row) for _, row in ordered], "{:,.0f}")
    axes.set_title("Messages one way, a second, batched where it can be; longer is better", loc="left")


def bars(axes: Axes, ordered: list[tuple[str, Any]], values: list[float], form: str) -> None:
    """One bar a contender, SPEED's names in bold, on a logarithmic scale."""
    titles = [row["title"] for _, row in ordered]
    drawn = axes.barh(titles, values, color=[colour_of(name, row) for name, row in ordered], height=0.72)
    if form:
        axes.bar_label(drawn, [form.format(value) for value in values], padding=3, fontsize=8, color="#30343a")
    axes.set_xscale("log")
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    axes.margins(x=0.12)
    for label, (name, _) in zip(axes.get_yticklabels(), ordered, strict=True):
        label.set_fontweight("bold" if is_speed(name) else "normal")
    quiet(axes)


def draw_sizes(axes: Axes, rows: dict[str, Any]) -> None:
    """One line a contender, SPEED's thicker."""
    for name, row in rows.items():
        points = [(size, row[key]) for size, (_, key) in zip(BYTES, SIZES, strict=True) if key in row]
        style = {"linewidth": 2.2, "marker": "o"} if is_speed(name) else {"linewidth": 1.2, "linestyle": "--"}
        axes.plot(*zip(*points, strict=True), color=SIZED[name], label=row["title"], markersize=4, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(BYTES, [label for label, _ in SIZES])
    axes.set_title("Round trip over the size of the payload, µs: median", loc="left")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    axes.grid(visible=True, axis="y", color="#e6e8eb")
    quiet(axes)


def quiet(axes: Axes) -> None:
    """No frame."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
