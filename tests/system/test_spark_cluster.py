"""Services on columns where the executors are processes of their own: a standalone cluster, and ``local-cluster``."""

from __future__ import annotations

import shutil
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import speed
from speed import columns
from speed.column_services import by_array
from speed.fs.keyfile import read_keys
from speed.spark import Speed, paths
from tests.system.commands import PATIENCE
from tests.system.key_forms import holds_key
from tests.system.spark_drivers import JOB_SECONDS, until
from tests.system.spark_sessions import Sessions, StandaloneCluster

pytestmark = [pytest.mark.system, pytest.mark.spark]

ROWS = 1000
EXECUTOR = {"spark.executor.memory": "512m", "spark.task.maxFailures": "1"}


@pytest.fixture(scope="module", autouse=True)
def service(module_root: str) -> Iterator[list[str]]:
    """Who called ``math.twice``."""
    callers: list[str] = []

    class Twice:
        def invoke(self, request: Any) -> Any:
            callers.append(request.caller)
            return by_array(lambda a: 2 * a).invoke(request)

    with speed.Node("math", root=module_root) as node:
        node.register("twice", Twice())
        node.allow("etl.*", "nokey.*")
        yield callers


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that Spark writes: event log, work directories and logs of executors, master, workers and driver."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def master(directory: Path, spark_sessions: Sessions) -> Iterator[str]:
    """A standalone cluster; the second worker's processes look for their key in the wrong place."""
    cluster = StandaloneCluster(directory)
    try:
        yield cluster.start({}, {"SPEED_KEY": str(directory / "nokey" / "speed.key")})
    finally:
        spark_sessions.stop()  # before its master
        cluster.stop()


@pytest.fixture
def standalone(master: str, directory: Path, spark_sessions: Sessions) -> Any:
    """The session on the cluster, started again where another test ended it."""
    events = directory / "events"
    events.mkdir(exist_ok=True)
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.logConf": "true",
    }
    return spark_sessions.get(master, {**EXECUTOR, **logged})


def doubled(sp: Speed, spark: Any) -> Any:
    frame = spark.range(ROWS).selectExpr("id AS a").repartition(4)
    return sp.enrich(frame, node="math", service="twice", columns=["a"], returns="b long")


def is_right(rows: list[Any]) -> bool:
    return sorted((row.a, row.b) for row in rows) == [(number, 2 * number) for number in range(ROWS)]


@pytest.mark.rotate("path", 1)
def test_executors_of_a_standalone_cluster_call_services(
    standalone: Any, module_root: str, service: list[str], path: str
) -> None:
    """Each with a node named after its executor."""
    sp = Speed(standalone, root=module_root, key=f"{module_root}/speed.key", path=path)
    service.clear()
    assert is_right(doubled(sp, standalone).collect())
    prefix = f"etl.{standalone.sparkContext.applicationId}."
    assert {name.removeprefix(prefix).split(".")[0] for name in service} == {"0", "1"}
    assert sp.metrics["rows"] == ROWS


def test_a_key_that_one_executor_lacks_is_said_by_name(
    standalone: Any, module_root: str, directory: Path, path: str
) -> None:
    """W-14: no key given, so that each executor looks for its own."""
    sp = Speed(standalone, root=module_root, name="nokey", path=path)
    missing = directory / "nokey" / "speed.key"
    with pytest.raises(Exception, match=rf"KeyFileError: executor \d on .*: there is no key file {missing}"):
        doubled(sp, standalone).collect()


def test_the_key_shows_nowhere(standalone: Any, module_root: str, directory: Path, path: str) -> None:
    """Not in the event log, not in the logs of driver and executors, not on the pages of the application."""
    sp = Speed(standalone, root=module_root, key=f"{module_root}/speed.key", path=path)
    assert is_right(doubled(sp, standalone).collect())
    address = standalone.sparkContext.uiWebUrl
    application = f"{address}/api/v1/applications/{standalone.sparkContext.applicationId}"
    pages = [f"{application}/{page}" for page in ("environment", "jobs", "stages", "sql", "allexecutors")]
    seen = {page: fetched(page) for page in [*pages, f"{address}/environment/", f"{address}/SQL/"]}
    seen |= {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}
    ours = standalone.sparkContext.applicationId
    (events,) = (place for place in seen if "/events_" in place and ours in place)
    assert b"SparkListenerTaskEnd" in seen[events]
    assert b"spark.master" in seen[f"{application}/environment"]
    assert any(place.endswith("/stderr") for place in seen)
    (key,) = read_keys(f"{module_root}/speed.key")
    assert [place for place, text in seen.items() if holds_key(text, key)] == []


