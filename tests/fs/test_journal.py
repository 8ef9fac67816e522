"""Journals on disk: offsets, restarts, retention, one writer, readers beside it (J-1 to J-9)."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from speed import (
    DurabilityError,
    JournalError,
    JournalFullError,
    JournalTakenError,
    KeyFileError,
    StorageError,
)
from speed.fs import keyfile
from speed.fs.keyfile import read_keys, write_key_file
from speed.journal import LaneInfo
from speed.journal import writer as writer_module
from speed.journal.volume_writer import Incoming
from speed.wire.journal import Subject
from speed.wire.limits import JOURNAL_BLOCK_BYTES, JOURNAL_BLOCK_RECORDS
from tests.fs.journals import FIRST, SUBJECT, Place, incoming, message


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_records_are_read_in_order_from_any_offset(place: Place) -> None:
    """J-3, J-7."""
    place.write(range(10), range(10, 17), [17])
    reader = place.reader
    assert reader.lanes() == [LaneInfo(place.lane, *SUBJECT)]
    assert (reader.first(place.lane), reader.end(place.lane)) == (0, 18)
    for start in range(19):
        assert place.numbers(start) == list(range(start, 18))
        assert place.numbers(start, start + 4) == list(range(start, min(18, start + 4)))


def test_a_record_has_the_message_as_it_was_received(place: Place) -> None:
    """J-5, M-12."""
    place.write([7])
    (record,) = place.reader.read(place.lane, 0, 1)
    assert (record.message, record.sequence, record.source) == (message(7), FIRST + 7, "producer")
    assert (record.view.message_id, record.view.topic, record.redelivered) == ("id-7", "flights.ua", False)


def test_a_reader_is_pickled_as_its_paths_and_goes_on(place: Place) -> None:
    """J-7: executors get configuration, never a key."""
    place.write(range(3))
    data = pickle.dumps(place.reader)
    assert read_keys(str(place.key))[0] not in data
    assert pickle.loads(data).end(place.lane) == 3


def test_offsets_go_on_after_a_restart(place: Place) -> None:
    """J-3."""
    for batch in ([0, 1], [2], [3, 4, 5]):
        place.write(batch)
    assert place.numbers() == [0, 1, 2, 3, 4, 5]
    assert len(place.segments()) == 1


def test_a_reader_beside_the_writer_sees_each_block_once_it_is_whole(place: Place) -> None:
    """J-7: the end is found again from where it was."""
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([0]))
        reader = place.reader
        lane = place.lane
        for number in range(1, 50):
            assert reader.end(lane) == number
            writer.record(SUBJECT, incoming([number]))
        assert [record.offset for record in reader.read(lane, 40, 100)] == list(range(40, 50))


def test_a_reader_that_began_before_a_segment_was_left_goes_on_in_its_successor(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-7: what grows while it is read is neither lost nor taken for damage."""
    monkeypatch.setattr(writer_module, "JOURNAL_SEGMENT_BYTES", 1 << 16)
    with place.writer() as writer:
        writer.record(SUBJECT, incoming(range(3), size=20_000))
        records = place.reader.read(place.lane, 0, 1000)
        seen = [next(records).offset]
        for start in range(3, 30, 3):
            writer.record(SUBJECT, incoming(range(start, start + 3), size=20_000))
        seen += [record.offset for record in records]
    assert seen == list(range(30))
    assert len(place.segments()) > 3


def test_blocks_are_bounded_and_a_large_message_has_one_of_its_own(place: Place) -> None:
    """J-5."""
    count = JOURNAL_BLOCK_RECORDS + 10
    with place.writer() as writer:
        writer.record(SUBJECT, incoming(range(count)))
        writer.record(SUBJECT, incoming([count], size=3 * JOURNAL_BLOCK_BYTES))
        writer.record(SUBJECT, incoming([count + 1]))
    assert place.numbers() == list(range(count + 2))


