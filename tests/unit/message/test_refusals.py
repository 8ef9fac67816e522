"""What protected messages refuse beside the usual: bytes that lie, keys in the wrong place, a library too old."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import asymmetric, hpke, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from speed.errors import ConfigurationError
from speed.message import encryption
from speed.message import keys as primitives
from speed.message.algorithms import (
    IV_BYTES,
    MAX_BATCH_PAYLOADS,
    MAX_RECIPIENTS,
    algorithm_of,
    check_clearance,
    check_fips_mode,
)
from speed.message.compression import compress, decompress
from speed.message.encryption import Described, encrypt
from speed.message.errors import (
    BatchError,
    CompressionError,
    EncryptionError,
    KeyRefusedError,
    NotAvailableError,
    UnknownAlgorithmError,
    UnsignedError,
)
from speed.message.keys import MessageKey, generate_key
from speed.message.message_pb2 import MessageEnvelope, SchemaContext
from speed.message.options import decode_batch, encode_batch, encode_batches
from speed.message.protect import TrustedKeys, sign, verify
from speed.wire import lazily
from speed.wire.limits import MAX_PAYLOAD_BYTES
from speed.wire.value import BATCH_TYPE
from tests.unit.message.keys import key, opened, protected

AES, RSA, OTHER_RSA = "aes-256-gcm", "rsa-oaep-3072", "rsa-oaep-4096"
MLKEM = "cryptography.hazmat.primitives.asymmetric.mlkem"


def sized(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def encrypt_to(*keys: MessageKey) -> None:
    described = Described("id", "topic", "default", "", "", "none", 0, "", "", b"")
    encrypt(b"", keys, described, bytes(IV_BYTES))


# --- batches (M-30) ---


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\0\0\0\x01" + sized(b"text/plain") + b"\0\0\0\x09x", "past its end"),
        (b"\0\0\0\x01" + sized(b"", b"four"), "cannot be"),
        (b"\0\0\0\x01" + sized(b"t" * 257, b""), "cannot be"),
        (b"\0\0\0\x01\0\0\0\x09text", "cannot be"),
        (b"\0\0\0\x01" + sized(b"\xff", b""), "UTF-8"),
        (b"\0\0\0\x01" + sized(BATCH_TYPE.encode(), b"\0\0\0\0"), "holds no"),
        (b"\0\0\0\x01" + sized(b"application/protobuf", b""), "holds no"),
        (b"\0\0\0\x01" + sized(b"application/protobuf;type_url=", b""), "holds no"),
    ],
    ids=[
        "a payload too long",
        "no type",
        "a long type",
        "a cut type",
        "a type that is no text",
        "a batch in a batch",
        "no type URL",
        "an empty type URL",
    ],
)
def test_a_batch_whose_parts_do_not_fit_is_refused(data: bytes, said: str) -> None:
    """M-30."""
    with pytest.raises(BatchError, match=said):
        decode_batch(memoryview(data))


def message_of_a_long_name() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="long.proto", syntax="proto3")
    file.message_type.add(name="M" * 250)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M" * 250))()


def test_protobuf_messages_in_a_batch_are_messages_again() -> None:
    """M-30."""
    sent = [MessageEnvelope(), {"a": 1}, SchemaContext(schema_name="Order")]
    assert decode_batch(memoryview(encode_batch(sent).data)) == sent


def test_payloads_of_several_topics_are_one_batch_of_each_in_their_order() -> None:
    """M-30."""
    made = encode_batches([("b.made", 1), ("a.made", 2), ("b.made", 3)])
    assert [(topic, decode_batch(memoryview(one.data))) for topic, one in made.items()] == [
        ("b.made", [1, 3]),
        ("a.made", [2]),
    ]


@pytest.mark.parametrize("pair", ["orders", ("orders",), ["orders", 1], ("orders", 1, 2)])
def test_what_is_no_pair_of_topic_and_payload_is_refused(pair: Any) -> None:
    with pytest.raises(BatchError, match="pairs"):
        encode_batches([pair])


def test_a_batch_that_could_not_be_read_is_not_written() -> None:
    """M-30."""
    with pytest.raises(BatchError, match="too long"):
        encode_batch([message_of_a_long_name()])
    with pytest.raises(BatchError, match="too many"):
        encode_batch([b""] * (MAX_BATCH_PAYLOADS + 1))


# --- compression (M-9) ---


def test_a_payload_above_the_bound_is_not_compressed() -> None:
    with pytest.raises(CompressionError, match="in parts"):
        compress("gzip", bytes(MAX_PAYLOAD_BYTES + 1))


@pytest.mark.parametrize("encoding", ["gzip", "snappy", "zstd", "lz4"])
def test_a_payload_that_is_shorter_than_it_says_is_refused(encoding: str) -> None:
    with pytest.raises(CompressionError):
        decompress(encoding, compress(encoding, b"payload"), 100)


@pytest.mark.parametrize("encoding", ["snappy", "zstd", "lz4"])
def test_without_cramjam_its_encodings_are_not_available(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = compress(encoding, b"payload")
    monkeypatch.setitem(sys.modules, "cramjam", None)
    lazily.load.cache_clear()
    with pytest.raises(NotAvailableError, match="install"):
        compress(encoding, b"payload")
    with pytest.raises(NotAvailableError, match="install"):
        decompress(encoding, packed, 7)


# --- keys and recipients (M-21, M-22, M-27) ---


@pytest.mark.parametrize("count", [0, MAX_RECIPIENTS + 1])
def test_too_few_and_too_many_recipients_are_refused(count: int) -> None:
    keys = [generate_key(f"to.{number}", AES) for number in range(count)]
    with pytest.raises(EncryptionError, match="allowed are"):
        encrypt_to(*keys)


def test_a_recipient_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(EncryptionError, match="twice"):
        encrypt_to(key(AES), key(AES))


def test_what_is_said_beside_the_payload_is_bound_to_it() -> None:
    view = protected(b"value", encrypt_to=(key(AES),), aad=b"invoice 7", publisher_team="billing", contains_pii=True)
    security = view.security
    assert (security.encryption.aad, security.publisher_team, security.contains_pii) == (b"invoice 7", "billing", True)
    assert opened(view, key(AES)).payload == b"value"


def test_rsa_itself_is_for_one_recipient_with_such_a_key() -> None:
    """M-22."""
    with pytest.raises(EncryptionError, match="only rsa-oaep"):
        protected(b"", encrypt_to=(key(AES),), direct=True)
    with pytest.raises(ConfigurationError, match="one recipient"):
        protected(b"", encrypt_to=(key(RSA), key(RSA)), direct=True)


def test_a_data_key_of_another_length_does_not_open() -> None:
    """M-21: RSA carries any bytes."""
    short = key(RSA).loaded_public.encrypt(bytes(16), encryption.oaep())
    with pytest.raises(EncryptionError, match="does not open"):
        encryption.unwrap(key(RSA), encryption.Wrapped(short, bytes(48)), bytes(12), bytes(32))


def test_a_shared_secret_of_zeros_is_refused_whatever_the_library_says() -> None:
    """M-21."""

    class Careless:
        def exchange(self, public: object) -> bytes:
            return bytes(32)

    with pytest.raises(ValueError, match=r"^$"):
        encryption._x25519_exchange(Careless(), None)


def elliptic() -> Any:
    return ec.generate_private_key(ec.SECP256R1())


def secret_of_another_kind() -> dict[str, bytes]:
    der, form, none = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return {"secret": elliptic().private_bytes(der, form, none)}


def public_of_another_kind() -> dict[str, bytes]:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return {"public": elliptic().public_key().public_bytes(serialization.Encoding.DER, form)}


@pytest.mark.parametrize(
    "parts",
    [
        lambda: {"secret": b"junk"},
        lambda: {"public": key(OTHER_RSA).public},
        secret_of_another_kind,
        public_of_another_kind,
    ],
    ids=["junk", "of another size", "another kind of secret", "another kind of public part"],
)
def test_bytes_that_are_no_key_of_the_algorithm_are_refused(parts: Callable[[], dict[str, Any]]) -> None:
    """M-27."""
    with pytest.raises(KeyRefusedError, match=f"no {RSA} key"):
        MessageKey("rsa", algorithm_of(RSA), **parts())


def test_a_key_that_is_made_is_one_of_its_algorithm() -> None:
    made = generate_key("rsa", RSA)
    assert made.public_part().secret is None
    assert made.loaded_secret.key_size == 3072


def test_a_key_has_the_part_that_is_asked_for_or_says_what_it_lacks() -> None:
    with pytest.raises(KeyRefusedError, match="public part: the secret"):
        _ = generate_key("ed", "ed25519").public_part().loaded_secret
    with pytest.raises(KeyRefusedError, match="shared"):
        key(AES).public_part()


# --- signatures (M-18, M-26) ---


def test_a_message_signed_with_a_shared_key_is_verified_with_it() -> None:
    shared = generate_key("hmac.1", "hmac-sha256", publishers=("billing",))
    view = protected(b"", sign_with=shared)
    assert verify(view, TrustedKeys({shared.id: shared}), "require") == shared
    with pytest.raises(UnsignedError):
        verify(protected(b""), TrustedKeys({shared.id: shared}), "require")


def test_where_the_policy_is_off_no_signature_is_looked_at() -> None:
    signer = generate_key("ed.1", "ed25519", publishers=("billing",))
    assert verify(protected(b"", sign_with=signer), TrustedKeys({}), "off") is None


def test_a_key_that_cannot_sign_does_not() -> None:
    for wrong in (key(AES), generate_key("ed.1", "ed25519").public_part()):
        with pytest.raises(KeyRefusedError, match="cannot sign"):
            sign(b"", wrong)


def test_a_message_within_the_clearance_is_taken() -> None:
    """M-28."""
    view = protected(b"", encrypt_to=(key(AES),), classification="confidential")
    check_clearance(view, "confidential")
    check_clearance(view, None)


# --- what is not there (M-24) ---


def test_a_mode_of_fips_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="use one of"):
        check_fips_mode("loose")


def test_a_library_without_these_algorithms_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MLKEM, None)
    monkeypatch.delattr(asymmetric, "mlkem", raising=False)
    with pytest.raises(NotAvailableError, match="cryptography 48"):
        primitives.mlkem_class("ml-kem-768", "PrivateKey")
    monkeypatch.delattr(hpke.KEM, "MLKEM768_X25519")
    with pytest.raises(NotAvailableError, match="cryptography 48"):
        encryption.hpke_suite.__wrapped__()


def test_an_openssl_without_them_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        def refuse(self, data: bytes) -> None:
            raise UnsupportedAlgorithm("not here")

        from_seed_bytes = from_public_bytes = refuse

    monkeypatch.setattr(primitives, "mlkem_class", lambda name, kind: Missing())
    for load in (primitives.load_mlkem_secret, primitives.load_mlkem_public):
        with pytest.raises(NotAvailableError, match="OpenSSL"):
            load("ml-kem-768", bytes(64))


@pytest.mark.parametrize("name", ["\u212ayber768", "\u212aYBER1024", "aes-256-gcm\u0130", "rs\u00aa", "sha\u20101"])
def test_only_letters_of_ascii_have_a_case(name: str) -> None:
    """M-24: the lower case of the Kelvin sign is k."""
    assert algorithm_of("KYBER768") is algorithm_of("ml-kem-768")
    with pytest.raises(UnknownAlgorithmError):
        algorithm_of(name)


# --- what no envelope holds (M-16) ---


def room_left(**protection: Any) -> int:
    """The largest payload whose message is not longer than an envelope's, before it is signed."""
    return MAX_PAYLOAD_BYTES - len(protected(bytes(1 << 21), **protection).data) + (1 << 21) - 4


def test_a_message_that_only_its_signature_makes_too_long_is_refused() -> None:
    """M-16."""
    signer = generate_key("ed.1", "ed25519", publishers=("billing",))
    most = room_left(sign_with=signer)
    assert len(protected(bytes(most - 100), sign_with=signer).data) <= MAX_PAYLOAD_BYTES
    for size in (most + 8, MAX_PAYLOAD_BYTES + 1):
        with pytest.raises(NotAvailableError, match="in parts"):
            protected(bytes(size), sign_with=signer)


def test_a_message_that_only_its_encryption_makes_too_long_is_refused() -> None:
    """M-16."""
    most = room_left(encrypt_to=(key(AES),))
    assert len(protected(bytes(most), encrypt_to=(key(AES),)).data) <= MAX_PAYLOAD_BYTES
    with pytest.raises(NotAvailableError, match="in parts"):
        protected(bytes(most + 8), encrypt_to=(key(AES),))


def test_a_message_of_any_length_is_written_where_nothing_is_asked_for() -> None:
    """G-18: it goes in segments."""
    assert len(protected(bytes(MAX_PAYLOAD_BYTES)).data) > MAX_PAYLOAD_BYTES
