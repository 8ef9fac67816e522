"""Whether all that lies in one backend lies in another, by message ids: nothing lost, nothing twice.

Ids are kept in a file that is removed at the end: memory does not grow with them.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from speed.bridges.migrating import Judge, message_id_of
from speed.bridges.scans import scan

if TYPE_CHECKING:
    from speed.bridges.backend import Backend

SHOWN = 20
_TABLE = "CREATE TABLE seen (id TEXT PRIMARY KEY, place TEXT, source INTEGER, target INTEGER) WITHOUT ROWID"
_SOURCE = "INSERT INTO seen VALUES (?, ?, 1, 0) ON CONFLICT DO UPDATE SET source = source + 1"
_TARGET = "INSERT INTO seen VALUES (?, ?, 0, 1) ON CONFLICT DO UPDATE SET target = target + 1"
_COUNTS = """
SELECT COALESCE(SUM(source > 0), 0), COALESCE(SUM(source > 0 AND target > 0), 0),
  COALESCE(SUM(source > 0 AND target = 0), 0), COALESCE(SUM(source > 0 AND target > source), 0)
FROM seen
"""


class Compared(NamedTuple):
    """How many messages of the source there are, have arrived, are missing, and lie there more often than here.

    ``missing_places`` and ``twice_ids`` name the first of them.
    """

    messages: int
    arrived: int
    missing: int
    twice: int
    missing_places: tuple[str, ...]
    twice_ids: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Nothing lost, nothing twice."""
        return not self.missing and not self.twice


def compare(source: Backend, target: Backend, pattern: str, judge: Judge, told: Callable[[int], None]) -> Compared:
    """What lies in the topics of a pattern. ``told`` is given the number of each page that was read.

    What came into the source after its end was read is not asked for.
    """
    with _ids() as ids:
        for page in scan(source, pattern):
            judged = ((one, judge.judge(one).outgoing) for one in page)
            rows = [(to.message_id, f"{one.topic} {one.position}") for one, to in judged if to is not None]
            _count(ids, _SOURCE, rows)
            told(len(page))
        for page in scan(target, pattern):
            _count(ids, _TARGET, [(message_id_of(one), "") for one in page])
            told(len(page))
        return _result(ids)


@contextmanager
def _ids() -> Iterator[sqlite3.Connection]:
    """An empty table; nothing of it has to outlive a crash."""
    with tempfile.TemporaryDirectory(prefix="speed-compare-") as directory:
        ids = sqlite3.connect(str(Path(directory) / "ids"), isolation_level=None)
        try:
            ids.execute("PRAGMA journal_mode = OFF")
            ids.execute("PRAGMA synchronous = OFF")
            ids.execute(_TABLE)
            yield ids
        finally:
            ids.close()


def _count(ids: sqlite3.Connection, statement: str, rows: Iterable[tuple[str, str]]) -> None:
    ids.execute("BEGIN")
    ids.executemany(statement, rows)
    ids.execute("COMMIT")


def _result(ids: sqlite3.Connection) -> Compared:
    missing = ids.execute("SELECT place FROM seen WHERE source > 0 AND target = 0 LIMIT ?", (SHOWN,))
    twice = ids.execute("SELECT id FROM seen WHERE source > 0 AND target > source LIMIT ?", (SHOWN,))
    messages, arrived, lost, more = ids.execute(_COUNTS).fetchone()
    return Compared(messages, arrived, lost, more, tuple(row[0] for row in missing), tuple(row[0] for row in twice))


__all__ = ["Compared", "compare"]
