"""Reading a journal for commands while retention removes what is read."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from speed.cli.journal import JournalReading, Wanted
from speed.errors import JournalExpiredError
from speed.journal import LaneInfo

LANE = LaneInfo("ab", "topic", "orders", "shop")


class Shrinking:
    """A journal of one lane with five records, of which only those from ``kept`` on are there when they are read."""

    def __init__(self, kept: int) -> None:
        self._kept = kept

    def survey(self) -> tuple[list[LaneInfo], dict[str, Any]]:
        return [LANE], {}

    def first(self, _: str) -> int:
        return 0

    def end(self, _: str, *, skip_damaged: bool) -> int:
        return 5

    def read(self, _: str, start: int, end: int, *, skip_damaged: bool) -> Iterator[Any]:
        if start < self._kept:
            raise JournalExpiredError("removed", self._kept)
        return (SimpleNamespace(offset=offset, recorded_at_ms=1) for offset in range(start, end))


@pytest.mark.parametrize(("kept", "read"), [(0, [0, 1, 2, 3, 4]), (3, [3, 4]), (5, [])])
def test_what_retention_kept_is_read(kept: int, read: list[int]) -> None:
    journal: Any = Shrinking(kept)
    assert [record.offset for _, record in JournalReading(journal, Wanted()).records()] == read


def test_a_lane_that_is_removed_again_and_again_is_left_until_the_next_time() -> None:
    journal: Any = Shrinking(6)
    reading = JournalReading(journal, Wanted())
    assert list(reading.records()) == []
    assert reading.damaged == 0
