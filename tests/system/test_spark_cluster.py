"""Services on columns where the executors are processes of their own: a standalone cluster, and ``local-cluster``."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.column_services import by_array
from speed.fs.keyfile import read_keys
from speed.spark import Speed
from tests.system.key_forms import holds_key
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


def test_executors_of_a_local_cluster_call_services(
    spark_sessions: Sessions, module_root: str, service: list[str], path: str
) -> None:
    import pyspark

    spark = spark_sessions.get("local-cluster[2,1,1024]", EXECUTOR)
    try:
        service.clear()
        assert is_right(doubled(Speed(spark, root=module_root, path=path), spark).collect())
        prefix = f"etl.{spark.sparkContext.applicationId}."
        assert {name.removeprefix(prefix).split(".")[0] for name in service} <= {"0", "1"}
        assert all(name.startswith(prefix) for name in service)
    finally:
        work = Path(pyspark.__file__).parent / "work" / spark.sparkContext.applicationId
        spark_sessions.stop()
        shutil.rmtree(work, ignore_errors=True)
