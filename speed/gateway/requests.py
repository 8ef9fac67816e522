"""What a request asks for: role, topics, subscription; parameters with Pulsar's names, defaults and limits. Pure.

A topic ``persistent://TENANT/NAMESPACE/NAME`` is the topic NAME of SPEED where TENANT/NAMESPACE is the configured one;
of all others the three parts are the name. Slashes become dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from speed.errors import InvalidNameError
from speed.gateway import encryption, frames
from speed.gateway.encryption import Keys
from speed.gateway.frames import MessageId
from speed.gateway.settings import MAX_PENDING, MAX_QUEUE, MAX_TOPICS_EACH, HandshakeError
from speed.wire import names

# What a request's address asks for: the role, the topics, the subscription, the parameters. Pure.

ROLES = ("producer", "consumer", "reader")
_PERSISTENT = "persistent"
_SCHEME = "persistent://"
_PLAIN = re.compile(r"(?:[A-Za-z0-9_:/-]|\\\.|\.\*?)+", re.ASCII)
MAX_PATTERN = 256


@dataclass(frozen=True)
class RequestAddress:
    """What a client wants to be; ``parameters`` are the first of each name."""

    role: str
    topics: tuple[str, ...]
    subscription: str
    parameters: Mapping[str, str]
    pattern: str = ""
    """Of the topics, where they are not named."""


def split(target: str) -> tuple[list[str], dict[str, str]]:
    """The parts of the path, decoded, and the first parameter of each name. Raises HandshakeError 400."""
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise HandshakeError(400, "the address begins with no slash")
    try:
        parts = [unquote(part, errors="strict") for part in path[1:].split("/")]
    except UnicodeDecodeError:
        raise HandshakeError(400, "the address is not UTF-8") from None
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters.setdefault(name, value)
    return parts, parameters


class TopicNames:
    """From the names of clients to those of SPEED.

    Args:
        namespace: tenant and namespace that are left out, as ``public/default``.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def of(self, tenant: str, namespace: str, topic: str) -> str:
        """Raises HandshakeError 400 for what is no name of a topic."""
        own = f"{tenant}/{namespace}"
        name = topic if own == self._namespace else f"{own}/{topic}"
        try:
            return names.check_topic(name.replace("/", "."))
        except InvalidNameError as error:
            raise HandshakeError(400, str(error)) from None

    def of_text(self, text: str) -> str:
        """Of a topic as parameters name it: with everything, or its name alone."""
        if not text.startswith(_SCHEME):
            tenant, namespace = self._namespace.split("/")
            return self.of(tenant, namespace, text)
        parts = text.removeprefix(_SCHEME).split("/", 2)
        if len(parts) != 3:
            raise HandshakeError(400, "a topic is persistent://TENANT/NAMESPACE/NAME, or its name alone")
        return self.of(*parts)

    def matching(self, pattern: str, known: Iterable[str]) -> tuple[str, ...]:
        """Those of ``known`` (names of SPEED) that ``pattern`` covers. Raises HandshakeError 400.

        A pattern is text with ``.*`` for anything and ``.`` for one character; ``\\.`` is a dot. More of regular
        expressions takes too long on some texts.
        """
        if len(pattern) > MAX_PATTERN or not _PLAIN.fullmatch(pattern):
            raise HandshakeError(400, "a pattern of topics is text with .* for anything, of at most 256 characters")
        wanted = pattern.removeprefix(f"{_SCHEME}{self._namespace}/").replace(r"\.", "\0")
        return tuple(name for name in known if _covers(wanted.split(".*"), name))

    def address(self, target: str) -> RequestAddress:
        """Raises HandshakeError 400 or 404."""
        parts, parameters = split(target)
        if parts[:2] == ["ws", "v2"] and len(parts) > 2 and parts[2] in ROLES:
            return self._version_2(parts[2], parts[3:], parameters)
        if parts[:3] == ["ws", "v3", "consumer"] and len(parts) == 4:
            return self._version_3(parts[3], parameters)
        if parts == ["ws", "pingpong"]:
            return RequestAddress("pingpong", (), "", parameters)
        raise HandshakeError(404, "there is nothing here: /ws/v2/producer, /ws/v2/consumer and /ws/v2/reader are")

    def _version_2(self, role: str, parts: list[str], parameters: dict[str, str]) -> RequestAddress:
        if parts[:1] != [_PERSISTENT]:
            raise HandshakeError(400, "only persistent topics are served")
        rest = parts[1:]
        subscription = rest.pop() if role == "consumer" and rest else ""
        if len(rest) < 3 or not all(rest) or (role == "consumer" and not subscription):
            path = "/persistent/TENANT/NAMESPACE/TOPIC" + ("/SUBSCRIPTION" if role == "consumer" else "")
            raise HandshakeError(400, f"the address of a {role} is /ws/v2/{role}{path}")
        topic = self.of(rest[0], rest[1], "/".join(rest[2:]))
        return RequestAddress(role, (topic,), _checked(subscription), parameters)

    def _version_3(self, subscription: str, parameters: dict[str, str]) -> RequestAddress:
        listed, pattern = parameters.get("topics", ""), parameters.get("topicsPattern", "")
        if bool(listed) == bool(pattern):
            raise HandshakeError(400, "give topics or topicsPattern")
        given = listed.split(",") if listed else []
        if len(given) > MAX_TOPICS_EACH:
            raise HandshakeError(400, f"{len(given)} topics: one consumer has at most {MAX_TOPICS_EACH}")
        topics = tuple(dict.fromkeys(self.of_text(one) for one in given))
        return RequestAddress("consumer", topics, _checked(subscription), parameters, pattern)


