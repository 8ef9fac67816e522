"""Bridges of a real speedd to a real Kafka, NATS, Redis, PostgreSQL and S3, and back (B-11 to B-18)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.servers.server import PASSWORD
from speed.message.keys import generate_key
from speed.message.keystore import KeyStore
from speed.message.options import PublishOptions
from speed.message.security import MessageSecurity
from speed.messages import connect
from tests.bridges.bridged import OUT, BridgedSite, bridge, disordered, twice
from tests.bridges.conftest import Bench
from tests.bridges.raw import RawS3
from tests.system.topics import TopicSite, until

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.rotate("backend", 2)]
BenchOf = Callable[[str], Bench]
SiteOf = Callable[..., BridgedSite]
KEEPING = pytest.mark.parametrize("backend", ["nats", "postgres", "redis", "s3", "kafka"], indirect=True)
"""Not SQS: a queue has one group, which is the bridge, and its server for tests forgets queues when it ends."""
ONCE_THERE = {"redis", "postgres", "s3", "nats"}
"""Where a message that speedd repeats is known again; in Kafka with transactions."""
ONCE_BACK = {"kafka", "nats", "redis"}
"""Of which a message that comes again is known by its sequence."""


@pytest.fixture
def site_of(tmp_path: Path) -> Iterator[SiteOf]:
    made: list[BridgedSite] = []

    def make(bench: Bench, more: str = "", **how: Any) -> BridgedSite:
        joint = "&" if "?" in bench.address else "?"
        address = bench.address + (f"{joint}{more}" if more else "")
        made.append(BridgedSite(tmp_path, address, bench.topic, back=bench.address, name=bench.own, **how))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_messages_go_out_and_come_back_in_their_order(bench: Bench, site_of: SiteOf) -> None:
    """B-11, B-13, B-15."""
    site = site_of(bench)
    site.start()
    site.publish(range(1, 51))
    came = site.came(range(1, 51))
    assert disordered(came) == twice(came) == []
    assert {one.key for one in came} == {f"k{number}" for number in range(10)}
    assert {one.properties["bridge.publisher"] for one in came} == {"test"}
    until(lambda: [site.rows()[way]["carried"] for way in ("out", "in")] == [50, 50])  # counted once it is settled
    rows = site.rows()
    assert [rows[way]["state"] for way in ("out", "in")] == ["carrying", "carrying"]
    assert rows["out"]["lag"] == 0


@KEEPING
def test_programs_without_a_root_read_and_write_what_is_bridged(bench: Bench, site_of: SiteOf) -> None:
    """B-13."""
    site = site_of(bench)
    site.start()
    site.publish([1])
    connection = bench.connect(name="till")
    if bench.name != "postgres":  # a table has one group, which is the bridge
        message = bench.subscribe(connection).receive(40)
        assert message is not None
        assert (message.payload, message.key, message.source) == (1, "k1", "test")
    connection.publish(bench.topic, 2, options=PublishOptions(labels={"region": "eu"}))
    (one,) = [one for one in site.came([1, 2]) if one.payload == 2]
    assert one.properties["region"] == "eu"
    assert one.properties["bridge.publisher"] == "till"


def test_a_killed_speedd_loses_nothing_and_repeats_only_what_is_said(bench: Bench, site_of: SiteOf) -> None:
    """B-14, B-15."""
    came = _came_over_kills(site_of(bench))
    assert disordered(came) == []
    if bench.name in ONCE_BACK & ONCE_THERE:
        assert twice(came) == []


def test_with_transactions_nothing_comes_twice_over_kafka(bench_of: BenchOf, site_of: SiteOf) -> None:
    """B-14: speedd reads where it stands in the transaction that it committed last."""
    bench = bench_of("kafka")
    came = _came_over_kills(site_of(bench, f"transactional_id={bench.own}"))
    assert disordered(came) == twice(came) == []


def _came_over_kills(site: BridgedSite) -> list[Any]:
    """What came back of 200 messages, while speedd was killed four times."""
    site.start()
    for part in range(4):
        site.publish(range(1 + 50 * part, 51 + 50 * part))
        site.restart()
    return site.came(range(1, 201))


@KEEPING
def test_a_server_that_is_away_at_the_start_is_waited_for(own_bench: Bench, site_of: SiteOf) -> None:
    """B-18."""
    site = site_of(own_bench)
    own_bench.server.kill()
    try:
        site.start()
        site.publish(range(1, 101))
        until(lambda: site.rows()["out"]["trouble"].startswith("BACKEND_AWAY"))
        assert site.rows()["out"]["lag"] == 100
    finally:
        own_bench.server.start()
    if isinstance(own_bench.raw, RawS3):  # moto forgets all
        own_bench.raw.client.create_bucket(Bucket=own_bench.own)
    assert disordered(site.came(range(1, 101))) == []
    until(lambda: {row["state"] for row in site.rows().values()} == {"carrying"})


@KEEPING
def test_a_server_that_goes_away_later_costs_nothing(own_bench: Bench, site_of: SiteOf) -> None:
    """B-18."""
    site = site_of(own_bench)
    site.start()
    site.publish(range(1, 101))
    site.came(range(1, 101))
    own_bench.server.kill()
    try:
        site.publish(range(101, 201))
        until(lambda: bool(site.rows()["out"]["trouble"]))
    finally:
        own_bench.server.start()
    if isinstance(own_bench.raw, RawS3):
        own_bench.raw.client.create_bucket(Bucket=own_bench.own)
    assert disordered(site.came(range(1, 201))) == []


def test_foreign_messages_are_dead_letters_and_end_nothing(bench: Bench, site_of: SiteOf) -> None:
    """B-9, B-17."""
    site = site_of(bench, dead_letter='"lost"', max_message_bytes="4096")
    site.start()
    site.publish([1])
    site.came([1])
    old_form = json.dumps({"meta": {"schema": "v2"}, "payload": {"order": 17}}).encode()
    foreign = [b"\xff\xfe garbage", old_form]
    for data in foreign:
        bench.raw.put(bench.topic, data)
    with connect(bench.address, max_message_bytes=1 << 20) as connection:
        connection.publish(bench.topic, "x" * 10_000)
        connection.publish(bench.topic, 2)
    site.came([1, 2])
    until(lambda: site.rows()["in"]["dead"] == 3)
    lost = site.kept("lost")
    assert sorted(one.properties["code"] for one in lost) == ["BAD_MESSAGE", "BAD_MESSAGE", "TOO_LARGE"]
    assert {one.payload for one in lost} >= set(foreign)
    assert {one.properties["bridge"] for one in lost} == {f"{bench.own}-in"}


def test_a_circle_stops_where_the_message_was(bench: Bench, tmp_path: Path) -> None:
    """B-16: two bridges face each other at one topic of the root."""
    bridges = bridge(f"{bench.own}-out", "topics", bench.address, OUT, bench.topic)
    bridges += bridge(f"{bench.own}-in", bench.address, "topics", bench.topic, OUT)
    site = BridgedSite(tmp_path, bench.address, bench.topic, name=bench.own)
    config = site.site.config.read_text().split("[[bridge]]")[0]
    site.site.config.write_text(config + bridges)
    try:
        site.start()
        site.publish(range(1, 21))
        with connect(bench.address, name="till") as connection:
            connection.publish(bench.topic, 21)
        until(lambda: site.rows()["in"]["looped"] == 20 and site.rows()["in"]["carried"] == 1)
        until(lambda: site.rows()["out"]["looped"] == 1)
        assert sorted(one.payload for one in site.kept(OUT)) == list(range(1, 22))
    finally:
        site.close()


def test_a_signed_message_is_kept_whole_or_refused(bench_of: BenchOf, site_of: SiteOf, tmp_path: Path) -> None:
    """B-13."""
    bench = bench_of("redis")
    keys = KeyStore({"till": generate_key("till-1", "ed25519", publishers=("till",))})
    site = site_of(bench, dead_letter='"lost"')
    site.start()
    security = MessageSecurity(keys=keys, sign_with="till")
    with connect(bench.address, name="till", security=security) as connection:
        connection.publish(bench.topic, 1)
    until(lambda: site.rows()["in"]["dead"] == 1)
    assert site.kept("lost")[0].properties["code"] == "NOT_AVAILABLE"


def test_a_key_that_cannot_be_there_is_a_dead_letter(bench_of: BenchOf, site_of: SiteOf) -> None:
    """B-17: PostgreSQL has no zero characters."""
    site = site_of(bench_of("postgres"), dead_letter='"lost"')
    config = site.site.config
    config.write_text(config.read_text().replace('-out"\n', '-out"\ndead_letter = "lost"\n'))
    site.start()
    topic = site.node.topic(OUT)
    topic.publish(1, key="a\0b")
    topic.publish(2, key="ab")
    assert {one.payload for one in site.came([2])} == {2}
    (one,) = site.kept("lost")
    assert one.properties["code"] == "BAD_KEY"


def test_wrong_credentials_are_waited_for_and_never_told(bench_of: BenchOf, site_of: SiteOf) -> None:
    """B-10, B-18."""
    bench = bench_of("postgres")
    site = site_of(bench)
    config = site.site.config
    config.write_text(config.read_text().replace(PASSWORD, "hidden-word"))
    site.start()
    site.publish([1])
    until(lambda: site.rows()["out"]["trouble"].startswith("BACKEND_REFUSED"))
    told = json.dumps(site.rows())
    died = site.site.started[-1]
    died.terminate()
    assert died.stderr is not None
    told += died.stderr.read() + "".join(site.site.log)
    assert "BACKEND_REFUSED" in told
    assert "hidden-word" not in told


def test_events_go_out_and_come_to_another_root(bench_of: BenchOf, tmp_path: Path) -> None:
    """B-14: of the journal of one root, to who subscribes in the other."""
    bench = bench_of("nats")
    sites = [_event_site(tmp_path, name, bench) for name in ("left", "right")]
    came: list[Any] = []
    try:
        for one in sites:
            one.start()
        left, right = (one.node() for one in sites)
        right.allow("speedd.bridges")
        right.subscribe(bench.topic, lambda message: came.append(message.payload))
        until(lambda: "test" in {entry.name for entry in right.nodes()})
        left.wait_for("speedd.journal", timeout=30)
        for number in range(20):
            left.publish(bench.topic, number)
        until(lambda: len(came) >= 20)
        assert came == list(range(20))
        rows = {row["bridge"]: row for row in left.call("speedd", "bridges.list")}
        assert rows["left-in"]["carried"] == 0
        until(lambda: {row["bridge"]: row for row in left.call("speedd", "bridges.list")}["left-in"]["looped"] == 20)
        left.close()
        right.close()
    finally:
        for one in sites:
            one.close()


def _event_site(path: Path, name: str, bench: Bench) -> TopicSite:
    (path / name).mkdir()
    config = """
[node]
root = "root"
key = "speed.key"
allow = ["test"]
[topics]
consume = ["test"]
[journal]
topics = ["*"]
allow = ["test", "speedd.bridges"]
"""
    config += bridge(f"{name}-out", "events", bench.address, bench.topic)
    incoming = bridge(f"{name}-in", bench.address, "events", bench.topic)
    config += incoming.replace(f'rename = "{bench.topic}"\n', "")
    return TopicSite(path / name, config)


def test_bridges_are_listed_with_what_is_wrong(bench_of: BenchOf, site_of: SiteOf) -> None:
    """B-18."""
    bench = bench_of("redis")
    site = site_of(bench)
    site.start()
    _ = site.node
    words = [sys.executable, "-m", "speed.cli", "bridge", "list", "--root", str(site.site.root)]
    words += ["--key", str(site.site.key)]
    listed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert f"{bench.own}-out" in listed.stdout
    assert "carrying" in listed.stdout
    told = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True, timeout=60)
    assert [row["target"] for row in json.loads(told.stdout)] == [str(bench.address).split("?")[0], "topics"]
