"""Keys from files, the environment, Vault, KMS and mounted secrets (M-26)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speed.errors import ConfigurationError
from speed.message.errors import KeyRefusedError, KeyUnavailableError
from speed.message.keys import MessageKey, generate_key
from speed.message.providers import KmsProvider, provider_of
from tests.unit.trust.vault_server import TOKEN, Vault, running_vault

KEY = generate_key("orders.1", "x-wing")


def write(path: Path, content: Any, mode: int = 0o600) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return f"file://{path}"


def same(found: tuple[MessageKey, ...]) -> bool:
    return [key.to_record() for key in found] == [KEY.to_record()]


def test_a_private_file_gives_its_keys(tmp_path: Path) -> None:
    assert same(provider_of(write(tmp_path / "keys.json", KEY.to_record())).fetch())
    assert same(provider_of(write(tmp_path / "list.json", [KEY.to_record()])).fetch())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_of_secrets_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(KeyRefusedError, match="chmod 600"):
        provider_of(write(tmp_path / "keys.json", KEY.to_record(), mode)).fetch()


def test_public_keys_may_be_read_by_others(tmp_path: Path) -> None:
    uri = write(tmp_path / "keys.json", KEY.public_part().to_record(), 0o644)
    assert provider_of(uri).fetch()[0].secret is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "7",
        "{}",
        "{",
        "[" * 100_000,
        '[{"id":"a"},7]',
        json.dumps([KEY.to_record()] * 2),
        "x" * ((1 << 20) + 1),
    ],
    ids=range(9),
)
def test_a_file_that_holds_no_keys_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(Exception, match="key") as refused:
        provider_of(write(tmp_path / "keys.json", content)).fetch()
    assert refused.value.code in {"KEY_REFUSED", "UNKNOWN_ALGORITHM"}


def test_a_missing_file_a_link_a_directory_and_a_fifo_are_named_errors_at_once(tmp_path: Path) -> None:
    write(tmp_path / "keys.json", KEY.to_record())
    (tmp_path / "link").symlink_to(tmp_path / "keys.json")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(KeyUnavailableError):
        provider_of(f"file://{tmp_path}/none").fetch()
    for name in ("link", ".", "fifo"):
        with pytest.raises(KeyRefusedError):
            provider_of(f"file://{tmp_path}/{name}").fetch()


def test_the_environment_gives_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_KEYS", json.dumps(KEY.to_record()))
    assert same(provider_of("env://ORDERS_KEYS").fetch())
    with pytest.raises(KeyUnavailableError, match="NO_KEYS"):
        provider_of("env://NO_KEYS").fetch()


def test_a_mounted_secret_is_read_through_its_links_and_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "data.json", KEY.to_record(), 0o644)
    (tmp_path / "orders.json").symlink_to(tmp_path / "data.json")
    assert same(provider_of(f"k8s://{tmp_path}/orders.json").fetch())
    assert "not encrypted" in caplog.text


@pytest.mark.parametrize(
    "uri",
    ["ftp://x", "keys.json", "file://relative", "vault://secret", "vault://secret/x?auth=magic", "vault://secret/x?a=1",
     "awskms:///keys.json", "awskms:///k?key=a&key=b", "awskms:///k?key=a&context=zz&region=x"],
)  # fmt: skip
def test_a_uri_that_cannot_be_is_a_configuration_error(uri: str) -> None:
    with pytest.raises(ConfigurationError):
        provider_of(uri)


# --- Vault ---


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Vault]:
    monkeypatch.setenv("HOME", str(tmp_path))
    with running_vault() as server:
        monkeypatch.setenv("VAULT_ADDR", server.address)
        yield server


def test_vault_gives_keys_by_each_way_to_log_in(vault: Vault, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vault.secrets["orders"] = {"keys": json.dumps([KEY.to_record()])}
    vault.secrets["team/one"] = KEY.to_record()
    monkeypatch.setenv("VAULT_ROLE_ID", "role")
    monkeypatch.setenv("VAULT_SECRET_ID", "secret")
    (tmp_path / "jwt").write_text("pod-token")
    assert same(provider_of("vault://secret/orders?auth=approle").fetch())
    assert same(provider_of(f"vault://secret/orders?auth=kubernetes&role=orders&jwt={tmp_path}/jwt").fetch())
    monkeypatch.setenv("VAULT_TOKEN", TOKEN)
    assert same(provider_of(f"vault://secret/team/one?address={vault.address}").fetch())


def test_vault_says_which_keys_are_missing_refused_or_out_of_reach(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", TOKEN)
    with pytest.raises(KeyUnavailableError, match="vault://secret/none"):
        provider_of("vault://secret/none").fetch()
    with pytest.raises(KeyUnavailableError, match="does not answer"):
        provider_of("vault://secret/orders?address=http://127.0.0.1:1").fetch()
    monkeypatch.setenv("VAULT_TOKEN", "hvs.wrong")
    with pytest.raises(KeyRefusedError, match="vault://secret/none") as refused:
        provider_of("vault://secret/none").fetch()
    assert "hvs.wrong" not in str(refused.value)
    monkeypatch.delenv("VAULT_TOKEN")
    with pytest.raises(KeyRefusedError, match="VAULT_TOKEN"):
        provider_of("vault://secret/none").fetch()


# --- KMS ---


@pytest.fixture
def kms(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    from moto.server import ThreadedMotoServer

    for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")):
        monkeypatch.setenv(name, value)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        import boto3

        options = {"region": "eu-west-1", "endpoint": f"http://{host}:{port}"}
        client = boto3.client("kms", region_name="eu-west-1", endpoint_url=options["endpoint"])
        yield {**options, "key": client.create_key()["KeyMetadata"]["KeyId"], "context": "environment:test"}
    finally:
        server.stop()


def uri_of(path: Path, options: dict[str, str]) -> str:
    return f"awskms://{path}?" + "&".join(f"{name}={value}" for name, value in options.items())


def test_kms_wraps_and_unwraps_keys_in_their_context(kms: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    provider = provider_of(uri_of(path, kms))
    assert isinstance(provider, KmsProvider)
    records = [provider.make("orders.1", "aes-256-gcm", topics=("orders.*",)), provider.make("orders.2", "ml-kem-768")]
    path.write_text(json.dumps(records))
    assert all("secret" not in record for record in records)
    first, second = provider.fetch()
    assert (first.id, first.topics, len(first.secret or b"")) == ("orders.1", ("orders.*",), 32)
    assert len(second.secret or b"") == 64
    path.write_text(json.dumps({**records[0], "id": "orders.9"}))
    with pytest.raises(KeyRefusedError, match=r"orders\.9"):
        provider.fetch()
    path.write_text(json.dumps(records[0]))
    with pytest.raises(KeyRefusedError, match=r"orders\.1"):
        provider_of(uri_of(path, {**kms, "context": "environment:prod"})).fetch()


def test_kms_out_of_reach_names_the_key(kms: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"id": "orders.1", "algorithm": "aes-256-gcm", "wrapped": "AAAA"}))
    with pytest.raises(KeyUnavailableError, match=r"orders\.1"):
        provider_of(uri_of(path, {**kms, "endpoint": "http://127.0.0.1:1"})).fetch()
    with pytest.raises((KeyRefusedError, KeyUnavailableError), match=r"orders\.1"):
        provider_of(uri_of(path, kms)).fetch()
