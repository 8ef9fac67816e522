"""What a backend does, whichever it is: messages are published and confirmed, consumed by a group and acknowledged.

A backend connects when it is first asked, so it can be made while its server is away, and connects anew after a
failure. All methods raise BackendAwayError, BackendRefusedError, BackendFullError and, of others, BackendError;
PayloadTooLargeError for what the server does not take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from speed.bridges.names import group_name
from speed.errors import PayloadTooLargeError
from speed.wire.message import DEFAULT_NAMESPACE, MessageView
from speed.wire.message.splice import without_token

if TYPE_CHECKING:
    from speed.message.taken_over import OldForm

MAX_MESSAGE_BYTES = 1 << 20
"""Unless more is asked for: what Kafka and NATS take as they come."""
MOST_AT_ONCE = 2000
"""Of a bridge, unless a backend is slow with so many."""
MAX_BATCH_MESSAGES = 4096
"""Of one ``publish`` of a backend."""
MAX_BATCH_BYTES = 64 << 20
MAX_HELD_MESSAGES = 4096
"""What one subscription may have and not acknowledge."""
REFRESH_SECONDS = 5.0
"""How soon new topics of a pattern are seen."""
START = ("latest", "earliest")


class Outgoing(NamedTuple):
    """One message on its way, without a token. Times are Unix milliseconds."""

    topic: str
    key: str | None
    envelope: bytes
    message_id: str
    published_at_ms: int
    trace_id: str | None
    hops: str = ""
    """Where it was before, beside the message (B-16)."""
    old: OldForm | None = None
    """To be written in place of the envelope, for readers of the older form."""

    @classmethod
    def of(cls, envelope: bytes, key: str | None = None) -> Outgoing:
        """WireError(BAD_MESSAGE) for what is no message."""
        envelope = without_token(envelope)
        view = MessageView(envelope).validate()
        told = view.topic, view.message_id, view.published_at_ms, view.traceparent
        return cls.made(envelope, key, *told)

    @classmethod
    def made(
        cls, envelope: bytes, key: str | None, topic: str, message_id: str, unix_ms: int, traceparent: str | None
    ) -> Outgoing:
        """Of what its maker knows."""
        trace_id = traceparent.split("-")[1] if traceparent else None
        return cls(topic, key, envelope, message_id, unix_ms, trace_id)

    def __repr__(self) -> str:
        return f"<Outgoing {self.message_id} to {self.topic}>"


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a subscription got: bytes that may be a message, or anything.

    Attributes:
        topic: where it lay; empty where only the message tells.
        position: its place, as the backend writes it.
        sequence: a number that grows within a topic of one partition; 0 where there is none.
        deliveries: how often it was delivered, this time included; 1 where nobody counts.
        handle: what the backend needs to acknowledge it.
        headers: of Kafka and NATS, as they came; of a row in the old form its other columns, as JSON.
        stored_at_ms: when the backend stored it, in Unix milliseconds; 0 where it does not tell.
        lane: in what ``sequence`` grows without late-comers (B-14); empty where nothing does.
        hops: where the message was, as it stands beside it; anybody may have written that.
    """

    topic: str
    key: str | None = field(repr=False)
    envelope: bytes = field(repr=False)
    position: str
    sequence: int = 0
    deliveries: int = 1
    handle: Any = field(default=None, repr=False)
    headers: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    stored_at_ms: int = 0
    lane: str = ""
    hops: str = ""


class Namespaces(NamedTuple):
    """Whose messages a subscription takes: of its ``own`` namespace, and of ``others``; ``*`` is all of them (M-34)."""

    own: str = DEFAULT_NAMESPACE
    others: frozenset[str] = frozenset()

    def take(self, namespace: str) -> bool:
        """Whether messages of it are taken."""
        return namespace == self.own or namespace in self.others or _ALL in self.others

    def group(self, group: str) -> str:
        """What the group is called in the backend (B-2)."""
        return group_name(group, self.own)

    @property
    def listed(self) -> list[str] | None:
        """Those that are taken, its own first; None for all."""
        return None if _ALL in self.others else [self.own, *sorted(self.others)]


