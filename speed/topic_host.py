"""The host of durable topics, as those ask it who use it, and the messages that it gives."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from speed.core.access import granted
from speed.errors import (
    AccessDeniedError,
    ApplicationError,
    CallTimeoutError,
    NodeLeftError,
    UnknownNodeError,
)
from speed.wire.seconds import checked_seconds
from speed.wire.topic import DEAD_LETTER, TOMBSTONE, decode
from speed.wire.value import unpack

if TYPE_CHECKING:
    from speed.node import Node

HOST = "speedd.topics"
WAIT_SECONDS = 5.0
"""How long the host waits at most before it answers that there is nothing."""
GRACE_SECONDS = 5.0
"""How much longer a call may take than the host waits."""
PAUSE_SECONDS = 0.05
"""Before a host that is not there, or too busy to wait, is asked again."""
FRESH_SECONDS = 0.02
"""So long a program gets what its host said it may have; then the host is asked again."""
MOST_BEGUN = 64
"""Messages that a program may get before the host is asked again."""
Start = int | str | Mapping[str, int]
AWAY = (UnknownNodeError, NodeLeftError, CallTimeoutError)


class TopicOffset(int):
    """Where a published message is kept: a number, and whether the message was there before."""

    duplicate: bool = False
    """It is a repetition: nothing was kept again. Its number is then that of the message that is kept, or -1 if the
    host does not remember that."""

    @classmethod
    def of(cls, offset: int, *, duplicate: bool) -> TopicOffset:
        """As the host answers."""
        made = cls(offset)
        made.duplicate = duplicate
        return made


@dataclass(frozen=True)
class TopicMessage:
    """One message of a topic.

    Attributes:
        topic, offset: where it stands; offsets only grow.
        payload: what was published.
        key: its key; None without one.
        properties: what its publisher wrote beside it.
        publisher: name of the node that published it.
        recorded_at_ms: when it was recorded, in Unix milliseconds.
        attempts: how often it was delivered to its subscription, this time included; 0 for readers.
        producer, sequence: what its publisher gave for recognising repetitions.
        is_tombstone: whether it says that its key has no value any more.
        origin: of a dead letter, where it came from: topic, offset and subscription.
        failed_attempts: of a dead letter, how often it had been delivered there.
    """

    topic: str
    offset: int
    payload: Any
    key: str | None
    properties: Mapping[str, str]
    publisher: str
    recorded_at_ms: int
    attempts: int
    lane: str = field(repr=False)
    epoch: int = field(default=0, repr=False)
    producer: str = ""
    sequence: int = 0
    is_tombstone: bool = False
    origin: tuple[str, int, str] | None = None
    failed_attempts: int = 0

    @property
    def redelivered(self) -> bool:
        """Whether it was delivered before; it may have been handled then."""
        return self.attempts > 1


def read_message(topic: str, lane: str, row: Sequence[Any], epoch: int = 0) -> TopicMessage:
    offset, attempts, recorded_ms, data = row
    head, about, payload = decode(data)
    origin = about.get("origin")
    return TopicMessage(
        topic,
        offset,
        unpack(payload) if payload else None,
        about.get("key"),
        about.get("properties", {}),
        about.get("publisher", ""),
        recorded_ms,
        attempts,
        lane,
        epoch,
        about.get("producer", ""),
        head.sequence,
        head.type == TOMBSTONE,
        tuple(origin) if head.type == DEAD_LETTER and origin else None,
        head.attempts,
    )


def asked(node: Node, host: str, service: str, arguments: dict[str, Any], timeout: float) -> Any:
    """What the host answers. It is asked again while it allows nobody, as in the moment after its start."""
    ends = time.monotonic() + min(checked_seconds("timeout", timeout), GRACE_SECONDS)
    while True:
        try:
            return node.call(host, f"topics.{service}", arguments, timeout=timeout)
        except AccessDeniedError as error:
            outwait(node, host, ends, error)


def outwait(node: Node, host: str, ends: float, error: AccessDeniedError) -> None:
    """Until the host allows this node; raises ``error`` if it goes on so: then it never did, or does no more."""
    left = ends - time.monotonic()
    if left <= 0 or _allows_others(node, host):
        raise error
    try:
        node.wait_for(host, timeout=left)
    except UnknownNodeError:
        raise error from None


def _allows_others(node: Node, host: str) -> bool:
    """Whether the host says whom it allows, and this node is not among them: to wait would change nothing."""
    entry = next((one for one in node.nodes() if one.name == host), None)
    return entry is not None and bool(entry.allow) and not granted(entry.allow, node.name)


def is_unknown(error: ApplicationError) -> bool:
    return error.code == "NOT_JOINED"
