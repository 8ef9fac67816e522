"""Keys and contexts of messages that clients encrypt."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from speed.gateway import encryption
from speed.gateway.encryption import (
    ByClient,
    ByGateway,
    EncryptedKey,
    EncryptionContext,
    kept,
    new_context,
    opened,
    read_keys,
    written,
)
from speed.gateway.settings import HandshakeError
from speed.message.errors import CompressionError, EncryptionError
from speed.pulsar import payloads
from speed.pulsar.payloads import DataKey, Decryptor, load_private

BY_JAVA = json.loads((Path(__file__).parents[1] / "pulsar/java.json").read_text())
KEYS = {"anna": EncryptedKey("eA==", {"v": "1"}), "bert": EncryptedKey("eQ==", {})}


def given(keys: Any) -> str:
    return b64encode(json.dumps(keys).encode()).decode()


def test_keys_are_read_in_their_order_and_metadata_may_be_missing() -> None:
    said = {"anna": {"keyValue": "eA==", "metadata": {"v": "1"}}, "bert": {"keyValue": "eQ=="}}
    found = read_keys(given(said))
    assert found == KEYS
    assert read_keys(given(said).replace("+", " ")) == KEYS
    assert read_keys("") is None


@pytest.mark.parametrize(
    "text",
    [
        given({}),
        given([]),
        given({"a": {"keyValue": ""}}),
        given({"a": {"keyValue": "?"}}),
        given({"a": {"keyValue": "eA=="}, "b": {}}),
        given({"": {"keyValue": "eA=="}}),
        given({"a": {"keyValue": "eA==", "metadata": {"v": 1}}}),
        given({str(one): {"keyValue": "eA=="} for one in range(17)}),
        ",".join(map(str, range(17))),
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(HandshakeError) as error:
        read_keys(text)
    assert error.value.status == 400


@pytest.mark.parametrize(
    ("text", "names"),
    [("app", ("app",)), ("one,two,one", ("one", "two")), ("[" * 9999, ("[" * 9999,)), ("eyJh", ("eyJh",))],
)
def test_what_is_no_json_is_names_of_keys(text: str, names: tuple[str, ...]) -> None:
    assert read_keys(text) == names


def test_what_a_client_encrypted_is_kept_as_it_is() -> None:
    assert ByClient(KEYS).seal(b"x", "eA==", None, None) == (b"x", EncryptionContext(KEYS, "eA=="))


READER = ec.generate_private_key(ec.SECP256R1())
DECRYPTOR = Decryptor({"bert": READER})


def sealed(payload: bytes) -> tuple[bytes, EncryptionContext]:
    """What the gateway keeps of a message for Bert."""
    return ByGateway(DataKey({"bert": READER.public_key()})).seal(payload, "?", "RAR", -1)


def test_what_the_gateway_encrypts_opens_with_a_key_that_was_named() -> None:
    data, context = sealed(b"one coffee")
    assert (list(context.keys), context.compression_type) == (["bert"], "NONE")
    assert opened(context, data, DECRYPTOR) == b"one coffee"
    assert sealed(b"one coffee")[0] != data


@pytest.mark.parametrize("vector", BY_JAVA["deliveries"], ids=lambda one: one["about"])
def test_what_pulsars_java_client_encrypted_opens_unless_it_is_a_batch(vector: dict[str, Any]) -> None:
    decryptor = Decryptor({name: load_private(name, pem) for name, pem in BY_JAVA["keys"].items()})
    for number, frame in enumerate(vector["frames"]):
        context, data = kept(json.dumps(frame["encryptionContext"])), b64decode(frame["payload"])
        assert context is not None
        if context.batch_size is None:
            assert opened(context, data, decryptor) == b"message %d of Java, of Java, of Java" % number
        else:
            with pytest.raises(EncryptionError, match="batch"):
                opened(context, data, decryptor)


def test_a_message_is_uncompressed_behind_its_decryption_within_a_bound() -> None:
    data, context = sealed(payloads.compress("ZLIB", b"tell me " * 100))
    packed = msgspec.structs.replace(context, compression_type="ZLIB", uncompressed_message_size=800)
    assert opened(packed, data, DECRYPTOR) == b"tell me " * 100
    with pytest.raises(CompressionError):
        opened(msgspec.structs.replace(packed, uncompressed_message_size=6 << 20), data, DECRYPTOR)


def test_what_is_not_as_it_was_encrypted_does_not_open() -> None:
    data, context = sealed(b"one coffee")
    keys = {"bert": EncryptedKey("?")}
    for wrong in ({"keys": keys}, {"param": "?"}, {"param": "eA=="}, {"batch_size": 1}):
        with pytest.raises(EncryptionError):
            opened(msgspec.structs.replace(context, **wrong), data, DECRYPTOR)
    for altered in (data[:-1], data[1:], b"", bytes([data[0] ^ 1]) + data[1:]):
        with pytest.raises(EncryptionError):
            opened(context, altered, DECRYPTOR)


def test_a_context_is_kept_as_it_was_given() -> None:
    context = new_context(KEYS, "cGFyYW0=", "LZ4", 7)
    assert context == EncryptionContext(KEYS, "cGFyYW0=", "LZ4", 7, None)
    assert kept(written(context)) == context
    assert new_context(KEYS, "cGFyYW0", None, None) == EncryptionContext(KEYS, "cGFyYW0", "NONE", 0, None)


@pytest.mark.parametrize(
    ("param", "compression", "size"),
    [
        (None, None, None),
        ("", None, None),
        ("?", None, None),
        ("eA==", "LZ4", None),
        ("eA==", None, 1),
        ("eA==", "RAR", 1),
        ("eA==", "LZ4", -1),
        ("eA==", "LZ4", 1 << 31),
    ],
)
def test_a_context_that_nobody_could_use_is_refused(
    param: str | None, compression: str | None, size: int | None
) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        new_context(KEYS, param, compression, size)


@pytest.mark.parametrize("text", [None, 5, "", "{}", "[]", '{"keys":{},"param":5}', "[" * 9999])
def test_what_others_wrote_is_no_context(text: Any) -> None:
    assert kept(text) is None


def test_names_of_compressions_are_those_of_pulsar() -> None:
    assert encryption.COMPRESSIONS == ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
