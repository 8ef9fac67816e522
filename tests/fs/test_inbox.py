"""Hostile and foreign things in an inbox or a lane (L-8 to L-10, L-20, L-21), and full filesystems (L-5)."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from speed.errors import RootError, StorageError
from speed.fs.inbox import Inbox
from speed.fs.lane_files import MAX_SEGMENT_BYTES
from speed.fs.lane_reader import LaneReader
from speed.fs.root import filesystem_of
from speed.wire import names
from tests.fs.lanes import KEYRING, SOURCE, TARGET, Lane, counters, sealed


def make_junk(directory: Path, kind: str) -> Path:
    path = directory / f"junk-{kind}"
    if kind == "symlink":
        path.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        (path / "inner").mkdir(parents=True)
    elif kind == "device":
        if os.geteuid() == 0:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        else:
            os.mknod(path, 0o600 | stat.S_IFSOCK)  # only root makes devices; a socket is no file either
    elif kind == "sparse":
        path.write_bytes(b"")
        os.truncate(path, 1 << 40)
    return path


KINDS = ["symlink", "fifo", "directory", "device", "sparse"]


@pytest.mark.parametrize("kind", KINDS)
def test_junk_in_an_inbox_is_put_aside_or_removed_unopened(lane: Lane, kind: str) -> None:
    """L-20, L-21. A directory with a good name is a lane without a grant, so this one gets a bad name."""
    inbox = Path(names.inbox_dir(lane.root, TARGET))
    junk = make_junk(inbox, kind)
    junk = junk.rename(inbox / f"not a name {kind}")
    lane.writer().append(sealed(1))
    assert lane.inbox.scan() == {SOURCE}
    assert not os.path.lexists(junk)
    assert lane.inbox.junk == 1
    assert Path("/etc/passwd").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_junk_in_a_lane_is_put_aside_and_the_lane_goes_on(lane: Lane, kind: str) -> None:
    """L-10, L-20."""
    lane.writer().append(sealed(1))
    junk = make_junk(lane.path, kind)
    reader = lane.reader()
    assert counters(lane.read_all(reader, scan=True)) == [1]
    assert not os.path.lexists(junk)
    assert reader.counts["foreign_files"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_junk_under_the_name_of_a_segment_is_never_read(lane: Lane, kind: str) -> None:
    """L-10: a FIFO does not block, a link is not followed, a giant is not scanned."""
    lane.raw_segment(sealed(1))
    make_junk(lane.path, kind).rename(lane.path / names.lane_file_name(1, 2))
    lane.raw_segment(sealed(2), segment=3)
    reader = lane.reader()
    assert counters(lane.read_all(reader, scan=True) + lane.read_all(reader, scan=True)) == [1, 2]
    assert reader.counts["segments_refused"] == 1


def test_a_segment_with_a_second_name_is_refused(lane: Lane) -> None:
    """L-10: hard links could make a file of another user appear as a segment."""
    path = lane.raw_segment(sealed(1))
    os.link(path, Path(lane.root) / "second")
    reader = lane.reader()
    assert lane.read_all(reader) == []
    assert reader.counts["segments_refused"] == 1


def test_a_segment_larger_than_any_is_refused(lane: Lane) -> None:
    """L-10."""
    path = lane.raw_segment(sealed(1))
    os.truncate(path, MAX_SEGMENT_BYTES + 1)
    assert lane.read_all(lane.reader()) == []


def test_a_link_in_place_of_a_lane_is_put_aside(lane: Lane, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (Path(names.inbox_dir(lane.root, TARGET)) / SOURCE).symlink_to(elsewhere)
    with pytest.raises(StorageError):
        lane.writer().append(sealed(1))
    assert lane.inbox.scan() == set()
    assert list(elsewhere.iterdir()) == []


def test_an_inbox_that_is_as_it_was_is_not_listed_again(lane: Lane) -> None:
    """L-26: a scan costs no more with many lanes than with few."""
    path = Path(names.inbox_dir(lane.root, TARGET))
    (path / "m").mkdir()
    os.utime(path, ns=(0, 1))
    assert lane.inbox.scan() == {"m"}
    assert lane.inbox.scan() is None
    (path / "n").mkdir()
    assert lane.inbox.scan() == {"m", "n"}


def test_a_listing_that_may_miss_what_comes_next_is_made_again(lane: Lane) -> None:
    """L-26: files are stamped by a clock that ticks every few milliseconds."""
    path = Path(names.inbox_dir(lane.root, TARGET))
    (path / "m").mkdir()
    os.utime(path, ns=(0, time.time_ns() + 10_000_000))
    assert lane.inbox.scan() == {"m"}
    os.utime(path, ns=(0, time.time_ns() + 10_000_000))
    assert lane.inbox.scan() == {"m"}


def test_of_more_lanes_than_may_be_listed_those_that_are_asked_for_and_the_newest_are(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L-21."""
    monkeypatch.setattr("speed.fs.inbox.MAX_LANES", 3)
    path = Path(names.inbox_dir(lane.root, TARGET))
    for age, name in enumerate("abcdef"):
        (path / name).mkdir()
        os.utime(path / name, ns=(0, 100 - age))
    os.utime(path, ns=(0, 1))
    assert lane.inbox.scan() == {"a", "b", "c"}
    assert lane.inbox.scan(lambda name: name in "ef") == {"a", "e", "f"}


