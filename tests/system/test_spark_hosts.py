"""A cluster whose hosts share no root: each host has mounts, a network address, a root and a key of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import speed
from speed.errors import UnknownNodeError
from speed.fs.keyfile import read_keys, write_key_file
from speed.spark import CallSettings, NodeSettings
from speed.spark.calls import ROWS_A_CALL
from speed.spark.nodes import JobNodes, check_here
from speed.wire.seal import Keyring
from tests.system.commands import PATIENCE
from tests.system.spark_drivers import Driver, Site, driver_on, rows_are_right, until
from tests.system.spark_hosts import Host, Network
from tests.system.spark_hosts_job import MANY, ROWS
from tests.system.spark_sessions import Place, StandaloneCluster

pytestmark = [pytest.mark.system, pytest.mark.spark]

CONNECT_PORT = 15002
EXECUTOR = {"spark.executor.memory": "512m", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
"""Jobs begin on all hosts, not on the first to be there."""
OWN = {"executors": "own"}
Away = Callable[[Host], None]


class Cluster(Site):
    """Hosts with a worker and the service each, and one of the driver and the master that has the service too."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "speed"
        self.root.mkdir()
        self._directory = directory
        self._network = Network()
        self._spark = StandaloneCluster(directory)
        self._driver: tuple[Any, Driver] | None = None
        super().__init__(self._host("home"))
        self.laptop = Host(self._network, "laptop", self.root, directory / "laptop", has_key=False)
        self._master = self._spark.start(place=place(self.home))

    def grow(self, number: int) -> None:
        """So many hosts with workers more."""
        joining = [self._host(f"host-{len(self.workers) + one}") for one in range(1, number + 1)]
        self.workers += joining
        self.begin_workers(joining)

    def begin_workers(self, hosts: Sequence[Host]) -> None:
        self._spark.add_workers(*(({}, place(host)) for host in hosts))

    def driver(self, host: Host, **config: str) -> Driver:
        """A driver with this configuration; the one before it is ended, if it is another."""
        asked = (host.name, config)
        if self._driver is None or self._driver[0] != asked:
            self._end_driver()
            own = {"spark.driver.host": host.address, "spark.driver.bindAddress": host.address}
            self._driver = (asked, driver_on(host, self._master, {**EXECUTOR, **own, **config}))
        return self._driver[1]

    def stop(self) -> None:
        self._end_driver()
        self._spark.stop()
        for host in (*self.workers, self.home, self.laptop):
            host.stop()
        self._network.stop()

    def _host(self, name: str) -> Host:
        host = Host(self._network, name, self.root, self._directory / name)
        host.serve()
        return host

    def _end_driver(self) -> None:
        if self._driver is not None:
            self._driver[1].stop()
        self._driver = None


def place(host: Host) -> Place:
    return Place(host.address, host.inside)


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("hosts"))
    try:
        made.grow(2)
        yield made
    finally:
        made.stop()


@pytest.fixture
def cluster(two_hosts: Cluster) -> Cluster:
    """With each service there, which has noted nothing."""
    two_hosts.forget()
    return two_hosts


@pytest.fixture
def client(cluster: Cluster, path: str) -> Driver:
    """The driver of client mode, on a host without workers. Other clients reach it by Spark Connect."""
    connect = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}
    connect["spark.connect.grpc.binding.address"] = cluster.home.address
    connect["spark.connect.grpc.binding.port"] = str(CONNECT_PORT)
    return cluster.driver(cluster.home, **connect, **{"spark.task.maxFailures": "1", "spark.speed.path": path})


@pytest.fixture
def four_hosts(cluster: Cluster) -> Cluster:
    """With two hosts more than at first."""
    cluster.grow(4 - len(cluster.workers))
    return cluster


@pytest.fixture
def driver_among_workers(four_hosts: Cluster, path: str) -> Driver:
    """A driver on a host with a worker, once all hosts work for it. Hosts where tasks fail are left out of a job."""
    excluding = {"spark.excludeOnFailure.enabled": "true", "spark.excludeOnFailure.timeout": "1s"}
    driver = four_hosts.driver(four_hosts.workers[0], **excluding, **{"spark.speed.path": path})
    four_hosts.spread(driver, speed=OWN)
    four_hosts.forget()
    return driver


@pytest.fixture
def away() -> Iterator[Away]:
    """Takes the service of a host away until the test ends."""
    without: list[Host] = []

    def end(host: Host) -> None:
        host.kill_service()
        without.append(host)

    yield end
    for host in without:
        host.kill_service()
        host.serve()


