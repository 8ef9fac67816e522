"""Locks between processes hold while their process lives, and never longer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from speed.fs.identity import try_lock

HOLDER = "import sys; from speed.fs.identity import try_lock; lock = try_lock(sys.argv[1]); print('held', flush=True); "


def holder(path: Path, then: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER + then, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_lock_is_held_until_it_is_released(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    lock = try_lock(path)
    assert lock is not None
    assert try_lock(path) is None
    lock.release()
    again = try_lock(path)
    assert again is not None
    again.release()


def test_a_lock_goes_with_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = holder(path, "import time; time.sleep(1000)")
    assert try_lock(str(path)) is None
    process.kill()
    process.communicate()
    assert try_lock(str(path)) is not None
    assert path.exists()


def test_a_forked_child_that_lives_on_does_not_hold_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = holder(
        path, "import os, time; child = os.fork(); print(child, flush=True) if child else time.sleep(1000)"
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        assert process.wait() == 0
        assert try_lock(str(path)) is not None
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_a_forked_child_does_not_take_the_lock_away(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = try_lock(str(path))
    assert lock is not None
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(lock.is_locked)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.is_locked
    assert try_lock(str(path)) is None
    lock.release()


def test_no_directory_is_made_for_a_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        try_lock(str(tmp_path / "absent" / "lock"))
    assert not (tmp_path / "absent").exists()


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("kept")
    (tmp_path / "lock").symlink_to("target")
    with pytest.raises(OSError, match="symbolic"):
        try_lock(str(tmp_path / "lock"))
    assert (tmp_path / "target").read_text() == "kept"
