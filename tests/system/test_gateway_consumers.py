"""Consuming through the gateway, as the WebSocket API of Pulsar has it; with a real speedd."""

from __future__ import annotations

import re
from base64 import b64encode

import pytest

import speed
from speed.gateway.frames import MessageId, ledger_of
from tests.system.gateways import GatewaySite, started_gateway, status, until

pytestmark = pytest.mark.system
site = pytest.fixture(started_gateway, name="site", scope="module")


def subscribed(site: GatewaySite, topic: str, **parameters: object) -> str:
    """A topic whose subscription is there."""
    site.consumer(topic, **parameters).close()
    return topic


def in_flight(site: GatewaySite, topic: str) -> list[int]:
    described = site.node.topic(topic).describe()["subscriptions"]
    return [one["in_flight"] for one in described]


def consumers(site: GatewaySite, topic: str) -> int:
    return sum(len(one["consumers"]) for one in site.node.topic(topic).describe()["subscriptions"])


def test_a_message_is_delivered_as_pulsar_writes_it(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer, site.producer(topic) as producer:
        reply = producer.publish(b"hello", key="k", properties={"a": "b"}, eventTime="2026-01-31T12:00:00.250+01:00")
        message = consumer.message()
        assert message["messageId"] == reply["messageId"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message.pop("publishTime"))
        del message["messageId"]
        assert message == {
            "payload": b"hello",
            "properties": {"a": "b"},
            "redeliveryCount": 0,
            "eventTime": "2026-01-31T11:00:00.250Z",
            "key": "k",
        }


def test_what_a_message_does_not_have_is_not_there(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer, site.producer(topic) as producer:
        producer.publish(b"")
        assert consumer.message().keys() == {
            "messageId",
            "payload",
            "properties",
            "publishTime",
            "redeliveryCount",
        }


@pytest.mark.parametrize(
    ("payload", "expected"),
    [(b"\x00\xff", b"\x00\xff"), ("grün", "grün".encode()), ({"id": 1}, b'{"id":1}'), (None, b"null")],
)
def test_a_message_of_a_node_of_speed_is_delivered_as_bytes(
    site: GatewaySite, payload: object, expected: bytes
) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer:
        site.node.topic(topic).publish(payload)
        assert consumer.message()["payload"] == expected


def test_a_deleted_key_is_delivered_with_an_empty_payload(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer:
        site.node.topic(topic).delete_key("k")
        message = consumer.message()
        assert (message["key"], message["payload"]) == ("k", b"")


def test_a_subscription_begins_at_its_end_and_goes_on_where_it_was(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        producer.publish(b"before")
        subscribed(site, topic)
        producer.publish(b"1")
        producer.publish(b"2")
        with site.consumer(topic) as consumer:
            assert consumer.payloads(1) == [b"1"]
        with site.consumer(topic) as consumer:
            assert consumer.payloads(1) == [b"2"]


def test_acknowledging_twice_and_with_an_unknown_type_changes_nothing(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer, site.producer(topic) as producer:
        producer.publish(b"1")
        message = consumer.message()["messageId"]
        for _ in range(2):
            consumer.tell(messageId=message)
            consumer.tell(type="whatever", messageId=message)
        producer.publish(b"2")
        assert consumer.payloads(1) == [b"2"]
    until(lambda: [one["backlog"] for one in site.node.topic(topic).describe()["subscriptions"]] == [0])


def test_a_late_acknowledgement_on_another_connection_counts(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        with site.consumer(topic, receiverQueueSize=1) as consumer:
            producer.publish(b"1")
            message = consumer.message()["messageId"]
        with site.consumer(topic, pullMode="true") as consumer:
            consumer.tell(messageId=message)
            until(lambda: site.node.topic(topic).describe()["subscriptions"][0]["backlog"] == 0)


def test_ids_of_other_topics_and_of_messages_that_never_were_are_counted_and_change_nothing(site: GatewaySite) -> None:
    topic, other = site.topic(), site.topic()
    ledger = ledger_of(site.node.topic(topic).describe()["lane"])
    refused = site.metric("acknowledgements_refused")
    with site.consumer(topic) as consumer, site.producer(topic) as producer, site.producer(other) as stranger:
        producer.publish(b"1")
        consumer.tell(messageId=stranger.publish(b"x")["messageId"])
        consumer.tell(messageId=MessageId(ledger, 77).text())
        assert consumer.payloads(1) == [b"1"]
        until(lambda: site.metric("acknowledgements_refused") == refused + 2)
        until(lambda: site.node.topic(topic).describe()["subscriptions"][0]["backlog"] == 0)


@pytest.mark.parametrize(
    "frame", ['{"messageId":"?"}', "{}", "no json", "[]", '{"messageId":"CAA="}', '{"messageId":5}']
)
def test_what_is_no_command_closes_the_connection(site: GatewaySite, frame: str) -> None:
    with site.consumer(site.topic()) as consumer:
        consumer.socket.send(frame)
        assert consumer.code() == 1008


def test_a_topic_has_no_end(site: GatewaySite) -> None:
    with site.consumer(site.topic()) as consumer:
        assert consumer.ask(type="isEndOfTopic") == {"endOfTopic": False}


def test_a_refused_message_comes_again_after_its_delay_and_says_so(site: GatewaySite) -> None:
    topic = site.topic()
    parameters = {"subscriptionType": "Shared", "negativeAckRedeliveryDelay": 50}
    with site.consumer(topic, **parameters) as consumer, site.producer(topic) as producer:
        producer.publish(b"x")
        for count in range(3):
            message = consumer.message()
            assert message["redeliveryCount"] == count
            consumer.tell(type="negativeAcknowledge", messageId=message["messageId"])


def test_what_fails_too_often_goes_to_the_topic_of_dead_letters(site: GatewaySite) -> None:
    topic = site.topic()
    parameters = {"subscriptionType": "Shared", "negativeAckRedeliveryDelay": 0, "maxRedeliverCount": 1}
    with site.consumer(topic, **parameters) as consumer, site.producer(topic) as producer:
        producer.publish(b"x", eventTime="2026-01-31T12:00:00Z")
        for _ in range(2):
            consumer.tell(type="negativeAcknowledge", messageId=consumer.message()["messageId"])
        with site.reader(f"{topic}-s-DLQ", messageId="earliest") as reader:
            assert reader.message()["payload"] == b"x"


def test_the_topic_of_dead_letters_may_be_named(site: GatewaySite) -> None:
    topic = site.topic()
    dead = f"persistent://public/default/{topic}-dead"
    with site.consumer(topic, maxRedeliverCount=2, deadLetterTopic=dead):
        assert site.node.topic(f"{topic}-dead").describe()["parent"] == topic


def test_what_is_not_acknowledged_in_time_comes_again(site: GatewaySite) -> None:
    topic = site.topic()
    parameters = {"subscriptionType": "Shared", "ackTimeoutMillis": 1000, "receiverQueueSize": 1}
    with site.consumer(topic, **parameters) as consumer, site.producer(topic) as producer:
        producer.publish(b"x")
        assert [consumer.message()["redeliveryCount"] for _ in range(2)] == [0, 1]


def test_a_delayed_message_comes_when_it_is_due(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic, subscriptionType="Shared") as consumer, site.producer(topic) as producer:
        producer.publish(b"later", deliverAfterMs=300)
        producer.publish(b"now")
        assert consumer.payloads(2) == [b"now", b"later"]


def test_no_more_is_pushed_than_the_queue_holds(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic, receiverQueueSize=2) as consumer, site.producer(topic) as producer:
        for number in range(4):
            producer.publish(b"%d" % number)
        first, second = consumer.message(), consumer.message()
        assert consumer.is_silent()
        consumer.tell(messageId=first["messageId"])
        assert consumer.message()["payload"] == b"2"
        assert consumer.is_silent()
        consumer.tell(messageId=second["messageId"])
        assert consumer.message()["payload"] == b"3"


def test_a_queue_of_0_holds_one(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic, receiverQueueSize=0) as consumer, site.producer(topic) as producer:
        producer.publish(b"1")
        producer.publish(b"2")
        assert consumer.payloads(2) == [b"1", b"2"]


def test_who_pulls_gets_as_many_as_it_asks_for(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic, pullMode="true") as consumer, site.producer(topic) as producer:
        for number in range(4):
            producer.publish(b"%d" % number)
        assert consumer.is_silent()
        consumer.tell(type="permit", permitMessages=1)
        assert consumer.message()["payload"] == b"0"
        assert consumer.is_silent()
        consumer.tell(type="permit", permitMessages=-5)
        consumer.tell(type="permit", permitMessages=2)
        assert [consumer.message()["payload"] for _ in range(2)] == [b"1", b"2"]
        assert consumer.is_silent()


def test_an_exclusive_subscription_has_one_consumer_and_its_type(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic):
        assert status(lambda: site.consumer(topic))[0] == 409
        assert status(lambda: site.consumer(topic, subscriptionType="Shared"))[0] == 409
    with site.consumer(topic):
        pass


def test_consumers_of_one_name_are_two(site: GatewaySite) -> None:
    topic = site.topic()
    shared = {"subscriptionType": "Shared", "consumerName": "same"}
    with (
        site.consumer(topic, **shared),
        site.consumer(topic, **shared),
        site.consumer(topic, **{**shared, "consumerName": "ä"}),
    ):
        assert consumers(site, topic) == 3


def test_what_a_consumer_had_goes_to_the_next_when_its_connection_ends(site: GatewaySite) -> None:
    topic = site.topic()
    shared = {"subscriptionType": "Shared", "receiverQueueSize": 1}
    with site.consumer(topic, **shared) as first, site.producer(topic) as producer:
        producer.publish(b"x")
        first.message()
        with site.consumer(topic, **shared) as second:
            first.socket.socket.close()
            assert second.message()["redeliveryCount"] == 1


def test_failover_gives_all_to_the_one_that_came_first(site: GatewaySite) -> None:
    topic = site.topic()
    failover = {"subscriptionType": "Failover"}
    with site.consumer(topic, **failover) as first, site.consumer(topic, **failover) as second:
        site.node.topic(topic).publish("1")
        assert first.payloads(1) == [b"1"]
        until(lambda: site.node.topic(topic).describe()["subscriptions"][0]["backlog"] == 0)
        first.close()
        site.node.topic(topic).publish("2")
        assert second.payloads(1) == [b"2"]


def test_a_subscription_can_be_taken_back(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer:
        consumer.tell(type="unsubscribe")
        assert consumer.code() == 1000
    assert site.node.topic(topic).describe()["subscriptions"] == []


def test_a_subscription_that_others_read_is_not_taken_back(site: GatewaySite) -> None:
    topic = site.topic()
    shared = {"subscriptionType": "Shared"}
    with site.consumer(topic, **shared), site.consumer(topic, **shared) as consumer:
        consumer.tell(type="unsubscribe")
        assert consumer.code() == 1008
    assert len(site.node.topic(topic).describe()["subscriptions"]) == 1


def test_the_end_of_a_topic_ends_its_consumers(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer:
        site.node.topic(topic).delete()
        assert consumer.code() == 1008


def test_ten_thousand_messages_and_acknowledgements_pass(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer, site.producer(topic) as producer:
        for number in range(10_000):
            producer.tell(payload=b64encode(b"%d" % number).decode())
            if number % 500 == 499:
                assert all(producer.heard()["result"] == "ok" for _ in range(500))
                assert consumer.payloads(500) == [b"%d" % one for one in range(number - 499, number + 1)]
    until(lambda: site.node.topic(topic).describe()["subscriptions"][0]["backlog"] == 0)


def test_thousands_of_acknowledgements_of_what_never_was_are_a_few_writes(site: GatewaySite) -> None:
    topic = site.topic()
    ledger = ledger_of(site.node.topic(topic).describe()["lane"])
    with site.consumer(topic) as consumer:
        for number in range(9000):
            consumer.tell(messageId=MessageId(ledger, 1 << 40 | number).text())
        site.node.topic(topic).publish("x")
        assert consumer.payloads(1) == [b"x"]


def test_what_a_consumer_had_comes_again_when_a_node_of_its_name_leaves(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic) as consumer:
        with speed.Node("web", root=site.topics.root, key=site.topics.key) as node:
            node.wait_for("speedd.topics")
            node.topic(topic).publish("1")
            assert consumer.message()["redeliveryCount"] == 0
        again = consumer.message()
        assert (again["payload"], again["redeliveryCount"]) == (b"1", 1)


def test_one_consumer_reads_several_topics(site: GatewaySite) -> None:
    one, other = site.topic(), site.topic()
    topics = f"persistent://public/default/{one},{other}"
    with site.client("/ws/v3/consumer/s", topics=topics, subscriptionType="Shared") as consumer:
        for topic in (one, other):
            with site.producer(topic) as producer:
                producer.publish(topic.encode())
        assert sorted(consumer.payloads(2)) == sorted([one.encode(), other.encode()])
        for topic in (one, other):
            until(lambda topic=topic: site.node.topic(topic).describe()["subscriptions"][0]["backlog"] == 0)  # type: ignore[misc]


def test_one_consumer_reads_all_topics_of_a_pattern_that_it_may(site: GatewaySite) -> None:
    site.node.topic("news.eu").create()
    with site.client("/ws/v3/consumer/s", topicsPattern="persistent://public/default/news.*") as consumer:
        site.node.topic("news.eu").publish("x")
        assert consumer.payloads(1) == [b"x"]
    assert status(lambda: site.client("/ws/v3/consumer/s", topicsPattern="(a+)+"))[0] == 400
    assert status(lambda: site.client("/ws/v3/consumer/s", topicsPattern="secret"))[0] == 404
    assert status(lambda: site.client("/ws/v3/consumer/s", topics="news.eu,nowhere"))[0] == 404


def test_a_consumer_that_cannot_have_all_its_topics_has_none(site: GatewaySite) -> None:
    one, other = site.topic(), site.topic()
    with site.consumer(other):
        assert status(lambda: site.client("/ws/v3/consumer/s", topics=f"{one},{other}"))[0] == 409
    until(lambda: consumers(site, one) == 0)


def test_a_subscription_that_is_not_durable_leaves_nothing_on_disk_and_ends_with_its_consumers(
    site: GatewaySite,
) -> None:
    topic = site.topic()
    parameters = {"subscriptionMode": "NonDurable", "subscriptionType": "Shared"}
    with site.consumer(topic, **parameters) as first, site.producer(topic) as producer:
        site.consumer(topic, **parameters).close()
        until(lambda: consumers(site, topic) == 1)
        producer.publish(b"x")
        assert first.payloads(1) == [b"x"]
        until(lambda: [one["backlog"] for one in site.node.topic(topic).describe()["subscriptions"]] == [0])
        lane = site.node.topic(topic).describe()["lane"]
        assert not list((site.topics.root / "topics" / lane).glob("*.cursor"))
    until(lambda: site.node.topic(topic).describe()["subscriptions"] == [])


@pytest.mark.parametrize(
    "parameters",
    [
        {"subscriptionType": "Any"},
        {"ackTimeoutMillis": 5},
        {"ackTimeoutMillis": "x"},
        {"subscriptionMode": "Sometimes"},
        {"receiverQueueSize": -1},
        {"deadLetterTopic": "x"},
        {"deadLetterTopic": "persistent://x", "maxRedeliverCount": 1},
        {"cryptoFailureAction": "PANIC"},
        {"pullMode": "1"},
    ],
)
def test_a_parameter_that_cannot_be_is_refused_by_name(site: GatewaySite, parameters: dict[str, object]) -> None:
    code, text = status(lambda: site.consumer("t1", **parameters))
    assert code == 400
    assert text


def test_a_reader_begins_where_it_is_told(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        ids = [producer.publish(b"%d" % number)["messageId"] for number in range(3)]
        with site.reader(topic, messageId="earliest") as reader:
            assert reader.payloads(3) == [b"0", b"1", b"2"]
        with site.reader(topic, messageId=ids[0]) as reader, site.reader(topic) as latest:
            assert reader.payloads(2) == [b"1", b"2"]
            producer.publish(b"3")
            assert reader.payloads(1) == latest.payloads(1) == [b"3"]
    assert site.node.topic(topic).describe()["subscriptions"] == []


def test_a_reader_pulls_and_is_bounded_as_a_consumer_is(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic) as producer:
        for number in range(3):
            producer.publish(b"%d" % number)
    with site.reader(topic, messageId="earliest", pullMode="true") as reader:
        assert reader.is_silent()
        reader.tell(type="permit", permitMessages=1)
        assert reader.message()["payload"] == b"0"
    with site.reader(topic, messageId="earliest", receiverQueueSize=1) as reader:
        message = reader.message()
        assert reader.is_silent()
        reader.tell(messageId=message["messageId"])
        assert reader.message()["payload"] == b"1"
        assert reader.ask(type="isEndOfTopic") == {"endOfTopic": False}
        reader.socket.send("{}")
        assert reader.code() == 1008


def test_a_reader_cannot_begin_where_there_is_nothing(site: GatewaySite) -> None:
    topic, other = site.topic(), site.topic()
    ledger = ledger_of(site.node.topic(topic).describe()["lane"])
    with site.producer(other) as producer:
        stranger = producer.publish(b"")["messageId"]
    for message in (stranger, MessageId(ledger, 99).text(), "?"):
        assert status(lambda message=message: site.reader(topic, messageId=message))[0] == 400  # type: ignore[misc]
    assert status(lambda: site.reader("secret"))[0] == 403


def test_the_end_of_a_topic_ends_its_readers(site: GatewaySite) -> None:
    topic = site.topic()
    with site.reader(topic) as reader:
        site.node.topic(topic).delete()
        assert reader.code() == 1008
