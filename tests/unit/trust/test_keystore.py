"""Keys cached, counted, found and rotated (M-26)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from speed.message.errors import KeyExhaustedError, KeyRefusedError, KeyUnavailableError, WeakAlgorithmError
from speed.message.keys import MAX_SET_KEYS, MessageKey, generate_key
from speed.message.keystore import (
    GRACE_SECONDS,
    MAX_AGE_SECONDS,
    MAX_HANGING,
    RETRY_SECONDS,
    SEARCHES,
    KeyStore,
    is_due,
    rotated,
)
from speed.message.providers import keys_of

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


def test_ids_nobody_knows_ask_a_provider_a_few_times_and_then_only_after_a_while() -> None:
    """A stranger who names many ids must not make this node hammer its provider."""
    source = Source(FIRST)
    store = source.store()
    assert [store.find(f"unknown-{number}") for number in range(100)] == [None] * 100
    assert source.fetched == 1 + SEARCHES
    source.now, source.keys = RETRY_SECONDS, (FIRST, generate_key("unknown-1", "aes-256-gcm"))
    found = store.find("unknown-1")
    assert found is not None
    assert source.fetched == 2 + SEARCHES
    assert [store.find(f"unknown-{number}") for number in range(2, 100)] == [None] * 98
    assert source.fetched == 2 + SEARCHES


def test_a_key_that_its_provider_has_by_now_is_found_at_once() -> None:
    source = Source(FIRST)
    store = source.store()
    for number in range(2, 2 + SEARCHES):
        assert store.find("orders.1") is not None
        source.keys = (*source.keys, generate_key(f"orders.{number}", "aes-256-gcm"))
        found = store.find(f"orders.{number}")
        assert found is not None
        assert found.id == f"orders.{number}"


def test_an_unknown_id_does_not_ask_a_provider_that_just_failed() -> None:
    source = Source(FIRST)
    source.error = KeyUnavailableError("away")
    store = source.store()
    for number in range(10):
        with pytest.raises(KeyUnavailableError, match="away"):
            store.find(f"unknown-{number}")
    assert source.fetched == 1


def test_ids_are_looked_for_in_the_sets_that_are_named() -> None:
    store = KeyStore({"orders": FIRST, "billing": generate_key("billing.1", "aes-256-gcm")})
    assert store.find("billing.1", ("billing",)) is not None
    assert store.find("billing.1", ("orders",)) is None
    with pytest.raises(KeyUnavailableError, match="nobody"):
        store.find("billing.1", ("nobody",))


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


def test_two_rotations_at_once_leave_a_set_that_is_read_and_used() -> None:
    """Within one second, and within one millisecond."""
    keys: tuple[MessageKey, ...] = (FIRST,)
    for now_ms in (100 * DAY_MS, 100 * DAY_MS, 100 * DAY_MS + 400, 100 * DAY_MS - 5):
        keys = rotated(keys, now_ms, DAY_MS)
        newest = keys[-1]
        assert current(Source(*keys).store(), newest.not_before_ms) == newest.id
    assert len({key.id for key in keys}) == len(keys) == 5
    assert keys_of([key.to_record() for key in keys], "here")


def test_a_set_that_is_full_is_not_rotated_until_a_key_has_ended() -> None:
    keys: tuple[MessageKey, ...] = (FIRST,)
    for _ in range(MAX_SET_KEYS - 1):
        keys = rotated(keys, 0, DAY_MS)
    with pytest.raises(KeyRefusedError, match="64"):
        rotated(keys, 0, DAY_MS)
    assert len(rotated(keys, 2 * DAY_MS, DAY_MS)) == 2


# --- providers that hang ---


class Hanging:
    """A provider whose calls return when they are let go."""

    def __init__(self, *keys: MessageKey) -> None:
        self.keys = keys
        self.asked = 0
        self.now = 0.0
        self.goes = threading.Event()

    def fetch(self) -> tuple[MessageKey, ...]:
        self.asked += 1
        self.goes.wait(60)
        return self.keys

    def store(self, wait_seconds: float = 0.01, **others: MessageKey) -> KeyStore:
        return KeyStore({"slow": self, **others}, clock=lambda: self.now, wait_seconds=wait_seconds)


@pytest.fixture(name="slow")
def _slow() -> Iterator[Hanging]:
    provider = Hanging(generate_key("slow.1", "aes-256-gcm"))
    yield provider
    provider.goes.set()


def test_a_provider_that_hangs_does_not_hold_up_other_sets(slow: Hanging) -> None:
    store = slow.store(wait_seconds=60, orders=FIRST)
    waiting = threading.Thread(target=store.current, args=("slow", "default", "orders", 0))
    waiting.start()
    assert store.current("orders", "default", "orders", 0) is FIRST
    assert store.find("orders.1") is FIRST
    assert waiting.is_alive()
    slow.goes.set()
    waiting.join()


def test_a_provider_that_hangs_is_waited_for_within_a_bound_and_then_left_alone(slow: Hanging) -> None:
    store = slow.store()
    for _ in range(5):
        with pytest.raises(KeyUnavailableError, match="slow"):
            store.current("slow", "default", "orders", 0)
        with pytest.raises(KeyUnavailableError, match="slow"):
            store.find("unknown")
    assert slow.asked == 1


def test_the_pause_of_a_provider_that_hung_begins_when_it_was_given_up(slow: Hanging) -> None:
    """Else each message waits for it anew: the call takes longer than the pause."""
    looks = itertools.count()
    store = KeyStore({"slow": slow}, clock=lambda: min(next(looks), 1) * RETRY_SECONDS, wait_seconds=0.01)
    for _ in range(3):
        with pytest.raises(KeyUnavailableError):
            store.current("slow", "default", "orders", 0)
    assert slow.asked == 1


def test_a_provider_that_hung_is_asked_again_after_the_pause_within_a_number(slow: Hanging) -> None:
    store = slow.store()
    for _ in range(MAX_HANGING + 3):
        with pytest.raises(KeyUnavailableError):
            store.current("slow", "default", "orders", 0)
        slow.now += RETRY_SECONDS
    assert slow.asked == MAX_HANGING


def test_an_answer_that_comes_late_is_taken(slow: Hanging) -> None:
    store = slow.store()
    with pytest.raises(KeyUnavailableError):
        store.current("slow", "default", "orders", 0)
    slow.goes.set()
    while (found := _try(store)) is None:
        pass
    assert (found.id, slow.asked) == ("slow.1", 1)


def _try(store: KeyStore) -> MessageKey | None:
    try:
        return store.current("slow", "default", "orders", 0)
    except KeyUnavailableError:
        return None


def test_keys_are_used_on_while_their_provider_hangs(slow: Hanging) -> None:
    store = slow.store()
    slow.goes.set()
    while _try(store) is None:
        pass
    slow.goes.clear()
    slow.now = MAX_AGE_SECONDS
    found = _try(store)
    assert (found and found.id, slow.asked) == ("slow.1", 2)


def test_a_provider_that_fails_in_another_way_is_away_and_its_error_is_not_repeated() -> None:
    source = Source(FIRST)
    source.error = RuntimeError("token 4711")
    with pytest.raises(KeyUnavailableError, match="RuntimeError") as refused:
        current(source.store())
    assert "4711" not in str(refused.value)


def test_a_weak_key_in_a_set_is_named_as_such() -> None:
    source = Source(FIRST)
    source.error = WeakAlgorithmError("3des is deprecated")
    with pytest.raises(WeakAlgorithmError, match="3des"):
        current(source.store())
