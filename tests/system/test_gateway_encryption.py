"""Messages that clients encrypt themselves, through the gateway (PIP-290); with a real speedd and real keys."""

from __future__ import annotations

import json
import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.system.gateways import Client, GatewaySite, started_gateway, status

pytestmark = pytest.mark.system
site = pytest.fixture(started_gateway, name="site", scope="module")
OAEP = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)  # as Pulsar has it
PEOPLE = {name: rsa.generate_private_key(65537, 2048) for name in ("anna", "bert")}


def text(data: bytes) -> str:
    return b64encode(data).decode()


class Sealed:
    """A data key, encrypted for some people."""

    def __init__(self, *people: str) -> None:
        self.key = os.urandom(32)
        self.keys = {
            name: {
                "keyValue": text(PEOPLE[name].public_key().encrypt(self.key, OAEP)),
                "metadata": {"version": ">>>"},  # in Base64 that is a plus
            }
            for name in people
        }

    @property
    def parameter(self) -> str:
        return text(json.dumps(self.keys).encode())

    def frame(self, payload: bytes, compression: str = "", **more: object) -> dict[str, Any]:
        """What is published, in Pulsar's order: compressed, then encrypted."""
        iv = os.urandom(12)
        packed = zlib.compress(payload) if compression else payload
        said = {"compressionType": compression, "uncompressedMessageSize": len(payload)} if compression else {}
        sealed = AESGCM(self.key).encrypt(iv, packed, None)
        return {"payload": text(sealed), "encryptionParam": text(iv), **said, **more}


def opened(message: Mapping[str, Any], person: str) -> bytes:
    """What a reader finds with its private key and the context of the message."""
    context = message["encryptionContext"]
    key = PEOPLE[person].decrypt(b64decode(context["keys"][person]["keyValue"]), OAEP)
    packed = AESGCM(key).decrypt(b64decode(context["param"]), message["payload"], None)
    if context["compressionType"] == "NONE":
        return packed
    payload = zlib.decompress(packed)
    assert len(payload) == context["uncompressedMessageSize"]
    return payload


def test_each_of_several_recipients_opens_a_message(site: GatewaySite) -> None:
    topic, sealed = site.topic(), Sealed("anna", "bert")
    with site.consumer(topic) as consumer, site.producer(topic, encryptionKeys=sealed.parameter) as producer:
        assert producer.ask(**sealed.frame(b"secret", context=1))["result"] == "ok"
        message = consumer.message()
        assert b"secret" not in message["payload"]
        assert [opened(message, person) for person in PEOPLE] == [b"secret", b"secret"]


def test_the_context_is_as_pulsar_writes_it(site: GatewaySite) -> None:
    topic, sealed = site.topic(), Sealed("anna")
    with site.consumer(topic) as consumer, site.producer(topic, encryptionKeys=sealed.parameter) as producer:
        frame = sealed.frame(b"x", properties={"a": "b"})
        producer.ask(**frame)
        message = consumer.message()
        assert message["properties"] == {"a": "b"}
        assert message["encryptionContext"] == {
            "keys": sealed.keys,
            "param": frame["encryptionParam"],
            "compressionType": "NONE",
            "uncompressedMessageSize": len(b64decode(frame["payload"])),
            "batchSize": None,
        }


@pytest.mark.parametrize("action", ["CONSUME", "FAIL", "DISCARD"])
def test_compressed_messages_are_handed_on_whatever_is_to_happen_to_what_cannot_be_opened(
    site: GatewaySite, action: str
) -> None:
    topic, sealed = site.topic(), Sealed("anna")
    with (
        site.consumer(topic, cryptoFailureAction=action) as consumer,
        site.producer(topic, encryptionKeys=sealed.parameter) as producer,
    ):
        producer.ask(**sealed.frame(b"long " * 100, "ZLIB"))
        message = consumer.message()
        assert message["encryptionContext"]["compressionType"] == "ZLIB"
        assert opened(message, "anna") == b"long " * 100


