"""Messages in Pulsar as the host's: offsets, records, and what is dealt out (D-21 to D-23)."""

from __future__ import annotations

import pytest

from speed.topics.cluster.broker import MessagePosition, outgoing, record
from speed.topics.cluster.feed import REMEMBERED, FeedState
from speed.topics.subscription import SubscriptionError, TakenMessage, Terms
from speed.wire.topic import DEAD_LETTER, MESSAGE, TOMBSTONE, RecordHead, decode, encode, key_hash
from speed.wire.value import pack


def test_offsets_grow_as_messages_do() -> None:
    """D-21."""
    places = [
        MessagePosition(3, 7),
        MessagePosition(3, 8, 0),
        MessagePosition(3, 8, 1),
        MessagePosition(3, 9),
        MessagePosition(4, 0),
    ]
    offsets = [place.offset for place in places]
    assert sorted(set(offsets)) == offsets
    assert [MessagePosition.of(offset) for offset in offsets] == [
        MessagePosition(3, 7),
        MessagePosition(3, 8),
        MessagePosition(3, 8, 1),
        MessagePosition(3, 9),
        MessagePosition(4, 0),
    ]
    assert MessagePosition((1 << 31) - 1, (1 << 24) - 1, 255).offset == (1 << 63) - 1


@pytest.mark.parametrize(
    "place", [MessagePosition(1 << 31, 0), MessagePosition(0, 1 << 24), MessagePosition(0, 0, 256)]
)
def test_a_message_whose_numbers_are_too_large_is_named(place: MessagePosition) -> None:
    """D-21."""
    with pytest.raises(
        SubscriptionError, match=f"{place.ledger}:{place.entry}:{max(place.batch, 0)} of Pulsar"
    ) as error:
        _ = place.offset
    assert error.value.code == "UNSUPPORTED"


def test_a_place_is_read_as_statistics_write_it_and_has_one_behind() -> None:
    assert MessagePosition.read("12:-1").next_entry == MessagePosition(12, 0)
    assert MessagePosition.read("12:3").next_entry == MessagePosition(12, 4)


@pytest.mark.parametrize(
    ("head", "about", "payload"),
    [
        (RecordHead(), {"publisher": "shop"}, pack(1)),
        (RecordHead(), {"publisher": "shop"}, b""),
        (RecordHead(key_hash=key_hash("k")), {"publisher": "s", "key": "k", "properties": {"a": "b"}}, pack("x")),
        (RecordHead(due_ms=5, sequence=9), {"publisher": "s", "producer": "till"}, pack(None)),
        (RecordHead(TOMBSTONE, key_hash=key_hash("k")), {"publisher": "s", "key": "k"}, b""),
        (RecordHead(DEAD_LETTER, 3), {"publisher": "s", "origin": ["orders", 1 << 40, "billing"]}, pack([1])),
    ],
)
def test_a_record_comes_back_as_it_was(head: RecordHead, about: dict[str, object], payload: bytes) -> None:
    """D-22."""
    sent = outgoing(encode(head, about, payload))
    back = decode(record(sent.payload, sent.key or "", sent.properties))
    assert (back.head, back.about, back.payload) == (head, about, payload)


def test_who_uses_pulsar_itself_sees_payload_key_and_properties() -> None:
    """D-22."""
    about = {"publisher": "shop", "key": "k", "properties": {"colour": "red"}}
    sent = outgoing(encode(RecordHead(sequence=4), about, pack(7)))
    assert (sent.payload, sent.key, sent.sequence) == (pack(7), "k", 4)
    assert sent.properties == {"colour": "red", "speed.publisher": "shop", "speed.sequence": "4"}


def test_what_another_program_published_comes_as_its_bytes() -> None:
    """D-22."""
    found = decode(record(b"{}", "k", {"colour": "red"}))
    assert found.payload == pack(b"{}")
    assert found.about == {"publisher": "", "key": "k", "properties": {"colour": "red"}}


@pytest.mark.parametrize(
    "properties",
    [
        {"speed.sequence": "-1", "speed.due": "soon", "speed.attempts": "9" * 30},
        {"speed.sequence": str(1 << 63), "speed.origin": "orders 1"},
        {"speed.sequence": "\u0663"},
    ],
)
def test_what_nobody_may_say_is_not_believed(properties: dict[str, str]) -> None:
    """D-22."""
    found = decode(record(b"", "", {**properties, "speed.publisher": "shop"}))
    assert (found.head, found.about) == (RecordHead(MESSAGE), {"publisher": "shop"})


def test_bytes_that_are_no_value_stop_nobody_whoever_published_them() -> None:
    """D-22."""
    assert decode(record(b"\xa5cut", "", {"speed.publisher": "shop"})).payload == pack(b"\xa5cut")


@pytest.mark.parametrize("about", [{"key": ""}, {"properties": {"speed.origin": "x"}}])
def test_what_pulsar_cannot_say_is_refused(about: dict[str, object]) -> None:
    """D-22."""
    with pytest.raises(SubscriptionError) as error:
        outgoing(encode(RecordHead(), {"publisher": "shop", **about}, b""))
    assert error.value.code == "INVALID_ARGUMENTS"


def feed_state(**terms: object) -> FeedState:
    made = FeedState(Terms("shared", **terms), 5, 100, {})  # type: ignore[arg-type]
    made.join("c")
    return made


def test_messages_are_dealt_by_offset_whenever_they_came() -> None:
    """D-11."""
    machine = feed_state()
    for offset in (300, 200, 400):
        machine.deal(offset, 0, 0, 0)
    assert machine.take("c", 9, 0) == [TakenMessage(200, 1), TakenMessage(300, 1), TakenMessage(400, 1)]
    assert machine.cursor == 5


def test_what_was_sent_before_by_another_host_counts() -> None:
    """D-23."""
    machine = feed_state()
    machine.deal(200, 0, 0, 2)
    assert machine.take("c", 9, 0) == [TakenMessage(200, 3)]


def test_a_message_is_delivered_once_at_least_before_it_is_dead() -> None:
    """D-23."""
    machine = feed_state(max_deliveries=2)
    machine.deal(200, 0, 0, 7)
    assert machine.dead() == []
    assert machine.take("c", 9, 0) == [TakenMessage(200, 2)]


def test_what_was_acknowledged_is_remembered_for_a_while() -> None:
    """D-23."""
    machine = feed_state()
    for offset in range(200, 200 + REMEMBERED + 1):
        machine.deal(offset, 0, 0, 0)
        assert machine.acknowledge([offset]) == 1
    assert not machine.is_settled(200)
    assert machine.is_settled(201)
    assert machine.acknowledge([201]) == 0
    assert machine.ranges == []


def test_what_the_topic_does_not_have_cannot_be_acknowledged() -> None:
    """D-12."""
    machine = feed_state()
    assert machine.acknowledge([99]) == 1
    with pytest.raises(SubscriptionError, match="not delivered yet"):
        machine.acknowledge([100])
