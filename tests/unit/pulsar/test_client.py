"""What the client of speed.pulsar says and does, with real connections to a server that says what a test says."""

from __future__ import annotations

import json
import socket
from base64 import b64decode, b64encode
from http import HTTPStatus
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from speed.message.errors import NoRecipientKeyError
from speed.pulsar import (
    PulsarConnectionError,
    PulsarError,
    PulsarRefusedError,
    PulsarTimeoutError,
    UnreadableError,
    connect,
)
from speed.pulsar.payloads import DataKey
from tests.unit.pulsar.scripted import PATIENCE, deaf, scripted

TOPIC = "public/default/orders"
KEY = ec.generate_private_key(ec.SECP256R1())
PRIVATE = {"app": KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())}
PUBLIC = {"app": KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)}


def text(data: bytes) -> str:
    return b64encode(data).decode()


def kept(frame: Any) -> list[Any]:
    """As a server answers that keeps what is published."""
    return [] if frame is None else [{"result": "ok", "messageId": "m", "context": frame["context"]}]


def message(name: str, payload: bytes = b"x", **more: Any) -> dict[str, Any]:
    return {"messageId": name, "payload": text(payload), "properties": {}, "publishTime": "t", **more}


def encrypted(name: str, payload: bytes, batch: int | None = None) -> dict[str, Any]:
    data_key = DataKey({"app": KEY.public_key()})
    sealed, iv = data_key.encrypt(payload)
    keys = {name: {"keyValue": text(value)} for name, value in data_key.wrapped.items()}
    context = {"keys": keys, "param": text(iv), "compressionType": "NONE", "batchSize": batch}
    return message(name, sealed, encryptionContext=context)


def at_once(*frames: Any) -> Any:
    """A server that says this to who connects."""
    return lambda frame: list(frames) if frame is None else []


def test_what_is_published_has_only_what_was_said_and_is_answered_with_its_id() -> None:
    with scripted(kept) as server, connect(server.address, token="secret") as pulsar:
        producer = pulsar.producer(TOPIC, compression="LZ4", sendTimeoutMillis="5")
        assert producer.publish(b"20.5") == "m"
        assert producer.publish(b"", key="k", properties={"a": "b"}, event_time_ms=1, deliver_at_ms=2) == "m"
        assert server.heard.get(timeout=PATIENCE) == {"payload": text(b"20.5"), "context": "1"}
        second = server.heard.get(timeout=PATIENCE)
        assert (second["key"], second["properties"], second["deliverAt"]) == ("k", {"a": "b"}, 2)
        assert server.parameters == [{"compressionType": ["LZ4"], "sendTimeoutMillis": ["5"]}]
        assert server.headers[0]["Authorization"] == "Bearer secret"
        assert "secret" not in repr(pulsar)


def test_an_answer_to_an_earlier_message_is_passed_over() -> None:
    late = {"result": "send-error:8", "context": "0"}
    with scripted(lambda frame: [late, *kept(frame)] if frame else []) as server, connect(server.address) as pulsar:
        assert pulsar.producer(TOPIC).publish(b"x") == "m"


def test_a_message_that_is_not_kept_is_an_error_with_the_reason_of_the_server() -> None:
    refusal = {"result": "send-error:6", "errorMsg": "not yours", "context": "1"}
    with scripted(lambda frame: [refusal] if frame else []) as server, connect(server.address) as pulsar:
        with pytest.raises(PulsarRefusedError, match=r"send-error:6.*not yours") as caught:
            pulsar.producer(TOPIC).publish(b"x")
        assert caught.value.code == "PULSAR_REFUSED"


def test_an_encrypted_message_says_how_it_is_compressed_and_an_empty_one_is_not() -> None:
    with scripted(kept) as server, connect(server.address) as pulsar:
        producer = pulsar.producer(TOPIC, encryption_keys=PUBLIC, compression="ZLIB")
        producer.publish(b"long " * 100)
        producer.publish(b"")
        first, second = (server.heard.get(timeout=PATIENCE) for _ in range(2))
        assert (first["compressionType"], first["uncompressedMessageSize"]) == ("ZLIB", 500)
        assert "compressionType" not in second
        assert len(b64decode(first["encryptionParam"])) == 12
        keys = json.loads(b64decode(server.parameters[0]["encryptionKeys"][0]))
        assert list(keys) == ["app"]


