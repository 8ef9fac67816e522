"""Journals that were cut off, altered, or filled with foreign things (J-1, J-6)."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from speed import JournalDamagedError, JournalError
from speed.wire.journal import BLOCK_HEADER_BYTES
from tests.fs.journals import SUBJECT, Place, incoming
from tests.representative import some

BLOCKS = ([0, 1, 2], [3], [4, 5])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write(*BLOCKS)
    return place


def last_block(place: Place) -> int:
    """Where the last of BLOCKS begins in the one segment."""
    (segment,) = place.segments()
    return segment.read_bytes().rfind(b"SPJB")


def test_a_tail_torn_at_any_byte_is_not_read_and_the_next_writer_cuts_it_off(place: Place) -> None:
    """J-6: at every byte of the last block."""
    (segment,) = place.segments()
    whole, start = segment.read_bytes(), last_block(place)
    for length in range(start, len(whole)):
        segment.write_bytes(whole[:length])
        place.note_end(4)
        assert place.reader.end(place.lane) == 4
        assert place.numbers() == [0, 1, 2, 3]
        place.write([4, 5])
        assert place.numbers() == [0, 1, 2, 3, 4, 5]
        assert len(place.segments()) == 1


def test_zeros_behind_the_last_block_are_what_a_power_cut_leaves(place: Place) -> None:
    """J-6."""
    (segment,) = place.segments()
    with segment.open("ab") as file:
        file.write(bytes(5000))
    assert place.reader.end(place.lane) == 6
    assert place.numbers() == [0, 1, 2, 3, 4, 5]
    place.write([6])
    assert place.numbers() == list(range(7))


def test_every_flipped_bit_of_a_block_is_a_named_error_and_what_is_behind_it_can_be_read(place: Place) -> None:
    """J-4, J-6: no bit is unprotected, in header, ciphertext and tag, of the first block."""
    (segment,) = place.segments()
    whole = segment.read_bytes()
    end = whole.find(b"SPJB", 1)
    for bit in some(range(end * 8)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        segment.write_bytes(damaged)
        with pytest.raises(JournalDamagedError):
            place.numbers()
        assert place.numbers(skip_damaged=True) == [3, 4, 5], bit


def test_every_flipped_bit_of_the_last_block_is_a_named_error_and_never_a_torn_tail(place: Place) -> None:
    """J-6: the CRC tells a damaged length from a block that was cut."""
    (segment,) = place.segments()
    whole, start = segment.read_bytes(), last_block(place)
    for bit in some(range(start * 8, len(whole) * 8)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        segment.write_bytes(damaged)
        with pytest.raises(JournalDamagedError):
            place.numbers()
        assert place.numbers(skip_damaged=True) == [0, 1, 2, 3]


def test_a_writer_leaves_damage_where_it_is_and_gives_no_offset_twice(place: Place) -> None:
    """J-3, J-6."""
    (segment,) = place.segments()
    whole, start = segment.read_bytes(), last_block(place)
    segment.write_bytes(whole[: start + 9] + b"\xff" + whole[start + 10 :])
    place.write([6, 7])
    old, new = place.segments()
    assert old.read_bytes()[start + 9] == 0xFF
    first = int(new.name.partition(".")[0])
    assert first >= 6
    with pytest.raises(JournalDamagedError):
        place.numbers()
    assert place.numbers(skip_damaged=True) == [0, 1, 2, 3, 6, 7]
    assert place.numbers(first) == [6, 7]


def test_a_missing_segment_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-6."""
    from speed.journal import writer as writer_module

    monkeypatch.setattr(writer_module, "JOURNAL_SEGMENT_BYTES", 1 << 16)
    place = Place(tmp_path)
    with place.writer() as writer:
        for start in range(0, 30, 3):
            writer.record(SUBJECT, incoming(range(start, start + 3), size=20_000))
    segments = place.segments()
    segments[1].unlink()
    with pytest.raises(JournalDamagedError):
        place.numbers()
    assert place.numbers(skip_damaged=True)[-1] == 29


def test_a_block_moved_to_another_lane_or_segment_does_not_open(place: Place) -> None:
    """J-4."""
    other = SUBJECT._replace(source="other")
    with place.writer() as writer:
        writer.record(other, incoming([9]))
    ids = {info.source: info.id for info in place.reader.lanes()}
    name = "000000000000.segment"
    shutil.copy(place.directory / ids["other"] / name, place.directory / ids["producer"] / name)
    with pytest.raises(JournalDamagedError, match="not authentic"):
        list(place.reader.read(ids["producer"], 0, 1))


