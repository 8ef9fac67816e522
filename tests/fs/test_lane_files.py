"""When a lane directory has changed since it was listed (L-18)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from speed.fs.lane_files import LaneFiles


@pytest.fixture
def files(tmp_path: Path) -> LaneFiles:
    return LaneFiles(str(tmp_path), [bytes(32)])


def test_a_file_that_comes_or_goes_at_once_behind_a_listing_is_noticed(files: LaneFiles, tmp_path: Path) -> None:
    """Many times: between two ticks of the clock that stamps files a directory changes without another time (L-18)."""
    file = tmp_path / "one"
    for _ in range(1_000):
        for change in (file.touch, file.unlink):
            files.list()
            change()
            assert files.changed()


def test_until_the_clock_passed_its_time_a_directory_is_listed_again(files: LaneFiles, tmp_path: Path) -> None:
    stamp = time.time_ns() + 15_000_000
    os.utime(tmp_path, ns=(stamp, stamp))
    files.list()
    assert files.changed() or time.time_ns() > stamp


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
