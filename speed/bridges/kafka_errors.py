"""What errors of librdkafka mean."""

from __future__ import annotations

from typing import Any

import confluent_kafka as kafka

from speed.bridges.backend import too_large
from speed.bridges.errors import BackendAwayError, BackendError, BackendRefusedError

CODES = kafka.KafkaError
AUTHENTICATION = frozenset({CODES._AUTHENTICATION, CODES.SASL_AUTHENTICATION_FAILED, CODES._SSL})
_REFUSALS = {
    **dict.fromkeys(AUTHENTICATION, "the credentials, or the certificate"),
    CODES.TOPIC_AUTHORIZATION_FAILED: "the topic to this user",
    CODES.GROUP_AUTHORIZATION_FAILED: "the group to this user",
    CODES.CLUSTER_AUTHORIZATION_FAILED: "this user",
    CODES.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the transactional_id to this user",
    CODES.TOPIC_EXCEPTION: "the name of the topic: another one may differ from it only in '.' and '_'",
    CODES.INVALID_CONFIG: "the configuration",
    CODES._FENCED: "the transactional_id: another program uses it now",
    CODES.INVALID_PRODUCER_EPOCH: "the transactional_id: another program uses it now",
    CODES.POLICY_VIOLATION: "what its policy forbids",
    CODES.UNKNOWN_TOPIC_OR_PART: "to make the topic: it does not do so by itself, or one differs only in '.' and '_'",
    CODES._UNKNOWN_TOPIC: "to make the topic: it does not do so by itself, or one differs only in '.' and '_'",
    CODES.INVALID_RECORD: "the record",
}
NOT_THERE = (CODES.UNKNOWN_TOPIC_OR_PART, CODES._UNKNOWN_TOPIC, CODES._UNKNOWN_PARTITION)
_TOO_LARGE = frozenset({CODES.MSG_SIZE_TOO_LARGE, CODES.RECORD_LIST_TOO_LARGE})
AWAY = frozenset(
    {
        *(CODES._ALL_BROKERS_DOWN, CODES._TRANSPORT, CODES._TIMED_OUT, CODES._MSG_TIMED_OUT, CODES._RESOLVE),
        *(CODES.REQUEST_TIMED_OUT, CODES.NOT_ENOUGH_REPLICAS, CODES.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        *(CODES.LEADER_NOT_AVAILABLE, CODES.NOT_LEADER_FOR_PARTITION, CODES.COORDINATOR_LOAD_IN_PROGRESS),
        *(CODES.COORDINATOR_NOT_AVAILABLE, CODES.NOT_COORDINATOR, CODES._PURGE_QUEUE, CODES._PURGE_INFLIGHT),
        *(CODES._WAIT_COORD, CODES._DESTROY, CODES._TIMED_OUT_QUEUE, CODES._FAIL),
    }
)
LOST = frozenset(
    {
        *(CODES.ILLEGAL_GENERATION, CODES.UNKNOWN_MEMBER_ID, CODES.REBALANCE_IN_PROGRESS, CODES._ASSIGNMENT_LOST),
        *(CODES._NO_OFFSET, CODES.FENCED_INSTANCE_ID),
    }
)
"""A commit that came too late: the group gave the partition away, and the messages come again there."""


def error_of(error: Any) -> Exception:
    """What an error of librdkafka means. Only its name is told."""
    code = error.code()
    if code in _TOO_LARGE:
        return too_large("max_message_bytes, and the topic's max.message.bytes")
    if code in _REFUSALS:
        return BackendRefusedError(f"Kafka refuses {_REFUSALS[code]} ({error.name()})")
    if code in AWAY or error.retriable():
        return BackendAwayError(f"Kafka does not answer ({error.name()}): try again")
    return BackendError(f"Kafka: {error.name()}")