def _checked(subscription: str) -> str:
    if subscription and not names.is_node_name(subscription):
        raise HandshakeError(400, "a subscription's name has letters, digits, '_', '-' and '.' only, at most 128")
    return subscription


def _covers(pieces: list[str], name: str) -> bool:
    """Whether ``name`` is the pieces with anything between them; each is looked for once, from the left."""
    first, *others = pieces
    if not others:
        return _is(first, name)
    if len(name) < len(first) + len(others[-1]) or not _is(first, name[: len(first)]):
        return False
    place, end = len(first), len(name) - len(others[-1])
    for piece in others[:-1]:
        while place + len(piece) <= end and not _is(piece, name[place : place + len(piece)]):
            place += 1
        place += len(piece)
    return place <= end and _is(others[-1], name[end:])


def _is(piece: str, text: str) -> bool:
    """``.`` of a piece is any character, a zero byte is a dot."""
    return len(piece) == len(text) and all(
        one == "." or one == other or (one == "\0" and other == ".") for one, other in zip(piece, text, strict=True)
    )


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


class _GivenParameters:
    """Reads what was given; HandshakeError 400 names what is wrong."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def text(self, name: str) -> str:
        return self._parameters.get(name, "")

    def whole(self, name: str, default: int, least: int, limit: int) -> int:
        text = self._parameters.get(name)
        if text is None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19) or not least <= int(text) <= limit:
            raise HandshakeError(400, f"{name} must be a whole number from {least} to {limit}")
        return int(text)

    def is_true(self, name: str) -> bool:
        return self.one_of(name, "false", ("true", "false"), ignoring_case=True) == "true"

    def one_of(self, name: str, default: str, choices: tuple[str, ...], *, ignoring_case: bool = False) -> str:
        text = self._parameters.get(name, default)
        if ignoring_case:
            text = text.lower()
        if text not in choices:
            raise HandshakeError(400, f"{name} must be one of {', '.join(choices)}")
        return text


@dataclass(frozen=True)
class ProducerParameters:
    """What a producer asked for."""

    name: str
    first_sequence: int
    """Sequence of the first message; 0 when repetitions are not to be recognised."""
    max_pending: int
    keys: Keys | tuple[str, ...] | None
    """Of messages that the client encrypts itself, or names of keys that the gateway encrypts them with."""
    discarded: tuple[str, ...]
    """What has no effect because the client encrypts."""


def producer_parameters(parameters: Mapping[str, str]) -> ProducerParameters:
    """Raises HandshakeError 400."""
    given = _GivenParameters(parameters)
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
        max_pending=min(pending, MAX_PENDING),
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
    """Raises HandshakeError 400."""
    given = _GivenParameters(parameters)
    ack_timeout = given.whole("ackTimeoutMillis", 0, 0, MAX_MS)
    if 0 < ack_timeout < LEAST_ACK_TIMEOUT_MS:
        raise HandshakeError(400, f"ackTimeoutMillis must be 0 or at least {LEAST_ACK_TIMEOUT_MS}")
    redeliveries = given.whole("maxRedeliverCount", 0, 0, 65_534)
    dead_letter = given.text("deadLetterTopic")
    if dead_letter and not redeliveries:
        raise HandshakeError(400, "deadLetterTopic needs maxRedeliverCount")
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
    """Raises HandshakeError 400."""
    given = _GivenParameters(parameters)
    start = given.text("messageId") or "latest"
    return ReaderParameters(_place(start), _queue_size(given), given.is_true("pullMode"), _failure_action(given))


def _place(text: str) -> str | MessageId:
    if text in ("latest", "earliest"):
        return text
    try:
        return frames.read(text.replace(" ", "+"))  # a plus that was not encoded
    except ValueError as error:
        raise HandshakeError(400, f"messageId is latest, earliest or the id of a message; this is {error}") from None


def _failure_action(given: _GivenParameters) -> str:
    return given.one_of("cryptoFailureAction", FAILURE_ACTIONS[0], FAILURE_ACTIONS)


def _queue_size(given: _GivenParameters) -> int:
    return max(1, min(given.whole("receiverQueueSize", MAX_QUEUE, 0, MAX_INT), MAX_QUEUE))
