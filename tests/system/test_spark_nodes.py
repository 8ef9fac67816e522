"""Nodes that come, go, die and refuse while DataFrames are computed through them; the workers' own nodes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import speed
from speed.column_services import by_array, by_row
from speed.spark import Speed
from tests.interop.harness import until
from tests.system.spark_sessions import ROWS_A_BATCH, SOURCES

pytestmark = [pytest.mark.system, pytest.mark.spark]

ROWS = 1000
PATIENCE = 60.0


def frame(spark: Any, parts: int = 2) -> Any:
    return spark.range(ROWS).selectExpr("id AS a").repartition(parts)


def doubled(sp: Speed, spark: Any, node: str, **options: Any) -> Any:
    return sp.enrich(frame(spark), node=node, service="twice", columns=["a"], returns="b long", **options)


def is_right(rows: list[Any]) -> bool:
    return sorted((row.a, row.b) for row in rows) == [(number, 2 * number) for number in range(ROWS)]


class Service:
    """``spark_service.py`` as a process."""

    def __init__(self, root: str, name: str, directory: Path, mode: str = "") -> None:
        script = str(Path(__file__).with_name("spark_service.py"))
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, script, root, name, str(directory), mode],
            env={**os.environ, "PYTHONPATH": SOURCES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ready(self) -> Service:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        return self

    def leave(self) -> None:
        """Close its node in order."""
        self.process.communicate(timeout=PATIENCE)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture
def service(module_root: str, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services and ends them."""
    started: list[Service] = []

    def start(name: str, mode: str = "") -> Service:
        started.append(Service(module_root, name, tmp_path, mode))
        return started[-1]

    yield start
    for one in started:
        one.end()


def batches(directory: Path) -> list[list[str]]:
    """First row and node of every batch that ran."""
    notes = directory / "rows"
    return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []


def test_a_node_that_dies_and_comes_back_costs_no_row(
    spark: Any, sp: Speed, service: Callable[..., Service], tmp_path: Path
) -> None:
    first = service("mortal", "dies").ready()
    retrying = doubled(sp, spark, "mortal", idempotent=True, retries=5)

    def revive() -> None:
        first.process.wait(PATIENCE)
        service("mortal", "dies")

    reviving = threading.Thread(target=revive)
    reviving.start()
    rows = retrying.collect()
    reviving.join(PATIENCE)
    assert is_right(rows)
    assert (tmp_path / "died").exists()


def test_a_service_that_is_not_idempotent_never_runs_twice_for_a_batch(
    spark: Any, sp: Speed, service: Callable[..., Service], tmp_path: Path
) -> None:
    service("fragile", "dies").ready()
    with pytest.raises(Exception, match=r"NodeLeftError: fragile\.twice, batch \d+ \(rows"):
        doubled(sp, spark, "fragile").collect()
    assert max(Counter(row for row, _ in batches(tmp_path)).values()) == 1


def test_a_node_that_leaves_hands_its_share_to_the_others(
    spark: Any, sp: Speed, service: Callable[..., Service], tmp_path: Path
) -> None:
    leaving, _ = service("shift.a", "slow").ready(), service("shift.b", "slow").ready()
    shared = doubled(sp, spark, "shift.*", idempotent=True, retries=2, in_flight=2)
    collected: list[Any] = []
    job = threading.Thread(target=lambda: collected.extend(shared.collect()))
    job.start()
    assert until(lambda: "shift.a" in {node for _, node in batches(tmp_path)})
    leaving.leave()
    job.join(PATIENCE)
    assert is_right(collected)
    assert {node for _, node in batches(tmp_path)} == {"shift.a", "shift.b"}


def test_a_node_that_is_away_when_the_job_starts_is_waited_for(
    spark: Any, sp: Speed, service: Callable[..., Service]
) -> None:
    present = service("late").ready()
    waiting = doubled(sp, spark, "late", wait_seconds=PATIENCE)
    present.leave()
    service("late")
    assert is_right(waiting.collect())


def test_a_node_that_stays_away_is_named(spark: Any, sp: Speed, service: Callable[..., Service]) -> None:
    present = service("away").ready()
    waiting = doubled(sp, spark, "away", wait_seconds=0.2)
    present.leave()
    with pytest.raises(
        Exception, match=r"UnknownNodeError: twice, batch 0 \(rows.*no node 'away' is there \(after 0.2 s"
    ):
        waiting.collect()


