"""The pipeline example leaves nothing behind when it is stopped; CI runs it to its end (scripts/pipeline)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

SOURCES = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.system, pytest.mark.cpp, pytest.mark.java]


def processes_of(root: str) -> list[psutil.Process]:
    """All processes that were started for a communication directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SPEED_ROOT") == root:
                found.append(process)
        except psutil.Error:  # it ended, or is another user's
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_pipeline_leaves_no_process_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "examples.pipeline.run", "--sample", "100", "--scratch", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONUNBUFFERED": "1"}
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert run.stdout is not None
    lines = []
    for line in run.stdout:
        lines.append(line)
        if "the Spark job and the replay start" in line:
            break
    (work,) = tmp_path.iterdir()
    assert processes_of(str(work / "root"))
    run.send_signal(number)
    run.communicate(timeout=60)
    assert run.returncode == 128 + number, lines
    assert not processes_of(str(work / "root"))
    assert not list(tmp_path.iterdir())
