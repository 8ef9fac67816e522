"""What a journal keeps, for how long, and how an offset is found by its time (J-5 to J-8)."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from speed import JournalExpiredError, JournalFullError
from speed.journal import writer as writer_module
from speed.journal.files import JournalLane
from tests.fs.journals import SUBJECT, Place, incoming


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Clock:
    """Unix ms of the writer, set by the test."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(writer_module, "_unix_ms", clock)
    return clock


def test_retention_by_size_removes_the_oldest_segments_and_says_so(place: Place) -> None:
    """J-8."""
    with place.writer(max_bytes=1 << 20) as writer:
        for start in range(0, 200, 2):
            writer.record(SUBJECT, incoming(range(start, start + 2), size=16_000))
    sizes = sum(path.stat().st_size for path in place.segments())
    first = place.reader.first(place.lane)
    assert sizes <= (1 << 20) + (1 << 16)
    assert 0 < first < 200
    assert place.numbers(first) == list(range(first, 200))
    with pytest.raises(JournalExpiredError, match="removed by retention") as caught:
        place.reader.read(place.lane, first - 1, 200)
    assert caught.value.first == first
    assert pickle.loads(pickle.dumps(caught.value)).first == first


def test_a_lane_of_which_retention_leaves_nothing_is_removed_and_its_end_is_known(place: Place, clock: Clock) -> None:
    """J-8, J-14: it no longer counts, and no reader takes what was lost for read."""
    with place.writer(max_age_seconds=60) as writer:
        writer.record(SUBJECT, incoming(range(5)))
        clock.now += 59_000
        writer.retain()
        assert place.numbers() == list(range(5))
        clock.now += 2_000
        lane = place.lane
        writer.retain()
        assert place.reader.lanes() == []
        assert place.reader.removed() == {lane: 5}
        assert sorted(path.name for path in place.directory.iterdir()) == ["journal.lock", "removed"]
        with pytest.raises(JournalExpiredError, match="removed by retention with all its records") as caught:
            place.reader.read(lane, 2, 5)
        assert caught.value.first == 5
        writer.record(SUBJECT, incoming([5, 6]))
    assert place.lane != lane
    assert place.numbers() == [5, 6]


@pytest.mark.parametrize("segments_left", [True, False])
def test_a_lane_whose_removal_a_crash_ended_half_way_is_removed_by_the_next_writer(
    place: Place, clock: Clock, segments_left: bool
) -> None:
    """J-14: it was noted before, and records of its subject go to another lane."""
    with place.writer(max_age_seconds=60) as writer:
        writer.record(SUBJECT, incoming(range(5)))
        lane, kept = place.lane, shutil.copytree(place.directory / place.lane, place.path / "kept")
        clock.now += 61_000
        writer.retain()
    shutil.copytree(kept, place.directory / lane)
    if not segments_left:
        (segment,) = (place.directory / lane).glob("*.segment")
        segment.unlink()
    with place.writer(max_age_seconds=60) as writer:
        writer.record(SUBJECT, incoming([5]))
        writer.retain()
    assert not (place.directory / lane).exists()
    assert place.reader.removed() == {lane: 5}
    assert place.numbers() == [5]


