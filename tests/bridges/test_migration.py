"""``speed message envelope migrate`` between real servers: none lost and none twice, whatever dies in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from confluent_kafka import Producer

from speed.message.view import MessageView
from speed.message.writing import encode_message
from tests.bridges.conftest import WAIT_SECONDS, Bench, take
from tests.bridges.raw import RawKafka, RawPostgres, RawRedis

pytestmark = [pytest.mark.system, pytest.mark.slow]
BenchOf = Callable[[str], Bench]
ROOT = Path(__file__).resolve().parents[2]
OLD = {"meta": {"schema": "v2", "ts": 1697200000, "trace_id": "t-1"}, "payload": {"id": 1}}
SECONDS = 240.0


def words(source: Bench, target: Bench, place: Path, *more: str, option: str = "") -> list[str]:
    """The command, with a short patience; ``option`` is for the address of the target."""
    command = [sys.executable, "-m", "speed.cli", "message", "envelope", "migrate", "--json", "--idle", "2"]
    places = ["--from", source.address, "--to", target.address + option, "--topics", f"{source.own}.*"]
    return [*command, *places, "--group", source.group, "--state", str(place / "state.json"), *more]


def migrated(source: Bench, target: Bench, place: Path, *more: str, status: int = 0, option: str = "") -> Any:
    """What it printed."""
    asked = words(source, target, place, *more, option=option)
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == status, done.stderr[-2000:] + done.stdout[-2000:]
    return json.loads(done.stdout or done.stderr)


def views(target: Bench, topic: str) -> list[MessageView]:
    """What lies in the target."""
    return [MessageView(one.data).validate() for one in target.raw.kept(topic)]


def fill(source: Bench, texts: Iterable[bytes], field: str = "data") -> None:
    """Entries of a stream of Redis, as programs without SPEED write them."""
    assert isinstance(source.raw, RawRedis)
    asked = source.raw.client.pipeline(transaction=False)
    for text in texts:
        asked.xadd(source.topic, {field: text})
    asked.execute()


def test_old_texts_of_redis_become_messages_in_kafka(bench_of: BenchOf, tmp_path: Path) -> None:
    """M-36, M-39."""
    source, target = bench_of("redis"), bench_of("kafka")
    source.connect(name="shop").publish(source.topic, "new", key="k")
    fill(source, [json.dumps(OLD).encode(), b'{"payload": 2}'])
    told = migrated(source, target, tmp_path, "--compare", "--namespace", "shop")
    assert told["counts"] == {"envelope": 1, "redis": 2}
    assert told["compared"] == {
        "messages": 3,
        "arrived": 3,
        "missing": 0,
        "twice": 0,
        "missing_places": [],
        "twice_ids": [],
    }
    found = {json.dumps(view.payload): view for view in views(target, source.topic)}
    assert set(found) == {'"new"', '{"id": 1}', "2"}
    old = found['{"id": 1}']
    assert (old.namespace, old.published_at_ms, old.schema.schema_version) == ("shop", 1_697_200_000_000, "v2")
    assert old.extensions == {"x-trace-id": b"t-1"}
    assert take(target.subscribe(target.connect(accept_namespaces=["shop"]), source.topic), 3)


def test_a_dry_run_counts_and_changes_nothing(bench_of: BenchOf, tmp_path: Path) -> None:
    source, target = bench_of("redis"), bench_of("kafka")
    fill(source, [json.dumps(OLD).encode(), b"garbage", b'{"payload": 2}'])
    told = migrated(source, target, tmp_path, "--dry-run", status=1)
    assert told["counts"] == {"redis": 2, "unknown": 1}
    assert list(tmp_path.iterdir()) == []
    assert isinstance(source.raw, RawRedis)
    assert source.raw.client.xinfo_groups(source.topic) == []
    assert isinstance(target.raw, RawKafka)


def test_what_is_not_recognised_is_told_and_left(bench_of: BenchOf, tmp_path: Path) -> None:
    source, target = bench_of("redis"), bench_of("kafka")
    fill(source, [b"hidden-word", b'{"payload": 2}', json.dumps({"payload": "x" * 2000}).encode()])
    told = migrated(source, target, tmp_path, "--max-message-bytes", "1024", status=1)
    assert told["counts"] == {"redis": 1, "unknown": 1, "too large": 1}
    assert [why.split(":")[0] for _, _, why in told["refused"]] == ["unknown", "too large"]
    assert "hidden-word" not in json.dumps(told)
    assert len(views(target, source.topic)) == 1


def test_a_form_that_is_not_asked_for_is_left(bench_of: BenchOf, tmp_path: Path) -> None:
    source, target = bench_of("redis"), bench_of("kafka")
    fill(source, [b'{"payload": 2}'])
    told = migrated(source, target, tmp_path, "--form", "kafka", status=1)
    assert told["counts"] == {"unknown": 1}


def test_old_records_of_kafka_become_messages_in_redis(bench_of: BenchOf, tmp_path: Path) -> None:
    """M-39: the key goes along."""
    source, target = bench_of("kafka"), bench_of("redis")
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{source.server.port}"})
    source.connect().publish(f"of-others.{'a' * 240}", "new")  # Kafka has no room for the name
    for number in range(20):
        headers = {"correlation-id": f"c-{number}", "timestamp": "1697200000", "schema-version": "v2"}
        producer.produce(source.topic, b"raw", f"k-{number % 3}", headers=headers)
    producer.produce(source.topic, b"of others", headers={"x": "y"})
    assert producer.flush(WAIT_SECONDS) == 0
    told = migrated(source, target, tmp_path, "--compare", status=1)
    assert told["counts"] == {"kafka": 20, "unknown": 1}
    assert (told["compared"]["arrived"], told["compared"]["missing"], told["compared"]["twice"]) == (20, 0, 0)
    assert {view.correlation_id for view in views(target, source.topic)} == {f"c-{number}" for number in range(20)}
    assert {one.key for one in target.raw.kept(source.topic)} == {"k-0", "k-1", "k-2"}


def test_old_messages_of_nats_keep_their_ids(bench_of: BenchOf, tmp_path: Path) -> None:
    source, target = bench_of("nats"), bench_of("redis")
    old = source.connect()
    old._backend.publish([in_old_form(source.topic, number) for number in range(5)], WAIT_SECONDS)
    source.raw.put(source.topic, b"raw")  # without headers: of others
    told = migrated(source, target, tmp_path, "--compare", status=1)
    assert told["counts"] == {"nats": 5, "unknown": 1}
    assert told["compared"]["arrived"] == 5
    assert {view.message_id for view in views(target, source.topic)} == {f"xyz-{number}" for number in range(5)}


def in_old_form(topic: str, number: int) -> Any:
    """A message of NATS as it was before."""
    from speed.backends.backend import Outgoing
    from speed.message.old_forms import OldForm

    own = f"xyz-{number}"
    old = OldForm(b"raw", {"Nats-Msg-Id": own, "X-Schema-URL": "x/orders"})
    return Outgoing(topic, None, b"", own, 1, None, old=old)


def test_old_rows_of_postgres_become_messages_in_kafka(bench_of: BenchOf, tmp_path: Path) -> None:
    """M-36, M-39. Rows that appear behind others are found."""
    source, target = bench_of("postgres"), bench_of("kafka")
    assert isinstance(source.raw, RawPostgres)
    table = f"old_{source.own}"
    source.raw.ask(
        f"CREATE TABLE {table} (id BIGSERIAL PRIMARY KEY, topic TEXT, payload JSONB, metadata JSONB, "
        "created_at TIMESTAMPTZ DEFAULT to_timestamp(1697200000))"
    )
    row = f"INSERT INTO {table} (id, topic, payload, metadata) VALUES ($1, $2, $3, $4)"
    for number in range(2, 30):
        source.raw.ask(row, number, source.topic, json.dumps({"id": number}), '{"schema_version": "v2"}')
    asked = words(source, target, tmp_path, "--compare", "--follow")
    asked[asked.index("--from") + 1] = f"{source.server.address}?table={table}&form=rows"
    with subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        wait_for(lambda: (tmp_path / "state.json").exists())
        source.raw.ask(row, 1, source.topic, json.dumps({"id": 1}), None)
        wait_for(lambda: json.loads((tmp_path / "state.json").read_text())["counts"] == {"postgresql": 29})
        process.send_signal(signal.SIGTERM)
        told = json.loads(process.communicate(timeout=SECONDS)[0])
    assert (told["compared"]["arrived"], told["compared"]["missing"], told["compared"]["twice"]) == (29, 0, 0)
    found = views(target, source.topic)
    assert sorted(view.payload["id"] for view in found) == list(range(1, 30))
    assert {view.published_at_ms for view in found} == {1_697_200_000_000}


def wait_for(is_so: Callable[[], bool]) -> None:
    """Another process has to come so far."""
    ends = monotonic() + SECONDS
    while not is_so():
        assert monotonic() < ends
        sleep(0.05)


@pytest.mark.parametrize("option", ["", pytest.param("&transactional_id=migration", marks=pytest.mark.thorough)])
def test_a_migration_that_is_killed_goes_on_and_copies_nothing_twice(
    bench_of: BenchOf, tmp_path: Path, option: str
) -> None:
    source, target = bench_of("redis"), bench_of("kafka")
    count = 3000
    fill(source, (json.dumps({"payload": number}).encode() for number in range(count)))
    state = tmp_path / "state.json"
    asked = words(source, target, tmp_path, option=option)
    for kill in range(1, 4):
        again = ["--resume"] if state.exists() else []
        with subprocess.Popen([*asked, *again], cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            wait_for(lambda least=kill * 600: state.exists() and copied(state) >= least)
            process.kill()
    told = migrated(source, target, tmp_path, "--resume", "--compare", option=option)
    assert (told["compared"]["messages"], told["compared"]["missing"], told["compared"]["twice"]) == (count, 0, 0)
    times = Counter(view.payload for view in views(target, source.topic))
    assert times == Counter(range(count))


def copied(state: Path) -> int:
    return int(json.loads(state.read_text())["counts"].get("redis", 0))


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_a_target_that_goes_away_meanwhile_gets_nothing_twice(
    bench_of: BenchOf, own_bench: Bench, tmp_path: Path
) -> None:
    source, target = bench_of("redis"), own_bench
    count = 3000
    fill(source, (json.dumps({"payload": number}).encode() for number in range(count)))
    state = tmp_path / "state.json"
    with subprocess.Popen(
        words(source, target, tmp_path, "--compare"), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: state.exists() and copied(state) >= 500)
        target.server.kill()
        target.server.start()
        told = json.loads(process.communicate(timeout=SECONDS)[0])
    assert process.returncode == 0
    assert (told["compared"]["messages"], told["compared"]["missing"], told["compared"]["twice"]) == (count, 0, 0)
    assert Counter(view.payload for view in views(target, source.topic)) == Counter(range(count))


def test_messages_that_producers_write_meanwhile_are_copied_too(bench_of: BenchOf, tmp_path: Path) -> None:
    source, target = bench_of("redis"), bench_of("kafka")
    fill(source, [b'{"payload": 0}'])
    with subprocess.Popen(words(source, target, tmp_path), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for first in range(1, 1000, 100):
            fill(source, (json.dumps({"payload": number}).encode() for number in range(first, first + 100)))
        told = json.loads(process.communicate(timeout=SECONDS)[0])
    assert told["counts"] == {"redis": 1001}
    assert Counter(view.payload for view in views(target, source.topic)) == Counter(range(1001))


def test_what_was_lost_and_what_is_there_twice_is_found(bench_of: BenchOf, tmp_path: Path) -> None:
    source, target = bench_of("redis"), bench_of("kafka")
    head = {"topic": source.topic, "namespace": "default", "published_at_ms": 1_718_000_000_000}
    fill(source, [encode_message(number, message_id=f"m-{number}", **head) for number in range(3)], "envelope")
    migrated(source, target, tmp_path)
    target.raw.put(source.topic, encode_message(1, message_id="m-1", **head))
    fill(source, [encode_message(3, message_id="m-3", **head)], "envelope")
    assert isinstance(source.raw, RawRedis)
    source.raw.client.xreadgroup(source.group, "thief", {source.topic: ">"}, noack=True)
    told = migrated(source, target, tmp_path, "--resume", "--compare", status=1)
    assert (told["compared"]["missing"], told["compared"]["twice"]) == (1, 1)
    assert told["compared"]["twice_ids"] == ["m-1"]
    assert told["compared"]["missing_places"][0].startswith(source.topic)


def test_what_cannot_be_is_said(bench_of: BenchOf, tmp_path: Path) -> None:
    source = bench_of("redis")
    assert "same place" in migrated(source, source, tmp_path, status=3)["error"]["message"]
    target = bench_of("kafka")
    assert "begin without" in migrated(source, target, tmp_path, "--resume", status=3)["error"]["message"]
    fill(source, [b'{"payload": 1}'])
    migrated(source, target, tmp_path)
    other = migrated(source, target, tmp_path, "--resume", status=3, option="&transactional_id=other")
    assert "another migration" in other["error"]["message"]
    (tmp_path / "state.json").write_text("[]")
    assert "--resume" in migrated(source, target, tmp_path, status=3)["error"]["message"]
    assert "no state" in migrated(source, target, tmp_path, "--resume", status=3)["error"]["message"]
    queue = bench_of("sqs")
    assert "taking" in migrated(queue, target, tmp_path, "--dry-run", status=1)["error"]["message"]
