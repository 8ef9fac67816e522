"""Keys cached, counted, found and rotated (M-26)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speed.message.errors import KeyExhaustedError, KeyRefusedError, KeyUnavailableError
from speed.message.keys import MessageKey, generate_key
from speed.message.rotation import is_due, rotated
from speed.trust.keystore import GRACE_SECONDS, MAX_AGE_SECONDS, RETRY_SECONDS, KeyStore

DAY_MS = 86_400_000
FIRST = generate_key("orders.1", "aes-256-gcm")


class Source:
    """A provider of which tests say what it gives, and what time it is."""

    def __init__(self, *keys: MessageKey) -> None:
        self.keys = keys
        self.error: Exception | None = None
        self.fetched = 0
        self.now = 0.0

    def fetch(self) -> tuple[MessageKey, ...]:
        self.fetched += 1
        if self.error is not None:
            raise self.error
        return self.keys

    def store(self, **options: int) -> KeyStore:
        return KeyStore({"orders": self}, clock=lambda: self.now, **options)


def current(store: KeyStore, at_ms: int = 0) -> str:
    return store.current("orders", "default", "orders.created", at_ms).id


def test_keys_are_fetched_once_until_they_expire() -> None:
    source = Source(FIRST)
    store = source.store()
    assert [current(store) for _ in range(3)] == ["orders.1"] * 3
    assert source.fetched == 1
    source.now = MAX_AGE_SECONDS
    current(store)
    assert source.fetched == 2


def test_ids_nobody_knows_ask_a_provider_again_only_after_a_while() -> None:
    """A stranger who names many ids must not make this node hammer its provider."""
    source = Source(FIRST)
    store = source.store()
    assert [store.find(f"unknown-{number}") for number in range(100)] == [None] * 100
    assert source.fetched == 1
    source.now, source.keys = RETRY_SECONDS, (FIRST, generate_key("unknown-1", "aes-256-gcm"))
    found = store.find("unknown-1")
    assert found is not None
    assert source.fetched == 2


def test_a_provider_that_does_not_answer_leaves_its_keys_in_use_for_a_while() -> None:
    source = Source(FIRST)
    store = source.store()
    current(store)
    source.error, source.now = KeyUnavailableError("away"), GRACE_SECONDS
    assert current(store) == "orders.1"
    source.now = GRACE_SECONDS + MAX_AGE_SECONDS
    with pytest.raises(KeyUnavailableError, match="away"):
        current(store)


def test_a_provider_that_refuses_takes_its_keys_back_at_once() -> None:
    source = Source(FIRST)
    store = source.store()
    current(store)
    source.error, source.now = KeyRefusedError("revoked"), MAX_AGE_SECONDS
    with pytest.raises(KeyRefusedError, match="revoked"):
        current(store)
    assert store.find("orders.1") is None


def test_a_key_that_was_used_often_enough_must_be_rotated() -> None:
    store = Source(FIRST).store(max_uses=2)
    assert [current(store), current(store)] == ["orders.1"] * 2
    with pytest.raises(KeyExhaustedError, match=r"orders\.1"):
        current(store)


def test_a_set_nobody_configured_is_named() -> None:
    with pytest.raises(KeyUnavailableError, match="payments"):
        Source(FIRST).store().current("payments", "default", "orders", 0)


def test_the_newest_key_that_has_begun_and_may_be_used_there_is_used() -> None:
    later = replace(generate_key("orders.2", "aes-256-gcm"), not_before_ms=10)
    elsewhere = replace(generate_key("orders.3", "aes-256-gcm"), not_before_ms=5, topics=("flights",))
    store = Source(FIRST, later, elsewhere).store()
    assert (current(store, 9), current(store, 10)) == ("orders.1", "orders.2")


def test_keys_are_separate_for_namespaces_and_topics() -> None:
    prod = replace(FIRST, namespaces=("prod",))
    with pytest.raises(KeyRefusedError, match="default"):
        current(Source(prod).store())


def test_a_rotation_overlaps_and_ends_what_is_old() -> None:
    keys = rotated((FIRST,), 100 * DAY_MS, 7 * DAY_MS)
    assert [key.id.partition(".")[0] for key in keys] == ["orders", "orders"]
    store = Source(*keys).store()
    assert current(store, 100 * DAY_MS) == keys[1].id != "orders.1"
    assert store.find("orders.1") is not None
    keys[0].check_use("default", "orders", 107 * DAY_MS)
    with pytest.raises(KeyRefusedError):
        keys[0].check_use("default", "orders", 107 * DAY_MS + 1)
    assert len(rotated(keys, 200 * DAY_MS, 7 * DAY_MS)) == 2


def test_a_rotation_is_due_after_its_period() -> None:
    keys = rotated((FIRST,), 100 * DAY_MS, 7 * DAY_MS)
    assert not is_due(keys, 189 * DAY_MS, 90 * DAY_MS)
    assert is_due(keys, 190 * DAY_MS, 90 * DAY_MS)
