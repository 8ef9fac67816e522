"""The client of Pulsar's protocol at the gateway: both halves of PIP-290 are SPEED's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import speed.pulsar
from tests.system.gateways import GatewaySite, started_gateway
from tests.system.topics import PATIENCE

pytestmark = pytest.mark.system
site = pytest.fixture(started_gateway, name="site", scope="module")
KEYS: dict[str, Any] = {
    "anna": rsa.generate_private_key(65537, 2048),
    "bert": ec.generate_private_key(ec.SECP256R1()),
}
PUBLIC = {
    name: key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for name, key in KEYS.items()
}


def private(name: str) -> dict[str, bytes]:
    return {name: KEYS[name].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())}


@pytest.fixture
def pulsar(site: GatewaySite) -> Iterator[speed.pulsar.Pulsar]:
    with speed.pulsar.connect(f"ws://127.0.0.1:{site.port}") as pulsar:
        yield pulsar


def joined(pulsar: speed.pulsar.Pulsar, topic: str, subscription: str, **options: Any) -> speed.pulsar.Consumer:
    """A consumer whose subscription is there."""
    consumer = pulsar.consumer(f"public/default/{topic}", subscription, **options)
    assert consumer.receive(timeout=0.1) is None
    return consumer


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_each_of_several_recipients_opens_a_message(
    site: GatewaySite, pulsar: speed.pulsar.Pulsar, compression: str
) -> None:
    topic = site.topic()
    consumers = [joined(pulsar, topic, name, private_keys=private(name)) for name in KEYS]
    producer = pulsar.producer(f"public/default/{topic}", encryption_keys=PUBLIC, compression=compression)
    producer.publish(b"20.5 " * 100, key="customer 7", properties={"source": "web"}, event_time_ms=1_700_000_000_123)
    for consumer in consumers:
        message = consumer.receive(PATIENCE)
        assert message is not None
        assert (message.payload, message.key, message.properties) == (b"20.5 " * 100, "customer 7", {"source": "web"})
        assert message.event_time_ms == 1_700_000_000_123
        consumer.acknowledge(message)


def test_the_host_keeps_only_what_is_encrypted(site: GatewaySite, pulsar: speed.pulsar.Pulsar) -> None:
    topic = site.topic()
    pulsar.producer(f"public/default/{topic}", encryption_keys=PUBLIC).publish(b"secret")
    kept = site.node.topic(topic).reader("earliest").receive(PATIENCE)
    assert kept is not None
    assert b"secret" not in kept.payload
    assert "pulsar.encryption" in kept.properties


def test_a_reader_opens_messages_too(site: GatewaySite, pulsar: speed.pulsar.Pulsar) -> None:
    topic = site.topic()
    producer = pulsar.producer(f"public/default/{topic}", encryption_keys=PUBLIC)
    for number in range(3):
        producer.publish(b"%d" % number)
    reader = pulsar.reader(f"public/default/{topic}", "earliest", private_keys=private("bert"))
    messages = [reader.receive(PATIENCE) for _ in range(3)]
    assert [message.payload for message in messages if message is not None] == [b"0", b"1", b"2"]


def test_who_has_none_of_the_keys_is_told(site: GatewaySite, pulsar: speed.pulsar.Pulsar) -> None:
    topic = site.topic()
    consumer = joined(pulsar, topic, "carla", private_keys={"carla": private("anna")["anna"]})
    pulsar.producer(f"public/default/{topic}", encryption_keys=PUBLIC).publish(b"secret")
    with pytest.raises(speed.pulsar.UnreadableError, match="encrypted for keys of other names"):
        consumer.receive(PATIENCE)


def test_a_data_key_that_is_used_up_is_replaced(site: GatewaySite, pulsar: speed.pulsar.Pulsar) -> None:
    topic = site.topic()
    consumer = joined(pulsar, topic, "anna", private_keys=private("anna"))
    producer = pulsar.producer(f"public/default/{topic}", encryption_keys=PUBLIC, key_messages=2)
    for number in range(5):
        producer.publish(b"%d" % number)
    messages = [consumer.receive(PATIENCE) for _ in range(5)]
    assert [message.payload for message in messages if message is not None] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_message_that_is_refused_comes_again(site: GatewaySite, pulsar: speed.pulsar.Pulsar) -> None:
    topic = site.topic()
    consumer = joined(pulsar, topic, "s", negativeAckRedeliveryDelay="1")
    pulsar.producer(f"public/default/{topic}").publish(b"again")
    first = consumer.receive(PATIENCE)
    assert first is not None
    consumer.negative_acknowledge(first)
    second = consumer.receive(PATIENCE)
    assert second is not None
    assert (second.payload, second.redelivery_count) == (b"again", 1)
