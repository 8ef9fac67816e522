"""What payloads are to their receivers: of each kind, compressed, signed, in batches (M-9, M-10, M-30)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from queue import Queue
from typing import Any

import pytest
from google.protobuf import any_pb2, duration_pb2, timestamp_pb2

import speed
from speed import KeyStore, MessageSecurity, PublishOptions, generate_key
from speed.message.protect import Protection, protect_message
from speed.message.view import MessageView
from speed.message.writing import encode_message

Make = Callable[..., speed.Node]
HEAD: dict[str, Any] = {
    "message_id": "0190163d-8694-739b-aea5-966c26f8ad90",
    "topic": "orders",
    "namespace": "default",
    "published_at_ms": 1_718_000_000_000,
}
SIGNER = generate_key("billing.1", "ed25519", publishers=("billing",))
WRITING = MessageSecurity(keys=KeyStore({"own": SIGNER}), sign_with="own")
CHECKING = MessageSecurity(
    keys=KeyStore({"publishers": SIGNER.public_part()}), policy="verify", trusted=("publishers",)
)


@dataclass
class Order:
    """What typed subscriptions hand out."""

    amount: int


def pair(node: Make, sends: MessageSecurity | None = None, reads: MessageSecurity | None = None) -> Any:
    """``billing``, and ``analytics`` which it may write to."""
    return node("billing", security=sends), node("analytics", allow=["billing"], security=reads)


def received(analytics: speed.Node) -> speed.Message:
    message = analytics.receive(timeout=10)
    assert message is not None
    return message


def took(node: speed.Node, kind: Any = None) -> Queue[speed.Message]:
    """The events of ``orders`` that it is handed."""
    seen: Queue[speed.Message] = Queue()
    node.subscribe("orders", kind, seen.put) if kind is not None else node.subscribe("orders", seen.put)
    return seen


def test_a_protobuf_payload_arrives_as_the_message_it_was(node: Make) -> None:
    billing, analytics = pair(node)
    told = duration_pb2.Duration(seconds=7)
    seen = took(analytics)
    billing.send("analytics", told, ack=True)
    billing.send_all("analytics", [told, {"beside": "others"}, told], options=PublishOptions(labels={"of": "many"}))
    billing.send_batch("analytics", [told, told])
    billing.publish("orders", told)
    assert received(analytics).payload == told
    many = [received(analytics) for _ in range(3)]
    assert [one.payload for one in many] == [told, {"beside": "others"}, told]
    assert [one.metadata.labels for one in many] == 3 * [{"of": "many"}]
    assert {one.metadata.publisher_id for one in many} == {"billing"}
    assert received(analytics).payloads == [told, told]
    event = seen.get(timeout=10)
    assert (type(event.payload), event.payload) == (duration_pb2.Duration, told)


def test_a_protobuf_message_of_an_unknown_type_arrives_as_any(node: Make) -> None:
    billing, analytics = pair(node)
    unknown = any_pb2.Any(type_url="type.googleapis.com/shop.Unknown", value=b"\x08\x01")
    data = encode_message(duration_pb2.Duration(seconds=1), **HEAD)
    url = b"type.googleapis.com/google.protobuf.Duration"
    assert len(url) == len(b"type.googleapis.com/shop.UnknownUnknownUnkno")
    billing.forward("analytics", [data.replace(url, b"type.googleapis.com/shop.UnknownUnknownUnkno")])
    payload = received(analytics).payload
    assert payload.DESCRIPTOR.full_name == unknown.DESCRIPTOR.full_name
    assert payload.type_url == "type.googleapis.com/shop.UnknownUnknownUnkno"


def test_a_typed_subscription_of_protobuf_gets_objects_with_and_without_a_batch(node: Make) -> None:
    billing, analytics = pair(node)
    seen = took(analytics, timestamp_pb2.Timestamp)
    billing.publish("orders", timestamp_pb2.Timestamp(seconds=1))
    billing.publish_batch("orders", [timestamp_pb2.Timestamp(seconds=2), timestamp_pb2.Timestamp(seconds=3)])
    assert [seen.get(timeout=10).payload.seconds for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "lz4", "snappy"])
def test_a_compressed_message_is_read_without_settings_for_security(node: Make, encoding: str) -> None:
    """M-9, M-23."""
    billing, analytics = pair(node)
    seen = took(analytics)
    told = {"text": "again and " * 100}
    billing.send("analytics", told, options=PublishOptions(compression=encoding))
    billing.send("analytics", "plain", options=PublishOptions(compression=encoding), ack=True)
    billing.publish("orders", told, options=PublishOptions(compression=encoding))
    first = received(analytics)
    assert (first.payload, first.metadata.content_encoding) == (told, encoding)
    assert bytes(first.payload_bytes) == bytes(MessageView(encode_message(told, **HEAD)).payload_bytes)
    assert received(analytics).payload == "plain"
    assert seen.get(timeout=10).payload == told


def test_compressed_messages_come_in_batches_as_others(node: Make) -> None:
    billing, analytics = pair(node)
    seen: Queue[Any] = Queue()
    analytics.on_batch(lambda messages: [seen.put(one.payload) for one in messages] and None)
    billing.send("analytics", "told " * 50, options=PublishOptions(compression="gzip"), ack=True)
    assert seen.get(timeout=10) == "told " * 50


def test_what_is_compressed_in_no_way_that_holds_is_refused_by_its_code(node: Make) -> None:
    billing, analytics = pair(node)
    seen: Queue[Any] = Queue()
    analytics.on_message(seen.put)
    good = protect_message("x" * 200, Protection(compression="gzip"), **HEAD)
    damaged = good[:-12] + bytes(4) + good[-8:]
    with pytest.raises(speed.InvalidArgumentsError, match="BAD_COMPRESSION"):
        billing.forward("analytics", [damaged], ack=True)
    assert seen.empty()


def test_an_encoding_that_nobody_reads_is_handed_out_in_its_bytes(node: Make) -> None:
    billing, analytics = pair(node)
    billing.forward("analytics", [encode_message(b"\x01\x02", content_encoding="br", **HEAD)], ack=True)
    message = received(analytics)
    assert (message.metadata.content_encoding, bytes(message.payload_bytes)) == ("br", b"\x01\x02")
    with pytest.raises(speed.WireError, match="content_encoding: is br"):
        _ = message.payload


def test_a_message_that_is_only_signed_names_its_signer(node: Make) -> None:
    """M-17."""
    billing, analytics = pair(node, WRITING, CHECKING)
    seen = took(analytics)
    told = duration_pb2.Duration(seconds=7)
    billing.send("analytics", {"amount": 5})
    billing.send_batch("analytics", [1, 2])
    billing.publish("orders", told)
    first, second = received(analytics), received(analytics)
    assert (first.metadata.signed_by, first.metadata.opened_by, first.payload) == ("billing.1", None, {"amount": 5})
    assert (second.metadata.signed_by, second.payloads) == ("billing.1", [1, 2])
    event = seen.get(timeout=10)
    assert (event.metadata.signed_by, event.payload) == ("billing.1", told)


@pytest.mark.parametrize("reads", [None, MessageSecurity(), CHECKING], ids=["no settings", "off", "verify"])
def test_a_message_whose_signature_nobody_checked_names_no_signer(node: Make, reads: MessageSecurity | None) -> None:
    billing, analytics = pair(node, None, reads)
    billing.send("analytics", 1)
    view = received(analytics).metadata
    assert (view.signed_by, view.opened_by) == (None, None)


def test_a_typed_subscription_gets_each_payload_of_a_batch(node: Make) -> None:
    billing, analytics = pair(node)
    seen = took(analytics, Order)
    billing.publish_batch("orders", [{"amount": 1}, {"amount": 2}])
    billing.publish("orders", {"amount": 3})
    billing.publish_batch([("orders", {"amount": 4}), ("others", 0)])
    messages = [seen.get(timeout=10) for _ in range(4)]
    assert [one.payload for one in messages] == [Order(1), Order(2), Order(3), Order(4)]
    assert [one.payloads for one in messages] == [[Order(1)], [Order(2)], [Order(3)], [Order(4)]]
    assert (messages[0].message_id, messages[0].sequence) == (messages[1].message_id, messages[1].sequence)


def test_an_async_handler_of_a_type_gets_the_payloads_of_a_batch_in_turn(node: Make) -> None:
    billing, analytics = pair(node)
    seen: Queue[Any] = Queue()

    async def take(message: speed.Message) -> None:
        seen.put(("begun", message.payload.amount))
        await asyncio.sleep(0)
        seen.put(("ended", message.payload.amount))

    analytics.subscribe("orders", Order, take)
    billing.publish_batch("orders", [{"amount": 1}, {"amount": 2}, {"amount": 3}])
    assert [seen.get(timeout=10) for _ in range(6)] == [(word, n) for n in (1, 2, 3) for word in ("begun", "ended")]


def test_a_batch_with_a_payload_of_another_type_is_refused_whole_and_counted(node: Make) -> None:
    billing, analytics = pair(node)
    seen = took(analytics, Order)
    billing.publish_batch("orders", [{"amount": 1}, "no order"])
    billing.publish("orders", {"amount": 3})
    assert seen.get(timeout=10).payload == Order(3)
    assert seen.empty()
    assert analytics.stats()["counters"]["messages_malformed"] == 1
