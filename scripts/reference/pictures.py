"""The pictures of docs/, drawn from a few boxes and arrows: ``python -m scripts.reference.pictures`` writes them.

In a checkout they are files, which follow the light or dark mode of the browser. On the site they stand within the
page, and take its colours. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

PLACE = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SHOWN = re.compile(r"^!\[([^\]]*)\]\((?:\.\./)*pictures/(\w+)\.svg\)$", re.MULTILINE)
STYLE = """
.picture { --ink-0: #24292f; --soft-0: #57606a; --line-0: #4051b5; --box-0: #f3f4f8; --panel-0: #ffffff }
@media (prefers-color-scheme: dark) {
  .picture { --ink-0: #e2e4e9; --soft-0: #a5abb5; --line-0: #8fa1ff; --box-0: #2b2e38; --panel-0: #1e2129 }
}
.picture text { font: 14px system-ui, sans-serif; fill: var(--md-default-fg-color, var(--ink-0)) }
.picture .soft { font-size: 12.5px; fill: var(--md-default-fg-color--light, var(--soft-0)) }
.picture .name { font-weight: 600 }
.picture .file { font: 13px ui-monospace, monospace }
.picture .step { font-size: 12.5px; font-weight: 600; fill: var(--md-typeset-a-color, var(--line-0)) }
.picture .panel { fill: var(--md-default-bg-color, var(--panel-0)); stroke: var(--md-default-fg-color--lighter, #bbc) }
.picture .box { fill: var(--md-code-bg-color, var(--box-0)); stroke: none }
.picture .arrow { fill: none; stroke: var(--md-typeset-a-color, var(--line-0)); stroke-width: 1.8 }
.picture .head { fill: var(--md-typeset-a-color, var(--line-0)) }
"""


class Box(NamedTuple):
    """A rectangle with lines of text; the first one is its name. ``file``: it is one."""

    x: float
    y: float
    wide: float
    high: float
    lines: tuple[str, ...]
    file: bool = False


class Arrow(NamedTuple):
    """A line through points; the label stands above the middle of its first stretch, or at ``label_at``."""

    points: tuple[tuple[float, float], ...]
    label: str = ""
    label_at: tuple[float, float] | None = None


class Picture(NamedTuple):
    """Panels lie behind boxes. ``about`` is read to those who do not see it."""

    wide: int
    high: int
    about: str
    panels: tuple[Box, ...]
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def how() -> Picture:
    """How programs meet: the picture of the front page."""
    programs = (("Python", "a PySpark driver"), ("C++", "a pricing library"), ("Java", "a rules engine"))
    return Picture(
        760,
        300,
        "Programs in Python, C++ and Java, each with a node, exchange sealed envelopes through one directory.",
        (
            Box(10, 12, 196, 276, ("processes with nodes",)),
            Box(316, 12, 434, 276, ("one directory: the root",)),
        ),
        (
            *(Box(26, 52 + 76 * row, 164, 62, (kind, what)) for row, (kind, what) in enumerate(programs)),
            Box(332, 52, 402, 62, ("registry", "who is there, and whom it allows: authenticated")),
            Box(332, 128, 402, 62, ("lanes", "one a sender and receiver: sealed envelopes")),
            Box(332, 204, 402, 62, ("bells", "what wakes a node that sleeps")),
        ),
        (
            Arrow(((206, 83), (310, 83)), "look up", (226, 74)),
            Arrow(((206, 159), (310, 159)), "append, read", (211, 150)),
            Arrow(((206, 235), (310, 235)), "ring", (240, 226)),
        ),
    )


def architecture() -> Picture:
    """One call, from the caller to the service and back."""
    return Picture(
        990,
        430,
        "A call: the caller looks at the entry of billing, appends to a lane in its inbox and rings its bell. The "
        "reader of billing wakes, reads and verifies, and hands the call to a worker, whose answer goes into a lane of "
        "the caller's inbox.",
        (
            Box(10, 12, 230, 406, ("process: node analytics",)),
            Box(330, 12, 330, 406, ("root directory",)),
            Box(750, 12, 230, 406, ("process: node billing",)),
        ),
        (
            Box(28, 60, 194, 190, ("call, send, publish",)),
            Box(28, 320, 194, 62, ("reader", "gives the answer to its call")),
            Box(346, 52, 298, 62, ("speed_registry/billing.node", "lease and grants, authenticated"), True),
            Box(346, 132, 298, 62, ("billing/inbox/analytics/…lane", "sealed envelopes, appended"), True),
            Box(346, 212, 298, 62, ("billing/bell", "a FIFO"), True),
            Box(346, 320, 298, 62, ("analytics/inbox/billing/…lane", "a lane of its own"), True),
            Box(768, 132, 194, 142, ("reader", "verifies, dispatches")),
            Box(768, 320, 194, 62, ("workers", "services and handlers")),
        ),
        (
            Arrow(((222, 83), (340, 83)), "1 may I?"),
            Arrow(((222, 163), (340, 163)), "2 append"),
            Arrow(((222, 235), (340, 235)), "3 ring"),
            Arrow(((644, 243), (762, 243)), "4 wakes"),
            Arrow(((644, 163), (762, 163)), "5 reads"),
            Arrow(((865, 274), (865, 314)), "6", (874, 299)),
            Arrow(((768, 351), (650, 351)), "7 answer"),
            Arrow(((346, 351), (228, 351)), "8 reads"),
        ),
    )


PICTURES: dict[str, Callable[[], Picture]] = {one.__name__: one for one in (how, architecture)}


def drawn(picture: Picture) -> str:
    """The SVG."""
    return "\n".join([*_parts(picture), ""])


def _parts(picture: Picture) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {picture.wide} {picture.high}" '
        f'role="img" aria-label="{escape(picture.about)}">'
    )
    yield f"<style>{STYLE}</style>"
    for panel in picture.panels:
        yield _rectangle(panel, "panel")
        yield _text(panel.x + 16, panel.y + 26, "soft", panel.lines[0])
    for box in picture.boxes:
        yield _rectangle(box, "box")
        yield from _lines(box)
    for arrow in picture.arrows:
        yield from _arrow(arrow)
    yield "</svg>"


def _rectangle(box: Box, kind: str) -> str:
    return f'<rect class="{kind}" x="{box.x}" y="{box.y}" width="{box.wide}" height="{box.high}" rx="6"/>'


def _lines(box: Box) -> Iterator[str]:
    top = box.y + (box.high - 20 * (len(box.lines) - 1)) / 2 + 5
    for number, line in enumerate(box.lines):
        kind = "soft" if number else "file" if box.file else "name"
        yield _text(box.x + 14, top + 20 * number, kind, line)


def _text(x: float, y: float, kind: str, line: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(line)}</text>'


def _arrow(arrow: Arrow) -> Iterator[str]:
    yield f'<path class="arrow" d="M{" L".join(f"{x:g} {y:g}" for x, y in arrow.points)}"/>'
    yield _head(arrow.points[-2], arrow.points[-1])
    if arrow.label:
        (x, y), (to_x, _) = arrow.points[0], arrow.points[1]
        at = arrow.label_at or (min(x, to_x) + 24, y - 9)
        yield _text(*at, "step", arrow.label)


def _head(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A triangle at the end of a line."""
    length = ((end[0] - start[0]) ** 2 + (end[1] - start[1]) ** 2) ** 0.5
    across, down = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    back = end[0] - 9 * across, end[1] - 9 * down
    sides = [(back[0] - side * 5 * down, back[1] + side * 5 * across) for side in (1, -1)]
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in [end, *sides])
    return f'<polygon class="head" points="{corners}"/>'


def inlined(markdown: str) -> str:
    """A page with its pictures in it, so that they take the colours of the site."""

    def svg(found: re.Match[str]) -> str:
        return f'<figure markdown="0">\n{drawn(PICTURES[found[2]]())}</figure>'

    return SHOWN.sub(svg, markdown)


if __name__ == "__main__":
    for name, picture in PICTURES.items():
        (PLACE / f"{name}.svg").write_text(drawn(picture()), "utf-8")
        print(f"docs/pictures/{name}.svg")
