"""Signed, encrypted and described messages between nodes (M-16 to M-32)."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import jwt
import pytest

import speed
from speed import KeyStore, MessageSecurity, PublishOptions, SchemaRegistry, generate_key
from speed.message import message_pb2
from speed.message.audit import AuditLog, TokenKey, TokenVerifier
from speed.message.errors import (
    BatchError,
    ClearanceError,
    NotAvailableError,
    NotEncryptedError,
    SchemaError,
    TokenError,
)
from speed.message.protect import Protection, protect_message
from speed.message.view import MessageView
from speed.message.writing import with_security
from speed.wire.limits import MAX_PAYLOAD_BYTES
from tests.unit.message.keys import BASE

Make = Callable[..., speed.Node]
pb: Any = message_pb2
ORDER = {"amount": 1000, "card": "4111-1111"}
SIGNER = generate_key("billing.1", "ed25519", publishers=("billing",))
STRANGER = generate_key("billing.1", "ed25519", publishers=("billing",))
READER = generate_key("readers.1", "x-wing")
SENDING = KeyStore({"billing": SIGNER, "readers": READER.public_part()})
READING = KeyStore({"publishers": SIGNER.public_part(), "mine": READER})


@dataclass
class Order:
    """What a typed subscription hands out."""

    amount: int
    card: str


def sender(**settings: Any) -> MessageSecurity:
    return MessageSecurity(**{"keys": SENDING, "sign_with": "billing", "encrypt_to": ("readers",), **settings})


def reader(**settings: Any) -> MessageSecurity:
    return MessageSecurity(**{"keys": READING, "policy": "require", "trusted": ("publishers",), **settings})


def pair(node: Make, sends: MessageSecurity | None, reads: MessageSecurity | None) -> tuple[speed.Node, speed.Node]:
    return node("billing", security=sends), node("analytics", allow=["billing"], security=reads)


def test_a_signed_and_encrypted_message_arrives_as_it_was_sent(node: Make) -> None:
    """M-25."""
    billing, analytics = pair(node, sender(compression="zstd"), reader())
    seen: Queue[speed.Message] = Queue()
    analytics.on_message(seen.put)
    billing.send("analytics", ORDER, ack=True)
    message = seen.get(timeout=10)
    assert message.payload == ORDER
    view: Any = message.metadata
    assert (view.signed_by, view.opened_by, view.publisher_id) == ("billing.1", "readers.1", "billing")


def test_no_plaintext_and_no_key_lies_in_the_root_log_or_audit(
    node: Make, root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """M-26, M-31: the inbox is read before the receiver starts."""
    audit = AuditLog(str(tmp_path / "audit.log"))
    analytics = node("analytics", allow=["billing"])  # cannot open it, and waits in `receive`
    billing = node("billing", security=sender(audit=audit))
    billing.send("analytics", ORDER, ack=True, options=PublishOptions(classification="restricted"))
    message = analytics.receive(timeout=10)
    assert message is not None
    assert b"4111" not in message.metadata.to_bytes()
    with pytest.raises(speed.WireError, match="encrypted"):
        _ = message.payload
    assert SIGNER.secret is not None
    everything = b"".join(path.read_bytes() for path in Path(root).rglob("*") if path.is_file())
    everything += (tmp_path / "audit.log").read_bytes() + caplog.text.encode() + repr(message).encode()
    for secret in (b"4111", SIGNER.secret, SIGNER.secret.hex().encode()):
        assert secret not in everything
    told = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [(line["operation"], line["outcome"], line["key_id"]) for line in told] == [
        ("encrypt", "ok", "readers.1"),
        ("sign", "ok", "billing.1"),
    ]


@pytest.mark.parametrize(
    ("sends", "code"),
    [
        (None, "UNSIGNED"),
        (MessageSecurity(sign_with=STRANGER), "BAD_SIGNATURE"),
        (MessageSecurity(sign_with=generate_key("unknown", "ed25519")), "UNTRUSTED"),
        (MessageSecurity(sign_with=SIGNER, encrypt_to=(generate_key("x", "x-wing"),)), "NO_RECIPIENT_KEY"),
    ],
    ids=["unsigned", "forged", "unknown", "for others"],
)
def test_what_is_refused_reaches_no_handler_and_its_sender_is_told_the_code(
    node: Make, tmp_path: Path, sends: MessageSecurity | None, code: str
) -> None:
    """M-18."""
    audit = AuditLog(str(tmp_path / "audit.log"))
    billing, analytics = pair(node, sends, reader(audit=audit))
    seen: list[Any] = []
    analytics.on_message(seen.append)
    with pytest.raises(speed.InvalidArgumentsError, match=code):
        billing.send("analytics", ORDER, ack=True)
    assert seen == []
    assert json.loads((tmp_path / "audit.log").read_text().splitlines()[-1])["outcome"] == code


def test_receive_skips_what_is_refused(node: Make) -> None:
    billing, analytics = pair(node, None, reader())
    billing.send("analytics", "unsigned")
    signed = PublishOptions(sign_with=SIGNER)
    billing.send("analytics", "signed", options=signed)
    message = analytics.receive(timeout=10)
    assert message is not None
    assert message.payload == "signed"
    assert analytics.receive(timeout=0) is None


def test_a_message_from_the_future_is_refused_within_a_tolerance(node: Make) -> None:
    """M-32."""
    now = time.time_ns() // 1_000_000
    billing, analytics = pair(node, sender(), reader(clock_ms=lambda: now - 3_600_000))
    analytics.on_message(lambda message: None)
    with pytest.raises(speed.InvalidArgumentsError, match="published_at_ms"):
        billing.send("analytics", ORDER, ack=True)


def test_confidential_messages_in_the_clear_are_refused_on_both_sides(node: Make) -> None:
    """M-28."""
    billing, analytics = pair(node, None, MessageSecurity())
    with pytest.raises(NotEncryptedError):
        billing.send("analytics", ORDER, options=PublishOptions(classification="restricted"))
    analytics.on_message(lambda message: None)
    forged = pb.MessageEnvelope.FromString(protect_message(ORDER, Protection(), **BASE))
    forged.security.data_classification = "confidential"
    with pytest.raises(speed.InvalidArgumentsError, match=NotEncryptedError.code):
        billing.forward("analytics", [forged.SerializeToString()], ack=True)


def said(**security: Any) -> bytes:
    """A message in the clear that says so of itself."""
    return with_security(
        protect_message(ORDER, Protection(), **BASE), pb.SecurityContext(**security).SerializeToString()
    )


REFUSED_BY_ALL = [
    (said(data_classification="confidential"), "NOT_ENCRYPTED"),
    (said(data_classification="restricted"), "NOT_ENCRYPTED"),
    (said(data_classification="cosmic"), "NOT_ENCRYPTED"),
    (said(signature=b"x", signature_algorithm="hmac-md5"), "WEAK_ALGORITHM"),
    (said(encryption=pb.EncryptionMetadata(algorithm="3des", encryption_type=1)), "WEAK_ALGORITHM"),
    (said(encryption=pb.EncryptionMetadata(algorithm="later")), "UNKNOWN_ALGORITHM"),
]


@pytest.mark.parametrize(("data", "code"), REFUSED_BY_ALL, ids=range(len(REFUSED_BY_ALL)))
def test_a_node_without_security_hands_no_handler_what_every_node_refuses(make: Make, data: bytes, code: str) -> None:
    """M-24, M-28."""
    billing, analytics = make("billing"), make("analytics", allow=["billing"])
    seen: list[Any] = []
    analytics.on_message(seen.append)
    analytics.subscribe("*", seen.append)
    for event in (False, True):
        with pytest.raises(speed.InvalidArgumentsError, match=code):
            billing.forward("analytics", [data], event=event, ack=True, timeout=20)
    billing.forward("analytics", [said(data_classification="internal")], ack=True, timeout=20)
    assert [message.payload for message in seen] == [ORDER]


def test_a_node_without_security_leaves_out_of_batches_what_every_node_refuses(make: Make) -> None:
    billing, analytics = make("billing"), make("analytics", allow=["billing"])
    seen: Queue[Any] = Queue()
    analytics.on_batch(lambda messages: seen.put([message.payload for message in messages]))
    billing.forward("analytics", [data for data, _ in REFUSED_BY_ALL])
    billing.send("analytics", "good", ack=True, timeout=20)
    assert seen.get(timeout=20) == ["good"]


def test_a_node_without_security_receives_nothing_that_every_node_refuses(make: Make) -> None:
    billing, analytics = make("billing"), make("analytics", allow=["billing"])
    for receive in (analytics.receive, lambda timeout: asyncio.run(analytics.aio.receive(timeout))):
        billing.forward("analytics", [data for data, _ in REFUSED_BY_ALL])
        billing.send("analytics", "good")
        message = receive(20)
        assert message is not None
        assert message.payload == "good"
        message.done()


def test_a_node_is_handed_only_what_it_is_cleared_for(node: Make) -> None:
    """M-28."""
    billing, analytics = pair(node, sender(), reader(clearance="confidential"))
    seen: Queue[Any] = Queue()
    analytics.on_message(lambda message: seen.put(message.payload))
    billing.send("analytics", 1, ack=True, options=PublishOptions(classification="confidential"))
    with pytest.raises(speed.InvalidArgumentsError, match=ClearanceError.code):
        billing.send("analytics", 2, ack=True, options=PublishOptions(classification="restricted"))
    assert seen.get(timeout=10) == 1


def test_a_message_with_a_token_is_not_written_to_a_lane(node: Make) -> None:
    """M-14, M-27."""
    billing, _ = pair(node, sender(), reader())
    token = pb.SecurityContext(auth_token="a.b.c").SerializeToString()
    with pytest.raises(TokenError):
        billing.forward("analytics", [with_security(protect_message(1, Protection(), **BASE), token)])


def test_each_refused_message_is_one_line_of_the_audit_with_its_sender(make: Make, tmp_path: Path) -> None:
    """M-31."""
    audit = AuditLog(str(tmp_path / "audit.log"))
    billing, analytics = make("billing"), make("analytics", allow=["billing"], security=MessageSecurity(audit=audit))
    for data, code in REFUSED_BY_ALL[:5]:
        billing.forward("analytics", [data])
        assert analytics.receive(timeout=0.2) is None
        told = json.loads((tmp_path / "audit.log").read_text().splitlines()[-1])
        assert (told["outcome"], told["source"], told["message_id"]) == (code, "billing", BASE["message_id"])
    assert len((tmp_path / "audit.log").read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("broken", "code", "message_id"),
    [(b"", "BAD_TOKEN", BASE["message_id"]), (b"\x07", "BAD_TOKEN", ""), (b"\x12\x01\x07", "BAD_TOKEN", "")],
)
def test_a_token_that_is_not_forwarded_is_a_line_of_the_audit_without_it(
    node: Make, tmp_path: Path, broken: bytes, code: str, message_id: str
) -> None:
    """M-27, M-31."""
    audit = AuditLog(str(tmp_path / "audit.log"))
    gateway = node("gateway", security=MessageSecurity(audit=audit))
    token = pb.SecurityContext(auth_token="secret.token").SerializeToString()
    with pytest.raises(TokenError):
        gateway.forward("analytics", [with_security(protect_message(1, Protection(), **BASE), token) + broken])
    (line,) = (tmp_path / "audit.log").read_text().splitlines()
    told = json.loads(line)
    assert (told["operation"], told["outcome"], told["source"]) == ("forward", code, "gateway")
    assert told["message_id"] == message_id
    assert "secret" not in line


def test_a_token_that_a_gateway_admitted_is_on_no_disk_in_no_log_and_in_no_text(
    node: Make, root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """M-26, M-27: gateway, lane, receiver, journal-like copies of its bytes, audit."""
    secret = bytes(range(32))
    claims = {"sub": "billing", "team": "payments", "aud": "speed", "iss": "tests", "exp": time.time() + 60}
    token = jwt.encode(claims, secret, "HS256", headers={"kid": "k"})
    verifier = TokenVerifier({"k": TokenKey("HS256", secret)}, audience="speed", issuer="tests")
    carried = pb.SecurityContext(auth_token=token).SerializeToString()
    entering = with_security(protect_message(ORDER, Protection(sign_with=SIGNER), **BASE), carried)
    audit = AuditLog(str(tmp_path / "audit.log"))
    gateway, analytics = node("gateway"), node("analytics", allow=["gateway"], security=reader(audit=audit))
    shown = [repr(MessageView(entering)), repr(MessageView(entering).security), repr(verifier)]
    gateway.forward("analytics", [verifier.admit(entering)], ack=True)
    message = analytics.receive(timeout=10)
    assert message is not None
    assert message.metadata.publisher_id == "billing"
    shown += [repr(message), repr(message.metadata.security), caplog.text, (tmp_path / "audit.log").read_text()]
    everything = b"".join(path.read_bytes() for path in Path(root).rglob("*") if path.is_file())
    everything += message.metadata.to_bytes() + "".join(shown).encode()
    assert token.encode() not in everything
    assert token.split(".")[2].encode() not in everything


def test_a_typed_subscription_gets_objects_and_refuses_what_is_none(node: Make) -> None:
    billing, analytics = pair(node, sender(), reader())
    seen: Queue[Any] = Queue()

    @analytics.subscribe("orders.*", Order)
    def handle(message: speed.Message) -> None:
        seen.put(message.payload)

    billing.wait_for("analytics")
    assert billing.publish("orders.created", {"amount": "many", "card": "1"}) == 1
    assert billing.publish("orders.created", {"card": "1"}) == 1
    assert billing.publish("orders.created", {**ORDER, "later": True}) == 1
    assert seen.get(timeout=10) == Order(1000, "4111-1111")
    assert seen.empty()


def test_a_batch_is_one_message_with_many_payloads(node: Make) -> None:
    """M-30."""
    billing, analytics = pair(node, sender(), reader())
    seen: Queue[list[Any]] = Queue()
    analytics.on_message(lambda message: seen.put(message.payloads))
    payloads = [ORDER, "text", b"bytes", None, 5, [1, 2]]
    billing.send_batch("analytics", payloads, ack=True)
    billing.send("analytics", "alone", ack=True)
    assert [seen.get(timeout=10), seen.get(timeout=10)] == [payloads, ["alone"]]


def test_a_batch_for_several_topics_is_one_event_of_each(make: Make) -> None:
    """M-30."""
    billing, analytics = make("billing"), make("analytics", allow=["billing"])
    seen: Queue[tuple[str, list[Any]]] = Queue()
    analytics.subscribe("orders.*", lambda message: seen.put((message.topic, message.payloads)))
    paid = pb.SchemaContext(schema_name="Paid")
    sent = billing.publish_batch([("orders.made", 1), ("orders.paid", paid), ("orders.made", 2), ("trash", 3)])
    assert {topic: one.delivered for topic, one in sent.items()} == {
        "orders.made": ("analytics",),
        "orders.paid": ("analytics",),
        "trash": (),
    }
    assert [seen.get(timeout=10) for _ in range(2)] == [("orders.made", [1, 2]), ("orders.paid", [paid])]
    assert asyncio.run(billing.aio.publish_batch([("orders.made", 4)]))["orders.made"] == 1


def test_a_batch_for_several_topics_is_held_back_whole_if_a_part_cannot_be_sent(make: Make) -> None:
    billing, analytics = make("billing"), make("analytics", allow=["billing"])
    seen: Queue[list[Any]] = Queue()
    analytics.subscribe("*", lambda message: seen.put(message.payloads))
    for bad in (("orders..made", 1), ("orders.made", object())):
        with pytest.raises(speed.SpeedError):
            billing.publish_batch([("orders.made", 1), bad])
    billing.publish_batch("orders.last", [2])
    assert seen.get(timeout=20) == [2]


def test_a_batch_travels_between_nodes_without_any_security(node: Make) -> None:
    """M-30."""
    billing, analytics = pair(node, None, None)
    billing.send_batch("analytics", range(1000), ack=True)
    message = analytics.receive(timeout=10)
    assert message is not None
    assert message.payloads == list(range(1000))


def test_a_batch_for_others_is_not_taken_for_a_batch_that_lies(node: Make) -> None:
    billing, analytics = pair(node, sender(), None)
    billing.send_batch("analytics", [1, 2])
    message = analytics.receive(timeout=10)
    assert message is not None
    with pytest.raises(speed.WireError, match="encrypted"):
        _ = message.payloads


@pytest.mark.parametrize("count", [0, 3, 65_537, 0xFFFF_FFFF])
def test_a_batch_that_lies_about_its_number_is_refused(node: Make, count: int) -> None:
    """M-30."""
    from speed.message.options import decode_batch, encode_batch

    data = bytes(encode_batch([1, 2]).data)
    with pytest.raises(BatchError):
        decode_batch(memoryview(count.to_bytes(4, "big") + data[4:]))


def test_a_schema_describes_what_is_sent_and_holds_what_is_received(node: Make, tmp_path: Path) -> None:
    """M-29."""
    (tmp_path / "Order").mkdir()
    text = json.dumps(
        {"type": "object", "properties": {"card": {"x-pii": True}, "old": {"deprecated": True}}, "required": ["amount"]}
    )
    (tmp_path / "Order" / "v1.json").write_text(text)
    schemas = SchemaRegistry(tmp_path)
    billing, analytics = pair(node, sender(schemas=schemas), reader(schemas=schemas))
    seen: Queue[Any] = Queue()
    analytics.on_message(lambda message: seen.put(message.metadata))
    with pytest.raises(SchemaError):
        billing.send("analytics", {"card": "1"}, options=PublishOptions(schema="Order"))
    billing.send("analytics", {**ORDER, "old": 1}, ack=True, options=PublishOptions(schema=("Order", "v1")))
    view = seen.get(timeout=10)
    assert view.security.contains_pii
    assert (view.schema.schema_name, list(view.schema.deprecated_fields_used)) == ("Order", ["old"])
    other = {"schema_name": "Order", "schema_version": "v1", "schema_hash": "sha256:" + "00" * 32}
    wrong = protect_message(ORDER, Protection(sign_with=SIGNER), schema=other, **BASE)
    with pytest.raises(speed.InvalidArgumentsError, match="BAD_SCHEMA"):
        billing.forward("analytics", [wrong], ack=True)


def test_batches_of_a_guarded_node_leave_refused_messages_out_in_place(node: Make) -> None:
    billing, analytics = pair(node, None, reader())
    seen: Queue[Any] = Queue()
    analytics.on_batch(lambda messages: seen.put([message.payload for message in messages]))
    with pytest.raises(speed.ExecutionFailedError, match="UNSIGNED"):
        billing.send("analytics", "unsigned", ack=True)
    billing.send("analytics", "signed", ack=True, options=PublishOptions(sign_with=SIGNER))
    assert seen.get(timeout=10) == ["signed"]


def test_a_place_that_is_none_holds_up_no_batch_that_lost_a_message(node: Make) -> None:
    billing, analytics = pair(node, None, reader())
    seen: Queue[Any] = Queue()

    def handle(messages: Sequence[speed.Message]) -> dict[int, speed.SpeedError]:
        seen.put([message.payload for message in messages])
        return {7: speed.JournalError("nobody")}

    billing.send("analytics", "unsigned")
    for number in (1, 2):
        billing.send("analytics", number, options=PublishOptions(sign_with=SIGNER))
    analytics.on_batch(handle)
    billing.send("analytics", 3, options=PublishOptions(sign_with=SIGNER))
    numbers: list[int] = []
    while 3 not in numbers:
        numbers += seen.get(timeout=20)
    assert numbers == [1, 2, 3]


def test_options_that_are_only_metadata_travel_as_metadata(node: Make) -> None:
    billing, analytics = pair(node, None, None)
    options = PublishOptions(
        topic="orders", correlation_id="c", priority=9, ttl_seconds=60, labels={"a": "b"}, extensions={"x-a": b"1"}
    )
    billing.send("analytics", 1, ack=True, options=options)
    message = analytics.receive(timeout=10)
    assert message is not None
    view = message.metadata
    assert (view.topic, view.correlation_id, view.priority, view.ttl_seconds) == ("orders", "c", 9, 60)
    assert (view.labels, view.extensions) == ({"a": "b"}, {"x-a": b"1"})


def test_a_trace_goes_from_the_publisher_to_the_handler(node: Make) -> None:
    from opentelemetry import trace as api
    from opentelemetry.sdk.trace import TracerProvider

    trace = TracerProvider().get_tracer("test")

    billing, analytics = pair(node, None, None)
    with trace.start_as_current_span("publish") as span:
        from opentelemetry import context

        billing.send("analytics", 1, options=PublishOptions(trace_context=context.get_current()))
    message = analytics.receive(timeout=10)
    assert message is not None
    found = api.get_current_span(message.trace_context()).get_span_context()
    assert (found.trace_id, found.is_remote) == (span.get_span_context().trace_id, True)


def test_many_threads_send_protected_messages_at_once(node: Make) -> None:
    billing, analytics = pair(node, sender(), reader())
    seen: Queue[int] = Queue()
    analytics.on_message(lambda message: seen.put(message.payload))
    threads = [
        threading.Thread(target=lambda start=start: [billing.send("analytics", start + n) for n in range(20)])  # type: ignore[misc]
        for start in range(0, 80, 20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen.get(timeout=10) for _ in range(80)) == list(range(80))


def test_a_message_that_only_its_signature_makes_too_long_is_not_sent_in_segments(node: Make) -> None:
    """M-16: a receiver would refuse it."""
    billing, analytics = pair(node, sender(encrypt_to=()), reader())
    for send in (billing.send, billing.publish):
        with pytest.raises(NotAvailableError, match="in parts"):
            send("analytics", "x" * (MAX_PAYLOAD_BYTES - 100))
    assert analytics.receive(timeout=0) is None
    assert billing.send("analytics", "short", ack=True, timeout=30)


def test_a_protected_message_that_no_envelope_holds_is_refused_and_told_to_the_audit(
    node: Make, tmp_path: Path
) -> None:
    """M-16, M-31."""
    audit = AuditLog(str(tmp_path / "audit.log"))
    billing, analytics = pair(node, sender(audit=audit), reader())
    with (tmp_path / "long").open("w+b") as file:
        file.truncate(MAX_PAYLOAD_BYTES + 1)
        with pytest.raises(NotAvailableError, match="in parts"):
            billing.send("analytics", file, options=PublishOptions(topic="orders"))
    (line,) = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert (line["operation"], line["outcome"], line["topic"]) == ("send", "NOT_AVAILABLE", "orders")
    assert analytics.receive(timeout=0) is None
