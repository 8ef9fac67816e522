"""The whole pipeline: starts every part, kills the Spark job in the middle, starts it again, compares with a batch.

    scripts/pipeline [--sample N | --full] [--rate R] [--scratch DIR]

Every part is in a session of its own, and ends with this program, however this ends. Exit status: 0 all equal,
1 not, 128 + n ended by signal n.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

import speed
from examples.pipeline.producer import JOURNAL

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1]
ALL_FLIGHTS = 336_776
SAMPLE = 20_000
REPLAY_SECONDS = 20.0
"""How long a replay takes unless a rate is given: long enough for a crash and a restart within it."""
BATCHES = 8
"""At least so many micro-batches, so that there is a middle even where Spark starts behind the replay."""
START_SECONDS = 60.0
PART_SECONDS = 900.0
STOP_SECONDS = 15.0
BATCHES_BEFORE_KILL = 3
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Failed(Exception):
    """A part did not do its part."""


class Pipeline:
    """One run in a scratch directory: the parts that are running, and what they wrote."""

    def __init__(self, work: Path, sample: int | None, rate: float) -> None:
        self.work, self.sample, self.rate = work, sample, rate
        self.began = time.monotonic()
        self.root, self.key, self.spark = work / "root", work / "speed.key", work / "spark"
        self._running: list[subprocess.Popen[bytes]] = []

    def say(self, text: str) -> None:
        """One line of progress, with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:5.1f} s] {text}", flush=True)

    def run(self) -> None:
        """All steps. Raises Failed."""
        self.prepare()
        self.say("speedd starts with geo (C++), rules (Java) and the journal")
        self.start([sys.executable, "-m", "speed.daemon", "run", "-c", str(HERE / "speedd.toml")], "speedd.log")
        self.wait_for(["geo", "rules", JOURNAL])
        subscriber = self.start(self.part("subscriber", "--write", str(self.work / "told.json")))
        self.say("the Spark job and the replay start")
        job = self.start(self.job("stream"))
        producer = self.start([*self.part("producer", "--rate", str(self.rate)), *self.sampled()])
        self.kill_in_the_middle(job)
        self.say("the Spark job starts again, from its checkpoint")
        job = self.start(self.job("stream", "batch"))
        self.finish(producer, "the producer")
        self.finish(job, "the Spark job")
        self.stop(subscriber)
        self.compare_alerts()

    def prepare(self) -> None:
        """A private communication directory with a new key, and a place for the job's files."""
        speed.init_root(self.root, self.key)
        self.spark.mkdir()

    # --- parts ---

    def part(self, name: str, *words: str) -> list[str]:
        """The command of one of the example's programs."""
        program = [sys.executable, "-m", f"examples.pipeline.{name}"]
        return [*program, *words, "--root", str(self.root), "--key", str(self.key)]

    def job(self, *what: str) -> list[str]:
        """The command of the Spark job."""
        batch = -(-(self.sample or ALL_FLIGHTS) // BATCHES)
        words = ["--work", str(self.spark), "--batch-events", str(batch)]
        return [*self.part("job", *what, *words), *self.sampled()]

    def sampled(self) -> list[str]:
        """The option that says how many flights."""
        return [] if self.sample is None else ["--sample", str(self.sample)]

    def start(self, command: Sequence[str], log: str | None = None) -> subprocess.Popen[bytes]:
        """Start a part in a session of its own, out of reach of Ctrl-C; what it prints goes to ``log``, or is seen."""
        places = {"SPEED_ROOT": str(self.root), "SPEED_KEY": str(self.key), "PYTHONPATH": str(SOURCES)}
        spark = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment = {**os.environ, **places, **spark}
        if log is None:
            part = subprocess.Popen(command, env=environment, start_new_session=True)
        else:
            with open(self.work / log, "wb") as file:
                part = subprocess.Popen(command, env=environment, start_new_session=True, stdout=file, stderr=file)
        self._running.append(part)
        return part

    def wait_for(self, names: list[str]) -> None:
        """Wait until all nodes are there and say so."""
        with speed.Node("pipeline", root=self.root, key=self.key) as node:
            end = time.monotonic() + START_SECONDS
            while missing := set(names) - {entry.name for entry in node.nodes()}:
                self.check_all()
                if time.monotonic() > end:
                    raise Failed(f"{', '.join(sorted(missing))} did not start within {START_SECONDS:.0f} s")
                time.sleep(0.1)
            there = [f"{entry.name} ({entry.language})" for entry in node.nodes() if entry.name in names]
        self.say(f"ready: {', '.join(there)}")

    def kill_in_the_middle(self, job: subprocess.Popen[bytes]) -> None:
        """Once some micro-batches are done, and while the next is under way: SIGKILL for the job's whole group."""
        end = time.monotonic() + PART_SECONDS
        while self.batches("commits") < BATCHES_BEFORE_KILL or self.batches("offsets") <= self.batches("commits"):
            self.check_all()
            if time.monotonic() > end:
                raise Failed("no micro-batch was under way")
            time.sleep(0.005)
        killed = _kill(_family(job))
        job.wait()
        self._running.remove(job)
        planned, done = self.batches("offsets"), self.batches("commits")
        self.say(f"SIGKILL for all {killed} processes of the Spark job: {planned} batches begun, {done} done")

    def batches(self, kind: str) -> int:
        """How many micro-batches are in the checkpoint, as ``offsets`` (begun) or ``commits`` (done)."""
        folder = self.spark / "checkpoints" / "hours" / kind
        return sum(name.isdigit() for name in os.listdir(folder)) if folder.is_dir() else 0

    def check_all(self) -> None:
        """Raises Failed for a part that ended with an error."""
        for part in self._running:
            if part.poll():
                raise Failed(f"{' '.join(map(str, part.args[1:4]))} ended with status {part.returncode}")  # type: ignore[index]

    def finish(self, part: subprocess.Popen[bytes], name: str) -> None:
        """Wait until a part is done. Raises Failed unless it is done well."""
        end = time.monotonic() + PART_SECONDS
        while part.poll() is None:
            self.check_all()
            if time.monotonic() > end:
                raise Failed(f"{name} is not done within {PART_SECONDS:.0f} s")
            time.sleep(0.1)
        self._running.remove(part)
        if part.returncode:
            raise Failed(f"{name} ended with status {part.returncode}")

    def compare_alerts(self) -> None:
        """Each alert that the batch expects was told, once. Raises Failed."""
        told = json.loads((self.work / "told.json").read_text())
        expected = json.loads((self.spark / "expected.json").read_text())
        if told != expected:
            raise Failed(f"{len(told)} alerts were told, {len(expected)} were expected")
        print(f"ok    all {len(expected)} alerts were told, each once", flush=True)

    # --- the end ---

    def stop(self, part: subprocess.Popen[bytes]) -> None:
        """Ask a part to end, and end it."""
        if part in self._running:
            self._running.remove(part)
        family = _family(part)
        part.terminate()
        try:
            part.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        _kill(family)
        part.wait()

    def close(self) -> None:
        """End all parts, the last one started first."""
        for part in reversed(self._running[:]):
            self.stop(part)

    def log_tail(self) -> str:
        """The end of what speedd said."""
        log = self.work / "speedd.log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else ""


def _family(part: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """A part and all it started, Spark's Java machine and its workers among them; empty when it ended."""
    try:
        process = psutil.Process(part.pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill(family: list[psutil.Process]) -> int:
    """SIGKILL for those that still run; returns their number."""
    killed = 0
    for process in family:
        try:
            process.kill()
            killed += 1
        except psutil.NoSuchProcess:
            pass
    return killed


@contextmanager
def scratch(place: str | None) -> Iterator[Path]:
    """A private directory, in memory unless there is a ``place``; it is removed afterwards."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = Path(tempfile.mkdtemp(prefix="speed-pipeline.", dir=place or memory))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _interrupt(number: int, _frame: object) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # nothing may cut short what ends the parts
    raise SystemExit(128 + number)


def main() -> int:
    """One run."""
    parser = argparse.ArgumentParser(prog="scripts/pipeline", description="Flights as a stream, through a crash.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--sample", type=int, default=SAMPLE, help=f"only the first so many flights (default: {SAMPLE:,})"
    )
    size.add_argument("--full", action="store_true", help=f"all {ALL_FLIGHTS:,} flights")
    parser.add_argument("--rate", type=float, help=f"events a second (default: all within {REPLAY_SECONDS:.0f} s)")
    parser.add_argument("--scratch", metavar="DIR", help="where to work (default: in memory)")
    chosen = parser.parse_args()
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    sample = None if chosen.full else chosen.sample
    with scratch(chosen.scratch) as work:
        pipeline = Pipeline(work, sample, chosen.rate or (sample or ALL_FLIGHTS) / REPLAY_SECONDS)
        try:
            pipeline.run()
        except (Failed, speed.SpeedError) as error:
            pipeline.say(f"FAILED: {error}")
            print(pipeline.log_tail(), file=sys.stderr)
            return 1
        finally:
            pipeline.close()
        pipeline.say("done; everything is stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
