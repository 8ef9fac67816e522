"""Where topics lie, as their host sees it; what producers published last (D-6), what consumers got (D-9 to D-11).

A producer is a name together with its owner, the node that publishes under it or a family in which that node is:
nobody speaks for the producer of another one.

Methods raise SubscriptionError with the codes of the contract, StorageError for what may be tried again, and
JournalError for what is full or damaged. The host holds ``lock`` around all that it asks; it is given up in ``wait``.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from speed.errors import JournalError, SpeedError
from speed.journal.reseal import Resealed
from speed.topics.subscription import SubscriptionError, SubscriptionState, TakenMessage, Terms
from speed.wire.limits import MAX_OWNER_PRODUCERS, MAX_TOPIC_ANSWER_BYTES, MAX_TOPIC_PRODUCERS, TOPIC_PRODUCER_SECONDS
from speed.wire.topic import DEAD_LETTER, MESSAGE, TOMBSTONE, RecordHead, decode, encode

# What each producer published last in one topic: a repetition is known by its sequence (D-6).

RUNS = 8
"""Of each producer: so many runs of what it published last are remembered with their offsets."""


class ProducerIdentity(NamedTuple):
    """A name, and the authenticated node, or family of nodes, that publishes under it."""

    owner: str
    name: str


class Recorded(NamedTuple):
    """Where a message is kept; ``offset`` is -1 where that is not known any more."""

    offset: int
    is_repeated: bool = False


class Run(NamedTuple):
    """Messages whose sequences and offsets follow each other."""

    sequence: int
    offset: int
    length: int


class Last(NamedTuple):
    """The sequence that a producer published last, when, and where its last messages are."""

    sequence: int
    ms: int
    runs: tuple[Run, ...] = ()

    def offset_of(self, sequence: int) -> int:
        """Where a message is kept; -1 if that is not known any more."""
        for run in self.runs:
            if run.sequence <= sequence < run.sequence + run.length:
                return run.offset + sequence - run.sequence
        return -1

    def then(self, sequence: int, offset: int, ms: int) -> Last:
        """With one more message."""
        *before, last = self.runs or (Run(sequence, offset, 0),)
        if sequence - last.sequence == offset - last.offset == last.length:
            return Last(sequence, ms, (*before, last._replace(length=last.length + 1)))
        return Last(sequence, ms, (*self.runs, Run(sequence, offset, 1))[-RUNS:])


NEVER = Last(0, 0)


class Producers:
    """Not thread-safe. Times are Unix ms."""

    def __init__(self, saved: Mapping[str, Any] | None) -> None:
        """``saved`` is what ``state`` gave; what was recorded since then is to be noted again, from ``end`` on.

        Raises KeyError, TypeError, ValueError for what cannot be.
        """
        self.end = int(saved["end"]) if saved else 0
        rows: Iterable[Any] = saved["producers"] if saved else ()
        self._last = {
            ProducerIdentity(owner, name): Last(sequence, ms, tuple(Run(*run) for run in runs))
            for owner, name, sequence, ms, runs in rows
        }

    def check_room(self, producer: ProducerIdentity, now_ms: int) -> None:
        """Make room for one more. Raises SubscriptionError FULL if its owner has too many lately."""
        if producer in self._last:
            return
        own = [one for one in self._last if one.owner == producer.owner]
        if len(own) >= MAX_OWNER_PRODUCERS:
            self._forget_silent(own, now_ms, f"{producer.owner} has {len(own)}")
        elif len(self._last) >= MAX_TOPIC_PRODUCERS and not self._has_taken_from_largest(len(own)):
            self._forget_silent(self._last, now_ms, f"it has {len(self._last)}")

    def _has_taken_from_largest(self, own: int) -> bool:
        """Whether room was made by the owner of the most names, if that has more than the one who asks."""
        largest, count = Counter(one.owner for one in self._last).most_common(1)[0]
        if count <= own + 1:
            return False
        del self._last[self._longest_silent(one for one in self._last if one.owner == largest)]
        return True

    def _forget_silent(self, some: Collection[ProducerIdentity], now_ms: int, text: str) -> None:
        silent = self._longest_silent(some)
        if now_ms - self._last[silent].ms < TOPIC_PRODUCER_SECONDS * 1000:
            raise SubscriptionError(
                "FULL", f"too many producers of the topic are remembered: {text}; use fewer names, or forget some"
            )
        del self._last[silent]

    def _longest_silent(self, some: Iterable[ProducerIdentity]) -> ProducerIdentity:
        return min(some, key=lambda one: self._last[one].ms)

    def note(self, producer: ProducerIdentity, sequence: int, offset: int, now_ms: int) -> None:
        """A message is recorded; the last one counts, whatever its sequence."""
        self._last[producer] = self._last.get(producer, NEVER).then(sequence, offset, now_ms)

    def last(self, producer: ProducerIdentity) -> Last:
        """What it published last."""
        return self._last.get(producer, NEVER)

    def forget(self, name: str, owner: str = "") -> int:
        """Know nothing more of the producers of a name, of one owner or of all. Returns how many there were."""
        gone = [one for one in self._last if one.name == name and owner in ("", one.owner)]
        for one in gone:
            del self._last[one]
        return len(gone)

    def described(self) -> list[dict[str, Any]]:
        """What people look at."""
        return [
            {"owner": one.owner, "producer": one.name, "sequence": last.sequence, "last_ms": last.ms}
            for one, last in self._last.items()
        ]

    def state(self, end: int) -> dict[str, Any]:
        """What is to be saved once all before ``end`` is noted."""
        self.end = end
        rows = [[*one, last.sequence, last.ms, [list(run) for run in last.runs]] for one, last in self._last.items()]
        return {"end": end, "producers": rows}


# A subscription with its last answers: what its consumers get, wherever its messages lie (D-9 to D-11).

Message = list[Any]
"""What consumers get: offset, attempts, recorded (Unix ms), and the bytes of the record."""


class StoredMessage(NamedTuple):
    """One message of a topic; ``data`` is its head, what is said of it, its payload."""

    offset: int
    recorded_ms: int
    data: bytes


class SubscriptionSource(Protocol):
    """Where the messages of a subscription come from, and where it says what became of them."""

    @property
    def name(self) -> str:
        """Of the topic."""

    def offer(self, group: Group, limit: int) -> bool:
        """Offer its machine what comes next; False if there is nothing."""

    def one(self, group: Group, offset: int) -> StoredMessage | None:
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

    def __init__(self, name: str, machine: SubscriptionState, epoch: int = 0) -> None:
        self.name = name
        self.machine = machine
        self.epoch = epoch
        """Another one since the subscription began anew: what was delivered before is not of this one."""
        self.acknowledged_ms = 0
        """When something was acknowledged last, in this life of the host (Unix ms); 0 if nothing was."""
        self.oldest: tuple[int, int] = (-1, 0)
        """The offset of the oldest message that is not acknowledged, and when it was recorded (Unix ms)."""
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
        machine = SubscriptionState(terms, min(state["cursor"], log_end), ranges, attempts)
        return cls(state["name"], machine, int(state.get("epoch", 0)))

    def begin_anew(self, consumer: str) -> None:
        """A consumer that joins has no answer yet."""
        self.answers.pop(consumer, None)

    def receive(
        self,
        source: SubscriptionSource,
        consumer: str,
        limit: int,
        got: int,
        begun: int | None = None,
        max_bytes: int = MAX_TOPIC_ANSWER_BYTES,
    ) -> tuple[int, list[Message]]:
        """What a consumer gets now, and the number of this answer. ``got`` is the number of the last one it has.

        Of the first ``begun`` messages the delivery counts at once; None: of all. Raises SubscriptionError STORAGE for
        a message that is larger than ``max_bytes``.
        """
        machine = self.machine
        number, offsets = self.answers.get(consumer, (0, []))
        if got != number:
            machine.put_back(consumer, offsets)
        machine.look(steady_ms())
        self._bury_dead(source)
        taken = self._taken(source, consumer, limit, begun)
        messages = self._messages(source, taken, max_bytes) if taken else []
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

    def begin(self, source: SubscriptionSource, consumer: str, offsets: Sequence[int]) -> list[int]:
        """The program gets these now: their delivery counts. Returns those that the consumer still has."""
        begun = self.machine.begin(consumer, offsets, steady_ms())
        if begun:
            source.save(self)
        return begun

    def _taken(self, source: SubscriptionSource, consumer: str, limit: int, begun: int | None) -> list[TakenMessage]:
        """As far as it takes to give ``limit``, and as there is room. Damage is told when nothing is before it."""
        machine = self.machine
        taken = machine.take(consumer, limit, steady_ms(), begun)
        while len(taken) < limit and machine.room:
            try:
                if not source.offer(self, min(machine.room, limit - len(taken))):
                    break
            except JournalError:
                if taken:
                    break
                raise
            left = None if begun is None else max(0, begun - len(taken))
            taken += machine.take(consumer, limit - len(taken), steady_ms(), left)
        return taken

    def _messages(self, source: SubscriptionSource, taken: Sequence[TakenMessage], max_bytes: int) -> list[Message]:
        """What was taken, as far as it is still there and an answer holds; the rest is put back."""
        messages: list[Message] = []
        size = 0
        gone: list[int] = []
        holder = self.machine.holder(taken[0].offset)
        for place, (offset, attempts) in enumerate(taken):
            try:
                stored = source.one(self, offset)
                _check_fits(stored, max_bytes)
            except (SpeedError, SubscriptionError):
                self.machine.put_back(holder, [one.offset for one in taken[place:]])
                if messages:
                    break
                raise
            if stored is None:
                gone.append(offset)
                continue
            size += len(stored.data)
            if messages and size > min(max_bytes, MAX_TOPIC_ANSWER_BYTES):
                self.machine.put_back(holder, [one.offset for one in taken[place:]])
                break
            messages.append([offset, attempts, stored.recorded_ms, stored.data])
        self.machine.acknowledge(gone)
        return messages

    def _bury_dead(self, source: SubscriptionSource) -> None:
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

    def _dead_letter(self, topic: str, stored: StoredMessage, attempts: int) -> bytes:
        kept = decode(stored.data)
        about = {name: value for name, value in kept.about.items() if name in ("key", "properties", "publisher")}
        about["origin"] = [topic, stored.offset, self.name]
        return encode(RecordHead(DEAD_LETTER, attempts, kept.head.key_hash), about, kept.payload)


def _check_fits(stored: StoredMessage | None, max_bytes: int) -> None:
    if stored is not None and max_bytes < MAX_TOPIC_ANSWER_BYTES and len(stored.data) > max_bytes:
        text = f"a message of {len(stored.data)} bytes cannot be delivered: the root is full; make room there"
        raise SubscriptionError("STORAGE", text)


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

    def publish(self, producer: ProducerIdentity | None, messages: Sequence[tuple[int, bytes]]) -> list[Recorded]:
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
        limit: int,
        got: int,
        begun: int | None = None,
        max_bytes: int = MAX_TOPIC_ANSWER_BYTES,
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

    def read(self, start: int, limit: int) -> tuple[int, list[StoredMessage]]:
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


# Dead letters, published anew where they came from (D-30).

REDRIVE = "redrive"
"""The subscription that knows which were."""
REDRIVE_SECONDS = 2.0
"""Messages of a cluster come by themselves, a moment after who joins."""


def unread_text(backlog: int) -> str:
    """That messages wait in a subscription that nobody consumes."""
    if backlog == 1:
        return "1 message waits, and nobody consumes it"
    return f"{backlog} messages wait, and nobody consumes them"


def cure_of_unread(topic: str, subscription: str) -> str:
    """What to do about a subscription in which messages wait that nobody consumes."""
    if subscription == REDRIVE:
        return f"`speed topic redrive {topic}` publishes them again where they came from"
    return f"start its consumer, or `speed topic unsubscribe {topic} {subscription}`"


def redrive(
    topic: HostedTopic, caller: str, most: int, publish: Callable[[str, list[bytes]], object]
) -> tuple[int, int]:
    """Publish the oldest dead letters of ``topic`` for ``caller``. Returns how many, and how many messages are left.

    ``publish`` records in the topic of a name; what it raises ends this.
    """
    consumer, done = f"{caller}/{REDRIVE}", 0
    group = topic.subscribe(REDRIVE, consumer, Terms("shared"), "earliest")
    try:
        for origin, some in groupby(_oldest(topic, group, consumer, most), key=lambda one: _origin_of(one[3])):
            letters = list(some)
            if origin:
                publish(origin, [_as_published(one[3]) for one in letters])
                done += len(letters)
            topic.acknowledge(group, topic.lane, [one[0] for one in letters], None)
    finally:
        topic.leave(group, consumer)
    return done, _left_to_redrive(topic)


def _left_to_redrive(topic: HostedTopic) -> int:
    """Messages that the subscription has not acknowledged."""
    rows = topic.described()["subscriptions"]
    return next((int(one["backlog"]) for one in rows if one["subscription"] == REDRIVE), 0)


def _oldest(topic: HostedTopic, group: Group, consumer: str, most: int) -> list[Message]:
    """None of them counts as delivered: one that cannot be published is the first again, and at once."""
    ends = time.monotonic() + REDRIVE_SECONDS
    while True:
        seen = topic.changes
        _, letters = topic.receive(group, consumer, most, 0, 0)
        if letters or time.monotonic() > ends or not _left_to_redrive(topic):
            return letters
        topic.wait(seen, REDRIVE_SECONDS / 10)


def _origin_of(record: bytes) -> str:
    """The topic in which a dead letter was published; empty for what is none."""
    kept = decode(record)
    return str(kept.about["origin"][0]) if kept.head.type == DEAD_LETTER else ""


def _as_published(letter: bytes) -> bytes:
    kept = decode(letter)
    about = {name: value for name, value in kept.about.items() if name != "origin"}
    kind = MESSAGE if kept.payload or not kept.head.key_hash else TOMBSTONE
    return encode(RecordHead(kind, 0, kept.head.key_hash), about, kept.payload)


class TopicStore(Protocol):
    """All topics of one host."""

    notify: Callable[[str], None]
    """Called with the name of a topic in which something may be new."""
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
