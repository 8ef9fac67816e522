"""What a host of topics is asked: what a publisher sends, made records (D-4, D-5), and who may ask for what (D-17)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from speed.core.access import AccessPolicy
from speed.errors import WireError
from speed.topics.subscription import SubscriptionError, wrong
from speed.wire.limits import (
    MAX_TOPIC_DELAY_SECONDS,
    MAX_TOPIC_KEY_BYTES,
    MAX_TOPIC_MESSAGE_BYTES,
    MAX_TOPIC_PROPERTIES,
)
from speed.wire.topic import MESSAGE, TOMBSTONE, Head, join, key_hash
from speed.wire.value import pack, unpack

# Who may publish, consume and manage which topic (D-17).

RIGHTS = ("publish", "consume", "manage")


@dataclass(frozen=True)
class Grants:
    """Names or families for each right; None: those for all topics hold."""

    publish: tuple[str, ...] | None = None
    consume: tuple[str, ...] | None = None
    manage: tuple[str, ...] | None = None


class Access:
    """The grants of all topics; nobody may do anything without one."""

    def __init__(self, general: Grants, narrowed: Mapping[str, Grants]) -> None:
        """``narrowed`` are those of single topics. Raises InvalidNameError."""
        self._general = {right: AccessPolicy(getattr(general, right) or ()) for right in RIGHTS}
        self._narrowed: dict[tuple[str, str], AccessPolicy] = {}
        for topic, grants in narrowed.items():
            for right in RIGHTS:
                patterns: tuple[str, ...] | None = getattr(grants, right)
                if patterns is not None:
                    self._narrowed[topic, right] = AccessPolicy(patterns)

    def allows(self, caller: str, right: str, topic: str) -> bool:
        """Whether ``caller`` has ``right`` in ``topic``."""
        return self._narrowed.get((topic, right), self._general[right]).allows(caller)

    def check(self, caller: str, right: str, topic: str) -> None:
        """Raises SubscriptionError DENIED."""
        if not self.allows(caller, right, topic):
            raise SubscriptionError("DENIED", f"node {caller!r} may not {right} topic {topic!r}")

    def sees(self, caller: str, topic: str) -> bool:
        """Whether ``caller`` may do anything with ``topic``."""
        return any(self.allows(caller, right, topic) for right in RIGHTS)


def everybody(grants: Iterable[Grants]) -> tuple[str, ...]:
    """All that are named anywhere: who may write to the host."""
    named = {pattern for one in grants for right in RIGHTS for pattern in getattr(one, right) or ()}
    return tuple(sorted(named))


MAX_DELAY_MS = int(MAX_TOPIC_DELAY_SECONDS * 1000)
_FIELDS = frozenset({"payload", "key", "properties", "due_ms", "sequence", "tombstone"})


class Encoder:
    """Of one publisher. Most messages are a payload and nothing else: what stands before it is made once."""

    def __init__(self, node: str, producer: str, owner: str = "") -> None:
        """``owner``: the family of nodes that share the producer; empty for ``node`` alone."""
        named = {"producer": producer, "owner": owner} if producer else {}
        self._said = {"publisher": node, **{name: value for name, value in named.items() if value}}
        self._packed = pack(self._said)
        self._plain = join(Head(), self._packed, b"")

    def record(self, message: Any) -> tuple[int, bytes]:
        """Sequence and record of one message. Raises SubscriptionError INVALID_ARGUMENTS."""
        if type(message) is not dict or not message.keys() <= _FIELDS:
            raise wrong(f"a message is a map of {', '.join(sorted(_FIELDS))}")
        payload = message.get("payload", b"")
        _check_payload(payload)
        if len(message) == 1 and payload:
            sequence, data = 0, self._plain + payload
        else:
            head = _head(message)
            sequence, data = head.sequence, join(head, self._packed_with(message), payload)
        if len(data) > MAX_TOPIC_MESSAGE_BYTES:
            raise wrong(f"a message of {len(data)} bytes: at most {MAX_TOPIC_MESSAGE_BYTES} are kept")
        return sequence, data

    def _packed_with(self, message: Mapping[str, Any]) -> bytes:
        """What is said of a message whose key is right."""
        if "key" not in message and "properties" not in message:
            return self._packed
        return pack({**self._said, **_named(message.get("key"), message.get("properties") or {})})


def _check_payload(payload: Any) -> None:
    """Bytes that are no value would stop every consumer that gets them."""
    if type(payload) is not bytes:
        raise wrong("payload must be bytes")
    try:
        if payload:
            unpack(payload)
    except WireError as error:
        raise wrong(str(error)) from None


def _head(message: Mapping[str, Any]) -> Head:
    key, due_ms, sequence = message.get("key"), message.get("due_ms", 0), message.get("sequence", 0)
    if type(due_ms) is not int or type(sequence) is not int:
        raise wrong("due_ms and sequence must be whole numbers")
    if not 0 <= sequence < 1 << 63:
        raise wrong(f"sequence must be 0 to {(1 << 63) - 1}")
    if due_ms < 0 or (due_ms and due_ms > time.time() * 1000 + MAX_DELAY_MS):
        raise wrong(f"due_ms is {due_ms}: a message may be delayed by {MAX_DELAY_MS // 86_400_000} days at most")
    kind = TOMBSTONE if message.get("tombstone") else MESSAGE
    if kind == TOMBSTONE and key is None:
        raise wrong("a tombstone needs a key")
    return Head(kind, 0, _key_hash(key), due_ms, sequence)


def _key_hash(key: Any) -> int:
    if key is None:
        return 0
    if not isinstance(key, str) or len(key.encode()) > MAX_TOPIC_KEY_BYTES:
        raise wrong(f"a key is text of at most {MAX_TOPIC_KEY_BYTES} bytes")
    return key_hash(key)


def _named(key: Any, properties: Any) -> dict[str, Any]:
    """What else is said of a message; its key is right."""
    if not isinstance(properties, Mapping) or len(properties) > MAX_TOPIC_PROPERTIES:
        raise wrong(f"properties are a map of at most {MAX_TOPIC_PROPERTIES} texts")
    if not all(isinstance(name, str) and isinstance(text, str) for name, text in properties.items()):
        raise wrong("names and values of properties are text")
    return {**({} if key is None else {"key": key}), **({"properties": dict(properties)} if properties else {})}