_ALL = "*"
EVERY = Namespaces(others=frozenset([_ALL]))


class Place(NamedTuple):
    """How far ``bridge`` has come in a lane of its source: ``next`` is the number that comes next.

    ``topic`` is where the messages of the lane go, ``before`` the number that the bridge believes to be there.
    """

    bridge: str
    lane: str
    topic: str
    next: int
    before: int = 0


class Health(NamedTuple):
    """Whether a backend answers: in how many seconds, or what is wrong."""

    is_up: bool
    seconds: float
    trouble: str = ""


class BackendSubscription(Protocol):
    """One consumer of a group. For one thread at a time."""

    def receive(self, most: int, timeout: float) -> list[Delivered]:
        """What comes within ``timeout`` seconds, at most so many; what was delivered and is held comes once only."""

    def acknowledge(self, delivered: Sequence[Delivered]) -> None:
        """When it returns, they do not come again; those of a connection that was lost meanwhile may."""

    def positions(self) -> dict[str, str]:
        """Where the group stands, by topic or partition, as far as this consumer knows."""

    def close(self) -> None:
        """Leave the group; what is held comes again, to others at once."""


class SharedSubscription(BackendSubscription, Protocol):
    """One whose group is shared by several namespaces."""

    def leave(self, delivered: Sequence[Delivered]) -> None:
        """They are of another namespace: who takes that gets them."""


class Backend(Protocol):
    """Thread-safe."""

    @property
    def has_groups(self) -> bool:
        """Whether messages are kept for groups. If not, who is not there misses them."""

    @property
    def most_at_once(self) -> int:
        """How many messages take it seconds, and not minutes."""

    @property
    def takes_ahead(self) -> bool:
        """Whether what was taken is acknowledged for good while more is held."""

    def unfit(self, message: Outgoing) -> str:
        """Why a message can never be published here: `BAD_KEY`, `BAD_ID`; empty if it can."""

    def publish(self, messages: Sequence[Outgoing], timeout: float) -> list[str]:
        """Their positions, once all are confirmed, within ``timeout`` seconds."""

    def subscribe(
        self, pattern: str, group: str, start: str, *, alone: bool = False, namespaces: Namespaces = EVERY
    ) -> BackendSubscription:
        """Join ``group``; it is made at ``start`` if it is not there. Connects when first asked for messages.

        Messages of other namespaces than ``namespaces`` may come as well. Each namespace has the group for itself, so
        they may be acknowledged; a SharedSubscription leaves them.

        ``alone``: it is the one member, ever: what it held when it was killed comes first, in its order (B-14).
        """

    def ping(self, timeout: float) -> None:
        """Returns once the server answered."""

    def close(self) -> None:
        """End the connection. What is under way fails."""


class PlacingBackend(Backend, Protocol):
    """One that can keep a place together with the messages before it (B-14)."""

    @property
    def keeps_places(self) -> bool:
        """Whether it does, as its address asks."""

    def publish_at(self, messages: Sequence[Outgoing], places: Sequence[Place], timeout: float) -> dict[str, int]:
        """Messages and places, all or none; once they are confirmed. Without places as ``publish``.

        Nothing is published where a place has another number than ``before``: an earlier attempt was kept, though its
        answer was lost. Returns the numbers that are there then, by lane.
        """

    def next_of(self, place: Place, timeout: float) -> int:
        """What ``publish_at`` said last of the lane of ``place``; 0 if that is not known."""


class TakesAll:
    """A backend in which nothing is unfit."""

    def unfit(self, message: Outgoing) -> str:
        """Nothing is."""
        return ""


def too_large(limit: str) -> PayloadTooLargeError:
    """For what a server does not take."""
    return PayloadTooLargeError(f"the message is larger than the backend takes: raise {limit}, or send less")


__all__ = [
    "EVERY",
    "Backend",
    "BackendSubscription",
    "Delivered",
    "Health",
    "Namespaces",
    "Outgoing",
    "Place",
    "PlacingBackend",
    "SharedSubscription",
    "TakesAll",
]
