"""The node that hosts topics: its services, as any language calls them (D-5 to D-18), and who may ask (D-17)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from speed import Node, Request, Response
from speed.core.access import AccessPolicy
from speed.errors import InvalidNameError, JournalError, JournalFullError, StorageError, WireError
from speed.topics.backend import Group, HostedTopic, ProducerIdentity, Start, TopicStore, redrive
from speed.topics.storage import room_at
from speed.topics.subscription import TYPES, SubscriptionError, Terms, wrong
from speed.wire import names
from speed.wire.limits import (
    MAX_TOPIC_BATCH,
    MAX_TOPIC_DELAY_SECONDS,
    MAX_TOPIC_KEY_BYTES,
    MAX_TOPIC_MESSAGE_BYTES,
    MAX_TOPIC_PROPERTIES,
    TOPIC_WAIT_SECONDS,
)
from speed.wire.topic import MESSAGE, TOMBSTONE, RecordHead, join, key_hash
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


class RecordEncoder:
    """Of one publisher. Most messages are a payload and nothing else: what stands before it is made once."""

    def __init__(self, node: str, producer: str, owner: str = "") -> None:
        """``owner``: the family of nodes that share the producer; empty for ``node`` alone."""
        named = {"producer": producer, "owner": owner} if producer else {}
        self._publisher_fields = {"publisher": node, **{name: value for name, value in named.items() if value}}
        self._packed = pack(self._publisher_fields)
        self._plain = join(RecordHead(), self._packed, b"")

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
        return pack({**self._publisher_fields, **_named(message.get("key"), message.get("properties") or {})})


def _check_payload(payload: Any) -> None:
    """Bytes that are no value would stop every consumer that gets them."""
    if type(payload) is not bytes:
        raise wrong("payload must be bytes")
    try:
        if payload:
            unpack(payload)
    except WireError as error:
        raise wrong(str(error)) from None


def _head(message: Mapping[str, Any]) -> RecordHead:
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
    return RecordHead(kind, 0, _key_hash(key), due_ms, sequence)


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


WORKERS = 64
"""Threads of the host: half of them may wait for messages."""
MAX_WAITING = WORKERS // 2
LOOK_SECONDS = 0.25
"""How often who waits looks whether its caller is still there."""
LEAST_ANSWER_BYTES = 4096
"""However full the root is: such an answer is tried."""
COUNTED = ("subscriptions", "producers")
"""Of these a list of topics has only how many there are."""
Answer = dict[str, Any]


class Host:
    """Answers for all topics until its node is closed.

    Args:
        node: the node that the services are registered on; it is the caller's to close.
        topics: where they lie.
    """

    def __init__(self, node: Node, topics: TopicStore, access: Access) -> None:
        self._topics, self._root = topics, node.root
        self.access = access
        self._places = threading.Semaphore(MAX_WAITING)
        self._is_closing = False
        self._watching: list[Callable[[str], None]] = []
        self._answering = {name: _answering(service) for name, service in self._services().items()}
        for name, service in self._answering.items():
            node.register(f"topics.{name}", service)
        node.on_leave(lambda entry: self._left(entry.name))

    def _services(self) -> dict[str, Callable[..., Any]]:
        return {
            "publish": self.publish,
            "subscribe": self.subscribe,
            "receive": self.receive,
            "begin": self.begin,
            "acknowledge": self.acknowledge,
            "reject": self.reject,
            "leave": self.leave,
            "read": self.read,
            "seek": self.seek,
            "redrive": self.redrive,
            "unsubscribe": self.unsubscribe,
            "create": self.create,
            "delete": self.delete,
            "purge": self.purge,
            "forget_producer": self.forget_producer,
            "compact": self.compact,
            "list": self.list,
            "describe": self.describe,
        }

    # --- within this process ---

    def ask(self, caller: str, service: str, **arguments: Any) -> Any:
        """What a service answers to ``caller``, who asks within this process. Raises SubscriptionError."""
        answer = self._answering[service](Request(f"topics.{service}", arguments, caller, "", 0), **arguments)
        if isinstance(answer, Response):
            raise SubscriptionError(answer.error_code or "", answer.error_message)
        return answer

    def check(self, caller: str, right: str, topic: str) -> None:
        """Raises SubscriptionError DENIED, UNKNOWN_TOPIC, DAMAGED."""
        self._allowed(caller, right, topic)

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with the name of a topic when something may be new in it; the lock is held meanwhile."""
        with self._topics.lock:
            self._watching.append(callback)
            self._topics.notify = self._tell

    def unwatch(self, callback: Callable[[str], None]) -> None:
        """Call it no more."""
        with self._topics.lock:
            self._watching.remove(callback)

    def _tell(self, topic: str) -> None:
        for callback in self._watching:
            callback(topic)

    def until_event(self, topic: str, subscription: str) -> float:
        """Seconds after which something of a subscription may be due without anybody's doing."""
        with self._topics.lock:
            known = self._topics.known(topic)
            return known.until_event(subscription) if known else TOPIC_WAIT_SECONDS

    # --- publishing ---

    def publish(self, request: Request, topic: str, messages: list[Any], producer: str = "", owner: str = "") -> Answer:
        """Record messages; see D-5."""
        if not 0 < len(messages) <= MAX_TOPIC_BATCH:
            raise wrong(f"{len(messages)} messages: publish 1 to {MAX_TOPIC_BATCH} at once")
        if producer:
            names.check_node_name(producer)
        _check_owner(request.caller, owner)
        encoder = RecordEncoder(request.caller, producer, owner)
        records = [encoder.record(one) for one in messages]
        with self._topics.lock:
            found = self._topic(request, "publish", topic)
            named = ProducerIdentity(owner or request.caller, producer) if producer else None
            recorded = found.publish(named, records)
            repeated = [place for place, one in enumerate(recorded) if one.is_repeated]
            return {"lane": found.lane, "offsets": [one.offset for one in recorded], "repeated": repeated}

    # --- consuming ---

    def subscribe(
        self,
        request: Request,
        topic: str,
        subscription: str,
        consumer: str,
        type: str = "exclusive",  # noqa: A002 - its name in the contract
        start: object = "latest",
        max_deliveries: int = 0,
        ack_timeout_ms: int = 0,
        dead_letter: str = "",
        durable: bool = True,
    ) -> Answer:
        """Join a subscription; see D-8."""
        names.check_node_name(subscription)
        names.check_node_name(consumer)
        if type not in TYPES:
            raise wrong(f"type {type!r} is none of {', '.join(TYPES)}")
        _check_number("max_deliveries", max_deliveries, 65535)
        _check_number("ack_timeout_ms", ack_timeout_ms, MAX_DELAY_MS)
        with self._topics.lock:
            found = self._topic(request, "consume", topic)
            if dead_letter:
                self._prepare(request.caller, found, dead_letter, max_deliveries)
            terms = Terms(type, max_deliveries, ack_timeout_ms, dead_letter, durable)
            place: Start = start  # type: ignore[assignment]  # checked by the topic
            group = found.subscribe(subscription, _who(request, consumer), terms, place)
            return {"lane": found.lane, "epoch": group.epoch, "cursor": group.machine.cursor}

    def _prepare(self, caller: str, topic: HostedTopic, dead_letter: str, max_deliveries: int) -> None:
        """The topic of dead letters has to be there by now, so that what dies has a place; who may makes it."""
        names.check_topic(dead_letter)
        if not max_deliveries or dead_letter == topic.name:
            raise wrong("dead_letter needs max_deliveries, and another topic than this one")
        known = self._topics.known(dead_letter)
        if known and known.parent == topic.name:
            return
        if known:
            self.access.check(caller, "publish", dead_letter)
        elif any(self.access.allows(caller, "manage", one) for one in (dead_letter, topic.name)):
            self._topics.make(dead_letter, parent=topic.name)
        else:
            text = f"node {caller!r} may not make topic {dead_letter!r}: have it made by who may manage it"
            raise SubscriptionError(
                "DENIED", f"{text} (`speed topic create {dead_letter} --dead-letters-of {topic.name}`)"
            )

    def receive(
        self,
        request: Request,
        topic: str,
        subscription: str,
        consumer: str,
        most: int,
        got: int = 0,
        wait_ms: int = 0,
        begin: int | None = None,
    ) -> Answer:
        """Messages for one consumer; see D-9."""
        _check_number("most", most, MAX_TOPIC_BATCH, 1)
        _check_number("begin", begin or 0, MAX_TOPIC_BATCH)

        def attempt(found: HostedTopic) -> tuple[int, list[Any]]:
            group = found.group(subscription)
            return found.receive(group, _who(request, consumer), most, got, begin, self._answer_bytes())

        with self._topics.lock:
            batch, messages = self._waited(request, "consume", topic, wait_ms, attempt, subscription)
            found = self._topics.find(topic)
            epoch = found.group(subscription).epoch
            return {"lane": found.lane, "epoch": epoch, "batch": batch, "messages": messages}

    def begin(
        self,
        request: Request,
        topic: str,
        subscription: str,
        consumer: str,
        lane: str,
        epoch: int,
        offsets: list[Any],
    ) -> Answer:
        """A program gets messages that were delivered; see D-9."""
        _check_offsets(offsets)
        with self._topics.lock:
            found, group = self._group(request, "consume", topic, subscription)
            is_now = (lane, epoch) == (found.lane, group.epoch)
            begun = found.begin(group, _who(request, consumer), offsets if is_now else [])
            return {"lane": found.lane, "epoch": group.epoch, "begun": begun}

    def acknowledge(
        self,
        request: Request,
        topic: str,
        subscription: str,
        lane: str,
        offsets: list[Any] = [],  # noqa: B006 - never changed
        until: int | None = None,
        epoch: int | None = None,
    ) -> Answer:
        """Settle messages; see D-12."""
        _check_offsets(offsets)
        with self._topics.lock:
            found = self._topic(request, "consume", topic)
            if epoch is not None and lane != found.lane:
                return {"acknowledged": 0, "stale": len(offsets) or 1, "lane": found.lane, "epoch": 0}
            group = found.group(subscription)
            now = {"lane": found.lane, "epoch": group.epoch}
            if epoch not in (None, group.epoch):
                return {"acknowledged": 0, "stale": len(offsets) or 1, **now}
            return {"acknowledged": found.acknowledge(group, lane, offsets, until), "stale": 0, **now}

    def reject(
        self,
        request: Request,
        topic: str,
        subscription: str,
        consumer: str,
        offsets: list[Any],
        delay_ms: int | None = None,
    ) -> Answer:
        """Have messages come again; see D-12."""
        _check_offsets(offsets)
        _check_number("delay_ms", delay_ms or 0, MAX_DELAY_MS)
        with self._topics.lock:
            found, group = self._group(request, "consume", topic, subscription)
            return {"rejected": found.reject(group, _who(request, consumer), offsets, delay_ms)}

    def leave(
        self,
        request: Request,
        topic: str,
        subscription: str,
        consumer: str,
        unseen: list[Any] = [],  # noqa: B006 - never changed
    ) -> Answer:
        """Leave a subscription; see D-12."""
        _check_offsets(unseen)
        with self._topics.lock:
            found, group = self._group(request, "consume", topic, subscription)
            found.leave(group, _who(request, consumer), unseen)
        return {}

    def read(self, request: Request, topic: str, start: object = "latest", most: int = 100, wait_ms: int = 0) -> Answer:
        """Messages without a subscription; see D-14."""
        _check_number("most", most, MAX_TOPIC_BATCH, 1)
        with self._topics.lock:
            found = self._topic(request, "consume", topic)
            place = found.place(start)  # type: ignore[arg-type]  # it checks

            def attempt(found: HostedTopic) -> tuple[int, list[Any]]:
                after, kept = found.read(place, most)
                return after, [[one.offset, 0, one.recorded_ms, one.data] for one in kept]

            after, messages = self._waited(request, "consume", topic, wait_ms, attempt, "")
            return {"lane": found.lane, "next": after, "messages": messages}

    def _answer_bytes(self) -> int:
        """What fits into the root, if that is nearly full: an answer that does not is none."""
        return max(LEAST_ANSWER_BYTES, room_at(self._root).answer_bytes)

    def _waited(
        self,
        request: Request,
        right: str,
        topic: str,
        wait_ms: int,
        attempt: Callable[[HostedTopic], tuple[int, list[Any]]],
        subscription: str,
    ) -> tuple[int, list[Any]]:
        """What ``attempt`` gives, as soon as that are messages; the lock is given up while it waits."""
        _check_number("wait_ms", wait_ms, MAX_DELAY_MS)
        ends = time.monotonic() + min(wait_ms / 1000, TOPIC_WAIT_SECONDS)
        while True:
            found = self._topic(request, right, topic)
            seen = found.changes
            number, messages = attempt(found)
            left = ends - time.monotonic()
            is_over = messages or left <= 0 or request.cancelled or self._is_closing
            if is_over or not self._places.acquire(blocking=False):
                return number, messages
            try:
                found.wait(seen, min(left, LOOK_SECONDS, found.until_event(subscription)))
            finally:
                self._places.release()

    def _left(self, node: str) -> None:
        with self._topics.lock:
            for topic in self._topics.used():
                topic.left(node)

    # --- topics ---

    def seek(self, request: Request, topic: str, subscription: str, to: object) -> Answer:
        """Begin a subscription anew; see D-13."""
        with self._topics.lock:
            found = self._topic(request, "manage", topic)
            return {"offset": found.seek(subscription, to)}  # type: ignore[arg-type]  # it checks

    def redrive(self, request: Request, topic: str, most: int = MAX_TOPIC_BATCH) -> Answer:
        """Publish dead letters anew where they came from; see D-30."""
        _check_number("most", most, MAX_TOPIC_BATCH, 1)

        def publish(origin: str, records: Sequence[bytes]) -> None:
            self._topic(request, "manage", origin).publish(None, [(0, one) for one in records])

        with self._topics.lock:
            done, left = redrive(self._topic(request, "manage", topic), request.caller, most, publish)
            return {"messages": done, "left": left}

    def unsubscribe(self, request: Request, topic: str, subscription: str) -> Answer:
        """Remove a subscription; see D-13."""
        with self._topics.lock:
            self._topic(request, "manage", topic).unsubscribe(subscription)
        return {}

    def create(self, request: Request, topic: str, dead_letters_of: str = "") -> Answer:
        """Make a topic, or find it there; for the dead letters of another one, whose grants hold for it too."""
        names.check_topic(topic)
        with self._topics.lock:
            self.access.check(request.caller, "manage", topic)
            if dead_letters_of:
                self._topic(request, "manage", dead_letters_of)
            made = self._topics.make(topic, parent=dead_letters_of)
            if made.parent != dead_letters_of and dead_letters_of:
                raise SubscriptionError(
                    "TAKEN", f"topic {topic!r} is there, and not of dead letters of {dead_letters_of!r}"
                )
            return {"lane": made.lane}

    def delete(self, request: Request, topic: str) -> Answer:
        """Remove a topic with its messages and subscriptions."""
        with self._topics.lock:
            self.access.check(request.caller, "manage", topic)
            self._topics.remove(topic)
        return {}

    def purge(self, request: Request, topic: str, dry_run: bool = False) -> Answer:
        """Acknowledge everything in every subscription."""
        with self._topics.lock:
            return {"messages": self._topic(request, "manage", topic).purge(dry_run=dry_run)}

    def forget_producer(self, request: Request, topic: str, producer: str, owner: str = "") -> Answer:
        """Have a producer's sequences begin anew; see D-6."""
        with self._topics.lock:
            found = self._topic(request, "manage", topic)
            return {"forgotten": found.forget_producer(producer, owner)}

    def compact(self, request: Request, topic: str) -> Answer:
        """Have a topic compacted soon; see D-25."""
        with self._topics.lock:
            self._topic(request, "manage", topic)
            return {"until": self._topics.ask_to_compact(topic)}

    def list(self, request: Request) -> list[Answer]:
        """The topics that the caller may do something with."""
        with self._topics.lock:
            seen = [one for one in self._topics.every() if self._sees(request.caller, one)]
            rows = [{**one, **{name: len(one[name]) for name in COUNTED}} for one in (one.described() for one in seen)]
            broken = [name for name in self._topics.broken if self.access.sees(request.caller, name)]
            return [*rows, *({"topic": name, "broken": self._topics.broken[name]} for name in broken)]

    def describe(self, request: Request, topic: str) -> Answer:
        """One topic with its subscriptions."""
        with self._topics.lock:
            known = self._topics.known(topic)
            if not (self._sees(request.caller, known) if known else self.access.sees(request.caller, topic)):
                raise SubscriptionError("DENIED", f"node {request.caller!r} may do nothing with topic {topic!r}")
            return self._topics.find(topic).described()

    # --- checks ---

    def _sees(self, caller: str, topic: HostedTopic) -> bool:
        return self.access.sees(caller, topic.name) or bool(topic.parent and self.access.sees(caller, topic.parent))

    def _topic(self, request: Request, right: str, topic: str) -> HostedTopic:
        return self._allowed(request.caller, right, topic)

    def _allowed(self, caller: str, right: str, topic: str) -> HostedTopic:
        """The topic, if the caller has the right. Who has not is not told whether it exists."""
        if not self.access.allows(caller, right, topic):
            known = self._topics.known(topic)
            if not (known and known.parent and self.access.allows(caller, right, known.parent)):
                self.access.check(caller, right, topic)
        return self._topics.find(topic)

    def _group(self, request: Request, right: str, topic: str, subscription: str) -> tuple[HostedTopic, Group]:
        found = self._topic(request, right, topic)
        return found, found.group(subscription)

    def close(self) -> None:
        """Let whoever waits go."""
        with self._topics.lock:
            self._is_closing = True
            for topic in self._topics.used():
                topic.wake()


