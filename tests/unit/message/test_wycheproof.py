"""Published cases of Wycheproof through our own keys and ciphers (M-17, M-19, M-21); see ``wycheproof/README.md``."""

from __future__ import annotations

import hmac
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag

from speed.message.algorithms import WRAPPED_KEY_BYTES, algorithm_of
from speed.message.encryption import Wrapped, cipher, oaep, unwrap, wrap, wrapping_key
from speed.message.errors import EncryptionError, KeyRefusedError
from speed.message.keys import MessageKey
from speed.message.protect import holds
from speed.wire.seal import hkdf

HERE = Path(__file__).parent / "wycheproof"
IV, CONTEXT, DATA_KEY = bytes(12), bytes(32), b"k" * 32
CIPHERS = {"aes_gcm": "aes-256-gcm", "chacha20_poly1305": "chacha20-poly1305"}
OAEPS = {f"rsa_oaep_{bits}_sha256_mgf1sha256": f"rsa-oaep-{bits}" for bits in (3072, 4096)}
MLKEMS = {"mlkem_768": "ml-kem-768", "mlkem_1024": "ml-kem-1024"}

Case = dict[str, Any]


def published(name: str) -> Case:
    file: Case = json.loads((HERE / f"{name}.json").read_text())
    return file


def cases(*names: str) -> list[Any]:
    """Each case of these files; what is hexadecimal becomes bytes."""
    return [case_of(name, case) for name in names for case in published(name)["tests"]]


def case_of(name: str, case: Case) -> Any:
    said = {key: case.pop(key) for key in ("tcId", "comment", "flags", "result")}
    told = f"{name} {said['tcId']}: {said['comment'] or ', '.join(said['flags'])}"
    return pytest.param(name, {**said, **{key: bytes.fromhex(value) for key, value in case.items()}}, id=told)


def mlkem_key(name: str, secret: bytes | None = None, public: bytes | None = None) -> MessageKey:
    return MessageKey("wycheproof", algorithm_of(MLKEMS["_".join(name.split("_")[:2])]), secret, public)


def sealed_under(key: MessageKey, secret: bytes, encapsulated: bytes) -> bytes:
    """A data key as who encapsulated that secret would have wrapped it."""
    sealed = cipher(key.algorithm.cipher, wrapping_key(key, secret, encapsulated, CONTEXT))
    return sealed.encrypt(IV, DATA_KEY, None)


@pytest.mark.parametrize(("name", "case"), cases(*CIPHERS))
def test_a_cipher_opens_what_is_valid_and_nothing_else(name: str, case: Case) -> None:
    aead = cipher(CIPHERS[name], case["key"])
    sealed = case["ct"] + case["tag"]
    if case["result"] == "valid":
        assert aead.decrypt(case["iv"], sealed, case["aad"]) == case["msg"]
        assert aead.encrypt(case["iv"], case["msg"], case["aad"]) == sealed
    else:
        with pytest.raises((InvalidTag, ValueError)):
            aead.decrypt(case["iv"], sealed, case["aad"])


@cache
def rsa_key(name: str) -> MessageKey:
    return MessageKey("wycheproof", algorithm_of(OAEPS[name]), bytes.fromhex(published(name)["pkcs8"]))


@pytest.mark.parametrize(("name", "case"), cases(*OAEPS))
def test_rsa_oaep_opens_what_is_valid_and_nothing_else(name: str, case: Case) -> None:
    key = rsa_key(name)
    if case["result"] == "valid":
        assert key.loaded_secret.decrypt(case["ct"], oaep(case["label"])) == case["msg"]
        return
    with pytest.raises(ValueError):  # noqa: PT011 - OpenSSL's text
        key.loaded_secret.decrypt(case["ct"], oaep(case["label"]))
    with pytest.raises(EncryptionError):
        unwrap(key, Wrapped(case["ct"], bytes(WRAPPED_KEY_BYTES)), IV, CONTEXT)


@pytest.mark.parametrize(("name", "case"), cases("hkdf_sha256"))
def test_hkdf_derives_the_published_keys(name: str, case: Case) -> None:
    """Ours has no salt (M-21); the cases that have one are judged as HMAC."""
    first = case["okm"][:32]
    if not case["salt"]:
        assert hkdf(case["ikm"], case["info"]) == first
    extracted = hmac.digest(case["salt"], case["ikm"], "sha256")
    key = MessageKey("wycheproof", algorithm_of("hmac-sha256"), extracted)
    assert holds(key, first, case["info"] + b"\x01")
    assert not holds(key, first[:-1] + bytes([first[-1] ^ 1]), case["info"] + b"\x01")


@pytest.mark.parametrize(("name", "case"), cases("ed25519"))
def test_ed25519_signatures_are_judged_as_published(name: str, case: Case) -> None:
    key = MessageKey("wycheproof", algorithm_of("ed25519"), public=case["pk"])
    assert holds(key, case["sig"], case["msg"]) is (case["result"] == "valid")


@pytest.mark.parametrize(("name", "case"), cases("x25519"))
def test_x25519_secrets_are_those_published_and_zero_is_refused(name: str, case: Case) -> None:
    """A data key wrapped under the published secret opens; one under a secret of zeros never does."""
    key = MessageKey("wycheproof", algorithm_of("x25519-chacha20-poly1305"), case["private"])
    wrapped = Wrapped(case["public"], sealed_under(key, case["shared"], case["public"]))
    if "ZeroSharedSecret" in case["flags"]:
        with pytest.raises(EncryptionError):
            unwrap(key, wrapped, IV, CONTEXT)
    else:
        assert unwrap(key, wrapped, IV, CONTEXT) == DATA_KEY


@pytest.mark.parametrize(("name", "case"), cases(*MLKEMS))
def test_ml_kem_secrets_are_those_published_and_wrong_lengths_are_refused(name: str, case: Case) -> None:
    """An altered ciphertext gives the secret of implicit rejection, which is published too."""
    if case["result"] == "valid":
        key = mlkem_key(name, secret=case["seed"])
        assert unwrap(key, Wrapped(case["c"], sealed_under(key, case["K"], case["c"])), IV, CONTEXT) == DATA_KEY
        return
    with pytest.raises((KeyRefusedError, EncryptionError)):
        unwrap(mlkem_key(name, secret=case["seed"]), Wrapped(case["c"], bytes(WRAPPED_KEY_BYTES)), IV, CONTEXT)


@pytest.mark.parametrize(("name", "case"), cases("mlkem_768_encaps", "mlkem_1024_encaps"))
def test_an_ml_kem_key_is_taken_where_it_is_valid_and_refused_otherwise(name: str, case: Case) -> None:
    if case["result"] == "valid":
        key = mlkem_key(name, public=case["ek"])
        assert len(wrap(key, DATA_KEY, IV, CONTEXT).encapsulated_key) == key.algorithm.output
    else:
        with pytest.raises(KeyRefusedError):
            mlkem_key(name, public=case["ek"])


@pytest.mark.parametrize(("name", "case"), cases("mlkem_768_keygen_seed", "mlkem_1024_keygen_seed"))
def test_an_ml_kem_seed_gives_the_published_key(name: str, case: Case) -> None:
    assert mlkem_key(name, secret=case["seed"]).public == case["ek"]
