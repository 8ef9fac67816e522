"""What is wrong with ``[[bridge]]`` tables: each alone, and beside the sections that they need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from speed.bridges.address import parse_address
from speed.bridges.route import Filter, Route
from speed.bridges.settings import EVENTS, MAX_BRIDGES, ROOT, TOPICS
from speed.errors import ConfigurationError
from speed.wire import names

Told = Iterator[tuple[str, str, str]]
"""The key, what is wrong, what to do."""
Refuse = Callable[[str, str], Exception]


def end_of(text: str) -> str:
    """An end as it is written: ``topics``, ``events``, or an address. ConfigurationError, without credentials."""
    if text not in ROOT:
        parse_address(text)
    return text


def bridge_mistakes(bridge: Mapping[str, Any], sections: Collection[str], journal: Mapping[str, Any]) -> Told:
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


def _route_mistakes(bridge: Mapping[str, Any]) -> Told:
    try:
        if "topics" in bridge:
            Route(bridge["topics"], bridge.get("rename", ""))
    except ConfigurationError as error:
        yield "rename", *_parted(error)
    try:
        Filter(bridge.get("filter", {}))
    except ConfigurationError as error:
        yield "filter", *_parted(error)


def _root_mistakes(bridge: Mapping[str, Any], root: str, sections: Collection[str], journal: Mapping[str, Any]) -> Told:
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
