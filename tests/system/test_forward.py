"""Messages that are encoded already, sent as they are (M-1, M-12)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import speed
from speed.message.errors import TokenError
from speed.message.writing import encode_message, with_security
from tests.unit.wire.messages import pb, with_field

MakeNode = Callable[..., speed.Node]
TOKEN = pb.SecurityContext(auth_token="a.b.c").SerializeToString()


def encoded(number: int, size: int = 0, topic: str = "a.b") -> bytes:
    return encode_message(
        b"x" * size if size else number,
        topic=topic,
        namespace="default",
        message_id=f"mine-{number}",
        published_at_ms=1_700_000_000_000,
    )


class Taken:
    """A handler that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[speed.Message] = []
        self._lock = threading.Lock()

    def __call__(self, message: speed.Message) -> None:
        with self._lock:
            self.messages.append(message)


def test_messages_arrive_in_order_byte_by_byte_and_all_before_the_last_is_acknowledged(node: MakeNode) -> None:
    """M-12."""
    billing, taken = node("billing", allow=["etl"]), Taken()
    billing.on_message(taken)
    messages = [encoded(number) for number in range(1000)]
    node("etl").forward("billing", messages, ack=True, timeout=30)
    assert [message.metadata.to_bytes() for message in taken.messages] == messages
    assert taken.messages[7].message_id == "mine-7"


def test_events_are_forwarded_to_one_subscriber(node: MakeNode) -> None:
    billing, taken = node("billing", allow=["etl"]), Taken()
    billing.subscribe("a.*", taken)
    node("etl").forward("billing", [encoded(1), encoded(2)], event=True, ack=True, timeout=30)
    assert [message.payload for message in taken.messages] == [1, 2]


def test_large_messages_and_none_at_all_are_forwarded(node: MakeNode) -> None:
    billing, taken = node("billing", allow=["etl"]), Taken()
    billing.on_message(taken)
    etl = node("etl")
    etl.forward("billing", [], ack=True)
    etl.forward("billing", [encoded(number, size=3 << 20) for number in range(5)], ack=True, timeout=30)
    assert [len(message.payload) for message in taken.messages] == [3 << 20] * 5


@pytest.mark.parametrize("event", [False, True], ids=["messages", "events"])
@pytest.mark.parametrize(
    "held",
    [
        b"garbage",
        encoded(1) + with_field(2, b"\x03" + TOKEN),
        encoded(1) + with_field(2, b"\x03") + with_field(2, TOKEN),
        encoded(1) + with_field(2, TOKEN)[:-1],
        encoded(1) + b"\x03" + with_field(2, TOKEN),
        encoded(1) + b"\x13" + TOKEN + b"\x14",
        encoded(1) + b"\x92\x80\x80\x80\x80\x00" + bytes([len(TOKEN)]) + TOKEN,
    ],
    ids=["garbage", "behind", "beside", "cut", "behind a bad record", "group", "long tag"],
)
def test_a_message_in_which_a_token_could_hide_is_not_forwarded(
    node: MakeNode, root: str, held: bytes, event: bool
) -> None:
    """M-4, M-27: what cannot be read may hold one; those beside it stay as well."""
    billing, taken = node("billing", allow=["etl"]), Taken()
    billing.on_message(taken)
    billing.subscribe("a.*", taken)
    etl = node("etl")
    with pytest.raises(speed.WireError, match="BAD_MESSAGE"):
        etl.forward("billing", [encoded(0), held], event=event)
    etl.forward("billing", [encoded(2)], event=event, ack=True, timeout=30)
    assert [message.payload for message in taken.messages] == [2]


def test_a_message_that_lacks_a_part_is_refused_by_the_receiver(node: MakeNode) -> None:
    billing, taken = node("billing", allow=["etl"]), Taken()
    billing.on_message(taken)
    etl = node("etl")
    etl.forward("billing", [with_field(1, b""), encoded(1)], ack=True, timeout=30)
    assert [message.payload for message in taken.messages] == [1]


def test_nothing_is_forwarded_without_a_grant(node: MakeNode) -> None:
    node("billing")
    with pytest.raises(speed.AccessDeniedError):
        node("etl").forward("billing", [encoded(1)])


@pytest.mark.parametrize("event", [False, True], ids=["messages", "events"])
def test_a_message_with_a_token_is_not_forwarded_nor_are_those_beside_it(node: MakeNode, event: bool) -> None:
    """M-14, M-27: whatever the node knows of security."""
    billing, taken = node("billing", allow=["etl"]), Taken()
    billing.on_message(taken)
    billing.subscribe("a.*", taken)
    etl = node("etl")
    front = with_field(2, with_field(1, b"etl"))
    for held in (with_security(encoded(1), TOKEN), encoded(1) + with_field(2, TOKEN), front + with_field(2, TOKEN)):
        with pytest.raises(TokenError, match="gateway"):
            etl.forward("billing", [encoded(0), held], event=event)
    etl.forward("billing", [encoded(2), front + encoded(3)], event=event, ack=True, timeout=30)
    assert [message.payload for message in taken.messages] == [2, 3]
