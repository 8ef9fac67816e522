"""Changes of a key file: one after the other, whole or not at all, and nothing a dead one left is in the way."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from speed.errors import KeyFileError
from speed.fs import keyfile
from speed.fs.identity import try_lock
from speed.fs.keyfile import change_key_file, ensure_key_file, read_keys, write_key_file
from speed.wire.names import lock_path

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    write_key_file(str(tmp_path / "speed.key"), (KEY,))
    return str(tmp_path / "speed.key")


def add(path: str, key: bytes) -> None:
    change_key_file(path, lambda keys: (*keys, key))


def in_directory(path: str) -> set[str]:
    return {name for name in os.listdir(os.path.dirname(path)) if not name.startswith(".")}


def run(program: str, *arguments: str, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """A program of Python; with ``limit`` no file of it grows beyond so many bytes."""
    code = "import os, signal, sys\nfrom speed.fs.keyfile import *\n" + program
    bound = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=bound)


def test_a_file_that_a_dead_change_left_is_taken_away(path: str) -> None:
    """W-14."""
    pathlib.Path(f"{path}.new").write_text("half of a")
    add(path, OTHER)
    assert read_keys(path) == (KEY, OTHER)
    assert in_directory(path) == {"speed.key"}


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_change_that_is_killed_changes_nothing_and_blocks_nobody(path: str, call: str) -> None:
    """W-14."""
    die = f"os.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    done = run(die + "change_key_file(sys.argv[1], lambda keys: keys * 2)", path)
    assert done.returncode == -signal.SIGKILL
    assert read_keys(path) == (KEY,)
    add(path, OTHER)
    assert read_keys(path) == (KEY, OTHER)
    assert in_directory(path) == {"speed.key"}


@pytest.mark.parametrize("limit", [0, 20])
def test_a_change_that_the_disk_cuts_changes_nothing_and_blocks_nobody(path: str, limit: int) -> None:
    """W-14: the kernel takes no byte, or some."""
    done = run("change_key_file(sys.argv[1], lambda keys: (*keys, bytes(32)))", path, limit=limit)
    assert done.returncode == 1
    assert "KeyFileError: cannot write" in done.stderr
    assert read_keys(path) == (KEY,)
    assert in_directory(path) == {"speed.key"}
    add(path, OTHER)
    assert read_keys(path) == (KEY, OTHER)


def test_a_new_file_that_the_disk_cuts_is_none(tmp_path: pathlib.Path) -> None:
    """W-14."""
    path = str(tmp_path / "speed.key")
    assert run("write_key_file(sys.argv[1], (bytes(32),))", path, limit=20).returncode == 1
    assert in_directory(path) == set()
    write_key_file(path, (KEY,))
    assert read_keys(path) == (KEY,)


@pytest.fixture
def full(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file system of one page beside the key and its lock, and that page is taken."""
    point = tmp_path / "full"
    point.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(point)], check=False)
    if mounted.returncode:
        pytest.skip("only root can mount a file system")
    write_key_file(str(point / "speed.key"), (KEY,))
    (point / "filling").write_bytes(bytes(4096))
    yield point
    subprocess.run(["umount", str(point)], check=True)


def test_a_rotation_on_a_full_disk_blocks_no_later_one(full: pathlib.Path) -> None:
    """W-14."""
    path = str(full / "speed.key")
    for _ in range(2):
        with pytest.raises(KeyFileError, match="No space left"):
            add(path, OTHER)
    assert read_keys(path) == (KEY,)
    (full / "filling").unlink()
    add(path, OTHER)
    assert read_keys(path) == (KEY, OTHER)


def test_changes_at_once_are_made_one_after_the_other(path: str) -> None:
    """W-14: none is lost."""
    program = (
        "import speed.fs.keyfile as k, sys; k.change_key_file(sys.argv[1], lambda s: (*s, bytes.fromhex(sys.argv[2])))"
    )
    added = [bytes([number]) * 32 for number in range(6)]
    processes = [subprocess.Popen([sys.executable, "-c", program, path, key.hex()]) for key in added]
    assert [process.wait() for process in processes] == [0] * len(added)
    assert set(read_keys(path)) == {KEY, *added}


def test_a_change_under_way_is_waited_for_but_not_for_ever(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-14."""
    monkeypatch.setattr(keyfile, "LOCK_SECONDS", 0.2)
    lock = try_lock(lock_path(path))
    assert lock is not None
    with pytest.raises(KeyFileError, match="another process"):
        add(path, OTHER)
    lock.release()
    add(path, OTHER)


def test_a_change_of_a_link_changes_the_file_it_leads_to(path: str) -> None:
    """W-14."""
    link = pathlib.Path(path).parent / "link"
    link.symlink_to("speed.key")
    add(str(link), OTHER)
    assert link.is_symlink()
    assert read_keys(path) == (KEY, OTHER)


def test_who_finds_a_key_keeps_it(path: str) -> None:
    """W-14."""
    assert not ensure_key_file(path, (OTHER,))
    assert read_keys(path) == (KEY,)


def test_a_key_is_made_once_by_all_who_begin_at_once(tmp_path: pathlib.Path) -> None:
    """W-14."""
    command = [sys.executable, "-m", "speed.cli", "root", "init", "--root", str(tmp_path / "root"), "--json"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [json.loads(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert len({answer["keyId"] for answer in answers}) == 1
    assert sum(answer["madeKey"] for answer in answers) == 1
