"""What speed.pulsar does without a server.

The payloads of ``java.json`` were made by Pulsar's Java client; ``python -m tests.pulsar.record_java`` makes them anew.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from speed.errors import ConfigurationError, PayloadTooLargeError
from speed.message.errors import BatchError, CompressionError, EncryptionError, KeyRefusedError, NoRecipientKeyError
from speed.message.keys import generate_key
from speed.pulsar import PulsarError, PulsarRefusedError, connect, frames, payloads
from speed.pulsar.payloads import opened

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("java.json").read_text())
KEYS = {name: payloads.load_private(name, pem) for name, pem in VECTORS["keys"].items()}
MOST = 1 << 20


@pytest.mark.parametrize("vector", VECTORS["deliveries"], ids=lambda one: one["about"])
def test_what_the_java_client_published_is_opened(vector: dict[str, Any]) -> None:
    deliveries = [frames.delivery(one) for one in vector["frames"]]
    messages = [one for each in deliveries for one in opened(each, payloads.Decryptor(KEYS), MOST)]
    assert [one.payload for one in messages] == [b"message %d of Java, of Java, of Java" % at for at in range(3)]
    assert [(one.key, one.event_time_ms) for one in messages] == [(f"key {at}", 1000 + at) for at in range(3)]
    assert [one.properties for one in messages] == [{"number": str(at)} for at in range(3)]


@pytest.mark.parametrize("vector", VECTORS["deliveries"], ids=lambda one: one["about"])
def test_a_payload_with_one_bit_changed_is_not_opened(vector: dict[str, Any]) -> None:
    told = vector["frames"][0]
    altered = bytearray(b64decode(told["payload"]))
    altered[0] ^= 1
    delivery = frames.delivery({**told, "payload": b64encode(altered).decode()})
    with pytest.raises(EncryptionError):
        opened(delivery, payloads.Decryptor(KEYS), MOST)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda one: one.name)
def test_a_data_key_comes_back_from_each_curve_and_from_no_other_key(curve: ec.EllipticCurve) -> None:
    private, other = ec.generate_private_key(curve), ec.generate_private_key(curve)
    wrapped = payloads.wrap(private.public_key(), b"k" * 32)
    assert payloads.unwrap(private, wrapped) == b"k" * 32
    for key, value in (
        (other, wrapped),
        (private, wrapped[:-1] + bytes([wrapped[-1] ^ 1])),
        (private, b"\4" + wrapped),
    ):
        with pytest.raises(EncryptionError):
            payloads.unwrap(key, value)
    with pytest.raises(EncryptionError, match="too short"):
        payloads.unwrap(private, wrapped[:20])


def test_each_of_several_recipients_reads_and_nobody_else() -> None:
    sealed_with = payloads.DataKey({name: KEYS[name].public_key() for name in ("rsa", "ec")})
    sealed, iv = sealed_with.encrypt(b"hello")
    for name in ("rsa", "ec"):
        decryptor = payloads.Decryptor({name: KEYS[name]})
        assert decryptor.decrypt(sealed, sealed_with.wrapped, iv) == b"hello"
        assert decryptor.decrypt(sealed, sealed_with.wrapped, iv) == b"hello"  # the data key is remembered
    with pytest.raises(NoRecipientKeyError):
        payloads.Decryptor({"other": KEYS["other"]}).decrypt(sealed, sealed_with.wrapped, iv)
    with pytest.raises(EncryptionError):
        payloads.Decryptor({"rsa": KEYS["other"]}).decrypt(sealed, sealed_with.wrapped, iv)
    with pytest.raises(EncryptionError):
        payloads.Decryptor({"rsa": KEYS["rsa"]}).decrypt(sealed, sealed_with.wrapped, iv[1:])


def test_remembered_data_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "MAX_OPENED_KEYS", 2)
    decryptor = payloads.Decryptor({"ec": KEYS["ec"]})
    for _ in range(4):
        key = payloads.DataKey({"ec": KEYS["ec"].public_key()})
        sealed, iv = key.encrypt(b"hello")
        assert decryptor.decrypt(sealed, key.wrapped, iv) == b"hello"
    assert len(decryptor._opened) == 2


def test_a_wrapped_key_of_another_length_is_refused() -> None:
    wrapped = {"ec": payloads.wrap(KEYS["ec"].public_key(), b"short")}
    with pytest.raises(EncryptionError):
        payloads.Decryptor({"ec": KEYS["ec"]}).decrypt(bytes(16), wrapped, bytes(12))


def test_a_key_that_cannot_be_used_is_refused() -> None:
    short = rsa.generate_private_key(65537, 1024).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    edwards = ed25519.Ed25519PrivateKey.generate().public_key()
    for load, key in (
        (payloads.load_private, short),
        (payloads.load_private, "no key"),
        (payloads.load_public, edwards.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)),
    ):
        with pytest.raises(KeyRefusedError, match="'app'"):
            load("app", key)
    for recipients in ({}, dict.fromkeys(map(str, range(65)))):
        with pytest.raises(KeyRefusedError, match="recipients"):
            payloads.DataKey(recipients)


def test_a_key_of_a_provider_is_used() -> None:
    key = generate_key("app", "rsa-oaep-3072")
    sealed_with = payloads.DataKey({"app": payloads.load_public("app", key.public_part())})
    sealed, iv = sealed_with.encrypt(b"hello")
    decryptor = payloads.Decryptor({"app": payloads.load_private("app", key)})
    assert decryptor.decrypt(sealed, sealed_with.wrapped, iv) == b"hello"


@pytest.mark.parametrize("kind", sorted(payloads.KINDS))
def test_a_payload_comes_back_from_each_compression(kind: str) -> None:
    packed = payloads.compress(kind, b"tell me " * 100)
    assert payloads.uncompress(kind, packed, 800, 800) == b"tell me " * 100
    with pytest.raises(CompressionError):
        payloads.uncompress(kind, packed, 800, 799)


@pytest.mark.parametrize("kind", sorted(payloads.KINDS - {"NONE"}))
def test_a_payload_of_another_size_than_it_says_is_refused(kind: str) -> None:
    packed = payloads.compress(kind, b"tell me " * 100)
    for size in (799, 801):
        with pytest.raises(CompressionError):
            payloads.uncompress(kind, packed, size, MOST)
    with pytest.raises(CompressionError):
        payloads.uncompress(kind, b"\xff" * 20, 800, MOST)
    assert payloads.uncompress(kind, b"", 0, MOST) == b""


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(CompressionError):
        payloads.uncompress("RAR", b"", 1, MOST)
    with pytest.raises(ConfigurationError):
        payloads.check_kind("RAR")


def single(head: bytes, payload: bytes = b"") -> bytes:
    return len(head).to_bytes(4, "big") + head + payload


def test_a_batch_is_split() -> None:
    data = single(b"\x12\x01k\x18\x02\x28\x07\x0a\x06\x0a\x01a\x12\x01b", b"hi")
    data += single(b"\x12\x04a2V5\x30\x01\x18\x00\x48\x01") + single(b"\x18\x01\x20\x01", b"x")
    first, second = payloads.split(data, 3)
    assert (first.key, first.payload, first.event_time_ms, first.properties) == ("k", b"hi", 7, {"a": "b"})
    assert (second.key, second.payload) == ("key", None)


def test_what_is_not_known_in_the_head_of_a_message_is_passed_over() -> None:
    ordering_key, property_with_more = b"\x42\x01o", b"\x0a\x08\x0a\x01a\x12\x01b\x18\x05"
    (one,) = payloads.split(single(ordering_key + property_with_more + b"\x18\x02", b"hi"), 1)
    assert (one.key, one.properties, one.payload) == (None, {"a": "b"}, b"hi")


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"", 1),
        (b"", payloads.MAX_MESSAGES + 1),
        (b"\x00\x00", 1),
        (b"\xff\xff\xff\xff\x18", 1),
        (single(b"\x18\x05", b"x"), 1),
        (single(b"\x18\x01", b"xy"), 1),
        (single(b"\x12\x01\xff\x18\x00"), 1),
        (single(b"\x18"), 1),
    ],
)
def test_a_batch_that_lies_is_refused(data: bytes, count: int) -> None:
    with pytest.raises(BatchError):
        payloads.split(data, count)


@pytest.mark.parametrize(
    ("topic", "path"),
    [
        ("public/default/orders", "persistent/public/default/orders"),
        ("non-persistent://a/b/c/d", "non-persistent/a/b/c%2Fd"),
        ("persistent://a/b/c ?", "persistent/a/b/c%20%3F"),
    ],
)
def test_a_topic_becomes_part_of_an_address(topic: str, path: str) -> None:
    assert frames.topic_path(topic) == path


@pytest.mark.parametrize("topic", ["orders", "a/b", "a//c", "eternal://a/b/c"])
def test_what_is_no_topic_is_refused(topic: str) -> None:
    with pytest.raises(ConfigurationError):
        frames.topic_path(topic)


@pytest.mark.parametrize("frame", ["hello", "[]", b"\xff", "[" * 100_000])
def test_a_frame_that_is_no_object_is_an_error(frame: str | bytes) -> None:
    with pytest.raises(PulsarError):
        frames.parse(frame)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"messageId": 1},
        {"messageId": "a", "payload": "?"},
        {"messageId": "a", "properties": {"a": 1}},
        {"messageId": "a", "key": 1},
        {"messageId": "a", "eventTime": "yesterday"},
        {"messageId": "a", "redeliveryCount": "1"},
        {"messageId": "a", "encryptionContext": {}},
        {"messageId": "a", "encryptionContext": {"keys": {"k": {"keyValue": "AA=="}}, "param": "", "batchSize": "2"}},
    ],
)
def test_a_delivery_that_is_malformed_is_an_error(told: dict[str, Any]) -> None:
    with pytest.raises(PulsarError):
        frames.delivery(told)


def test_times_of_events_are_read_and_written() -> None:
    told = {"messageId": "a", "eventTime": frames.time_text(1234)}
    assert frames.delivery(told).event_time_ms == 1234
    assert frames.delivery({**told, "eventTime": 1234}).event_time_ms == 1234


def test_an_answer_that_is_no_ok_is_an_error_with_its_reason() -> None:
    with pytest.raises(PulsarRefusedError, match=r"send-error:3.*because"):
        frames.published_id({"result": "send-error:3", "errorMsg": "because"})
    assert frames.published_id({"result": "ok", "messageId": "AA"}) == "AA"


def test_an_encrypted_payload_without_a_private_key_says_what_to_give() -> None:
    delivery = frames.delivery(VECTORS["deliveries"][0]["frames"][0])
    with pytest.raises(NoRecipientKeyError, match="private_keys"):
        opened(delivery, None, MOST)


def test_wrong_arguments_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigurationError):
        connect("http://127.0.0.1")
    pulsar = connect("ws://127.0.0.1:1")
    for arguments in ({"type": "Joint"}, {"subscription": ""}, {"crypto_failure": "hide"}):
        with pytest.raises(ConfigurationError):
            pulsar.consumer("a/b/c", **{"subscription": "s", **arguments})
    with pytest.raises(ConfigurationError):
        pulsar.producer("a/b/c", compression="RAR")
    with pytest.raises(PayloadTooLargeError):
        pulsar.producer("a/b/c").publish(bytes(1 << 20))
