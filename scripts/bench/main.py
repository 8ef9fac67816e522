"""``scripts/bench/run``: measures, then prints, plots, and writes the README's table."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
from contenders.table import names_of  # noqa: E402


def command_of(options: argparse.Namespace) -> str:
    """What to type for the same table."""
    words = ["scripts/bench/run"]
    words += ["--lang", options.lang] if options.lang != "all" else []
    words += ["--only", options.only] if options.only else []
    words += ["--quick"] if peers.plan_of(options) == "quick" else []
    words += ["--cases", options.cases] if options.cases != "peers" else []
    return " ".join(words)


def main() -> int:
    parser = peers.arguments("SPEED beside its peers, as one table with each target met or missed.")
    parser.prog = "scripts/bench/run"
    parser.set_defaults(lang="all")
    parser.add_argument("--cases", choices=["peers", "all"], default="peers", help="all: sizes, crowds, disks")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="write bars as .svg or .png")
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    parser.add_argument("--no-build", action="store_true", help="measure what is there")
    options = parser.parse_args()
    found = peers.measured(parser, options)
    if options.cases == "all":
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        names = options.only.split(",") if options.only else names_of(options.lang)
        found["cases"] = cases.run(names, cases.SCALES[peers.plan_of(options)], memory)
    print(json.dumps(found, indent=2) if options.json else report.text(found))
    if options.plot:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        report.plot(found, options.plot)
    if options.readme:
        report.write_readme(found, command_of(options))
    return peers.exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
