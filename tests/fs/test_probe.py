"""Whether a filesystem has FIFOs is found out once, at the start of a node; a wrong answer would stay for its life."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

import speed
from speed.errors import RootError
from speed.fs import root
from speed.fs.keyfile import write_key_file
from speed.fs.root import filesystem_of
from speed.wire import names
from tests.fs.test_bells import side_by_side

NODES = 60


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def mkfifo(path: str, mode: int) -> None:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(root.os, "mkfifo", mkfifo)


def test_many_that_try_at_once_in_one_process_all_find_fifos(tmp_path: Path) -> None:
    """L-22."""
    found: list[bool] = []

    def look() -> None:
        found.extend(filesystem_of(str(tmp_path)).supports_fifo for _ in range(20))

    side_by_side(*[look] * 16)
    assert found == [True] * 320
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_filesystem_that_says_so_has_no_fifos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """L-22."""
    failing(monkeypatch, number)
    assert not filesystem_of(str(tmp_path)).supports_fifo


@pytest.mark.parametrize("number", [errno.EEXIST, errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_start_in_which_a_fifo_fails_for_another_reason_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """L-22: the node would poll for life."""
    monkeypatch.setenv("SPEED_ENGINE", "python")
    write_key_file(str(tmp_path / "speed.key"), (bytes(32),))
    failing(monkeypatch, number)
    with pytest.raises(RootError, match=os.strerror(number)):
        speed.Node("billing", root=tmp_path, key=tmp_path / "speed.key")


def test_of_many_nodes_that_start_at_once_none_polls(tmp_path: Path) -> None:
    """L-22."""
    write_key_file(str(tmp_path / "speed.key"), (bytes(32),))
    nodes: list[speed.Node] = []
    lock = threading.Lock()

    def start(number: int) -> None:
        node = speed.Node(f"node{number}", root=tmp_path, key=tmp_path / "speed.key", workers=1)
        with lock:
            nodes.append(node)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(NODES)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bells = [names.bell_path(str(tmp_path), f"node{number}") for number in range(NODES)]
        assert all(os.path.exists(bell) and stat.S_ISFIFO(os.stat(bell).st_mode) for bell in bells)
    finally:
        for node in nodes:
            node.close(drain_seconds=0)
