"""What a consumer of a backend is handed, whichever that is: of its own namespace, if it can be read (B-22, M-9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest

from speed.backends.backend import EVERY, Delivered, Namespaces
from speed.backends.subscription import Refused, Subscription
from speed.message.protect import Protection, protect_message
from speed.message.writing import encode_message
from tests.unit.wire.messages import BASE

TOPIC = BASE["topic"]
OF_A, OF_B = ({**BASE, "namespace": name} for name in ("a", "b"))


class Kept:
    """A backend whose groups are each of one namespace."""

    def __init__(self, *envelopes: bytes) -> None:
        self.waiting = deque(
            Delivered(TOPIC, None, envelope, str(place), handle=place) for place, envelope in enumerate(envelopes)
        )
        self.acknowledged: list[int] = []

    def receive(self, most: int, _: float) -> list[Delivered]:
        return [self.waiting.popleft() for _ in range(min(most, len(self.waiting)))]

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        self.acknowledged += [one.handle for one in delivered]

    def positions(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        """Nothing is open."""


class Shared(Kept):
    """One whose group is shared by namespaces."""

    def __init__(self, *envelopes: bytes) -> None:
        super().__init__(*envelopes)
        self.left: list[int] = []

    def leave(self, delivered: Sequence[Delivered]) -> None:
        self.left += [one.handle for one in delivered]


def consuming(backend: Kept, namespaces: Namespaces, **how: Any) -> Subscription:
    settings = {"prefetch": 100, "max_message_bytes": 1 << 20, "on_refused": None, **how}
    return Subscription(backend, "*", namespaces, None, **settings)


def payloads(subscription: Subscription) -> list[Any]:
    """All that is handed out, each finished."""
    found = []
    while (message := subscription.receive(0)) is not None:
        found.append(message.payload)
    subscription.flush()
    return found


def test_what_is_of_another_namespace_is_passed_over_counted_and_acknowledged_in_a_group_of_ones_own() -> None:
    backend = Kept(*(encode_message(head["namespace"], **head) for head in (OF_A, OF_B, OF_A)))
    subscription = consuming(backend, Namespaces("b"))
    assert payloads(subscription) == ["b"]
    assert (subscription.others, subscription.refused, sorted(backend.acknowledged)) == (2, 0, [0, 1, 2])


def test_in_a_shared_group_it_is_left_to_others_before_anything_is_handed_out() -> None:
    backend = Shared(*(encode_message(head["namespace"], **head) for head in (OF_B, OF_A, OF_B, OF_A)))
    subscription = consuming(backend, Namespaces("b"))
    message = subscription.receive(0)
    assert message is not None
    assert backend.left == [1, 3]
    assert payloads(subscription) == ["b"]
    assert (subscription.others, backend.acknowledged) == (2, [0, 2])


@pytest.mark.parametrize(
    ("namespaces", "taken"),
    [(Namespaces("a", frozenset("b")), ["a", "b"]), (EVERY, ["a", "b"]), (Namespaces(), [])],
    ids=["named", "all", "none"],
)
def test_further_namespaces_are_taken_where_they_are_named(namespaces: Namespaces, taken: list[str]) -> None:
    backend = Kept(*(encode_message(head["namespace"], **head) for head in (OF_A, OF_B)))
    assert payloads(consuming(backend, namespaces)) == taken


def test_nothing_of_another_namespace_is_shown_to_the_program_whatever_is_wrong_with_it() -> None:
    shown: list[Refused] = []
    expired = encode_message("old", **{**OF_A, "ttl_seconds": 1})
    unprotected = protect_message("told", Protection(), **OF_A)
    damaged = protect_message("x" * 200, Protection(compression="gzip"), **OF_A)[:-9] + bytes(9)
    backend = Kept(expired, unprotected, damaged, encode_message(bytes(2000), **OF_A), b"no message")
    subscription = consuming(backend, Namespaces("b"), on_refused=shown.append, max_message_bytes=1024)
    assert payloads(subscription) == []
    assert (subscription.others, subscription.expired, [one.data for one in shown]) == (4, 0, [b"no message"])


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "lz4", "snappy"])
def test_what_is_compressed_is_read_without_settings_for_security(encoding: str) -> None:
    told = {"text": "again and " * 50}
    backend = Kept(protect_message(told, Protection(compression=encoding), **BASE))
    assert payloads(consuming(backend, EVERY)) == [told]


def test_what_is_compressed_in_no_way_that_holds_is_refused_by_its_code() -> None:
    shown: list[Refused] = []
    damaged = protect_message("x" * 200, Protection(compression="gzip"), **BASE)[:-9] + bytes(9)
    assert payloads(consuming(Kept(damaged), EVERY, on_refused=shown.append)) == []
    assert [one.code for one in shown] == ["BAD_COMPRESSION"]
