"""Streams of journals with the format ``speed``: restarts, retention, and a query whose process is killed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from speed.cli.keys import rotated
from speed.fs.keyfile import change_key_file
from tests.system.conftest import Child
from tests.system.journals_for_spark import Recorded

pytestmark = [pytest.mark.system, pytest.mark.spark]

PATIENCE_SECONDS = 200.0


def stream(session: Any, recorded: Recorded, schema: str = "source string, offset long, n long", **options: str) -> Any:
    return session.readStream.format("speed").schema(schema).options(root=recorded.root, **options).load()


def run(frame: Any, out: Path) -> Any:
    """Write what there is to Parquet; the query, ended."""
    writer = frame.writeStream.format("parquet").options(path=str(out / "rows"), checkpointLocation=str(out / "point"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_SECONDS)
    return query


def test_a_query_goes_on_where_it_ended_and_finds_new_lanes(session: Any, recorded: Recorded, tmp_path: Path) -> None:
    recorded.topic("t", "p", 100)
    query = run(stream(session, recorded, maxMessagesPerTrigger="40"), tmp_path)
    assert [progress["numInputRows"] for progress in query.recentProgress] == [40, 40, 20]
    recorded.topic("t", "p", 10)
    recorded.topic("t", "q", 20)
    run(stream(session, recorded), tmp_path)
    rows = sorted((row.source, row.offset, row.n) for row in session.read.parquet(str(tmp_path / "rows")).collect())
    assert rows == [("p", n, n) for n in range(110)] + [("q", n, n) for n in range(20)]


def test_a_query_goes_on_where_it_ended_after_the_journal_was_sealed_anew_and_the_older_key_retired(
    session: Any, recorded: Recorded, tmp_path: Path
) -> None:
    recorded.topic("t", "p", 100)
    run(stream(session, recorded), tmp_path)
    for step in ("now", "retire"):
        change_key_file(str(recorded.key), partial(rotated, step=step, fresh=bytes(32)))
        recorded.reseal()
        recorded.topic("t", "p", 10)
    run(stream(session, recorded), tmp_path)
    rows = sorted((row.offset, row.n) for row in session.read.parquet(str(tmp_path / "rows")).collect())
    assert rows == [(n, n) for n in range(120)]


def test_a_query_begins_with_the_first_message_recorded_at_a_time(
    session: Any, recorded: Recorded, tmp_path: Path
) -> None:
    """A lane that comes later is read from its beginning."""
    for topic in ("t", "u", "v"):
        recorded.topic(topic, "p", 5)
    journal = recorded.journal
    last = max(record.recorded_at_ms for lane in journal.lanes() for record in journal.read(lane.id, 0, 5))
    while time.time() * 1000 <= last + 1:
        pass
    recorded.topic("t", "p", 3)
    frame = stream(session, recorded, "topic string, offset long", topic="t,u", startingTimestamp=str(last + 1))
    run(frame, tmp_path)
    recorded.topic("u", "q", 2)
    run(frame, tmp_path)
    rows = sorted((row.topic, row.offset) for row in session.read.parquet(str(tmp_path / "rows")).collect())
    assert rows == [("t", 5), ("t", 6), ("t", 7), ("u", 0), ("u", 1)]


def test_a_checkpoint_older_than_the_retention_stops_the_query_unless_it_may_go_on(
    session: Any, root: str, tmp_path: Path
) -> None:
    recorded = Recorded(root, max_bytes=1 << 20)
    recorded.topic("t", "p", 10)
    run(stream(session, recorded, "offset long"), tmp_path)
    (lane,) = recorded.journal.lanes()
    while recorded.journal.first(lane.id) <= 10:
        recorded.topic("t", "p", 100, payload=b"x" * 1000)
    first, end = recorded.journal.first(lane.id), recorded.journal.end(lane.id)
    with pytest.raises(Exception, match=f"JournalExpiredError: {first - 10} messages of topic t from p"):
        run(stream(session, recorded, "offset long"), tmp_path)
    run(stream(session, recorded, "offset long", failOnDataLoss="false"), tmp_path)
    offsets = sorted(row.offset for row in session.read.parquet(str(tmp_path / "rows")).collect())
    assert offsets == [*range(10), *range(first, end)]
    recorded.close()


def test_a_query_ahead_of_a_restored_journal_stops_or_reads_all_of_it_again(
    session: Any, root: str, tmp_path: Path
) -> None:
    """Though by then the journal has more messages than the checkpoint counts."""
    recorded, journal = Recorded(root), Path(root, "journal")
    recorded.topic("t", "p", 50)
    shutil.copytree(journal, tmp_path / "copy")
    recorded.topic("t", "p", 200)
    run(stream(session, recorded), tmp_path)
    recorded.close()
    shutil.rmtree(journal)
    shutil.copytree(tmp_path / "copy", journal)
    recorded = Recorded(root)
    recorded.skip("t", "p", 1000)
    recorded.topic("t", "p", 250)
    with pytest.raises(Exception, match="JournalReplacedError: offset 250 of lane"):
        run(stream(session, recorded), tmp_path)
    run(stream(session, recorded, failOnDataLoss="false"), tmp_path)
    rows = [row.n for row in session.read.parquet(str(tmp_path / "rows")).collect()]
    assert sorted(rows) == sorted([*range(250), *range(50), *range(1000, 1250)])
    recorded.close()


QUERY = """
import sys
from pyspark.sql import SparkSession
from speed.spark import register
root, out = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
register(spark)
options = {"root": root, "maxMessagesPerTrigger": "500"}
frame = spark.readStream.format("speed").schema("source string, offset long, n long").options(**options).load()
writer = frame.writeStream.format("parquet").options(path=f"{out}/rows", checkpointLocation=f"{out}/point")
writer.start().awaitTermination()
"""


def kill(pid: int) -> None:
    """SIGKILL of a process, its JVM and its workers."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
    psutil.wait_procs(family, PATIENCE_SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(900)  # two more sessions of Spark start
def test_a_query_killed_and_restarted_neither_loses_nor_repeats(
    session: Any, recorded: Recorded, child: Callable[..., Child], tmp_path: Path
) -> None:
    """SIGKILL of driver and workers between any two steps, while messages come in; then the counts are exact."""
    sources = [f"p{number}" for number in range(3)]
    for source in sources:
        recorded.topic("t", source, 1500)
    query = child(QUERY, recorded.root, str(tmp_path))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (tmp_path / "point" / "commits" / "1").exists():
        assert time.monotonic() < deadline, "no micro-batch was committed"
        assert query.process.poll() is None, "the query ended"
        recorded.topic("t", sources[0], 1)
        time.sleep(0.01)
    kill(query.process.pid)
    before = session.read.parquet(str(tmp_path / "rows")).count()
    recorded.topic("t", "new", 500)
    run(stream(session, recorded), tmp_path)
    expected = {
        (lane.source, offset, offset)
        for lane in recorded.journal.lanes()
        for offset in range(recorded.journal.end(lane.id))
    }
    rows = [tuple(row) for row in session.read.parquet(str(tmp_path / "rows")).collect()]
    assert 0 < before < len(rows) == len(expected)
    assert set(rows) == expected
