"""`speed` as real processes: what tests of the command line run, and what they get back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PATIENCE = 60.0


class Result:
    """What one command did."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def value(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err.splitlines()[-1])["error"]


class Command:
    """Runs `speed` on one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {**os.environ, "SPEED_ROOT": str(root), "COLUMNS": "200"}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "speed.cli", *words]

    def __call__(self, *words: str, text: str | None = None) -> Result:
        command = self.command(*words)
        return Result(
            subprocess.run(
                command, env=self.environment, input=text, capture_output=True, text=True, check=False, timeout=PATIENCE
            )
        )

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*words), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
