"""Runs pytest, then what failed once more, each test alone.

``python -m tests.steady.run SEED [--measured] [pytest arguments]``. What passes then is told as unsteady, and counts as
passed; what fails twice is a failure. The last line is a closing line as pytest writes it, over both runs. ``SEED``
decides what hypothesis tries; ``--measured``: coverage.py counts what all runs reach, and adds it to what it has.
Exit status: that of pytest; 1 when too many were unsteady.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.steady.ledger import MOST, Ledger
from tests.steady.outcomes import Tally

ENGINE = "SPEED_ENGINE=python " if os.environ.get("SPEED_ENGINE") == "python" else ""
MEASURED = ("coverage", "run", "--append", "-m", "pytest")
ALWAYS = ("-p", "tests.steady.outcomes", "-p", "tests.steady.times", "--timeout=300")


class Run:
    """One run of pytest and its repetitions, each in a process of its own."""

    def __init__(self, seed: str, ledger: Ledger, work: Path, runner: Sequence[str]) -> None:
        """``runner``: what follows ``python -m``; ``work``: where outcomes may be written."""
        self._command = [sys.executable, "-m", *runner, *ALWAYS, f"--hypothesis-seed={seed}"]
        self._seed, self._ledger, self._outcomes = seed, ledger, work / "outcomes.json"

    def play(self, arguments: Sequence[str]) -> Tally:
        """All that ``arguments`` choose; what failed is repeated if it is little."""
        tally = self._pytest(arguments)
        if tally.may_be_repeated(self._ledger.room()):
            for name in list(tally.bad):
                self._repeat(name, tally)
        elif len(tally.bad) > self._ledger.room() >= 0:
            print(f"steady: {len(tally.bad)} failed, too many to be repeated (at most {MOST} in a run)", flush=True)
        return tally

    def _repeat(self, name: str, tally: Tally) -> None:
        print(f"\n== once more, alone: {name}", flush=True)
        again = self._pytest(["-n", "0", name])
        if again.status == pytest.ExitCode.OK:
            tally.mend(name)
            self._ledger.add(name, f"{ENGINE}SEED={self._seed} scripts/test '{name}'")

    def _pytest(self, arguments: Sequence[str]) -> Tally:
        """An end before pytest could say what came is a failure of which nothing is known."""
        self._outcomes.unlink(missing_ok=True)
        status = subprocess.call([*self._command, f"--outcomes={self._outcomes}", *arguments])
        try:
            return Tally.read(self._outcomes)
        except FileNotFoundError:
            return Tally(status or 1)


def main(arguments: Sequence[str]) -> int:
    seed, *chosen = (one for one in arguments if one != "--measured")
    runner = MEASURED if "--measured" in arguments else ("pytest",)
    began = time.monotonic()
    # Who interrupts a run interrupts pytest, too, which tells what it has seen; then this one ends as well.
    signal.signal(signal.SIGINT, lambda *_: None)
    ledger = Ledger()
    with tempfile.TemporaryDirectory() as work:
        tally = Run(seed, ledger, Path(work), runner).play(chosen)
    if tally.bad:
        print("\n== failed twice, or was not repeated", *tally.bad, sep="\n")
    print("", *ledger.block(), sep="\n")
    print(tally.closing_line(time.monotonic() - began), flush=True)
    return tally.status or (ledger.room() < 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
