"""DataFrames and streams written with the format ``speed``, each row a message or an event."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.spark import register
from tests.system.conftest import Child

pytestmark = [pytest.mark.system, pytest.mark.spark]

ROWS = 20_000
RECEIVER = (Path(__file__).parent / "spark_receiver.py").read_text()


@pytest.fixture(scope="module")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def session(spark_sessions: Any, event_log: Path) -> Any:
    """A session that runs failed tasks again, which local mode does only when it is told to."""
    spark = spark_sessions.get(
        "local[2,4]",
        {
            "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": event_log.as_uri(),
        },
    )
    register(spark)
    return spark


class Received:
    """A node's messages or events, as they come."""

    def __init__(self, root: str, name: str) -> None:
        self.node = speed.Node(name, root=root, allow=["etl.*"])
        self.messages: list[speed.Message] = []
        self._lock = threading.Lock()

    def take(self, message: speed.Message) -> None:
        with self._lock:
            self.messages.append(message)

    @property
    def payloads(self) -> list[Any]:
        return [message.payload for message in self.messages]


@pytest.fixture
def receiver(module_root: str) -> Iterator[Callable[[str], Received]]:
    made: list[Received] = []

    def make(name: str) -> Received:
        made.append(Received(module_root, name))
        return made[-1]

    yield make
    for one in made:
        one.node.close(drain_seconds=1)


def write(frame: Any, root: str, **options: str) -> None:
    """Write ``frame`` with the format ``speed``."""
    frame.write.format("speed").mode("append").options(root=root, **options).save()


def test_the_first_and_last_instants_are_written_whatever_zone_the_session_has(
    session: Any, module_root: str, receiver: Callable[[str], Received]
) -> None:
    """V-6."""
    almanac = receiver("almanac")
    almanac.node.on_message(almanac.take)
    rows = session.sql(
        "SELECT timestamp'0001-01-01 00:00:00Z' AS first, timestamp'9999-12-31 23:59:59.999999Z' AS last, array(first)"
    )
    for zone in ("America/New_York", "Asia/Tokyo"):
        session.conf.set("spark.sql.session.timeZone", zone)
        try:
            write(rows, module_root, node="almanac")
        finally:
            session.conf.unset("spark.sql.session.timeZone")
    first = datetime(1, 1, 1, tzinfo=timezone.utc)
    last = datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc)
    assert [list(payload.values()) for payload in almanac.payloads] == [[first, last, [first]]] * 2


def test_each_row_becomes_one_message(session: Any, module_root: str, receiver: Callable[[str], Received]) -> None:
    billing = receiver("billing")
    billing.node.on_message(billing.take)
    write(session.range(5000).selectExpr("id AS n", "'x' AS s").repartition(3), module_root, node="billing")
    # All are acknowledged when the job ends.
    assert Counter(payload["n"] for payload in billing.payloads) == Counter(range(5000))
    assert len({message.message_id for message in billing.messages}) == 5000


def test_each_row_becomes_an_event_for_every_subscriber(
    session: Any, module_root: str, receiver: Callable[[str], Received]
) -> None:
    one, all_ = receiver("one"), receiver("all")
    one.node.subscribe("alerts.b", one.take)
    all_.node.subscribe("alerts.*", all_.take)
    rows = session.range(100).selectExpr("CAST(id AS STRING) AS payload", "IF(id < 50, 'alerts.a', 'alerts.b') topic")
    write(rows.coalesce(1), module_root)
    assert all_.payloads == [str(n) for n in range(100)]
    assert one.payloads == [str(n) for n in range(50, 100)]
    assert {message.topic for message in one.messages} == {"alerts.b"}


