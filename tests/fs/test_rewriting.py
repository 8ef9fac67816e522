"""Volumes rewritten beside their readers: what stays, under which offsets, and what a crash leaves (J-15)."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from speed.errors import JournalDamagedError, StorageError
from speed.fs.keyfile import read_keys, write_key_file
from speed.journal import reseal, retention
from speed.journal.files import JournalLane, Record
from speed.journal.retention import kept, sealed
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.wire.journal import VolumeKeys, parse_block_header
from speed.wire.names import temporary_name
from speed.wire.seal import Keyring, NonceSource
from tests.fs.journals import SUBJECT, Place, incoming


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write(writer: JournalWriter, *volumes: range) -> None:
    """Each in a volume of its own, one block for each record; an empty one is the last."""
    for numbers in volumes:
        for number in numbers:
            writer.record(SUBJECT, incoming([number]))
        writer.leave_volume(SUBJECT)


def rewrite(place: Place, writer: JournalWriter, keeps: Callable[[Record], bool], *volumes: int) -> None:
    """The closed volumes of these places, all without any."""
    closed = writer.closed(place.lane)
    writer.rewrite(place.lane, [closed[at] for at in volumes or range(len(closed))], keeps)


def is_even(record: Record) -> bool:
    return record.offset % 2 == 0


def offsets(place: Place, start: int = 0) -> list[int]:
    """Of all records, read strictly."""
    journal = place.reader
    return [one.offset for one in journal.read(place.lane, start, journal.end(place.lane))]


def test_what_is_kept_stands_under_its_offset_as_it_was(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(10))
        before = {one.offset: one for one in place.reader.read(place.lane, 0, 10)}
        rewrite(place, writer, is_even)
        found = list(place.reader.read(place.lane, 0, 10))
    assert [one.offset for one in found] == [0, 2, 4, 6, 8, 9], "the last one says where the volume ends"
    for one in found:
        was = before[one.offset]
        assert (one.sequence, one.recorded_at_ms, one.flags, one.message) == (
            was.sequence,
            was.recorded_at_ms,
            was.flags,
            was.message,
        )


def test_neighbours_become_one_volume_of_well_filled_blocks(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(10), range(10, 20), range(20, 30))
        rewrite(place, writer, is_even, 0, 1)
        assert [int(one.stem) for one in place.segments()] == [0, 20, 30]
        assert offsets(place) == [*range(0, 19, 2), 19, *range(20, 30)]
    assert parse_block_header(place.segments()[0].read_bytes()).end == 20


def test_a_rewritten_volume_is_rewritten_again(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(12), range(12, 24))
        rewrite(place, writer, is_even)
        rewrite(place, writer, lambda record: record.offset % 3 == 0)
        assert offsets(place) == [0, 6, 12, 18, 23]


@pytest.mark.parametrize("start", range(11))
def test_reading_begins_at_the_next_record_that_is_there(place: Place, start: int) -> None:
    with place.writer() as writer:
        write(writer, range(5), range(5, 10))
        rewrite(place, writer, lambda record: record.offset in {3, 7})
        assert offsets(place, start) == [one for one in (3, 7, 9) if one >= start]
        (lane,) = place.reader.lanes()
        blocks = list(place.reader.blocks(lane.id, start, 10))
        assert [block.offset for block in blocks[:1]] == [start] * (start < 10)
        assert all(one.end == two.offset for one, two in pairwise(blocks))


def test_who_reads_meanwhile_reads_on(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(10), range(10, 20), range(20, 30))
        reader = place.reader
        records = reader.read(place.lane, 0, 30)
        assert next(records).offset == 0
        rewrite(place, writer, is_even)
        rest = [one.offset for one in records]
    assert rest == [*range(1, 10), *range(10, 30, 2), 29], "the open file as it was, then what is kept"


def test_recording_goes_on_behind_what_was_rewritten(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(4))
        rewrite(place, writer, is_even)
    with place.writer() as writer:  # a new one finds the end
        writer.leave_volume(SUBJECT)
        assert writer.record(SUBJECT, incoming([4])).next == 5
    assert offsets(place) == [0, 2, 3, 4]
    assert len(place.segments()) == 2, "nothing was in the last one, so none was left"


def test_a_lane_that_is_closed_with_an_empty_volume_has_an_end(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(4))
    assert place.reader.end(place.lane) == 4


def covered_by_a_crash(place: Place, writer: JournalWriter) -> list[Path]:
    """The volumes behind the first, put back after a rewriting: it ended before it removed them."""
    others = place.segments()[1:-1]
    for one in others:
        shutil.copy(one, f"{one}.kept")
    rewrite(place, writer, is_even)
    for one in others:
        os.rename(f"{one}.kept", one)
    return others


@pytest.mark.parametrize("start", [0, 5, 10, 15, 20])
def test_what_a_crash_left_twice_is_passed_and_then_removed(place: Place, start: int) -> None:
    with place.writer() as writer:
        write(writer, range(10), range(10, 20), range(20, 30))
        others = covered_by_a_crash(place, writer)
        found = offsets(place, start)
        assert found == sorted(set(found)), "in order, none twice"
        assert {one for one in range(30) if one % 2 == 0 and one >= start} <= set(found)
        writer.tidy(place.lane)
        assert not any(one.exists() for one in others)
        assert offsets(place, start) == [one for one in (*range(0, 30, 2), 29) if one >= start]


def test_nothing_but_what_lies_within_another_volume_is_removed(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(10), range(10, 20), range(20, 30))
        damaged, within = covered_by_a_crash(place, writer)
        damaged.write_bytes(b"\1" * 500)
        before = {one: one.read_bytes() for one in place.segments() if one != within}
        writer.tidy(place.lane)
        assert {one: one.read_bytes() for one in place.segments()} == before


def test_what_a_killed_writer_left_beside_is_ignored_and_removed(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(4))
        first = place.segments()[0]
        left = first.with_name(temporary_name(first.name))
        left.write_bytes(b"half of a volume")
        assert offsets(place) == [0, 1, 2, 3]
        writer.tidy(place.lane)
        assert not left.exists()
        assert offsets(place) == [0, 1, 2, 3]


def test_a_lane_is_removed_with_what_a_killed_writer_left_beside(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(4))
        first = place.segments()[0]
        first.with_name(temporary_name(first.name)).write_bytes(b"half of a volume")
        writer.remove(SUBJECT)
        assert not first.parent.exists()


def test_volumes_that_others_changed_meanwhile_are_left_to_them(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(4), range(4, 8))
        lane = place.lane

        def keeps(record: Record) -> bool:
            writer.remove_before(lane, 4)  # retention
            return False

        closed = writer.closed(lane)
        assert not writer.rewrite(lane, closed, keeps)
        assert offsets(place, 4) == [4, 5, 6, 7]
        assert [one.name for one in place.segments()] == ["000000000004.segment", "000000000008.segment"]
        assert not any(name.startswith(".tmp") for name in os.listdir(place.directory / lane))


def test_what_is_damaged_is_not_rewritten(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(4), range(4, 8))
        segment = place.segments()[1]
        data = bytearray(segment.read_bytes())
        data[100] ^= 1
        segment.write_bytes(data)
        before = {one: one.read_bytes() for one in place.segments()}
        with pytest.raises(JournalDamagedError):
            rewrite(place, writer, is_even)
        assert {one: one.read_bytes() for one in place.segments()} == before


def test_a_disk_that_is_full_leaves_everything_as_it_was(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.writer() as writer:
        write(writer, range(4))
        before = sorted(os.listdir(place.directory / place.lane))

        def full(fd: int, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "no space left")

        monkeypatch.setattr(retention, "write_all", full)
        with pytest.raises(OSError, match="no space"):
            rewrite(place, writer, is_even)
        assert sorted(os.listdir(place.directory / place.lane)) == before
        assert offsets(place) == [0, 1, 2, 3]


def test_a_volume_that_cannot_be_begun_is_an_error_with_a_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([0]))
        monkeypatch.setattr(os, "open", lambda *_args, **_named: (_ for _ in ()).throw(OSError(errno.EMFILE, "many")))
        with pytest.raises(StorageError, match="many"):
            writer.leave_volume(SUBJECT)


def test_disk_durability_flushes_the_new_volume_before_its_name_and_that_before_the_others_go(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.writer(durability="disk") as writer:
        write(writer, range(4), range(4, 8))
        first, second, _ = place.segments()
        steps: list[str] = []
        real = os.fsync, os.rename, os.unlink

        def noted(what: str, name: object) -> None:
            steps.append(f"{what} {os.path.basename(str(name))}")

        def fsync(fd: int) -> None:
            noted("flush", os.readlink(f"/proc/self/fd/{fd}"))
            real[0](fd)

        def rename(old: str, new: str, **where: int) -> None:
            noted("rename", new)
            real[1](old, new, **where)

        def unlink(name: str, **where: int) -> None:
            real[2](name, **where)
            noted("remove", name)

        for name, do in (("fsync", fsync), ("rename", rename), ("unlink", unlink)):
            monkeypatch.setattr(os, name, do)
        rewrite(place, writer, is_even)
    assert steps == [
        f"flush {temporary_name(first.name)}",
        f"rename {first.name}",
        f"flush {place.lane}",
        f"remove {second.name}",
    ]


def test_a_position_in_what_was_rewritten_is_still_one_of_its_lane(place: Place) -> None:
    """J-13, by who looked before and by who comes anew."""
    with place.writer() as writer:
        write(writer, range(10), range(10, 20))
        lane, before = place.lane, place.reader
        marks = {offset: before.mark(lane, offset) for offset in (3, 7, 15)}
        rewrite(place, writer, is_even)
        for reader in (before, place.reader):
            for offset, mark in marks.items():
                reader.check(lane, offset, mark)
        assert place.reader.mark(lane, 7) != marks[7]


def test_a_time_is_found_in_what_was_rewritten(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(10))
        records = list(place.reader.read(place.lane, 0, 10))
        rewrite(place, writer, is_even)
        assert place.reader.offset_at(place.lane, records[-1].recorded_at_ms + 1) == 10
        assert place.reader.offset_at(place.lane, records[0].recorded_at_ms) == 0


# --- bounds ---


def records_at(*offsets: int) -> list[Record]:
    return [Record(offset, 1, "p", 0, 0, b"x") for offset in offsets]


@pytest.mark.parametrize(
    ("there", "stays", "expected"),
    [
        (range(10), {0, 9}, [0, 4, 8, 9]),
        (range(10), {4}, [3, 4, 8, 9]),
        ([0, 8], {0}, [0, 8]),
        (range(3), set(), [2]),
        (range(0), set(), []),
    ],
)
def test_a_record_stays_where_more_would_be_left_out_than_a_block_can_say(
    there: range, stays: set[int], expected: list[int]
) -> None:
    found = kept(0, records_at(*there), lambda record: record.offset in stays, longest=3)
    assert [one.offset for one in found] == expected


def test_a_block_ends_before_it_leaves_out_more_than_it_can_say() -> None:
    keys = VolumeKeys(Keyring((bytes(32),)), bytes(16), 0)
    blocks = list(sealed(0, records_at(3, 4, 7, 12, 14), keys, NonceSource(), longest=5))
    headers = [parse_block_header(one) for one in blocks]
    assert [(one.first, one.end, one.left_out) for one in headers] == [(0, 8, 5), (8, 15, 5)]


def test_a_block_ends_at_as_many_bytes_and_records_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = VolumeKeys(Keyring((bytes(32),)), bytes(16), 0)
    monkeypatch.setattr(retention, "JOURNAL_BLOCK_RECORDS", 3)
    assert len(list(sealed(0, records_at(*range(7)), keys, NonceSource()))) == 3
    monkeypatch.setattr(retention, "JOURNAL_BLOCK_BYTES", 50)
    assert len(list(sealed(0, records_at(*range(7)), keys, NonceSource()))) == 4
    assert list(sealed(0, [], keys, NonceSource())) == []


def test_closed_volumes_are_all_but_the_last(place: Place) -> None:
    with place.writer() as writer:
        write(writer, range(4), range(4, 8))
        writer.record(SUBJECT, [Incoming(0, False, b"x")])
        with JournalLane(str(place.directory), place.lane) as files:
            sizes = [files.size(0), files.size(4)]
        assert [tuple(one) for one in writer.closed(place.lane)] == [(0, 4, sizes[0]), (4, 8, sizes[1])]


def rotate(place: Place) -> None:
    """A new first key; the older one is still there."""
    write_key_file(str(place.key), (secrets.token_bytes(32), *read_keys(str(place.key))), replace=True)


def test_what_was_rewritten_is_sealed_anew_and_rewritten_again(place: Place) -> None:
    """J-15, J-16: in any order, and it is read with the last key alone."""
    with place.writer() as writer:
        write(writer, range(10), range(10, 20))
        rewrite(place, writer, is_even, 0)
        rotate(place)
        assert list(writer.reseal())
        rewrite(place, writer, lambda record: record.offset % 4 == 0)
        rotate(place)
        assert list(writer.reseal())
    write_key_file(str(place.key), read_keys(str(place.key))[:1], replace=True)
    assert offsets(place) == [0, 4, 8, 12, 16, 19]


def test_volumes_are_not_rewritten_while_one_is_sealed_anew(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-15, J-16: both write beside under one name, and what is kept of a neighbour would go with the older copy."""
    with place.writer() as writer:
        write(writer, range(10), range(10, 20))
        rotate(place)
        put, done, threads = reseal.put_in_place, threading.Event(), []

        def rewrite_all() -> None:
            rewrite(place, writer, is_even)
            done.set()

        def put_late(*names: object) -> None:
            if not threads:
                threads.append(threading.Thread(target=rewrite_all))
                threads[0].start()
                assert not done.wait(0.2)
            put(*names)

        monkeypatch.setattr(reseal, "put_in_place", put_late)
        assert list(writer.reseal())
        threads[0].join()
    assert offsets(place) == [*range(0, 20, 2), 19]
