"""The examples of the RFC, in three languages: they do the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.documents import REPOSITORY

pytestmark = pytest.mark.system

PROGRAMS = {
    "python": [sys.executable, str(REPOSITORY / "examples" / "rfc.py")],
    "cpp": [str(REPOSITORY / "build" / "cpp" / "examples" / "speed-example-rfc")],
    "java": [str(REPOSITORY / "bindings" / "java" / "bin" / "speed-java"), "speed.examples.Rfc"],
}
MARKS = {"python": (), "cpp": pytest.mark.cpp, "java": pytest.mark.java}


@pytest.mark.parametrize("language", [pytest.param(one, marks=MARKS[one]) for one in PROGRAMS])
def test_the_examples_of_the_rfc_run_in(language: str, root: str) -> None:
    environment = {**os.environ, "SPEED_ROOT": root, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("SPEED_KEY", None)
    done = subprocess.run(
        PROGRAMS[language], env=environment, cwd=Path(root), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.replace("tax 180\n", "tax 180.0\n").splitlines()
    assert lines == ["tax 180.0", "analytics hello", "SERVICE_NOT_FOUND"]
