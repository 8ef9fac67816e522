"""One topic of Pulsar, as its host sees it (D-20 to D-24)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from speed.topics.backend import Group, Message, ProducerIdentity, Recorded, Start, StoredMessage, new_epoch, steady_ms
from speed.topics.cluster.broker import Broker, ConflictError, MessagePosition, NotThereError, outgoing
from speed.topics.cluster.feed import TYPES, Feed, FeedState
from speed.topics.cluster.publisher import Publisher, Readings
from speed.topics.subscription import SubscriptionError, SubscriptionState, Terms, wrong
from speed.wire.limits import MAX_SUBSCRIPTIONS, MAX_TOPIC_ANSWER_BYTES, TOPIC_WAIT_SECONDS

READ_SECONDS = 0.05
"""How often who reads without a subscription looks for what is new."""
_LATEST = {"ledgerId": (1 << 63) - 1, "entryId": (1 << 63) - 1, "partitionIndex": -1}
_NUMBERS = ("max_deliveries", "ack_timeout_ms")


class TopicProperties(NamedTuple):
    """What is known of a topic since it was looked up."""

    lane: str
    parent: str
    deduplicates: bool


class ClusterTopic:
    """Thread-safe. Raises SubscriptionError and StorageError."""

    def __init__(
        self,
        name: str,
        broker: Broker,
        settings: TopicProperties,
        bury: Callable[[str, bytes], object],
        notify: Callable[[str], None],
    ) -> None:
        """``bury`` publishes a dead letter to the topic of a name; ``notify`` is called when something may be new."""
        self.name, self.parent, self.lane = name, settings.parent, settings.lane
        self._settings, self._broker, self._bury, self._notify = settings, broker, bury, notify
        self._publisher, self._readings = Publisher(broker, name), Readings(broker, name)
        self._changed = threading.Condition(threading.RLock())
        self._opening = threading.Lock()
        """Held by who opens and closes feeds."""
        self._feeds: dict[str, Feed] = {}
        self._attempts: dict[str, Mapping[int, int]] = {}
        """Of subscriptions whose feeds were closed."""
        self._epochs: dict[str, int] = {}
        """Of subscriptions that began anew here."""
        self.changes = 0

    # --- publishing and reading ---

    def publish(self, producer: ProducerIdentity | None, messages: Sequence[tuple[int, bytes]]) -> list[Recorded]:
        """Record (sequence, bytes) of each; returns where they are."""
        made = [outgoing(record) for _, record in messages]
        if producer and not self._settings.deduplicates and any(one.sequence for one in made):
            text = f"topic {self.name!r} does not recognise repetitions: enable its deduplication in Pulsar"
            raise SubscriptionError("UNSUPPORTED", text)
        recorded = self._publisher.publish(producer, made)
        self._notify(self.name)
        return recorded

    def forget_producer(self, name: str, owner: str = "") -> int:
        """Pulsar keeps what it knows of a producer until that was silent for as long as it is told."""
        raise SubscriptionError("UNSUPPORTED", "a cluster forgets no producer: publish under another name")

    def read(self, start: int, limit: int) -> tuple[int, list[StoredMessage]]:
        """Messages from an offset on, and the offset behind them."""
        return self._readings.read(start, limit)

    def place(self, start: Start) -> int:
        """The offset that ``start`` means. Raises SubscriptionError INVALID_ARGUMENTS."""
        if type(start) is int and self._readings.is_at(start):
            return start
        internal = self._query("internalStats")
        first, end = self._bounds(internal)
        if start == "latest":
            return end
        if start == "earliest":
            return first
        if isinstance(start, Mapping) and type(at := start.get("at_ms")) is int and at >= 0:
            return self._place_at(at, first, end)
        if isinstance(start, Mapping) and type(count := start.get("last")) is int and count >= 0:
            return max(first, _back(internal, count))
        if type(start) is int and first <= start <= end:
            return start
        text = f"{start!r} is no place in topic {self.name!r}: use 'latest', 'earliest', a time in milliseconds, or "
        raise SubscriptionError("INVALID_ARGUMENTS", f"{text}an offset from {first} to {end}")

    def _place_at(self, unix_ms: int, first: int, end: int) -> int:
        """The first message that was published then or later."""
        found = self._query(f"messageid/{unix_ms}")
        start = min(max(first, MessagePosition(found["ledgerId"], found["entryId"]).offset), end)
        while start < end:
            after, kept = self._readings.read(start, 100)
            for stored in kept:
                if stored.recorded_ms >= unix_ms:
                    return stored.offset
            if not kept:
                break
            start = after
        return end

    def _bounds(self, internal: Mapping[str, Any]) -> tuple[int, int]:
        """Where the topic begins and ends."""
        last = MessagePosition.read(internal["lastConfirmedEntry"])
        ledgers = [one["ledgerId"] for one in internal["ledgers"]]
        end = last.next_entry
        first = min(MessagePosition(ledgers[0], 0), end) if ledgers else end
        return first.offset, end.offset

    # --- subscriptions ---

    def subscribe(self, name: str, consumer: str, terms: Terms, start: Start) -> Group:
        """Join; the subscription is made at ``start`` if it is not there."""
        if not terms.durable:
            raise wrong("topics in a cluster keep their subscriptions: use a durable one, or a reader")
        with self._opening:
            feed = self._live(name) or self._begun(name, self._terms(name) or self._made(name, terms, start))
            with self._changed:
                feed.machine.terms.check_fits(name, terms)
                feed.machine.join(consumer)
                feed.begin_anew(consumer)
                self.wake()
        return feed

    def _terms(self, name: str) -> Terms | None:
        """Those of a subscription that is there; None if it is not."""
        found = self._subscriptions().get(name)
        return None if found is None else _terms(found)

    def _subscriptions(self) -> dict[str, Any]:
        found = self._query("stats", getPreciseBacklog="true")["subscriptions"]
        return {name: one for name, one in found.items() if one.get("isDurable", True)}

    def _made(self, name: str, terms: Terms, start: Start) -> Terms:
        if len(self._subscriptions()) >= MAX_SUBSCRIPTIONS:
            raise SubscriptionError("FULL", f"topic {self.name!r} has {MAX_SUBSCRIPTIONS} subscriptions: remove some")
        position = _LATEST if start == "latest" else _position(self.place(start))
        properties = {f"speed.{key}": str(value) for key, value in vars(terms).items()}
        with self._broker.guarded(), suppress(ConflictError):  # another host may have made it meanwhile
            self._broker.admin.put(self.name, f"subscription/{name}", {**position, "properties": properties})
        return terms

    def _begun(self, name: str, terms: Terms) -> Feed:
        """A feed that is open. ``_opening`` is held."""
        internal = self._query("internalStats")
        _, end = self._bounds(internal)
        machine = FeedState(terms, _cursor(internal, name), end, self._attempts.pop(name, {}))
        feed = Feed(self._broker, self.name, name, machine, self._changed)
        feed.epoch = self._epochs.get(name, 0)
        self._feeds[name] = feed
        feed.start(self.wake)
        return feed

    def group(self, name: str) -> Group:
        """Raises SubscriptionError UNKNOWN_SUBSCRIPTION."""
        feed = self._feeds.get(name)
        if feed is not None and not feed.is_dead:
            return feed
        with self._opening:
            feed = self._live(name)
            if feed is not None:
                return feed
            terms = self._terms(name)
            if terms is None:
                raise _unknown(self.name, name)
            return self._begun(name, terms)

    def _live(self, name: str) -> Feed | None:
        """A feed that is open; one that Pulsar closed is closed here too. ``_opening`` is held."""
        feed = self._feeds.get(name)
        if feed is not None and feed.is_dead:
            self._close(feed)
            return None
        return feed

    def begin(self, group: Group, consumer: str, offsets: Sequence[int]) -> list[int]:
        """The program gets these now. Returns those that the consumer still has."""
        with self._changed:
            return group.begin(self, consumer, offsets)

    def receive(
        self,
        group: Group,
        consumer: str,
        limit: int,
        got: int,
        begun: int | None = None,
        max_bytes: int = MAX_TOPIC_ANSWER_BYTES,
    ) -> tuple[int, list[Message]]:
        """What a consumer gets now, and the number of this answer."""
        with self._changed:
            number, messages = group.receive(self, consumer, limit, got, begun, max_bytes)
            if not messages and isinstance(group, Feed) and group.trouble is not None:
                raise group.trouble
            return number, messages

    def acknowledge(self, group: Group, lane: str, offsets: Sequence[int], until: int | None) -> int:
        """Returns how many were not acknowledged before."""
        if lane != self.lane:
            text = f"these are messages of another topic than {self.name!r}, or of one that was made anew"
            raise SubscriptionError("INVALID_ARGUMENTS", text)
        assert isinstance(group, Feed)
        with self._changed:
            settled = group.settle(offsets) if until is None else group.settle_until(until)
            self.wake()
        return settled

    def reject(self, group: Group, consumer: str, offsets: Sequence[int], delay_ms: int | None) -> int:
        """Returns how many come again."""
        with self._changed:
            rejected = group.machine.reject(consumer, offsets, steady_ms(), delay_ms)
            self.wake()
        return rejected

    def leave(self, group: Group, consumer: str, unseen: Sequence[int] = ()) -> None:
        """A consumer is gone; what it never saw was not delivered."""
        with self._changed:
            group.machine.put_back(consumer, unseen)
            group.machine.leave(consumer, steady_ms())
            group.begin_anew(consumer)
            self.wake()
        if not group.machine.consumers:
            self._end(group.name)

    def left(self, node: str) -> None:
        """A node is gone, with all its consumers."""
        for group in list(self._feeds.values()):
            for consumer in group.machine.consumers:
                if consumer.startswith(f"{node}/"):
                    self.leave(group, consumer)

    def _end(self, name: str, *, anyway: bool = False) -> None:
        """Close a feed that nobody needs: what it holds goes to other hosts."""
        with self._opening:
            feed = self._feeds.get(name)
            if feed is None or (feed.machine.consumers and not anyway):
                return
            self._close(feed)

    def _close(self, feed: Feed) -> None:
        with self._changed:
            feed.end()
            del self._feeds[feed.name]
            self._attempts[feed.name] = feed.attempts()
            self.wake()
        feed.close()

    # --- what a subscription needs of its topic ---

    def offer(self, group: Group, limit: int) -> bool:
        """Messages come by themselves."""
        return False

    def one(self, group: Group, offset: int) -> StoredMessage | None:
        """A message that is held."""
        assert isinstance(group, Feed)
        return group.one(offset)

    def settle(self, group: Group, offsets: Sequence[int]) -> None:
        """Acknowledge for its consumers."""
        assert isinstance(group, Feed)
        group.settle(offsets)

    def save(self, group: Group) -> None:
        """Pulsar keeps what is acknowledged; attempts are in memory."""

    def bury(self, name: str, letter: bytes) -> None:
        """Publish a dead letter to the topic of a name."""
        self._bury(name, letter)

    # --- managing ---

    def seek(self, name: str, to: Start) -> int:
        """Begin a subscription anew, at every host; returns the offset."""
        offset = self.place(to)
        position = _LATEST if to == "latest" else _position(offset)
        with self._opening:
            self._epochs[name] = new_epoch()
            before = self._feeds.pop(name, None)
            if before is not None:
                before.end()
                before.close()
            try:
                with self._broker.guarded():
                    self._broker.admin.post(self.name, f"subscription/{name}/resetcursor", position)
            except NotThereError:
                raise _unknown(self.name, name) from None
            finally:
                if before is not None:
                    self._go_on(before)
        return offset

    def _go_on(self, before: Feed) -> None:
        """The consumers of a feed that was closed, with a new one. ``_opening`` is held."""
        feed = self._begun(before.name, before.machine.terms)
        with self._changed:
            for consumer in before.machine.consumers:
                feed.machine.join(consumer)
            feed.answers = {consumer: (number, []) for consumer, (number, _) in before.answers.items()}
            self.wake()

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription without consumers."""
        feed = self._feeds.get(name)
        taken = SubscriptionError("TAKEN", f"subscription {name!r} has consumers: close them first")
        if feed is not None and feed.machine.consumers:
            raise taken
        self._end(name)
        self._attempts.pop(name, None)
        try:
            with self._broker.guarded():
                self._broker.admin.delete(self.name, f"subscription/{name}")
        except NotThereError:
            raise _unknown(self.name, name) from None
        except ConflictError:
            raise taken from None

    def purge(self, *, dry_run: bool) -> int:
        """Acknowledge everything in every subscription; returns how many messages that are."""
        found = self._subscriptions()
        if not dry_run:
            for name in found:
                self.seek(name, "latest")
        return sum(one["msgBacklog"] for one in found.values())

    def described(self) -> dict[str, Any]:
        """What people look at."""
        stats, internal = self._query("stats", getPreciseBacklog="true"), self._query("internalStats")
        first, end = self._bounds(internal)
        return {
            "topic": self.name,
            "lane": self.lane,
            "first": first,
            "end": end,
            "bytes": stats["storageSize"],
            "parent": self.parent,
            "subscriptions": [
                self._described(name, one, _cursor(internal, name))
                for name, one in stats["subscriptions"].items()
                if one.get("isDurable", True)
            ],
            "producers": [],
            "damaged": [],
        }

    def _described(self, name: str, found: Mapping[str, Any], cursor: int) -> dict[str, Any]:
        feed, terms = self._feeds.get(name), _terms(found)
        with self._changed:
            machine = feed.machine if feed else SubscriptionState(terms, 0)
            return {
                "subscription": name,
                "type": terms.type,
                "cursor": cursor,
                "backlog": found["msgBacklog"],
                "in_flight": machine.in_flight,
                "waiting": machine.unacknowledged - machine.in_flight,
                "delayed": machine.delayed,
                "full": not machine.room,
                "dead": len(machine.dead()),
                "dead_letter": terms.dead_letter,
                "consumers": list(machine.consumers),
            }

    def _query(self, what: str, **query: str) -> Any:
        """Ask the cluster about this topic."""
        try:
            with self._broker.guarded():
                return self._broker.admin.get(self.name, what, **query)
        except NotThereError:
            raise SubscriptionError("UNKNOWN_TOPIC", f"topic {self.name!r} is not there any more") from None

    # --- waiting, life ---

    def until_event(self, subscription: str) -> float:
        """Seconds until something may be due that is not yet."""
        if not subscription:
            return READ_SECONDS
        with self._changed:
            feed = self._feeds.get(subscription)
            event = feed.machine.next_event_ms(steady_ms()) if feed else None
        return TOPIC_WAIT_SECONDS if event is None else max(0.0, (event - steady_ms()) / 1000)

    def wait(self, seen: int, seconds: float) -> None:
        """Until something may be new."""
        with self._changed:
            if self.changes == seen:
                self._changed.wait(seconds)

    def wake(self) -> None:
        """Whoever waits looks again."""
        with self._changed:
            self.changes += 1
            self._changed.notify_all()
        self._notify(self.name)

    def rest(self) -> None:
        """Close what nobody used for a while."""
        self._publisher.rest()
        self._readings.rest()
        for name, feed in list(self._feeds.items()):
            if feed.is_idle:
                self._end(name)

    def close(self) -> None:
        """Give back to Pulsar what is not acknowledged."""
        for name in list(self._feeds):
            self._end(name, anyway=True)
        self._publisher.rest(0.0)
        self._readings.rest(0.0)


