"""The figures of the C++ and the Java library: what their own programs print, beside the targets."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = {
    "C++": (ROOT / "build/cpp/speed-bench-segment",),
    "Java": (ROOT / "bindings/java/bin/speed-java", "speed.tool.SegmentBench"),
}
"""Each prints lines of a name and MB/s of processor time."""
TARGETS = {
    ("C++", "segments with parity 0.125, hash apart"): 1000,
    ("Java", "segments with parity 0.125, hash apart"): 300,
}
LINE = re.compile(r"(?P<name>.+?) +(?P<value>\d+) MB/s")


def measure(megabytes: int) -> Iterator[Figure]:
    """Their figures; a program that is not built is named on stderr and left out."""
    for language, command in PROGRAMS.items():
        try:
            told = subprocess.run([*command, str(megabytes)], check=True, stdout=subprocess.PIPE, text=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"bench: {language} is left out: {error}; see bench/build", file=sys.stderr)
            continue
        yield from figures(language, told)


def figures(language: str, told: str) -> Iterator[Figure]:
    """What a program printed."""
    for line in told.splitlines():
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"{language}: {line!r} is no figure")
        name, value = found["name"], float(found["value"])
        yield Figure(f"{language}: {name}", value, "MB/s", TARGETS.get((language, name)), processor=value)
