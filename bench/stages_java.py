"""Java's stages: the Flight Recorder of both processes, samples of running Java code by the innermost class."""

from __future__ import annotations

import collections
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from contender import Contender

RECORDING = "stages"
FRAME = re.compile(r"^\s+(speed\.[\w.$]+)\.[\w$<>]+\(")


def shares(pair: Contender, act: Callable[[int], object], count: int) -> collections.Counter[str]:
    """How many samples of `count` calls fell into each class."""
    pids = [pair.client.process.pid, pair.server.process.pid]
    for pid in pids:
        _jcmd(pid, "JFR.start", f"name={RECORDING}", "settings=profile", "jdk.ExecutionSample#period=1ms")
    act(count)
    found: collections.Counter[str] = collections.Counter()
    for pid in pids:
        file = pair.work / f"{pid}.jfr"
        _jcmd(pid, "JFR.stop", f"name={RECORDING}", f"filename={file}")
        found.update(_stages(file))
    return found


def _jcmd(pid: int, *words: str) -> None:
    subprocess.run(["jcmd", str(pid), *words], check=True, capture_output=True)


def _stages(file: Path) -> collections.Counter[str]:
    # jdk.NativeMethodSample would count threads that only wait in a system call.
    command = ["jfr", "print", "--stack-depth", "64", "--events", "jdk.ExecutionSample", str(file)]
    samples = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n\n")
    return collections.Counter(_stage(sample) for sample in samples if "stackTrace" in sample)


def _stage(sample: str) -> str:
    """The first frame of the node from inside, lambdas and nested classes as their class."""
    for line in sample.splitlines():
        if match := FRAME.match(line):
            return match.group(1).split("$")[0].removeprefix("speed.")
    return "other"