def test_when_a_lane_was_changed_is_told_only_once_that_is_sure(lane: Lane) -> None:
    """L-26."""
    lane.writer().append(sealed(1))
    os.utime(lane.path, ns=(0, 77))
    assert lane.inbox.changed_at(SOURCE) == 77
    os.utime(lane.path, ns=(0, time.time_ns() + 10_000_000))
    assert lane.inbox.changed_at(SOURCE) == -1
    assert lane.inbox.changed_at("nobody") == -1


def test_a_node_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / TARGET).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RootError, match="not a directory"):
        Inbox(str(tmp_path), TARGET, 1, KEYRING).prepare()


# --- full filesystems ---


@pytest.fixture
def small_filesystem(tmp_path: Path) -> Iterator[None]:
    """A filesystem of 64 KiB; without the right to mount one, a file size limit of the process."""
    if os.geteuid() == 0 and _mount(tmp_path):
        yield
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def _mount(path: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.usefixtures("small_filesystem")
def test_a_full_filesystem_is_a_typed_error_and_costs_nothing_that_was_accepted(lane: Lane) -> None:
    """L-5: the counter of what failed is used again; the reader sees each envelope once."""
    writer = lane.writer()
    accepted = 0
    failure: StorageError | None = None
    while failure is None:
        try:
            writer.append(sealed(accepted + 1, bytes(5000)))
            accepted += 1
        except StorageError as error:
            failure = error
    assert TARGET in str(failure)
    assert failure.envelopes_written == 0
    assert accepted > 3
    assert counters(lane.read_all(lane.reader())) == list(range(1, accepted + 1))


@pytest.mark.usefixtures("small_filesystem")
def test_a_full_filesystem_is_freed_by_reading_even_if_no_cursor_can_be_written(lane: Lane) -> None:
    """L-5, L-14, L-17: neither side waits for the other for ever."""
    writer = lane.writer()
    sent = 0
    received: list[int] = []
    reader = None
    for _ in range(100):
        try:
            writer.append(sealed(sent + 1, bytes(5000)))
            sent += 1
        except StorageError:
            reader = reader or lane.reader()
            received += counters(lane.read_all(reader))
    assert sent > 40
    assert reader is not None
    assert received + counters(lane.read_all(reader)) == list(range(1, sent + 1))


@pytest.mark.usefixtures("small_filesystem")
def test_a_batch_that_fails_half_way_says_how_many_were_accepted(lane: Lane) -> None:
    """L-5."""
    reader = _reader_first(lane)
    with pytest.raises(StorageError) as caught:
        lane.writer().append([sealed(counter, bytes(5000)) for counter in range(2, 40)])
    accepted = caught.value.envelopes_written
    assert 3 < accepted < 38
    assert counters(lane.read_all(reader)) == list(range(2, accepted + 2))


def _reader_first(lane: Lane) -> LaneReader:
    """A reader that has its cursor before the filesystem is full."""
    lane.writer().append(sealed(1))
    reader = lane.reader()
    lane.read_all(reader)
    return reader


@pytest.mark.usefixtures("small_filesystem")
def test_after_a_torn_write_the_next_segment_begins_and_the_torn_rest_is_dropped(lane: Lane) -> None:
    """L-5, L-17."""
    reader = _reader_first(lane)
    writer = lane.writer()
    with pytest.raises(StorageError):
        writer.append(sealed(2, bytes(100_000)))
    assert lane.read_all(reader) == []
    with pytest.raises(StorageError):
        writer.append(sealed(2, bytes(100_000)))  # an empty successor frees the torn segment
    assert lane.read_all(reader) == []
    writer.append(sealed(2, b"again"))
    assert [envelope.payload for envelope in lane.read_all(reader)] == [b"again"]
    assert reader.counts["torn_tails"] >= 1  # a file size limit tears the second try as well


def test_the_filesystem_under_a_root_is_described(tmp_path: Path) -> None:
    """L-22."""
    found = filesystem_of(str(tmp_path))
    assert found.supports_fifo
    assert not found.is_remote
    assert list(tmp_path.iterdir()) == []
    if os.path.isdir("/dev/shm"):
        assert filesystem_of("/dev/shm").is_memory


def test_an_inbox_is_listed_again_for_as_long_as_its_filesystem_may_be_late(lane: Lane) -> None:
    """L-22: the listing that shows nothing new may be older than the change that the directory tells of."""
    lane.writer().append(sealed(1))
    inbox = Inbox(lane.root, TARGET, 1, KEYRING, late_seconds=0.3)
    began = time.monotonic()
    while inbox.scan() is not None:
        assert time.monotonic() < began + 20
    assert time.monotonic() - began >= 0.3
