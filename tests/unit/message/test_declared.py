"""Encryption as configuration declares it: what is right, and each mistake by its name (M-38)."""

from __future__ import annotations

from typing import Any

import pytest

from speed.errors import ConfigurationError
from speed.message.declared import declared, period_ms
from speed.message.errors import UnknownAlgorithmError, WeakAlgorithmError

REF = {"key_ref": "file:///etc/speed/orders.json"}
ROTATING = {"enabled": True, "rotation_period": "90d", "overlap_period": "7d"}


def test_what_is_not_said_is_as_it_should_be() -> None:
    found = declared(REF)
    assert (found.enabled, found.algorithm, found.fips_mode) == (True, "x-wing", "off")
    assert (found.key_rotation.period_ms, found.key_rotation.overlap_ms) == (7_776_000_000, 604_800_000)


def test_names_of_the_first_draft_mean_what_is_written_today() -> None:
    found = declared({**REF, "type": "hybrid", "algorithm": "rsa4096-kyber768", "fips_mode": "strict"})
    assert found.row.name == "x25519-ml-kem-1024"


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        (
            {"kubernetes_secret": {"name": "keys", "namespace": "prism-system", "key_field": "encryption_key"}},
            "k8s://prism-system/keys?key_field=encryption_key",
        ),
        ({"vault": {"secret_path": "secret/orders"}}, "vault://secret/orders"),
        (
            {"vault": {"secret_path": "secret/orders", "auth_method": "kubernetes", "role": "orders"}},
            "vault://secret/orders?auth=kubernetes&role=orders",
        ),
        (
            {"aws_kms": {"key_id": "alias/orders", "file": "/etc/speed/orders.json", "region": "eu-west-1"}},
            "awskms:///etc/speed/orders.json?key=alias%2Forders&region=eu-west-1",
        ),
        ({"aws_kms": {"key_id": "a", "file": "/f"}}, "awskms:///f?key=a"),
        (REF, REF["key_ref"]),
    ],
)
def test_each_kind_of_provider_is_a_reference(table: dict[str, Any], uri: str) -> None:
    assert declared(table).uri == uri


def test_what_was_declared_can_be_declared_again() -> None:
    found = declared({**REF, "algorithm": "x-wing", "public_key_ref": "file:///r", "key_rotation": ROTATING})
    assert declared(found.as_table()) == found


@pytest.mark.parametrize("weak", ["3des", "HMAC-MD5", "aes-128-gcm", "rsa-2048", "rc4"])
def test_deprecated_algorithms_are_refused_in_every_mode(weak: str) -> None:
    for mode in ("off", "rfc", "strict"):
        with pytest.raises(WeakAlgorithmError, match="deprecated"):
            declared({**REF, "algorithm": weak, "fips_mode": mode})


@pytest.mark.parametrize("algorithm", ["x-wing", "chacha20-poly1305", "x25519-chacha20-poly1305"])
def test_what_nist_does_not_approve_is_refused_in_strict_mode(algorithm: str) -> None:
    declared({**REF, "algorithm": algorithm, "fips_mode": "rfc"})
    with pytest.raises(WeakAlgorithmError, match="not approved"):
        declared({**REF, "algorithm": algorithm, "fips_mode": "strict"})


def test_an_unknown_algorithm_is_named() -> None:
    with pytest.raises(UnknownAlgorithmError, match="rot13"):
        declared({**REF, "algorithm": "rot13"})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({**REF, "fips_mode": "loose"}, "fips_mode"),
        ({**REF, "algorithm": "ed25519"}, "signs"),
        ({**REF, "type": "symmetric"}, "x-wing is hybrid"),
        ({**REF, "type": "quantum"}, "use one of symmetric"),
        ({}, "give one of key_ref"),
        ({**REF, "vault": {"secret_path": "a/b"}}, "give one of key_ref"),
        ({**REF, "algorithm": "aes-256-gcm", "public_key_ref": "file:///r"}, "shared key"),
        ({**REF, "key_rotation": {"rotation_period": "7d", "overlap_period": "7d"}}, "shorter"),
        ({"vault": {"secret_path": "a/b"}, "key_rotation": {"enabled": True}}, "in a file"),
        ({**REF, "key_rotation": {"rotation_period": "90"}}, "no period"),
        ({**REF, "key_rotation": {"rotation_period": 90}}, "rotation_period must be text"),
        ({**REF, "key_rotation": {"rotation": "90d"}}, "does not know 'rotation'"),
        ({**REF, "key_rotation": "90d"}, "must be a table"),
        ({**REF, "enabled": "yes"}, "true or false"),
        ({**REF, "algorithm": ""}, "algorithm must be text"),
        ({**REF, "keyref": "x"}, "does not know 'keyref'"),
        ({"kubernetes_secret": {"name": "keys"}}, "kubernetes_secret has name, namespace, key_field"),
        ({"kubernetes_secret": {"name": 1}}, "a table of texts"),
        ({"vault": {"secret_path": "a/b", "token": "x"}}, "correct 'token'"),
    ],
)
def test_each_mistake_is_named(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        declared(table).uri  # noqa: B018 - a provider's table is looked at when its reference is asked for


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("90d", 7_776_000_000), ("1h", 3_600_000), ("5m", 300_000), ("1s", 1000)]
)
def test_a_period_is_a_number_with_its_unit(text: str, milliseconds: int) -> None:
    assert period_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "d", "0d", "-1d", "1w", "1.5d", "99999999d"])
def test_what_is_no_period_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no period"):
        period_ms(text)
