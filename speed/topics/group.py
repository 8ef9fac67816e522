"""A subscription with its last answers: what its consumers get, wherever its messages lie (D-9 to D-11)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from speed.errors import JournalError, SpeedError
from speed.topics.subscription import Subscription, SubscriptionError, Taken, Terms
from speed.wire.limits import MAX_TOPIC_ANSWER_BYTES
from speed.wire.topic import DEAD_LETTER, Head, decode, encode

Message = list[Any]
"""What consumers get: offset, attempts, recorded (Unix ms), and the bytes of the record."""


class Stored(NamedTuple):
    """One message of a topic; ``data`` is its head, what is said of it, its payload."""

    offset: int
    recorded_ms: int
    data: bytes


class Source(Protocol):
    """Where the messages of a subscription come from, and where it says what became of them."""

    @property
    def name(self) -> str:
        """Of the topic."""

    def offer(self, group: Group, most: int) -> bool:
        """Offer its machine what comes next; False if there is nothing."""

    def one(self, group: Group, offset: int) -> Stored | None:
        """A message that was offered; None if it is not there any more."""

    def settle(self, group: Group, offsets: Sequence[int]) -> None:
        """Acknowledge for its consumers."""

    def save(self, group: Group) -> None:
        """Keep what was delivered. Raises SpeedError; then nothing was."""

    def bury(self, name: str, letter: bytes) -> None:
        """Publish a dead letter to the topic of a name."""


def steady_ms() -> int:
    """A clock that never jumps."""
    return time.monotonic_ns() // 1_000_000


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


def new_epoch() -> int:
    """A number that no subscription had before."""
    return secrets.randbits(48)


class Group:
    """Not thread-safe: its topic holds a lock around each method."""

    def __init__(self, name: str, machine: Subscription, epoch: int = 0) -> None:
        self.name = name
        self.machine = machine
        self.epoch = epoch
        """Another one since the subscription began anew: what was delivered before is not of this one."""
        self.answers: dict[str, tuple[int, list[int]]] = {}
        """Of each consumer: the number of the last answer, and its offsets."""

    def state(self) -> dict[str, Any]:
        """What its file says."""
        machine = self.machine
        terms = machine.terms
        return {
            "name": self.name,
            "epoch": self.epoch,
            "type": terms.type,
            "max_deliveries": terms.max_deliveries,
            "ack_timeout_ms": terms.ack_timeout_ms,
            "dead_letter": terms.dead_letter,
            "cursor": machine.cursor,
            "ranges": [list(pair) for pair in machine.ranges],
            "attempts": [list(pair) for pair in machine.attempts.items()],
        }

    @classmethod
    def of(cls, state: Mapping[str, Any], log_end: int) -> Group:
        """As it was left; what it says of offsets that the log does not have is of another copy of the topic.

        Raises KeyError, TypeError, ValueError for what cannot be.
        """
        terms = Terms(state["type"], state["max_deliveries"], state["ack_timeout_ms"], state["dead_letter"])
        ranges = [(start, min(end, log_end)) for start, end in state["ranges"]]
        attempts = {offset: count for offset, count in state["attempts"] if offset < log_end}
        machine = Subscription(terms, min(state["cursor"], log_end), ranges, attempts)
        return cls(state["name"], machine, int(state.get("epoch", 0)))

    def begin_anew(self, consumer: str) -> None:
        """A consumer that joins has no answer yet."""
        self.answers.pop(consumer, None)

    def receive(
        self,
        source: Source,
        consumer: str,
        most: int,
        got: int,
        begun: int | None = None,
        most_bytes: int = MAX_TOPIC_ANSWER_BYTES,
    ) -> tuple[int, list[Message]]:
        """What a consumer gets now, and the number of this answer. ``got`` is the number of the last one it has.

        Of the first ``begun`` messages the delivery counts at once; None: of all. Raises SubscriptionError STORAGE for
        a message that is larger than ``most_bytes``.
        """
        machine = self.machine
        number, offsets = self.answers.get(consumer, (0, []))
        if got != number:
            machine.put_back(consumer, offsets)
        machine.look(steady_ms())
        self._bury_dead(source)
        taken = self._taken(source, consumer, most, begun)
        messages = self._messages(source, taken, most_bytes) if taken else []
        if not messages:
            return number, []
        self.answers[consumer] = number + 1, [message[0] for message in messages]
        try:
            source.save(self)
        except SpeedError:
            machine.put_back(consumer, self.answers.pop(consumer)[1])
            self.answers[consumer] = number, []
            raise
        return number + 1, messages

    def begin(self, source: Source, consumer: str, offsets: Sequence[int]) -> list[int]:
        """The program gets these now: their delivery counts. Returns those that the consumer still has."""
        begun = self.machine.begin(consumer, offsets, steady_ms())
        if begun:
            source.save(self)
        return begun

    def _taken(self, source: Source, consumer: str, most: int, begun: int | None) -> list[Taken]:
        """As far as it takes to give ``most``, and as there is room. Damage is told when nothing is before it."""
        machine = self.machine
        taken = machine.take(consumer, most, steady_ms(), begun)
        while len(taken) < most and machine.room:
            try:
                if not source.offer(self, min(machine.room, most - len(taken))):
                    break
            except JournalError:
                if taken:
                    break
                raise
            left = None if begun is None else max(0, begun - len(taken))
            taken += machine.take(consumer, most - len(taken), steady_ms(), left)
        return taken

    def _messages(self, source: Source, taken: Sequence[Taken], most_bytes: int) -> list[Message]:
        """What was taken, as far as it is still there and an answer holds; the rest is put back."""
        messages: list[Message] = []
        size = 0
        gone: list[int] = []
        holder = self.machine.holder(taken[0].offset)
        for place, (offset, attempts) in enumerate(taken):
            try:
                stored = source.one(self, offset)
                _check_fits(stored, most_bytes)
            except (SpeedError, SubscriptionError):
                self.machine.put_back(holder, [one.offset for one in taken[place:]])
                if messages:
                    break
                raise
            if stored is None:
                gone.append(offset)
                continue
            size += len(stored.data)
            if messages and size > min(most_bytes, MAX_TOPIC_ANSWER_BYTES):
                self.machine.put_back(holder, [one.offset for one in taken[place:]])
                break
            messages.append([offset, attempts, stored.recorded_ms, stored.data])
        self.machine.acknowledge(gone)
        return messages

    def _bury_dead(self, source: Source) -> None:
        """Put aside what was delivered as often as it may be; what cannot be put aside stays."""
        dead = self.machine.dead()
        if not dead:
            return
        aside = self.machine.terms.dead_letter
        for offset, attempts in dead:
            stored = source.one(self, offset)
            if stored is not None and aside:
                source.bury(aside, self._dead_letter(source.name, stored, attempts))
            source.settle(self, [offset])
        source.save(self)

    def _dead_letter(self, topic: str, stored: Stored, attempts: int) -> bytes:
        kept = decode(stored.data)
        about = {name: value for name, value in kept.about.items() if name in ("key", "properties", "publisher")}
        about["origin"] = [topic, stored.offset, self.name]
        return encode(Head(DEAD_LETTER, attempts, kept.head.key_hash), about, kept.payload)


def _check_fits(stored: Stored | None, most_bytes: int) -> None:
    if stored is not None and most_bytes < MAX_TOPIC_ANSWER_BYTES and len(stored.data) > most_bytes:
        text = f"a message of {len(stored.data)} bytes cannot be delivered: the root is full; make room there"
        raise SubscriptionError("STORAGE", text)