def test_a_fall_back_is_asked_while_the_node_is_away(
    spark: Any, sp: Speed, service: Callable[..., Service], tmp_path: Path
) -> None:
    present = service("main").ready()
    service("spare").ready()
    job = doubled(sp, spark, "main", fallback="spare")
    assert is_right(job.collect())
    assert {node for _, node in batches(tmp_path)} == {"main"}
    present.leave()
    assert is_right(job.collect())
    assert {node for _, node in batches(tmp_path)} == {"main", "spare"}


def test_neither_a_node_nor_its_fall_back_is_there(spark: Any, sp: Speed) -> None:
    with pytest.raises(speed.UnknownNodeError, match=r"no node 'main' or 'spare' is there \(after 0 s\)"):
        doubled(sp, spark, "main", fallback="spare", wait_seconds=0)


def test_the_node_with_the_fewest_calls_under_way_is_asked(
    spark: Any, sp: Speed, service: Callable[..., Service], tmp_path: Path
) -> None:
    for one in (service("pace.slow", "slow"), service("pace.fast")):
        one.ready()
    many = spark.range(30 * ROWS_A_BATCH).coalesce(1).selectExpr("id AS a")
    sp.enrich(many, node="pace.*", service="twice", columns=["a"], returns="b long").collect()
    asked = Counter(node for _, node in batches(tmp_path))
    assert asked["pace.fast"] > asked["pace.slow"] >= 1


def test_a_worker_that_is_not_allowed_says_so(spark: Any, sp: Speed, module_root: str) -> None:
    """A-3: the driver's own node is, so that the job starts."""
    with speed.Node("private", root=module_root) as private:
        private.register("twice", by_array(lambda a: 2 * a))
        private.allow(sp.node_name)
        with pytest.raises(Exception, match=r"AccessDeniedError: twice, batch 0.*private does not allow etl\.local"):
            doubled(sp, spark, "private", wait_seconds=0.2).collect()


def test_a_grant_that_comes_late_is_seen(spark: Any, sp: Speed, module_root: str) -> None:
    with speed.Node("hesitant", root=module_root) as hesitant:
        hesitant.register("twice", by_array(lambda a: 2 * a))
        hesitant.allow(sp.node_name)
        waiting = doubled(sp, spark, "hesitant")
        timer = threading.Timer(0.3, hesitant.allow, ["etl.*"])
        timer.start()
        assert is_right(waiting.collect())
        timer.join()


def test_an_answer_that_does_not_come_in_time_fails_the_job_or_gives_nulls(
    spark: Any, sp: Speed, module_root: str
) -> None:
    """S-4."""
    over = threading.Event()
    with speed.Node("stuck", root=module_root, workers=8) as stuck:
        stuck.register("twice", by_array(lambda a: over.wait(PATIENCE)))
        stuck.allow("etl.*")
        try:
            with pytest.raises(Exception, match=r"CallTimeoutError: stuck\.twice, batch 0"):
                doubled(sp, spark, "stuck", timeout_seconds=0.2).collect()
            nulls = doubled(sp, spark, "stuck", timeout_seconds=0.2, on_error="null", in_flight=8)
            assert {row.b for row in nulls.collect()} == {None}
        finally:
            over.set()


@pytest.fixture
def callers(module_root: str) -> Iterator[list[str]]:
    """Who called the service ``who.note``, one entry a batch."""
    noted: list[str] = []

    class Note:
        def invoke(self, request: Any) -> Any:
            noted.append(request.caller)
            return request.arguments["a"]

    with speed.Node("who", root=module_root) as who:
        who.register("note", Note())
        who.allow("etl.*")
        yield noted


@pytest.mark.parametrize("path", ["jvm"], indirect=True)
def test_an_executor_makes_one_node_and_keeps_it(spark: Any, sp: Speed, callers: list[str]) -> None:
    """``etl.<application>.<executor>``, the same one in every job, of the JVM."""
    for _ in range(4):
        sp.enrich(frame(spark, 4), node="who", service="note", columns=["a"], returns="b long").collect()
    name = f"etl.{spark.sparkContext.applicationId}.driver"
    assert set(callers) == {name}
    (entry,) = [entry for entry in sp.nodes() if entry.name == name]
    assert (entry.generation, entry.language) == (1, "java")
    assert "java" in psutil.Process(entry.pid).name()


@pytest.mark.parametrize("path", ["python"], indirect=True)
def test_a_worker_makes_one_node_and_keeps_it(spark: Any, sp: Speed, callers: list[str]) -> None:
    """``etl.<application>.<executor>.<pid>``, the same one in every job."""
    for _ in range(4):
        sp.enrich(frame(spark, 4), node="who", service="note", columns=["a"], returns="b long").collect()
    names = set(callers)
    application = spark.sparkContext.applicationId
    pids = {int(name.removeprefix(f"etl.{application}.driver.")) for name in names}
    assert all("pyspark" in " ".join(psutil.Process(pid).cmdline()) for pid in pids)
    assert 1 <= len(pids) <= 2
    entries = {entry.name: entry for entry in sp.nodes() if entry.name in names}
    assert entries.keys() == names
    assert {entry.generation for entry in entries.values()} == {1}
    assert {entry.pid for entry in entries.values()} == pids


