"""What tests ask of a driver on a host, or of a client of Spark Connect, and where the answers must come from."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from tests.system.commands import PATIENCE
from tests.system.spark_hosts import Host
from tests.system.spark_hosts_job import ROWS

JOB_SECONDS = 120.0
_LOOK_SECONDS = 0.5


class Driver:
    """A driver that reads what is asked from a pipe and writes its answers to another, while a process of it lasts."""

    def __init__(self, process: subprocess.Popen[str], asked: IO[str], answers: IO[str]) -> None:
        self._process, self._asked, self._answers = process, asked, answers

    def begin(self, verb: str, speed: dict[str, Any] | None = None, **enrich: Any) -> None:
        """Ask for a job; options for ``Speed`` and for ``enrich``."""
        self._asked.write(json.dumps({"verb": verb, "speed": speed or {}, "enrich": enrich}) + "\n")
        self._asked.flush()

    def result(self) -> dict[str, Any]:
        """What the job came to."""
        until(self._has_answered, JOB_SECONDS)
        return dict(json.loads(self._answers.readline()))

    def _has_answered(self) -> bool:
        ended = self._process.poll() is not None
        answered = bool(select.select([self._answers], [], [], _LOOK_SECONDS)[0])
        assert answered or not ended, self._process.args
        return answered

    def failed(self, verb: str, speed: dict[str, Any] | None = None, **enrich: Any) -> str:
        """The error that the job ended with."""
        self.begin(verb, speed, **enrich)
        return str(self.result()["error"])

    def done(self, verb: str, speed: dict[str, Any] | None = None, **enrich: Any) -> dict[str, Any]:
        """What the job came to, which has not failed."""
        self.begin(verb, speed, **enrich)
        result = self.result()
        assert "error" not in result, result["error"]
        return result

    def stop(self) -> None:
        self._asked.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE)
        self._answers.close()


def driver_on(
    host: Host,
    master: str,
    config: Mapping[str, str],
    root: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Driver:
    """A driver, or a client of Spark Connect, as a process on a host."""
    words = (master, str(host.root) if root is None else root, json.dumps(dict(config)))
    process = host.begin("spark_hosts_job.py", *words, environment=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    return Driver(process, process.stdin, process.stdout)


class Site:
    """A host of the driver, ``home``, and hosts with workers; all have the service."""

    def __init__(self, home: Host) -> None:
        self.home = home
        self.workers: list[Host] = []

    def spread(self, driver: Driver, verb: str = "enrich", speed: dict[str, Any] | None = None, **enrich: Any) -> Any:
        """What the job came to, once all hosts take part: while Python starts on one, others take all tasks."""
        deadline = time.monotonic() + JOB_SECONDS
        while True:
            self.forget()
            result = driver.done(verb, speed, **enrich)
            if {host for _, _, host in result["rows"]} == {host.name for host in self.workers}:
                return result
            assert time.monotonic() < deadline

    def forget(self) -> None:
        """Drop what the services noted."""
        for host in (*self.workers, self.home):
            host.forget()

    def strays(self, result: dict[str, Any]) -> dict[str, Any]:
        """Where calls did not stay on their host: the rows that a service was asked for without having them, by host.

        None instead of rows where a service of a worker's host was not asked at all.
        """
        found: dict[str, Any] = {}
        for host in (self.home, *self.workers):
            there = {number for number, _, name in result["rows"] if name == host.name}
            asked = host.noted("rows")
            if asked - there:
                found[host.name] = sorted(asked - there)
            elif not asked and host is not self.home:
                found[host.name] = None
        return found


def until(is_so: Callable[[], bool], seconds: float = PATIENCE, every: float = 0.02) -> None:
    """Wait for what another process does; who asks ``every`` so many seconds leaves it the processor meanwhile."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(every)


def rows_are_right(result: dict[str, Any]) -> bool:
    return sorted(row[:2] for row in result["rows"]) == [[number, 2 * number] for number in range(ROWS)]
