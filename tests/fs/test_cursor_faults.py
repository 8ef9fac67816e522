"""What a reader knows of its predecessor when cursors are damaged or cannot be written (L-15)."""

from __future__ import annotations

from pathlib import Path

from speed.wire import names
from speed.wire.cursor import decode_cursor
from tests.fs.lanes import LANE_KEY, Lane, counters, sealed
from tests.fs.limits import no_file_beyond


def closed_cleanly(lane: Lane, generation: int) -> Path:
    """The cursor of a reader that ended in order."""
    reader = lane.reader(generation)
    lane.read_all(reader)
    reader.close(clean=True)
    return lane.path / names.cursor_name(generation)


def test_without_space_for_a_cursor_the_older_one_says_no_longer_that_all_ended_in_order(lane: Lane) -> None:
    """L-15: it tells nothing of what this process handles, and the next one must know that it was there."""
    writer = lane.writer()
    writer.append(sealed(1))
    older = closed_cleanly(lane, 1)
    assert decode_cursor(older.read_bytes(), (LANE_KEY,)).clean
    writer.append(sealed(2))
    with no_file_beyond(200):  # enough for what is overwritten, not for a new cursor
        died = lane.reader(2)
        handled = lane.read_all(died)
    assert died.counts["commits_failed"] >= 1
    died.abandon()
    assert not decode_cursor(older.read_bytes(), (LANE_KEY,)).clean
    again = lane.read_all(lane.reader(3))
    assert counters(handled) == counters(again) == [2]
    assert [one.redelivered for one in again] == [True]


def test_a_link_in_place_of_the_older_cursor_is_not_written_through(lane: Lane, tmp_path: Path) -> None:
    """L-10."""
    lane.writer().append(sealed(1))
    older = closed_cleanly(lane, 1)
    reader = lane.reader(2)
    cursor = decode_cursor(older.read_bytes() if older.exists() else b"", (LANE_KEY,)) if older.exists() else None
    assert cursor is None, "the older one is removed once the own one is in place"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"x" * 200)
    own = decode_cursor((lane.path / names.cursor_name(2)).read_bytes(), (LANE_KEY,))
    for link in (older.symlink_to, older.hardlink_to):
        link(elsewhere)
        reader._files.mark_unclean(own._replace(receiver_generation=1))
        older.unlink()
    assert elsewhere.read_bytes() == b"x" * 200


def test_a_damaged_newer_cursor_makes_an_older_one_no_clean_end(lane: Lane) -> None:
    """L-15: the process of the newer one may have handled more."""
    writer = lane.writer()
    writer.append([sealed(1), sealed(2)])
    reader = lane.reader(1)
    received = lane.read_all(reader, finish=False)
    reader.finish(received[0].token)
    for one in received[1:]:
        reader.finish(one.token)
    reader.close(clean=True)
    writer.append([sealed(3), sealed(4)])
    (lane.path / names.cursor_name(2)).write_bytes(bytes(200))
    again = lane.read_all(lane.reader(3))
    assert counters(again) == [3, 4]
    assert [one.redelivered for one in again] == [True, True]


def test_a_cursor_that_says_no_clean_end_stays_as_it_is_where_there_is_no_space(lane: Lane) -> None:
    """L-15."""
    lane.writer().append(sealed(1))
    died = lane.reader(1)
    lane.read_all(died)
    died.abandon()
    older = lane.path / names.cursor_name(1)
    before = older.read_bytes()
    with no_file_beyond(200):
        lane.reader(2).abandon()
    assert older.read_bytes() == before
