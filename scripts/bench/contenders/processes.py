"""What processes cost, as the kernel counts it; and processes that keep every core busy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY = "while True: pass"
BYTE_CODE = Path(__file__).resolve().parents[3] / "build" / "bench" / "bytecode"


def environment() -> dict[str, str]:
    """For measured programs: Python keeps its byte code, as it does for what is installed, whatever the shell says."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(BYTE_CODE)}


def cpu_ns(pid: int) -> int:
    """Processor time of all threads that live, in nanoseconds; /proc/PID/stat counts in hundredths of a second."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue  # the thread ended meanwhile
    return total


def resident_mb(pid: int) -> float:
    """Resident memory in 10^6 bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def every_core_busy() -> Iterator[None]:
    """One process for each core that never sleeps."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
