"""Journals that were made anew, restored or cut, and the positions of readers in them (J-2, J-12, J-13)."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import pytest

from speed import JournalDamagedError, JournalError, JournalReplacedError
from speed.fs.keyfile import load_key_file
from speed.wire.journal import Description, seal_description
from tests.fs.journals import SUBJECT, Place, incoming


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def copy_of(place: Place) -> Path:
    return Path(shutil.copytree(place.directory, place.path / "copy"))


def restore(place: Place, copy: Path) -> None:
    shutil.rmtree(place.directory)
    shutil.copytree(copy, place.directory)


def cut_last_block(place: Place) -> None:
    segment = place.segments()[-1]
    whole = segment.read_bytes()
    segment.write_bytes(whole[: whole.rfind(b"SPJB")])


# --- positions ---


def test_a_position_fits_the_journal_that_it_was_taken_in_also_when_that_went_on(place: Place) -> None:
    """J-13: at every offset, in the middle of a block as well."""
    place.write(range(4), [4], range(5, 10))
    reader = place.reader
    marks = [reader.mark(place.lane, offset) for offset in range(11)]
    assert marks[0] == ""
    assert len(set(marks)) == 4
    place.write(range(10, 20))
    for offset, mark in enumerate(marks):
        place.reader.check(place.lane, offset, mark)
    for offset, mark in reversed(list(enumerate(marks))):
        reader.check(place.lane, offset, mark)


def test_a_position_ahead_of_a_restored_journal_is_refused(place: Place) -> None:
    """J-13."""
    place.write(range(5))
    copy = copy_of(place)
    place.write(range(5, 25))
    mark = place.reader.mark(place.lane, 25)
    restore(place, copy)
    with pytest.raises(JournalReplacedError, match="ends at 5"):
        place.reader.check(place.lane, 25, mark)


def test_a_position_is_refused_also_once_the_restored_journal_has_grown_beyond_it(place: Place) -> None:
    """J-13: its mark tells, not the number."""
    place.write(range(5))
    copy = copy_of(place)
    place.write(range(5, 25))
    mark = place.reader.mark(place.lane, 25)
    restore(place, copy)
    place.write(range(100, 150))
    with pytest.raises(JournalReplacedError, match="something else"):
        place.reader.check(place.lane, 25, mark)


def test_a_position_behind_the_copy_stays_good_after_it_was_restored(place: Place) -> None:
    """J-13."""
    place.write(range(5))
    mark = place.reader.mark(place.lane, 5)
    copy = copy_of(place)
    place.write(range(5, 25))
    restore(place, copy)
    place.write(range(5, 8))
    place.reader.check(place.lane, 5, mark)


def test_a_forged_header_before_a_position_does_not_pass_for_what_was_read(place: Place) -> None:
    """J-13: the block must be authentic, not only have the nonce."""
    place.write(range(5))
    mark = place.reader.mark(place.lane, 5)
    (segment,) = place.segments()
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    with pytest.raises(JournalReplacedError):
        place.reader.check(place.lane, 5, mark)


def test_a_journal_made_anew_under_the_same_key_has_other_lanes(place: Place) -> None:
    """J-2."""
    place.write(range(5))
    lane = place.lane
    shutil.rmtree(place.directory)
    place.write(range(5))
    assert place.lane != lane
    with pytest.raises(JournalError, match="there is no lane"):
        place.reader.check(lane, 5, "")


# --- ends ---


def test_a_lane_cut_at_its_last_block_is_damaged_and_says_what_is_missing(place: Place) -> None:
    """J-12: whoever asks for its end, or reads to it."""
    place.write(range(3), [3, 4])
    cut_last_block(place)
    for ask in (lambda: place.reader.end(place.lane), lambda: place.numbers()):
        with pytest.raises(JournalDamagedError, match="written to offset 5, and ends at 3") as caught:
            ask()
        assert caught.value.offset == 3
    assert place.numbers(0, 3) == [0, 1, 2], "what is there is read"
    assert place.reader.end(place.lane, skip_damaged=True) == 5
    assert place.numbers(skip_damaged=True) == [0, 1, 2]


def test_a_lane_whose_only_segment_was_taken_away_is_cut(place: Place) -> None:
    """J-12."""
    place.write(range(3))
    (segment,) = place.segments()
    segment.unlink()
    with pytest.raises(JournalDamagedError, match="ends at 0"):
        place.numbers()
    with place.writer(max_age_seconds=1) as writer:
        writer.retain()
    assert len(place.reader.lanes()) == 1, "retention hides nothing"


@pytest.mark.parametrize("left", [None, b"", bytes(40)], ids=["missing", "empty", "zeros"])
def test_an_end_that_cannot_be_read_is_damage_and_never_taken_for_nothing(place: Place, left: bytes | None) -> None:
    """J-12."""
    place.write(range(3))
    end = place.directory / place.lane / "end"
    end.unlink()
    if left is not None:
        end.write_bytes(left)
    with pytest.raises(JournalDamagedError, match="its end"):
        place.reader.end(place.lane)
    assert place.numbers(0, 3, skip_damaged=True) == [0, 1, 2]


def test_a_writer_goes_on_for_a_cut_lane_in_another_one_and_leaves_it_as_it_is(place: Place) -> None:
    """J-12: also after restarts, and what comes again is compared with both."""
    place.write(range(3), [3, 4])
    cut_last_block(place)
    old = place.lane
    before = {path.name: path.read_bytes() for path in (place.directory / old).iterdir()}
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([1, 2, 3], redelivered=True))
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([2, 3, 4, 5], redelivered=True))
    assert {path.name: path.read_bytes() for path in (place.directory / old).iterdir()} == before
    (new,) = (info.id for info in place.reader.lanes() if info.id != old)
    reader = place.reader
    assert [record.view.payload["number"] for record in reader.read(new, 0, reader.end(new))] == [3, 4, 5]


def test_an_end_behind_the_blocks_is_what_a_crash_leaves_and_no_cut(place: Place) -> None:
    """J-12: the block was written, the end not yet."""
    place.write(range(3), [3])
    place.note_end(3)
    assert place.reader.end(place.lane) == 4
    place.write([4])
    assert place.numbers() == [0, 1, 2, 3, 4]
    assert len(place.reader.lanes()) == 1


def test_a_writer_whose_end_was_taken_away_meanwhile_notes_it_anew(place: Place) -> None:
    """J-12: recording does not stop for it."""
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([0]))
        (place.directory / place.lane / "end").unlink()
        for lane in writer._lanes.values():
            lane.release()
        writer.record(SUBJECT, incoming([1]))
    assert place.numbers() == [0, 1]


# --- journals of before ---


def test_a_lane_of_version_1_is_read_and_gets_an_end_when_a_writer_goes_on_with_it(place: Place) -> None:
    """J-2."""
    place.write(range(3))
    lane = place.directory / place.lane
    (lane / "end").unlink()
    ring = load_key_file(str(place.key))
    old = Description(SUBJECT, has_end=False)
    (lane / "description").write_bytes(seal_description(old, bytes.fromhex(lane.name), ring, secrets.token_bytes(12)))
    assert place.numbers() == [0, 1, 2]
    assert not (lane / "end").exists()
    place.write([3])
    assert place.numbers() == [0, 1, 2, 3]
    cut_last_block(place)
    with pytest.raises(JournalDamagedError, match="written to offset 4"):
        place.numbers()


# --- damage stays where it is ---


def test_a_damaged_description_is_named_and_all_other_lanes_are_read(place: Place) -> None:
    """J-2: and its subject is recorded in another lane from then on."""
    other = SUBJECT._replace(source="other")
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([0]))
        writer.record(other, incoming([0]))
    ids = {info.source: info.id for info in place.reader.lanes()}
    path = place.directory / ids["producer"] / "description"
    path.write_bytes(path.read_bytes()[:-1])
    reader = place.reader
    assert list(reader.survey()[1]) == [ids["producer"]]
    assert [info.id for info in reader.lanes(skip_damaged=True)] == [ids["other"]]
    with pytest.raises(JournalDamagedError, match=ids["producer"]):
        reader.lanes()
    place.write([1])
    reader = place.reader
    (new,) = (info.id for info in reader.lanes(skip_damaged=True) if info.source == "producer")
    assert [record.view.payload["number"] for record in reader.read(new, 0, 9)] == [1]
