"""What waits in a lane is told from its files, by whoever has the key, whatever its receiver does (L-32)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from speed.fs.lane_backlog import Waiting, WaitingInLane
from speed.observe.backlogs import MAX_PEERS, LaneWatch
from speed.wire import names
from speed.wire.envelope import EnvelopeType
from speed.wire.seal import LinkSealer
from tests.fs.lanes import KEYRING, SOURCE, SOURCE_ID, TARGET, TARGET_ID, Lane, envelope_bytes, sealed

ANSWER = EnvelopeType.SPC_RESPONSE


def look(lane: Lane) -> Waiting | None:
    return WaitingInLane(lane.root, TARGET, SOURCE, KEYRING).look()


def batch(first: int, end: int, size: int = 10) -> bytes:
    return b"".join(sealed(number, b"x" * size) for number in range(first, end))


def test_all_that_was_never_read_waits(lane: Lane) -> None:
    lane.raw_segment(batch(1, 6))
    assert look(lane) == Waiting(5, 5 * envelope_bytes(b"x" * 10), 1_700_000_000_000)


def test_nothing_waits_in_a_lane_that_was_handled_to_its_end(lane: Lane) -> None:
    lane.raw_segment(batch(1, 6))
    reader = lane.reader()
    lane.read_all(reader)
    reader.commit()
    assert look(lane) is None


def test_what_was_read_and_is_not_finished_waits(lane: Lane) -> None:
    lane.raw_segment(batch(1, 6))
    reader = lane.reader()
    received = lane.read_all(reader, finish=False)
    for envelope in received[:1] + received[3:]:
        reader.finish(envelope.token)
    reader.commit()
    assert look(lane) == Waiting(2, 2 * envelope_bytes(b"x" * 10), 1_700_000_000_000)


def test_a_request_that_runs_does_not_wait(lane: Lane) -> None:
    lane.raw_segment(sealed(1, type_=EnvelopeType.SPC_REQUEST) + sealed(2))
    reader = lane.reader()
    first, second = lane.read_all(reader, finish=False)
    assert reader.begin(first.token, listed=True)
    reader.finish(second.token)
    reader.commit()
    assert look(lane) is None


def test_the_number_spans_files_and_lives_of_the_sender(lane: Lane) -> None:
    lane.raw_segment(batch(1, 4), segment=1)
    lane.raw_segment(batch(4, 9), segment=2)
    lane.raw_segment(b"".join(sealed(number, generation=2) for number in range(1, 3)), generation=2)
    found = look(lane)
    assert found is not None
    assert found.envelopes == 10


def test_one_that_is_not_whole_yet_does_not_wait(lane: Lane) -> None:
    lane.raw_segment(batch(1, 2) + sealed(2, b"y" * 100)[:-1])
    found = look(lane)
    assert found is not None
    assert found.envelopes == 1
    reader = lane.reader()
    lane.read_all(reader)
    reader.commit()
    assert look(lane) is None


def test_many_small_ones_before_a_large_one_are_counted(lane: Lane) -> None:
    lane.raw_segment(batch(1, 1001) + sealed(1001, b"y" * 900_000))
    found = look(lane)
    assert found is not None
    assert found.envelopes == 1001


def test_damage_hides_nothing_that_follows(lane: Lane) -> None:
    lane.raw_segment(b"#" * 700 + batch(1, 4) + b"#" * 50)
    found = look(lane)
    assert found is not None
    assert found.envelopes == 3


def test_an_answer_that_is_young_counts_as_read_and_an_old_one_waits(lane: Lane) -> None:
    def answer(timestamp_ms: int) -> bytes:
        return LinkSealer(KEYRING, SOURCE_ID, TARGET_ID, 1).seal(ANSWER, 4, 1, timestamp_ms, b"", os.urandom(12))

    lane.raw_segment(answer(int(time.time() * 1000) + 60_000))
    assert look(lane) is None
    lane.raw_segment(answer(int(time.time() * 1000) - 60_000))
    found = look(lane)
    assert found is not None
    assert found.envelopes == 1


def test_a_sender_that_lies_about_its_counters_makes_no_more_than_its_bytes(lane: Lane) -> None:
    lane.raw_segment(sealed(1) + sealed(1 << 39))
    assert look(lane) == Waiting(2, 2 * envelope_bytes(b""), 1_700_000_000_000)


def test_a_file_behind_a_link_is_not_followed(lane: Lane, tmp_path: Path) -> None:
    file = lane.raw_segment(batch(1, 6))
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert look(lane) is None


@pytest.mark.parametrize("place", ["", "inbox", f"inbox/{SOURCE}"])
def test_a_directory_behind_a_link_is_not_followed(lane: Lane, place: str) -> None:
    lane.raw_segment(batch(1, 6))
    directory = Path(lane.root, TARGET, place)
    elsewhere = Path(lane.root, "elsewhere")
    directory.rename(elsewhere)
    directory.symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        look(lane)


def test_looking_changes_nothing_and_keeps_nothing_open(lane: Lane) -> None:
    lane.raw_segment(batch(1, 6))
    reader = lane.reader()
    lane.read_all(reader, finish=False)

    def state() -> list[tuple[str, int, int]]:
        found = [Path(path, name) for path, _, files in os.walk(lane.root) for name in files]
        return sorted((str(one), one.lstat().st_mtime_ns, one.lstat().st_size) for one in found)

    before, opened = state(), sorted(os.listdir("/proc/self/fd"))
    watching = WaitingInLane(lane.root, TARGET, SOURCE, KEYRING)
    for _ in range(3):
        watching.look()
    assert state() == before
    assert sorted(os.listdir("/proc/self/fd")) == opened


def test_one_look_after_another_tells_what_came_and_what_was_handled(lane: Lane) -> None:
    lane.raw_segment(batch(1, 6))
    reader, watching = lane.reader(), WaitingInLane(lane.root, TARGET, SOURCE, KEYRING)
    lane.read_all(reader)
    reader.commit()
    old = time.time_ns() - 10**9
    os.utime(lane.path, ns=(old, old))  # so that what comes later shows
    assert watching.look() is None
    assert watching.look() is None
    with (lane.path / lane.segments()[0]).open("ab") as file:
        file.write(batch(6, 9))
    grown = watching.look()
    assert grown is not None
    assert grown.envelopes == 3
    lane.read_all(reader)
    reader.commit()
    assert watching.look() is None
    lane.raw_segment(batch(9, 11), segment=2)
    begun = watching.look()
    assert begun is not None
    assert begun.envelopes == 2


# All lanes of a root.


def lanes_of(root: Path, node: str, senders: int) -> None:
    """Entries tell which nodes are looked at; what they hold does not matter here."""
    Path(root, "speed_registry").mkdir(exist_ok=True)
    Path(names.entry_path(str(root), node)).touch()
    for number in range(senders):
        sender = f"s{number:03d}"
        path = Path(names.lane_dir(str(root), node, sender))
        path.mkdir(parents=True)
        ids = names.node_id(sender) + names.node_id(node)
        envelopes = (sealed(counter) for counter in range(1, number + 2))
        (path / names.lane_file_name(1, 1)).write_bytes(b"".join(one[:32] + ids + one[64:] for one in envelopes))


def test_senders_beyond_a_bound_are_told_together(tmp_path: Path) -> None:
    lanes_of(tmp_path, "hung", MAX_PEERS + 3)
    found = LaneWatch(str(tmp_path), KEYRING).look()["hung"]
    assert len(found) == MAX_PEERS + 1
    assert found["*"].messages == 1 + 2 + 3  # of the three of whom least waits
    assert "s000" not in found


def test_a_look_is_bounded_and_the_next_one_looks_at_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speed.observe.backlogs.MAX_LANES_A_LOOK", 4)
    for node in ("one", "two", "three"):
        lanes_of(tmp_path, node, 3)
    watch = LaneWatch(str(tmp_path), KEYRING)
    assert len(watch.look()) == 1
    assert len(watch.look()) == 2
    assert len(watch.look()) == 3


def test_who_looks_leaves_itself_out(tmp_path: Path) -> None:
    lanes_of(tmp_path, "one", 2)
    lanes_of(tmp_path, "s001", 2)
    assert {node: set(rows) for node, rows in LaneWatch(str(tmp_path), KEYRING, "s001").look().items()} == {
        "one": {"s000"}
    }


def test_a_clock_that_is_ahead_makes_no_negative_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes_of(tmp_path, "one", 1)
    monkeypatch.setattr(time, "time", lambda: 1_600_000_000.0)
    assert LaneWatch(str(tmp_path), KEYRING).look()["one"]["s000"].oldest_seconds == 0.0
