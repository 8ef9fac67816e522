"""What is needed to judge a message is away for a moment: the message waits and is judged later (S-17)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import speed
from speed import KeyStore, MessageSecurity, generate_key
from speed.errors import StorageError
from speed.message.audit import AuditLog
from speed.message.errors import KeyUnavailableError
from speed.message.keys import MessageKey
from speed.message.schemas.registry import SchemaRegistry, SchemasAwayError

Make = Callable[..., speed.Node]
PATIENCE = 20.0
SIGNER = generate_key("billing.1", "ed25519", publishers=("billing",))
READER = generate_key("readers.1", "x-wing")


class Provider:
    """A provider of keys that does not answer at first."""

    def __init__(self, *keys: MessageKey) -> None:
        self.keys = keys
        self.asked = threading.Semaphore(0)
        self.answers = threading.Event()

    def fetch(self) -> tuple[MessageKey, ...]:
        self.asked.release()
        if not self.answers.is_set():
            raise KeyUnavailableError("the vault does not answer")
        return self.keys


def quick() -> float:
    """A clock by which providers are asked again soon."""
    return time.monotonic() * 1000


def sender(node: Make) -> speed.Node:
    keys = KeyStore({"billing": SIGNER, "readers": READER.public_part()})
    security = MessageSecurity(keys=keys, sign_with="billing", encrypt_to=("readers",))
    return node("billing", security=security, engine="python")


def test_a_message_whose_keys_are_away_waits_for_them(node: Make) -> None:
    """Both those that it is verified with and the one that it is opened with."""
    trusted, mine = Provider(SIGNER.public_part()), Provider(READER)
    keys = KeyStore({"publishers": trusted, "mine": mine}, clock=quick)
    security = MessageSecurity(keys=keys, policy="require", trusted=("publishers",))
    analytics = node("analytics", allow=["billing"], security=security, engine="python")
    handled: Queue[Any] = Queue()
    analytics.on_message(lambda message: handled.put((message.payload, message.deliveries)))
    billing = sender(node)
    for number in (1, 2):
        billing.send("analytics", number)
    for provider in (trusted, mine):
        for _ in range(2):
            assert provider.asked.acquire(timeout=PATIENCE)
        provider.answers.set()
    assert [handled.get(timeout=PATIENCE) for _ in range(2)] == [(1, 1), (2, 1)]
    counters = analytics.stats()["counters"]
    assert counters["messages_waiting_for_trust"] == 2 or counters["messages_waiting_for_trust"] == 1
    assert "messages_malformed" not in counters
    assert "dead_letters" not in counters


def test_receive_waits_for_keys_as_well(node: Make) -> None:
    mine = Provider(READER)
    keys = KeyStore({"publishers": SIGNER.public_part(), "mine": mine}, clock=quick)
    security = MessageSecurity(keys=keys, policy="require", trusted=("publishers",))
    analytics = node("analytics", allow=["billing"], security=security, engine="python")
    sender(node).send("analytics", 7)
    assert analytics.receive(0.3) is None
    mine.answers.set()
    message = analytics.receive(PATIENCE)
    assert message is not None
    assert message.payload == 7


def test_a_message_waits_while_the_registry_of_schemas_is_away(
    node: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = SchemaRegistry(tmp_path)
    away = threading.Event()
    away.set()
    looked = threading.Semaphore(0)
    check = schemas.check

    def check_or_not(view: Any) -> Any:
        looked.release()
        if away.is_set():
            raise SchemasAwayError("the registry does not answer")
        return check(view)

    monkeypatch.setattr(schemas, "check", check_or_not)
    analytics = node("analytics", allow=["billing"], security=MessageSecurity(schemas=schemas), engine="python")
    handled: Queue[Any] = Queue()
    analytics.on_message(lambda message: handled.put(message.payload))
    node("billing", engine="python").send("analytics", 7)
    for _ in range(2):
        assert looked.acquire(timeout=PATIENCE)
    away.clear()
    assert handled.get(timeout=PATIENCE) == 7


def test_a_message_waits_while_its_audit_cannot_be_written(
    node: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = AuditLog(str(tmp_path / "audit"))
    full = threading.Event()
    full.set()
    tried = threading.Semaphore(0)
    write = audit.write

    def write_or_not(*told: Any, **more: Any) -> None:
        tried.release()
        if full.is_set():
            raise StorageError("the audit log cannot be written")
        write(*told, **more)

    monkeypatch.setattr(audit, "write", write_or_not)
    keys = KeyStore({"publishers": SIGNER.public_part(), "mine": READER})
    security = MessageSecurity(keys=keys, policy="require", trusted=("publishers",), audit=audit)
    analytics = node("analytics", allow=["billing"], security=security, engine="python")
    handled: Queue[Any] = Queue()
    analytics.on_message(lambda message: handled.put(message.payload))
    sender(node).send("analytics", 7)
    for _ in range(2):
        assert tried.acquire(timeout=PATIENCE)
    full.clear()
    assert handled.get(timeout=PATIENCE) == 7
