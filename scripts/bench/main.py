"""``scripts/bench/run``: measures, then prints, plots, and writes the README's table."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import peers  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
from targets import case_verdicts  # noqa: E402


def command_of(options: argparse.Namespace) -> str:
    """What to type for the same table."""
    words = ["scripts/bench/run"]
    words += ["--lang", options.lang] if options.lang != "all" else []
    words += ["--only", options.only] if options.only else []
    words += ["--quick"] if peers.plan_of(options) == "quick" else []
    words += ["--cases", options.cases] if options.cases != "peers" else []
    return " ".join(words)


def add_cases(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Row by row; with ``--json FILE`` each is in the file before the next is measured."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    rows: list[dict[str, Any]] = []
    found["cases"] = rows
    for row in cases.run(peers.chosen(options), cases.SCALES[peers.plan_of(options)], memory):
        rows.append(row)
        print(report.case_line(row), file=sys.stderr)
        if row.get("figure"):
            found["figures"][f"{row['figure']}/{row['contender']}"] = row["value"]
        if options.json and options.json != "-":
            peers.save(found, options.json)
    found["verdicts"] += case_verdicts(found["figures"], peers.languages_of(options))


def main() -> int:
    parser = peers.arguments("SPEED beside its peers, as one table with each target met or missed.")
    parser.prog = "scripts/bench/run"
    parser.set_defaults(lang="all")
    parser.add_argument("--cases", choices=["peers", "all"], default="peers", help="all: sizes, crowds, disks")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the figures as .svg or .png")
    parser.add_argument("--readme", action="store_true", help="write tables into README.md, and its plot")
    parser.add_argument("--no-build", action="store_true", help="measure what is there")
    if "--only" in sys.argv and sys.argv[sys.argv.index("--only") + 1 :][:1] == ["segment"]:
        from scripts.bench import segment

        return segment.main()
    options = parser.parse_args()
    found = peers.measured(parser, options)
    if options.cases == "all":
        add_cases(found, options)
    peers.tell(found, options.json)
    if options.plot:
        plot.draw(found, options.plot)
    if options.readme:
        plot.draw(found, report.PLOT)
        report.write_readme(found, command_of(options))
    return peers.exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