def test_a_task_killed_halfway_leaves_each_effect_once(
    session: Any, module_root: str, child: Callable[..., Child], tmp_path: Path
) -> None:
    """The worker's process dies behind some of its messages; the task is run again and sends all once more."""
    database = tmp_path / "effects.db"
    receiver = child(RECEIVER, module_root, str(database), str(ROWS // 4))
    assert receiver.line() == "ready"
    write(session.range(ROWS).selectExpr("id AS n").coalesce(2), module_root, node="billing")
    receiver.process.stdin.close()  # type: ignore[union-attr]
    assert int(receiver.line()) > ROWS  # some came twice
    with sqlite3.connect(database) as found:
        numbers = [number for (number,) in found.execute("SELECT n FROM effects ORDER BY n")]
        senders = found.execute("SELECT COUNT(DISTINCT source) FROM effects").fetchone()[0]
    assert numbers == list(range(ROWS))
    assert senders >= 2


def test_a_stream_writes_each_micro_batch_under_ids_of_its_own(
    session: Any, module_root: str, receiver: Callable[[str], Received], tmp_path: Path
) -> None:
    billing = receiver("billing")
    billing.node.on_message(billing.take)
    source = tmp_path / "in"
    for number in range(3):
        session.range(number * 100, number * 100 + 100).write.mode("append").json(str(source))
    stream = session.readStream.schema("id long").option("maxFilesPerTrigger", "1").json(str(source))
    query = (
        stream.writeStream.format("speed")
        .queryName("numbers")
        .options(root=module_root, node="billing", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert sorted(payload["id"] for payload in billing.payloads) == list(range(300))
    assert len({message.message_id for message in billing.messages}) == 300


def test_a_micro_batch_run_again_after_a_restart_has_the_same_ids(
    session: Any, module_root: str, receiver: Callable[[str], Received], tmp_path: Path
) -> None:
    """The query's commit of the batch is taken away, as if its process had died before it."""
    billing = receiver("billing")
    billing.node.on_message(billing.take)
    session.range(50).coalesce(1).write.json(str(tmp_path / "in"))
    stream = session.readStream.schema("id long").json(str(tmp_path / "in"))
    options = {"root": module_root, "node": "billing", "checkpointLocation": str(tmp_path / "checkpoint")}
    for _ in range(2):
        query = stream.writeStream.format("speed").options(**options).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        for name in ("0", ".0.crc"):
            (tmp_path / "checkpoint" / "commits" / name).unlink()
    ids = Counter(message.message_id for message in billing.messages)
    assert len(ids) == 50
    assert set(ids.values()) == {2}


def test_rows_of_a_named_run_keep_their_ids(
    session: Any, module_root: str, receiver: Callable[[str], Received]
) -> None:
    billing = receiver("billing")
    billing.node.on_message(billing.take)
    for run in ("nightly-1", "nightly-1", "nightly-2"):
        write(session.range(10).coalesce(1), module_root, node="billing", run=run)
    ids = [message.message_id for message in billing.messages]
    assert ids[:10] == ids[10:20]
    assert not set(ids[:10]) & set(ids[20:])


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        (["id"], {"nod": "billing"}, "there is no option 'nod'"),
        (["id"], {}, "node or topic is missing"),
        (["CAST(id AS STRING) AS payload"], {}, "node or topic is missing: give one, or a column 'topic'"),
        (["DATE'2020-01-01' AS d"], {"node": "b"}, "column 'd' is date, which no message holds"),
        (["named_struct('x', 1.5BD) AS s"], {"node": "b"}, "column 's.x' is decimal"),
        (["id AS payload", "id AS extra"], {"node": "b"}, "column 'extra' has no place beside 'payload'"),
        (["id AS payload", "id AS topic"], {"node": "b"}, "column 'topic' is bigint: it must be string"),
    ],
)
def test_what_cannot_be_written_is_said_before_a_job_runs(
    session: Any, module_root: str, columns: list[str], options: dict[str, str], says: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match=f"ConfigurationError: .*{says}"):
        write(session.range(3).selectExpr(*columns), module_root, **options)


def test_what_was_sent_cannot_be_overwritten(session: Any, module_root: str) -> None:
    with pytest.raises(Exception, match="mode is overwrite: what was sent cannot be taken back"):
        session.range(3).write.format("speed").mode("overwrite").options(root=module_root, node="b").save()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"node": "nobody"}, r"UnknownNodeError: executor \S+ on \S+: 'nobody' is not live after 1"),
        ({"node": "closed"}, r"UnknownNodeError: executor \S+ on \S+: 'closed' does not allow 'etl\."),
        ({"topic": "unheard"}, r"UnknownNodeError: executor \S+ on \S+: 0 nodes subscribe to 'unheard'"),
        ({"node": "closed", "key": "/nowhere/speed.key"}, "KeyFileError: .*there is no key file /nowhere/speed.key"),
    ],
)
def test_a_receiver_that_is_not_there_fails_the_job_by_name(
    session: Any, module_root: str, options: dict[str, str], says: str
) -> None:
    with speed.Node("closed", root=module_root), pytest.raises(Exception, match=says):
        write(session.range(3).coalesce(1), module_root, timeoutSeconds="1", **options)


def test_an_event_without_subscribers_may_be_allowed(session: Any, module_root: str) -> None:
    write(session.range(3), module_root, topic="unheard", minSubscribers="0")


def test_the_key_is_in_no_event_log_and_its_path_is_all_that_travels(
    session: Any, module_root: str, receiver: Callable[[str], Received], event_log: Path
) -> None:
    """The log holds the plan of each query, and its options are those that the web page shows."""
    billing = receiver("billing")
    billing.node.on_message(billing.take)
    write(session.range(3), module_root, node="billing", key=f"{module_root}/speed.key")
    key = Path(module_root, "speed.key").read_text().split()[-1]
    logged = "".join(path.read_text(errors="replace") for path in event_log.rglob("*") if path.is_file())
    assert "SparkListenerSQLExecutionStart" in logged
    assert key not in logged
