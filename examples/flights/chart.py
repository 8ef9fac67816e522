"""One picture: departure delay by hour of day and carrier, as it was and as the model said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")  # before pyplot is imported: there may be no display
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    import pandas as pd

PANELS = 12
"""The first is all carriers together; with one below, no carrier has fewer than a few hundred flights."""
FEWEST_FLIGHTS = 30
INK, SOFT, GRID = "#1f2933", "#697586", "#e4e7eb"
ACTUAL, PREDICTED = "#d1495b", "#00798c"
STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9, "text.color": INK,
    "axes.edgecolor": GRID, "axes.labelcolor": SOFT,
    "xtick.color": SOFT, "ytick.color": SOFT, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.8,
    "xtick.major.size": 0, "ytick.major.size": 0,
}  # fmt: skip


def draw(tested: pd.DataFrame, names: dict[str, str], note: str, place: Path) -> None:
    """Write the picture of ``tested`` (carrier, hour, dep_delay, predicted); ``names`` by carrier code."""
    counts = tested["carrier"].value_counts().head(PANELS - 1)
    carriers = counts[counts >= FEWEST_FLIGHTS].index.tolist()
    panels = [("All carriers", tested)]
    panels += [(names.get(carrier, carrier), tested[tested["carrier"] == carrier]) for carrier in carriers]
    fewest = 10 if len(tested) > 20_000 else 3
    with plt.rc_context(STYLE):
        rows = -(-len(panels) // 4)
        figure, grid = plt.subplots(
            rows, 4, figsize=(13, 1.9 + 2.35 * rows), sharex=True, sharey=True, squeeze=False, dpi=150
        )
        for axes, (name, flights) in zip(grid.flat, panels, strict=False):
            _panel(axes, flights, name, fewest)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        _frame(figure, grid, note)
        place.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(place, facecolor="white")
        plt.close(figure)


def _panel(axes: Any, flights: pd.DataFrame, name: str, fewest: int) -> None:
    """One carrier: dots sized by flights for what happened, a line for the prediction."""
    hours = flights.groupby("hour").agg(
        actual=("dep_delay", "mean"), predicted=("predicted", "mean"), count=("dep_delay", "size")
    )
    hours = hours[hours["count"] >= fewest]
    axes.axhline(0, color=SOFT, linewidth=0.8, zorder=1)
    axes.fill_between(hours.index, hours["actual"], hours["predicted"], color=ACTUAL, alpha=0.10, linewidth=0)
    axes.plot(hours.index, hours["predicted"], color=PREDICTED, linewidth=2.2, zorder=3, solid_capstyle="round")
    sizes = 10 + 60 * hours["count"] / max(1, hours["count"].max())
    axes.plot(hours.index, hours["actual"], color=ACTUAL, linewidth=0.8, alpha=0.5, zorder=2)
    axes.scatter(hours.index, hours["actual"], s=sizes, color=ACTUAL, edgecolor="white", linewidth=0.6, zorder=4)
    axes.set_title(name, loc="left", fontsize=10, fontweight="bold", pad=14)
    axes.text(0, 1.03, f"{len(flights):,} flights", transform=axes.transAxes, fontsize=8, color=SOFT)


def _frame(figure: Any, grid: Any, note: str) -> None:
    """Title, legend, shared axes and the note below."""
    height = figure.get_figheight()
    title = "When do flights out of New York leave late?"
    figure.suptitle(title, x=0.045, y=1 - 0.22 / height, ha="left", va="top", fontsize=17, fontweight="bold")
    line = 1 - 0.68 / height
    figure.text(0.045, line, "Mean departure delay on days that the model never saw:", fontsize=10.5, color=SOFT)
    figure.text(0.415, line, "●  actual (larger: more flights)", fontsize=10.5, color=ACTUAL, fontweight="bold")
    figure.text(0.645, line, "━━  predicted", fontsize=10.5, color=PREDICTED, fontweight="bold")
    for axes in grid.flat:
        axes.set_xticks(range(6, 24, 4), [f"{hour}:00" for hour in range(6, 24, 4)])
        axes.set_xlim(4.3, 23.7)
    for axes in grid[:, 0]:
        axes.set_ylabel("minutes")
    for axes in grid[-1, :]:
        axes.set_xlabel("scheduled departure")
    figure.text(0.045, 0.16 / height, note, fontsize=8, color=SOFT)
    figure.subplots_adjust(
        left=0.055, right=0.985, top=1 - 1.35 / height, bottom=0.85 / height, hspace=0.42, wspace=0.08
    )