def test_a_reader_gets_the_context_too(site: GatewaySite) -> None:
    topic, sealed = site.topic(), Sealed("anna")
    with (
        site.reader(topic, cryptoFailureAction="CONSUME") as reader,
        site.producer(topic, encryptionKeys=sealed.parameter) as producer,
    ):
        producer.ask(**sealed.frame(b"x"))
        assert opened(reader.message(), "anna") == b"x"


def without(frame: dict[str, Any], *names: str, **changed: object) -> dict[str, Any]:
    return {name: value for name, value in {**frame, **changed}.items() if name not in names}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"compressionType": "LZ4"}, "both empty or both non-empty"),
        ({"uncompressedMessageSize": 5}, "both empty or both non-empty"),
        ({"compressionType": "RAR", "uncompressedMessageSize": 5}, "both empty or both non-empty"),
        ({"compressionType": "LZ4", "uncompressedMessageSize": -1}, "uncompressedMessageSize"),
        ({"encryptionParam": "?"}, "Base64"),
        ({"encryptionParam": None}, "encryptionParam is missing"),
        ({"encryptionParam": ""}, "encryptionParam is missing"),
    ],
)
def test_what_nobody_could_open_is_refused_when_it_is_published(
    site: GatewaySite, change: dict[str, object], said: str
) -> None:
    topic, sealed = site.topic(), Sealed("anna")
    with site.consumer(topic) as consumer, site.producer(topic, encryptionKeys=sealed.parameter) as producer:
        reply = producer.ask(**without(sealed.frame(b"x"), **change))
        assert reply["result"] == "send-error:7"
        assert said in reply["errorMsg"]
        producer.ask(**sealed.frame(b"good"))
        assert opened(consumer.message(), "anna") == b"good"
        assert consumer.is_silent()


def test_a_property_that_is_no_context_is_no_reason_to_stop(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer:
        for bad in ("nonsense", "{}", "[" * 5000):
            site.node.topic(topic).publish(b"x", properties={"pulsar.encryption": bad, "pulsar.eventTime": bad})
            message = consumer.message()
            assert "encryptionContext" not in message
            assert "eventTime" not in message


@pytest.mark.parametrize(
    "keys",
    [
        "one,two",
        text(b"{}"),
        text(b'{"a": {"keyValue": ""}}'),
        text(b'{"a": {"keyValue": "?"}}'),
        text(b'{"a": {"keyValue": "eA=="}, "b": {}}'),
        text(b'{"": {"keyValue": "eA=="}}'),
        text(json.dumps({str(one): {"keyValue": "eA=="} for one in range(17)}).encode()),
    ],
)
def test_keys_that_are_none_are_refused_at_the_handshake(site: GatewaySite, keys: str) -> None:
    assert status(lambda: site.producer("inbox", encryptionKeys=keys))[0] == 400


def test_what_has_no_effect_beside_encryption_is_logged_in_one_line(site: GatewaySite) -> None:
    topic, sealed = site.topic(), Sealed("anna")
    parameters = {"batchingEnabled": "true", "compressionType": "LZ4", "batchingMaxMessages": 5}
    with site.producer(topic, encryptionKeys=sealed.parameter, **parameters) as producer:
        assert producer.ask(**sealed.frame(b"x"))["result"] == "ok"
    assert site.process.stderr is not None
    line = next(line for line in map(json.loads, site.process.stderr) if "encrypts" in line.get("text", ""))
    assert "batchingEnabled, batchingMaxMessages, compressionType" in line["text"]


def test_a_plus_that_was_not_encoded_is_understood(site: GatewaySite) -> None:
    sealed = Sealed("anna")
    assert "+" in sealed.parameter
    url = f"ws://127.0.0.1:{site.port}/ws/v2/producer/persistent/public/default/inbox?encryptionKeys={sealed.parameter}"
    with Client(url, {}) as producer:
        assert producer.ask(**sealed.frame(b"x"))["result"] == "ok"