def test_a_data_key_that_is_used_up_is_replaced_with_its_connection() -> None:
    with scripted(kept) as server, connect(server.address) as pulsar:
        producer = pulsar.producer(TOPIC, encryption_keys=PUBLIC, key_messages=2)
        for _ in range(3):
            producer.publish(b"x")
        assert len({one["encryptionKeys"][0] for one in server.parameters}) == len(server.parameters) == 2


def test_no_answer_is_an_error_after_the_time_out_and_the_next_message_connects_anew() -> None:
    with scripted(lambda frame: kept(frame) if frame and frame["context"] != "1" else []) as server:
        with connect(server.address) as pulsar, pulsar.producer(TOPIC) as producer:
            with pytest.raises(PulsarTimeoutError, match="may be kept or not"):
                producer.publish(b"x", timeout=0.1)
            assert producer.publish(b"y") == "m"
        assert len(server.parameters) == 2


def test_a_server_that_does_not_read_is_an_error_after_the_time_out() -> None:
    with deaf() as address, connect(address, max_frame_bytes=1 << 30) as pulsar:
        with pytest.raises(PulsarTimeoutError, match="does not read") as caught:
            pulsar.producer(TOPIC).publish(bytes(32 << 20), timeout=0.2)
        assert caught.value.code == "PULSAR_TIMEOUT"


def test_a_server_that_ends_the_connection_is_an_error_with_its_code_and_connected_to_anew() -> None:
    answers = iter([[None], []])
    with (
        scripted(lambda frame: next(answers) if frame is None else kept(frame)) as server,
        connect(server.address) as pulsar,
        pulsar.consumer(TOPIC, "s") as consumer,
    ):
        with pytest.raises(PulsarConnectionError, match="1011"):
            consumer.receive(PATIENCE)
        assert consumer.receive(0.01) is None
        assert len(server.parameters) == 2


def test_who_sends_on_a_connection_that_ended_is_told_so() -> None:
    with scripted(lambda frame: [None] if frame else []) as server, connect(server.address) as pulsar:
        producer = pulsar.producer(TOPIC)
        with pytest.raises(PulsarConnectionError):
            producer.publish(b"x", timeout=PATIENCE)
        consumer = pulsar.consumer(TOPIC, "s")
        assert consumer.receive(0.01) is None
        consumer._link._connection.close()
        with pytest.raises(PulsarConnectionError, match="ended the connection"):
            consumer.has_reached_end()


def test_a_refused_connection_says_the_status() -> None:
    with scripted(status=HTTPStatus.UNAUTHORIZED) as server, connect(server.address) as pulsar:
        producer = pulsar.producer(TOPIC)
        with pytest.raises(PulsarRefusedError, match="401"):
            producer.publish(b"x")


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"ws://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(PulsarConnectionError, match="cannot be reached"):
        connect(address).producer(TOPIC).publish(b"x")


def test_a_server_that_never_answers_the_handshake_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speed.pulsar.client.OPEN_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        producer = connect(f"ws://127.0.0.1:{silent.getsockname()[1]}").producer(TOPIC)
        with pytest.raises(PulsarTimeoutError, match="is the address that of its WebSocket"):
            producer.publish(b"x", timeout=0.1)


def test_a_server_that_is_no_pulsar_is_an_error() -> None:
    with scripted(at_once("[]")) as server, connect(server.address) as pulsar:
        consumer = pulsar.consumer(TOPIC, "s")
        with pytest.raises(PulsarError, match="is this a Pulsar"):
            consumer.receive(PATIENCE)


def test_what_is_received_is_acknowledged_or_refused_by_its_id() -> None:
    with scripted(at_once(message("a"), message("b"))) as server, connect(server.address) as pulsar:
        consumer = pulsar.consumer(TOPIC, "s", type="Shared", ackTimeoutMillis="5000")
        first, second = consumer.receive(PATIENCE), consumer.receive(PATIENCE)
        assert first is not None
        assert second is not None
        consumer.acknowledge(first)
        consumer.negative_acknowledge(second)
        assert server.heard.get(timeout=PATIENCE) == {"messageId": "a"}
        assert server.heard.get(timeout=PATIENCE) == {"type": "negativeAcknowledge", "messageId": "b"}
        parameters = {"subscriptionType": ["Shared"], "cryptoFailureAction": ["CONSUME"], "ackTimeoutMillis": ["5000"]}
        assert server.parameters == [parameters]


def batch(*payloads: bytes) -> bytes:
    """As Pulsar's clients put messages together; each head says only how long the payload is."""
    return b"".join(b"\0\0\0\2\x18" + bytes([len(one)]) + one for one in payloads)


