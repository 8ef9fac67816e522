"""Messages protected and opened: what is written, what is refused, what never shows (M-16 to M-28)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from speed.errors import ConfigurationError, PayloadTooLargeError, WireError
from speed.message import message_pb2
from speed.message.algorithms import ALGORITHMS, algorithm_of, check_clearance, check_signature_algorithm, fips_report
from speed.message.errors import (
    ClearanceError,
    CompressionError,
    EncryptionError,
    KeyRefusedError,
    MessageError,
    NoRecipientKeyError,
    NotEncryptedError,
    UnknownAlgorithmError,
    UnsignedError,
    WeakAlgorithmError,
)
from speed.message.keys import MessageKey, generate_key, key_of_record
from speed.message.protect import Protection, TrustedKeys, protect_message, verify
from speed.message.view import MessageView
from speed.message.writing import has_token, with_security, without_token
from tests.unit.message.keys import BASE, key, opened, protected

pb: Any = message_pb2
ENCRYPTING = [row.name for row in ALGORITHMS.values() if not row.is_signature]
VALUE = {"amount": 1000, "card": "4111-1111"}


@pytest.mark.parametrize("name", ENCRYPTING)
@pytest.mark.parametrize("compression", ["none", "gzip", "zstd", "lz4", "snappy"])
def test_what_is_encrypted_opens_to_the_same_value(name: str, compression: str) -> None:
    """M-19 to M-23, M-25."""
    view = protected(VALUE, encrypt_to=(key(name),), compression=compression)
    assert b"4111" not in view.to_bytes()
    assert opened(view, key(name)).payload == VALUE


def test_each_of_many_recipients_opens_the_message() -> None:
    """M-21."""
    keys = [generate_key(f"reader-{number}", "x-wing") for number in range(5)]
    view = protected(VALUE, encrypt_to=tuple(one.public_part() for one in keys))
    assert [opened(view, one).payload for one in keys] == [VALUE] * 5


def test_who_is_no_recipient_gets_a_named_error_and_not_the_payload() -> None:
    view = protected(VALUE, encrypt_to=(key("x-wing"),))
    with pytest.raises(NoRecipientKeyError):
        opened(view, generate_key("mine", "x-wing"))
    with pytest.raises(WireError, match="encrypted"):
        _ = view.payload


def test_a_public_part_alone_opens_nothing() -> None:
    view = protected(VALUE, encrypt_to=(key("x-wing"),))
    with pytest.raises(NoRecipientKeyError):
        opened(view, key("x-wing").public_part())


def test_two_encryptions_of_one_payload_share_no_ciphertext() -> None:
    """M-20: data key and iv are new each time."""
    views = [protected(b"x" * 64, encrypt_to=(key("aes-256-gcm"),)) for _ in range(2)]
    assert bytes(views[0].payload_bytes) != bytes(views[1].payload_bytes)
    assert views[0].security.encryption.iv != views[1].security.encryption.iv


def test_recipients_of_different_algorithms_are_refused() -> None:
    """M-19."""
    with pytest.raises(EncryptionError, match="one encryption algorithm"):
        protected(VALUE, encrypt_to=(key("x-wing"), key("ml-kem-768")))


def test_rsa_itself_takes_446_bytes_and_not_one_more() -> None:
    """M-22."""
    rsa = key("rsa-oaep-4096")
    assert opened(protected(b"x" * 446, encrypt_to=(rsa,), direct=True), rsa).payload == b"x" * 446
    with pytest.raises(PayloadTooLargeError, match="446"):
        protected(b"x" * 447, encrypt_to=(rsa,), direct=True)


def test_kyber_is_another_name_for_ml_kem_and_never_written() -> None:
    """M-19."""
    assert algorithm_of("kyber1024").name == "ml-kem-1024"
    assert protected(b"", encrypt_to=(generate_key("k", "kyber768"),)).security.encryption.algorithm == "ml-kem-768"


@pytest.mark.parametrize("name", ["AES-128-GCM", "rsa-oaep-2048", "md5", "sha-1", "3des", "rc4", "des"])
def test_weak_algorithms_are_refused_by_name(name: str) -> None:
    """M-24."""
    with pytest.raises(WeakAlgorithmError):
        algorithm_of(name)


def test_an_algorithm_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownAlgorithmError):
        algorithm_of("rot13")


def test_a_short_rsa_key_is_refused_when_it_is_loaded() -> None:
    """M-24."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    short = rsa.generate_private_key(65537, 2048)
    encoding, form = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8
    secret = short.private_bytes(encoding, form, serialization.NoEncryption())
    with pytest.raises(WeakAlgorithmError, match="2048"):
        MessageKey("short", algorithm_of("rsa-oaep-3072"), secret)


