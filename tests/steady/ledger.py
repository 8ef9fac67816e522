"""Which tests of a whole run failed once and passed alone: a file with a line for each, which all steps of it share.

A test that fails is repeated alone, once. What passes then is unsteady: a defect to be explained, yet no reason to hide
what is right beside it. More than ``MOST`` in a run are a failure. Who repeats tests adds them here: the tests of
Python and the scenarios of ``scripts/torture`` by this module, those of C++ and Java by their scripts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

MOST = 3
"""Unsteady tests in one run; with more of them it says little about the code."""
MAX_CHARACTERS = 300
VARIABLE = "SPEED_UNSTEADY"
"""Names the file. Without it each step counts for itself, and nothing is kept."""


class Ledger:
    """The file of one run; made when something is added."""

    def __init__(self, path: str | None = None) -> None:
        """``path``: by default that of the environment."""
        chosen = os.environ.get(VARIABLE, "") if path is None else path
        self._path = Path(chosen) if chosen else None
        self._own: list[str] = []

    def add(self, name: str, repeat: str) -> None:
        """``name`` failed and then passed; ``repeat`` is the command that tries it again."""
        line = f"{' '.join(name.split())[:MAX_CHARACTERS]}; again: {repeat}"  # one line each: they are counted
        self._own.append(line)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def lines(self) -> list[str]:
        """All that were added, by whomever."""
        if self._path is None:
            return self._own
        try:
            return self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def room(self) -> int:
        """How many more there may be; negative when there are too many."""
        return MOST - len(self.lines())

    def block(self) -> list[str]:
        """What a run says about them at its end; nothing where there are none."""
        lines = self.lines()
        if not lines:
            return []
        verdict = f": more than {MOST} in a run are a failure" if len(lines) > MOST else ""
        return [f"== unsteady: {len(lines)} failed and passed alone{verdict}", *lines]


def main() -> int:
    """Print the block; 1 when there are too many."""
    ledger = Ledger()
    for line in ledger.block():
        print(line)
    return int(ledger.room() < 0)


if __name__ == "__main__":
    sys.exit(main())