def test_a_batch_is_handed_out_by_messages_and_acknowledged_with_its_last() -> None:
    with scripted(at_once(encrypted("a", batch(b"1", b"2"), 2))) as server, connect(server.address) as pulsar:
        consumer = pulsar.consumer(TOPIC, "s", private_keys=PRIVATE)
        first, second = consumer.receive(PATIENCE), consumer.receive(PATIENCE)
        assert first is not None
        assert second is not None
        assert (first.payload, first.batch_index, second.payload, second.batch_index) == (b"1", 0, b"2", 1)
        consumer.acknowledge(second)
        consumer.acknowledge(first)
        assert server.heard.get(timeout=PATIENCE) == {"messageId": "a"}
        assert server.heard.empty()


def test_a_message_for_another_key_raises_is_discarded_or_comes_as_it_is() -> None:
    theirs = message("a", b"?" * 32, encryptionContext=encrypted("a", b"x")["encryptionContext"])
    with scripted(at_once(theirs, message("b"))) as server, connect(server.address) as pulsar:
        with pytest.raises(UnreadableError) as caught:
            pulsar.consumer(TOPIC, "s").receive(PATIENCE)
        assert isinstance(caught.value.__cause__, NoRecipientKeyError)
        assert caught.value.message.message_id == "a"
        discarding = pulsar.consumer(TOPIC, "s", private_keys=PRIVATE, crypto_failure="discard")
        received = discarding.receive(PATIENCE)
        assert (received and received.message_id, discarding.discarded) == ("b", 1)
        assert server.heard.get(timeout=PATIENCE) == {"messageId": "a"}
        consuming = pulsar.consumer(TOPIC, "s", private_keys=PRIVATE, crypto_failure="consume").receive(PATIENCE)
        assert consuming is not None
        assert (consuming.payload, consuming.encryption is not None) == (b"?" * 32, True)


@pytest.mark.parametrize("ended", [True, False])
def test_whether_the_topic_has_ended_is_asked_and_what_comes_meanwhile_is_kept(ended: bool) -> None:
    def answers(frame: Any) -> list[Any]:
        return [message("a"), {"endOfTopic": ended}] if frame == {"type": "isEndOfTopic"} else []

    with scripted(answers) as server, connect(server.address) as pulsar:
        consumer = pulsar.consumer(TOPIC, "s")
        assert not consumer.has_reached_end()
        received = consumer.receive(PATIENCE)
        assert received is not None
        assert received.message_id == "a"
        consumer.close()
        assert consumer.receive(0.01) is None


def test_an_answer_whether_the_topic_has_ended_that_comes_too_late_is_passed_over() -> None:
    def answers(frame: Any) -> list[Any]:
        return [{"endOfTopic": False}, message("a")] if frame == {"type": "late"} else []

    with scripted(answers) as server, connect(server.address) as pulsar:
        consumer = pulsar.consumer(TOPIC, "s")
        with pytest.raises(PulsarTimeoutError, match="whether the topic has ended"):
            consumer.has_reached_end(0.1)
        consumer._tell(json.dumps({"type": "late"}))
        received = consumer.receive(PATIENCE)
        assert received is not None
        assert received.message_id == "a"


def test_a_reader_goes_on_behind_the_last_message_it_had() -> None:
    def answers(frame: Any) -> list[Any]:
        return [message("a")] if frame is None else [None]

    with scripted(answers) as server, connect(server.address) as pulsar, pulsar.reader(TOPIC, "earliest") as reader:
        assert reader.receive(PATIENCE) is not None
        with pytest.raises(PulsarConnectionError):
            reader.receive(PATIENCE)
        assert reader.receive(PATIENCE) is not None
        assert [one["messageId"] for one in server.parameters] == [["earliest"], ["a"]]


def test_a_reader_with_keys_does_not_believe_what_it_is_not_told_to_be_encrypted() -> None:
    with scripted(at_once(message("a"))) as server, connect(server.address) as pulsar:
        reader = pulsar.reader(TOPIC, private_keys=PRIVATE)
        with pytest.raises(UnreadableError, match="consumer instead"):
            reader.receive(PATIENCE)


def test_a_closed_client_closes_all_that_was_opened_there() -> None:
    with scripted(at_once(message("a"))) as server:
        pulsar = connect(server.address)
        consumers = [pulsar.consumer(TOPIC, name) for name in ("s", "t")]
        for one in consumers:
            assert one.receive(PATIENCE) is not None
        pulsar.close()
        assert [one._link._connection for one in consumers] == [None, None]
        pulsar.close()
