"""Code blocks of Markdown pages: where they are, and what a session typed from one prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
SESSION_ROOT = "/dev/shm/first-try"
PATIENCE = 300.0  # Spark on a busy machine
_FENCE = re.compile(r"^( *)```(\S*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_REASON = re.compile(r"<!--\s*\S.*?-->\s*\Z", re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_NAMED = re.compile(r"\A# ([\w./-]+\.\w+|cell \d+)\n")


class Block(NamedTuple):
    """A fenced block: ``words`` stand behind its language; ``reason`` is whether a comment precedes it."""

    page: str
    line: int
    language: str
    words: str
    text: str
    reason: bool

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        """Whether it is checked: not if it says ``no-run``."""
        return "no-run" not in self.words.split()

    @property
    def title(self) -> str | None:
        """What the reader saves it as: ``title="…"``, or a comment on its first line; also a cell of a notebook."""
        found = _TITLE.search(self.words) or _NAMED.match(self.text)
        return found[1] if found else None


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, without the indentation of a list around them."""
    text = page.read_text("utf-8")
    name = str(page.relative_to(REPOSITORY))
    return [
        Block(
            page=name,
            line=text.count("\n", 0, found.start()) + 1,
            language=found[2],
            words=found[3].strip(),
            text=re.sub(rf"^{found[1]}", "", found[4], flags=re.MULTILINE),
            reason=_REASON.search(text, 0, found.start()) is not None,
        )
        for found in _FENCE.finditer(text)
    ]


def steps(session: str) -> list[tuple[str, str]]:
    """Commands of a session (lines after ``$``), each with the output shown under it."""
    parts = re.split(r"^\$ (.*(?:\n> .*)*)\n", session, flags=re.MULTILINE)[1:]
    commands = [command.replace("\n> ", "\n") for command in parts[::2]]
    return list(zip(commands, parts[1::2], strict=True))


def normal(text: str) -> str:
    """Widths of columns depend on what stands in them: spaces and rules count as one."""
    lines = (re.sub(r"─+", "─", " ".join(line.split())) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def pattern(shown: str) -> str:
    """``…`` stands for anything within a line, ``...`` on a line of its own for any lines."""
    escaped = re.escape(normal(shown)).replace("…", r"[^\n]*")
    return escaped.replace("\\.\\.\\.\\\n", r"(?:[^\n]*\n)*?")


def user_environment(directory: Path) -> dict[str, str]:
    """This interpreter, and its ``speed`` and ``speedd``, in front of all others; no settings of the user."""
    commands = directory / "bin"
    commands.mkdir()
    for name, words in (("python", ""), ("speed", "-m speed.cli"), ("speedd", "-m speed.daemon")):
        file = commands / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')  # a link would lose its environment
        file.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith("SPEED_")}
    return {**own, "PATH": f"{commands}:{own['PATH']}", "PYTHONPATH": str(REPOSITORY), "COLUMNS": "110"}


def run_session(commands: list[str], directory: Path, environment: dict[str, str]) -> list[str]:
    """The output of each command, all typed into one shell."""
    (directory / "examples").symlink_to(REPOSITORY / "examples")
    script = "exec 2>&1\ntrap 'kill $(jobs -p) 2> /dev/null' EXIT\n"
    script += "".join(f"{command}\nprintf '\\036'\n" for command in commands)
    done = subprocess.run(
        ["bash", "-c", script], cwd=directory, env=environment, stdout=-1, text=True, check=False, timeout=PATIENCE
    )
    return done.stdout.split("\x1e")


def check_session(session: str, directory: Path, environment: dict[str, str]) -> None:
    """Type a session in a fresh root and compare what it prints with what is shown."""
    shown = steps(session.replace(SESSION_ROOT, str(directory / "root")))
    outputs = run_session([command for command, _ in shown], directory, environment)
    for (command, expected), output in zip(shown, outputs, strict=False):
        assert re.fullmatch(pattern(expected), normal(output)), f"$ {command}\n{output}"
    assert len(outputs) == len(shown) + 1
