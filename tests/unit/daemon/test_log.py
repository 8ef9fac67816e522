"""The log of speedd: what services print acts on no terminal that shows it (W-19)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speed.daemon.child import LogFile, open_log
from speed.daemon.config import LogSettings

NOBODY = 65534


def test_what_a_service_prints_is_escaped_and_kept(tmp_path: Path) -> None:
    text = "\x1b[31mred\x9b2J\u202e\u2028\x7f größe"
    open_log(LogFile(LogSettings(file=tmp_path / "log"))).info("output", text=text)
    (line,) = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert not {"\x1b", "\x9b", "\u202e", "\u2028", "\x7f"} & set(line)
    assert json.loads(line)["text"] == text
    assert "größe" in line


@pytest.fixture
def careless() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless")
def test_the_log_and_the_directories_that_are_made_for_it_are_not_for_everybody(tmp_path: Path) -> None:
    LogFile(LogSettings(file=tmp_path / "made/for/it/log"))
    modes = [stat.S_IMODE((tmp_path / place).stat().st_mode) for place in ("made", "made/for", "made/for/it")]
    assert modes == [0o750] * 3
    assert stat.S_IMODE((tmp_path / "made/for/it/log").stat().st_mode) == 0o640


def a_link(log: Path, victim: Path) -> None:
    log.symlink_to(victim)


def a_second_name(log: Path, victim: Path) -> None:
    log.hardlink_to(victim)


@pytest.mark.parametrize("put", [a_link, a_second_name])
def test_nothing_is_written_where_somebody_put_another_file(tmp_path: Path, put: object) -> None:
    log, victim = tmp_path / "log", tmp_path / "victim"
    victim.write_text("mine")
    put(log, victim)  # type: ignore[operator]
    with pytest.raises(OSError, match="log"):
        LogFile(LogSettings(file=log))
    assert victim.read_text() == "mine"


def a_file_of_another_user(log: Path, _: Path) -> None:
    log.write_text("theirs")
    os.chown(log, NOBODY, -1)


@pytest.mark.parametrize(
    "put",
    [
        a_link,
        a_second_name,
        pytest.param(
            a_file_of_another_user, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root gives away")
        ),
    ],
)
def test_what_is_put_there_before_it_is_opened_again_changes_nothing(
    tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    log, victim = tmp_path / "log", tmp_path / "victim"
    victim.write_text("mine")
    sink = LogFile(LogSettings(file=log))
    log.rename(tmp_path / "rotated")
    put(log, victim)
    there = log.read_text()
    with pytest.raises(OSError, match="log"):
        sink.reopen()
    sink.write("said\n")
    assert (victim.read_text(), log.read_text(), (tmp_path / "rotated").read_text()) == ("mine", there, "said\n")


def test_a_fifo_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match="log"):
        LogFile(LogSettings(file=tmp_path / "log"))