def _unknown(topic: str, name: str) -> SubscriptionError:
    return SubscriptionError("UNKNOWN_SUBSCRIPTION", f"topic {topic!r} has no subscription {name!r}")


def _position(offset: int) -> dict[str, int]:
    """A place as the admin API wants it."""
    place = MessagePosition.of(offset)
    return {"ledgerId": place.ledger, "entryId": place.entry, "partitionIndex": -1, "batchIndex": place.batch}


def _back(internal: Mapping[str, Any], count: int) -> int:
    """The offset of the entry so many before the end; that of the first one if there are fewer."""
    place = MessagePosition.read(internal["lastConfirmedEntry"]).next_entry
    for ledger in reversed(internal["ledgers"]):
        if ledger["ledgerId"] < place.ledger:
            place = MessagePosition(ledger["ledgerId"], ledger["entries"])
        if ledger["ledgerId"] == place.ledger and count <= place.entry:
            return MessagePosition(place.ledger, place.entry - count).offset
        count -= place.entry if ledger["ledgerId"] == place.ledger else 0
    return 0


def _cursor(internal: Mapping[str, Any], name: str) -> int:
    """The lowest offset that a subscription has not acknowledged."""
    return MessagePosition.read(internal["cursors"][name]["markDeletePosition"]).next_entry.offset


def _terms(found: Mapping[str, Any]) -> Terms:
    """Of a subscription as its statistics tell it; one that another program made has but a type."""
    properties = found.get("subscriptionProperties") or {}
    native = {there.replace("KeyShared", "Key_Shared"): here for here, there in TYPES.items()}
    type_ = properties.get("speed.type")
    if type_ not in TYPES:
        type_ = native.get(found.get("type", ""), "exclusive")
    deliveries, timeout = (_number(properties.get(f"speed.{name}", "")) for name in _NUMBERS)
    return Terms(type_, deliveries, timeout, properties.get("speed.dead_letter", ""))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
