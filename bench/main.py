"""``bench/run``: measures, then prints, plots, and writes the tables of docs/figures.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import compared  # noqa: E402
import peers  # noqa: E402
import plot  # noqa: E402
import plot_cases  # noqa: E402
import reasons  # noqa: E402
import report  # noqa: E402
from case import SCALES  # noqa: E402
from targets import case_verdicts  # noqa: E402

SIDE = ("peers", "sizes", "threads", "pairs")
"""What is asked of all contenders side by side; every other word is a case of SPEED's own."""
WORDS = (*SIDE, *cases.NAMES)


def words_of(text: str) -> frozenset[str]:
    """`all`, or some of the words; whatever is asked side by side needs the rounds of ``peers``."""
    words = frozenset(WORDS if text == "all" else text.split(","))
    if unknown := words.difference(WORDS):
        raise argparse.ArgumentTypeError(f"no {', '.join(sorted(unknown))}; there are all, {', '.join(WORDS)}")
    return words | {"peers"} if words.intersection(SIDE) else words


def command_of(options: argparse.Namespace) -> str:
    """What to type for the same table."""
    words = ["bench/run"]
    words += ["--lang", options.lang] if options.lang != "all" else []
    words += ["--only", options.only] if options.only else []
    words += ["--quick"] if peers.plan_of(options) == "quick" else []
    if options.cases != peers.SIDE_BY_SIDE:
        every = options.cases == set(WORDS)
        words += ["--cases", "all" if every else ",".join(word for word in WORDS if word in options.cases)]
    return " ".join(words)


def add_cases(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Row by row; with ``--json FILE`` each is in the file before the next is measured."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows: list[dict[str, Any]] = []
    found["cases"] = rows
    for row in cases.run(peers.chosen(options), options.cases, SCALES[peers.plan_of(options)], memory):
        rows.append(row)
        print(report.case_line(row), file=sys.stderr)
        if row.get("figure"):
            found["figures"][f"{row['figure']}/{row['contender']}"] = row["value"]
            found.setdefault("reasons", {})[f"{row['figure']}/{row['contender']}"] = row["why"]
        if options.json and options.json != "-":
            peers.save(found, options.json)
    found["verdicts"] += case_verdicts(found["figures"], peers.languages_of(options), options.cases)


def draw(found: dict[str, Any], path: Path) -> None:
    """The pictures of what was measured: `path`, and beside it those of growth and of the other cases."""
    if found["contenders"]:
        plot.draw(found, path)
    plot_cases.draw_all(found, path)


def main() -> int:
    parser = peers.arguments("SPEED beside its peers, as one table with each target met or missed.")
    parser.prog = "bench/run"
    parser.set_defaults(lang="all")
    parser.add_argument(
        "--cases", type=words_of, default=peers.SIDE_BY_SIDE, metavar="WORDS", help=f"all, or of: {','.join(WORDS)}"
    )
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the figures as .svg or .png")
    parser.add_argument(
        "--docs", action="store_true", help="write the tables and plots of docs/figures.md, and README's table"
    )
    parser.add_argument("--no-build", action="store_true", help="measure what is there")
    if "--only" in sys.argv and sys.argv[sys.argv.index("--only") + 1 :][:1] == ["segment"]:
        from bench import segment

        return segment.main()
    options = parser.parse_args()
    if options.docs and "peers" not in options.cases:
        parser.error("--docs writes the whole section: add peers to --cases")
    found = peers.measured(parser, options)
    if options.cases.difference(SIDE):
        add_cases(found, options)
    if peers.plan_of(options) != "tiny":
        reasons.add(found)
    peers.tell(found, options.json)
    if options.plot:
        draw(found, options.plot)
    if options.docs:
        draw(found, report.PLOT)
        report.write_page(found, command_of(options))
        compared.write_pages(found)
    return peers.exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
