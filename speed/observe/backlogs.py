"""What waits in the subscriptions of durable topics, the worst first, as their host tells it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from speed import Node
from speed.errors import ApplicationError, SpeedError

TOPICS = "speedd.topics"
BEHIND_SECONDS = 60.0
"""A subscription whose oldest message waits for longer is behind."""
MAX_AT_ONCE = 8
MAX_WATCHED = 64
"""So many topics are looked at again and again."""
BROKEN, UNCONSUMED, FULL, BEHIND, WELL, UNUSED = range(6)


class Backlog(NamedTuple):
    """One subscription; of a topic without one, and of one that cannot be used, ``subscription`` is empty.

    ``rank`` is how bad it is, 0 the worst; ``state`` says why, in a word or two.
    """

    rank: int
    topic: str
    subscription: str
    state: str
    backlog: int = 0
    oldest_seconds: float | None = None
    in_flight: int = 0
    consumers: int = 0
    dead: int = 0

    def described(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {name: value for name, value in self._asdict().items() if name != "rank"}


def backlogs(node: Node, topics: Sequence[str] = (), host: str = TOPICS, timeout: float = 30.0) -> list[Backlog]:
    """Of ``topics``, or of all that ``node`` may use; ``timeout`` in seconds is for each question.

    Of topics that are named an error says what is wrong: what ``Topic.describe`` raises. Of all, those that are gone
    meanwhile are left out. Raises what ``Node.call`` does.
    """
    broken: list[Backlog] = []
    chosen: Sequence[str] = topics
    if not topics:
        listed = node.call(host, "topics.list", timeout=timeout)
        broken = [Backlog(BROKEN, one["topic"], "", f"broken: {one['broken']}") for one in listed if "broken" in one]
        chosen = [one["topic"] for one in listed if "broken" not in one]

    def describe(name: str) -> dict[str, Any]:
        try:
            return node.topic(name, host=host).describe(timeout=timeout)
        except ApplicationError:
            if topics:
                raise
            return {}

    with ThreadPoolExecutor(MAX_AT_ONCE, "speed-topics") as asking:
        described = list(asking.map(describe, chosen))
    rows = [row for name, one in zip(chosen, described, strict=True) if one for row in _rows_of(name, one)]
    return sorted([*broken, *rows], key=lambda one: (one.rank, -one.backlog, one.topic, one.subscription))


def waiting(node: Node, timeout: float, host: str = TOPICS) -> list[Backlog]:
    """The subscriptions in which something waits; none where no host is there, or it tells ``node`` nothing."""
    try:
        listed = node.call(host, "topics.list", timeout=timeout)
        used = [one["topic"] for one in listed if one.get("subscriptions")][:MAX_WATCHED]
        return [one for one in backlogs(node, used, host, timeout) if one.backlog] if used else []
    except (SpeedError, AttributeError, LookupError, TypeError, ValueError):
        return []  # `speed topic overview` tells what is wrong


def _rows_of(topic: str, described: dict[str, Any]) -> Iterator[Backlog]:
    if described["damaged"]:
        yield Backlog(BROKEN, topic, "", f"damaged: see `speed topic subscriptions {topic}`")
    for one in described["subscriptions"]:
        backlog, consumers = one["backlog"], len(one["consumers"])
        oldest = max(0.0, time.time() - one["oldest_ms"] / 1000) if backlog and one.get("oldest_ms") else None
        rank, state = _state(one, oldest)
        yield Backlog(
            rank, topic, one["subscription"], state, backlog, oldest, one["in_flight"], consumers, one["dead"]
        )
    if not described["subscriptions"]:
        yield Backlog(UNUSED, topic, "", "no subscription")


def _state(one: dict[str, Any], oldest_seconds: float | None) -> tuple[int, str]:
    if one["backlog"] and not one["consumers"]:
        return UNCONSUMED, "nobody consumes"
    if one["full"]:
        return FULL, "too much unacknowledged"
    if oldest_seconds is not None and oldest_seconds > BEHIND_SECONDS:
        return BEHIND, "behind"
    return WELL, ""
