"""What processes cost, as the kernel counts it; processes that keep every core busy; where their files lie."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SCHEDULED = 2
"""Linux's clock of another process: its id inverted and shifted, and which time of it (clock_getcpuclockid(3))."""
BUSY = "while True: pass"
BYTE_CODE = Path(__file__).resolve().parents[2] / "build" / "bench" / "bytecode"


def environment() -> dict[str, str]:
    """For measured programs: Python keeps its byte code, as it does for what is installed, whatever the shell says."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(BYTE_CODE)}


def cpu_ns(pid: int) -> int:
    """Processor time of all threads, ended ones too, in nanoseconds; /proc/PID/stat counts hundredths of a second."""
    return time.clock_gettime_ns(~pid << 3 | SCHEDULED)


def resident_mb(pid: int) -> float:
    """Resident memory in 10^6 bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def files_directory() -> str:
    """Memory, where the system offers it as a directory."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def resident_kinds(pid: int) -> dict[str, float]:
    """Resident memory in 10^6 bytes: of files (program, libraries), and of no file."""
    found = {"program and libraries": 0.0, "heap, stacks and other": 0.0}
    file = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            file = len(words := line.split()) > 5 and words[5].startswith("/")
        elif line.startswith("Rss:"):
            found["program and libraries" if file else "heap, stacks and other"] += int(line.split()[1]) * 1024 / 1e6
    return found


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