def fetched(page: str) -> bytes:
    with urllib.request.urlopen(page, timeout=30) as answer:
        return answer.read()


@contextmanager
def local_cluster(spark_sessions: Sessions, **config: str) -> Iterator[Any]:
    """Two executors of one core each, and no more of them on disk than is needed."""
    import pyspark

    spark = spark_sessions.get("local-cluster[2,1,1024]", {**EXECUTOR, **config})
    work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
    try:
        yield spark
    finally:
        spark_sessions.stop()
        shutil.rmtree(work, ignore_errors=True)


@pytest.mark.rotate("path", 1)
def test_executors_of_a_local_cluster_call_services(
    spark_sessions: Sessions, module_root: str, service: list[str], path: str
) -> None:
    with local_cluster(spark_sessions) as spark:
        service.clear()
        assert is_right(doubled(Speed(spark, root=module_root, path=path), spark).collect())
        prefix = f"etl.{spark.sparkContext.applicationId}."
        assert {name.removeprefix(prefix).split(".")[0] for name in service} <= {"0", "1"}
        assert all(name.startswith(prefix) for name in service)


@pytest.mark.parametrize("path", ["jvm"], indirect=True)
def test_a_jar_that_is_there_from_the_start_is_taken(
    spark_sessions: Sessions, module_root: str, service: list[str], path: str
) -> None:
    with local_cluster(spark_sessions, **{"spark.jars": str(paths.here())}) as spark:
        service.clear()
        assert is_right(doubled(Speed(spark, root=module_root, path=path), spark).collect())
        assert service
        jars = spark.sparkContext._jsc.sc().listJars().mkString(" ")
        assert jars.count("speed-spark_") == 1


class Held:
    """Doubles numbers; a batch with row 0 is held as long as it is asked for the first time."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.goes_on = threading.Event()
        self.asked = 0
        self._lock = threading.Lock()

    def invoke(self, request: Any) -> Any:
        numbers = columns.to_numpy(request.arguments["a"])
        if 0 in numbers:
            with self._lock:
                self.asked += 1
                is_first = self.asked == 1
            self.begun.set()
            if is_first:
                self.goes_on.wait(PATIENCE)
            else:
                self.goes_on.set()
        return columns.from_numpy(2 * numbers)


@pytest.fixture
def held(module_root: str) -> Iterator[Held]:
    with speed.Node("held", root=module_root, allow=["etl.*"]) as node:
        made = Held()
        node.register("twice", made)
        yield made
        made.goes_on.set()


def asked_of(sp: Speed, spark: Any) -> Any:
    frame = spark.range(0, ROWS, 1, 4).selectExpr("id AS a")
    return sp.enrich(frame, node="held", service="twice", columns=["a"], returns="b long")


def executors() -> list[psutil.Process]:
    """The processes of the executors of a ``local-cluster``, which the driver's JVM starts."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ended meanwhile
            if process.name() == "java" and "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                found.append(process)
    return found


def callers(sp: Speed, spark: Any) -> list[Any]:
    """The nodes of executors and of their workers."""
    family = f"etl.{spark.sparkContext.applicationId}."
    return [entry for entry in sp.nodes() if entry.name.startswith(family) and entry.name != sp.node_name]


@pytest.mark.rotate("path", 1)
def test_an_executor_that_is_killed_costs_no_row_and_leaves_no_node(
    spark_sessions: Sessions, module_root: str, held: Held, path: str
) -> None:
    with local_cluster(spark_sessions, **{"spark.task.maxFailures": "4"}) as spark, ThreadPoolExecutor(1) as pool:
        sp = Speed(spark, root=module_root, path=path)
        rows = pool.submit(lambda: asked_of(sp, spark).collect())
        assert held.begun.wait(PATIENCE)
        for process in executors():
            process.kill()
        assert is_right(rows.result(JOB_SECONDS))
        assert held.asked > 1
        until(lambda: all(psutil.pid_exists(entry.pid) for entry in callers(sp, spark)))


@pytest.mark.rotate("path", 1)
def test_executors_that_come_and_go_with_the_work_have_nodes_as_long(
    spark_sessions: Sessions, module_root: str, path: str
) -> None:
    dynamic = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    }
    with local_cluster(spark_sessions, **dynamic) as spark:
        sp = Speed(spark, root=module_root, path=path)
        for _ in range(2):
            assert is_right(doubled(sp, spark).collect())
            until(lambda: not executors(), JOB_SECONDS, every=0.5)
            until(lambda: not callers(sp, spark))