@pytest.mark.parametrize("name", ["chacha20-poly1305", "x25519-chacha20-poly1305", "x-wing"])
def test_strict_refuses_what_nist_does_not_approve_on_both_sides(name: str) -> None:
    """M-24."""
    with pytest.raises(WeakAlgorithmError):
        protect_message(b"", Protection(encrypt_to=(key(name),)), fips_mode="strict", **BASE)
    with pytest.raises(WeakAlgorithmError):
        opened(protected(b"", encrypt_to=(key(name),)), key(name), fips_mode="strict")


def test_the_fips_report_does_not_claim_a_validated_module() -> None:
    """M-24."""
    report = fips_report("strict")
    assert "not known" in report.module_validated
    assert "x-wing" not in report.allowed


def test_the_policy_require_refuses_unsigned_messages_and_verify_lets_them_pass() -> None:
    """M-18."""
    signer = key("ed25519")
    trusted = TrustedKeys({signer.id: signer.public_part()})
    plain, signed = protected(VALUE), protected(VALUE, sign_with=signer)
    assert verify(plain, trusted, "verify") is None
    assert verify(signed, trusted, "require") is trusted.keys[signer.id]
    with pytest.raises(UnsignedError):
        verify(plain, trusted, "require")


def test_a_signature_covers_the_ciphertext_and_not_the_plaintext() -> None:
    """M-25: encrypted, then signed; who may not read can verify."""
    signer = key("ed25519")
    view = protected(VALUE, encrypt_to=(key("x-wing"),), sign_with=signer)
    assert verify(view, TrustedKeys({signer.id: signer}), "require") is signer


def test_cutting_the_token_out_keeps_every_other_byte_and_the_signature() -> None:
    """M-16, M-27."""
    signer = key("ed25519")
    signed = protected(VALUE, sign_with=signer).to_bytes()
    with_token = with_security(signed, pb.SecurityContext(auth_token="secret.token").SerializeToString())
    assert without_token(with_token) == signed
    assert verify(MessageView(with_token).validate(), TrustedKeys({signer.id: signer}), "require") is signer


@pytest.mark.parametrize("level", ["confidential", "restricted"])
def test_a_confidential_message_in_the_clear_is_not_written(level: str) -> None:
    """M-28."""
    with pytest.raises(NotEncryptedError):
        protected(VALUE, classification=level)
    assert protected(VALUE, classification=level, encrypt_to=(key("x-wing"),)).is_encrypted


@pytest.mark.parametrize(
    ("level", "clearance"), [("restricted", "confidential"), ("cosmic", "confidential"), ("", "public")]
)
def test_a_message_above_the_clearance_is_refused(level: str, clearance: str) -> None:
    """M-28: an unknown classification counts as the highest."""
    message = pb.MessageEnvelope.FromString(protected(VALUE).to_bytes())
    message.security.data_classification = level
    with pytest.raises(ClearanceError):
        check_clearance(MessageView(message.SerializeToString()), clearance)


def test_a_bomb_is_refused_before_it_is_inflated() -> None:
    """M-23: a payload of 64 MiB that says it is of one."""
    for encoding in ("gzip", "zstd", "lz4", "snappy"):
        view = protected(bytes(64 << 20), compression=encoding)
        message = pb.MessageEnvelope.FromString(view.to_bytes())
        for size in (1, (64 << 20) + 1):
            message.metadata.uncompressed_bytes = size
            with pytest.raises(CompressionError):
                opened(MessageView(message.SerializeToString()).validate())


@pytest.mark.parametrize("key_id", ["", "../etc", ".hidden", "-rf", "a/b", "a..b", "x" * 129, "a\n", "é"])
def test_key_ids_that_traverse_paths_are_refused(key_id: str) -> None:
    """M-26."""
    with pytest.raises(KeyRefusedError):
        generate_key(key_id, "aes-256-gcm")


