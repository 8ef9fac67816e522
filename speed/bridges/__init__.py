"""Bridges of speedd (B-11 to B-19): what one is told, where it carries, what is wrong with ``[[bridge]]`` tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from speed.backends.address import parse_address
from speed.backends.backend import MAX_MESSAGE_BYTES
from speed.errors import ConfigurationError
from speed.message.view import MessageView
from speed.wire import names
from speed.wire.names import check_topic, matches

TOPICS, EVENTS = "topics", "events"
ROOT = (TOPICS, EVENTS)
"""Ends of bridges in the root."""
KEEPS = ("payload", "message")
MAX_BRIDGES = 64
SERVICE = "bridges.list"
"""Of speedd's node, which tells what its bridges do."""


@dataclass(frozen=True)
class BridgeSettings:
    """``[[bridge]]``: messages that speedd carries from its root to a backend, or from a backend to its root."""

    name: str
    """Its name: in the log, for `speed bridge`, and of what it keeps its position under."""
    source: str = field(repr=False)
    """Where messages come from: `topics` (durable topics of this speedd), `events` (those that its journal records), or
    the address of a backend, as `kafka://host:9092`."""
    target: str = field(repr=False)
    """Where they go: an address, or `topics` or `events`."""
    topics: str
    """The topic, or the topics of a pattern (`orders.*`), that are carried."""
    rename: str = ""
    """What they are called at the other end, as `eu.orders.*`; the same without it."""
    filter: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which messages are wanted: for each field of their metadata its texts, of which one may end with `*`."""
    start: str = "latest"
    """Where a bridge that is new begins: `latest`, or `earliest` with all that is there."""
    group: str = ""
    """Of a backend as the source: the group that keeps the position there; the name of the bridge without it."""
    keep: str = "payload"
    """Into topics: `payload` records what a message holds; `message` all of it, also if it is signed or encrypted."""
    make_topics: bool = False
    """Into topics: whether those that are missing are made. Without it the bridge waits for them."""
    dead_letter: str = ""
    """A durable topic for messages that cannot be carried; it is made. Without it they are logged and dropped."""
    give_up_seconds: float = 0.0
    """How long a message that the target refuses is tried before it is a dead letter; 0 for ever."""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    """Bound of a whole message, in bytes."""

    @property
    def backend(self) -> str:
        """The address among its ends."""
        return self.target if self.source in ROOT else self.source


# Where a bridge carries messages: names, wanted messages, hops (B-12, B-16, B-19). Pure.

MAX_HOPS = 16
HOP_DIGITS = 16
FIELDS = ("publisher", "key", "namespace", "priority", "content_type", "correlation_id")
"""What a filter looks at, beside ``labels.<name>``."""
LABEL = "labels."
_HOPS = re.compile(rf"[0-9a-f]{{{HOP_DIGITS}}}(,[0-9a-f]{{{HOP_DIGITS}}}){{0,{MAX_HOPS - 1}}}", re.ASCII)


class Route:
    """Which topics a bridge carries, and what they are called at the other end.

    >>> Route("orders.*", "eu.orders.*").renamed("orders.created")
    'eu.orders.created'
    """

    def __init__(self, pattern: str, rename: str = "") -> None:
        """ConfigurationError if only one of them has a ``*``."""
        self.pattern, self.rename = pattern, rename or pattern
        if _is_wide(self.pattern) != _is_wide(self.rename):
            raise ConfigurationError("either both have a '*' at their end, or none: write 'orders.*' and 'eu.orders.*'")
        self._kept = len(self.pattern.removesuffix("*"))
        self._before = self.rename.removesuffix("*")

    def covers(self, topic: str) -> bool:
        """Whether messages of a topic are carried."""
        return matches(self.pattern, topic)

    def renamed(self, topic: str) -> str:
        """What a topic that is covered is called at the other end. InvalidNameError if that is too long."""
        if self.pattern == self.rename:
            return topic
        return check_topic(self._before + topic[self._kept :] if _is_wide(self.pattern) else self.rename)


def _is_wide(pattern: str) -> bool:
    return pattern.endswith("*")


class Filter:
    """Which messages are wanted: each field has one of its texts, of which one may end with ``*``."""

    def __init__(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """ConfigurationError for a field that there is not."""
        unknown = [name for name in wanted if name not in FIELDS and not (name.startswith(LABEL) and name != LABEL)]
        if unknown:
            raise ConfigurationError(f"there is no field {min(unknown)!r}: use {', '.join(FIELDS)} or labels.NAME")
        self._wanted = tuple(wanted.items())

    def wants(self, envelope: bytes, key: str | None) -> bool:
        """Whether a valid message is wanted. Its payload is not looked at."""
        if not self._wanted:
            return True
        view = MessageView(envelope)
        return all(_fits(_field(view, key, name), texts) for name, texts in self._wanted)


def _field(view: MessageView, key: str | None, name: str) -> str | None:
    if name.startswith(LABEL):
        return view.labels.get(name[len(LABEL) :])
    fields: Mapping[str, str | None] = {
        "publisher": view.publisher_id,
        "key": key,
        "namespace": view.namespace,
        "priority": str(view.priority),
        "content_type": view.content_type,
        "correlation_id": view.correlation_id,
    }
    return fields[name]


def _fits(value: str | None, texts: Sequence[str]) -> bool:
    if value is None:
        return False
    return any(value.startswith(text[:-1]) if text.endswith("*") else value == text for text in texts)


def hop_of(*parts: str) -> str:
    """The hop of a place that has no lane id."""
    return sha256("\0".join(parts).encode()).hexdigest()[:HOP_DIGITS]


def hop_of_lane(lane: str) -> str:
    """The hop of a durable topic."""
    return lane[:HOP_DIGITS]


def read_hops(text: str) -> tuple[str, ...]:
    """What stands beside a message; anything else than hops is none."""
    return tuple(text.split(",")) if _HOPS.fullmatch(text) else ()


def write_hops(hops: Sequence[str]) -> str:
    """As it stands beside a message."""
    return ",".join(hops)


Mistakes = Iterator[tuple[str, str, str]]
"""The key, what is wrong, what to do."""
Refuse = Callable[[str, str], Exception]


def end_of(text: str) -> str:
    """An end as it is written: ``topics``, ``events``, or an address. ConfigurationError, without credentials."""
    if text not in ROOT:
        parse_address(text)
    return text


def bridge_mistakes(bridge: Mapping[str, Any], sections: Collection[str], journal: Mapping[str, Any]) -> Mistakes:
    """Of one table whose settings are right by themselves. ``sections`` are those of the file."""
    source, target = bridge.get("source"), bridge.get("target")
    if source is None or target is None:
        return  # it was reported already
    if (source in ROOT) == (target in ROOT):
        yield (
            "target",
            "one of source and target must be the root, the other a backend",
            'write "topics" or "events" once',
        )
        return
    yield from _root_mistakes(bridge, source if source in ROOT else target, sections, journal)
    if bridge.get("dead_letter") and "topics" not in sections:
        yield "dead_letter", "dead_letter is a durable topic", "add [topics]"
    for key in ("keep", "make_topics"):
        if key in bridge and target != TOPICS:
            yield key, f"{key} is for bridges into topics", "take it out"
    backend = parse_address(target if source in ROOT else source)
    has_groups = backend.options.get("form") != "pubsub"
    if "group" in bridge and (source in ROOT or not has_groups):
        yield "group", "a group is of a backend that keeps positions, as the source", "take it out"
    if "rename" in bridge and target == EVENTS:
        yield "rename", "events keep the topic that they say", "take it out"
    yield from _route_mistakes(bridge)


def _route_mistakes(bridge: Mapping[str, Any]) -> Mistakes:
    try:
        if "topics" in bridge:
            Route(bridge["topics"], bridge.get("rename", ""))
    except ConfigurationError as error:
        yield "rename", *_parted(error)
    try:
        Filter(bridge.get("filter", {}))
    except ConfigurationError as error:
        yield "filter", *_parted(error)


def _root_mistakes(
    bridge: Mapping[str, Any], root: str, sections: Collection[str], journal: Mapping[str, Any]
) -> Mistakes:
    key = "source" if bridge["source"] == root else "target"
    if root == TOPICS and "topics" not in sections:
        yield key, "topics are hosted by [topics]", "add [topics]"
    if root == EVENTS and key == "source":
        patterns: Sequence[str] = journal.get("topics", ())
        wanted = str(bridge.get("topics", ""))
        if not any(_covers(one, wanted) for one in patterns):
            yield (
                "topics",
                f"the journal does not record {wanted!r}, and so keeps nothing for the bridge",
                ("add it to topics of [journal]"),
            )


def _covers(pattern: str, wanted: str) -> bool:
    """Whether all of a pattern lies in another."""
    return pattern == wanted or names.matches(
        pattern, wanted.removesuffix(".*") + ".x" if wanted.endswith("*") else wanted
    )


def _parted(error: ConfigurationError) -> tuple[str, str]:
    what, _, todo = str(error).partition(": ")
    return what, todo or "correct it"


def too_many(count: int) -> str:
    """What is wrong with so many bridges; nothing if nothing is."""
    return f"{count} bridges are too many" if count > MAX_BRIDGES else ""