def _who(request: Request, consumer: str) -> str:
    return f"{request.caller}/{consumer}"


def _check_owner(caller: str, owner: str) -> None:
    """Only nodes of a family share its producers."""
    if owner and not f"{caller}.".startswith(f"{owner}."):
        raise wrong(f"owner is {owner!r}: use your name {caller!r}, or a family that it lies in")


def _check_number(name: str, value: int, most: int, least: int = 0) -> None:
    if not least <= value <= most:
        raise wrong(f"{name} is {value}: use {least} to {most}")


def _check_offsets(offsets: Sequence[Any]) -> None:
    if len(offsets) > MAX_TOPIC_BATCH or not all(type(one) is int and one >= 0 for one in offsets):
        raise wrong(f"offsets are at most {MAX_TOPIC_BATCH} whole numbers")


def _answering(service: Callable[..., Any]) -> Callable[..., Any]:
    """``service``, with what it refuses said in its answer."""

    @wraps(service)
    def answer(*args: Any, **arguments: Any) -> Any:
        try:
            return service(*args, **arguments)
        except SubscriptionError as error:
            return Response.error(error.code, str(error))
        except InvalidNameError as error:
            return Response.error("INVALID_ARGUMENTS", str(error))
        except (StorageError, OSError) as error:
            return Response.error("NOT_WRITTEN", str(error))
        except JournalFullError as error:
            return Response.error("FULL", str(error))
        except JournalError as error:
            return Response.error("DAMAGED", str(error))

    return answer
