"""What becomes of encrypted messages, with keys in real files."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from speed.gateway import frames
from speed.gateway.conversations import Fate, Opener
from speed.gateway.encryption import PROPERTY, ByGateway, EncryptionContext, HeldKeys, written
from speed.gateway.frames import ClientDelivery
from speed.gateway.settings import Counters
from speed.pulsar.payloads import DataKey
from speed.wire.topic import RecordHead, encode
from speed.wire.value import pack

KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
ROW = [0, 1, 0, b""]


@pytest.fixture
def held(tmp_path: Path) -> HeldKeys:
    (tmp_path / "app.pem").touch(0o600)
    (tmp_path / "app.pem").write_bytes(PEM)
    return HeldKeys({"app": f"pem://{tmp_path}/app.pem", "away": f"pem://{tmp_path}/away.pem"})


def message(name: str) -> ClientDelivery:
    """Encrypted for that key."""
    sealed, context = ByGateway(DataKey({name: KEY.public_key()})).seal(b"one coffee")
    about = {"publisher": "p", "properties": {PROPERTY: written(context)}}
    return frames.delivery(0, [0, 1, 0, encode(RecordHead(), about, pack(sealed))])


def opened(
    held: HeldKeys, action: str, message: ClientDelivery, until: Callable[[Opener], None] = lambda _: None
) -> Fate:
    async def run() -> Fate:
        opener = Opener(held, action, Counters())
        until(opener)
        return await opener.open("orders", ROW, message)

    return asyncio.run(run())


def test_a_message_for_a_key_that_is_held_is_opened_and_has_no_context_any_more(held: HeldKeys) -> None:
    one = message("app")
    assert opened(held, "FAIL", one) is Fate.SENT
    assert (one.payload, one.encryption_context) == (b"one coffee", msgspec.UNSET)


@pytest.mark.parametrize(
    ("action", "fate"), [("FAIL", Fate.HIDDEN), ("DISCARD", Fate.DISCARDED), ("CONSUME", Fate.SENT)]
)
def test_what_does_not_open_is_hidden_discarded_or_told_as_it_is(held: HeldKeys, action: str, fate: Fate) -> None:
    one = message("nobody")
    before = one.payload
    assert opened(held, action, one) is fate
    assert (one.payload, one.encryption_context is msgspec.UNSET) == (before, False)


def test_a_provider_with_a_wrong_setting_opens_nothing_and_fails_nothing_else() -> None:
    held = HeldKeys({"app": "vault://secret/app?auth=kubernetes"})  # whose role is missing
    assert opened(held, "FAIL", message("app")) is Fate.HIDDEN


def test_a_compression_whose_library_is_not_here_opens_nothing(held: HeldKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    one = message("app")
    assert isinstance(one.encryption_context, EncryptionContext)
    one.encryption_context.compression_type, one.encryption_context.uncompressed_message_size = "LZ4", 5
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert opened(held, "DISCARD", one) is Fate.DISCARDED


def test_without_keys_of_the_gateway_everything_is_told_as_it_is() -> None:
    assert opened(HeldKeys({}), "FAIL", message("app")) is Fate.SENT


def test_what_is_not_encrypted_is_told() -> None:
    plain = frames.delivery(0, [0, 1, 0, encode(RecordHead(), {"publisher": "p"}, pack(b"x"))])
    assert opened(HeldKeys({"app": "pem:///nowhere"}), "FAIL", plain) is Fate.SENT


def test_while_keys_are_away_a_message_waits_unless_it_may_come_as_it_is(held: HeldKeys) -> None:
    assert opened(held, "CONSUME", message("away")) is Fate.SENT
    late = lambda opener: asyncio.get_running_loop().call_later(0.2, opener.end)  # noqa: E731
    for action in ("FAIL", "DISCARD"):
        assert opened(held, action, message("away"), late) is Fate.HIDDEN
