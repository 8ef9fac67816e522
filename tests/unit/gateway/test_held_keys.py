"""Keys that the gateway holds: from where, for what, and for how long; with real files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from speed.errors import ConfigurationError
from speed.gateway import encryption
from speed.gateway.encryption import ByGateway, EncryptionContext, HeldKeys, HeldSealer, Sealer, read_pem
from speed.message.errors import EncryptionError, KeyRefusedError, KeyUnavailableError, NoRecipientKeyError
from speed.message.keys import MessageKey, generate_key
from speed.message.providers import FileProvider

T = TypeVar("T")
KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def file(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def records(path: Path, *keys: MessageKey) -> str:
    """The URI of a set of keys."""
    return f"file://{file(path, json.dumps([key.to_record() for key in keys]).encode())}"


def done(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def sealed(held: HeldKeys, name: str, topic: str = "orders") -> tuple[bytes, EncryptionContext]:
    return ByGateway(done(held.data_key([name], topic))).seal(b"one coffee")


def opened(held: HeldKeys, message: tuple[bytes, EncryptionContext], topic: str = "orders", at_ms: int = 5) -> bytes:
    return done(held.opened(topic, at_ms, message[1], message[0]))


@pytest.mark.parametrize("kind", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_private_key_in_pem_encrypts_and_opens(tmp_path: Path, kind: PrivateFormat) -> None:
    path = file(tmp_path / "a.pem", KEY.private_bytes(Encoding.PEM, kind, NoEncryption()))
    held = HeldKeys({"app": f"pem://{path}"})
    assert opened(held, sealed(held, "app")) == b"one coffee"


def test_a_public_key_encrypts_and_opens_nothing(tmp_path: Path) -> None:
    public, private = file(tmp_path / "p.pem", PUBLIC, 0o644), file(tmp_path / "a.pem", PEM)
    held = HeldKeys({"app": f"pem://{public}"})
    message = sealed(held, "app")
    with pytest.raises(EncryptionError):
        opened(held, message)
    assert opened(HeldKeys({"app": f"pem://{private}"}), message) == b"one coffee"


@pytest.mark.parametrize(
    ("data", "mode"),
    [
        (PEM, 0o640),
        (PUBLIC, 0o622),
        (b"no key", 0o600),
        (b"-----BEGIN PRIVATE KEY-----", 0o600),
        (rsa.generate_private_key(65537, 1024).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600),
        (ed25519.Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600),
    ],
)  # fmt: skip
def test_a_file_that_is_no_private_matter_or_no_key_is_refused(tmp_path: Path, data: bytes, mode: int) -> None:
    with pytest.raises(KeyRefusedError) as error:
        FileProvider(str(file(tmp_path / "a.pem", data, mode)), read_pem).fetch()
    assert b"PRIVATE" not in str(error.value).encode()


def test_a_link_is_not_followed_and_a_missing_file_is_waited_for(tmp_path: Path) -> None:
    file(tmp_path / "a.pem", PEM)
    (tmp_path / "link.pem").symlink_to(tmp_path / "a.pem")
    with pytest.raises(KeyRefusedError):
        FileProvider(str(tmp_path / "link.pem"), read_pem).fetch()
    with pytest.raises(KeyUnavailableError):
        FileProvider(str(tmp_path / "none.pem"), read_pem).fetch()


@pytest.mark.parametrize("source", ["nowhere:///a", "pem://a/b", "file://a", "a.pem"])
def test_a_source_that_cannot_be_is_refused_before_anything_is_served(source: str) -> None:
    with pytest.raises(ConfigurationError):
        HeldKeys({"app": source})


def test_the_newest_key_encrypts_and_each_of_its_set_opens(tmp_path: Path) -> None:
    begins = {"old": 0, "new": 1}
    old, new = (generate_key(name, "rsa-oaep-3072", not_before_ms=begin) for name, begin in begins.items())
    before = HeldKeys({"app": records(tmp_path / "before", old)})
    held = HeldKeys({"app": records(tmp_path / "now", old, new)})
    assert opened(held, sealed(before, "app")) == b"one coffee"
    message = sealed(held, "app")
    assert opened(held, message) == b"one coffee"
    with pytest.raises(EncryptionError):
        opened(before, message)


def test_a_key_is_used_where_and_when_it_may(tmp_path: Path) -> None:
    bound = generate_key("bound", "rsa-oaep-3072", topics=("orders",), not_before_ms=3, not_after_ms=1 << 50)
    held = HeldKeys({"app": records(tmp_path / "a", bound)})
    message = sealed(held, "app")
    assert opened(held, message) == b"one coffee"
    with pytest.raises(KeyRefusedError):
        sealed(held, "app", "invoices")
    for place in ({"topic": "invoices"}, {"at_ms": 2}):
        with pytest.raises(EncryptionError):
            opened(held, message, **place)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    held = HeldKeys({"app": records(tmp_path / "a", generate_key("a", "x25519-chacha20-poly1305"))})
    with pytest.raises(KeyRefusedError, match="neither RSA nor EC"):
        sealed(held, "app")


def test_a_message_for_keys_of_other_names_does_not_open(tmp_path: Path) -> None:
    held = HeldKeys({"app": f"pem://{file(tmp_path / 'a.pem', PEM)}", "other": f"pem://{tmp_path / 'a.pem'}"})
    with pytest.raises(NoRecipientKeyError):
        opened(HeldKeys({"app": f"pem://{tmp_path / 'a.pem'}"}), sealed(held, "other"))
    assert ("app" in held, "nobody" in held, len(held)) == (True, False, 2)


def test_a_key_that_is_away_counts_more_than_one_that_does_not_open(tmp_path: Path) -> None:
    good = f"pem://{file(tmp_path / 'a.pem', PEM)}"
    other = ec.generate_private_key(ec.SECP256R1())
    wrong = file(tmp_path / "b.pem", other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    data_key = done(HeldKeys({"a": good, "b": good}).data_key(["a", "b"], "orders"))
    message = ByGateway(data_key).seal(b"one coffee")
    held = HeldKeys({"a": f"pem://{tmp_path / 'none.pem'}", "b": f"pem://{wrong}"})
    with pytest.raises(KeyUnavailableError):
        opened(held, message)
    assert opened(HeldKeys({"a": f"pem://{wrong}", "b": good}), message) == b"one coffee"


def test_a_data_key_is_renewed_when_it_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "DATA_KEY_MESSAGES", 2)
    held = HeldKeys({"app": f"pem://{file(tmp_path / 'a.pem', PEM)}"})

    async def three() -> list[Any]:
        sealer = HeldSealer(held, ["app"], "orders")
        return [await sealer.current() for _ in range(3)]

    first, second, third = done(three())
    assert first is second
    assert third is not first


def test_who_asks_for_no_encryption_has_none() -> None:
    assert done(Sealer(None).current()) is None


def test_keys_that_were_closed_are_asked_for_no_more(tmp_path: Path) -> None:
    held = HeldKeys({"app": f"pem://{file(tmp_path / 'a.pem', PEM)}"})
    held.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        sealed(held, "app")