@pytest.mark.parametrize("name", ["aes-256-gcm", "x25519-chacha20-poly1305", "x-wing", "ed25519", "ml-kem-768"])
@pytest.mark.parametrize("part", ["secret", "public"])
def test_key_bytes_of_another_length_are_refused(name: str, part: str) -> None:
    """M-26."""
    with pytest.raises(KeyRefusedError):
        MessageKey("k", algorithm_of(name), **{part: b"x" * 31})


def test_a_key_is_used_only_within_its_bounds() -> None:
    """M-26."""
    bound = replace(key("aes-256-gcm"), namespaces=("prod",), topics=("orders.*",), not_before_ms=10, not_after_ms=20)
    bound.check_use("prod", "orders.created", 15)
    for namespace, topic, at_ms in (
        ("test", "orders.x", 15),
        ("prod", "flights", 15),
        ("prod", "orders.x", 9),
        ("prod", "orders.x", 21),
    ):
        with pytest.raises(KeyRefusedError):
            bound.check_use(namespace, topic, at_ms)


def test_a_key_written_down_and_read_is_the_same_key() -> None:
    """M-26."""
    made = generate_key("k", "x-wing", topics=("orders.*",), publishers=("billing",), not_after_ms=5)
    assert key_of_record(made.to_record()).to_record() == made.to_record()


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"secret": "%%"},
        {"secret": 5},
        {"topics": "orders"},
        {"not_before_ms": "now"},
        {"not_before_ms": True},
        {"id": 7},
    ],
)
def test_a_malformed_key_record_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(KeyRefusedError):
        key_of_record({**key("aes-256-gcm").to_record(), **change})


def test_no_key_shows_its_bytes() -> None:
    """M-26."""
    for name in ("aes-256-gcm", "x-wing", "ed25519"):
        one = key(name)
        assert one.secret is not None
        shown = f"{one!r} {one}"
        assert one.secret.hex() not in shown
        assert repr(one.secret)[2:-1] not in shown


def test_unknown_options_of_a_protection_are_configuration_errors() -> None:
    with pytest.raises(ConfigurationError):
        protected(VALUE, classification="secret")
    with pytest.raises(CompressionError):
        protected(VALUE, compression="brotli")


def test_a_reader_uses_a_key_only_for_what_it_is_for() -> None:
    """M-26."""
    made = generate_key("k", "x-wing")
    view = protected(VALUE, encrypt_to=(made.public_part(),))
    assert opened(view, replace(made, not_after_ms=BASE["published_at_ms"])).payload == VALUE
    for bound in ({"topics": ("flights",)}, {"namespaces": ("prod",)}, {"not_after_ms": 5}):
        with pytest.raises(KeyRefusedError):
            opened(view, replace(made, **bound))  # type: ignore[arg-type]


def test_an_encoding_that_is_not_read_here_is_handed_out_as_it_is() -> None:
    """M-9."""
    message = pb.MessageEnvelope.FromString(protected(b"\x0b\x02").to_bytes())
    message.metadata.content_encoding, message.metadata.content_encoding_custom = 99, "br"
    view = opened(MessageView(message.SerializeToString()).validate())
    assert bytes(view.payload_bytes) == b"\x0b\x02"
    with pytest.raises(WireError, match="br"):
        _ = view.payload


def test_a_token_is_found_wherever_it_stands_in_the_security_context() -> None:
    """M-14, M-27: what breaks M-4 may hide one."""
    plain = protected(VALUE).to_bytes()
    with_token = with_security(plain, pb.SecurityContext(auth_token="secret.token").SerializeToString())
    assert has_token(with_token)
    assert not has_token(plain)
    with pytest.raises(WireError, match="BAD_MESSAGE"):
        has_token(b"\x07" + with_token)


@pytest.mark.parametrize("name", ["3des", "hmac-md5", "rot13"])
def test_a_signature_of_a_deprecated_or_unknown_algorithm_is_refused_by_its_name(name: str) -> None:
    """M-24: whoever looks at the signature, and whether anybody does."""
    with pytest.raises(MessageError, match=name):
        check_signature_algorithm(SimpleNamespace(signature_algorithm=name))
    check_signature_algorithm(SimpleNamespace(signature_algorithm=""))