def test_that_workers_have_other_roots_than_the_driver_is_found_out(cluster: Cluster, client: Driver) -> None:
    """Though the driver has a root and a key under the same paths, and there the service."""
    result = cluster.spread(client)
    assert rows_are_right(result)
    assert cluster.strays(result) == {}
    assert result["metrics"]["rows"] == ROWS


def test_a_driver_without_the_key_finds_it_out_too(cluster: Cluster, client: Driver) -> None:
    key = f"{cluster.root}/worker.key"
    for host in cluster.workers:
        host.run("cp", "-p", f"{cluster.root}/speed.key", key)
    result = cluster.spread(client, speed={"key": key})
    assert rows_are_right(result)
    assert cluster.strays(result) == {}


def test_no_row_passes_the_driver_or_another_host(cluster: Cluster, client: Driver) -> None:
    """Rows and answers are of 8 bytes each."""
    client.done("enrich", OWN)  # by now executors have what they run
    hosts = [cluster.home, *cluster.workers]
    before = [host.network_bytes for host in hosts]
    assert client.done("sum", OWN)["sum"] == MANY * (MANY - 1)
    assert max(host.network_bytes - past for host, past in zip(hosts, before, strict=True)) < MANY
    assert sum(len(host.noted("rows")) for host in cluster.workers) >= MANY // ROWS_A_CALL


def test_nobody_but_its_own_host_is_seen_by_the_node_of_a_driver(cluster: Cluster, client: Driver) -> None:
    client.done("enrich")
    assert client.done("nodes")["others"] == ["geo"]


def test_a_host_without_the_service_is_named(cluster: Cluster, client: Driver, away: Away) -> None:
    away(cluster.workers[1])
    error = client.failed("enrich", OWN, wait_seconds=1)
    assert "UnknownNodeError: executor" in error
    assert "on host-2: no node 'geo' is there (after 1 s)" in error


def test_a_host_without_the_service_asks_the_fall_back_that_is_there(
    cluster: Cluster, client: Driver, away: Away
) -> None:
    away(cluster.workers[1])
    cluster.workers[1].serve("geo.backup")
    result = cluster.spread(client, speed=OWN, fallback="geo.backup")
    assert rows_are_right(result)
    assert cluster.strays(result) == {}


def test_a_service_that_is_restarted_ends_no_job(cluster: Cluster, client: Driver, away: Away) -> None:
    first = cluster.workers[0]
    away(first)
    first.serve(mode="holds")
    client.begin("enrich", OWN, idempotent=True, retries=3, in_flight=1)
    until(lambda: bool(first.noted("rows")))
    first.kill_service()
    first.serve()
    result = client.result()
    assert "error" not in result, result["error"]
    assert rows_are_right(result)
    assert cluster.strays(result) == {}


def test_a_task_that_lags_behind_is_run_on_another_host(cluster: Cluster, path: str, away: Away) -> None:
    """Spark's speculation, which never starts a task twice on one host: the one that lags is killed."""
    first = cluster.workers[0]
    away(first)
    first.serve(mode="holds")
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "50ms",
        "spark.task.maxFailures": "1",
        "spark.speed.path": path,
    }
    result = cluster.driver(cluster.home, **speculation).done("enrich", OWN, idempotent=True)
    assert rows_are_right(result)
    assert first.name not in {host for _, _, host in result["rows"]}


def test_a_host_whose_key_differs_from_that_of_its_service_is_named(
    cluster: Cluster, client: Driver, path: str
) -> None:
    other = cluster.workers[1]
    key = f"{cluster.root}/other.{path}.key"
    other.speed("key", "new", key)
    for host in cluster.workers:  # those that joined for another test too
        if host is not other:
            host.run("cp", "-p", f"{cluster.root}/speed.key", key)
    error = client.failed("enrich", {"key": key, "name": "etl.keyed", **OWN})
    assert "on host-2: " in error, error
    said = ("of another key: use the key of", "not authentic: use the key of", "the key differs: geo on this host has")
    assert any(text in error for text in said), error


@pytest.mark.parametrize("verb", ["stream", "batches"])
def test_streams_are_enriched_on_their_hosts(cluster: Cluster, client: Driver, verb: str) -> None:
    """As a whole, or batch by batch in ``foreachBatch``."""
    result = cluster.spread(client, verb, OWN)
    assert rows_are_right(result)
    assert cluster.strays(result) == {}


