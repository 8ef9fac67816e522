"""Publishing through the gateway, as the WebSocket API of Pulsar has it; with a real speedd."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest

from tests.system.gateways import GatewaySite, published, started_gateway, status

pytestmark = pytest.mark.system
site = pytest.fixture(started_gateway, name="site", scope="module")


def test_a_message_is_kept_when_its_reply_comes(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        reply = producer.publish(b"hello", context="1")
        assert list(reply) == ["result", "messageId", "context", "errorCode", "schemaVersion"]
        assert (reply["result"], reply["context"]) == ("ok", "1")
        assert (reply["errorCode"], reply["schemaVersion"]) == (0, 0)
        assert b64decode(reply["messageId"])
        assert published(site.node, topic) == [b"hello"]


def test_a_context_comes_back_as_text_and_only_when_it_was_given(site: GatewaySite) -> None:
    with site.producer(site.topic()) as producer:
        assert producer.publish(b"", context=5)["context"] == "5"
        assert "context" not in producer.publish(b"")


def test_what_was_said_with_a_message_is_kept(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        producer.publish(b"x", key="customer 7", properties={"colour": "red", "size": 1}, unknown=[{}])
    message = site.node.topic(topic).reader("earliest").receive(timeout=20)
    assert message is not None
    assert (message.key, message.properties, message.publisher) == ("customer 7", {"colour": "red", "size": "1"}, "web")


@pytest.mark.parametrize(
    "frame", ["no json", "[]", '""', '{"payload": {}}', '{"payload":"", "context": {}}', "[" * 9999]
)
def test_what_is_no_json_of_a_message_is_answered_with_error_3(site: GatewaySite, frame: str) -> None:
    with site.producer(site.topic()) as producer:
        producer.socket.send(frame)
        assert producer.heard()["result"] == "send-error:3"
        assert producer.publish(b"next")["result"] == "ok"


@pytest.mark.parametrize(
    "frame",
    [
        {"payload": "?"},
        {},
        {"payload": "", "eventTime": "yesterday"},
        {"payload": "", "deliverAt": "2026-01-01"},
        {"payload": "", "deliverAfterMs": 1 << 60},
        {"payload": "", "key": "k" * 1025},
        {"payload": "", "properties": {"a": None}},
        {"payload": "", "properties": {"pulsar.encryption": "{}"}},
        {"payload": "", "properties": {str(number): "" for number in range(63)}},
    ],
)
def test_a_message_that_cannot_be_kept_is_answered_with_error_7(site: GatewaySite, frame: dict[str, object]) -> None:
    with site.producer(site.topic()) as producer:
        reply = producer.ask(**frame, context="c")
        assert (reply["result"], reply["context"]) == ("send-error:7", "c")
        assert reply["errorMsg"]


@pytest.mark.parametrize(
    "frame",
    [
        {"payload": ""},
        {"payload": "", "properties": {"a": 1}},
        {"payload": "", "deliverAfterMs": -1},
        {"payload": "", "replicationClusters": ["nowhere"]},
        {"payload": "", "encryptionParam": "?", "compressionType": "LZ4"},
        {"payload": "", "eventTime": "2026-01-31T12:00:00.000+01:00"},
    ],
)
def test_what_pulsar_takes_is_taken(site: GatewaySite, frame: dict[str, object]) -> None:
    with site.producer(site.topic()) as producer:
        assert producer.ask(**frame)["result"] == "ok"


def test_replies_come_in_the_order_of_the_messages_and_one_bad_message_harms_no_other(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        for number in range(2000):
            producer.tell(payload="?" if number == 700 else "YQ==", context=str(number))
        replies = [producer.heard() for _ in range(2000)]
    assert [reply["context"] for reply in replies] == [str(number) for number in range(2000)]
    assert [reply["context"] for reply in replies if reply["result"] != "ok"] == ["700"]
    assert site.node.topic(topic).describe()["end"] == 1999


def test_a_repetition_under_the_same_sequence_is_not_kept_again(site: GatewaySite) -> None:
    topic = site.topic()
    for _ in range(2):
        with site.producer(topic, producerName="shop", initialSequenceId=4) as producer:
            assert producer.publish(b"a")["result"] == "ok"
    assert published(site.node, topic) == [b"a"]


def test_a_producers_name_is_taken_once(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic, producerName="shop"):
        assert status(lambda: site.producer(topic, producerName="shop"))[0] == 409
    with site.producer(topic, producerName="shop"):
        pass


def test_a_frame_of_more_than_1_mib_closes_the_connection(site: GatewaySite) -> None:
    with site.producer(site.topic()) as producer:
        producer.socket.send(json.dumps({"payload": "a" * (1 << 20)}))
        assert producer.code() == 1009


def test_a_topic_that_is_deleted_meanwhile_refuses_messages_with_error_4(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        site.node.topic(topic).delete()
        reply = producer.publish(b"x", context="c")
        assert (reply["result"], reply["context"]) == ("send-error:4", "c")
        assert "UNKNOWN" in reply["errorMsg"] or "no topic" in reply["errorMsg"]


@pytest.mark.parametrize(
    ("topic", "parameters", "expected"),
    [
        ("secret", {}, 403),
        ("nowhere", {}, 404),
        ("a%2F..%2Fb", {}, 400),
        ("a%00b", {}, 400),
        ("%zz", {}, 400),
        ("x" * 300, {}, 400),
        ("inbox", {"compressionType": "RAR"}, 400),
        ("inbox", {"batchingEnabled": "maybe"}, 400),
        ("inbox", {"maxPendingMessages": "0"}, 400),
        ("inbox", {"initialSequenceId": "९"}, 400),
        ("inbox", {"producerName": "a b"}, 400),
        ("inbox", {"encryptionKeys": "key-name"}, 400),
    ],
)
def test_a_handshake_that_cannot_be_is_refused(
    site: GatewaySite, topic: str, parameters: dict[str, object], expected: int
) -> None:
    assert status(lambda: site.producer(topic, **parameters))[0] == expected


def test_thousands_of_unknown_parameters_are_passed_over(site: GatewaySite) -> None:
    with site.client("/ws/v2/producer/persistent/public/default/inbox?" + "&".join(["a"] * 3500)) as producer:
        assert producer.publish(b"x")["result"] == "ok"


def test_who_may_publish_alone_may_not_consume(site: GatewaySite) -> None:
    with site.producer("inbox") as producer:
        assert producer.publish(b"x")["result"] == "ok"
    assert status(lambda: site.consumer("inbox"))[0] == 403
    assert status(lambda: site.reader("inbox"))[0] == 403