def test_a_lane_holds_one_source_and_one_subject(place: Place) -> None:
    """J-2."""
    subjects = [
        Subject("topic", "a.b", "n1"),
        Subject("topic", "a.b", "n2"),
        Subject("inbox", "orders", "n1"),
        Subject("calls", "orders", "n1"),
    ]
    with place.writer() as writer:
        for subject in subjects:
            writer.record(subject, incoming([1]))
    found = {(info.kind, info.subject, info.source): info.id for info in place.reader.lanes()}
    assert set(found) == {tuple(subject) for subject in subjects}
    assert len(set(found.values())) == 4


def test_nothing_in_a_journal_can_be_read_without_the_key(place: Place) -> None:
    """J-2, J-4: neither names nor contents, in files nor in their names."""
    place.write(range(5))
    everything = b"".join(
        str(path.relative_to(place.directory)).encode() + (path.read_bytes() if path.is_file() else b"")
        for path in place.directory.rglob("*")
    )
    for text in (b"flights", b"producer", b"topic", b"number", b"id-1"):
        assert text not in everything


# --- repeats ---


def test_what_comes_again_after_a_crash_is_not_recorded_again(place: Place) -> None:
    """J-9."""
    place.write(range(10))
    with place.writer() as writer:
        writer.record(SUBJECT, incoming(range(6, 13), redelivered=True))
    assert place.numbers() == list(range(13))
    records = list(place.reader.read(place.lane, 0, 13))
    assert [record.redelivered for record in records] == [False] * 10 + [True] * 3


def test_a_root_made_anew_counts_from_the_beginning_and_nothing_of_it_is_taken_for_a_repeat(place: Place) -> None:
    """J-9: generations begin again, so a low sequence alone proves nothing."""
    place.write(range(10))
    again = [Incoming(FIRST + number, False, message(100 + number)) for number in range(5)]
    with place.writer() as writer:
        writer.record(SUBJECT, again[:2])
        writer.record(SUBJECT, again)
    assert place.numbers() == [*range(10), 100, 101, 102, 103, 104]


# --- who may write ---


def test_a_second_writer_is_refused_and_may_write_once_the_first_is_gone(place: Place) -> None:
    """J-1."""
    with place.writer(), pytest.raises(JournalTakenError, match="another process writes"):
        place.writer()
    place.write([0])


def test_a_writer_in_another_process_is_refused_and_the_lock_goes_with_its_death(place: Place) -> None:
    """J-1: no stale lock is left by SIGKILL."""
    program = (
        "import sys\n"
        "from speed.journal.writer import JournalWriter\n"
        f"writer = JournalWriter({str(place.directory)!r}, {str(place.key)!r})\n"
        "print('up', flush=True)\nsys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdin is not None
    assert other.stdout.readline() == b"up\n"
    with pytest.raises(JournalTakenError):
        place.writer()
    other.kill()
    other.wait()
    other.stdout.close()
    other.stdin.close()
    place.write([0])


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs a file system in memory")
def test_disk_durability_is_refused_in_memory() -> None:
    """L-7."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, pytest.raises(DurabilityError, match="in memory"):
        Place(Path(directory)).writer(durability="disk")


def test_disk_durability_flushes_before_it_returns(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-9."""
    flushed: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (flushed.append(fd), real(fd))[1])
    with place.writer(durability="disk") as writer:
        writer.record(SUBJECT, incoming([0]))
        assert len(flushed) == 1
        writer.record(SUBJECT, incoming([1]))
        assert len(flushed) == 2


# --- keys ---


def test_after_a_rotation_the_lane_goes_on_and_old_blocks_are_read_with_the_old_key(place: Place) -> None:
    """J-2, W-14."""
    place.write(range(3))
    (old,) = read_keys(str(place.key))
    write_key_file(str(place.key), (bytes(range(32)), old), replace=True)
    place.write(range(3, 6))
    assert place.numbers() == list(range(6))
    write_key_file(str(place.key), (bytes(range(32)),), replace=True)
    with pytest.raises(KeyFileError, match="not in the key file"):
        place.reader.lanes()


