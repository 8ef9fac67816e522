"""Spark applications, one after another, against one service that may open 256 files (R-25 to R-27, L-27).

Each has workers with names of their own. All get their answers; the service holds no more open than after the first,
and nothing of them stays in the root.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from tests.interop.harness import until
from tests.interop.languages import ROOT
from tests.interop.pool import make_root
from tests.torture.fleet import resident
from tests.torture.scenario import Report, Scenario
from tests.torture.scenarios.senders import weight

ROWS = 2000
SUM = ROWS * (ROWS - 1) / 2 + ROWS
MOST_FILES, MAX_BYTES, MOST_GROWTH = 60, 8 << 20, 30 << 20
SWEPT_SECONDS = 60.0


class Service:
    """The process that all applications call."""

    def __init__(self, root: str) -> None:
        command = ["prlimit", "--nofile=256:256", sys.executable, "-m", "tests.torture.columns_service", root]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(root), stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"

    def held(self) -> tuple[int, int]:
        """Descriptors and bytes."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd")), resident(self.process.pid)

    def close(self) -> None:
        self.process.communicate(timeout=60)


def environment(root: str) -> dict[str, str]:
    return {**os.environ, "SPEED_KEY": f"{root}/speed.key", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


def application(root: str, report: Report) -> None:
    command = [sys.executable, "-m", "tests.torture.application", root, "columns"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(root), capture_output=True, text=True, timeout=300, check=False
    )
    told = done.stdout.split()
    report.check(told[:1] == [str(SUM)], f"an application got {done.stdout.strip()}: {done.stderr[-500:]}")
    if len(told) == 2:
        report.add("applications")
        report.note_worst("slowest seconds of its calls", float(told[1]))


def run(seed: int, count: int, report: Report) -> None:
    root = make_root()
    with contextlib.closing(Service(root)) as service:
        before = None
        for _ in report.rounds(seed, count):
            application(root, report)
            before = before or service.held()
            if report.mutated:  # what an ordinary name leaves
                for number in range(MOST_FILES):
                    os.mkdir(f"{root}/columns/inbox/etl.left.{number}", 0o700)
        wait = 1.0 if report.mutated else SWEPT_SECONDS
        until(lambda: weight(root)[0] <= MOST_FILES, wait)
        until(lambda: before is not None and service.held()[0] <= before[0], wait)
        files, size = weight(root)
        report.note_worst("files left", files)
        report.check(files <= MOST_FILES and size <= MAX_BYTES, f"{files} files of {size:,} bytes are left")
        if before is not None:
            now = service.held()
            report.note_worst("descriptors more", now[0] - before[0])
            report.note_worst("MiB more", round((now[1] - before[1]) / (1 << 20), 1))
            report.check(now[0] <= before[0] + 4, f"{before[0]} descriptors became {now[0]}")
            report.check(now[1] - before[1] <= MOST_GROWTH, f"the service grew by {now[1] - before[1]:,} bytes")


SCENARIO = Scenario(
    name="applications",
    promise="Spark applications one after another: all are answered, nothing of them stays, nothing grows",
    unit="Spark applications",
    tiny=1,
    quick=2,
    full=50,
    mutation="lanes of ordinary names stay",
    run=run,
)
