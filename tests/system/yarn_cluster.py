"""A real YARN for the tests: a resource manager, and a node manager on each host of `spark_hosts.py`.

The daemons come from Maven Central, once, into the cache that Maven always has: see `yarn/pom.xml`. What else they need
is in the jars of pyspark, so that both must be of one version of Hadoop.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tests.system.spark_hosts import Host
from tests.system.spark_sessions import SOURCES, Daemon, spark_home

_DOWNLOAD_SECONDS = 300.0
_SERVER = "org.apache.hadoop.yarn.server"
HOST_MB, EXECUTOR_MB, DRIVER_MB = 1408, 768, 640
"""What a host has is room for one executor beside a driver, and not for two: each executor has a host of its own."""

_SETTINGS = {
    "fs.defaultFS": "file:///",  # which all hosts see, as they would see HDFS
    "yarn.resourcemanager.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
    "yarn.resourcemanager.connect.retry-interval.ms": "500",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.nodemanager.resource.memory-mb": str(HOST_MB),
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
}


class Yarn:
    """All that it writes lies under ``directory``; a program with ``environment`` finds it."""

    def __init__(self, directory: Path, home: Host, nodes: Sequence[Host]) -> None:
        self.directory = directory
        self.environment = {"HADOOP_CONF_DIR": str(directory / "conf"), "JAVA_HOME": java_home()}
        self._home, self._nodes = home, nodes
        self._daemons: list[Daemon] = []
        self._jars = ""

    def start(self) -> None:
        """Return once all nodes are registered."""
        self.directory.mkdir()
        self._jars = daemon_jars(self.directory / "jars")
        name_each_other([self._home, *self._nodes], self.directory / "hosts")
        self._write_settings()
        self._daemon(self._home, "resourcemanager.ResourceManager")
        started = [self._daemon(node, "nodemanager.NodeManager", *self._places(node)) for node in self._nodes]
        for manager in started:
            manager.says(r"Registered with ResourceManager as (\S+)")

    def _daemon(self, host: Host, kind: str, *settings: str) -> Daemon:
        room = self._place("temporary", host)
        java = ["-Xmx256m", f"-Djava.io.tmpdir={room}", "-Dorg.apache.logging.log4j.level=INFO"]
        classes = f"{self.environment['HADOOP_CONF_DIR']}:{self._jars}"
        words = [*host.inside, "java", *java, "-cp", classes, f"{_SERVER}.{kind}", *settings]
        self._daemons.append(Daemon(words, self.environment, self.directory / f"{host.name}.log"))
        return self._daemons[-1]

    def _places(self, node: Host) -> list[str]:
        """Settings of a node alone."""
        local, logs = self._place("local", node), self._place("logs", node)
        own = {"hostname": node.name, "local-dirs": local, "log-dirs": logs}
        return [f"-Dyarn.nodemanager.{name}={value}" for name, value in own.items()]

    def _place(self, kind: str, host: Host) -> str:
        place = self.directory / kind / host.name
        place.mkdir(parents=True)
        return str(place)

    def _write_settings(self) -> None:
        conf = Path(self.environment["HADOOP_CONF_DIR"])
        attributes = (self.directory / "attributes").as_uri()
        own = {"resourcemanager.hostname": self._home.name, "node-attribute.fs-store.root-dir": attributes}
        settings = {**_SETTINGS, **{f"yarn.{name}": value for name, value in own.items()}}
        pairs = [f"<name>{name}</name><value>{escape(value)}</value>" for name, value in settings.items()]
        lines = [f"<property>{pair}</property>" for pair in pairs]
        conf.mkdir()
        for kind in ("core", "yarn"):
            (conf / f"{kind}-site.xml").write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))

    def stop(self) -> None:
        """End all at once, as the kernel would: to end slowly takes a node manager ten seconds and serves nobody."""
        for host in (*self._nodes, self._home):
            host.kill("java")  # containers are no children of their node manager's group
        for daemon in self._daemons:
            daemon.stop()


def daemon_jars(listed: Path) -> str:
    """The class path of the daemons; what this machine lacks is downloaded."""
    pom = f"{SOURCES}/tests/system/yarn/pom.xml"
    words = ["mvn", "-q", "-B", "-f", pom, "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"hadoop-client-minicluster-([\d.]+)\.jar", listed.read_text())
    assert found is not None
    same = Path(spark_home(), "jars", f"hadoop-client-api-{found[1]}.jar")
    assert same.exists(), f"{pom} asks for Hadoop {found[1]}, and pyspark has another"
    return f"{listed.read_text()}:{spark_home()}/jars/*"


def java_home() -> str:
    """Containers start what is below it."""
    java = shutil.which("java")
    assert java is not None
    return str(Path(java).resolve().parents[1])


def name_each_other(hosts: Sequence[Host], names: Path) -> None:
    """Give hosts the names of all: YARN tells names, not addresses."""
    lines = [f"{host.address} {host.name}\n" for host in hosts]
    names.write_text("".join(["127.0.0.1 localhost\n", *lines]))
    for host in hosts:
        host.run("mount", "--bind", str(names), "/etc/hosts")
