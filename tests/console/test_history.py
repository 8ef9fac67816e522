"""What the console remembers: an hour in memory, and a week in a file."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from speed.console import collector
from speed.console.collector import MINUTE, MINUTES, QUARTER_SECONDS, History, Point, WeekFile
from speed.core.scheduler import TIMES
from speed.errors import ConfigurationError
from speed.observe.figures import ServiceLoad

NOON = 1_800_000_000 // QUARTER_SECONDS * QUARTER_SECONDS


def load(calls_per_second: float, errors: float = 0.0, place: int = 3, service: str = "tax") -> ServiceLoad:
    """What a service did in a second; all its calls took the time of one place."""
    times = [0] * TIMES
    times[place] = int(calls_per_second)
    return ServiceLoad("billing", service, calls_per_second, errors, 0, times, [0] * TIMES, 0, 0)


def test_an_hour_is_remembered_minute_by_minute() -> None:
    kept = History()
    for minute in range(MINUTES + 10):
        kept.add(NOON + minute * MINUTE, 1.0, [load(minute + 1, errors=0.5)])
    now = NOON + (MINUTES + 9) * MINUTE
    starts, found = kept.hour(now, 10)
    assert starts == list(range(NOON + 10 * MINUTE, now + 1, MINUTE))
    points = found["billing", "tax"]
    assert [point.calls for point in points] == [float(minute + 11) for minute in range(MINUTES)]
    assert points[0].errors == 5.5
    assert points[0].p99 == points[0].p50 is not None


def test_a_minute_without_calls_has_no_time() -> None:
    kept = History()
    kept.add(NOON, 1.0, [load(1)])
    kept.add(NOON + 2 * MINUTE, 1.0, [load(1)])
    _, found = kept.hour(NOON + 2 * MINUTE, 10)
    assert [point.p99 is None for point in found["billing", "tax"][-3:]] == [False, True, False]


def test_the_services_that_are_called_most_come_first_and_no_others() -> None:
    kept = History()
    kept.add(NOON, 1.0, [load(1, service="a"), load(3, service="b"), load(2, service="c"), load(0, service="d")])
    assert [service for _, service in kept.hour(NOON, 2)[1]] == ["b", "c"]


def test_memory_is_bounded_however_many_services_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_SERIES", 5)
    kept = History()
    kept.add(NOON, 1.0, [load(1, service=f"s{number}") for number in range(50)])
    assert len(kept.hour(NOON, 100)[1]) == 5


def test_who_was_not_called_for_an_hour_gives_its_place_to_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_SERIES", 2)
    kept = History()
    kept.add(NOON, 1.0, [load(1, service="first"), load(1, service="second"), load(1, service="third")])
    later = NOON + (MINUTES - 1) * MINUTE
    kept.add(later, 1.0, [load(0, service="first"), load(1, service="second"), load(1, service="third")])
    assert {service for _, service in kept.hour(later, 10)[1]} == {"first", "second"}
    later += 2 * QUARTER_SECONDS
    kept.add(later, 1.0, [load(1, service="third")])
    assert {service for _, service in kept.hour(later, 10)[1]} == {"second", "third"}


NODES = [f"node-{number:03}" for number in range(200)]
DAY = 86_400


def test_a_day_of_looks_at_many_nodes_takes_no_more_memory_than_two_hours(tmp_path: Path) -> None:
    kept, step, after_two_hours = History(tmp_path / "week"), 10 * MINUTE, 0
    tracemalloc.start()
    try:
        for at in range(NOON, NOON + DAY, step):
            found = [load(37.7, 0.1, place=at // step % TIMES)._replace(node=name) for name in NODES]
            kept.add(at, step, found)
            if at == NOON + 2 * 3600:
                after_two_hours = tracemalloc.get_traced_memory()[0]
        grown = tracemalloc.get_traced_memory()[0] - after_two_hours
    finally:
        tracemalloc.stop()
    print(f"{after_two_hours:,} bytes after two hours, {grown:,} more after a day")
    assert grown < 64 << 10


def test_a_file_that_is_full_leaves_a_week_of_many_nodes(tmp_path: Path) -> None:
    """When another one was just begun there is least."""
    file, at = WeekFile(tmp_path / "week"), NOON
    while not (tmp_path / "week.1").exists():
        file.write((name, "price", Point(at, 33_929.9999998, 3_392.99999998, 0.000512, 0.004096)) for name in NODES)
        at += QUARTER_SECONDS
    kept = [point.at for point in file.read(NODES[7], "price", at - 7 * DAY)]
    print(f"{(tmp_path / 'week.1').stat().st_size:,} bytes, {len(kept)} quarters of the last week")
    assert kept == list(range(at - 7 * DAY, at, QUARTER_SECONDS))


def test_quarters_are_written_and_read_again(tmp_path: Path) -> None:
    kept = History(tmp_path / "week")
    kept.add(NOON, 1.0, [load(4)])
    kept.add(NOON + MINUTE, 1.0, [load(6)])
    kept.add(NOON + QUARTER_SECONDS, 1.0, [load(1)])
    kept.close()
    points = History(tmp_path / "week").week("billing", "tax", NOON + QUARTER_SECONDS)
    assert [(point.at, point.calls) for point in points] == [(NOON, 10.0), (NOON + QUARTER_SECONDS, 1.0)]
    assert (tmp_path / "week").stat().st_mode & 0o777 == 0o600


def test_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "week"
    kept = History(file)
    kept.add(NOON, 1.0, [load(4)])
    kept.close()
    rows = ("", ",1,-1,0,null,null", ",true,1,0,null,null", ",1,NaN,0,null,null", ",1e400,1,0,null,1")
    wrong = [f'["billing","tax"{row}]'.encode() for row in rows]
    wrong += [b"\xff\xfe", b"{}", b"x" * 100_000, b"[" * 4_000]
    file.write_bytes(b"\n".join([*wrong, file.read_bytes()]))
    assert [point.calls for point in History(file).week("billing", "tax", NOON)] == [4.0]


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "MAX_FILE_BYTES", 500)
    kept = History(tmp_path / "week")
    for quarter in range(50):
        kept.add(NOON + quarter * QUARTER_SECONDS, 1.0, [load(1)])
    kept.close()
    assert {one.name for one in tmp_path.iterdir()} <= {"week", "week.1"}
    assert all(one.stat().st_size < 700 for one in tmp_path.iterdir())
    assert 5 < len(kept.week("billing", "tax", NOON + 50 * QUARTER_SECONDS)) < 50


def test_what_is_older_than_a_week_is_left_out(tmp_path: Path) -> None:
    kept = History(tmp_path / "week")
    kept.add(NOON, 1.0, [load(1)])
    kept.close()
    assert kept.week("billing", "tax", NOON + 8 * 86_400) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    (tmp_path / "week").symlink_to(tmp_path / "other")
    with pytest.raises(ConfigurationError, match="no link"):
        History(tmp_path / "week")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(ConfigurationError):
            History(tmp_path / name)