def test_a_writer_goes_on_while_its_key_is_added_promoted_and_retired(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-20, J-2."""
    monkeypatch.setattr(keyfile, "PAUSE_SECONDS", 0.0)
    (old,) = read_keys(str(place.key))
    new = bytes(range(32))
    with place.writer() as writer:
        for number, keys in enumerate(((old,), (old, new), (new, old), (new,))):
            write_key_file(str(place.key), keys, replace=True)
            writer.record(SUBJECT, incoming([number]))
        writer.record(SUBJECT, incoming([4]))
    write_key_file(str(place.key), (new, old), replace=True)
    lanes = place.reader.lanes()
    assert sorted(len(list(place.reader.read(lane.id, 0, 10))) for lane in lanes) == [2, 3]


def test_a_journal_that_is_not_there_is_named(place: Place) -> None:
    with pytest.raises(JournalError, match="there is no journal"):
        place.reader.lanes()
    place.write([0])
    with pytest.raises(JournalError, match="there is no lane"):
        place.reader.end("0" * 32)
    for name in ("../x", "", "0" * 31, str(place.key)):
        with pytest.raises(JournalError, match="there is no lane"):
            place.reader.read(name, 0, 1)


# --- bounds ---


def test_a_source_has_as_many_lanes_as_are_left_for_others_and_those_go_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-1."""
    monkeypatch.setattr(writer_module, "MAX_JOURNAL_LANES", 8)

    def take_all(source: str) -> int:
        for number in range(9):
            try:
                writer.record(Subject("topic", f"flights.{number}", source), incoming([0]))
            except JournalFullError:
                return number
        return 9

    with place.writer() as writer:
        assert [take_all(source) for source in ("a", "b", "c", "d", "e")] == [4, 2, 1, 1, 0]
        writer.record(Subject("topic", "flights.0", "a"), incoming([1]))
    with place.writer() as writer, pytest.raises(JournalFullError, match=r"a has 4 lanes .* 0 are left for all"):
        writer.record(Subject("topic", "flights.9", "a"), incoming([0]))
    assert len(place.reader.lanes()) == 8


def test_more_lanes_than_descriptors_are_held_go_on_where_they_were(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-6: a segment that was closed is opened again, not left."""
    monkeypatch.setattr(writer_module, "OPEN_LANES", 2)
    subjects = [SUBJECT._replace(source=f"n{number}") for number in range(7)]
    with place.writer() as writer:
        for number in range(3):
            for subject in subjects:
                writer.record(subject, incoming([number]))
    reader = place.reader
    for info in reader.lanes():
        assert [record.view.payload["number"] for record in reader.read(info.id, 0, 9)] == [0, 1, 2]
    assert len(list(place.directory.rglob("*.segment"))) == 7


def test_a_closed_writer_writes_nothing(place: Place) -> None:
    """J-1: without its lock it might not be the only one."""
    writer = place.writer()
    writer.close()
    with pytest.raises(JournalError, match="closed"):
        writer.record(SUBJECT, incoming([0]))


# --- a full disk ---


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    point = tmp_path / "small"
    point.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(point)], check=False)
    if mounted.returncode:
        pytest.skip("mounting needs root")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def test_a_full_disk_loses_nothing_that_was_recorded_and_recording_goes_on_when_there_is_room(small: Path) -> None:
    """J-6: a write that failed is taken back, and tried again."""
    place = Place(small)
    filler = small / "filler"
    filler.write_bytes(b"x" * 200_000)
    recorded = 0
    with place.writer() as writer:
        with pytest.raises(StorageError, match="No space left"):
            while True:
                writer.record(SUBJECT, incoming(range(recorded, recorded + 3), size=10_000))
                recorded += 3
        assert recorded > 3
        assert place.reader.end(place.lane) == recorded
        with pytest.raises(StorageError):
            writer.record(SUBJECT, incoming(range(recorded, recorded + 3), size=10_000))
        filler.unlink()
        writer.record(SUBJECT, incoming(range(recorded, recorded + 3), size=10_000))
    assert place.numbers() == list(range(recorded + 3))


def test_directories_that_are_made_above_a_journal_are_private_whatever_the_umask(place: Place, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with writer_module.JournalWriter(str(tmp_path / "made/journal"), str(place.key)):
            pass
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / place).stat().st_mode) for place in ("made", "made/journal")] == [0o700] * 2
