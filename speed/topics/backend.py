"""Where topics lie, as their host sees it: it checks who asks for what, and these do it.

Methods raise SubscriptionError with the codes of the contract, StorageError for what may be tried again, and
JournalError for what is full or damaged. The host holds ``lock`` around all that it asks; it is given up in ``wait``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from speed.journal.reseal import Resealed
from speed.topics.group import Group, Message, Stored
from speed.topics.producers import Producer, Recorded
from speed.topics.subscription import Terms
from speed.wire.limits import MAX_TOPIC_ANSWER_BYTES

Start = int | str | Mapping[str, Any]
"""Where to begin: an offset, ``latest``, ``earliest``, ``{"at_ms": …}``, or ``{"last": …}`` messages before the end."""


class HostedTopic(Protocol):
    """One topic."""

    name: str
    parent: str
    """The topic whose grants hold for this one too; empty without one."""
    changes: int
    """Grows with whatever may be new for who waits."""

    @property
    def lane(self) -> str:
        """Another one when the topic is made anew."""

    def publish(self, producer: Producer | None, messages: Sequence[tuple[int, bytes]]) -> list[Recorded]:
        """Record (sequence, bytes) of each; returns where they are, repetitions where they were before."""

    def forget_producer(self, name: str, owner: str = "") -> int:
        """Know nothing more of a producer, of one owner or of all; returns how many of the name there were."""

    def subscribe(self, name: str, consumer: str, terms: Terms, start: Start) -> Group:
        """Join; the subscription is made at ``start`` if it is not there."""

    def group(self, name: str) -> Group:
        """A subscription that is there."""

    def receive(
        self,
        group: Group,
        consumer: str,
        most: int,
        got: int,
        begun: int | None = None,
        most_bytes: int = MAX_TOPIC_ANSWER_BYTES,
    ) -> tuple[int, list[Message]]:
        """What a consumer gets now, and the number of this answer; ``begun`` of them for its program at once."""

    def begin(self, group: Group, consumer: str, offsets: Sequence[int]) -> list[int]:
        """The program gets these now. Returns those that the consumer still has."""

    def acknowledge(self, group: Group, lane: str, offsets: Sequence[int], until: int | None) -> int:
        """Returns how many were not acknowledged before."""

    def reject(self, group: Group, consumer: str, offsets: Sequence[int], delay_ms: int | None) -> int:
        """Returns how many come again."""

    def leave(self, group: Group, consumer: str, unseen: Sequence[int] = ()) -> None:
        """A consumer is gone; what it never saw was not delivered."""

    def left(self, node: str) -> None:
        """A node is gone, with all its consumers."""

    def place(self, start: Start) -> int:
        """The offset that ``start`` means."""

    def read(self, start: int, most: int) -> tuple[int, list[Stored]]:
        """Messages from an offset on, and the offset behind them."""

    def seek(self, name: str, to: Start) -> int:
        """Begin a subscription anew; returns the offset."""

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription without consumers."""

    def purge(self, *, dry_run: bool) -> int:
        """Acknowledge everything in every subscription; returns how many messages that are."""

    def described(self) -> dict[str, Any]:
        """What people look at."""

    def until_event(self, subscription: str) -> float:
        """Seconds until something may be due that is not yet."""

    def wait(self, seen: int, seconds: float) -> None:
        """Until ``changes`` is no longer ``seen``, at most for so long."""

    def wake(self) -> None:
        """Whoever waits looks again."""


class Backend(Protocol):
    """All topics of one host."""

    told: Callable[[str], None]
    """Is called with the name of a topic in which something may be new."""
    broken: dict[str, str]
    """Topics that cannot be used, and why."""

    @property
    def place(self) -> str:
        """Where they lie, for people."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """What the host holds."""

    def known(self, name: str) -> HostedTopic | None:
        """The topic of a name; None if it is not there or broken."""

    def find(self, name: str) -> HostedTopic:
        """Raises SubscriptionError UNKNOWN_TOPIC, DAMAGED."""

    def used(self) -> Iterable[HostedTopic]:
        """Those with consumers at this host, at least."""

    def every(self) -> Iterable[HostedTopic]:
        """All there are."""

    def make(self, name: str, parent: str = "") -> HostedTopic:
        """The topic of a name, made if it is not there."""

    def begin(self, wanted: Sequence[str]) -> None:
        """Make these topics, now or as soon as that is possible."""

    def remove(self, name: str) -> None:
        """Remove a topic with everything in it."""

    def ask_to_compact(self, name: str) -> int:
        """Have a topic compacted soon; returns the offset before which that may be."""

    def reseal(self) -> Iterator[Resealed]:
        """Seal anew with the first key what others sealed; ``lock`` is not held meanwhile."""

    def retain(self) -> str:
        """Do what is to be done now and then. Returns what is wrong; empty if nothing is."""

    def close(self) -> None:
        """Save what is only in memory, and release everything."""
