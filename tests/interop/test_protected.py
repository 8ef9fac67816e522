"""Signed and encrypted messages between every pair of languages (messages.md, M-16 to M-26).

Each agent opens, beside its own, a node that protects its messages:

- ``protect{name, allow, keys, policy, trusted, sign_with, encrypt_to, compression}`` opens it, after it closed the one
  of an earlier ``protect``; its generation. ``keys`` is a list of key records as in M-26 (``id``, ``algorithm``,
  ``secret`` or ``public`` in Base64, ``publishers``, …), each a set of its own under its id. ``policy`` is ``off``,
  ``verify`` or ``require`` (M-18); ``trusted`` and ``encrypt_to`` are lists of ids, ``sign_with`` is an id or null;
  ``compression`` is a name, or ``none``. The node handles messages as they come, so that who asked for an
  acknowledgement hears of a refusal.
- ``protected_send{target, payload, timeout}`` sends from it, and waits until it was handled; the id of the message.
- ``protected_receive{timeout}``: what was handled next, ``{payload, source, signedBy, openedBy}`` with the ids of the
  keys or null; null after ``timeout`` seconds.
- ``unprotect{}`` closes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from speed.message.keys import MessageKey, generate_key
from tests.interop.languages import pairs
from tests.interop.pool import Agents

PAYLOAD = {"amount": 1000, "card": "4111-1111", "bytes": b"\x00\xff"}
WRITER, READER = "server.writer", "server.reader"


@pytest.fixture
def signer() -> MessageKey:
    return generate_key("writer-1", "ed25519", publishers=(WRITER,))


class Pair:
    """The protected nodes of two agents, each of which allows the other."""

    def __init__(self, agents: Agents, source: str, target: str) -> None:
        self.writer, self.reader = agents.shared("caller", source), agents.shared("server", target)

    def protect(self, writing: dict[str, Any], reading: dict[str, Any]) -> None:
        nothing: dict[str, Any] = {
            "policy": "off",
            "trusted": [],
            "sign_with": None,
            "encrypt_to": [],
            "compression": "none",
        }
        self.reader.ask("protect", **{**nothing, "name": READER, "allow": [WRITER], **reading})
        self.writer.ask("protect", **{**nothing, "name": WRITER, "allow": [READER], **writing})

    def send(self) -> None:
        self.writer.ask("protected_send", target=READER, payload=PAYLOAD, timeout=20)

    def received(self) -> dict[str, Any]:
        found: dict[str, Any] = self.reader.ask("protected_receive", timeout=20)
        return found

    def is_refused(self, code: str) -> bool:
        """Whether the reader refuses what the writer sends, and tells it this code."""
        refused = self.writer.refusal("protected_send", target=READER, payload=PAYLOAD, timeout=20)
        assert refused.code == "INVALID_ARGUMENTS"
        assert self.reader.ask("protected_receive", timeout=0) is None
        return f" {code}: " in str(refused)


@pytest.fixture
def pair(agents: Agents, source: str, target: str) -> Iterator[Pair]:
    opened = Pair(agents, source, target)
    yield opened
    for agent in (opened.writer, opened.reader):
        agent.ask("unprotect")


@pytest.mark.parametrize("algorithm", ["aes-256-gcm", "chacha20-poly1305", "x25519-chacha20-poly1305", "rsa-oaep-3072"])
@pairs("sends to")
def test_a_message_signed_and_encrypted_here_is_verified_and_opened_there(
    pair: Pair, signer: MessageKey, algorithm: str
) -> None:
    """M-17 to M-21, M-25."""
    opener = generate_key("reader-1", algorithm)
    shown = opener if opener.algorithm.is_symmetric else opener.public_part()
    pair.protect(
        {"keys": [signer.to_record(), shown.to_record()], "sign_with": signer.id, "encrypt_to": [opener.id]},
        {
            "keys": [signer.public_part().to_record(), opener.to_record()],
            "policy": "require",
            "trusted": [signer.id],
        },
    )
    pair.send()
    received = pair.received()
    assert received["payload"] == PAYLOAD
    assert (received["source"], received["signedBy"], received["openedBy"]) == (WRITER, signer.id, opener.id)


@pytest.mark.parametrize("compression", ["gzip", "zstd", "lz4", "snappy"])
@pairs("sends to")
def test_a_compressed_message_under_a_shared_key(pair: Pair, compression: str) -> None:
    """M-17, M-23: what one compresses the other decompresses."""
    shared = generate_key("both-1", "hmac-sha256", publishers=(WRITER,))
    keys = [shared.to_record()]
    pair.protect(
        {"keys": keys, "sign_with": shared.id, "compression": compression},
        {"keys": keys, "policy": "verify", "trusted": [shared.id]},
    )
    pair.send()
    received = pair.received()
    assert (received["payload"], received["signedBy"], received["openedBy"]) == (PAYLOAD, shared.id, None)


@pairs("is refused by")
def test_a_message_that_is_not_signed_is_refused(pair: Pair, signer: MessageKey) -> None:
    """M-18: its sender is told the code."""
    trusting = {"keys": [signer.public_part().to_record()], "policy": "require", "trusted": [signer.id]}
    pair.protect({"keys": []}, trusting)
    assert pair.is_refused("UNSIGNED")


@pairs("is refused by")
def test_a_signature_of_another_publisher_is_refused(pair: Pair, signer: MessageKey) -> None:
    """M-17."""
    other = replace(signer.public_part(), publishers=("server.another",))
    pair.protect(
        {"keys": [signer.to_record()], "sign_with": signer.id},
        {"keys": [other.to_record()], "policy": "verify", "trusted": [signer.id]},
    )
    assert pair.is_refused("UNTRUSTED")


@pairs("is refused by")
def test_a_payload_for_others_is_refused(pair: Pair) -> None:
    """M-21."""
    theirs, mine = (generate_key(key_id, "x25519-chacha20-poly1305") for key_id in ("theirs", "mine"))
    pair.protect(
        {"keys": [theirs.public_part().to_record()], "encrypt_to": [theirs.id]},
        {"keys": [mine.to_record()]},
    )
    assert pair.is_refused("NO_RECIPIENT_KEY")
