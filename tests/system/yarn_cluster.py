"""A real YARN for the tests: a resource manager, and a node manager on each host of `spark_hosts.py`.

The daemons come from Maven Central, once, into the cache that Maven always has: see `yarn/pom.xml`. What else they need
is in the jars of pyspark, so that both must be of one version of Hadoop.
"""

from __future__ import annotations

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
    "yarn.nodemanager.delete.debug-delay-sec": "3600",  # what containers leave is looked at
}


class Yarn:
    """All that it writes lies under ``directory``; a program with ``environment`` finds it."""

    def __init__(self, directory: Path, home: Host, nodes: Sequence[Host]) -> None:
        directory.mkdir()
        self.directory = directory
        self.environment = {"HADOOP_CONF_DIR": str(directory / "conf"), "JAVA_HOME": java_home()}
        self._nodes = nodes
        self._jars = daemon_jars(directory / "jars")
        self._daemons: list[Daemon] = []
        name_each_other([home, *nodes], directory / "hosts")
        self._write_settings({"yarn.resourcemanager.hostname": home.name})
        try:
            self._start(home)
        except BaseException:
            self.stop()
            raise

    def _start(self, home: Host) -> None:
        self._daemon(home, "resourcemanager.ResourceManager")
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

    def _write_settings(self, more: dict[str, str]) -> None:
        Path(self.environment["HADOOP_CONF_DIR"]).mkdir()
        attributes = {"yarn.node-attribute.fs-store.root-dir": (self.directory / "attributes").as_uri()}
        settings = {**_SETTINGS, **attributes, **more}
        pairs = [f"<name>{name}</name><value>{escape(value)}</value>" for name, value in settings.items()]
        lines = [f"<property>{pair}</property>" for pair in pairs]
        text = "\n".join(["<configuration>", *lines, "</configuration>", ""])
        for kind in ("core", "yarn"):
            Path(self.environment["HADOOP_CONF_DIR"], f"{kind}-site.xml").write_text(text)

    def stop(self) -> None:
        """End all; a node manager ends its containers, and what it leaves is killed."""
        for daemon in reversed(self._daemons):
            daemon.stop()
        for node in self._nodes:
            node.kill("java")


def daemon_jars(listed: Path) -> str:
    """The class path of the daemons; what this machine lacks is downloaded."""
    pom = f"{SOURCES}/tests/system/yarn/pom.xml"
    words = ["mvn", "-q", "-B", "-f", pom, "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
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
