"""What the README shows is what happens: its session, its example, and the program it points to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from speed.fs.keyfile import write_key_file

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SESSION_ROOT = "/dev/shm/first-try"
PATIENCE = 120.0


def block(language: str, section: str = "") -> str:
    """The README's first fenced block of a language, behind the heading of ``section``."""
    found = re.search(rf"{section}.*?^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the README has no {language} block"
    return found[1]


def steps(session: str) -> list[tuple[str, str]]:
    """Commands of a session (lines after ``$``), each with the output shown under it."""
    parts = re.split(r"^\$ (.*)\n", session, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def normal(text: str) -> str:
    """Widths of columns depend on what stands in them: spaces and rules count as one."""
    lines = (re.sub(r"─+", "─", " ".join(line.split())) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


def pattern(shown: str) -> str:
    """``…`` stands for anything within a line, ``...`` on a line of its own for any lines."""
    escaped = re.escape(normal(shown)).replace("…", r"[^\n]*")
    return escaped.replace("\\.\\.\\.\\\n", r"(?:[^\n]*\n)*?")


def test_the_library_for_segments_does_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """G-10: segments are lost in it."""
    exec(compile(block("python", "needs only a segment size"), "README.md", "exec"), {})
    assert capsys.readouterr().out == "True\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """``speed`` and ``speedd`` of this interpreter, in front of all others; no settings of the user."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, module in (("speed", "speed.cli"), ("speedd", "speed.daemon")):
        file = commands / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
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


def test_the_session_of_the_readme_prints_what_it_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    root = str(tmp_path / "root")
    shown = steps(block("console").replace(SESSION_ROOT, root))
    assert len(shown) >= 8
    outputs = run_session([command for command, _ in shown], tmp_path, environment)
    for (command, expected), output in zip(shown, outputs, strict=False):
        assert re.fullmatch(pattern(expected), normal(output)), f"$ {command}\n{output}"
    assert len(outputs) == len(shown) + 1


def test_the_twenty_lines_of_the_readme_run_as_they_stand(tmp_path: Path, environment: dict[str, str]) -> None:
    example = block("python")
    assert len(example.splitlines()) <= 20
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    write_key_file(f"{root}/speed.key", (os.urandom(32),))
    command = [sys.executable, "-c", example]
    done = subprocess.run(
        command, env={**environment, "SPEED_ROOT": str(root)}, capture_output=True, text=True, check=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert lines[:3] == ["{'tax': 180.0}", "{'tax': 360.0}", "analytics {'hello': 1} False"]
    assert re.fullmatch(r"\d\.\d+(e-\d+)? \['calculateTax'\]", lines[3])
    assert (len(lines), done.stderr) == (4, "")


@pytest.mark.spark
def test_the_spark_example_of_the_readme_runs_as_it_stands(tmp_path: Path, environment: dict[str, str]) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    write_key_file(f"{root}/speed.key", (os.urandom(32),))
    own = {**environment, "SPEED_ROOT": str(root), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", block("python", "^## Spark$")]
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-4000:]
    words = [re.sub(r"[|+-]+", " ", line).split() for line in done.stdout.splitlines()]
    assert [line for line in words if line] == [
        ["dest", "miles", "haul"],
        ["BOS", "186.0", "short"],
        ["LAX", "2470.0", "long"],
        ["4", "rows"],
    ]


def test_the_example_in_two_processes_runs(environment: dict[str, str]) -> None:
    command = [sys.executable, str(REPOSITORY / "examples" / "billing.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert sorted(done.stdout.splitlines()) == [
        "billing got {'hello': 1} from analytics",
        "more {'tax': 360.0}",
        "services ['calculateTax']",
        "tax {'tax': 180.0}",
    ]
    assert done.stderr == ""


def test_the_example_of_messages_runs_as_it_stands(tmp_path: Path, environment: dict[str, str]) -> None:
    """M-25, M-30: signed, encrypted and opened."""
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    write_key_file(f"{root}/speed.key", (os.urandom(32),))
    done = subprocess.run(
        [sys.executable, "-c", block("python", "^## Messages$")],
        env={**environment, "SPEED_ROOT": str(root)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1000 billing.1 archive.1\n1000 payloads\n"
