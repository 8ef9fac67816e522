"""PIP-290 with a real Pulsar: what this client publishes and reads, alone and with Pulsar's Java client."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from urllib.parse import quote

import msgspec
import pytest
from websockets.sync.client import connect

from speed.gateway.encryption import ByGateway
from speed.pulsar import Consumer, Pulsar, PulsarMessage, PulsarRefusedError, UnreadableError
from speed.pulsar.payloads import DataKey, load_public
from tests.pulsar.standalone import Server

pytestmark = [pytest.mark.system, pytest.mark.java, pytest.mark.timeout(400)]
Joined = Callable[..., Consumer]
TEXT = b"tell me, tell me, tell me"


def received(consumer: Consumer) -> PulsarMessage:
    message = consumer.receive(30)
    assert message is not None
    return message


@pytest.mark.parametrize("key", ["rsa", "ec"])
@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_what_is_published_encrypted_is_consumed(
    server: Server, pulsar: Pulsar, joined: Joined, topic: str, key: str, compression: str
) -> None:
    consumer = joined(private_keys=server.private(key))
    producer = pulsar.producer(topic, encryption_keys=server.public(key), compression=compression)
    producer.publish(TEXT, key="k", properties={"a": "b"}, event_time_ms=1234)
    message = received(consumer)
    assert (message.payload, message.key, message.properties, message.event_time_ms) == (TEXT, "k", {"a": "b"}, 1234)


@pytest.mark.parametrize("key", ["rsa", "ec"])
def test_the_java_client_reads_what_is_published(server: Server, pulsar: Pulsar, topic: str, key: str) -> None:
    for compression in ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"):
        pulsar.producer(topic, encryption_keys=server.public(key), compression=compression).publish(TEXT)
    shown = server.java("receive", topic, "5").split()
    assert [b64decode(line) for line in shown] == [TEXT] * 5


@pytest.mark.parametrize("key", ["rsa", "ec"])
def test_the_java_client_reads_what_the_gateway_encrypts(server: Server, topic: str, key: str) -> None:
    public = load_public(key, server.public(key)[key])
    sealed, context = ByGateway(DataKey({key: public})).seal(TEXT)
    keys = quote(b64encode(msgspec.json.encode(context.keys)).decode(), safe="")
    address = f"{server.addresses['websocket']}/ws/v2/producer/persistent/{topic}?encryptionKeys={keys}"
    with connect(address, proxy=None) as producer:
        producer.send(json.dumps({"payload": b64encode(sealed).decode(), "encryptionParam": context.param}))
        assert json.loads(producer.recv(30))["result"] == "ok"
    assert b64decode(server.java("receive", topic, "1")) == TEXT


@pytest.mark.parametrize(
    ("names", "compression", "batched"),
    [
        ("rsa", "NONE", False),
        ("rsa", "LZ4", False),
        ("rsa", "LZ4", True),
        ("ec", "ZSTD", True),
        ("rsa,ec", "ZLIB", True),
        ("ec", "SNAPPY", True),
    ],
)
def test_what_the_java_client_publishes_is_consumed(
    server: Server, joined: Joined, topic: str, names: str, compression: str, batched: bool
) -> None:
    consumer = joined(private_keys=server.private(names.rsplit(",", maxsplit=1)[-1]))
    server.java("publish", topic, names, compression, str(batched).lower(), "3")
    messages = [received(consumer) for _ in range(3)]
    assert [one.payload for one in messages] == [b"message %d of Java, of Java, of Java" % at for at in range(3)]
    assert [(one.key, one.properties) for one in messages] == [(f"key {at}", {"number": str(at)}) for at in range(3)]
    assert len({one.message_id for one in messages}) == (1 if batched else 3)


def test_a_batch_is_acknowledged_with_its_last_message(
    server: Server, pulsar: Pulsar, joined: Joined, topic: str
) -> None:
    consumer = joined(type="Shared", private_keys=server.private("rsa"))  # the server forgets an exclusive one late
    server.java("publish", topic, "rsa", "LZ4", "true", "2")
    first = received(consumer)
    consumer.acknowledge(first)
    consumer.close()
    again = [received(consumer), received(consumer)]
    assert again[0].message_id == first.message_id
    for one in again:
        consumer.acknowledge(one)
    consumer.close()
    assert consumer.receive(2) is None


def test_a_message_for_another_key_fails_and_can_be_acknowledged(
    server: Server, pulsar: Pulsar, joined: Joined, topic: str
) -> None:
    consumer = joined(type="Shared", private_keys={"rsa": server.private("other")["other"]})
    pulsar.producer(topic, encryption_keys=server.public("rsa")).publish(TEXT)
    with pytest.raises(UnreadableError) as caught:
        consumer.receive(30)
    consumer.acknowledge(caught.value.message)
    consumer.close()
    assert consumer.receive(2) is None


def test_a_message_for_another_key_is_discarded(server: Server, pulsar: Pulsar, joined: Joined, topic: str) -> None:
    consumer = joined(private_keys=server.private("other"), crypto_failure="discard")
    pulsar.producer(topic, encryption_keys=server.public("rsa")).publish(TEXT)
    pulsar.producer(topic, encryption_keys=server.public("other")).publish(b"mine")
    assert received(consumer).payload == b"mine"
    assert consumer.discarded == 1


def test_a_message_for_another_key_is_consumed_as_it_is(
    server: Server, pulsar: Pulsar, joined: Joined, topic: str
) -> None:
    consumer = joined(crypto_failure="consume")
    pulsar.producer(topic, encryption_keys=server.public("rsa")).publish(TEXT)
    message = received(consumer)
    assert message.encryption is not None
    assert message.payload is not None
    assert TEXT not in message.payload


def test_a_new_data_key_is_used_when_the_old_one_is_used_up(
    server: Server, pulsar: Pulsar, joined: Joined, topic: str
) -> None:
    consumer = joined(crypto_failure="consume")
    producer = pulsar.producer(topic, encryption_keys=server.public("rsa"), key_messages=2)
    for _ in range(3):
        producer.publish(TEXT)
    found = [received(consumer).encryption for _ in range(3)]
    assert len({one.keys["rsa"] for one in found if one}) == 2


def test_pulsar_itself_fails_with_two_recipients(server: Server, pulsar: Pulsar, topic: str) -> None:
    with pytest.raises(PulsarRefusedError, match="send-error"):
        pulsar.producer(topic, encryption_keys=server.public("rsa", "ec")).publish(TEXT)


def test_a_message_without_encryption_is_published_and_read(pulsar: Pulsar, topic: str) -> None:
    pulsar.producer(topic, compression="LZ4").publish(TEXT)
    with pulsar.reader(topic, "earliest") as reader:
        message = reader.receive(30)
        assert message is not None
        assert message.payload == TEXT
        assert not reader.has_reached_end()


def test_a_reader_says_that_it_is_not_told_of_encryption(server: Server, pulsar: Pulsar, topic: str) -> None:
    pulsar.producer(topic, encryption_keys=server.public("rsa")).publish(TEXT)
    with pytest.raises(UnreadableError, match="consumer instead"):
        pulsar.reader(topic, "earliest", private_keys=server.private("rsa")).receive(30)


def test_a_refused_message_comes_again(pulsar: Pulsar, joined: Joined, topic: str) -> None:
    consumer = joined(type="Shared", negativeAckRedeliveryDelay="100")
    pulsar.producer(topic).publish(TEXT)
    first = received(consumer)
    consumer.negative_acknowledge(first)
    assert received(consumer).message_id == first.message_id


def test_an_exclusive_subscription_refuses_a_second_consumer(pulsar: Pulsar, joined: Joined, topic: str) -> None:
    joined()
    with pytest.raises(PulsarRefusedError, match="409"):
        pulsar.consumer(topic, "billing").receive(5)
