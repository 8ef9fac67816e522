"""What each task reads: lanes cut where they are long, and packed into few tasks where they are many and short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

from pyspark.sql.datasource import InputPartition

from speed.journal import LaneInfo
from speed.spark.source.options import ReadOptions

ALWAYS = 1 << 62
"""A time that never comes."""
USUAL_PARTITIONS = 64
"""Of small lanes. A constant: a micro-batch that runs again after a restart must have the same tasks, whose rows then
keep their message ids, even where Spark has more cores than before."""
_LANE_ROWS = 200
"""Opening a lane takes about as long as reading so many records."""


@dataclass
class LanePart:
    """Records ``start`` to ``end`` of one lane, of which those recorded after ``until_ms`` are not wanted."""

    lane: LaneInfo
    start: int
    end: int
    until_ms: int = ALWAYS

    @property
    def rows(self) -> int:
        """How many records it has at most."""
        return self.end - self.start


@dataclass
class LaneParts(InputPartition):  # type: ignore[misc, unused-ignore]
    """What one task reads, in this order: that of a lane is kept."""

    parts: tuple[LanePart, ...]


def cut(lane: LaneInfo, start: int, end: int, most: int, until_ms: int = ALWAYS) -> Iterator[LanePart]:
    """``start`` to ``end`` in parts of at most ``most`` records, as equal as can be."""
    count = -(-(end - start) // most)
    for number in range(count):
        begin = start + (end - start) * number // count
        yield LanePart(lane, begin, start + (end - start) * (number + 1) // count, until_ms)


def pack(parts: Sequence[LanePart], options: ReadOptions) -> list[LaneParts]:
    """The parts in tasks that have about equally much to do; the same parts always give the same tasks."""
    most = options.max_partitions or _usual_partitions(parts, options.messages_per_partition)
    tasks: list[list[LanePart]] = [[] for _ in range(min(most, len(parts)))]
    loads = [(0, number) for number in range(len(tasks))]
    heapify(loads)
    for part in sorted(parts, key=lambda part: (-part.rows, part.lane.id, part.start)):
        load, number = loads[0]
        tasks[number].append(part)
        heapreplace(loads, (load + part.rows + _LANE_ROWS, number))
    return [LaneParts(tuple(sorted(task, key=lambda part: (part.lane.id, part.start)))) for task in tasks]


def _usual_partitions(parts: Sequence[LanePart], rows: int) -> int:
    """As many as long lanes need, so that a large journal keeps all executors busy."""
    return max(USUAL_PARTITIONS, -(-sum(part.rows for part in parts) // rows))
