"""A receiver seals what its predecessors committed, and keeps its first cursor for callers (L-31)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from speed.errors import LeaseLostError
from speed.fs.inbox import Inbox
from speed.fs.lane_reader import LaneReader
from speed.wire import names
from speed.wire.cursor import Cursor, decode_cursor
from speed.wire.envelope import EnvelopeType
from speed.wire.limits import MAX_STARTS
from tests.fs.lanes import KEYRING, LANE_KEY, SOURCE, TARGET, Lane, sealed

REQUEST = EnvelopeType.SPC_REQUEST


def filled(lane: Lane, requests: int) -> None:
    lane.raw_segment(b"".join(sealed(number, type_=REQUEST) for number in range(1, requests + 1)))


def cursor_of(lane: Lane, filename: str) -> Cursor:
    return decode_cursor((lane.path / filename).read_bytes(), (LANE_KEY,))


def begun(lane: Lane, reader: LaneReader, *, listed: bool = False) -> None:
    """Begin the first of what waits, and leave the rest."""
    first, *_ = lane.read_all(reader, finish=False)
    assert reader.begin(first.token, listed=listed)


def test_a_predecessor_that_goes_on_begins_nothing_once_the_lane_is_read_by_another(lane: Lane) -> None:
    filled(lane, 2)
    predecessor = lane.reader(1)
    first, second = lane.read_all(predecessor, finish=False)
    assert predecessor.begin(first.token, listed=False)
    successor = lane.reader(2)
    with pytest.raises(LeaseLostError):
        predecessor.begin(second.token, listed=False)
    assert [one.token.sequence for one in lane.read_all(successor, finish=False)] == [second.token.sequence]


def test_one_at_rest_that_goes_on_begins_nothing_either(lane: Lane) -> None:
    filled(lane, 2)
    predecessor = lane.reader(1)
    first, _ = lane.read_all(predecessor, finish=False)
    predecessor.rest()
    lane.reader(2)
    with pytest.raises(LeaseLostError):
        predecessor.begin(first.token, listed=False)


def test_what_a_predecessor_began_before_is_read_by_its_successor(lane: Lane) -> None:
    filled(lane, 2)
    begun(lane, lane.reader(1))
    lane.reader(2)
    assert cursor_of(lane, "cursor.000002").last_sequence == (1 << 40) + 1


def test_a_cursor_is_marked_once_every_lower_one_is_sealed(lane: Lane) -> None:
    filled(lane, 1)
    lane.reader(1)
    assert cursor_of(lane, "cursor.000001").sealed
    lane.reader(2)
    assert cursor_of(lane, "cursor.000002").sealed
    assert not (lane.path / "cursor.000001").exists()


def test_a_predecessor_that_opens_the_lane_again_meanwhile_is_sealed_as_well(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its new cursor has the write bit: what the successor read before says too little."""
    filled(lane, 2)
    lane.reader(1).abandon()
    again: list[LaneReader] = []
    take_over = LaneReader._take_over

    def with_a_rival(reader: LaneReader, *found: object) -> Cursor:
        if reader._generation == 2 and not again:
            again.append(reader)
            (lane.path / "cursor.000001").unlink()
            rival = lane.reader(1)
            begun(lane, rival)
        return take_over(reader, *found)  # type: ignore[arg-type]

    monkeypatch.setattr(LaneReader, "_take_over", with_a_rival)
    lane.reader(2)
    found = cursor_of(lane, "cursor.000002")
    assert (found.sealed, found.last_sequence) == (True, (1 << 40) + 1)


def test_a_process_whose_cursor_was_sealed_does_not_open_the_lane_again(lane: Lane) -> None:
    filled(lane, 1)
    lane.reader(1).abandon()
    (lane.path / "cursor.000001").chmod(0o400)
    with pytest.raises(LeaseLostError):
        lane.reader(1)


def test_on_a_network_filesystem_no_cursor_is_marked(lane: Lane, tmp_path: Path) -> None:
    filled(lane, 1)
    inbox = Inbox(str(tmp_path), TARGET, 1, KEYRING, is_remote=True)
    inbox.lane(SOURCE).abandon()
    inbox.close()
    assert not cursor_of(lane, "cursor.000001").sealed


def test_a_begun_request_of_an_idempotent_service_is_listed_until_it_is_finished(lane: Lane) -> None:
    filled(lane, 2)
    reader = lane.reader(1)
    first, _ = lane.read_all(reader, finish=False)
    reader.begin(first.token, listed=True)
    assert [entry.begun for entry in cursor_of(lane, "cursor.000001").unfinished] == [True]
    reader.finish(first.token)
    assert cursor_of(lane, "cursor.000001").unfinished == ()


def test_the_first_cursor_is_kept_before_a_request_for_another_generation_is_finished(lane: Lane) -> None:
    filled(lane, 2)
    begun(lane, lane.reader(1))
    successor = lane.reader(2)
    (second,) = lane.read_all(successor, finish=False)
    published = cursor_of(lane, "cursor.000002")
    successor.keep_start()
    successor.finish(second.token)
    assert cursor_of(lane, "start.000002") == published != cursor_of(lane, "cursor.000002")


def test_only_the_newest_first_cursors_are_kept(lane: Lane) -> None:
    filled(lane, 1)
    for generation in range(1, MAX_STARTS + 3):
        reader = lane.reader(generation)
        reader.keep_start()
        reader.abandon()
    kept = sorted(name for name in os.listdir(lane.path) if name.startswith("start."))
    assert kept == [names.start_name(generation) for generation in range(3, MAX_STARTS + 3)]


def test_a_first_cursor_tells_nothing_where_that_of_a_predecessor_was_damaged(lane: Lane) -> None:
    filled(lane, 2)
    begun(lane, lane.reader(1))
    (lane.path / "cursor.000001").write_bytes(b"x" * 80)
    lane.reader(2)
    assert (lane.path / "start.000002").read_bytes() == b""
