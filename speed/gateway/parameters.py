"""Parameters of producers, consumers and readers, with Pulsar's names, defaults and limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speed.gateway import encryption, message_ids
from speed.gateway.encryption import Keys
from speed.gateway.limits import MAX_PENDING, MAX_QUEUE
from speed.gateway.message_ids import MessageId
from speed.gateway.refusal import RefusedError

MAX_MS = 1 << 50
MAX_INT = (1 << 31) - 1
LEAST_ACK_TIMEOUT_MS = 1000
SUBSCRIPTION_TYPES = {
    "Exclusive": "exclusive",
    "Failover": "failover",
    "Shared": "shared",
    "Key_Shared": "key-shared",
}
MODES = ("Durable", "NonDurable")
ROUTINGS = ("SinglePartition", "RoundRobinPartition", "CustomPartition")
HASHINGS = ("JavaStringHash", "Murmur3_32Hash")
FAILURE_ACTIONS = ("FAIL", "DISCARD", "CONSUME")
BATCHING = ("batchingEnabled", "batchingMaxMessages", "maxPendingMessages", "batchingMaxPublishDelay")


class _Given:
    """Reads what was given; RefusedError 400 names what is wrong."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str:
        return self._parameters.get(name, "")

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        text = self._parameters.get(name)
        if text is None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19) or not least <= int(text) <= most:
            raise RefusedError(400, f"{name} must be a whole number from {least} to {most}")
        return int(text)

    def is_true(self, name: str) -> bool:
        return self.one_of(name, "false", ("true", "false"), ignoring_case=True) == "true"

    def one_of(self, name: str, default: str, choices: tuple[str, ...], *, ignoring_case: bool = False) -> str:
        text = self._parameters.get(name, default)
        if ignoring_case:
            text = text.lower()
        if text not in choices:
            raise RefusedError(400, f"{name} must be one of {', '.join(choices)}")
        return text


@dataclass(frozen=True)
class ProducerParameters:
    """What a producer asked for."""

    name: str
    first_sequence: int
    """Sequence of the first message; 0 when repetitions are not to be recognised."""
    most_pending: int
    keys: Keys | tuple[str, ...] | None
    """Of messages that the client encrypts itself, or names of keys that the gateway encrypts them with."""
    discarded: tuple[str, ...]
    """What has no effect because the client encrypts."""


def producer_parameters(parameters: Mapping[str, str]) -> ProducerParameters:
    """Raises RefusedError 400."""
    given = _Given(parameters)
    given.whole("sendTimeoutMillis", 30_000, 0, MAX_INT)
    given.is_true("batchingEnabled")
    given.whole("batchingMaxMessages", 1000, 1, MAX_INT)
    given.whole("batchingMaxPublishDelay", 10, 1, MAX_INT)
    given.one_of("messageRoutingMode", ROUTINGS[0], ROUTINGS)
    given.one_of("hashingScheme", HASHINGS[0], HASHINGS)
    given.one_of("compressionType", "NONE", encryption.COMPRESSIONS)
    pending = given.whole("maxPendingMessages", MAX_PENDING, 1, MAX_INT)
    name, initial = given.text("producerName"), given.whole("initialSequenceId", -1, -1, (1 << 63) - 2)
    keys = encryption.read_keys(given.text("encryptionKeys"))
    return ProducerParameters(
        name=name,
        first_sequence=initial + 1 if name else 0,
        most_pending=min(pending, MAX_PENDING),
        keys=keys,
        discarded=tuple(one for one in (*BATCHING, "compressionType") if isinstance(keys, dict) and one in parameters),
    )


@dataclass(frozen=True)
class ConsumerParameters:
    """What a consumer asked for; times in milliseconds."""

    type: str
    is_durable: bool
    """Whether the subscription stays when its last consumer leaves."""
    queue_size: int
    ack_timeout_ms: int
    max_deliveries: int
    """How often a message is delivered at most; 0 for no bound."""
    dead_letter: str
    """The topic of dead letters as it was given; empty for the usual one."""
    reject_delay_ms: int
    is_pulling: bool
    failure_action: str
    """What happens to a message that cannot be opened."""
    name: str


def consumer_parameters(parameters: Mapping[str, str]) -> ConsumerParameters:
    """Raises RefusedError 400."""
    given = _Given(parameters)
    ack_timeout = given.whole("ackTimeoutMillis", 0, 0, MAX_MS)
    if 0 < ack_timeout < LEAST_ACK_TIMEOUT_MS:
        raise RefusedError(400, f"ackTimeoutMillis must be 0 or at least {LEAST_ACK_TIMEOUT_MS}")
    redeliveries = given.whole("maxRedeliverCount", 0, 0, 65_534)
    dead_letter = given.text("deadLetterTopic")
    if dead_letter and not redeliveries:
        raise RefusedError(400, "deadLetterTopic needs maxRedeliverCount")
    given.whole("priorityLevel", 0, 0, MAX_INT)
    return ConsumerParameters(
        type=SUBSCRIPTION_TYPES[given.one_of("subscriptionType", "Exclusive", tuple(SUBSCRIPTION_TYPES))],
        is_durable=given.one_of("subscriptionMode", MODES[0], MODES) == MODES[0],
        queue_size=_queue_size(given),
        ack_timeout_ms=ack_timeout,
        max_deliveries=redeliveries + 1 if redeliveries else 0,
        dead_letter=dead_letter,
        reject_delay_ms=given.whole("negativeAckRedeliveryDelay", 60_000, 0, MAX_MS),
        is_pulling=given.is_true("pullMode"),
        failure_action=_failure_action(given),
        name=given.text("consumerName"),
    )


@dataclass(frozen=True)
class ReaderParameters:
    """What a reader asked for: where it begins is ``latest``, ``earliest`` or behind a message."""

    start: str | MessageId
    queue_size: int
    is_pulling: bool
    failure_action: str


def reader_parameters(parameters: Mapping[str, str]) -> ReaderParameters:
    """Raises RefusedError 400."""
    given = _Given(parameters)
    start = given.text("messageId") or "latest"
    return ReaderParameters(_place(start), _queue_size(given), given.is_true("pullMode"), _failure_action(given))


def _place(text: str) -> str | MessageId:
    if text in ("latest", "earliest"):
        return text
    try:
        return message_ids.read(text.replace(" ", "+"))  # a plus that was not encoded
    except ValueError as error:
        raise RefusedError(400, f"messageId is latest, earliest or the id of a message; this is {error}") from None


def _failure_action(given: _Given) -> str:
    return given.one_of("cryptoFailureAction", FAILURE_ACTIONS[0], FAILURE_ACTIONS)


def _queue_size(given: _Given) -> int:
    return max(1, min(given.whole("receiverQueueSize", MAX_QUEUE, 0, MAX_INT), MAX_QUEUE))
