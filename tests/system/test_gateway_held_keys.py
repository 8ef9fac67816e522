"""Messages that the gateway encrypts and decrypts for its clients; with a real speedd, real keys and real providers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import speed.pulsar
from speed.message.keys import generate_key
from tests.system.gateways import NAMED, GatewaySite, published, status, until
from tests.system.topics import PATIENCE

pytestmark = pytest.mark.system
PRIVATE: dict[str, Any] = {
    "anna": rsa.generate_private_key(65537, 2048),
    "bert": ec.generate_private_key(ec.SECP256R1()),
    "carla": rsa.generate_private_key(65537, 2048),
    "dora": rsa.generate_private_key(65537, 2048),
}
"""The gateway has the whole keys of Anna and Bert, the public key of Carla, and none of Dora."""
HELD = ("anna", "bert", "app")


def private_pem(name: str) -> bytes:
    return PRIVATE[name].private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def public_pem(name: str) -> bytes:
    return PRIVATE[name].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class Held(GatewaySite):
    """A gateway with keys: PEM files, key records, a set that comes late, and one whose provider never answers."""

    def __init__(self, path: Path) -> None:
        self.silent = socket.create_server(("127.0.0.1", 0))
        files = {"anna": private_pem("anna"), "bert": private_pem("bert"), "carla": public_pem("carla")}
        sources = {name: f"pem://{self._written(path / f'{name}.pem', data)}" for name, data in files.items()}
        app, bound = (generate_key("one", "rsa-oaep-3072", **more) for more in ({}, {"topics": ("elsewhere",)}))
        for name, key in (("app", app), ("bound", bound)):
            data = json.dumps(key.to_record()).encode()
            sources[name] = f"file://{self._written(path / f'{name}.json', data)}"
        self.late = path / "late.pem"
        sources["late"] = f"pem://{self.late}"
        port = self.silent.getsockname()[1]
        sources["hanging"] = f"vault://secret/orders?address=http://127.0.0.1:{port}"
        told = ", ".join(f'{name} = "{source}"' for name, source in sources.items())
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("VAULT_TOKEN", "token")
            super().__init__(path, f"{NAMED}keys = {{{told}}}\n")

    @staticmethod
    def _written(file: Path, data: bytes) -> Path:
        """The file, there as a whole or not at all: a provider may look at any time."""
        whole = file.with_suffix(".new")
        whole.touch(0o600)
        whole.write_bytes(data)
        return whole.replace(file)

    def close(self) -> None:
        super().close()
        self.silent.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    site = Held(tmp_path_factory.mktemp("held"))
    yield site
    site.close()


@pytest.fixture
def pulsar(site: Held) -> Iterator[speed.pulsar.Pulsar]:
    """Clients that encrypt and decrypt by themselves."""
    with speed.pulsar.connect(f"ws://127.0.0.1:{site.port}") as pulsar:
        yield pulsar


def by_client(pulsar: speed.pulsar.Pulsar, topic: str, name: str, **options: Any) -> speed.pulsar.Producer:
    return pulsar.producer(f"public/default/{topic}", encryption_keys={name: public_pem(name)}, **options)


def subscribed(pulsar: speed.pulsar.Pulsar, topic: str, name: str) -> speed.pulsar.Consumer:
    """A consumer with a private key of its own, whose subscription is there."""
    consumer = pulsar.consumer(f"public/default/{topic}", "own", private_keys={name: private_pem(name)})
    assert consumer.receive(timeout=0.1) is None
    return consumer


@pytest.mark.parametrize("name", HELD)
def test_what_the_gateway_encrypts_is_kept_encrypted_and_opened_for_consumers(site: Held, name: str) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer, site.producer(topic, encryptionKeys=name) as producer:
        assert producer.publish(b"one coffee", key="table 4", properties={"a": "b"})["result"] == "ok"
        message = consumer.message()
    assert (message["payload"], message["key"], message["properties"]) == (b"one coffee", "table 4", {"a": "b"})
    assert "encryptionContext" not in message
    (kept,) = published(site.node, topic)
    assert b"coffee" not in kept


def test_a_reader_has_messages_opened_too(site: Held) -> None:
    topic = site.topic()
    with site.producer(topic, encryptionKeys="anna") as producer, site.reader(topic, messageId="earliest") as reader:
        producer.publish(b"one coffee")
        assert reader.payloads(1) == [b"one coffee"]


def test_a_client_with_its_own_private_key_reads_what_the_gateway_encrypted(
    site: Held, pulsar: speed.pulsar.Pulsar
) -> None:
    topic = site.topic()
    consumer = subscribed(pulsar, topic, "carla")
    with site.producer(topic, encryptionKeys="carla") as producer:
        producer.publish(b"one coffee")
    message = consumer.receive(PATIENCE)
    assert message is not None
    assert message.payload == b"one coffee"


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"])
@pytest.mark.parametrize("name", ["anna", "bert"])
def test_what_a_client_encrypted_is_opened_by_the_gateway(
    site: Held, pulsar: speed.pulsar.Pulsar, name: str, compression: str
) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer:
        by_client(pulsar, topic, name, compression=compression).publish(b"one coffee " * 50)
        assert consumer.payloads(1) == [b"one coffee " * 50]


def test_each_key_that_a_producer_names_opens_its_messages(site: Held, pulsar: speed.pulsar.Pulsar) -> None:
    topic = site.topic()
    own = subscribed(pulsar, topic, "carla")
    with site.producer(topic, encryptionKeys="carla,bert") as producer, site.consumer(topic) as consumer:
        producer.publish(b"one coffee")
        assert consumer.payloads(1) == [b"one coffee"]
    message = own.receive(PATIENCE)
    assert message is not None
    assert message.payload == b"one coffee"


def test_who_encrypts_by_itself_or_not_at_all_publishes_as_before(site: Held) -> None:
    topic = site.topic()
    with site.producer(topic) as producer, site.consumer(topic) as consumer:
        producer.publish(b"plain")
        assert consumer.payloads(1) == [b"plain"]
    assert published(site.node, topic) == [b"plain"]


def backlog(site: Held, topic: str) -> int:
    return int(site.node.topic(topic).describe()["subscriptions"][0]["backlog"])


@pytest.mark.parametrize(("action", "left"), [({}, 1), ({"cryptoFailureAction": "DISCARD"}, 0)])
def test_a_message_that_does_not_open_is_not_delivered_and_discarded_only_if_that_is_asked(
    site: Held, pulsar: speed.pulsar.Pulsar, action: dict[str, str], left: int
) -> None:
    topic = site.topic()
    with site.consumer(topic, subscriptionType="Shared", **action) as consumer:
        by_client(pulsar, topic, "dora").publish(b"for Dora")
        by_client(pulsar, topic, "anna").publish(b"for Anna")
        assert consumer.payloads(1) == [b"for Anna"]
        until(lambda: backlog(site, topic) == left)
    with site.consumer(topic, subscriptionType="Shared", cryptoFailureAction="CONSUME") as consumer:
        assert "dora" in consumer.message()["encryptionContext"]["keys"] if left else consumer.is_silent()


def test_a_message_that_does_not_open_is_handed_on_as_it_is_if_that_is_asked(
    site: Held, pulsar: speed.pulsar.Pulsar
) -> None:
    topic = site.topic()
    own = subscribed(pulsar, topic, "dora")  # it asks for that
    by_client(pulsar, topic, "dora").publish(b"for Dora")
    message = own.receive(PATIENCE)
    assert message is not None
    assert message.payload == b"for Dora"


@pytest.mark.parametrize("action", ["FAIL", "DISCARD"])
def test_a_reader_passes_over_what_does_not_open(site: Held, pulsar: speed.pulsar.Pulsar, action: str) -> None:
    topic = site.topic()
    by_client(pulsar, topic, "dora").publish(b"for Dora")
    by_client(pulsar, topic, "anna").publish(b"for Anna")
    before = site.metric("messages_unopened")
    with site.reader(topic, messageId="earliest", cryptoFailureAction=action, receiverQueueSize=1) as reader:
        assert reader.payloads(1) == [b"for Anna"]
    assert site.metric("messages_unopened") == before + 1


def test_a_payload_that_was_altered_does_not_open(site: Held) -> None:
    topic = site.topic()
    with site.producer(topic, encryptionKeys="anna") as producer:
        producer.publish(b"one coffee")
    reader = site.node.topic(topic).reader("earliest")
    kept = reader.receive(PATIENCE)
    assert kept is not None
    altered = bytes([kept.payload[0] ^ 1, *kept.payload[1:]])
    site.node.topic(topic).publish(altered, properties=dict(kept.properties))
    with site.reader(topic, messageId="earliest", cryptoFailureAction="CONSUME") as client:
        assert client.message()["payload"] == b"one coffee"
        assert client.message()["payload"] == altered


@pytest.mark.parametrize(("names", "code"), [("nobody", 400), ("anna,nobody", 400), ("bound", 403), ("late", 503)])
def test_a_producer_with_keys_that_cannot_be_used_is_refused(site: Held, names: str, code: int) -> None:
    assert status(lambda: site.producer("inbox", encryptionKeys=names))[0] == code


def test_a_key_for_another_topic_opens_nothing_here(site: Held) -> None:
    site.node.topic("elsewhere").create()
    topic = site.topic()
    with site.producer("elsewhere", encryptionKeys="bound") as producer:
        producer.publish(b"one coffee")
    kept = site.node.topic("elsewhere").reader("earliest").receive(PATIENCE)
    assert kept is not None
    site.node.topic(topic).publish(kept.payload, properties=dict(kept.properties))
    with site.reader(topic, messageId="earliest", cryptoFailureAction="CONSUME") as reader:
        assert reader.message()["payload"] == kept.payload
    with site.reader("elsewhere", messageId="earliest") as reader:
        assert reader.message()["payload"] == b"one coffee"


def test_messages_wait_for_keys_that_cannot_be_had_now(site: Held, pulsar: speed.pulsar.Pulsar) -> None:
    topic = site.topic()
    key = {"late": public_pem("dora")}
    with site.consumer(topic, cryptoFailureAction="DISCARD") as consumer:
        pulsar.producer(f"public/default/{topic}", encryption_keys=key).publish(b"one coffee")
        assert consumer.is_silent()
        site._written(site.late, private_pem("dora"))
        assert consumer.payloads(1) == [b"one coffee"]


def test_a_provider_that_hangs_holds_up_only_who_needs_it(site: Held, pulsar: speed.pulsar.Pulsar) -> None:
    topic, other = site.topic(), site.topic()
    answers: list[tuple[int, str]] = []
    connect: Callable[[], object] = lambda: site.producer("inbox", encryptionKeys="hanging")  # noqa: E731
    hanging = threading.Thread(target=lambda: answers.append(status(connect)))
    with site.consumer(other), site.consumer(topic) as consumer:
        key = {"hanging": public_pem("anna")}
        pulsar.producer(f"public/default/{other}", encryption_keys=key).publish(b"nobody opens this")
        hanging.start()
        with site.producer(topic, encryptionKeys="anna") as producer:
            producer.publish(b"one coffee")
            assert consumer.payloads(1) == [b"one coffee"]
        assert hanging.is_alive()
    hanging.join(PATIENCE)
    assert [code for code, _ in answers] == [503]


def test_a_source_of_keys_that_cannot_be_is_told_before_anything_is_served(tmp_path: Path) -> None:
    config = tmp_path / "speedd.toml"
    config.write_text(f'{NAMED}keys = {{app = "nowhere://a"}}\n')
    words = [sys.executable, "-m", "speed.daemon"]
    for verb in ("check", "run"):
        done = subprocess.run([*words, verb, "-c", config], capture_output=True, text=True, check=False)
        assert done.returncode == 3, done
        assert "no key provider for 'nowhere'" in done.stdout + done.stderr


def test_neither_keys_nor_payloads_are_in_the_log(tmp_path: Path) -> None:
    site = Held(tmp_path)
    topic = site.topic()
    with site.consumer(topic) as consumer, site.producer(topic, encryptionKeys="anna,bert,app") as producer:
        producer.publish(b"one coffee")
        consumer.message()
    status(lambda: site.producer(topic, encryptionKeys="bound"))
    process = site.process
    site.node.close()
    process.terminate()
    assert process.stderr is not None
    log = "".join(site.topics.log) + process.stderr.read()
    site.close()
    secrets = ["one coffee", "b25lIGNvZmZlZQ", *private_pem("anna").decode().split("\n")[1:-2]]
    assert not [secret for secret in secrets if secret in log]
