"""Spark on a real YARN whose hosts share no root: in client mode, and in cluster mode, where a node has the driver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.key_forms import holds_key
from tests.system.spark_drivers import Driver, Site, driver_on, rows_are_right
from tests.system.spark_hosts import Host, Network
from tests.system.spark_hosts_job import ROWS
from tests.system.spark_sessions import JAVA, ROWS_A_BATCH, SOURCES, spark_home
from tests.system.yarn_cluster import DRIVER_MB, EXECUTOR_MB, Yarn

pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.java]

OVERHEAD_MB = 128
SPARK = {
    "spark.executor.instances": "2",
    "spark.executor.memory": f"{EXECUTOR_MB - OVERHEAD_MB}m",
    "spark.executor.memoryOverhead": f"{OVERHEAD_MB}m",
    "spark.driver.memory": f"{DRIVER_MB - OVERHEAD_MB}m",
    "spark.driver.memoryOverhead": f"{OVERHEAD_MB}m",
    "spark.yarn.am.memory": f"{DRIVER_MB - OVERHEAD_MB}m",
    "spark.yarn.am.memoryOverhead": f"{OVERHEAD_MB}m",
    "spark.yarn.maxAppAttempts": "1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "100s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_A_BATCH),
    "spark.task.maxFailures": "1",
    "spark.ui.enabled": "false",
}


class Cluster(Site):
    """A host with the resource manager, from which jobs are submitted, and two with a node manager each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.root = directory / "speed"
        self.root.mkdir()
        self._network = Network()
        super().__init__(self._host("home"))
        self.workers += [self._host(f"host-{number}") for number in (1, 2)]
        self.yarn = Yarn(directory / "yarn", self.home, self.workers)
        self._own = {"SPEED_ROOT": str(self.root), "SPEED_KEY": f"{self.root}/speed.key"}

    def _host(self, name: str) -> Host:
        host = Host(self._network, name, self.root, self._directory / name)
        host.serve()
        return host

    @property
    def _settings(self) -> dict[str, str]:
        return {
            **SPARK,
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.yarn.stagingDir": (self.yarn.directory / "staging").as_uri(),
            **self._told("spark.executorEnv"),
        }

    def _told(self, whom: str) -> dict[str, str]:
        environment = {**self._own, **JAVA, "PYTHONPATH": SOURCES}
        return {f"{whom}.{name}": value for name, value in environment.items()}

    def client(self, path: str) -> Driver:
        """The driver of client mode."""
        address = {"spark.driver.host": self.home.address, "spark.driver.bindAddress": self.home.address}
        environment = {**self.yarn.environment, **self._own}
        settings = {**self._settings, **address, "spark.speed.path": path}
        return driver_on(self.home, "yarn", settings, root="", environment=environment)

    def submitted(self, path: str) -> Driver:
        """The driver of cluster mode, on a host that YARN chooses."""
        pipes = [self._directory / name for name in ("asked", "answers")]
        for pipe in pipes:
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
        process = self._submit(path, f"{SOURCES}/tests/system/spark_yarn_job.py", *map(str, pipes))
        asked, answers = (os.open(pipe, os.O_RDWR) for pipe in pipes)  # which waits for no other end
        return Driver(process, os.fdopen(asked, "w"), os.fdopen(answers))

    def _submit(self, path: str, *job: str) -> subprocess.Popen[str]:
        driver = {
            **self._told("spark.yarn.appMasterEnv"),
            "spark.pyspark.python": sys.executable,
            "spark.speed.path": path,
        }
        words = [word for name, value in {**self._settings, **driver}.items() for word in ("--conf", f"{name}={value}")]
        submit = [f"{spark_home()}/bin/spark-submit", "--master", "yarn", "--deploy-mode", "cluster", *words]
        with (self._directory / "submit.log").open("w") as log:
            return subprocess.Popen(
                [*self.home.inside, *submit, *job],
                env={**os.environ, **JAVA, **self.yarn.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
            )

    def stop(self) -> None:
        self.yarn.stop()
        for host in (*self.workers, self.home):
            host.stop()
        self._network.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("yarn"))
    try:
        made.yarn.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module", params=[pytest.param("client", marks=pytest.mark.thorough), "cluster"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["jvm", pytest.param("python", marks=pytest.mark.thorough)])
def path(request: pytest.FixtureRequest) -> str:
    """As elsewhere. That each keeps calls on their host without YARN, too, is in ``test_spark_hosts.py``."""
    return str(request.param)


@pytest.fixture(scope="module")
def driver(cluster: Cluster, mode: str, path: str) -> Iterator[Driver]:
    """The driver of each mode in turn, whose services are called on each path."""
    made = cluster.client(path) if mode == "client" else cluster.submitted(path)
    yield made
    made.stop()


@contextmanager
def without_service(host: Host) -> Iterator[None]:
    host.kill_service()
    try:
        yield
    finally:
        host.serve()


def test_every_call_stays_on_the_host_of_its_executor(cluster: Cluster, driver: Driver) -> None:
    """Though the driver sees a root under the same path, on a host that has the service."""
    result = cluster.spread(driver)
    assert rows_are_right(result)
    assert cluster.strays(result) == {}
    assert result["metrics"]["rows"] == ROWS


def test_the_driver_is_on_the_host_that_the_mode_says(cluster: Cluster, driver: Driver, mode: str) -> None:
    hosts = [cluster.home] if mode == "client" else cluster.workers
    assert driver.done("driver_node")["host"] in {host.name for host in hosts}


def test_a_host_without_the_service_is_named(cluster: Cluster, driver: Driver) -> None:
    with without_service(cluster.workers[1]):
        error = driver.failed("enrich", {"executors": "own"}, wait_seconds=1)
    assert "UnknownNodeError: executor" in error
    assert "on host-2: no node 'geo' is there (after 1 s)" in error


def test_no_key_is_found_below_the_directories_of_yarn(cluster: Cluster, driver: Driver) -> None:
    """Local and log directories, logs of the daemons, and what was staged, while executors and their node hold keys."""
    cluster.spread(driver)
    seen = {path: path.read_bytes() for path in cluster.yarn.directory.rglob("*") if path.is_file()}
    for name in ("launch_container.sh", "__spark_conf__.properties"):
        assert any(path.name == name and b"SPEED_KEY" in text for path, text in seen.items())
    assert any(path.name == "stderr" for path in seen)
    keys = [host.key for host in (cluster.home, *cluster.workers)]
    assert [path for path, text in seen.items() if any(holds_key(text, key) for key in keys)] == []