@pytest.mark.parametrize("path", ["python"], indirect=True)
def test_a_worker_that_ends_at_once_leaves_nothing_listed(
    spark: Any, sp: Speed, callers: list[str], module_root: str
) -> None:
    """R-8: the entry of a process that is gone is stale; whoever looks next removes it."""

    def end(rows: Iterator[Any]) -> Iterator[Any]:
        list(rows)
        os._exit(1)
        yield

    sp.enrich(frame(spark, 2), node="who", service="note", columns=["a"], returns="b long").collect()
    with pytest.raises(Exception, match=r"exited unexpectedly|crashed|EOF"):
        frame(spark, 2).mapInArrow(end, "a long").collect()  # Spark takes the workers that it has
    dead = [name for name in set(callers) if not psutil.pid_exists(int(name.rsplit(".", 1)[1]))]
    assert dead
    assert until(lambda: not {entry.name for entry in sp.nodes()} & set(dead))


def test_the_figures_of_failed_tasks_count_too(spark: Any, sp: Speed, module_root: str) -> None:
    def positive(a: int) -> int:
        if a == ROWS - 1:
            raise ValueError("too much")
        return a

    with speed.Node("limit", root=module_root) as limit:
        limit.register("positive", by_row(positive))
        limit.allow("etl.*")
        one = spark.range(ROWS).coalesce(1).selectExpr("id AS a")
        asked = {"node": "limit", "service": "positive", "columns": ["a"], "returns": "b long"}
        failing = sp.enrich(one, **asked, in_flight=1, batch_bytes=1000)  # for 100 rows, and not for twice as many
        before = sp.metrics
        with pytest.raises(Exception, match=r"row 999: .*too much"):
            failing.collect()
        after = sp.metrics
    assert after["calls"] - before["calls"] == 10
    assert after["rows"] - before["rows"] == 900
    assert after["bytes"] - before["bytes"] == 900 * 8


def test_retries_are_counted(spark: Any, sp: Speed, module_root: str) -> None:
    answered = threading.Event()
    late: set[int] = set()

    def once_late(a: Any) -> Any:
        first = int(a[0])
        if not late:
            late.add(first)
            answered.wait(PATIENCE)
        return a

    with speed.Node("sluggish", root=module_root, workers=8) as sluggish:
        sluggish.register("twice", by_array(once_late))
        sluggish.allow("etl.*")
        before = sp.metrics["retries"]
        doubled(sp, spark, "sluggish", idempotent=True, retries=1, timeout_seconds=1).collect()
        answered.set()
    assert sp.metrics["retries"] == before + 1


def test_several_nodes_of_one_family_share_the_load(spark: Any, sp: Speed, module_root: str) -> None:
    with speed.Node("twin.a", root=module_root) as a, speed.Node("twin.b", root=module_root) as b:
        for node in (a, b):
            node.register("who", by_row(lambda a, name=node.name: name))
            node.allow("etl.*")
        asked = sp.enrich(frame(spark), node="twin.*", service="who", columns=["a"], returns="who string")
        assert {row.who for row in asked.collect()} == {"twin.a", "twin.b"}


def test_a_task_that_is_cancelled_withdraws_its_calls(spark: Any, sp: Speed, module_root: str) -> None:
    begun, ended = threading.Semaphore(0), threading.Semaphore(0)

    class Holds:
        def invoke(self, request: Any) -> Any:
            begun.release()
            if request.cancellation.wait(PATIENCE):
                ended.release()
            return request.arguments["a"]

    with speed.Node("holds", root=module_root, workers=8) as holds:
        holds.register("twice", Holds())
        holds.allow("etl.*")

        def run() -> None:
            spark.sparkContext.setJobGroup("held", "a job that is cancelled", interruptOnCancel=False)
            with pytest.raises(Exception, match="cancelled"):
                sp.enrich(frame(spark), node="holds", service="twice", columns=["a"], returns="b long").collect()

        job = threading.Thread(target=run)
        job.start()
        assert all(begun.acquire(timeout=PATIENCE) for _ in range(4))
        spark.sparkContext.cancelJobGroup("held")
        job.join(PATIENCE)
        assert all(ended.acquire(timeout=PATIENCE) for _ in range(4))