def test_rows_are_written_to_the_node_of_the_host_that_has_them(cluster: Cluster, client: Driver) -> None:

    def all_hosts_take_part() -> bool:
        cluster.forget()
        client.done("write")
        return all(host.noted("messages") for host in cluster.workers)

    until(all_hosts_take_part)
    taken = [host.noted("messages") for host in cluster.workers]
    assert sorted(number for one in taken for number in one) == list(range(ROWS))
    assert not cluster.home.noted("messages")


def test_rows_for_a_node_that_a_host_lacks_name_that_host(cluster: Cluster, client: Driver, away: Away) -> None:
    away(cluster.workers[1])
    assert "on host-2: " in client.failed("write", timeoutSeconds="1")


def test_a_node_of_the_driver_calls_services_of_its_host_alone(client: Driver) -> None:
    assert client.done("driver_node") == {"host": "home"}


@pytest.mark.parametrize("path", ["python"], indirect=True)
@pytest.mark.parametrize("name", ["home", "laptop"])
def test_a_client_of_spark_connect_finds_it_out(cluster: Cluster, client: Driver, name: str) -> None:
    """With a root and a key of its own, and with neither."""
    client.done("enrich")  # it serves by now
    remote = driver_on(getattr(cluster, name), f"sc://{cluster.home.address}:{CONNECT_PORT}", {})
    try:
        result = cluster.spread(remote)
    finally:
        remote.stop()
    assert rows_are_right(result)
    assert cluster.strays(result) == {}
    assert result["metrics"]["rows"] == 0  # nothing tells a client of them: its host sees no worker


def test_hosts_that_join_take_part(four_hosts: Cluster, client: Driver) -> None:
    result = four_hosts.spread(client, speed=OWN)
    assert rows_are_right(result)
    assert len(four_hosts.workers) == 4
    assert four_hosts.strays(result) == {}


def test_a_driver_on_the_host_of_a_worker_finds_out_that_the_others_have_their_own(
    four_hosts: Cluster, driver_among_workers: Driver
) -> None:
    """As in cluster mode: one worker sees the driver's root."""
    result = four_hosts.spread(driver_among_workers)
    assert rows_are_right(result)
    assert four_hosts.strays(result) == {}


def test_a_host_that_spark_excludes_is_done_without(
    four_hosts: Cluster, driver_among_workers: Driver, away: Away
) -> None:
    away(four_hosts.workers[2])
    result = driver_among_workers.done("enrich", OWN, wait_seconds=1)
    assert rows_are_right(result)
    assert "host-3" not in {host for _, _, host in result["rows"]}


def test_a_job_outlives_a_worker_that_is_killed(four_hosts: Cluster, driver_among_workers: Driver, away: Away) -> None:
    last = four_hosts.workers[3]
    away(last)
    last.serve(mode="holds")
    driver_among_workers.begin("enrich", OWN, idempotent=True)
    until(lambda: bool(last.noted("rows")))
    last.kill("java")
    try:
        result = driver_among_workers.result()
        assert "error" not in result, result["error"]
        assert rows_are_right(result)
        assert last.name not in {host for _, _, host in result["rows"]}
    finally:
        four_hosts.begin_workers([last])


BOTH_KEYS = r"after 0 s.*the key differs: geo on this host has [0-9a-f]+, this worker has [0-9a-f]+"


def test_a_worker_whose_key_differs_is_told_both_key_ids_and_no_key_without_a_wait(root: str, tmp_path: Path) -> None:
    key, mine, theirs = str(tmp_path / "other.key"), os.urandom(32), read_keys(f"{root}/speed.key")[0]
    write_key_file(key, (mine,))
    call = CallSettings("geo", "twice", wait_seconds=PATIENCE)
    settings = NodeSettings(root=root, key=key, prefix="etl", application="a")
    with (
        speed.Node("geo", root=root, allow=["etl.*"]),
        speed.Node("etl.a", root=root, key=key) as node,
        pytest.raises(
            UnknownNodeError, match=r"after 0 s.*the key differs: geo on this host has [0-9a-f]+, this worker"
        ) as error,
    ):
        check_here(JobNodes(node), settings, call)
    assert Keyring((mine,)).key_id.hex() in str(error.value)
    assert Keyring((theirs,)).key_id.hex() in str(error.value)
    assert mine.hex() not in str(error.value)
