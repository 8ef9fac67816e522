"""When a lane directory has changed since it was listed (L-18); files that change while they are opened (L-10)."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speed.fs import identity, lane_files
from speed.fs import open as opening
from speed.fs.lane_files import LaneFiles
from speed.fs.slots import read_at


@pytest.fixture
def files(tmp_path: Path) -> Iterator[LaneFiles]:
    files = LaneFiles(str(tmp_path), [bytes(32)])
    yield files
    files.close()


def test_a_file_that_comes_or_goes_at_once_behind_a_listing_is_noticed(files: LaneFiles, tmp_path: Path) -> None:
    """Many times: between two ticks of the clock that stamps files a directory changes without another time (L-18)."""
    file = tmp_path / "one"
    for _ in range(1_000):
        for change in (file.touch, file.unlink):
            files.list()
            change()
            assert files.changed()


def test_until_the_clock_passed_its_time_a_directory_is_listed_again(files: LaneFiles, tmp_path: Path) -> None:
    """By the clock that stamps files, which may lag behind the exact one."""
    stamp = identity._file_clock_ns() + 15_000_000
    os.utime(tmp_path, ns=(stamp, stamp))
    files.list()
    assert files.changed() or identity._file_clock_ns() > stamp


def test_a_time_far_ahead_is_no_reason_to_list_for_ever(files: LaneFiles, tmp_path: Path) -> None:
    """The clock was set back."""
    stamp = time.time_ns() + 3_600_000_000_000
    os.utime(tmp_path, ns=(stamp, stamp))
    files.list()
    assert not files.changed()


def test_a_directory_at_rest_is_soon_listed_no_more(files: LaneFiles, tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    give_up = time.monotonic() + 20
    while files.changed():
        files.list()
        assert time.monotonic() < give_up
    assert not files.changed()


@pytest.mark.parametrize("times", [1, 20])
def test_a_file_that_is_replaced_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """L-10."""
    file, beside = tmp_path / "one", tmp_path / "two"
    file.write_text("old")
    open_any, left = opening._open_any, [times]

    def open_and_replace(*arguments: Any) -> int:
        fd = open_any(*arguments)
        if left[0]:
            left[0] -= 1
            beside.write_text("new")
            beside.rename(file)
        return fd

    monkeypatch.setattr(opening, "_open_any", open_and_replace)
    assert _read(tmp_path) == b"new"


def test_a_file_that_is_removed_while_it_is_opened_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-10: it is not mistaken for a file with several names."""
    (tmp_path / "one").write_text("old")
    open_any = opening._open_any

    def open_and_remove(*arguments: Any) -> int:
        fd = open_any(*arguments)
        (tmp_path / "one").unlink()
        return fd

    monkeypatch.setattr(opening, "_open_any", open_and_remove)
    with pytest.raises(FileNotFoundError):
        _read(tmp_path)


def test_a_file_that_is_replaced_all_the_time_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-10: the search for it ends."""
    (tmp_path / "one").write_text("old")
    open_any = opening._open_any

    def open_and_replace(*arguments: Any) -> int:
        fd = open_any(*arguments)
        (tmp_path / "two").write_text("new")
        (tmp_path / "two").rename(tmp_path / "one")
        return fd

    monkeypatch.setattr(opening, "_open_any", open_and_replace)
    with pytest.raises(FileNotFoundError):
        _read(tmp_path)


def _read(directory: Path) -> bytes:
    fd = opening.open_directory(str(directory))
    try:
        return opening.read_small("one", fd, frozenset([os.geteuid()]), 100)
    finally:
        os.close(fd)


def test_where_no_clock_tells_when_files_are_stamped_a_time_must_be_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """L-18: 20 ms."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not identity.is_settled(time.time_ns())
    assert identity.is_settled(time.time_ns() - 20_000_000)


def test_a_lane_whose_owner_cannot_be_told_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-10."""

    def failing(*_: object) -> frozenset[int]:
        raise OSError(errno.EIO, "no attributes")

    monkeypatch.setattr(lane_files, "owners_of", failing)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="no attributes"):
        LaneFiles(str(tmp_path), [bytes(32)])
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_read_that_the_system_cuts_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L-10."""
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, want, offset: whole(fd, min(want, 3), offset))
    with path.open("rb") as file:
        assert read_at(file.fileno(), 1, 8) == b"12345678"
        assert read_at(file.fileno(), 6, 8) == b"6789"