def test_an_altered_description_is_named(place: Place) -> None:
    """J-2."""
    path = place.directory / place.lane / "description"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(JournalDamagedError, match="description"):
        place.reader.lanes()


def test_random_bytes_in_place_of_a_segment_give_a_named_error_and_nothing_else(place: Place) -> None:
    """J-4, J-6."""
    seed = 20261121
    print("seed", seed)
    draw = random.Random(seed)
    (segment,) = place.segments()
    whole = segment.read_bytes()
    for _ in range(300):
        cut = draw.randrange(len(whole))
        segment.write_bytes(whole[:cut] + draw.randbytes(draw.randrange(BLOCK_HEADER_BYTES, 400)))
        for skip in (False, True):
            try:
                assert place.numbers(skip_damaged=skip) == [0, 1, 2, 3, 4, 5][: len(place.numbers(skip_damaged=True))]
            except JournalDamagedError:
                assert not skip


def test_a_sparse_giant_costs_no_time_and_no_memory(place: Place) -> None:
    """J-6: a hole of a terabyte behind the last block is a torn rest, and nobody reads it."""
    (segment,) = place.segments()
    os.truncate(segment, 1 << 40)
    assert place.reader.end(place.lane) == 6
    assert place.numbers(skip_damaged=True) == [0, 1, 2, 3, 4, 5]
    place.write([6])
    assert place.numbers() == list(range(7))
    assert segment.stat().st_size < 10_000


def test_links_pipes_and_foreign_files_are_ignored_and_never_followed(place: Place, tmp_path: Path) -> None:
    """J-1, L-10."""
    lane = place.directory / place.lane
    target = tmp_path / "elsewhere"
    target.write_bytes(b"untouched")
    (lane / "000000000100.segment").symlink_to(target)
    os.mkfifo(lane / "000000000200.segment")
    (lane / "000000000300.segment").mkdir()
    (lane / "0000000000400.segment").write_bytes(b"another spelling")
    (lane / ".tmp-x").write_bytes(b"half")
    (place.directory / ("f" * 32)).symlink_to(tmp_path)
    (place.directory / ("e" * 32)).mkdir()
    (place.directory / ("e" * 32) / "notes.txt").write_text("foreign")
    (place.directory / "notes.txt").write_text("foreign")
    assert place.numbers() == [0, 1, 2, 3, 4, 5]
    place.write([6])
    assert place.numbers() == list(range(7))
    assert target.read_bytes() == b"untouched"
    assert (place.directory / "notes.txt").exists()
    assert (place.directory / ("e" * 32) / "notes.txt").exists()


def test_a_link_in_place_of_the_lock_or_the_journal_is_refused(tmp_path: Path) -> None:
    """J-1."""
    place = Place(tmp_path)
    place.directory.mkdir(mode=0o700)
    (place.directory / "journal.lock").symlink_to(tmp_path / "speed.key")
    with pytest.raises(JournalError, match=r"journal\.lock|lock"):
        place.writer()
    os.rename(place.directory, tmp_path / "moved")
    place.directory.symlink_to(tmp_path / "moved")
    from speed import RootError

    with pytest.raises(RootError, match="not a directory"):
        place.writer()


def test_a_lane_that_a_crash_left_without_a_description_is_removed_and_another_one_made(place: Place) -> None:
    """J-1: the directory was made, the description not yet in place."""
    lane = place.directory / place.lane
    (lane / "description").unlink()
    for segment in lane.glob("*.segment"):
        segment.unlink()
    (lane / ".tmp-description").write_bytes(b"half")
    assert place.reader.lanes() == []
    place.write([0])
    assert place.numbers() == [0]
    assert not lane.exists()


@pytest.mark.parametrize("at", [9, BLOCK_HEADER_BYTES + 3], ids=["header", "body"])
@pytest.mark.parametrize("size", [0, 40_000], ids=["small", "large"])
def test_what_comes_again_is_not_recorded_twice_although_the_last_block_is_damaged(
    tmp_path: Path, at: int, size: int
) -> None:
    """J-9: the last records that can be read tell, however many offsets the damage took."""
    place = Place(tmp_path)
    place.write([0, 1, 2], [3])
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([4], size=size))
    (segment,) = place.segments()
    whole, start = segment.read_bytes(), last_block(place)
    segment.write_bytes(whole[: start + at] + bytes([whole[start + at] ^ 1]) + whole[start + at + 1 :])
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([2, 3], redelivered=True))
        writer.record(SUBJECT, incoming([5]))
        writer.record(SUBJECT, incoming([3, 5], redelivered=True))
    assert place.numbers(skip_damaged=True) == [0, 1, 2, 3, 5]
