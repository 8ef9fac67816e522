"""Durable topics of a speedd whose messages lie in Pulsar: what holds for those in files holds there (D-20 to D-24)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

import speed
from speed.wire.value import pack
from tests.pulsar.standalone import Server
from tests.system import test_topics as those_in_files
from tests.system.topics import CONFIG, TopicSite, until

pytestmark = [pytest.mark.system, pytest.mark.java, pytest.mark.timeout(400)]

DIFFERENT = frozenset(
    {
        "test_wrong_names_are_refused",  # by the client alone
        "test_wrong_names_of_subscriptions_are_refused",
        "test_what_a_callback_handled_meanwhile_is_acknowledged_together",  # a cluster may send one after the other
    }
)
globals().update(
    (name, test) for name, test in vars(those_in_files).items() if name.startswith("test_") and name not in DIFFERENT
)
topic, offset = those_in_files.topic, those_in_files.offset


def configuration(server: Server, more: str = "") -> str:
    where = f'backend = "{server.addresses["broker"]}"\nadmin = "{server.addresses["admin"]}"\n'
    return CONFIG.replace("[topics]\n", "[topics]\n" + where) + more


@pytest.fixture(scope="module")
def site(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    site = TopicSite(tmp_path_factory.mktemp("cluster"), configuration(server))
    site.start()
    yield site
    site.close()


@pytest.fixture(scope="module")
def node(site: TopicSite) -> Iterator[speed.Node]:
    with site.node() as node:
        yield node


@pytest.fixture
def step() -> int:
    return 256


@pytest.fixture(scope="module")
def native(server: Server) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        server.addresses["broker"], logger=pulsar.FileLogger(pulsar._pulsar.LoggerLevel.Error, "/dev/null")
    )
    yield client
    client.close()


def whole(topic: speed.Topic) -> str:
    return f"persistent://public/default/{topic.name}"


def received(consumer: speed.Consumer) -> speed.TopicMessage:
    message = consumer.receive(timeout=20)
    assert message is not None
    return message


# --- with Pulsar's own client ---


def test_a_program_with_pulsars_client_reads_what_a_node_published(native: pulsar.Client, topic: speed.Topic) -> None:
    """D-22."""
    topic.publish({"id": 1}, key="k", properties={"colour": "red"})
    reader = native.create_reader(whole(topic), pulsar.MessageId.earliest)
    message = reader.read_next(20_000)
    assert (message.data(), message.partition_key()) == (pack({"id": 1}), "k")
    assert message.properties() == {"colour": "red", "speed.publisher": "test"}
    reader.close()


def test_a_node_reads_what_a_program_with_pulsars_client_published(native: pulsar.Client, topic: speed.Topic) -> None:
    """D-21, D-22."""
    producer = native.create_producer(whole(topic), batching_enabled=True, batching_max_publish_delay_ms=1000)
    for number in range(3):
        producer.send_async(b"%d" % number, lambda *_: None, partition_key="k", properties={"n": str(number)})
    producer.flush()
    producer.close()
    with topic.consumer("billing", start="earliest") as consumer:
        found = [received(consumer) for _ in range(3)]
        consumer.acknowledge(*found)
    assert [(one.payload, one.key, one.properties, one.publisher) for one in found] == [
        (b"%d" % number, "k", {"n": str(number)}, "") for number in range(3)
    ]
    assert [one.offset - found[0].offset for one in found] == [0, 1, 2], "one batch is one entry"
    until(lambda: topic.describe()["subscriptions"][0]["backlog"] == 0)


def test_a_batch_that_is_too_large_for_offsets_stops_its_reader_and_is_named(
    native: pulsar.Client, topic: speed.Topic
) -> None:
    """D-21."""
    producer = native.create_producer(whole(topic), batching_enabled=True, batching_max_publish_delay_ms=1000)
    for _ in range(300):
        producer.send_async(b"x", lambda *_: None)
    producer.flush()
    producer.close()
    with topic.consumer("billing", start="earliest", prefetch=300) as consumer:
        assert [received(consumer).payload for _ in range(256)] == [b"x"] * 256
        with pytest.raises(speed.ApplicationError, match=":256 of Pulsar has no offset") as refused:
            consumer.receive(timeout=20)
    assert refused.value.code == "UNSUPPORTED"


def test_bytes_that_are_no_text_do_not_stop_a_consumer(native: pulsar.Client, topic: speed.Topic) -> None:
    """D-22: a value that a node could not take is one of bytes."""
    producer = native.create_producer(whole(topic))
    producer.send(b"\xa5cut", properties={"speed.publisher": "test", "speed.sequence": "many"})
    producer.close()
    topic.publish("after")
    with topic.consumer("billing", start="earliest") as consumer:
        assert [received(consumer).payload for _ in range(2)] == [b"\xa5cut", "after"]


def test_a_subscription_that_another_program_has_is_taken(native: pulsar.Client, topic: speed.Topic) -> None:
    """D-23."""
    other = native.subscribe(whole(topic), "billing")
    with pytest.raises(speed.ApplicationError) as refused:
        topic.consumer("billing")
    assert refused.value.code == "TAKEN"
    with pytest.raises(speed.ApplicationError) as refused:
        topic.unsubscribe("billing")
    assert refused.value.code == "TAKEN"
    other.close()
    topic.consumer("billing").close()


def test_a_topic_that_another_program_made_is_served_and_refuses_what_it_cannot_do(
    native: pulsar.Client, node: speed.Node
) -> None:
    """D-20, D-23."""
    made = node.topic("theirs." + uuid.uuid4().hex)
    native.create_producer(whole(made)).close()
    made.publish("x")
    with pytest.raises(speed.ApplicationError, match="enable its deduplication") as refused:
        made.publish("y", producer="shop", sequence=1)
    assert refused.value.code == "UNSUPPORTED"
    assert len(made.describe()["lane"]) == 32
    made.delete()


def test_a_topic_with_partitions_is_refused_by_name(server: Server, site: TopicSite, node: speed.Node) -> None:
    """D-20."""
    name = "parts." + uuid.uuid4().hex
    server.admin("PUT", f"persistent/public/default/{name}/partitions", 2)
    for call in (node.topic(name).describe, lambda: node.topic(name).publish("x")):
        with pytest.raises(speed.ApplicationError, match="has partitions") as refused:
            call()
        assert refused.value.code == "UNSUPPORTED"
    with site.node("consumer.1") as other, pytest.raises(speed.ApplicationError) as refused:
        other.topic(name).publish("x")
    assert refused.value.code == "DENIED", "who may not publish is not told what there is"
    with pytest.raises(speed.ApplicationError) as refused:
        node.topic(f"{name}-partition-0").publish("x")
    assert refused.value.code == "UNKNOWN_TOPIC"
    assert all(name not in one["topic"] for one in node.call("speedd.topics", "topics.list"))


@pytest.mark.parametrize("name", ["x-partition-0", "__x"])
def test_names_of_pulsars_own_are_refused(node: speed.Node, name: str) -> None:
    """D-20."""
    with pytest.raises(speed.InvalidArgumentsError, match="Pulsar's own"):
        node.topic(name).create()


def test_what_pulsar_cannot_say_is_refused(topic: speed.Topic) -> None:
    """D-22."""
    with pytest.raises(speed.InvalidArgumentsError, match="the host's own"):
        topic.publish("x", properties={"speed.publisher": "me"})
    with pytest.raises(speed.InvalidArgumentsError, match="empty key"):
        topic.publish("x", key="")


def test_a_topic_keeps_what_all_have_acknowledged(server: Server, topic: speed.Topic) -> None:
    """D-20."""
    place = f"persistent/public/default/{topic.name}/"
    assert server.admin("GET", place + "retention") == {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert server.admin("GET", place + "inactiveTopicPolicies")["deleteWhileInactive"] is False


def test_a_host_reaches_its_cluster_by_tls_with_a_token_and_trusts_whom_it_is_told(
    server: Server, tmp_path: Path
) -> None:
    """D-20."""
    (tmp_path / "token").write_text("no.real.token\n")
    plain = "".join(f'{name} = "{server.addresses[name]}"\n' for name in ("broker", "admin")).replace(
        "broker", "backend"
    )
    tls = f'backend = "{server.tls["broker"]}"\nadmin = "{server.tls["admin"]}"\ntoken = "token"\n'
    config = configuration(server)
    assert plain in config
    site = TopicSite(tmp_path, config.replace(plain, f'{tls}trusted = "{server.certificate}"\n'))
    site.start()
    with site.node() as node:
        assert node.topic("orders").publish("x") is not None
    site.kill()
    site.config.write_text(config.replace(plain, tls))
    site.start()
    with site.node() as node, pytest.raises(speed.ApplicationError, match="CERTIFICATE_VERIFY_FAILED") as refused:
        node.topic("orders").publish("x")
    assert refused.value.code == "NOT_WRITTEN"
    site.close()


# --- several hosts ---


@pytest.fixture(scope="module")
def second(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicSite]:
    """A speedd of another root, before the same cluster."""
    site = TopicSite(tmp_path_factory.mktemp("second"), configuration(server))
    site.start()
    yield site
    site.close()


def test_hosts_share_a_subscription(second: TopicSite, topic: speed.Topic) -> None:
    """D-23."""
    with second.node() as other:
        there = other.topic(topic.name)
        with (
            topic.consumer("billing", type="shared", prefetch=1) as one,
            there.consumer("billing", type="shared") as two,
        ):
            topic.publish_batch(range(400))
            found: list[list[Any]] = [[], []]
            for place, consumer in enumerate((one, two)):
                while (message := consumer.receive(timeout=1)) is not None:
                    consumer.acknowledge(message)
                    found[place].append(message.payload)
        assert sorted(found[0] + found[1]) == list(range(400))
        assert found[0]
        assert found[1]
        with pytest.raises(speed.ApplicationError) as refused:
            there.consumer("billing", type="failover")
        assert refused.value.code == "TAKEN"


def test_a_subscription_keeps_its_terms_at_another_host(second: TopicSite, topic: speed.Topic) -> None:
    """D-8, D-23."""
    topic.publish("poison")
    topic.consumer("billing", type="shared", start="earliest", max_deliveries=1, dead_letter=True).close()
    with second.node() as other:
        with other.topic(topic.name).consumer("billing", type="shared") as consumer:
            consumer.reject(received(consumer), delay=0)
            assert consumer.receive(timeout=0.5) is None
        dead = other.topic(f"{topic.name}-billing-DLQ")
        letter = dead.reader("earliest").receive(timeout=20)
        assert letter is not None
        assert (letter.payload, letter.failed_attempts) == ("poison", 1)
        dead.delete()


def test_a_topic_that_was_removed_at_another_host_is_forgotten(second: TopicSite, node: speed.Node) -> None:
    """D-20."""
    topic = node.topic("gone." + uuid.uuid4().hex)
    topic.create()
    topic.describe()
    with second.node() as other:
        other.topic(topic.name).delete()

    def is_forgotten() -> bool:
        try:
            topic.describe()
        except speed.ApplicationError as error:
            return error.code in ("UNKNOWN_TOPIC", "DENIED")
        return False

    until(is_forgotten)


def test_a_repetition_is_known_at_another_host_once_the_first_is_silent(second: TopicSite, topic: speed.Topic) -> None:
    """D-23."""
    topic.publish("a", producer="shop", sequence=9)
    with second.node() as other, pytest.raises(speed.ApplicationError) as refused:
        other.topic(topic.name).publish("a", producer="shop", sequence=9)
    assert refused.value.code == "NOT_WRITTEN"


def test_seeking_moves_a_subscription_that_another_host_reads(second: TopicSite, topic: speed.Topic) -> None:
    """D-13."""
    topic.publish_batch("abc")
    with (
        second.node() as other,
        other.topic(topic.name).consumer("billing", type="shared", start="earliest") as consumer,
    ):
        assert [received(consumer).payload for _ in range(3)] == ["a", "b", "c"]
        assert json.dumps(topic.seek("billing", "earliest"))
