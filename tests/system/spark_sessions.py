"""Spark for the tests: one session of a process at a time, and standalone clusters on this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

from tests import spark_classes

SOURCES = str(Path(__file__).resolve().parents[2])
ADDRESS = "127.0.0.1"
START_SECONDS = 120.0
STOP_SECONDS = 10.0
ROWS_A_BATCH = 100
JAVA = {"JAVA_TOOL_OPTIONS": spark_classes.options()}


class Place(NamedTuple):
    """Where a process runs: its address, and the words before its command, such as those that enter namespaces."""

    address: str
    inside: Sequence[str] = ()


HERE = Place(ADDRESS)


class Sessions:
    """The session of this process; whoever asks for another master or configuration ends it."""

    def __init__(self) -> None:
        self._asked: Any = None
        self._session: Any = None

    def get(self, master: str = "local[2]", config: Mapping[str, str] | None = None) -> Any:
        """The session that runs on ``master``."""
        asked = (master, dict(config or {}))
        if asked != self._asked or self._session.sparkContext._jsc is None:  # someone else stopped it
            self.stop()
            self._session = _start(master, asked[1])
            self._asked = asked
        return self._session

    def stop(self) -> None:
        """End the session, if there is one."""
        session, self._session = self._session, None
        (_, config), self._asked = self._asked or ("", {}), None
        if session is not None:
            jvm = getattr(session, "_jvm", None)
            session.stop()
            if jvm is not None:  # it outlives the session, and remembers its settings and how caches were written
                for name in config:
                    jvm.java.lang.System.clearProperty(name)
                relation = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.columnar.InMemoryRelation$")
                relation.getField("MODULE$").get(None).clearSerializer()


def _start(master: str, config: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:  # another module's, with another master or configuration
        active.stop()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = ADDRESS
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", SOURCES)]
    path = os.environ["PYTHONPATH"] = os.pathsep.join([SOURCES, *others])
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",  # executors are in the driver's JVM, and some tests have rows of 60 MiB
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": ADDRESS,
        "spark.driver.bindAddress": ADDRESS,
        "spark.executor.extraJavaOptions": spark_classes.options(),
        "spark.executorEnv.PYTHONPATH": path,
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_A_BATCH),
        "spark.sql.shuffle.partitions": "2",
        **config,
    }
    builder = SparkSession.builder.master(master).appName("speed tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def spark_home() -> str:
    """Where pyspark is installed, with the programs and jars of Spark."""
    import pyspark

    return os.path.dirname(pyspark.__file__)


class Daemon:
    """A Java program in a process group of its own, so that what it starts ends with it."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.process = subprocess.Popen(
            words,
            env={**os.environ, **JAVA, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._log = log
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._read, name="spark-log", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self._log.open("w") as log:
            for line in self.process.stdout:
                log.write(line)
                log.flush()
                self._lines.put(line)

    def says(self, pattern: str) -> str:
        """The first group of the first line that matches; queue.Empty if none comes."""
        while True:
            found = re.search(pattern, self._lines.get(timeout=START_SECONDS))
            if found:
                return found[1]

    def stop(self) -> None:
        """End it and what it started."""
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(STOP_SECONDS)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(STOP_SECONDS)


class StandaloneCluster:
    """One master and workers of one core each; everything they write lies under ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._daemons: list[Daemon] = []
        self._workers = 0
        self._master = ""

    def start(self, *environments: Mapping[str, str], place: Place = HERE) -> str:
        """The address of the master at ``place``, once a worker for each of ``environments`` is registered."""
        master = self._daemon("Master", [], {}, "master", place)
        self._master = master.says(r"Starting Spark master at (spark://\S+)")
        self.add_workers(*((environment, HERE) for environment in environments))
        return self._master

    def add_workers(self, *workers: tuple[Mapping[str, str], Place]) -> list[Daemon]:
        """Workers with an environment and a place each, once they are registered."""
        started = [self._worker(*worker) for worker in workers]
        for worker in started:
            worker.says(r"Successfully registered with master (\S+)")
        return started

    def _worker(self, environment: Mapping[str, str], place: Place) -> Daemon:
        name = f"worker-{self._workers}"
        self._workers += 1
        arguments = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / name), self._master]
        return self._daemon("Worker", arguments, environment, name, place)

    def _daemon(
        self, kind: str, arguments: list[str], environment: Mapping[str, str], name: str, place: Place
    ) -> Daemon:
        home = spark_home()
        words = [
            *place.inside,
            f"{home}/bin/spark-class",
            f"org.apache.spark.deploy.{kind.lower()}.{kind}",
            *("--host", place.address, "--port", "0", "--webui-port", "0"),
            *arguments,
        ]
        own = {"SPARK_HOME": home, "SPARK_LOCAL_IP": place.address, "SPARK_PUBLIC_DNS": place.address}
        own["SPARK_MASTER_OPTS"] = "-Dspark.master.rest.enabled=false"
        self._daemons.append(Daemon(words, {**own, **environment}, self.directory / f"{name}.log"))
        return self._daemons[-1]

    def stop(self) -> None:
        """End all, whatever happened."""
        for daemon in reversed(self._daemons):
            daemon.stop()
