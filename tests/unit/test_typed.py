"""Payloads as objects of a program's own types: what is made of them, and what is refused before a handler runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Optional

import pytest

from speed.engine.message import Message
from speed.errors import ConfigurationError, WireError
from speed.message.options import encode_batch
from speed.message.view import MessageView
from speed.message.writing import encode_message
from speed.node.guard import typed
from speed.wire.value import BATCH_TYPE
from tests.unit.wire.messages import BASE


@dataclass
class Item:
    name: str
    price: float


@dataclass
class Order:
    amount: int
    speed: Literal["fast", "slow"] = "slow"
    tags: list[str] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    gift: Item | None = None


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)
    parent: Optional[Tree] = None  # noqa: UP045


@dataclass
class Money:
    amount: complex


@dataclass
class Wallet:
    notes: list[Money]


@dataclass
class Unreadable:
    amount: Unknown  # type: ignore[name-defined]  # noqa: F821


def message_of(payload: Any) -> Message:
    view = MessageView(encode_message(payload, **BASE))
    return Message(view, source="billing", sequence=1, timestamp_ms=1, redelivered=False, finish=lambda: None)


def given(kind: Any, payload: Any) -> Any:
    """What a handler of ``kind`` gets for ``payload``."""
    seen: list[Any] = []
    typed(kind, lambda message: seen.append(message.payload))(message_of(payload))
    return seen[0]


def test_a_dataclass_is_made_with_all_that_it_holds() -> None:
    payload = {
        "amount": 5,
        "tags": ["a"],
        "items": [{"name": "pen", "price": 2}],
        "gift": {"name": "ink", "price": 1.5},
    }
    assert given(Order, payload) == Order(5, tags=["a"], items=[Item("pen", 2)], gift=Item("ink", 1.5))


def test_members_without_a_field_are_ignored_and_defaults_stand_in_for_what_is_missing() -> None:
    assert given(Order, {"amount": 5, "later": True}) == Order(5)


def test_a_dataclass_may_hold_others_of_its_kind() -> None:
    assert given(Tree, {"name": "a", "children": [{"name": "b"}]}) == Tree("a", [Tree("b")])


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"amount": "secret"}, "payload.amount must be int, not str"),
        ({"amount": 1, "tags": ["a", 2]}, r"payload.tags\[1\] must be str, not int"),
        ({"amount": 1, "speed": "secret"}, "payload.speed must be 'fast' or 'slow', not another str"),
        (
            {"amount": 1, "items": [{"name": "pen"}]},
            r"payload.items\[0\] must be a map with 'price', not one without it",
        ),
        ({"amount": 1, "items": {}}, r"payload.items must be list\[Item\], not dict"),
        ({"amount": 1, "gift": 7}, "payload.gift must be Item or None, not int"),
        ({}, "payload must be a map with 'amount', not one without it"),
        ([1], "payload must be Order, not list"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place_and_never_its_value(payload: Any, told: str) -> None:
    with pytest.raises(WireError, match=told) as refused:
        given(Order, payload)
    assert refused.value.reason == "BAD_MESSAGE"
    assert "secret" not in str(refused.value)


def test_what_the_wire_has_no_kind_for_is_made_of_its_form() -> None:
    """V-2."""
    assert given(dict[str, Item], {"a": {"name": "pen", "price": 2}}) == {"a": Item("pen", 2)}
    assert given(Decimal, "1.50") == Decimal("1.50")


def test_plain_types_and_their_items_are_checked() -> None:
    assert given(list[int], [1, 2]) == [1, 2]
    assert given(dict, {"a": 1}) == {"a": 1}
    with pytest.raises(WireError, match=r"payload\[1\] must be int, not str"):
        given(list[int], [1, "2"])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Money, "Money.amount has the type hint complex"),
        (Wallet, "Money.amount has the type hint complex"),
        (complex, "a typed subscription has the type hint complex"),
        (Unreadable, "the type hints of Unreadable cannot be read"),
    ],
)
def test_a_type_that_cannot_be_checked_is_refused_when_one_subscribes(kind: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        typed(kind, print)


def batch_of(data: Any) -> Message:
    """A message whose payload is a batch of these, or bytes that claim to be one."""
    content = data if isinstance(data, bytes) else encode_batch(data).data
    view = MessageView(encode_message(content, content_type=BATCH_TYPE, **BASE))
    return Message(view, source="billing", sequence=1, timestamp_ms=0, redelivered=False, finish=lambda: None)


def test_each_payload_of_a_batch_is_one_message_and_the_last_one_finishes_it() -> None:
    """M-30."""
    seen: list[Message] = []
    batch = batch_of([1, 2, 3])
    typed(int, seen.append)(batch)
    assert [(one.payload, one.payloads) for one in seen] == [(1, [1]), (2, [2]), (3, [3])]
    for one in seen[:-1]:
        one.done()
    assert not batch.is_done
    seen[-1].done()
    assert batch.is_done


@pytest.mark.parametrize(
    ("data", "code"), [([1, "two"], "BAD_MESSAGE"), (b"\x00\x00\x00\x09", "BAD_BATCH")], ids=["a misfit", "a lie"]
)
def test_a_batch_that_does_not_fit_reaches_no_handler(data: Any, code: str) -> None:
    """M-30."""
    seen: list[Message] = []
    with pytest.raises(WireError) as refused:
        typed(int, seen.append)(batch_of(data))
    assert (refused.value.reason, seen) == (code, [])
