"""Prints the shape of ``speed/`` beside what it is held to.

usage: scripts/shape [--files]        --files: also the files that are met on the way of each verb, and small ones

What protoc generates (``*_pb2.py``) is not counted. Files of a verb are those in which something is called on any
thread, from its beginning to its return, each of eight times; the Python engine is on both sides.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

from tests.shape import files

TARGETS = {
    "files": 225,
    "median of lines, at least": 250,
    f"files below {files.SMALL_LINES} lines": 25,
    "circles of files": 0,
    "names of classes in two files": 10,
    "files of a start": 40,
    "files of a call": 36,
    "files of an acknowledged send": 42,
    "files of Topic.publish, with its host": 46,
}
VERBS = {
    "files of a start": "start",
    "files of a call": "call",
    "files of an acknowledged send": "send",
    "files of Topic.publish, with its host": "publish",
}


def traced() -> dict[str, list[str]]:
    """The files of each verb."""
    command = [sys.executable, "-m", "tests.shape.traced"]
    environment = {**os.environ, "SPEED_ENGINE": "python"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=files.ROOT)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def figures(met: dict[str, list[str]]) -> dict[str, float]:
    return {
        "files": len(files.sources()),
        "median of lines, at least": files.median_size(),
        f"files below {files.SMALL_LINES} lines": files.small(),
        "circles of files": len(files.circles(files.imports())),
        "names of classes in two files": len(files.names_borne_twice()),
        **{line: len(met[verb]) for line, verb in VERBS.items()},
    }


def lines(met: dict[str, list[str]]) -> Iterator[str]:
    """The table."""
    yield f"{'':40}{'is':>8}{'target':>8}"
    for name, figure in figures(met).items():
        is_met = figure >= TARGETS[name] if name.startswith("median") else figure <= TARGETS[name]
        yield f"{name:40}{figure:>8g}{TARGETS[name]:>8}{'' if is_met else '  missed'}"
    yield f"{'lines of speed/':40}{sum(files.sizes()):>8}"


def main() -> int:
    met = traced()
    print("\n".join(lines(met)))
    if "--files" in sys.argv[1:]:
        small = [name for name, path in files.sources().items() if files.length(path) < files.SMALL_LINES]
        print("\nsmall:", ", ".join(small))
        print("\nnames in two files:", ", ".join(files.names_borne_twice()))
        for verb, of_verb in met.items():
            print(f"\n{verb}:", ", ".join(of_verb))
    return 0


if __name__ == "__main__":
    sys.exit(main())
