"""One topic: its log, its producers, its subscriptions, its retention. The host holds one lock around everything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from speed.core.log import logger
from speed.errors import JournalError, SpeedError, WireError
from speed.topics.backend import (
    Group,
    Message,
    ProducerIdentity,
    Producers,
    Recorded,
    Start,
    StoredMessage,
    new_epoch,
    steady_ms,
    unix_ms,
)
from speed.topics.storage import DamagedMessagesError, Plan, TopicLog, TopicState, room_at
from speed.topics.subscription import SubscriptionError, SubscriptionState, Terms
from speed.wire.limits import MAX_SUBSCRIPTIONS, MAX_TOPIC_ANSWER_BYTES, MAX_TOPIC_DELAYED, TOPIC_WAIT_SECONDS
from speed.wire.topic import COMPACTED, PRODUCERS, SETTINGS, cursor_name, decode, decode_head, due_of

log = logger("speed.topics")

PRODUCERS_EVERY = 16384
"""Records after which the producers are saved: no more are read at the next start."""


@dataclass(frozen=True)
class Keeping:
    """How long messages are kept; None is no bound."""

    max_bytes: int | None = None
    max_age_seconds: float | None = None
    keep: str = "all"
    """``all``; ``unacknowledged``: what every subscription has acknowledged may go; ``latest``: of that, what has a
    later message of its key."""
    backlog: str = "drop-oldest"
    """Beyond ``max_bytes``: ``drop-oldest``, or ``refuse`` the producer while a subscription needs the oldest."""
    tombstone_seconds: float = 86400.0
    """With ``latest``: so long a tombstone is there for readers that have its key from before. A day, as in Kafka."""


class HostedTopic:
    """Raises SubscriptionError (codes of D-18) and StorageError; what failed left nothing behind."""

    def __init__(
        self,
        name: str,
        log: TopicLog,
        state: TopicState,
        keeping: Keeping,
        lock: threading.RLock,
        bury: Callable[[str, bytes], object],
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``bury`` publishes a dead letter to the topic of a name; ``notify`` is called when something may be new."""
        self.name, self.log, self.keeping = name, log, keeping
        self._state, self._bury, self._notify = state, bury, notify
        self.changed = threading.Condition(lock)
        self.changes = 0
        self.groups: dict[str, Group] = {}
        self.damaged: dict[str, str] = {}
        """Files of cursors that cannot be read, and why."""
        self.parent = ""
        self._due: list[int] = []
        """A heap of the times, in Unix ms, of delayed messages that were published since the host began."""
        self._know_groups()
        self._producers = self._known_producers()

    def _know_groups(self) -> None:
        for file, state in self._state.cursors().items():
            try:
                group = Group.of(state if isinstance(state, dict) else {"": state}, self.log.end)
            except (KeyError, TypeError, ValueError):
                self.damaged[file] = state if isinstance(state, str) else "it says what cannot be"
                continue
            group.machine.skip(self.log.first)
            self.groups[group.name] = group

    def _known_producers(self) -> Producers:
        """Those that were saved, and what was recorded since then."""
        try:
            producers = Producers(self._state.get(PRODUCERS))
        except (OSError, WireError, KeyError, TypeError, ValueError) as error:
            log.warning("topic %s: its producers are read anew from its messages: %s", self.name, error)
            producers = Producers(None)
        start = producers.end
        while found := self._sound_from(start):
            for stored in found:
                head = decode_head(stored.data)
                if head.sequence and (producer := _producer_of(stored)) is not None:
                    producers.note(producer, head.sequence, stored.offset, stored.recorded_ms)
            start = found[-1].offset + 1
        return producers

    def _sound_from(self, start: int) -> list[StoredMessage]:
        """Messages from ``start`` on that can be read; consumers are told of the others."""
        while True:
            try:
                return self.log.read(start)
            except DamagedMessagesError as damage:
                start = damage.end

    @property
    def lane(self) -> str:
        return self.log.lane

    # --- publishing ---

    def publish(self, producer: ProducerIdentity | None, messages: Sequence[tuple[int, bytes]]) -> list[Recorded]:
        """Record (sequence, bytes) of each; returns where they are, repetitions where they were before."""
        room_at(self.log.directory).check(self.log.directory, sum(len(data) for _, data in messages))
        return self.record(producer, messages)

    def record(self, producer: ProducerIdentity | None, messages: Sequence[tuple[int, bytes]]) -> list[Recorded]:
        """The same to the last byte of the file system."""
        self._check_room()
        delayed = self._check_delayed([data for _, data in messages])
        if producer is not None:
            recorded = self._recorded_once(producer, messages)
        else:
            recorded = [Recorded(offset) for offset in self._recorded([data for _, data in messages])]
        for due_ms in delayed:
            heappush(self._due, due_ms)
        self.wake()
        if self.log.end - self._producers.end >= PRODUCERS_EVERY:
            self._save_producers()
        return recorded

    def _check_delayed(self, records: Sequence[bytes]) -> list[int]:
        """Times of those that are not due yet. Raises SubscriptionError FULL where too many wait already."""
        delayed = [due_ms for data in records if (due_ms := due_of(data))]
        if not delayed:
            return []
        now_ms = unix_ms()
        while self._due and self._due[0] <= now_ms:
            heappop(self._due)
        if len(self._due) + len(delayed) > MAX_TOPIC_DELAYED:
            text = f"{len(self._due)} messages of topic {self.name!r} wait for their time"
            raise SubscriptionError("FULL", f"{text}, at most {MAX_TOPIC_DELAYED} may: publish later")
        return [due_ms for due_ms in delayed if due_ms > now_ms]

    def _recorded(self, records: Sequence[bytes]) -> list[int]:
        first = self.log.append(records) if records else 0
        return list(range(first, first + len(records)))

    def _recorded_once(self, producer: ProducerIdentity, messages: Sequence[tuple[int, bytes]]) -> list[Recorded]:
        """Leave out what this producer published before."""
        fresh, seen = set(), self._producers.last(producer).sequence
        for place, (sequence, _) in enumerate(messages):
            if not sequence or sequence > seen:
                seen = max(seen, sequence)
                fresh.add(place)
        if seen:
            self._producers.check_room(producer, unix_ms())
        offsets = iter(self._recorded([messages[place][1] for place in sorted(fresh)]))
        recorded, now_ms = [], unix_ms()
        for place, (sequence, _) in enumerate(messages):
            if place not in fresh:
                recorded.append(Recorded(self._producers.last(producer).offset_of(sequence), is_repeated=True))
                continue
            recorded.append(Recorded(next(offsets)))
            if sequence:
                self._producers.note(producer, sequence, recorded[-1].offset, now_ms)
        return recorded

    def forget_producer(self, name: str, owner: str = "") -> int:
        """Know nothing more of a producer; returns how many of the name there were. Raises StorageError."""
        gone = self._producers.forget(name, owner)
        self._save_producers()
        return gone

    def _check_room(self) -> None:
        limit = self.keeping.max_bytes
        if limit is None or self.log.bytes < limit:
            return
        with suppress(OSError, SpeedError):
            self.retain()
        if self.keeping.backlog == "refuse" and self.log.bytes >= limit and self.groups:
            slowest = min(self.groups.values(), key=lambda group: group.machine.cursor)
            text = f"topic {self.name!r} holds {self.log.bytes} bytes, and subscription {slowest.name!r} still needs "
            raise SubscriptionError("FULL", f"{text}its oldest: consume it, or raise max_bytes")

    def _save_producers(self) -> None:
        self._state.put(PRODUCERS, self._producers.state(self.log.end))

    # --- subscriptions ---

    def group(self, name: str) -> Group:
        """Raises SubscriptionError UNKNOWN_SUBSCRIPTION, DAMAGED."""
        found = self.groups.get(name)
        if found is not None:
            return found
        why = self.damaged.get(cursor_name(name))
        if why is not None:
            text = f"the cursor of subscription {name!r} cannot be read ({why}): seek to where it shall go on"
            raise SubscriptionError("DAMAGED", text)
        raise SubscriptionError("UNKNOWN_SUBSCRIPTION", f"topic {self.name!r} has no subscription {name!r}")

    def subscribe(self, name: str, consumer: str, terms: Terms, start: Start) -> Group:
        """Join; the subscription is made at ``start`` if it is not there."""
        if name not in self.groups and cursor_name(name) not in self.damaged:
            return self._made_group(name, consumer, terms, start)
        group = self.group(name)
        group.machine.terms.check_fits(name, terms)
        group.machine.join(consumer)
        group.begin_anew(consumer)
        self.wake()
        return group

    def _made_group(self, name: str, consumer: str, terms: Terms, start: Start) -> Group:
        if len(self.groups) + len(self.damaged) >= MAX_SUBSCRIPTIONS:
            raise SubscriptionError("FULL", f"topic {self.name!r} has {MAX_SUBSCRIPTIONS} subscriptions: remove some")
        group = Group(name, SubscriptionState(terms, self.place(start)), new_epoch())
        group.machine.join(consumer)
        self.save(group)
        self.groups[name] = group
        return group

    def place(self, start: Start) -> int:
        """The offset that ``start`` means. Raises SubscriptionError INVALID_ARGUMENTS."""
        if start == "latest":
            return self.log.end
        if start == "earliest":
            return self.log.first
        if isinstance(start, Mapping) and type(at := start.get("at_ms")) is int and at >= 0:
            return self.log.offset_at(at)
        if isinstance(start, Mapping) and type(count := start.get("last")) is int and count >= 0:
            return max(self.log.first, self.log.end - count)
        if type(start) is int and self.log.first <= start <= self.log.end:
            return start
        text = f"{start!r} is no place in topic {self.name!r}: use 'latest', 'earliest', a time in milliseconds, or "
        raise SubscriptionError("INVALID_ARGUMENTS", f"{text}an offset from {self.log.first} to {self.log.end}")

    def read(self, start: int, limit: int) -> tuple[int, list[StoredMessage]]:
        """Messages from an offset on, and the offset behind them."""
        kept = self.log.read(start, limit)
        return (kept[-1].offset + 1 if kept else start), kept

    def receive(
        self,
        group: Group,
        consumer: str,
        limit: int,
        got: int,
        begun: int | None = None,
        max_bytes: int = MAX_TOPIC_ANSWER_BYTES,
    ) -> tuple[int, list[Message]]:
        """What a consumer gets now, and the number of this answer. ``got`` is the number of the last one it has."""
        return group.receive(self, consumer, limit, got, begun, max_bytes)

    def begin(self, group: Group, consumer: str, offsets: Sequence[int]) -> list[int]:
        """The program gets these now. Returns those that the consumer still has."""
        return group.begin(self, consumer, offsets)

    def offer(self, group: Group, limit: int) -> bool:
        """Read on in the log; False at its end. Raises DamagedMessagesError for what is not acknowledged."""
        try:
            found = self.log.read(group.machine.next, limit)
        except DamagedMessagesError as damage:
            if not group.machine.pass_settled(damage.end):
                raise
            return True
        ahead = steady_ms() - unix_ms()
        for stored in found:
            head = decode_head(stored.data)
            group.machine.offer(stored.offset, head.key_hash, head.due_ms and head.due_ms + ahead)
        return bool(found)

    def one(self, group: Group, offset: int) -> StoredMessage | None:
        """The message of one offset; None if it is not there any more."""
        return self.log.one(offset)

    def settle(self, group: Group, offsets: Sequence[int]) -> None:
        """Nobody needs these any more; ``save`` says so."""
        group.machine.acknowledge(offsets)

    def save(self, group: Group) -> None:
        """Have its file say how it is, if it has one. Raises StorageError."""
        if group.machine.terms.durable:
            self._state.put(cursor_name(group.name), group.state())

    def bury(self, name: str, letter: bytes) -> None:
        """Publish a dead letter to the topic of a name."""
        self._bury(name, letter)

    def acknowledge(self, group: Group, lane: str, offsets: Sequence[int], until: int | None) -> int:
        """Returns how many were not acknowledged before."""
        if lane != self.log.lane:
            text = f"these are messages of another topic than {self.name!r}, or of one that was made anew"
            raise SubscriptionError("INVALID_ARGUMENTS", text)
        settled = group.machine.acknowledge(offsets) if until is None else group.machine.acknowledge_until(until)
        group.acknowledged_ms = unix_ms() if settled else group.acknowledged_ms
        self.save(group)
        self.wake()
        return settled

    def reject(self, group: Group, consumer: str, offsets: Sequence[int], delay_ms: int | None) -> int:
        """Returns how many come again."""
        rejected = group.machine.reject(consumer, offsets, steady_ms(), delay_ms)
        self.wake()
        return rejected

    def leave(self, group: Group, consumer: str, unseen: Sequence[int] = ()) -> None:
        """A consumer is gone; what it never saw was not delivered."""
        group.machine.put_back(consumer, unseen)
        group.machine.leave(consumer, steady_ms())
        self.log.rest()
        group.answers.pop(consumer, None)
        if not group.machine.terms.durable and not group.machine.consumers:
            del self.groups[group.name]
        self.wake()

    def left(self, node: str) -> None:
        """A node is gone, with all its consumers."""
        for group in list(self.groups.values()):
            for consumer in group.machine.consumers:
                if consumer.startswith(f"{node}/"):
                    self.leave(group, consumer)

    def seek(self, name: str, to: Start) -> int:
        """Begin a subscription anew; one that is damaged is made again, shared. Returns the offset."""
        offset = self.place(to)
        if name not in self.groups and cursor_name(name) in self.damaged:
            group = Group(name, SubscriptionState(Terms("shared"), offset), new_epoch())
        else:
            group = self.group(name)
            group.machine.seek(offset)
            group.epoch = new_epoch()
            group.answers = {consumer: (number, []) for consumer, (number, _) in group.answers.items()}
        self.save(group)
        self.groups[name] = group
        self.damaged.pop(cursor_name(name), None)
        self.wake()
        return offset

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription without consumers."""
        if name in self.groups and self.groups[name].machine.consumers:
            raise SubscriptionError("TAKEN", f"subscription {name!r} has consumers: close them first")
        if cursor_name(name) not in self.damaged:
            self.group(name)
        self._state.remove(cursor_name(name))
        self.groups.pop(name, None)
        self.damaged.pop(cursor_name(name), None)

    def purge(self, *, dry_run: bool) -> int:
        """Acknowledge everything in every subscription; returns how many messages that are."""
        count = sum(self.backlog(group) for group in self.groups.values())
        if not dry_run:
            for name in list(self.groups):
                self.seek(name, "latest")
        return count

    def wait(self, seen: int, seconds: float) -> None:
        """Until something may be new; the lock is given up meanwhile."""
        if self.changes == seen:
            self.changed.wait(seconds)

    def until_event(self, subscription: str) -> float:
        """Seconds until something of a subscription may be due that is not yet."""
        group = self.groups.get(subscription)
        event = group.machine.next_event_ms(steady_ms()) if group else None
        return TOPIC_WAIT_SECONDS if event is None else max(0.0, (event - steady_ms()) / 1000)

    def backlog(self, group: Group) -> int:
        """Messages that a subscription has not acknowledged."""
        acknowledged = sum(end - start for start, end in group.machine.ranges)
        return self.log.end - group.machine.cursor - acknowledged

    # --- compaction ---

    @property
    def needed(self) -> int:
        """The offset before which every subscription has acknowledged all; 0 while a cursor cannot be read."""
        if self.damaged:
            return 0
        return min((group.machine.cursor for group in self.groups.values()), default=self.log.end)

    def plan(self) -> Plan:
        """What compaction may do now. OSError."""
        volumes = [volume for volume in self.log.closed() if volume.end <= self.needed]
        grace_ms = int(self.keeping.tombstone_seconds * 1000)
        return Plan(volumes, self._compacted(), unix_ms() - grace_ms)

    def prepare_compaction(self) -> Plan:
        """The same, once all that records say of producers is saved elsewhere. Raises StorageError, OSError."""
        self._save_producers()
        return self.plan()

    def _compacted(self) -> int:
        """The offset before which each key is there once, as far as is known."""
        try:
            end = int((self._state.get(COMPACTED) or {"end": 0})["end"])
        except (OSError, WireError, KeyError, TypeError, ValueError) as error:
            log.warning("topic %s is compacted anew from its beginning: %s", self.name, error)
            return 0
        return end if end <= self.log.end else 0

    def note_compacted(self, end: int) -> None:
        """Before ``end`` each key is there once. Raises StorageError, OSError."""
        self._state.put(COMPACTED, {"end": end})

    # --- retention, life ---

    def set_parent(self, parent: str) -> None:
        """The grants of ``parent`` hold for this topic."""
        self._state.put(SETTINGS, {"topic": self.name, "parent": parent})
        self.parent = parent

    def wake(self) -> None:
        """Whoever waits looks again."""
        self.changes += 1
        self.changed.notify_all()
        self._notify(self.name)

    def retain(self) -> None:
        """Remove what need not be kept. Raises OSError, StorageError: it is tried again."""
        keeping, log = self.keeping, self.log
        keep = log.first
        if keeping.max_age_seconds is not None:
            keep = max(keep, log.before(unix_ms() - int(keeping.max_age_seconds * 1000)))
        needed = min((group.machine.cursor for group in self.groups.values()), default=None)
        if keeping.keep == "unacknowledged" and needed is not None:
            keep = max(keep, needed)
        if keeping.max_bytes is not None:
            beyond = log.beyond(keeping.max_bytes)
            keep = max(keep, min(beyond, needed) if keeping.backlog == "refuse" and needed is not None else beyond)
        if keep > log.first:
            log.remove_before(keep)
            self._skip_removed()

    def _skip_removed(self) -> None:
        for group in self.groups.values():
            if group.machine.cursor < self.log.first:
                group.machine.skip(self.log.first)
                self.save(group)

    def described(self) -> dict[str, Any]:
        """What people look at."""
        return {
            "topic": self.name,
            "lane": self.log.lane,
            "first": self.log.first,
            "end": self.log.end,
            "bytes": self.log.bytes,
            "parent": self.parent,
            "subscriptions": self.subscriptions(),
            "producers": self._producers.described(),
            "damaged": [
                *({"file": file, "why": why} for file, why in self.damaged.items()),
                *({"first": first, "end": end, "why": _damaged(first, end)} for first, end in self.log.damaged.items()),
            ],
        }

    def subscriptions(self) -> list[dict[str, Any]]:
        """How each of them is."""
        return [self._described(group) for group in self.groups.values()]

    def _described(self, group: Group) -> dict[str, Any]:
        machine = group.machine
        return {
            "subscription": group.name,
            "type": machine.terms.type,
            "cursor": machine.cursor,
            "backlog": self.backlog(group),
            "oldest_ms": self._oldest_ms(group),
            "acknowledged_ms": group.acknowledged_ms,
            "in_flight": machine.in_flight,
            "waiting": machine.unacknowledged - machine.in_flight,
            "delayed": machine.delayed,
            "full": not machine.room,
            "dead": len(machine.dead()),
            "dead_letter": machine.terms.dead_letter,
            "durable": machine.terms.durable,
            "consumers": list(machine.consumers),
        }

    def _oldest_ms(self, group: Group) -> int:
        """When the oldest message that waits was recorded, which is read once; 0 where none waits, or it is damaged."""
        cursor = max(group.machine.cursor, self.log.first)
        if cursor >= self.log.end:
            return 0
        if group.oldest[0] != cursor:
            try:
                found = self.log.read(cursor, 1)
            except (OSError, SpeedError):
                found = []
            group.oldest = (cursor, found[0].recorded_ms if found else 0)
        return group.oldest[1]

    def remove(self) -> None:
        """Remove the topic with everything in it. OSError if something is left."""
        self.log.rest()
        self._state.remove_all()
        with suppress(JournalError):
            self.log.remove()

    def close(self) -> None:
        """Save what is only in memory."""
        with suppress(SpeedError, OSError):
            self._save_producers()
        self.log.rest()
        self._state.close()


def _producer_of(stored: StoredMessage) -> ProducerIdentity | None:
    about = decode(stored.data).about
    owner = about.get("owner") or about.get("publisher", "")
    return ProducerIdentity(owner, about["producer"]) if "producer" in about else None


def _damaged(first: int, end: int) -> str:
    return f"messages {first} to {end - 1} cannot be read"
