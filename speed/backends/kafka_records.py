"""Messages as records of Kafka (B-1), how far a group has come among them, and what errors of librdkafka mean."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import confluent_kafka as kafka

from speed.backends.backend import (
    BackendAwayError,
    BackendError,
    BackendRefusedError,
    Delivered,
    Outgoing,
    too_large,
    topic_of_kafka,
)

# How far a group has come in one run of offsets: below the mark all is acknowledged. Pure.


class Marks:
    """Offsets that were delivered, in their order, and acknowledged in any. For one thread at a time."""

    def __init__(self) -> None:
        self._held: list[int] = []
        """A heap: all that were delivered and lie at or above the mark."""
        self._done: set[int] = set()
        self._next = 0

    def deliver(self, offset: int) -> None:
        """It was handed out."""
        heappush(self._held, offset)
        self._next = offset + 1

    def acknowledge(self, offset: int) -> None:
        """It is done; what was not delivered here is left alone."""
        if self._held and self._held[0] <= offset < self._next:
            self._done.add(offset)

    def mark(self) -> int:
        """The lowest offset that is not acknowledged."""
        while self._held and self._held[0] in self._done:
            self._done.discard(heappop(self._held))
        return self._held[0] if self._held else self._next


# What errors of librdkafka mean.

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


_HOPS = "prism-hops"


def value_and_headers(message: Outgoing) -> tuple[bytes, list[tuple[str, str]]]:
    """What the record holds, and its headers."""
    if message.old is not None:
        return message.old.data, list(message.old.headers.items())
    return message.envelope, _kafka_headers(message)


def _kafka_headers(message: Outgoing) -> list[tuple[str, str]]:
    headers = [
        ("prism-envelope-version", "1"),
        ("prism-message-id", message.message_id),
        ("prism-topic", message.topic),
    ]
    if message.trace_id is not None:
        headers.append(("prism-trace-id", message.trace_id))
    if message.hops:
        headers.append((_HOPS, message.hops))
    return headers


def hops_of(record: Any) -> str:
    """Anybody may have written that."""
    found = next((value for name, value in record.headers() or () if name == _HOPS), None)
    return (found or b"").decode("utf-8", "replace")


def delivered_of_kafka(record: Any, lane: str = "", hops: str = "") -> Delivered:
    """A record as it is handed on."""
    offset = record.offset()
    return Delivered(
        topic_of_kafka(record.topic()) or "",
        _key(record.key()),
        record.value() or b"",
        f"{record.partition()}:{offset}",
        offset,
        handle=(record.topic(), record.partition(), offset),
        headers={name: value or b"" for name, value in record.headers() or ()},
        stored_at_ms=max(0, record.timestamp()[1]),
        lane=lane,
        hops=hops,
    )


def _key(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "replace")
