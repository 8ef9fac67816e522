"""Waves of senders whose names do not come back (R-25 to R-27, L-27): all are answered, nothing of them stays.

One service in each language may open 256 files. A wave are processes at once, each with a name of its own; half of
them are killed. In the end the services hold no more open, are no larger, and the root is as small as before.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys

from tests.interop.harness import Agent, until
from tests.interop.languages import CHOSEN
from tests.interop.pool import Agents
from tests.torture.crowd import TIMEOUT
from tests.torture.fleet import resident
from tests.torture.scenario import Report, Scenario

FEW, MANY = 20, 200
MANY_FROM = 20
LIMITED = ["prlimit", "--nofile=256:256", "env", "SPEED_JAVA_OPTIONS=-XX:TieredStopAtLevel=1 -Xmx64m"]
MOST_FILES, MAX_BYTES = 60, 8 << 20
SWEPT_SECONDS = 60.0
MOST_GROWTH = 80 << 20


def run(seed: int, count: int, report: Report) -> None:
    size = MANY if count >= MANY_FROM else FEW
    with contextlib.closing(Agents()) as cast:
        services = [cast.start(language, f"service.{language}", allow=["s.*"], under=LIMITED) for language in CHOSEN]
        for service in services:
            service.ready()
        before: list[tuple[int, int]] = []
        starts: list[float] = []
        for round_seed in report.rounds(seed, count):
            starts.append(wave(cast.root, f"s.{round_seed}", size, services, report))
            check_alive(services, report)
            before = before or [(len(service.descriptors()), resident(service.pid)) for service in services]
        report.note_worst("last wave's starts by the first's", round(starts[-1] / starts[0], 2))
        check_swept(cast.root, report)
        check_services(services, before, report)


def wave(root: str, family: str, size: int, services: list[Agent], report: Report) -> float:
    """All senders of one wave; how long a start took, the median in seconds."""
    kind = "ordinary" if report.mutated else "ephemeral"
    command = [sys.executable, "-m", "tests.torture.crowd", root, family, str(size), kind]
    told = subprocess.run([*command, *(one.name for one in services)], capture_output=True, text=True, check=True)
    lines = told.stdout.splitlines()
    report.check(len(lines) == size, f"{family}: {len(lines)} of {size} senders told how it went")
    for line in lines:
        report.check(line.startswith("ok "), line)
    report.add("senders", len(lines))
    took = [float(line[3:]) for line in lines if line.startswith("ok ")]
    return statistics.median(took) if took else TIMEOUT


def check_alive(services: list[Agent], report: Report) -> None:
    """What a service that is gone said last is the only trace of why."""
    for service in services:
        code = service.process.poll()
        report.check(code is None, f"{service!r} ended with {code}; it said: {service.stderr()[-1000:]}")


def check_swept(root: str, report: Report) -> None:
    wait = 3.0 if report.mutated else SWEPT_SECONDS
    until(lambda: weight(root)[0] <= MOST_FILES, wait)
    files, size = weight(root)
    report.note_worst("files left", files)
    report.check(files <= MOST_FILES and size <= MAX_BYTES, f"{files} files of {size:,} bytes are left")


def weight(root: str) -> tuple[int, int]:
    """How many files and directories a root has, and their bytes."""
    paths = [os.path.join(at, one) for at, folders, files in os.walk(root) for one in (*folders, *files)]
    return len(paths), sum(map(_size, paths))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0  # it is just being removed


def check_services(services: list[Agent], before: list[tuple[int, int]], report: Report) -> None:
    for service, (files, size) in zip(services, before, strict=True):
        files_now, size_now = len(service.descriptors()), resident(service.pid)
        report.note_worst("descriptors more", files_now - files)
        report.note_worst(f"MiB more in {service.language}", round((size_now - size) / (1 << 20), 1))
        report.check(files_now <= files + 4, f"{service!r}: {files} descriptors became {files_now}")
        report.check(size_now - size <= MOST_GROWTH, f"{service!r} grew by {size_now - size:,} bytes")


SCENARIO = Scenario(
    name="senders",
    promise=f"short-lived senders, {MANY} at a time: all are answered, nothing of them stays, nothing grows",
    unit="waves",
    tiny=1,
    quick=3,
    full=50,
    mutation="the senders do not say that their names will not come back",
    run=run,
)
