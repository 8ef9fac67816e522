"""What the README shows is what happens: its session, its example, and the program it points to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from speed.fs.keyfile import write_key_file
from tests.system.documents import PATIENCE, REPOSITORY, check_session, steps, user_environment

pytestmark = pytest.mark.system

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def block(language: str, section: str = "") -> str:
    """The README's first fenced block of a language, behind the heading of ``section``."""
    found = re.search(rf"{section}.*?^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the README has no {language} block"
    return found[1]


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 180


def test_what_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a user who has installed SPEED."""
    return user_environment(tmp_path)


def test_the_session_of_the_readme_prints_what_it_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    session = block("console")
    assert len(steps(session)) >= 8
    check_session(session, tmp_path, environment)


def test_the_first_program_runs_as_it_stands(tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block("python")],
        env={**environment, "SPEED_ROOT": str(tmp_path / "root")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
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
        ["dest", "miles", "km"],
        ["BOS", "187.0", "300.947328"],
        ["LAX", "2475.0", "3983.1264"],
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
