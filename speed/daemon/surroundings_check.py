"""What a configuration refers to: entry points, programs, key and root. Nothing is started or written."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from speed.daemon.config import Config, Mistake
from speed.daemon.entry_point import find_problem
from speed.daemon.toml_lines import KeyPath, key_lines
from speed.errors import SpeedError
from speed.fs.keyfile import load_key_file


def surroundings_mistakes(config: Config) -> list[Mistake]:
    """Every reference of a valid configuration that leads nowhere."""
    lines = key_lines(config.path.read_text(encoding="utf-8"))
    return sorted(Mistake(lines.get(path, 0), what, todo) for path, what, todo in _problems(config))


def _problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    yield from _node_problems(config)
    for number, directory in enumerate(config.python_path):
        if not directory.is_dir():
            yield ("python", "path"), f"path {number + 1}, {directory}, is no directory", "correct or remove it"
    search = [*map(str, config.python_path), str(config.directory), *sys.path]
    entries = [("service", number, one.name, one.entry) for number, one in enumerate(config.services)]
    entries += [("process", number, one.name, one.entry) for number, one in enumerate(config.processes) if one.entry]
    for kind, number, name, entry in entries:
        if entry and (problem := find_problem(entry, search)):
            yield (kind, number, "entry"), f"{name!r}: {problem}", "correct entry, or add to [python] path"
    for number, process in enumerate(config.processes):
        if process.command and not _program_exists(process.command[0], config.directory):
            what = f"{process.name!r}: there is no program {process.command[0]!r}"
            yield ("process", number, "command"), what, "build or install it, or correct the path"


def _node_problems(config: Config) -> Iterator[tuple[KeyPath, str, str]]:
    if config.node.key is not None:
        try:
            load_key_file(str(config.node.key))
        except SpeedError as error:
            yield ("node", "key"), str(error), "`speed key new FILE` makes one"
    root = config.node.root
    if root is not None and root.exists() and not (root.is_dir() and os.access(root, os.R_OK | os.W_OK | os.X_OK)):
        yield ("node", "root"), f"{root} is not a directory that you can write to", "choose another root"
    elif root is not None and not root.exists() and not root.parent.is_dir():
        yield ("node", "root"), f"there is no directory {root.parent}", "make it, or choose another root"


def _program_exists(program: str, directory: Path) -> bool:
    if os.sep in program:
        path = directory / program
        return path.is_file() and os.access(path, os.X_OK)
    return shutil.which(program) is not None