def test_retention_gives_lanes_back_to_a_source_that_had_taken_all(
    place: Place, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-1, J-8: also after a restart."""
    monkeypatch.setattr(writer_module, "MAX_JOURNAL_LANES", 4)
    topics = [SUBJECT._replace(subject=f"flights.{number}") for number in range(4)]
    with place.writer(max_age_seconds=60) as writer:
        writer.record(topics[0], incoming([0]))
        writer.record(topics[1], incoming([0]))
        with pytest.raises(JournalFullError):
            writer.record(topics[2], incoming([0]))
    clock.now += 61_000
    with place.writer(max_age_seconds=60) as writer:
        with pytest.raises(JournalFullError):
            writer.record(topics[2], incoming([0]))
        writer.retain()
        writer.record(topics[2], incoming([0]))
        writer.record(topics[3], incoming([0]))
    assert [info.subject for info in place.reader.lanes()] == ["flights.2", "flights.3"]


def test_a_source_that_floods_a_journal_pushes_out_its_own_records_and_no_others(place: Place) -> None:
    """J-8: the oldest segment of whom holds the most goes first."""
    quiet = SUBJECT._replace(source="quiet")
    with place.writer(max_bytes=1 << 20) as writer:
        writer.record(quiet, incoming(range(10), size=1000))
        for start in range(0, 200, 2):
            writer.record(SUBJECT, incoming(range(start, start + 2), size=16_000))
        writer.retain()
    reader = place.reader
    lanes = {info.source: info.id for info in reader.lanes()}
    assert (reader.first(lanes["quiet"]), reader.end(lanes["quiet"])) == (0, 10)
    assert reader.first(lanes["producer"]) > 0


def test_damage_in_one_lane_keeps_retention_from_no_other(place: Place, clock: Clock) -> None:
    """J-8."""
    other = SUBJECT._replace(source="other")
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([0]))
        writer.record(other, incoming([0]))
    ids = {info.source: info.id for info in place.reader.lanes()}
    (place.directory / ids["producer"] / "description").write_bytes(b"damaged")
    clock.now += 61_000
    with place.writer(max_age_seconds=60) as writer:
        writer.retain()
    assert place.reader.removed() == {ids["other"]: 1}, "how far the other was written nobody knows"
    assert not (place.directory / ids["producer"]).exists()


def test_retention_looks_at_lanes_that_this_writer_never_wrote(place: Place, clock: Clock) -> None:
    """J-8."""
    place.write(range(5))
    clock.now += 3_600_000
    lane = place.lane
    with place.writer(max_age_seconds=60) as writer:
        writer.retain()
    assert place.reader.removed() == {lane: 5}


WRITER = """
import sys
from pathlib import Path
from speed.journal.writer import JournalWriter
from tests.fs.journals import SUBJECT, incoming
with JournalWriter(sys.argv[1], sys.argv[2], max_bytes=1 << 20) as writer:
    for start in range(0, 12_000, 4):
        writer.record(SUBJECT, incoming(range(start, start + 4), size=2_000))
"""


def test_a_reader_beside_a_writer_that_removes_segments_misses_nothing_unnamed(place: Place) -> None:
    """J-7, J-8: whatever meets, a record is read, or the reader is told what is gone."""
    program = [sys.executable, "-c", WRITER, str(place.directory), str(place.key)]
    place.write()
    writer = subprocess.Popen(program, cwd=Path(__file__).parents[2])
    reader, offset, expired = place.reader, 0, 0
    while writer.poll() is None or offset < 12_000:
        assert not writer.poll()
        try:
            for info in reader.lanes():
                for record in reader.read(info.id, offset, reader.end(info.id)):
                    assert record.offset == offset
                    assert record.view.payload["number"] == offset
                    offset += 1
        except JournalExpiredError as error:
            assert error.first > offset
            offset, expired = error.first, expired + 1
    print("expired", expired)
    assert place.reader.first(place.lane) > 0


def test_a_segment_that_grows_and_ends_behind_the_reader_is_not_damaged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-7: between the reader's walk and its next look at the directory the writer goes on to another segment."""
    monkeypatch.setattr(writer_module, "JOURNAL_SEGMENT_BYTES", 1 << 16)
    place.write(range(3))
    lane, look = place.lane, JournalLane.volumes
    looks = 0

    def volumes(files: JournalLane) -> list[int]:
        nonlocal looks
        looks += 1
        if looks == 3:  # the first is that of `first`, the second that of the walk
            with place.writer() as writer:
                for start in range(3, 43, 4):
                    writer.record(SUBJECT, incoming(range(start, start + 4), size=5_000))
        return look(files)

    monkeypatch.setattr(JournalLane, "volumes", volumes)
    records = list(place.reader.read(lane, 3, 1 << 40))
    assert [record.offset for record in records] == list(range(3, 43))


# --- time ---


def test_an_offset_is_found_by_time_in_every_segment(
    place: Place, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J-4: times in headers prune what need not be opened."""
    monkeypatch.setattr(writer_module, "JOURNAL_SEGMENT_BYTES", 1 << 16)
    began = clock.now
    with place.writer() as writer:
        for block in range(20):
            clock.now = began + block * 1000
            writer.record(SUBJECT, incoming(range(block * 3, block * 3 + 3), size=5_000))
    assert len(place.segments()) > 3
    reader = place.reader
    for block in range(20):
        assert reader.offset_at(place.lane, began + block * 1000) == block * 3
        assert reader.offset_at(place.lane, began + block * 1000 - 999) == block * 3
    assert reader.offset_at(place.lane, 0) == 0
    assert reader.offset_at(place.lane, clock.now + 1) == 60


def test_times_do_not_run_backwards_when_the_clock_does(place: Place, clock: Clock) -> None:
    """J-4."""
    with place.writer() as writer:
        writer.record(SUBJECT, incoming([0]))
        clock.now -= 5_000
        writer.record(SUBJECT, incoming([1]))
    clock.now -= 5_000
    place.write([2])
    times = [record.recorded_at_ms for record in place.reader.read(place.lane, 0, 3)]
    assert times == [1_700_000_000_000] * 3
