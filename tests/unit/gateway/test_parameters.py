"""Parameters: Pulsar's names and defaults, and what is refused."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speed.gateway.frames import MessageId
from speed.gateway.requests import ProducerParameters, consumer_parameters, producer_parameters, reader_parameters
from speed.gateway.settings import HandshakeError

KEYS = b64encode(json.dumps({"a": {"keyValue": "eA=="}}).encode()).decode()


def test_a_producer_has_pulsars_defaults() -> None:
    assert producer_parameters({}) == ProducerParameters("", 0, 1000, None, ())


def test_repetitions_are_recognised_only_of_who_gave_a_name_and_a_number() -> None:
    assert producer_parameters({"producerName": "p"}).first_sequence == 0
    assert producer_parameters({"initialSequenceId": "4"}).first_sequence == 0
    assert producer_parameters({"producerName": "p", "initialSequenceId": "4"}).first_sequence == 5


def test_more_pending_messages_than_are_possible_are_as_many_as_are() -> None:
    assert producer_parameters({"maxPendingMessages": "5"}).max_pending == 5
    assert producer_parameters({"maxPendingMessages": "5000"}).max_pending == 1000


def test_who_encrypts_loses_batches_and_compression() -> None:
    given = {"encryptionKeys": KEYS, "batchingEnabled": "true", "compressionType": "LZ4"}
    assert producer_parameters(given).discarded == ("batchingEnabled", "compressionType")
    assert producer_parameters({**given, "encryptionKeys": ""}).discarded == ()


def test_a_consumer_has_pulsars_defaults() -> None:
    found = consumer_parameters({})
    assert (found.type, found.queue_size, found.ack_timeout_ms, found.max_deliveries) == ("exclusive", 1000, 0, 0)
    assert (found.dead_letter, found.reject_delay_ms, found.is_pulling, found.name) == ("", 60_000, False, "")


def test_a_message_that_may_come_again_twice_is_delivered_three_times() -> None:
    assert consumer_parameters({"maxRedeliverCount": "2"}).max_deliveries == 3


@pytest.mark.parametrize(("mode", "durable"), [("Durable", True), ("NonDurable", False)])
def test_a_subscription_is_durable_unless_it_is_asked_not_to_be(mode: str, durable: bool) -> None:
    assert consumer_parameters({}).is_durable
    assert consumer_parameters({"subscriptionMode": mode}).is_durable is durable


@pytest.mark.parametrize(("asked", "size"), [("0", 1), ("7", 7), ("5000", 1000)])
def test_a_queue_holds_one_at_least_and_1000_at_most(asked: str, size: int) -> None:
    assert consumer_parameters({"receiverQueueSize": asked}).queue_size == size
    assert reader_parameters({"receiverQueueSize": asked}).queue_size == size


@pytest.mark.parametrize(
    ("text", "start"),
    [("", "latest"), ("latest", "latest"), ("earliest", "earliest"), ("CAAQAw==", MessageId(0, 3))],
)
def test_a_reader_begins_at_a_word_or_behind_a_message(text: str, start: str | MessageId) -> None:
    assert reader_parameters({"messageId": text}).start == start


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"ackTimeoutMillis": "999"}, "ackTimeoutMillis"),
        ({"subscriptionMode": "Nondurable"}, "subscriptionMode"),
        ({"deadLetterTopic": "t"}, "maxRedeliverCount"),
        ({"subscriptionType": "shared"}, "subscriptionType"),
        ({"cryptoFailureAction": "fail"}, "cryptoFailureAction"),
        ({"pullMode": "yes"}, "pullMode"),
    ],
)
def test_what_a_consumer_cannot_have_is_refused_by_name(parameters: dict[str, str], named: str) -> None:
    with pytest.raises(HandshakeError, match=named) as error:
        consumer_parameters(parameters)
    assert error.value.status == 400


@pytest.mark.parametrize("text", ["", "-", "+1", "1.0", "1e3", " 1", "٣", "9" * 20, "-1", "99999999999"])
def test_what_is_no_number_in_its_range_is_refused_by_name(text: str) -> None:
    with pytest.raises(HandshakeError, match="receiverQueueSize") as error:
        consumer_parameters({"receiverQueueSize": text})
    assert error.value.status == 400


@given(st.dictionaries(st.sampled_from(["ackTimeoutMillis", "pullMode", "messageId", "encryptionKeys"]), st.text()))
def test_any_text_is_a_parameter_or_refused(parameters: dict[str, str]) -> None:
    for read in (producer_parameters, consumer_parameters, reader_parameters):
        try:
            read(parameters)
        except HandshakeError:
            pass
