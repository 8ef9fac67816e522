"""The log of speedd is bounded whatever its processes print, and no line of it is obeyed by a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system.daemon.speedds import HEAD, Speedd

pytestmark = pytest.mark.system

SMALL = HEAD.replace('level = "debug"', 'level = "info"\nfile = "log/speedd.log"\nmax_bytes = 65536\nkept_files = 2')


def process(script: str) -> str:
    """A process that runs a Python script once and then is over."""
    command = json.dumps([sys.executable, "-c", script])
    return f'[[process]]\nname = "prints"\nrestart = "never"\ncommand = {command}\n'


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def run_until_printed(start: Callable[..., Speedd], directory: Path, script: str) -> None:
    marker = directory / "printed"
    speedd = start(process(f"{script}\nopen({str(marker)!r}, 'w')"), None, SMALL)
    while not marker.exists():
        assert speedd.process.poll() is None
        time.sleep(0.02)  # the pace of looking
    assert speedd.stop() == 0


def run_to_its_end(start: Callable[..., Speedd], directory: Path, script: str) -> list[dict[str, Any]]:
    """The lines of all files of the log, the oldest first, after the process has printed all."""
    run_until_printed(start, directory, script)
    files = sorted((directory / "log").iterdir(), reverse=True)
    return [line for file in files for line in lines_of(file)]


def test_what_a_process_prints_fills_no_disk(start: Callable[..., Speedd], directory: Path) -> None:
    script = "import sys\nfor n in range(40_000): print(n, 'x' * 50, file=sys.stderr if n % 2 else sys.stdout)"
    lines = run_to_its_end(start, directory, script)
    files = sorted(file.name for file in (directory / "log").iterdir())
    assert files == ["speedd.log", "speedd.log.1", "speedd.log.2"]
    assert all(file.stat().st_size <= 65536 for file in (directory / "log").iterdir())
    assert any(line["event"] == "output_dropped" and line["records"] > 0 for line in lines)
    assert lines[-1]["event"] == "stopped"


def test_a_line_without_an_end_is_cut(start: Callable[..., Speedd], directory: Path) -> None:
    lines = run_to_its_end(start, directory, "print('y' * 300_000)")
    texts = [line["text"] for line in lines if line["event"] == "output"]
    assert texts
    assert all(len(text) <= 8192 for text in texts)


def test_control_characters_of_a_process_are_shown_and_not_done(start: Callable[..., Speedd], directory: Path) -> None:
    script = r"print('\x1b[2J\x9b31m\u202eevil\u2028\x07 end', flush=True)"
    lines = run_to_its_end(start, directory, script)
    (text,) = [line["text"] for line in lines if line["event"] == "output"]
    assert text == r"\x1b[2J\x9b31m\u202eevil\u2028\x07 end"


def test_older_files_than_are_kept_are_removed(start: Callable[..., Speedd], directory: Path) -> None:
    (directory / "log").mkdir()
    for number in (3, 4):
        (directory / "log" / f"speedd.log.{number}").write_text("of a longer time\n")
    run_to_its_end(start, directory, "for n in range(3000): print('z' * 50)")
    assert not list((directory / "log").glob("speedd.log.[34]"))


def test_a_log_that_cannot_be_rotated_keeps_its_newest_lines_within_the_bound(
    start: Callable[..., Speedd], directory: Path
) -> None:
    """A directory lies where the older file would go."""
    (directory / "log" / "speedd.log.1" / "full").mkdir(parents=True)
    (directory / "log" / "speedd.log.2" / "full").mkdir(parents=True)
    run_until_printed(start, directory, "for n in range(3000): print(n, 'z' * 50)")
    log = directory / "log" / "speedd.log"
    assert log.stat().st_size <= 65536
    assert any(line.get("text", "").startswith("2999 ") for line in lines_of(log))


def test_a_speedd_without_a_stderr_comes_up(directory: Path) -> None:
    (directory / "speedd.toml").write_text(HEAD)
    command = f"{sys.executable} -m speed.daemon run -c {directory}/speedd.toml --ready-fd 1 2>&-"
    with subprocess.Popen(["sh", "-c", f"exec {command}"], stdout=subprocess.PIPE) as speedd:
        assert speedd.stdout is not None
        try:
            assert speedd.stdout.read(6) == b"READY\n"
        finally:
            speedd.terminate()
        assert speedd.wait() == 0
