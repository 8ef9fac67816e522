"""Bells: who rang is told, nothing blocks, nobody is killed (L-8, L-9)."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from speed.errors import RootError
from speed.fs.bell import Bell, Ringer, RingResult


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Bell]:
    bell = Bell.open_own(str(tmp_path / "bell"))
    yield bell
    bell.close()


@pytest.fixture
def ringer(tmp_path: Path) -> Iterator[Ringer]:
    ringer = Ringer(str(tmp_path / "bell"))
    yield ringer
    ringer.close()


def test_a_ring_tells_who_rang(bell: Bell, ringer: Ringer) -> None:
    """L-8, L-9."""
    assert bell.drain() == set()
    assert ringer.ring(b"a" * 16) is RingResult.RUNG
    assert bell.drain() == {b"a" * 16}
    ringer.ring(b"a" * 16)
    ringer.ring(b"b" * 16)
    assert bell.drain() == {b"a" * 16, b"b" * 16}


def test_a_full_bell_never_blocks_and_asks_for_a_full_scan(bell: Bell, ringer: Ringer) -> None:
    """L-8, L-9."""
    results = [ringer.ring(b"a" * 16) for _ in range(5000)]
    assert results[-1] is RingResult.FULL
    bell.wake(b"b" * 16)
    assert bell.drain() is None
    assert bell.drain() == set()
    assert ringer.ring(b"a" * 16) is RingResult.RUNG


def test_noise_in_a_bell_asks_for_a_full_scan(bell: Bell, tmp_path: Path) -> None:
    """L-8."""
    with open(tmp_path / "bell", "wb", buffering=0) as noise:
        noise.write(b"noise")
    assert bell.drain() is None


def test_a_bell_without_a_reader_says_nobody_at_once(ringer: Ringer, tmp_path: Path) -> None:
    """L-9: and again RUNG when its owner came back."""
    path = str(tmp_path / "bell")
    assert ringer.ring(b"a" * 16) is RingResult.NOBODY
    bell = Bell.open_own(path)
    assert ringer.ring(b"a" * 16) is RingResult.RUNG
    bell.close()
    assert ringer.ring(b"a" * 16) is RingResult.NOBODY
    bell = Bell.open_own(path)
    assert ringer.ring(b"a" * 16) is RingResult.RUNG
    assert bell.drain() == {b"a" * 16}
    bell.close()


def test_what_a_signal_handler_raises_while_it_rings_is_not_swallowed(
    bell: Bell, ringer: Ringer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many raise TimeoutError, which is an OSError: no failure of the bell."""

    def write(fd: int, data: bytes) -> None:
        os.write(fd, data)
        raise TimeoutError("stopped")

    ringer.ring(b"a" * 16)
    with monkeypatch.context() as patch, pytest.raises(TimeoutError, match="stopped"):
        patch.setattr("speed.fs.bell._write_without_signal", write)
        ringer.ring(b"b" * 16)
    assert ringer.ring(b"c" * 16) is RingResult.RUNG
    assert bell.drain() == {letter * 16 for letter in (b"a", b"b", b"c")}


def test_a_dead_reader_does_not_kill_a_program_that_restored_sigpipe(tmp_path: Path) -> None:
    """L-9."""
    path = str(tmp_path / "bell")
    code = (
        "import signal, sys; from speed.fs.bell import Bell, Ringer;"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL);"
        "bell = Bell.open_own(sys.argv[1]); ringer = Ringer(sys.argv[1]); ringer.ring(bytes(16));"
        "bell.close(); print(ringer.ring(bytes(16)).name)"
    )
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True,
        check=False,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert done.stdout == "NOBODY\n", done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("kind", ["file", "directory", "symlink"])
def test_a_bell_that_is_no_fifo_is_refused(tmp_path: Path, kind: str) -> None:
    """L-8, L-9: by its owner with an error, by a sender as if nobody were there."""
    path = tmp_path / "bell"
    if kind == "file":
        path.write_bytes(b"")
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(tmp_path / "other")
        path.symlink_to(tmp_path / "other")
    with pytest.raises(RootError):
        Bell.open_own(str(path))
    assert Ringer(str(path)).ring(bytes(16)) is RingResult.NOBODY


def side_by_side(*tasks: Callable[[], object]) -> None:
    """All begin at one moment, with the interpreter's turns as short as they can be."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> None:
        start.wait(10)
        task()

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    finally:
        sys.setswitchinterval(usual)


def descriptors_of(path: Path) -> int:
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return sum(os.path.lexists(link) and os.readlink(link) == str(path) for link in links)


def test_threads_that_ring_first_at_once_open_the_bell_once(bell: Bell, tmp_path: Path) -> None:
    """L-9, R-23: a descriptor that nobody knows of would stay open for ever, and in every child."""
    for _ in range(200):
        ringer = Ringer(str(tmp_path / "bell"))
        side_by_side(*[lambda ringer=ringer: ringer.ring(b"a" * 16)] * 4)  # type: ignore[misc]
        ringer.close()
        bell.drain()
        assert descriptors_of(tmp_path / "bell") == 1, "beside the bell's own"


def test_a_ring_while_another_thread_closes_goes_to_no_other_file(
    bell: Bell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-9: the number of a closed descriptor is soon that of another file."""
    ringer, other = Ringer(str(tmp_path / "bell")), tmp_path / "other"
    writes, opened = threading.Event(), threading.Event()

    def write_late(fd: int, data: bytes) -> None:
        writes.set()
        opened.wait(0.2)  # nothing comes where the lock is held
        os.write(fd, data)

    def close_and_open() -> None:
        writes.wait(10)
        ringer.close()
        fd = os.open(other, os.O_WRONLY | os.O_CREAT)
        opened.set()
        ringing.join(10)
        os.close(fd)

    monkeypatch.setattr("speed.fs.bell._write_without_signal", write_late)
    ringing = threading.Thread(target=ringer.ring, args=(b"a" * 16,))
    ringing.start()
    close_and_open()
    assert other.stat().st_size == 0
    assert bell.drain() == {b"a" * 16}


def test_a_forked_child_lets_go_of_a_bell_that_a_thread_of_its_parent_was_ringing(bell: Bell, tmp_path: Path) -> None:
    """R-23: that thread does not exist in the child, and never releases the lock."""
    ringer = Ringer(str(tmp_path / "bell"))
    ringer.ring(b"a" * 16)
    with ringer._lock:
        child = os.fork()
        if child == 0:
            ringer.abandon()
            os._exit(descriptors_of(tmp_path / "bell"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1, "the bell's own is not the ringer's to close"
    ringer.close()


def test_a_bell_that_holds_less_than_others_is_full_all_the_same(tmp_path: Path) -> None:
    """L-9: Linux makes smaller pipes for a user who has many."""
    path = str(tmp_path / "bell")
    os.mkfifo(path)
    holder = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        capacity = fcntl.fcntl(holder, fcntl.F_SETPIPE_SZ, 8192)
        bell, ringer = Bell.open_own(path), Ringer(path)
        results = [ringer.ring(b"a" * 16) for _ in range(capacity // 16 + 1)]
        assert results[-1] is RingResult.FULL
        assert bell.drain() is None
        assert bell.drain() == set()
        ringer.close()
        bell.close()
    finally:
        os.close(holder)
