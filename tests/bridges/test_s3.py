"""Messages in S3 beyond what all backends do: where a group stands (B-8), and manifests (B-21)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import speed.messages
from speed.backends import open_backend
from speed.backends.backend import Backend, BackendError, BackendSubscription, Delivered, Outgoing, s3_key
from speed.message.writing import encode_message, new_message_id
from tests.bridges.bridged import BridgedSite
from tests.bridges.conftest import Bench, take

pytestmark = [pytest.mark.system, pytest.mark.slow]
HOUR_MS = 3_600_000


def old(bench: Bench, number: int, age_ms: int = HOUR_MS) -> Outgoing:
    """A message that was made so long ago; later numbers later."""
    unix_ms = int(time.time() * 1000) - age_ms + number
    message_id = new_message_id(unix_ms, bytes(16))
    return Outgoing.of(
        encode_message(number, topic=bench.topic, namespace="default", message_id=message_id, published_at_ms=unix_ms)
    )


def follow(bench: Bench, backend: Backend, group: str = "", start: str = "earliest") -> BackendSubscription:
    return backend.subscribe(bench.topic, group or bench.group, start)


def positions(found: Sequence[Delivered]) -> list[str]:
    return [one.position for one in found]


def refuse(bench: Bench, message: Outgoing, action: str) -> None:
    """Let the bucket do that with one object no more."""
    key = s3_key(message.topic, message.message_id, message.published_at_ms)
    where = f"arn:aws:s3:::{bench.own}/{key}"
    told = {"Effect": "Deny", "Principal": "*", "Action": action, "Resource": where}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [told]})
    bench.raw.client.put_bucket_policy(Bucket=bench.own, Policy=policy)  # type: ignore[attr-defined]


@pytest.fixture
def bench(bench_of: Callable[[str], Bench]) -> Bench:
    return bench_of("s3")


@pytest.fixture
def backend(bench: Bench) -> Iterator[Backend]:
    one = open_backend(bench.address)
    yield one
    one.close()


def test_what_a_killed_consumer_held_comes_to_its_heir(bench: Bench, backend: Backend) -> None:
    """Also what is older than a minute, behind which the position stays."""
    backend.publish([old(bench, number) for number in range(4)], 30)
    killed = backend.subscribe(bench.topic, bench.group, "earliest")
    first, *held = killed.receive(10, 30)
    killed.acknowledge([first])
    heir = backend.subscribe(bench.topic, bench.group, "earliest")
    assert [one.position for one in heir.receive(10, 30)] == [one.position for one in held]


def test_what_cannot_be_fetched_comes_once_it_can(bench: Bench, backend: Backend) -> None:
    """In its order, with what was asked for beside it."""
    batch = [old(bench, number) for number in range(20)]
    keys = backend.publish(batch, 30)
    reader = follow(bench, backend)
    refuse(bench, batch[5], "s3:GetObject")
    with pytest.raises(BackendError):
        reader.receive(20, 5)
    bench.raw.client.delete_bucket_policy(Bucket=bench.own)  # type: ignore[attr-defined]
    assert positions(reader.receive(20, 5)) == keys


# --- manifests ---


@pytest.fixture
def listed(bench: Bench) -> Iterator[Backend]:
    """The same bucket, written and read with manifests."""
    one = open_backend(f"{bench.address}&manifests=true")
    yield one
    one.close()


def manifests(bench: Bench) -> dict[str, dict[str, Any]]:
    """All that lie in the bucket."""
    client = bench.raw.client  # type: ignore[attr-defined]
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=bench.own, Prefix="manifests/").get("Contents", ())]
    return {key: json.loads(client.get_object(Bucket=bench.own, Key=key)["Body"].read()) for key in keys}


def put(bench: Bench, key: str, data: bytes) -> None:
    bench.raw.client.put_object(Bucket=bench.own, Key=key, Body=data)  # type: ignore[attr-defined]


def test_a_manifest_names_the_objects_of_a_batch(bench: Bench, listed: Backend) -> None:
    keys = listed.publish([old(bench, number) for number in range(3)], 30)
    ((key, told),) = manifests(bench).items()
    assert key.split("/")[4] == bench.topic
    assert [one["key"] for one in told["objects"]] == keys
    assert {tuple(sorted(one)) for one in told["objects"]} == {("key", "message_id", "sha256", "size")}


def test_a_batch_is_seen_whole_or_not_at_all(bench: Bench, backend: Backend, listed: Backend) -> None:
    """The server refuses one object of it."""
    batch = [old(bench, number) for number in range(21)]
    refuse(bench, batch[-1], "s3:PutObject")
    with pytest.raises(BackendError):
        listed.publish(batch, 30)
    assert follow(bench, backend, "objects").receive(100, 5)
    reader = follow(bench, listed)
    assert reader.receive(100, 0) == []
    bench.raw.client.delete_bucket_policy(Bucket=bench.own)  # type: ignore[attr-defined]
    keys = listed.publish(batch, 30)
    assert positions(reader.receive(100, 5)) == keys


def test_messages_that_come_late_are_read_with_manifests(bench: Bench, backend: Backend, listed: Backend) -> None:
    """As those of a bridge whose backend was away: without manifests they lie before the place of the group."""
    readers = [follow(bench, listed, "m", "latest"), follow(bench, backend, "o", "latest")]
    assert [one.receive(10, 0) for one in readers] == [[], []]
    keys = listed.publish([old(bench, number) for number in range(3)], 30)
    assert [positions(one.receive(10, 2)) for one in readers] == [keys, []]


def test_of_a_manifest_only_what_is_not_acknowledged_comes_again(bench: Bench, listed: Backend) -> None:
    keys = listed.publish([old(bench, number) for number in range(12)], 30)
    killed = follow(bench, listed)
    killed.acknowledge([one for number, one in enumerate(killed.receive(12, 5)) if number not in (4, 10)])
    heir = follow(bench, listed)
    left = heir.receive(12, 5)
    assert positions(left) == [keys[4], keys[10]]
    heir.acknowledge(left)
    assert follow(bench, listed).receive(12, 0) == []


def test_a_manifest_that_is_done_is_one_entry_of_the_position(bench: Bench, listed: Backend) -> None:
    listed.publish([old(bench, number) for number in range(50)], 30)
    reader = follow(bench, listed)
    reader.acknowledge(reader.receive(50, 5))
    place = bench.raw.client.get_object(  # type: ignore[attr-defined]
        Bucket=bench.own, Key=f"groups/{bench.group}/manifests/{bench.topic}.json"
    )
    assert json.loads(place["Body"].read())["done"] == list(manifests(bench))


@pytest.mark.parametrize("spoil", ["removed", "replaced"])
def test_an_object_that_is_not_as_its_manifest_says_is_no_message(bench: Bench, listed: Backend, spoil: str) -> None:
    keys = listed.publish([old(bench, number) for number in range(3)], 30)
    if spoil == "removed":
        bench.raw.client.delete_object(Bucket=bench.own, Key=keys[1])  # type: ignore[attr-defined]
    else:
        put(bench, keys[1], old(bench, 7).envelope)
    found = follow(bench, listed).receive(10, 5)
    assert positions(found) == keys
    assert [bool(one.envelope) for one in found] == [True, False, True]


@pytest.mark.parametrize("what", ["no JSON", "a list", "no object", "another topic's object", "a number for a key"])
def test_what_is_no_manifest_is_no_message_and_ends_nothing(bench: Bench, listed: Backend, what: str) -> None:
    listed.publish([old(bench, 1)], 30)
    ((key, told),) = manifests(bench).items()
    told["objects"][0]["key"] = told["objects"][0]["key"].replace(bench.topic, "secret.topic")
    texts = {"no JSON": "{", "a list": "[]", "no object": '{"objects": []}', "another topic's object": json.dumps(told)}
    wrong = texts.get(what, '{"objects": [{"key": 1, "sha256": ""}]}').encode()
    put(bench, key[: -len("0.json")] + "z.json", wrong)
    good, bad = follow(bench, listed).receive(10, 5)
    assert good.position == told["objects"][0]["key"].replace("secret.topic", bench.topic)
    assert bad.envelope == wrong


def test_programs_follow_manifests_of_all_topics_of_a_pattern(bench: Bench) -> None:
    """Also of messages that are written in parts."""
    with speed.messages.connect(f"{bench.address}&manifests=true", max_message_bytes=16 << 20) as bucket:
        large = bytes(9 << 20)
        bucket.publish_all([(f"{bench.own}.a", 1), (f"{bench.own}.b", large), (f"{bench.own}.a", 2)])
        with bucket.subscribe(f"{bench.own}.*", group="g", start="earliest") as all_topics:
            assert take(all_topics, 3) == [1, 2, large]


def test_bridges_carry_with_manifests(bench: Bench, tmp_path: Path) -> None:
    site = BridgedSite(tmp_path, f"{bench.address}&manifests=true", bench.topic, name=bench.own)
    try:
        site.start()
        site.publish(range(1, 101))
        site.restart()
        assert {one.payload for one in site.came(range(1, 101))} == set(range(1, 101))
        assert manifests(bench)
    finally:
        site.close()
